use super::*;
use crate::delivery::rules::template::{TemplateDefinition, TemplateScope};
use crate::notification::rules::notification::fallback::RefusedDelivery;
use serde_json::json;

fn template(id: i64, channel: &str, language: &str) -> MessageTemplate {
    let json = json!({"eventType": "booking.confirmed", "channel": channel, "language": language,
        "subject": null, "body": "Hello {{guestName}}"});
    let mut problems = Problems::default();
    let definition = TemplateDefinition::read(&json, &mut problems).unwrap_or_else(|| panic!("{problems}"));
    let texts = definition.compile().unwrap();
    MessageTemplate { id: TemplateId(id), version: 3, definition, texts }
}

fn set(templates: Vec<MessageTemplate>) -> TemplateSet {
    TemplateSet { templates, ..TemplateSet::default() }
}

fn kind(edit: impl FnOnce(&mut Value)) -> EventKind {
    let mut json = json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "guest.phone", "email": "guest.email", "locale": "guest.locale"}});
    edit(&mut json);
    EventKind::kept(&json)
}

fn planned(
    kind: Option<&EventKind>,
    set: &TemplateSet,
    payload: &Value,
    again: Option<&str>,
) -> NotificationPlan {
    planned_for(kind, set, payload, again, &|_| None)
}

fn planned_for(
    kind: Option<&EventKind>,
    set: &TemplateSet,
    payload: &Value,
    again: Option<&str>,
    wants: &dyn Fn(&str) -> Option<String>,
) -> NotificationPlan {
    let event = EventToPlan {
        id: MessageId(9),
        topic: "booking.events",
        kind: "booking.confirmed",
        payload,
        entity: None,
    };
    let reach = |named: &str| match named.contains(':') {
        true => named.to_owned(),
        false => format!("memory:{}", named.to_lowercase()),
    };
    plan(&event, kind, set, &EntitySnapshot::Unknown, &RecipientLookup { reach: &reach, wants }, again)
}

fn keys(plan: &NotificationPlan) -> Vec<String> {
    let NotificationPlan::Deliveries(all) = plan else { panic!("{plan:?}") };
    all.iter().map(|one| format!("{} -> {:?}", one.key, one.address)).collect()
}

/// NTF-5: keys are exactly as specified, for one recipient, for each of several, and for a resend.
#[test]
fn ntf_5_keys_are_exactly_as_specified() {
    let set = set(vec![template(7, "WhatsApp", "en"), template(8, "Email", "en")]);
    let payload = json!({"bookingId": 12345, "guest": {"phone": "+919876543210", "email": "a@b.example"}});
    let one = kind(|_| {});
    assert_eq!(
        keys(&planned(Some(&one), &set, &payload, None)),
        [
            "12345:booking.confirmed:Email:8 -> Some(\"a@b.example\")",
            "12345:booking.confirmed:WhatsApp:7 -> Some(\"+919876543210\")",
        ]
    );
    assert_eq!(
        keys(&planned(Some(&one), &set, &payload, Some("r1"))),
        [
            "manual:12345:Email:8:r1 -> Some(\"a@b.example\")",
            "manual:12345:WhatsApp:7:r1 -> Some(\"+919876543210\")",
        ]
    );
    let each = kind(|k| k["recipients"] = json!({"each": "guests", "phone": "$"}));
    let many = json!({"bookingId": "b", "guests": ["+1", "+2"]});
    assert_eq!(
        keys(&planned(Some(&each), &set, &many, None))
            .iter()
            .filter(|key| key.contains("WhatsApp"))
            .collect::<Vec<_>>(),
        [
            "b:booking.confirmed:WhatsApp:7:+1 -> Some(\"+1\")",
            "b:booking.confirmed:WhatsApp:7:+2 -> Some(\"+2\")",
        ]
    );
}

/// NTF-2, NTF-3: the plan for an event.
#[test]
fn ntf_2_unknown_kinds_are_passed_over_and_missing_data_is_told() {
    let (none, one) = (set(vec![]), set(vec![template(7, "SMS", "en")]));
    let gone = TemplateSet { known: true, ..TemplateSet::default() };
    let (defined, payload) = (kind(|_| {}), json!({"bookingId": 1, "guest": {"phone": "+1"}}));
    let silent = kind(|k| k["recipients"] = json!({}));
    let elsewhere = kind(|k| k["topic"] = json!("other"));
    let cancelled = kind(|k| {
        k["cancelWhen"] = json!({"questionId": "payload.status", "op": "==", "value": "Cancelled"});
    });
    let table = [
        (planned(None, &none, &payload, None), "PassOver"),
        (planned(Some(&silent), &none, &payload, None), "PassOver"),
        (planned(None, &gone, &payload, None), "NoTemplate"),
        (planned(Some(&elsewhere), &gone, &payload, None), "PassOver"),
        (planned(Some(&elsewhere), &one, &payload, None), "PassOver"),
        (planned(Some(&defined), &none, &payload, None), "NoTemplate"),
        (planned(Some(&defined), &one, &json!([1]), None), "Missing(\"its payload is not an object"),
        (planned(Some(&defined), &one, &json!({}), None), "Missing(\"its payload has nothing at `bookingId`"),
        (
            planned(Some(&cancelled), &one, &json!({"bookingId": 1, "status": "Cancelled"}), None),
            "Pointless(\"CancelWhen\"",
        ),
    ];
    for (plan, want) in table {
        assert!(format!("{plan:?}").starts_with(want), "{plan:?} is not {want}");
    }
    let skipped = planned(Some(&defined), &one, &json!({"bookingId": 1}), None);
    assert_eq!(keys(&skipped), ["1:booking.confirmed:SMS:7 -> None"], "skipped, and shown");
    let alone = planned(None, &one, &json!({"phone": "+1"}), None);
    assert_eq!(keys(&alone), ["event-9:booking.confirmed:SMS:7 -> Some(\"+1\")"]);
}

/// NTF-8: one template for each channel, the nearest by language.
#[test]
fn ntf_8_each_channel_has_its_nearest_template() {
    let set = set(vec![template(1, "SMS", "en"), template(2, "SMS", "ar"), template(3, "sms:x", "en")]);
    let payload = json!({"bookingId": 1, "guest": {"phone": "+1", "locale": "ar-IQ"}});
    let plan = planned(Some(&kind(|_| {})), &set, &payload, None);
    assert_eq!(keys(&plan), ["1:booking.confirmed:SMS:2 -> Some(\"+1\")"]);
}

/// NTF-8: a template for an entity that the event leads to is taken, and the fallback takes it, too.
#[test]
fn ntf_8_a_template_for_a_related_entity_is_taken() {
    let scoped = |id: i64, kind: &str, of: &str| {
        let mut template = template(id, "SMS", "en");
        template.definition.scope = Some(TemplateScope { kind: kind.into(), id: of.into() });
        template
    };
    let related = kind(|k| {
        k["related"] = json!({"home": {"type": "listing", "idPath": "listingId"},
            "owner": {"type": "person", "idPath": "ownerId"}});
    });
    let templates = [template(9, "SMS", "en"), scoped(8, "person", "5"), scoped(7, "listing", "77")];
    let set = set([templates.as_slice(), &[scoped(6, "booking", "1")]].concat());
    let table = [
        (json!({"bookingId": 1, "listingId": 77, "ownerId": 5}), 6),
        (json!({"bookingId": 2, "listingId": 77, "ownerId": 5}), 7),
        (json!({"bookingId": 2, "listingId": 78, "ownerId": "5"}), 8),
        (json!({"bookingId": 2, "listingId": 78}), 9),
        (json!({"bookingId": 77, "home": 77}), 9),
    ];
    for (mut payload, want) in table {
        payload["guest"] = json!({"phone": "+1"});
        let plan = planned(Some(&related), &set, &payload, None);
        let NotificationPlan::Deliveries(all) = plan else { panic!("{plan:?}") };
        let found: Vec<i64> = all.iter().map(|one| one.template.0).collect();
        assert_eq!(found, [want], "{payload}");
        let entity = related.entity_of(None, &payload);
        let scopes = scopes_of(entity.as_ref(), &related, &payload, &EntitySnapshot::Unknown);
        let fitted = fitting(&set, "memory:sms", "SMS", &scopes, None).map(|template| template.id.0);
        assert_eq!(fitted, Some(want), "{payload}");
    }
}

/// NTF-8, NTF-18: the preferences of the owner of an address go before the event's values, for that address
/// only.
#[test]
fn ntf_8_a_preferred_language_wins() {
    let texts = [(1, "SMS", "en"), (2, "SMS", "ar"), (3, "Email", "en"), (4, "Email", "ar")];
    let set = set(texts.map(|(id, channel, language)| template(id, channel, language)).into());
    let phone = "+919876543210";
    let by = |event: Option<&str>, wanted: Option<&str>| {
        let payload = json!({"bookingId": 1, "guest": {"phone": phone, "email": "a@b.example",
            "locale": event}});
        let wants = |address: &str| wanted.filter(|_| address == phone).map(str::to_owned);
        let plan = planned_for(Some(&kind(|_| {})), &set, &payload, None, &wants);
        let NotificationPlan::Deliveries(all) = plan else { panic!("{plan:?}") };
        all.iter().map(|one| (one.channel.clone(), one.template.0)).collect::<BTreeMap<_, _>>()
    };
    // The event, the preferences of the owner of the phone, and the templates of mail and SMS.
    let table = [
        (None, None, 3, 1),
        (Some("ar"), None, 4, 2),
        (Some("ar"), Some("en"), 4, 1),
        (Some("en"), Some("ar-IQ"), 3, 2),
        (None, Some("ar"), 3, 2),
        (Some("ar"), Some("fr"), 4, 1),
    ];
    for (event, wanted, mail, sms) in table {
        let want = BTreeMap::from([("memory:email".into(), mail), ("memory:sms".into(), sms)]);
        assert_eq!(by(event, wanted), want, "the event says {event:?}, they want {wanted:?}");
    }
}

/// NTF-17, NTF-5: another channel has its own words if there are some, and a key for each recipient.
#[test]
fn ntf_17_another_channel_has_its_own_words_and_key() {
    let whatsapp = template(7, "WhatsApp", "en");
    let (none, own) = (set(vec![whatsapp.clone()]), set(vec![whatsapp.clone(), template(8, "SMS", "en")]));
    let refused = RefusedDelivery {
        key: "k",
        by_hand: false,
        event: MessageId(9),
        kind: "booking.confirmed",
        each: false,
        entity: None,
        scopes: &[],
        template: &whatsapp,
        part: 4,
    };
    let (each, by_hand) =
        (RefusedDelivery { each: true, ..refused }, RefusedDelivery { by_hand: true, ..refused });
    let table = [
        (refused, &none, "event-9:booking.confirmed:memory:sms:7"),
        (each, &none, "event-9:booking.confirmed:memory:sms:7:+1"),
        (by_hand, &none, "k:memory:sms"),
        (refused, &own, "event-9:booking.confirmed:SMS:8"),
        (each, &own, "event-9:booking.confirmed:SMS:8:+1"),
        (by_hand, &own, "k:memory:sms"),
    ];
    let to = Recipient { phone: Some("+1".into()), ..Recipient::default() };
    for (refused, set, key) in table {
        let planned = refused.to_fallback("memory:sms", set, &to);
        assert_eq!((planned.key.as_str(), planned.address.as_deref()), (key, Some("+1")));
        let template = set.templates.last().unwrap().id;
        assert_eq!((planned.template, planned.part), (template, 4), "{key}");
    }
}
