//! API keys: made, used, expired, revoked.

use crate::world::{Base, World};
use serde_json::json;
use std::time::Duration;

on_each! {
    a_key_works_until_it_expires,
    a_revoked_key_stops_within_a_second,
    nobody_makes_a_key_above_their_own,
    prd_14_nobody_revokes_a_key_above_their_own,
    prd_14_an_idempotency_key_shows_nobody_the_answer_to_a_higher_role,
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

/// PRD-14: an admin cannot lock operators out; admins may revoke their own kind.
async fn prd_14_nobody_revokes_a_key_above_their_own(base: Base) {
    let world = World::manual(base).await;
    let admin = world.key(&world.root(), "admin").await;
    for (role, status) in [("ops", 403), ("admin", 204), ("viewer", 204)] {
        let made = world.root().does("/api/keys", json!({"name": "n", "role": role}), 201).await;
        let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
        assert_eq!(admin.delete(&path).await.status, status, "{role}");
        let works = world.anybody().key(made["key"].as_str().unwrap()).get("/api/queues").await.status == 200;
        assert_eq!(works, status == 403, "{role}");
    }
}

/// PRD-14: a viewer who knows an Idempotency-Key does not get the answer that others got unmasked.
async fn prd_14_an_idempotency_key_shows_nobody_the_answer_to_a_higher_role(base: Base) {
    let world = World::manual(base).await;
    let survey = crate::surveys::publish(&world.root(), crate::surveys::csi_gr()).await;
    let (support, viewer) =
        (world.key(&world.root(), "support").await, world.key(&world.root(), "viewer").await);
    let ask = crate::surveys::event("1");
    let first = support.with("idempotency-key", "k1").does("/api/triggers/explain", ask.clone(), 200).await;
    assert_eq!(first["items"][0]["triggers"][0]["surveyId"], survey);
    viewer.with("idempotency-key", "k1").post("/api/triggers/explain", ask.clone()).await.problem(409);
    let again = support.with("idempotency-key", "k1").does("/api/triggers/explain", ask, 200).await;
    assert_eq!(again, first);
}
