//! CloudEvents in all three forms.

use crate::world::{Base, World, claim};
use serde_json::{Value, json};

on_each! {
    structured_and_batch_are_taken,
    binary_is_taken,
    plt_29_an_attribute_that_is_misspelt_is_refused,
}

fn event(id: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/shop", "type": "order.placed", "topic": "orders",
        "time": "2026-05-14T05:13:00Z", "subject": "7", "entitytype": "order", "partitionkey": "k",
        "correlationid": "c", "traceparent": "00-1-2-01", "data": {"order": 7}})
}

async fn structured_and_batch_are_taken(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let one = root.with("content-type", "application/cloudevents+json; charset=utf-8");
    let many = root.with("content-type", "application/cloudevents-batch+json");
    let first = one.does("/api/events", event("1"), 202).await;
    assert_eq!(first["accepted"], 1);
    let batch = many.does("/api/events", json!([event("1"), event("2")]), 202).await;
    assert_eq!((&batch["accepted"], &batch["duplicates"]), (&json!(1), &json!(1)));
    assert_eq!(batch["ids"][0], first["ids"][0]);
    assert_eq!(root.does("/api/events", event("3"), 202).await["accepted"], 1, "also without its media type");
    let item = claim(&root, "orders").await.remove(0);
    let headers = json!({"subject": "7", "traceparent": "00-1-2-01"});
    for (name, value) in [
        ("kind", json!("order.placed")),
        ("key", json!("k")),
        ("correlationId", json!("c")),
        ("entity", json!({"type": "order", "id": "7"})),
        ("payload", json!({"order": 7})),
        ("occurredAt", json!("2026-05-14T05:13:00Z")),
        ("headers", headers),
    ] {
        assert_eq!(item[name], value, "{name} in {item}");
    }
}

/// PLT-29: our own names are no attributes, and a `dueAt` that is kept as a header is due at once.
async fn plt_29_an_attribute_that_is_misspelt_is_refused(base: Base) {
    let root = World::manual(base).await.root();
    for (name, near) in [
        ("dueAt", "; did you mean `dueat`?"),
        ("correlationId", "; did you mean `correlationid`?"),
        ("partitionKey", "; did you mean `partitionkey`?"),
        ("due_at", "; did you mean `dueat`?"),
        ("Colour", "digits only"),
    ] {
        let mut event = event("1");
        event[name] = json!("2030-01-01T00:00:00Z");
        let reply = root.post("/api/events", event).await;
        assert_eq!(reply.problem(422), [name]);
        assert!(reply.json()["errors"][0]["message"].as_str().unwrap().ends_with(near), "{}", reply.text);
    }
    for (name, value, path) in [
        ("data_base64", json!(7), "data_base64"),
        ("data_base64", json!("aGk="), "data_base64"),
        ("payload", json!({"order": 8}), "payload"),
    ] {
        let mut event = event("1");
        event[name] = value;
        assert!(root.post("/api/events", event).await.problem(422).contains(&path.to_owned()), "{path}");
    }
    let twice = json!({"topic": "orders", "kind": "k", "payload": 1, "data": 2});
    assert_eq!(root.post("/api/events", twice).await.problem(422), ["payload"]);
    let binary = root.with("ce-specversion", "1.0").with("ce-id", "1").with("ce-source", "/shop");
    let reply = binary.with("ce-type", "k").with("ce-due-at", "x").send("POST", "/api/events", "1").await;
    assert_eq!(reply.problem(422), ["due-at"]);
}

async fn binary_is_taken(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let attributes =
        [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/shop"), ("ce-type", "caf%C3%A9")];
    let binary = attributes.iter().fold(root.clone(), |c, (name, value)| c.with(name, value));
    let reply = binary.with("content-type", "application/json").send("POST", "/api/events", " [1,2] ").await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let text = binary.with("content-type", "text/plain").with("ce-id", "2");
    assert_eq!(text.send("POST", "/api/events", "hello").await.status, 202);
    let items = claim(&root, "events").await;
    assert_eq!((&items[0]["kind"], &items[0]["payload"]), (&json!("café"), &json!([1, 2])));
    assert_eq!(items[1]["payload"], "hello");
    binary.with("content-type", "application/json").send("POST", "/api/events", "{").await.problem(400);
    let paths = root.with("ce-specversion", "1.0").send("POST", "/api/events", "1").await.problem(422);
    assert_eq!(paths, ["id", "type", "source"]);
}
