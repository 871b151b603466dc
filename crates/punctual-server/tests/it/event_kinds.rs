//! Event kinds over HTTP, and what they check at the door.

use crate::client::Client;
use crate::world::{Base, World};
use punctual::{ClockMode, NewMessage, Tenant};
use punctual_server::app::Settings;
use serde_json::{Value, json};

on_each! {
    prd_18_a_kind_over_http,
    prd_18_a_bad_kind_is_told_everything,
    prd_18_a_kind_is_found_by_its_tenant_only,
    prd_18_events_that_do_not_fit_are_refused,
    prd_18_a_schema_holds_for_every_door,
    prd_18_a_schema_is_not_escaped_by_json_that_cannot_be_read,
    prd_18_a_schema_holds_from_its_answer_on,
    trg_7_an_id_that_lost_digits_is_refused,
    prd_18_the_example_documents_say_what_they_should,
}

const PATH: &str = "/api/event-kinds/booking.confirmed";

async fn put(client: &Client, path: &str, document: &Value) -> Value {
    let reply = client.put(path, document.clone()).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// TRG-7: two bookings whose ids one double stands for are not taken for one, at whichever door they come.
async fn trg_7_an_id_that_lost_digits_is_refused(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let kind = json!({"entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "phone", "each": "guests"}});
    put(&root, PATH, &kind).await;
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en", "body": "x"});
    root.does("/api/message-templates", template, 201).await;
    let event = |payload: &Value| json!({"topic": "t", "kind": "booking.confirmed", "payload": payload});
    let long = 100_000_000_000_000_000_000_f64;
    let id = json!({"bookingId": long, "guests": [{"phone": "+964"}]});
    let phone = json!({"bookingId": "100000000000000000001", "guests": [{"phone": "+964"}, {"phone": long}]});
    for (payload, words) in [
        (&id, "has a number at `bookingId` (entityIdPath) with more digits than are kept"),
        (&phone, "has a number at `phone` (phone)"),
    ] {
        let refused = root.does("/api/events", event(payload), 422).await;
        let problem = &refused["errors"][0];
        let message = problem["message"].as_str().unwrap();
        assert_eq!(problem["path"], "payload", "{refused}");
        assert!(message.contains(words) && message.ends_with("send it as a string"), "{message}");
    }
    let fine = json!({"bookingId": u64::MAX, "guests": [{"phone": 9_647_700_000_001_u64}]});
    root.does("/api/events", event(&fine), 202).await;
    let message = NewMessage::new("t", "booking.confirmed", id.to_string());
    world.engine.enqueue(Tenant::DEFAULT, vec![message]).await.unwrap();
    world.advance("2s").await;
    let failed = root.sees("/ops/outbox?status=Failed").await;
    let error = failed["items"][0]["lastError"].as_str().unwrap();
    assert!(error.contains("more digits than are kept") && failed["items"][1].is_null(), "{failed}");
}

/// PRD-18: every verb, with the fields that the contract names.
async fn prd_18_a_kind_over_http(base: Base) {
    let root = World::manual(base).await.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    let given = json!({"topic": "booking.events", "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": ["guest.mobile", "guest.phone"], "email": "guest.email",
            "name": "guest.name"},
        "cancelWhen": {"questionId": "entity.status", "op": "==", "value": "Cancelled"},
        "requireEntity": true,
        "related": {"listing": {"type": "listing", "idPath": "listingId"}},
        "schema": {"type": "object", "required": ["bookingId"]}, "sample": {"bookingId": "b1"}});
    let made = put(&root, PATH, &given).await;
    let mut want = given.clone();
    for (name, value) in [
        ("kind", json!("booking.confirmed")),
        ("secrets", Value::Null),
        ("version", json!(1)),
        ("createdAt", json!("2026-05-14T05:13:00Z")),
        ("updatedAt", json!("2026-05-14T05:13:00Z")),
    ] {
        want[name] = value;
    }
    assert_eq!(made, want);
    assert_eq!(root.sees(PATH).await, want);
    assert_eq!(put(&root, PATH, &made).await, want, "what was shown may be handed back, and changes nothing");
    let changed = put(&root, PATH, &json!({"recipients": {"email": "to"}})).await;
    assert_eq!((&changed["version"], &changed["topic"]), (&json!(2), &Value::Null));
    assert_eq!(changed["requireEntity"], false);
    put(&root, "/api/event-kinds/a%2Fb", &json!({"recipients": {"email": "to"}})).await;
    let all = root.sees("/api/event-kinds").await;
    let names: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|k| k["kind"].as_str().unwrap()).collect();
    assert_eq!(names, ["a/b", "booking.confirmed"]);
    let first = root.sees("/api/event-kinds?limit=1").await;
    let more = format!("/api/event-kinds?limit=1&cursor={}", first["nextCursor"].as_str().unwrap());
    assert_eq!(root.sees(&more).await["items"], json!([changed]));
    assert_eq!(root.delete(PATH).await.status, 204);
    root.get(PATH).await.problem(404);
    root.delete(PATH).await.problem(404);
}

/// PRD-18: all problems at once, and nothing is written; secrets are refused, not kept as they are.
async fn prd_18_a_bad_kind_is_told_everything(base: Base) {
    let root = World::manual(base).await.root();
    let bad = json!({"topik": "x", "entityIdPath": "a..b", "recipients": {"name": "x", "phone": 7},
        "cancelWhen": {"questionId": "status", "op": "==", "value": 1}, "requireEntity": "yes",
        "secrets": ["token"], "schema": {"typ": 1}, "sample": []});
    let mut paths = root.put(PATH, bad).await.problem(422);
    paths.sort();
    let want = [
        "cancelWhen",
        "entityIdPath",
        "recipients.phone",
        "requireEntity",
        "sample",
        "schema.typ",
        "secrets",
        "topik",
    ];
    assert_eq!(paths, want);
    root.send("PUT", PATH, "{").await.problem(400);
    root.send("PUT", PATH, "[]").await.problem(422);
    let long = format!("/api/event-kinds/{}", "k".repeat(256));
    assert_eq!(root.put(&long, json!({"recipients": {"email": "to"}})).await.problem(422), ["kind"]);
    let secret = json!({"recipients": {"email": "to"}, "secrets": ["rsvpToken"]});
    let reply = root.put(PATH, secret).await;
    assert_eq!(reply.problem(422), ["secrets"]);
    assert!(reply.text.contains("does not seal secrets"), "{}", reply.text);
    assert_eq!(root.sees("/api/event-kinds").await, json!({"items": [], "nextCursor": null}));
}

/// PRD-18, NTF-23
async fn prd_18_a_kind_is_found_by_its_tenant_only(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    let schema = json!({"recipients": {"email": "to"}, "schema": {"required": ["to"]}});
    let made = put(&acme, PATH, &schema).await;
    let root = world.root();
    root.get(PATH).await.problem(404);
    root.delete(PATH).await.problem(404);
    assert_eq!(root.sees("/api/event-kinds").await["items"], json!([]));
    let event = json!({"topic": "t", "kind": "booking.confirmed", "payload": {}});
    root.does("/api/events", event.clone(), 202).await;
    assert_eq!(acme.post("/api/events", event).await.problem(422), ["payload.to"]);
    assert_eq!(acme.sees(PATH).await, made);
}

/// PRD-18: at the door, by the path, and the whole batch; as CloudEvents, too.
async fn prd_18_events_that_do_not_fit_are_refused(base: Base) {
    let root = World::manual(base).await.root();
    let schema = json!({"topic": "booking.events", "recipients": {"phone": "guest.phone"},
        "schema": {"type": "object", "required": ["bookingId"], "properties": {"nights": {"type": "integer"},
            "guest": {"type": "object", "required": ["phone"]}}}});
    put(&root, PATH, &schema).await;
    let event =
        |payload: Value| json!({"topic": "booking.events", "kind": "booking.confirmed", "payload": payload});
    let good = event(json!({"bookingId": 1, "guest": {"phone": "+964"}}));
    root.does("/api/events", good.clone(), 202).await;
    let bad = event(json!({"nights": 1.5, "guest": {}}));
    let reply = root.post("/api/events", bad.clone()).await;
    let mut paths = reply.problem(422);
    paths.sort();
    assert_eq!(paths, ["payload.bookingId", "payload.guest.phone", "payload.nights"], "{}", reply.text);
    let batch = json!([good, bad, event(json!("text"))]);
    let mut paths = root.post("/api/events", batch).await.problem(422);
    paths.sort();
    assert_eq!(
        paths,
        ["[1].payload.bookingId", "[1].payload.guest.phone", "[1].payload.nights", "[2].payload"]
    );
    let cloud = json!({"specversion": "1.0", "id": "1", "source": "s", "type": "booking.confirmed",
        "topic": "booking.events", "data": {"guest": {"phone": "+"}}});
    assert_eq!(root.post("/api/events", cloud).await.problem(422), ["data.bookingId"]);
    let other = json!({"topic": "other", "kind": "booking.confirmed", "payload": {}});
    root.does("/api/events", other, 202).await;
    let written = root.sees("/ops/outbox").await;
    let of_topic = written["items"].as_array().unwrap().iter().filter(|one| one["topic"] == "booking.events");
    assert_eq!(of_topic.count(), 1, "only the good one was written: {written}");
    assert_eq!(root.delete(PATH).await.status, 204);
    root.does("/api/events", event(json!({})), 202).await;
}

/// PRD-18: an event that came by another door and does not fit fails with the reason, and nobody is told.
async fn prd_18_a_schema_holds_for_every_door(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    put(&root, PATH, &json!({"recipients": {"phone": "phone"}, "schema": {"required": ["bookingId"]}})).await;
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en", "body": "x"});
    root.does("/api/message-templates", template, 201).await;
    let (bad, good) = (json!({"phone": "+964"}), json!({"phone": "+964", "bookingId": 1}));
    let message = |payload: &Value| NewMessage::new("t", "booking.confirmed", payload.to_string());
    world.engine.enqueue(Tenant::DEFAULT, vec![message(&bad), message(&good)]).await.unwrap();
    let timer = json!({"topic": "t", "kind": "booking.confirmed", "payload": bad, "delay": "1s"});
    root.does("/api/timers", timer, 201).await;
    world.advance("2s").await;
    let failed = root.sees("/ops/outbox?status=Failed").await;
    let errors: Vec<&str> =
        failed["items"].as_array().unwrap().iter().map(|one| one["lastError"].as_str().unwrap()).collect();
    assert_eq!(errors.len(), 2, "{failed}");
    for said in errors {
        assert!(said.contains("does not have the form of its kind: payload.bookingId"), "{said}");
    }
    assert_eq!(root.sees("/dev/messages").await["items"].as_array().unwrap().len(), 1, "only the good one");
}

/// PRD-18: also where time runs and kinds are kept for a while.
async fn prd_18_a_schema_holds_from_its_answer_on(base: Base) {
    let world = World::start(base, ClockMode::System, Settings::default()).await;
    let root = world.root();
    let event = json!({"topic": "t", "kind": "booking.confirmed", "payload": {}});
    root.does("/api/events", event.clone(), 202).await;
    put(&root, PATH, &json!({"recipients": {"email": "to"}, "schema": {"required": ["to"]}})).await;
    assert_eq!(root.post("/api/events", event.clone()).await.problem(422), ["payload.to"]);
    assert_eq!(root.delete(PATH).await.status, 204);
    root.does("/api/events", event, 202).await;
}

/// PRD-18, NTF-11: the documents of the guide are accepted without a doubt, and say this.
async fn prd_18_the_example_documents_say_what_they_should(base: Base) {
    let root = World::manual(base).await.root();
    let file = |name: &str| {
        let path = format!("{}/../../docs/examples/booking/{name}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    put(&root, PATH, &file("booking.confirmed.json")).await;
    let mut said = Vec::new();
    for template in file("templates.json").as_array().unwrap() {
        let made = root.does("/api/message-templates", template.clone(), 201).await;
        assert_eq!(made["warnings"], json!([]), "{made}");
        let path = format!("/api/message-templates/{}/preview", made["id"].as_str().unwrap());
        said.push(root.does(&path, json!({}), 200).await);
    }
    assert!(said[0]["body"].as_str().unwrap().contains("الخميس، ١٤ أيار ٢٠٢٦"), "{}", said[0]);
    assert_eq!(said[0]["providerTemplate"]["params"][4], "12345");
    assert_eq!(said[1]["body"], "Ada, your stay is booked from May 14, 2026 for 3 nights. Booking 12345.");
    assert_eq!(said[1]["segments"]["count"], 1);
    assert_eq!(said[2]["subject"], "Your booking 12345 is confirmed");
}

/// PRD-18, docs/guarantees.md: what could not be held against the schema is not taken.
async fn prd_18_a_schema_is_not_escaped_by_json_that_cannot_be_read(base: Base) {
    let root = World::manual(base).await.root();
    let kind = json!({"topic": "t", "recipients": {"email": "to"},
        "schema": {"type": "object", "required": ["bookingId"]}});
    put(&root, PATH, &kind).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let wrong = [r#"{"a": "\ud800"}"#, r#"{"\udfff": 1}"#, r#"{"a": 1e400}"#, deep.as_str()];
    let structured = root.with("content-type", "application/cloudevents+json");
    let binary = root.with("content-type", "application/json").with("ce-specversion", "1.0");
    let binary = binary.with("ce-id", "1").with("ce-source", "s").with("ce-topic", "t");
    let binary = binary.with("ce-type", "booking.confirmed");
    for payload in wrong {
        let plain = format!(r#"{{"topic": "t", "kind": "booking.confirmed", "payload": {payload}}}"#);
        let cloud = format!(
            r#"{{"specversion": "1.0", "id": "1", "source": "s", "type": "booking.confirmed", "topic": "t",
                "data": {payload}}}"#
        );
        let timer =
            format!(r#"{{"topic": "t", "kind": "booking.confirmed", "delay": "1h", "payload": {payload}}}"#);
        let ingest = format!(
            r#"{{"eventKind": "booking.confirmed",
                "items": [{{"recipient": {{"address": "a"}}, "payload": {payload}}}]}}"#
        );
        for (client, path, body) in [
            (&root, "/api/events", plain.as_str()),
            (&structured, "/api/events", cloud.as_str()),
            (&binary, "/api/events", payload),
            (&root, "/api/timers", timer.as_str()),
            (&root, "/api/triggers/ingest", ingest.as_str()),
        ] {
            let reply = client.send("POST", path, body).await;
            assert!([400, 422].contains(&reply.status), "{path} {body}: {}", reply.text);
        }
    }
    assert_eq!(root.sees("/api/queues/t").await["waiting"], 0);
}
