//! Message templates over HTTP.

use crate::client::Client;
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    ntf_8_whoever_saves_a_second_template_for_the_same_is_warned,
    ntf_7_a_template_over_http,
    ntf_7_a_template_that_was_used_is_only_deactivated,
    ntf_7_templates_are_listed_by_filter,
    ntf_10_parameters_of_a_providers_template_are_reviewed,
    ntf_9_a_preview_fills_in_values,
    ntf_10_a_bad_template_is_told_everything,
    a_template_is_found_by_its_tenant_only,
    ntf_9_a_preview_knows_its_event_kind,
    ntf_9_a_preview_of_an_invitation_knows_the_event,
    ntf_10_a_template_is_reviewed_by_its_event_kind,
    ntf_10_an_invitation_is_reviewed_by_all_event_kinds,
    ntf_10_hostile_templates_are_refused_at_the_door,
}

const PATH: &str = "/api/message-templates";

fn invitation(body: &str) -> Value {
    json!({"eventType": "survey.invitation", "channel": "WhatsApp", "language": "en", "body": body})
}

async fn make(client: &Client, template: Value) -> Value {
    client.does(PATH, template, 201).await
}

fn at(template: &Value) -> String {
    format!("{PATH}/{}", template["id"].as_str().unwrap())
}

async fn put(client: &Client, path: &str, template: Value) -> Value {
    let reply = client.put(path, template).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// NTF-7, TRG-18: every verb, with the fields that the contract names.
async fn ntf_7_a_template_over_http(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    let given = json!({"eventType": "survey.invitation", "channel": "Email", "name": "Mail",
        "language": "ar-IQ", "scopeType": "survey", "scopeId": 7, "attempt": 2, "subject": "{{surveyTitle}}",
        "body": "{{surveyUrl}}", "html": "<a href=\"{{surveyUrl}}\">x</a>",
        "providerTemplate": {"key": "csi", "params": ["{{publicId}}"]}});
    let made = make(&root, given.clone()).await;
    let mut want = given.clone();
    for (name, value) in [
        ("id", made["id"].clone()),
        ("scopeId", json!("7")),
        ("missing", json!("empty")),
        ("isActive", json!(true)),
        ("templateVersion", json!(1)),
        ("warnings", json!([])),
        ("createdAt", json!("2026-05-14T05:13:00Z")),
        ("updatedAt", json!("2026-05-14T05:13:00Z")),
    ] {
        want[name] = value;
    }
    assert_eq!(made, want);
    let path = at(&made);
    assert_eq!(root.sees(&path).await, want);
    assert_eq!(put(&root, &path, made.clone()).await, want, "the same again changes nothing");
    let mut edited = made.clone();
    edited["body"] = json!("تذكير {{surveyUrl}} {{surveyTitel}}");
    edited["name"] = Value::Null;
    let shown = put(&root, &path, edited).await;
    assert_eq!((&shown["templateVersion"], &shown["name"]), (&json!(2), &Value::Null));
    let said = "`{{surveyTitel}}` is not known; did you mean `{{surveyTitle}}`?";
    assert_eq!(shown["warnings"], json!([{"path": "body", "message": said}]));
    let mut off = shown.clone();
    off["isActive"] = json!(false);
    let off = put(&root, &path, off).await;
    assert_eq!((&off["templateVersion"], &off["isActive"]), (&json!(2), &json!(false)));
    assert_eq!(root.delete(&path).await.status, 204);
    root.get(&path).await.problem(404);
    root.delete(&path).await.problem(404);
    root.put(&path, given).await.problem(404);
    let old = root.sees(&format!("{path}/versions/1")).await;
    assert_eq!(
        (&old["body"], &old["templateVersion"]),
        (&json!("{{surveyUrl}}"), &json!(1)),
        "a log may name it"
    );
    assert!(root.sees(&format!("{path}/versions/2")).await["body"].as_str().unwrap().starts_with("تذكير"));
    for nobody in ["3", "x", "-1"] {
        root.get(&format!("{path}/versions/{nobody}")).await.problem(404);
    }
    assert_eq!(root.sees(PATH).await, json!({"items": [], "nextCursor": null}));
}

/// NTF-7
async fn ntf_7_templates_are_listed_by_filter(base: Base) {
    let root = World::manual(base).await.root();
    for (channel, language) in [("SMS", "en"), ("SMS", "ar"), ("Email", "en")] {
        let mut template = invitation("{{surveyUrl}}");
        template["channel"] = json!(channel);
        template["language"] = json!(language);
        make(&root, template).await;
    }
    let table = [
        ("", 3),
        ("channel=SMS", 2),
        ("channel=SMS&language=ar", 1),
        ("eventType=survey.invitation&isActive=true", 3),
        ("isActive=false", 0),
        ("eventType=booking.confirmed", 0),
        ("scopeType=survey&scopeId=7", 0),
    ];
    for (query, want) in table {
        let found = root.sees(&format!("{PATH}?{query}")).await;
        assert_eq!(found["items"].as_array().unwrap().len(), want, "{query}");
    }
    let first = root.sees(&format!("{PATH}?limit=2")).await;
    let more = format!("{PATH}?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    assert_eq!(root.sees(&more).await["items"][0]["channel"], "Email");
    assert_eq!(root.get(&format!("{PATH}?isActive=maybe")).await.problem(422), ["isActive"]);
}

/// NTF-7: the log can still show it, and it can be used again; one that nobody was sent anything by is gone.
async fn ntf_7_a_template_that_was_used_is_only_deactivated(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let template = json!({"eventType": "b", "channel": "SMS", "language": "en", "body": "x"});
    let (used, unused) =
        (make(&root, template.clone()).await, make(&root, invitation("{{surveyUrl}}")).await);
    let event = |n: u32| {
        json!({"topic": "t", "kind": "b", "entity": {"type": "b", "id": n.to_string()},
        "payload": {"phone": "+9647700000001"}})
    };
    root.does("/api/events", event(1), 202).await;
    world.advance("1s").await;
    let sent = async || root.sees("/api/communication-logs").await["items"].as_array().unwrap().len();
    assert_eq!(sent().await, 1);
    for _ in 0..2 {
        let reply = root.delete(&at(&used)).await;
        assert_eq!((reply.status, &reply.json()["isActive"]), (200, &json!(false)), "{}", reply.text);
        assert!(reply.text.contains("the communication log refers to it"), "{}", reply.text);
    }
    let shown = root.sees(&at(&used)).await;
    assert_eq!((&shown["isActive"], &shown["warnings"]), (&json!(false), &json!([])));
    let listed = root.sees(&format!("{PATH}?eventType=b&isActive=false")).await;
    assert_eq!(listed["items"][0]["id"], used["id"]);
    root.does("/api/events", event(2), 202).await;
    world.advance("1s").await;
    assert_eq!(sent().await, 1, "it is used no more");
    let mut again = template;
    again["isActive"] = json!(true);
    put(&root, &at(&used), again).await;
    root.does("/api/events", event(3), 202).await;
    world.advance("1s").await;
    assert_eq!(sent().await, 2, "and can be again");
    assert_eq!(root.delete(&at(&unused)).await.status, 204);
    root.get(&at(&unused)).await.problem(404);
}

/// NTF-10: a placeholder that nobody knows is told, wherever it stands.
async fn ntf_10_parameters_of_a_providers_template_are_reviewed(base: Base) {
    let root = World::manual(base).await.root();
    let kind =
        json!({"recipients": {"phone": "guestPhone"}, "sample": {"guestName": "Ada", "guestPhone": "1"}});
    assert_eq!(root.put("/api/event-kinds/b", kind).await.status, 200);
    for (language, params, path) in [
        ("en", json!(["{{guestName}}", "{{guestNam}}"]), "providerTemplate.params[1]"),
        ("ar", json!({"name": "{{guestNam}}"}), "providerTemplate.params.name"),
    ] {
        let template = json!({"eventType": "b", "channel": "WhatsApp", "language": language, "body": "x",
            "providerTemplate": {"key": "k", "params": params}});
        let made = make(&root, template).await;
        let warnings = made["warnings"].as_array().unwrap();
        assert_eq!((warnings.len(), &warnings[0]["path"]), (1, &json!(path)), "{made}");
        assert!(warnings[0]["message"].as_str().unwrap().contains("`{{guestName}}`"), "{made}");
    }
}

/// NTF-9, NTF-10, NTF-11: with a payload, an event, or nothing; escaped, in the reader's words.
async fn ntf_9_a_preview_fills_in_values(base: Base) {
    let world = World::manual(base).await;
    let tenant = json!({"slug": "iraq", "name": "Iraq", "timeZone": "Asia/Baghdad", "defaultLocale": "ar"});
    world.root().does("/api/tenants", tenant, 201).await;
    let root = world.root().tenant("iraq");
    let made = make(
        &root,
        json!({"eventType": "survey.invitation", "channel": "SMS", "language": "ar",
        "subject": "{{CUSTOMERNAME}}",
        "body": "{{customerName}} {{at | date}} {{candidate.car.vin | lower}}",
        "html": "<b>{{customerName}}</b>"}),
    )
    .await;
    let path = format!("{}/preview", at(&made));
    let payload = json!({"CustomerName": "<Ada>\nL", "at": "2026-05-14T22:00:00Z", "car": {"VIN": "X9"}});
    let seen = root.does(&path, json!({"payload": payload, "locale": "ar-IQ"}), 200).await;
    let want = json!({"id": made["id"], "templateVersion": 1, "locale": "ar-IQ", "subject": "<Ada> L",
        "body": "<Ada>\nL ١٥ أيار ٢٠٢٦ x9", "html": "<b>&lt;Ada&gt;\nL</b>",
        "segments": {"count": 1, "units": 23, "encoding": "UCS-2"}, "providerTemplate": null,
        "warnings": []});
    assert_eq!(seen, want);
    let event = json!({"topic": "t", "kind": "k", "payload": {"customerName": "Bo"}});
    let id = root.does("/api/events", event, 202).await["ids"][0].clone();
    let seen = root.does(&path, json!({"eventId": id, "locale": "fr"}), 200).await;
    assert_eq!((&seen["subject"], &seen["locale"]), (&json!("Bo"), &json!("ar")));
    assert_eq!(seen["warnings"][0], json!({"path": "body", "message": "`{{at}}` has no value"}));
    let reply = root.send("POST", &path, "").await;
    assert_eq!((reply.status, &reply.json()["subject"]), (200, &json!("")), "no sample is fine, too");
    let bad = json!({"payload": 7, "locale": "arabic", "eventId": "none", "x": 1});
    let mut paths = root.post(&path, bad).await.problem(422);
    paths.sort();
    paths.dedup();
    assert_eq!(paths, ["eventId", "locale", "payload", "x"]);
    let plain = json!({"eventType": "booking.confirmed", "channel": "Email", "language": "en", "subject": "S",
        "body": "{{payload.guest.name}} {{guestName}}"});
    let plain = make(&root, plain).await;
    let preview = json!({"payload": {"guest": {"name": "Ada"}}});
    let seen = root.does(&format!("{}/preview", at(&plain)), preview, 200).await;
    assert_eq!((&seen["body"], &seen["segments"]), (&json!("Ada Ada"), &Value::Null));
}

/// NTF-10: all problems at once, and nothing is written.
async fn ntf_10_a_bad_template_is_told_everything(base: Base) {
    let root = World::manual(base).await.root();
    let made = make(&root, invitation("{{surveyUrl}}")).await;
    let bad = json!({"channel": "", "language": "en_US", "scopeType": "survey", "attempt": "second",
        "subject": "two\nlines", "body": "Hello {{name", "colour": 1});
    for reply in [root.post(PATH, bad.clone()).await, root.put(&at(&made), bad).await] {
        let mut paths = reply.problem(422);
        paths.sort();
        let want = ["attempt", "body", "channel", "colour", "eventType", "language", "scopeId", "subject"];
        assert_eq!(paths, want, "{}", reply.text);
        assert!(reply.text.contains("line 1, column 7: is not closed"), "{}", reply.text);
    }
    root.send("POST", PATH, "{").await.problem(400);
    root.send("POST", PATH, "[]").await.problem(422);
    assert_eq!(root.sees(PATH).await["items"], json!([made]));
}

async fn a_template_is_found_by_its_tenant_only(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    let made = make(&acme, invitation("{{surveyUrl}}")).await;
    let (root, path) = (world.root(), at(&made));
    root.get(&path).await.problem(404);
    root.put(&path, invitation("mine")).await.problem(404);
    root.delete(&path).await.problem(404);
    root.post(&format!("{path}/preview"), json!({})).await.problem(404);
    root.get(&format!("{path}/versions/1")).await.problem(404);
    assert_eq!(root.sees(PATH).await["items"], json!([]));
    assert_eq!(acme.sees(&path).await, made);
}

/// The kind that the next ones are about.
async fn booking(root: &Client) {
    let kind = json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "guest.phone", "name": "guest.name", "locale": "guest.locale"},
        "related": {"listing": {"type": "listing", "idPath": "listingId"}},
        "sample": {"bookingId": "b1", "listingId": 7, "checkIn": "2026-05-14T21:30:00Z",
            "guest": {"phone": "+9647700000001", "name": "Ada", "locale": "ar-IQ"}}});
    put(root, "/api/event-kinds/booking.confirmed", kind).await;
}

/// NTF-9, NTF-10, NTF-11: the kind's sample, a payload, or a real event with what is known of its entities;
/// dates in the recipient's locale and the entity's zone, else the tenant's.
async fn ntf_9_a_preview_knows_its_event_kind(base: Base) {
    let world = World::manual(base).await;
    let tenant = json!({"slug": "iraq", "name": "Iraq", "timeZone": "Asia/Baghdad", "defaultLocale": "ar"});
    world.root().does("/api/tenants", tenant, 201).await;
    let root = world.root().tenant("iraq");
    booking(&root).await;
    let template = json!({"eventType": "booking.confirmed", "channel": "WhatsApp", "language": "ar",
        "body": "{{recipientName}} {{listingName}} {{checkIn | date:datetime}} {{entityId}} {{status}}",
        "providerTemplate": {"key": "confirm", "language": "ar",
            "params": ["{{guestName}}", "{{listing.name}}"]},
        "missing": "asWritten"});
    let made = make(&root, template).await;
    let path = format!("{}/preview", at(&made));
    let seen = root.send("POST", &path, "").await.json();
    assert_eq!(seen["body"], "Ada {{listingName}} ١٥ أيار ٢٠٢٦ في ١٢:٣٠ ص b1 {{status}}", "the sample");
    assert_eq!(seen["locale"], "ar-IQ");
    let own =
        json!({"key": "confirm", "params": ["Ada", "{{listing.name}}"], "language": "ar", "entityId": null});
    assert_eq!(seen["providerTemplate"], own);
    let told: Vec<&str> =
        seen["warnings"].as_array().unwrap().iter().map(|w| w["path"].as_str().unwrap()).collect();
    assert_eq!(told, ["body", "body", "providerTemplate.params[1]"]);

    put(&root, "/api/entities/listing/7", json!({"state": {"name": "Sea View"}})).await;
    let event = json!({"topic": "booking.events", "kind": "booking.confirmed",
        "entity": {"type": "booking", "id": "b2",
            "state": {"status": "paid", "timeZone": "America/New_York"}},
        "payload": {"bookingId": "other", "listingId": 7, "checkIn": "2026-05-14T21:30:00Z",
            "guest": {"phone": "+1", "name": "Bo"}}});
    let id = root.does("/api/events", event, 202).await["ids"][0].clone();
    let seen = root.does(&path, json!({"eventId": id}), 200).await;
    assert_eq!(seen["body"], "Bo Sea View 14 مايو 2026 في 5:30 م b2 paid", "a real event, with its entities");
    assert_eq!((&seen["warnings"], &seen["locale"]), (&json!([]), &json!("ar")));
    let payload = json!({"bookingId": "b2", "listingId": 7, "guest": {"phone": "+1", "name": "Cy"},
        "checkIn": "2026-05-14"});
    let seen = root.does(&path, json!({"payload": &payload, "locale": "ar-IQ"}), 200).await;
    assert_eq!(seen["body"], "Cy Sea View ١٤ أيار ٢٠٢٦ b2 paid");
    let viewer = world.key(&root, "viewer").await;
    let seen = viewer.does(&path, json!({"payload": payload}), 200).await;
    assert!(seen["body"].as_str().unwrap().contains("{{status}}"), "viewers do not see states: {seen}");
}

/// NTF-10: names that are not known, with the nearest; SMS with the sample's values.
async fn ntf_10_a_template_is_reviewed_by_its_event_kind(base: Base) {
    let root = World::manual(base).await.root();
    let template = |event: &str, body: &str| {
        let language = "en";
        json!({"eventType": event, "channel": "SMS", "language": language, "body": body})
    };
    let made = make(&root, template("booking.confirmed", "{{guestNmae}} {{colour}}")).await;
    let said = made["warnings"].to_string();
    assert_eq!(said.matches("has neither a sample nor a schema to know it by").count(), 2, "{said}");
    booking(&root).await;
    let shown = root.sees(&at(&made)).await;
    let messages = |shown: &Value| {
        let all = shown["warnings"].as_array().unwrap().iter();
        all.map(|w| w["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let want = [
        "`{{guestNmae}}` is not known; did you mean `{{guestName}}`?",
        "`{{colour}}` is not known: the sample of booking.confirmed does not have it; the nearest known name",
    ];
    let told = messages(&shown);
    assert!(told.len() == 2 && told[0] == want[0] && told[1].starts_with(want[1]), "{told:?}");
    assert_eq!(root.sees(PATH).await["items"][0]["warnings"], shown["warnings"]);
    assert_eq!(root.delete(&at(&made)).await.status, 204);
    let long =
        make(&root, template("booking.confirmed", &format!("{} {{{{guestName}}}}", "x".repeat(158)))).await;
    assert_eq!(messages(&long), ["is 162 characters of GSM-7 with the sample's values: 2 SMS"]);
    let slip = make(&root, template("booking.confrmed", "{{recipient.nam}}")).await;
    let want = [
        "`{{recipient.nam}}` is not known; did you mean `{{recipient.name}}`?",
        "`booking.confrmed` is not an event kind; did you mean `booking.confirmed`?",
    ];
    assert_eq!(messages(&slip), want);
}

/// NTF-10: every unknown placeholder of an invitation is told, also one that is near to no known name. The
/// payload may be of any event kind, so what a sample or schema of one has is known.
async fn ntf_10_an_invitation_is_reviewed_by_all_event_kinds(base: Base) {
    let root = World::manual(base).await.root();
    let told = async |body: &str| {
        let made = make(&root, invitation(body)).await;
        let all = made["warnings"].as_array().unwrap().iter();
        let texts = all.map(|w| w["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(root.delete(&at(&made)).await.status, 204);
        texts
    };
    let colour = "`{{colour}}` is not known: no sample or schema of an event kind has it";
    let all = told("{{surveyUrl}} {{surveyTitel}} {{colour}}").await;
    assert_eq!(all[0], "`{{surveyTitel}}` is not known; did you mean `{{surveyTitle}}`?");
    assert!(all.len() == 2 && all[1].starts_with(colour), "{all:?}");
    let body = "{{surveyUrl}} {{guestName}} {{candidate.guest.name}} {{Candidate.bookingId}} {{colour}}";
    let all = told(body).await;
    assert_eq!(all.len(), 4, "without an event kind nothing of a payload is known: {all:?}");
    booking(&root).await;
    let all = told(body).await;
    assert!(all.len() == 1 && all[0].starts_with(colour), "{all:?}");
    let event = "{{surveyUrl}} {{recipientName}} {{recipient.timeZone}} {{entityId}} {{entity.status}} \
        {{listingName}} {{listing.geo.city}} {{payload.guest.name}} {{recipient.customerRef}}";
    assert_eq!(told(event).await, [""; 0], "what a notification of the event can name");
    let all = told("{{surveyUrl}} {{recipient.nmae}}").await;
    assert_eq!(all, ["`{{recipient.nmae}}` is not known; did you mean `{{recipient.name}}`?"]);
}

/// NTF-9, NTF-11: a preview of an invitation by a real event has what its event kind knows, and the zone of
/// the entity; explain words it so, too, and to viewers without the states of entities.
async fn ntf_9_a_preview_of_an_invitation_knows_the_event(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    booking(&root).await;
    let body = "{{recipientName}} {{listingName}} {{checkIn | date:datetime}} {{entityId}} {{status}} \
        {{surveyUrl}}";
    let mut template = invitation(body);
    template["missing"] = json!("asWritten");
    let made = make(&root, template).await;
    put(&root, "/api/entities/listing/7", json!({"state": {"name": "Sea View"}})).await;
    let payload = json!({"listingId": 7, "checkIn": "2026-05-14T21:30:00Z", "bookingId": "b2",
        "guest": {"phone": "+1", "name": "Bo", "locale": "en-GB"}});
    let event = json!({"topic": "booking.events", "kind": "booking.confirmed", "payload": payload,
        "entity": {"type": "booking", "id": "b2",
            "state": {"status": "paid", "timeZone": "America/New_York"}}});
    let id = root.does("/api/events", event, 202).await["ids"][0].clone();
    let seen = root.does(&format!("{}/preview", at(&made)), json!({"eventId": id}), 200).await;
    let said = "Bo Sea View 14 May 2026 at 17:30 b2 paid https://survey.example/s/0123456789abcdefghjkmn";
    assert_eq!((&seen["body"], &seen["locale"]), (&json!(said), &json!("en-GB")));
    assert_eq!(seen["warnings"], json!([]));

    let survey = json!({"name": "s", "definition": {"title": {"en": "S"}, "locales": ["en"],
        "defaultLocale": "en", "questions": [{"id": "q", "type": "yesNo", "text": {"en": "?"}}],
        "triggers": [{"id": "t", "eventKind": "booking.confirmed", "dedupRecipe": ["entity.id"],
            "schedule": {"initialDelay": "0d", "reminders": []}, "channel": "memory:whatsapp"}]}});
    let survey = root.does("/api/surveys", survey, 201).await;
    let publish = format!("/api/surveys/{}/publish", survey["id"]);
    assert_eq!(root.post(&publish, json!({})).await.status, 200);
    let asked = json!({"eventKind": "booking.confirmed", "items": [{"payload": payload,
        "recipient": {"address": "+1", "locale": "en-GB"}}]});
    let viewer = world.key(&root, "viewer").await;
    for (client, begins) in [
        (root, "Bo Sea View 14 May 2026 at 17:30 b2 paid "),
        (viewer, "Bo {{listingName}} 14 May 2026 at 21:30 b2 {{status}} "),
    ] {
        let seen = client.does("/api/triggers/explain", asked.clone(), 200).await;
        let body = seen["items"][0]["triggers"][0]["sends"][0]["body"].as_str().unwrap();
        assert!(body.starts_with(begins), "{body}");
    }
}

/// NTF-10: nothing of a hostile template is kept; what is accepted stays harmless in a preview.
async fn ntf_10_hostile_templates_are_refused_at_the_door(base: Base) {
    let root = World::manual(base).await.root();
    let with = |name: &str, text: &str| {
        let mut template = json!({"eventType": "e", "channel": "Email", "language": "en", "body": "x"});
        template[name] = json!(text);
        template
    };
    let large = "x".repeat(1024 * 1024);
    let table = [
        (with("body", &large), "body"),
        (with("html", &large), "html"),
        (with("body", "a\u{0}b"), "body"),
        (with("body", "{{#each x}}"), "body"),
        (with("body", &"{{x}}".repeat(501)), "body"),
        (with("subject", "Hi\r\nBcc: x@y.z"), "subject"),
        (with("subject", "Hi\u{2028}there"), "subject"),
        (with("missing", "explode"), "missing"),
        (with("name", "a\nb"), "name"),
    ];
    for (template, path) in table {
        assert_eq!(root.post(PATH, template).await.problem(422), [path]);
    }
    assert_eq!(root.sees(PATH).await["items"], json!([]));
    let nasty = json!({"eventType": "e", "channel": "Email", "language": "en",
        "subject": "{{v}}", "body": "{{v}}",
        "html": "<b>{{v}}</b>", "providerTemplate": {"key": "k", "params": ["{{v}}"]}});
    let made = make(&root, nasty).await;
    let payload = json!({"v": "<i>\r\nBcc: x\u{0}\u{202e}{{v}}"});
    let seen = root.does(&format!("{}/preview", at(&made)), json!({"payload": payload}), 200).await;
    assert_eq!(seen["subject"], "<i>  Bcc: x {{v}}");
    assert_eq!(seen["body"], "<i> \nBcc: x {{v}}");
    assert_eq!(seen["html"], "<b>&lt;i&gt; \nBcc: x {{v}}</b>");
    assert_eq!(seen["providerTemplate"]["params"], json!(["<i>  Bcc: x {{v}}"]));
}

/// NTF-8: the older one is never taken, so whoever saves one of the two is told of the other.
async fn ntf_8_whoever_saves_a_second_template_for_the_same_is_warned(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let template = json!({"eventType": "room.ready", "channel": "SMS", "language": "en", "body": "Ready."});
    let first = make(&root, template.clone()).await;
    assert_eq!(first["warnings"], json!([]));
    let second = make(&root, template).await;
    let warned = |shown: &Value, other: &Value| {
        let said = shown["warnings"][0]["message"].as_str().unwrap_or_default().to_owned();
        said.starts_with(&format!("template {} is for the same", other["id"].as_str().unwrap()))
    };
    assert!(warned(&second, &first), "{second}");
    assert!(warned(&root.sees(&at(&first)).await, &second));
    assert_eq!(root.delete(&at(&second)).await.status, 204);
    assert_eq!(root.sees(&at(&first)).await["warnings"], json!([]));
}
