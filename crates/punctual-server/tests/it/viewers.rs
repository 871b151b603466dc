//! What viewers see: who was told what, but no whole address and nothing that events say of people.

use crate::client::Client;
use crate::surveys::{csi_gr, invite, publish};
use crate::world::{Base, World, claim, settle};
use serde_json::{Value, json};

on_each! {
    ntf_19_a_viewer_sees_no_payload,
    ntf_19_a_viewer_previews_no_real_event,
    ntf_19_a_key_hides_the_address_it_was_planned_for,
}

const NUMBER: &str = "+9647700000001";
const LOG: &str = "/api/communication-logs";

async fn items(client: &Client, path: &str) -> Vec<Value> {
    client.sees(path).await["items"].as_array().unwrap().clone()
}

/// NTF-19: no payload, output, comment or error, of events, dead letters, timers, jobs, surveys or the inbox.
async fn ntf_19_a_viewer_sees_no_payload(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let (viewer, support) = (world.key(&root, "viewer").await, world.key(&root, "support").await);
    let mut all = of_messages(&root).await;
    all.extend(of_jobs(&root).await);
    all.extend(of_inbox(&root).await);
    all.extend(of_surveys(&world, &root).await);
    for (path, fields) in all {
        let (theirs, ours) = (viewer.get(&path).await, support.get(&path).await);
        assert_eq!((theirs.status, ours.status), (200, 200), "{path}: {}", theirs.text);
        assert!(!theirs.text.contains(NUMBER), "a viewer should not see the number at {path}");
        for field in fields {
            assert!(theirs.text.contains(&format!(r#""{field}":null"#)), "{path}: {}", theirs.text);
        }
        assert!(ours.text.contains(NUMBER), "support should see it at {path}: {}", ours.text);
    }
}

/// A path whose answer holds [`NUMBER`], and the fields that a viewer sees as null.
type Hidden = (String, &'static [&'static str]);

/// Fails a claimed item with an error that names a person.
async fn fail(root: &Client, topic: &str) {
    let item = claim(root, topic).await.remove(0);
    let failed = json!({"id": item["id"], "token": item["token"], "error": format!("no {NUMBER}")});
    assert_eq!(settle(root, topic, "fail", failed).await, "Done");
}

async fn of_messages(root: &Client) -> Vec<Hidden> {
    let event = json!({"topic": "orders", "kind": "order.placed", "payload": {"phone": NUMBER},
        "headers": {"to": NUMBER}});
    let id = root.does("/api/events", event, 202).await["ids"][0].as_str().unwrap().to_owned();
    fail(root, "orders").await;
    let letter = items(root, "/api/dead-letters").await[0]["id"].as_str().unwrap().to_owned();
    let timer = json!({"topic": "later", "payload": {"phone": NUMBER}, "delay": "1d"});
    let timer = root.does("/api/timers", timer, 201).await["id"].as_str().unwrap().to_owned();
    vec![
        (format!("/api/events/{id}"), &["payload"]),
        ("/api/dead-letters".into(), &["payload", "headers", "error"]),
        (format!("/api/dead-letters/{letter}"), &["payload", "headers", "error"]),
        ("/api/timers".into(), &["payload"]),
        (format!("/api/timers/{timer}"), &["payload"]),
    ]
}

/// A job whose first run hands in an output, and another one whose run fails.
async fn of_jobs(root: &Client) -> Vec<Hidden> {
    for (name, topic) in [("nightly", "reports"), ("hourly", "checks")] {
        let job = json!({"topic": topic, "cron": "0 0 * * *", "payload": {"phone": NUMBER}});
        assert_eq!(root.put(&format!("/api/jobs/{name}"), job).await.status, 200);
        root.does(&format!("/api/jobs/{name}/trigger"), json!({}), 202).await;
    }
    let item = claim(root, "reports").await.remove(0);
    let done = json!({"id": item["id"], "token": item["token"], "output": {"asked": NUMBER}});
    assert_eq!(settle(root, "reports", "ack", done).await, "Done");
    fail(root, "checks").await;
    vec![
        ("/api/jobs".into(), &["payload"]),
        ("/api/jobs/nightly".into(), &["payload"]),
        ("/api/jobs/nightly/runs".into(), &["output"]),
        ("/api/jobs/hourly/runs".into(), &["lastError"]),
    ]
}

async fn of_inbox(root: &Client) -> Vec<Hidden> {
    let message = json!({"source": "shop", "messageId": "1"});
    let token = root.does("/api/inbox/begin", message, 200).await["token"].clone();
    let failed = json!({"source": "shop", "messageId": "1", "token": token, "error": format!("no {NUMBER}")});
    root.does("/api/inbox/fail", failed, 200).await;
    vec![("/api/inbox".into(), &["error"])]
}

/// A comment with a number in it, and a subscriber that fails with it.
async fn of_surveys(world: &World, root: &Client) -> Vec<Hidden> {
    let crm = json!({"target": {"type": "queue"}});
    assert_eq!(root.put("/api/subscriptions/survey.responses/crm", crm).await.status, 200);
    let survey = publish(root, csi_gr()).await;
    let id = invite(root, "1").await;
    let answers = json!({"rate": 3, "has-a-complaint": "Yes", "complaint": format!("call {NUMBER}")});
    let path = format!("/api/SurveyInstances/{id}/responses");
    world.anybody().does(&path, json!({"answers": answers}), 200).await;
    fail(root, "survey.responses/crm").await;
    vec![
        (format!("/api/surveys/{survey}/results"), &["text"]),
        (format!("/api/surveys/{survey}/comments"), &["text"]),
        (format!("/api/survey-instances/{id}"), &["metadata"]),
    ]
}

/// NTF-19, NTF-10: a sentence says what a viewer can do instead.
async fn ntf_19_a_viewer_previews_no_real_event(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let (viewer, support) = (world.key(&root, "viewer").await, world.key(&root, "support").await);
    let template = json!({"eventType": "b", "channel": "SMS", "language": "en", "body": "{{phone}}"});
    let made = root.does("/api/message-templates", template, 201).await;
    let event = json!({"topic": "t", "kind": "b", "payload": {"phone": NUMBER}});
    let id = root.does("/api/events", event, 202).await["ids"][0].clone();
    let path = format!("/api/message-templates/{}/preview", made["id"].as_str().unwrap());
    let refused = viewer.post(&path, json!({"eventId": id})).await;
    refused.problem(403);
    assert!(refused.text.contains("give a payload") && !refused.text.contains(NUMBER), "{}", refused.text);
    assert_eq!(viewer.does(&path, json!({"payload": {"phone": "1"}}), 200).await["body"], "1");
    assert_eq!(support.does(&path, json!({"eventId": id}), 200).await["body"], NUMBER);
}

/// NTF-19, NTF-18: with several recipients the key has the address, also when the message went to another.
async fn ntf_19_a_key_hides_the_address_it_was_planned_for(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let kind = json!({"entityType": "booking", "entityIdPath": "id",
        "recipients": {"each": "guests", "phone": "phone", "email": "email"}});
    assert_eq!(root.put("/api/event-kinds/b", kind).await.status, 200);
    let template = json!({"eventType": "b", "channel": "SMS", "language": "en", "body": "x"});
    let template = root.does("/api/message-templates", template, 201).await["id"].clone();
    let moved = json!({"channelOverride": {"sms": "memory:email"}});
    assert_eq!(root.put(&format!("/api/recipients/{NUMBER}/preferences"), moved).await.status, 200);
    let other = "+9647700000002";
    let guests = json!([{"phone": NUMBER, "email": "ana@example.org"}, {"phone": other}]);
    let event = json!({"topic": "t", "kind": "b", "payload": {"id": 7, "guests": guests}});
    root.does("/api/events", event, 202).await;
    world.advance("1s").await;
    let by_address = async |address: &str| items(&root, &format!("{LOG}?address={address}")).await.remove(0);
    let ana = by_address("ana@example.org").await;
    assert_eq!((&ana["status"], &ana["channel"]), (&json!("Sent"), &json!("Email")), "{ana}");
    let whole = format!("7:b:SMS:{}:{NUMBER}", template.as_str().unwrap());
    assert_eq!(ana["idempotencyKey"], whole, "the key is as it was written");
    assert_eq!(by_address("%2B9647700000002").await["channel"], "SMS");
    let viewer = world.key(&root, "viewer").await;
    let seen = viewer.get(LOG).await;
    for address in [NUMBER, other, "ana@example.org"] {
        assert!(!seen.text.contains(address), "a viewer should not see {address}: {}", seen.text);
    }
    let keys: Vec<Value> =
        items(&viewer, LOG).await.iter().map(|one| one["idempotencyKey"].clone()).collect();
    assert!(keys.contains(&json!(whole.replace(NUMBER, "••• 0001"))), "the rest stays: {keys:?}");
}
