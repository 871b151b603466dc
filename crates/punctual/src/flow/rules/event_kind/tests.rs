//! Kinds of events: reading and refusing, recipients, and pointless messages.

use super::*;
use crate::base::id::TemplateId;
use crate::delivery::rules::event_values::EventValues;
use crate::delivery::rules::template::review::review;
use crate::delivery::rules::template::{MessageTemplate, TemplateDefinition, TemplateSet};
use serde_json::json;

fn booking() -> Value {
    json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": ["guest.mobile", "guest.phone"], "email": "guest.email", "name": "guest.name",
            "locale": "guest.locale", "ref": "guest.id", "timeZone": "guest.zone"},
        "cancelWhen": {"questionId": "entity.status", "op": "in", "value": ["Cancelled", "NoShow"]},
        "related": {"listing": {"type": "listing", "idPath": "listingId"},
            "host": {"type": "person", "idPath": "entity.hostId"}},
        "sample": {"bookingId": "b1", "listingId": 7, "nights": 3, "checkIn": "2026-05-14T21:00:00Z",
            "guest": {"phone": "+9647700000001", "name": "Ada", "locale": "ar-IQ"}}})
}

fn kind(json: &Value) -> EventKind {
    let mut problems = Problems::default();
    EventKind::read(json, &mut problems).unwrap_or_else(|| panic!("{json}: {problems}"))
}

fn entity(kind: &str, id: &str) -> Entity {
    Entity { kind: kind.into(), id: id.into() }
}

/// PRD-18: a document is kept as it was written, without what is not the writer's to say.
#[test]
fn prd_18_a_document_reads_what_it_shows() {
    let mut shown = booking();
    for (name, value) in
        [("kind", json!("booking.confirmed")), ("version", json!(3)), ("schema", json!(null))]
    {
        shown[name] = value;
    }
    let read = kind(&shown);
    assert_eq!(read.document(), &booking());
    assert!(read.comes_by("booking.events") && !read.comes_by("other"));
    assert!(kind(&json!({"recipients": {"email": "to"}})).comes_by("anything"));
    assert_eq!(EventKind::kept(&booking()).document(), &booking());
}

/// PRD-18: every problem of a document is reported with its path.
#[test]
fn prd_18_a_bad_document_is_told_everything() {
    let with = |name: &str, value: Value| {
        let mut document = booking();
        document[name] = value;
        document
    };
    let leaf = |path: &str| json!({"questionId": path, "op": "==", "value": 1});
    let many: Value = (0..11).map(|n| (format!("r{n}"), json!({"type": "t", "idPath": "x"}))).collect();
    let table = [
        (json!([]), "must be an object with topic"),
        (json!({}), "recipients: is missing: where in the payload"),
        (
            json!({"recipients": {"phone": "a"}, "recipiants": 1}),
            "recipiants: `recipiants` is not a field; did you mean",
        ),
        (json!({"recipients": "phone"}), "recipients: must be an object with phone"),
        (json!({"recipients": {}}), "recipients: names no address"),
        (json!({"recipients": {"name": "guest.name"}}), "recipients: names no address"),
        (json!({"recipients": {"phone": 5}}), "recipients.phone: must be a string, not a number"),
        (json!({"recipients": {"phone": "guest..phone"}}), "recipients.phone: `guest..phone` is not a path"),
        (json!({"recipients": {"phone": []}}), "recipients.phone: is empty"),
        (json!({"recipients": {"phone": ["a", ""]}}), "recipients.phone[1]: is empty: write a path"),
        (json!({"recipients": {"phone": vec!["a"; 9]}}), "recipients.phone: has 9 items, at most 8"),
        (json!({"recipients": {"phone": "$"}}), "recipients.phone: `$` is the element of a list"),
        (
            json!({"recipients": {"phone": "a", "fone": "b"}}),
            "recipients.fone: `fone` is not a field; did you mean `phone`?",
        ),
        (json!({"recipients": {"phone": "a", "each": "x["}}), "recipients.each: `x[` is not a path"),
        (with("topic", json!("a/b")), "topic: must not contain `/`"),
        (with("topic", json!(7)), "topic: must be a string"),
        (with("entityType", json!(null)), "entityType: is missing: the type of what entityIdPath leads to"),
        (with("entityType", json!("")), "entityType: must not be empty"),
        (with("entityIdPath", json!("a.$")), "entityIdPath: `a.$` is not a path"),
        (
            with("cancelWhen", json!({"questionId": "entity.x", "op": "is", "value": 1})),
            "cancelWhen.op: `is` is not an operator",
        ),
        (
            with("cancelWhen", leaf("status")),
            "cancelWhen: `status` leads nowhere: a path begins with `entity.`",
        ),
        (
            with("cancelWhen", json!({"any": [leaf("payload.a"), leaf("recipient.b")]})),
            "cancelWhen: `recipient.b` leads nowhere",
        ),
        (with("requireEntity", json!("yes")), "requireEntity: must be true or false"),
        (with("related", json!([])), "related: must be an object such as"),
        (with("related", json!({"listing": {}})), "related.listing.type: is missing"),
        (
            with("related", json!({"listing": {"type": "l", "idpath": "x"}})),
            "related.listing.idpath: `idpath` is not a field; did you mean `idPath`?",
        ),
        (
            with("related", json!({"recipient": {"type": "l", "idPath": "x"}})),
            "related.recipient: means something else",
        ),
        (
            with("related", json!({"my listing": {"type": "l", "idPath": "x"}})),
            "related.my listing: is not a name for templates",
        ),
        (
            with("related", json!({"A": {"type": "l", "idPath": "x"}, "a": {"type": "l", "idPath": "x"}})),
            "related.a: is there twice",
        ),
        (with("related", many), "related: has 11 names, at most 10"),
        (
            with("secrets", json!(["token"])),
            "secrets: cannot be used yet: this version does not seal secrets",
        ),
        (with("secrets", json!(["a..b"])), "secrets[0]: `a..b` is not a path"),
        (with("secrets", json!("token")), "secrets: must be a list"),
        (
            with("schema", json!({"type": "objekt"})),
            "schema.type: `objekt` is not a type; did you mean `object`?",
        ),
        (with("sample", json!("x")), "sample: must be a payload, an object"),
        (with("schema", json!({"required": ["price"]})), "sample.price: is missing"),
        (with("sample", json!({"x": "y".repeat(limits_bytes())})), "is larger than 256 KiB"),
    ];
    for (document, want) in table {
        let mut problems = Problems::default();
        assert!(EventKind::read(&document, &mut problems).is_none(), "{document}");
        assert!(problems.to_string().contains(want), "{want}: {problems}");
    }
    let mut problems = Problems::default();
    let all = json!({"topic": "", "recipients": {"phone": "."}, "cancelWhen": 3, "requireEntity": 1, "x": 1});
    assert!(EventKind::read(&all, &mut problems).is_none());
    let paths: Vec<&str> = problems.0.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(
        paths,
        ["x", "topic", "recipients.phone", "cancelWhen", "requireEntity"],
        "all of them at once"
    );
    assert!(EventKind::read(&with("secrets", json!([])), &mut Problems::default()).is_some());
}

fn limits_bytes() -> usize {
    limits::EVENT_KIND_BYTES_MAX
}

/// PRD-18: the entity of an event.
#[test]
fn prd_18_an_event_names_its_entity() {
    let kind = kind(&booking());
    let payload = json!({"bookingId": 12345});
    assert_eq!(kind.entity_of(None, &payload), Some(entity("booking", "12345")));
    let own = entity("stay", "s1");
    assert_eq!(kind.entity_of(Some(&own), &payload), Some(own), "the event's own word counts");
    assert_eq!(kind.entity_of(None, &json!({"bookingId": " "})), None);
    assert_eq!(kind.entity_of(None, &json!({"bookingId": {"x": 1}})), None);
}

fn told(kind: &EventKind, payload: &Value, snapshot: &EntitySnapshot) -> Vec<String> {
    let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let all = kind.recipients(payload, snapshot);
    all.map(|r| [&r.phone, &r.email, &r.name, &r.locale, &r.reference, &r.zone].map(shown).join(" "))
        .collect()
}

/// PRD-18, FAN-9: recipients, alone or in a list.
#[test]
fn prd_18_recipients_are_found_by_their_paths() {
    let guest = json!({"guest": {"mobile": null, "phone": " +964 770 ", "email": "a@b.c", "name": "Ada",
        "locale": "en_US", "id": 7, "zone": "Asia/Baghdad"}});
    let alone = kind(&booking());
    let unknown = EntitySnapshot::Unknown;
    assert_eq!(told(&alone, &guest, &unknown), ["+964 770 a@b.c Ada en-US 7 Asia/Baghdad"]);
    let mobile = json!({"guest": {"mobile": "1", "phone": "2", "locale": "what is this"}});
    assert_eq!(told(&alone, &mobile, &unknown), ["1 - - - - -"]);
    assert_eq!(told(&alone, &json!({"guest": {"name": "Nobody"}}), &unknown), Vec::<String>::new());
    let long = json!({"guest": {"phone": "1".repeat(300), "email": "a@b.c"}});
    assert_eq!(told(&alone, &long, &unknown), ["- a@b.c - - - -"]);

    let each = kind(&json!({"recipients": {"each": "guests", "email": "$", "phone": "tel",
        "name": ["name", "payload.title"], "locale": "entity.language"}}));
    let state = EntitySnapshot::State(json!({"language": "ar"}));
    let list = json!({"title": "Party", "guests": ["a@b.c", {"tel": "5", "name": "Ada"}, null, 6, {"x": 1}]});
    let all = told(&each, &list, &state);
    assert_eq!(all, ["- a@b.c Party ar - -", "5 - Ada ar - -", "- 6 Party ar - -"]);
    let first = each.recipients(&list, &state).nth(1).unwrap();
    assert_eq!(first.element.as_deref(), Some(&list["guests"][1]));
    assert_eq!(
        told(&each, &json!({"guests": {"tel": "5"}}), &unknown),
        ["5 - - - - -"],
        "one alone is a list"
    );
    assert_eq!(told(&each, &json!({"title": "x"}), &unknown), Vec::<String>::new());
    let thin = kind(&json!({"recipients": {"phone": "entity.guest.phone"}}));
    let state = EntitySnapshot::State(json!({"guest": {"phone": "9"}}));
    assert_eq!(told(&thin, &json!({}), &state), ["9 - - - - -"], "from the entity's state");
    assert_eq!(
        told(&thin, &json!({"guest": {"phone": "8"}}), &unknown),
        ["8 - - - - -"],
        "the payload stands in"
    );
    let bare = EventKind::undefined();
    assert_eq!(
        told(bare, &json!({"recipient": {"phone": "1"}, "email": "x@y.z"}), &unknown),
        ["1 x@y.z - - - -"]
    );
}

/// NTF-3, PRD-18: when a message is pointless, and why.
#[test]
fn ntf_3_a_pointless_message_is_told_why() {
    let code = |document: &Value, snapshot: &EntitySnapshot, payload: &Value| {
        kind(document).is_pointless(snapshot, payload).map(|reason| reason.code())
    };
    let mut strict = booking();
    strict["requireEntity"] = json!(true);
    let state = |status: &str| EntitySnapshot::State(json!({"status": status, "guest": {"vip": true}}));
    let (plain, empty) = (booking(), json!({}));
    let table = [
        (&plain, state("Confirmed"), &empty, None),
        (&plain, state("Cancelled"), &empty, Some("CancelWhen")),
        (&plain, EntitySnapshot::Deleted, &empty, Some("EntityDeleted")),
        (&plain, EntitySnapshot::Unknown, &empty, None),
        (&strict, EntitySnapshot::Unknown, &empty, Some("EntityUnknown")),
        (&strict, state("Confirmed"), &empty, None),
    ];
    for (document, snapshot, payload, want) in table {
        assert_eq!(code(document, &snapshot, payload), want, "{snapshot:?}");
    }
    let cancelled = json!({"status": "Cancelled"});
    assert_eq!(
        code(&plain, &EntitySnapshot::Unknown, &cancelled),
        Some("CancelWhen"),
        "the payload stands in"
    );
    assert_eq!(code(&plain, &state("Confirmed"), &cancelled), None, "the entity's own state counts");
    let said = kind(&plain).is_pointless(&state("NoShow"), &empty).unwrap().to_string();
    assert!(said.contains("entity.status") && said.contains("NoShow"), "{said}");
    let mut both = booking();
    both["cancelWhen"] = json!({"all": [{"questionId": "entity.guest.vip", "op": "==", "value": true},
        {"questionId": "payload.price", "op": "<", "value": 10}]});
    assert_eq!(code(&both, &state("x"), &json!({"price": 5})), Some("CancelWhen"));
    assert_eq!(code(&both, &state("x"), &json!({"price": 50})), None);
}

fn template(json: &Value) -> MessageTemplate {
    let mut problems = Problems::default();
    let definition = TemplateDefinition::read(json, &mut problems).unwrap_or_else(|| panic!("{problems}"));
    let texts = definition.compile().unwrap();
    MessageTemplate { id: TemplateId(1), version: 1, definition, texts }
}

/// A tenant in a zone.
fn set_in(zone: &str) -> TemplateSet {
    TemplateSet { zone: Zone::find(zone).unwrap(), ..TemplateSet::default() }
}

/// NTF-9, NTF-11: one flat map of payload, entity, recipient and link; related entities by their names;
/// dates in the recipient's locale and the entity's zone, else the tenant's.
#[test]
fn ntf_9_a_message_is_worded_from_all_that_is_known() {
    let kind = kind(&booking());
    let payload = json!({"bookingId": "b1", "listingId": 7, "nights": 3, "checkIn": "2026-05-14T21:30:00Z",
        "guest": {"phone": "+964", "name": "Ada", "locale": "ar-IQ"}, "status": "new"});
    let snapshot =
        EntitySnapshot::State(json!({"status": "Confirmed", "room": {"name": "Blue"}, "hostId": "h1",
        "timeZone": "Asia/Baghdad"}));
    let ids = kind.related_ids(&payload, &snapshot);
    assert_eq!(ids, [("host", entity("person", "h1")), ("listing", entity("listing", "7"))]);
    let related = [
        ("listing", json!({"name": "Sea View", "geo": {"city": "Basra"}})),
        ("host", json!({"name": "Eve"})),
    ];
    let about = entity("booking", "b1");
    let recipient = kind.recipients(&payload, &snapshot).next().unwrap();
    let given = [("link", "https://s.example/1")];
    let of = EventValues {
        payload: &payload,
        entity: Some(&about),
        snapshot: &snapshot,
        recipient: &recipient,
        related: &related,
        given: &given,
        payload_prefix: None,
    };
    let say = |language: &str, body: &str, of: &EventValues<'_>, zone: &str| {
        let json =
            json!({"eventType": "booking.confirmed", "channel": "SMS", "language": language, "body": body});
        let filled = kind.word(&template(&json), of, &set_in(zone));
        assert!(filled.warnings.is_empty(), "{body}: {:?}", filled.warnings);
        filled.body
    };
    let table = [
        ("{{guestName}} {{guest.name}} {{GUEST.NAME}}", "Ada Ada Ada"),
        ("{{recipientName}} {{recipient.phone}} {{recipient.locale}}", "Ada +964 ar-IQ"),
        ("{{status}} {{entity.status}} {{entityStatus}} {{payload.status}}", "new Confirmed Confirmed new"),
        ("{{roomName}} {{entityRoomName}}", "Blue Blue"),
        ("{{listingName}} {{listing.geo.city}} {{listingGeoCity}} {{hostName}}", "Sea View Basra Basra Eve"),
        ("{{entityId}} {{entityType}} {{Link}}", "b1 booking https://s.example/1"),
    ];
    for (body, want) in table {
        assert_eq!(say("en", body, &of, "UTC"), want, "{body}");
    }
    let dated = "{{checkIn | date:datetime}}";
    assert_eq!(
        say("ar", dated, &of, "UTC"),
        "١٥ أيار ٢٠٢٦ في ١٢:٣٠ ص",
        "the reader's region, the entity's zone"
    );
    assert_eq!(say("en-GB", dated, &of, "UTC"), "15 May 2026 at 00:30");
    let unknown = EventValues { snapshot: &EntitySnapshot::Unknown, ..of };
    assert_eq!(
        say("en-GB", dated, &unknown, "America/New_York"),
        "14 May 2026 at 17:30",
        "the tenant's zone"
    );
    assert_eq!(
        say("en", "{{entity.nights}} {{entityGuestName}}", &unknown, "UTC"),
        "3 Ada",
        "the payload stands in"
    );
    let dubai = [("listing", json!({"timeZone": "Asia/Dubai"}))];
    let there = EventValues { related: &dubai, ..unknown };
    assert_eq!(say("en-GB", dated, &there, "UTC"), "15 May 2026 at 01:30", "where the related entity is");
}

/// NTF-9: an element of the list is the recipient's own.
#[test]
fn ntf_9_an_element_is_named_behind_recipient() {
    let kind = kind(&json!({"recipients": {"each": "guests", "email": "mail"}}));
    let payload = json!({"title": "Party", "guests": [{"mail": "a@b.c", "seat": {"row": 4}}]});
    let recipient = kind.recipients(&payload, &EntitySnapshot::Unknown).next().unwrap();
    let of = EventValues {
        payload: &payload,
        entity: None,
        snapshot: &EntitySnapshot::Unknown,
        recipient: &recipient,
        related: &[],
        given: &[],
        payload_prefix: None,
    };
    let json = json!({"eventType": "e", "channel": "Email", "language": "en", "subject": "{{title}}",
        "body": "{{recipient.seat.row}} {{recipientSeatRow}} {{recipientEmail}} {{nobody}}",
        "missing": "asWritten",
        "providerTemplate": {"key": "k", "params": ["{{title}}\n{{nobody}}"], "language": "en"}});
    let filled = kind.word(&template(&json), &of, &TemplateSet::default());
    assert_eq!(filled.body, "4 4 a@b.c {{nobody}}");
    let own = filled.provider.unwrap();
    assert_eq!(
        own.to_json(),
        json!({"key": "k", "params": ["Party\n{{nobody}}"], "language": "en", "entityId": null})
    );
    let told: Vec<&str> = filled.warnings.iter().map(|w| w.path.as_str()).collect();
    assert_eq!(told, ["body", "providerTemplate.params[0]"]);
}

/// NTF-10: unknown names are reported with the nearest known one.
#[test]
fn ntf_10_unknown_placeholders_are_told_with_the_nearest() {
    let sampled = kind(&booking());
    let mut bare = booking();
    bare.as_object_mut().unwrap().remove("sample");
    let bare = kind(&bare);
    let doubt = |kind: &EventKind, body: &str| {
        let json =
            json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en", "body": body});
        let made = template(&json);
        let sample = kind.sample_of(&made);
        review(&made.definition, &made.texts, &kind.known("booking.confirmed"), sample.as_ref()).to_string()
    };
    let known = "{{guestName}} {{payload.nights}} {{recipient.phone}} {{listingAnything}} {{entity.room}} \
        {{bookingid}}";
    assert_eq!(doubt(&sampled, known), "");
    let table = [
        ("{{guestNmae}}", "body: `{{guestNmae}}` is not known; did you mean `{{guestName}}`?"),
        ("{{guest.nam}}", "did you mean `{{guest.name}}`?"),
        ("{{recipient.fone}}", "did you mean `{{recipient.phone}}`?"),
        ("{{colour}}", "body: `{{colour}}` is not known: the sample of booking.confirmed does not have it"),
    ];
    for (body, want) in table {
        let said = doubt(&sampled, body);
        assert!(said.contains(want), "{body}: {said}");
    }
    let said = doubt(&bare, "{{colour}} {{guestName}} {{recipientLocale}}");
    let want = "body: `{{colour}}` is not known: booking.confirmed has neither a sample nor a schema to know \
        it by; the nearest known name is `{{";
    assert!(said.starts_with(want) && said.matches("is not known").count() == 1, "{said}");
    let said = doubt(&bare, "{{guest.phnoe}}");
    assert!(said.contains("did you mean `{{guest.phone}}`?"), "{said}");
    let schema = json!({"recipients": {"email": "to"},
        "schema": {"properties": {"order": {"properties": {"id": {}}}}}});
    let schema = kind(&schema);
    let said = doubt(&schema, "{{orderId}} {{to}} {{total}}");
    let want = "body: `{{total}}` is not known: the schema of booking.confirmed does not have it; \
        the nearest known name is `{{to}}`";
    assert_eq!(said, want);
    let twice = doubt(&sampled, "{{colour}} {{colour}}");
    assert_eq!(twice.matches("colour").count(), 1, "{twice}");
}

/// NTF-10: the length of an SMS is reported with the sample's values.
#[test]
fn ntf_10_sms_are_counted_with_the_sample() {
    let kind = kind(&booking());
    let say = |body: String| {
        let json =
            json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "ar", "body": body});
        let made = template(&json);
        let sample = kind.sample_of(&made);
        review(&made.definition, &made.texts, &kind.known("booking.confirmed"), sample.as_ref()).to_string()
    };
    assert_eq!(say(format!("{}{{{{guestName}}}}", "ش".repeat(67))), "");
    let said = say(format!("{}{{{{guestName}}}}", "ش".repeat(68)));
    assert_eq!(said, "body: is 71 characters of UCS-2 with the sample's values: 2 SMS");
    let said = say("ش".repeat(71));
    assert_eq!(said, "body: is 71 characters of UCS-2 without its values: 2 SMS or more");
}

/// NTF-9: prints what a message costs: a booking's confirmation by WhatsApp with its recipient, entity and
/// related listing. Under 20 µs in a release build; time is not asserted on a busy machine.
#[test]
fn ntf_9_what_wording_a_message_costs() {
    let kind = kind(&booking());
    let payload = json!({"bookingId": "b1", "listingId": 7, "nights": 3, "checkIn": "2026-05-14T21:30:00Z",
        "guest": {"phone": "+9647700000001", "name": "Ada", "locale": "ar-IQ"}, "total": 1234.5});
    let snapshot = EntitySnapshot::State(json!({"status": "Confirmed", "room": {"name": "Blue"}}));
    let related = [("listing", json!({"name": "Sea View", "city": "Basra"}))];
    let template =
        template(&json!({"eventType": "booking.confirmed", "channel": "WhatsApp", "language": "ar",
        "body": "Dear {{guestName}}, {{listingName}} in {{listing.city}} is yours from \
            {{checkIn | date:long}} for {{nights}} nights: {{total | number:2}}. \
            Room {{roomName | default:\"-\"}}, booking {{bookingId}}."}));
    let (set, about) = (set_in("Asia/Baghdad"), entity("booking", "b1"));
    let begin = crate::base::clock::monotonic();
    for _ in 0..10_000 {
        let recipient = kind.recipients(&payload, &snapshot).next().unwrap();
        let of = EventValues {
            payload: &payload,
            entity: Some(&about),
            snapshot: &snapshot,
            recipient: &recipient,
            related: &related,
            given: &[],
            payload_prefix: None,
        };
        assert!(kind.word(&template, &of, &set).warnings.is_empty());
    }
    println!("{:?} to word one message", begin.elapsed() / 10_000);
}
