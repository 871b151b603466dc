//! `Idempotency-Key`.

use crate::world::{Base, World, claim};
use serde_json::json;

on_each! { a_repeated_request_gets_the_first_answer, a_secret_is_shown_once, keys_are_the_tenants_own }

async fn a_repeated_request_gets_the_first_answer(base: Base) {
    let world = World::manual(base).await;
    let once = world.root().with("idempotency-key", "abc");
    let event = json!({"topic": "t", "kind": "k", "payload": 1});
    let first = once.post("/api/events", event.clone()).await;
    let again = once.post("/api/events", event).await;
    assert_eq!((again.status, &again.text), (202, &first.text));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    assert_eq!(claim(&world.root(), "t").await.len(), 1);
    once.post("/api/events", json!({"topic": "t", "kind": "k", "payload": 2})).await.problem(409);
    once.post("/api/queues/t/pause", json!({})).await.problem(409);
    let wrong = world.root().with("idempotency-key", "wrong");
    for _ in 0..2 {
        assert_eq!(
            wrong.post("/api/events", json!({"topic": "t", "kind": "k"})).await.problem(422),
            ["payload"]
        );
    }
    let long = world.root().with("idempotency-key", &"x".repeat(256));
    assert_eq!(long.post("/api/events", json!({})).await.problem(422), ["Idempotency-Key"]);
}

async fn a_secret_is_shown_once(base: Base) {
    let world = World::manual(base).await;
    let once = world.root().with("idempotency-key", "abc");
    let key = json!({"name": "n", "role": "viewer"});
    let first = once.does("/api/keys", key.clone(), 201).await;
    let again = once.does("/api/keys", key, 201).await;
    assert!(first["key"].as_str().unwrap().starts_with("pk_"));
    assert_eq!((&again["key"], &again["id"]), (&json!(null), &first["id"]));
}

async fn keys_are_the_tenants_own(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    for client in [world.root(), acme] {
        let once = client.with("idempotency-key", "abc");
        let event = json!({"topic": "t", "kind": "k", "payload": 1});
        assert_eq!(once.post("/api/events", event).await.header("idempotent-replayed"), "");
    }
}
