//! The outbox of all tenants, as operators see it.

use crate::client::Client;
use crate::world::{Base, World, claim, publish};
use serde_json::{Value, json};

on_each! {
    ntf_20_the_outbox_shows_what_became_of_every_message,
    ntf_20_the_outbox_is_filtered_and_paged,
    ntf_22_failed_messages_are_replayed,
    ntf_22_a_replay_says_which,
    ntf_22_a_dry_run_says_what_people_would_be_told,
    ntf_22_a_dry_run_says_what_surveys_would_do,
}

async fn settle(client: &Client, topic: &str, word: &str, error: &str) -> String {
    let items = claim(client, topic).await;
    let item = json!({"id": items[0]["id"], "token": items[0]["token"], "error": error});
    client.does(&format!("/api/queues/{topic}/{word}"), json!({"items": [item]}), 200).await;
    items[0]["id"].as_str().unwrap().to_owned()
}

async fn ids(client: &Client, query: &str) -> Value {
    let list = client.sees(&format!("/ops/outbox{query}")).await;
    list["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect()
}

/// NTF-20: every field that the contract names; an event says the same of itself.
async fn ntf_20_the_outbox_shows_what_became_of_every_message(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    let event = json!({"topic": "booking.events", "kind": "booking.confirmed", "key": "12345",
        "entity": {"type": "booking", "id": "12345"}, "payload": {}, "correlationId": "story"});
    let id = root.does("/api/events", event, 202).await["ids"][0].clone();
    let mut want = json!({"id": id, "tenantId": 1, "topic": "booking.events", "kind": "booking.confirmed",
        "key": "12345", "entity": {"type": "booking", "id": "12345"}, "status": "Unconsumed",
        "createdAt": "2026-05-14T05:13:00Z", "processedAt": null, "attempts": 0, "lastError": null,
        "correlationId": "story"});
    let at = format!("/api/events/{}", id.as_str().unwrap());
    assert_eq!(root.sees("/ops/outbox").await, json!({"items": [want], "nextCursor": null}));
    assert_eq!(root.sees(&at).await["status"], "Unconsumed");
    let items = claim(&root, "booking.events").await;
    assert_eq!((items.len(), &root.sees(&at).await["status"]), (1, &json!("Pending")));
    let item = json!({"id": items[0]["id"], "token": items[0]["token"], "error": "no such booking"});
    root.does("/api/queues/booking.events/fail", json!({"items": [item]}), 200).await;
    want["status"] = json!("Failed");
    want["processedAt"] = json!("2026-05-14T05:13:00Z");
    want["attempts"] = json!(1);
    want["lastError"] = json!("no such booking");
    assert_eq!(root.sees("/ops/outbox?status=Failed").await["items"], json!([want]));
    let other = publish(&root, "orders").await;
    settle(&root, "orders", "ack", "").await;
    let shown = &root.sees("/ops/outbox?status=Published").await["items"][0];
    assert_eq!((&shown["id"], &shown["attempts"]), (&json!(other), &json!(1)));
    assert_eq!(shown["processedAt"], "2026-05-14T05:13:00Z");
    world.tenant("acme").await.get(&at).await.problem(404);
}

/// NTF-20: by status, time, tenant, topic and kind; the newest first.
async fn ntf_20_the_outbox_is_filtered_and_paged(base: Base) {
    let world = World::manual(base).await;
    let (root, acme) = (world.root(), world.tenant("acme").await);
    root.does("/dev/clock", json!({"set": "2026-05-14T05:00:00Z", "run": false}), 200).await;
    let first = publish(&root, "orders").await;
    root.does("/dev/clock", json!({"advance": "1h", "run": false}), 200).await;
    let second = publish(&acme, "mail").await;
    let tenant = root.sees("/ops/outbox?topic=mail").await["items"][0]["tenantId"].clone();
    for (query, want) in [
        (String::new(), json!([second, first])),
        (format!("?tenantId={tenant}"), json!([second])),
        ("?tenantId=acme".into(), json!([second])),
        ("?tenantId=1".into(), json!([first])),
        ("?topic=orders".into(), json!([first])),
        ("?kind=order.placed&status=Unconsumed".into(), json!([second, first])),
        ("?from=2026-05-14T06:00:00Z".into(), json!([second])),
        ("?to=2026-05-14T06:00:00Z".into(), json!([first])),
        ("?status=Published".into(), json!([])),
    ] {
        assert_eq!(ids(&root, &query).await, want, "{query}");
    }
    let page = root.sees("/ops/outbox?limit=1").await;
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = root.sees(&format!("/ops/outbox?limit=1&cursor={cursor}")).await;
    assert_eq!((&next["items"][0]["id"], &next["nextCursor"]), (&json!(first), &Value::Null));
    let said =
        root.get("/ops/outbox?status=Lost&from=soon&to=x&tenantId=nobody&topic=%00").await.problem(422);
    assert_eq!(said, ["topic", "from", "to", "tenantId", "status"]);
    let admin = world.key(&acme, "admin").await;
    admin.get("/ops/outbox").await.problem(403);
    let ops = world.key(&acme, "ops").await;
    assert_eq!(ids(&ops, "").await, json!([second, first]), "of all tenants");
}

/// NTF-22: a dry run tells and changes nothing; a replay moves what it told.
async fn ntf_22_failed_messages_are_replayed(base: Base) {
    let world = World::manual(base).await;
    let (root, acme) = (world.root(), world.tenant("acme").await);
    let mut failed = Vec::new();
    for client in [&root, &acme] {
        publish(client, "orders").await;
        failed.push(settle(client, "orders", "fail", "no").await);
    }
    let well = publish(&root, "mail").await;
    let path = "/ops/outbox/replay";
    let would = root.does(path, json!({"filter": {}, "dryRun": true}), 200).await;
    assert_eq!(
        (&would["wouldReplay"], &would["ids"], &would["skipped"]),
        (&json!(2), &json!(failed), &json!([]))
    );
    let told = &would["items"][0];
    assert_eq!((&told["topic"], &told["subscription"]), (&json!("orders"), &Value::Null));
    assert_eq!((&told["lastError"], &told["kind"]), (&json!("no"), &json!("order.placed")));
    assert_eq!(ids(&root, "?status=Failed").await.as_array().unwrap().len(), 2, "nothing was moved");
    let done = root.does(path, json!({"filter": {"tenantId": "acme", "status": "Failed"}}), 200).await;
    assert_eq!(done, json!({"replayed": 1, "ids": [failed[1]], "skipped": []}));
    assert_eq!(claim(&acme, "orders").await[0]["id"], json!(failed[1]));
    let rest = root.does(path, json!({"ids": [failed[0], well, "999999"]}), 200).await;
    let why = "nothing of it failed";
    let skipped = json!([{"id": well, "reason": why}, {"id": "999999", "reason": why}]);
    assert_eq!(rest, json!({"replayed": 1, "ids": [failed[0]], "skipped": skipped}));
    assert_eq!(ids(&root, "?status=Failed").await, json!([]));
    let again = root.does(path, json!({"filter": {}}), 200).await;
    assert_eq!(again, json!({"replayed": 0, "ids": [], "skipped": []}));
}

/// NTF-22: every problem at once, and what a deleted subscription left behind stays.
async fn ntf_22_a_replay_says_which(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let path = "/ops/outbox/replay";
    assert_eq!(root.post(path, json!({})).await.problem(422), ["ids"]);
    let wrong = json!({"filter": {"status": "Pending", "from": "x", "tenantId": 77, "more": 1}});
    let said = root.post(path, wrong).await.problem(422);
    assert_eq!(said, ["filter.more", "filter.status", "filter.from", "filter.tenantId"]);
    let subscription = json!({"target": {"type": "queue"}});
    assert_eq!(root.put("/api/subscriptions/orders/mail", subscription).await.status, 200);
    let id = publish(&root, "orders").await;
    let failed = settle(&root, "orders/mail", "fail", "no").await;
    assert_eq!(failed, id);
    root.delete("/api/subscriptions/orders/mail").await;
    let told = root.does(path, json!({"filter": {}}), 200).await;
    let skipped = json!([{"id": id, "reason": "its subscription was deleted"}]);
    assert_eq!(told, json!({"replayed": 0, "ids": [], "skipped": skipped}));
}

/// NTF-22, NTF-2: events that failed on their way to people are replayed, too; a dry run says by which keys,
/// and which of them stop.
async fn ntf_22_a_dry_run_says_what_people_would_be_told(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let kind = |path: &str| {
        let recipients = json!({"phone": "phone"});
        json!({"topic": "t", "entityType": "booking", "entityIdPath": path, "recipients": recipients})
    };
    assert_eq!(root.put("/api/event-kinds/b", kind("id")).await.status, 200);
    let template = json!({"eventType": "b", "channel": "SMS", "language": "en", "body": "x"});
    let template = root.does("/api/message-templates", template, 201).await["id"].clone();
    let phone = "+9647700000001";
    for payload in [json!({"id": 1}), json!({"number": 1}), json!({"number": 2}), json!({"number": 2})] {
        let mut event = json!({"topic": "t", "kind": "b", "payload": payload});
        event["payload"]["phone"] = json!(phone);
        root.does("/api/events", event, 202).await;
    }
    world.advance("1s").await;
    let (path, all) = ("/ops/outbox/replay", json!({"filter": {}, "dryRun": true}));
    let told = root.does(path, all.clone(), 200).await;
    assert_eq!((&told["wouldReplay"], &told["moreItems"]), (&json!(3), &json!(0)), "{told}");
    assert_eq!(told["items"][0]["subscription"], "/flows");
    let outlook = &told["items"][0]["messages"];
    assert_eq!((&outlook["sentAgain"], &outlook["items"]), (&json!(0), &json!([])));
    assert!(outlook["reason"].as_str().unwrap().contains("it would fail again"), "{outlook}");
    assert_eq!(root.put("/api/event-kinds/b", kind("number")).await.status, 200);
    let told = root.does(path, all, 200).await;
    let of = |n: usize, why: Option<&str>| {
        let key = format!("{}:b:SMS:{}", n + 1, template.as_str().unwrap());
        let item = json!({"channel": "memory:sms", "idempotencyKey": key, "stopped": why.is_some(),
            "reason": why});
        json!({"sentAgain": usize::from(why.is_none()), "stopped": usize::from(why.is_some()),
            "reason": null, "items": [item], "moreItems": 0, "instances": []})
    };
    assert_eq!(told["items"][0]["messages"], of(0, Some("It was sent before")), "{told}");
    assert_eq!(told["items"][1]["messages"], of(1, None), "{told}");
    let same = "An event before it in this replay has the same key";
    assert_eq!(told["items"][2]["messages"], of(1, Some(same)), "{told}");
    assert_eq!(ids(&root, "?status=Failed").await.as_array().unwrap().len(), 3, "nothing was moved");
    assert_eq!(root.does(path, json!({"filter": {}}), 200).await["replayed"], 3);
    world.advance("1s").await;
    let log = root.sees("/api/communication-logs").await;
    let keys: Vec<&Value> =
        log["items"].as_array().unwrap().iter().map(|line| &line["idempotencyKey"]).collect();
    assert_eq!(keys.len(), 2, "one for each booking: {log}");
    assert_eq!(ids(&root, "?status=Failed").await, json!([]));
}

/// NTF-22, TRG-8: events that failed on their way to surveys; a dry run says which instances a replay begins,
/// and which dedup keys stop it.
async fn ntf_22_a_dry_run_says_what_surveys_would_do(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let survey = crate::surveys::publish(&root, crate::surveys::csi_gr()).await;
    let known = crate::surveys::invite(&root, "2").await;
    for wip in ["1", "1", "2"] {
        let mut payload = crate::surveys::event(wip)["items"][0]["payload"].clone();
        payload["contact"] = json!("+964 770 000 0001");
        let event = json!({"topic": "visits", "kind": "service-visit-closed", "payload": payload});
        root.does("/api/events", event, 202).await;
    }
    world.advance("1s").await;
    let (path, all) = ("/ops/outbox/replay", json!({"filter": {}, "dryRun": true}));
    let told = root.does(path, all.clone(), 200).await;
    assert_eq!(told["wouldReplay"], 3, "{told}");
    let outlook = &told["items"][0]["messages"];
    assert_eq!(outlook["instances"], json!([]), "{told}");
    let said = outlook["reason"].as_str().unwrap();
    assert!(said.contains("it would fail again: ") && said.contains("the event has no address"), "{said}");
    let kind = json!({"recipients": {"phone": "contact"}});
    assert_eq!(root.put("/api/event-kinds/service-visit-closed", kind).await.status, 200);
    let told = root.does(path, all, 200).await;
    let of = |outcome: &str, public_id: Option<&str>, reason: Option<&str>| {
        let instance = json!({"surveyId": survey, "triggerId": "csi-gr-trigger", "publicId": public_id,
            "outcome": outcome, "reason": reason});
        json!({"sentAgain": 0, "stopped": 0, "reason": null, "items": [], "moreItems": 0,
            "instances": [instance]})
    };
    assert_eq!(told["items"][0]["messages"], of("Created", None, None), "{told}");
    let same = "An event before it in this replay has the same key";
    assert_eq!(told["items"][1]["messages"], of("Skipped", None, Some(same)), "{told}");
    let made = "It was made of the same event before";
    assert_eq!(told["items"][2]["messages"], of("Skipped", Some(&known), Some(made)), "{told}");
    let instances = || async { root.sees("/api/survey-instances").await["items"].as_array().unwrap().len() };
    assert_eq!(instances().await, 1, "nothing was written");
    assert_eq!(root.does(path, json!({"filter": {}}), 200).await["replayed"], 3);
    world.advance("1s").await;
    assert_eq!((instances().await, ids(&root, "?status=Failed").await), (2, json!([])));
}
