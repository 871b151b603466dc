//! Publishing.

use crate::world::{Base, World, claim};
use serde_json::json;

on_each! { a_batch_is_answered_in_order, an_id_is_admitted_once_per_source, an_event_waits_until_it_is_due,
a_payload_is_kept_to_the_last_digit, plt_29_an_unknown_field_is_refused_with_the_nearest }

async fn a_batch_is_answered_in_order(base: Base) {
    let world = World::manual(base).await;
    let event = |n: usize| json!({"topic": format!("t{}", n % 3), "kind": "k", "payload": n});
    let batch: Vec<_> = (0..50).map(event).collect();
    let answer = world.root().does("/api/events", json!(batch), 202).await;
    assert_eq!((&answer["accepted"], &answer["duplicates"]), (&json!(50), &json!(0)));
    for (n, id) in answer["ids"].as_array().unwrap().iter().enumerate() {
        let message = world.root().sees(&format!("/api/events/{}", id.as_str().unwrap())).await;
        assert_eq!((&message["payload"], &message["id"]), (&json!(n), id));
    }
    let none = world.root().does("/api/events", json!([]), 202).await;
    assert_eq!(none["ids"], json!([]));
}

async fn an_id_is_admitted_once_per_source(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let event = |source: Option<&str>, n: u32| {
        let topic = "t";
        json!({"topic": topic, "kind": "k", "payload": n, "id": 17, "source": source})
    };
    let first = root.does("/api/events", event(None, 1), 202).await;
    let again = root.does("/api/events", event(None, 1), 202).await;
    assert_eq!((&again["accepted"], &again["duplicates"]), (&json!(0), &json!(1)));
    assert_eq!((&again["ids"], &again["warnings"]), (&first["ids"], &json!([])));
    let other = root.does("/api/events", event(None, 2), 202).await;
    assert!(other["warnings"][0]["message"].as_str().unwrap().contains("other content"), "{other}");
    let named = root.does("/api/events", event(Some("root"), 1), 202).await;
    assert_eq!(named["duplicates"], 1, "the key's name is the default source");
    let elsewhere = root.does("/api/events", event(Some("shop"), 1), 202).await;
    assert_eq!(elsewhere["accepted"], 1);
    let support = world.key(&root, "support").await;
    assert_eq!(support.does("/api/events", event(None, 1), 202).await["accepted"], 1);
    assert_eq!(claim(&root, "t").await.len(), 3);
}

async fn an_event_waits_until_it_is_due(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:00:00Z"}), 200).await;
    let event = json!({"topic": "t", "kind": "k", "payload": null, "dueAt": "2026-05-14T08:13:00+03:00"});
    root.does("/api/events", event, 202).await;
    assert!(claim(&root, "t").await.is_empty());
    let queue = root.sees("/api/queues/t").await;
    assert_eq!((&queue["waiting"], &queue["due"]), (&json!(1), &json!(0)));
    world.advance("13m").await;
    assert_eq!(claim(&root, "t").await[0]["dueAt"], "2026-05-14T05:13:00Z");
}

async fn a_payload_is_kept_to_the_last_digit(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let payload = r#"{"z":12345678901234567890123.10,"a":"ü \u0000"}"#;
    let body = format!(r#"{{"topic":"t","kind":"k","payload":{payload}}}"#);
    assert_eq!(root.send("POST", "/api/events", &body).await.status, 202);
    let reply = root.post("/api/queues/t/claim", json!({"owner": "w"})).await;
    assert!(reply.text.contains(payload), "{}", reply.text);
}

/// PLT-29: a misspelt `dueAt` does not fire at once.
async fn plt_29_an_unknown_field_is_refused_with_the_nearest(base: Base) {
    let world = World::manual(base).await;
    let event = json!({"topic": "t", "kind": "k", "payload": 1, "dueat": "2027-01-01T00:00:00Z"});
    let reply = world.root().post("/api/events", event).await;
    assert_eq!(reply.problem(422), ["dueat"]);
    assert!(reply.text.contains("did you mean `dueAt`?"), "{}", reply.text);
    assert_eq!(world.root().sees("/api/queues").await["items"], json!([]));
}
