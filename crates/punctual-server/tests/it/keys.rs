//! API keys: made, used, expired, revoked.

use crate::world::{Base, World};
use serde_json::json;
use std::time::Duration;

on_each! {
    a_key_works_until_it_expires,
    a_revoked_key_stops_within_a_second,
    nobody_makes_a_key_above_their_own,
}

async fn a_key_works_until_it_expires(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:00:00Z"}), 200).await;
    let body = json!({"name": "n", "role": "viewer", "expiresAt": "2026-05-14T06:00:00Z"});
    let made = root.does("/api/keys", body, 201).await;
    let client = world.anybody().key(made["key"].as_str().unwrap());
    client.sees("/api/queues").await;
    let listed = root.sees("/api/keys").await["items"][0].clone();
    assert_eq!((&listed["prefix"], &listed["role"]), (&made["prefix"], &json!("viewer")));
    assert_eq!(listed.get("key"), None, "a secret is shown once");
    world.advance("1h").await;
    client.get("/api/queues").await.problem(401);
}

async fn a_revoked_key_stops_within_a_second(base: Base) {
    let world = World::system(base).await;
    let made = world.root().does("/api/keys", json!({"name": "n", "role": "viewer"}), 201).await;
    let client = world.anybody().key(made["key"].as_str().unwrap());
    client.sees("/api/queues").await;
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(world.root().delete(&path).await.status, 204);
    world.root().delete(&path).await.problem(404);
    tokio::time::sleep(Duration::from_millis(900)).await;
    client.get("/api/queues").await.problem(401);
}

async fn nobody_makes_a_key_above_their_own(base: Base) {
    let world = World::manual(base).await;
    let admin = world.key(&world.root(), "admin").await;
    admin.does("/api/keys", json!({"name": "n", "role": "admin"}), 201).await;
    admin.post("/api/keys", json!({"name": "n", "role": "ops"})).await.problem(403);
}
