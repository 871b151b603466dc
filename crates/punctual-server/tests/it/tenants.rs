//! What one tenant owns, another does not see.

use crate::world::{Base, World, claim, publish, settle};
use serde_json::json;

on_each! { tenants_do_not_see_each_other, a_key_is_of_one_tenant, tenants_are_listed_in_parts }

async fn tenants_do_not_see_each_other(base: Base) {
    let world = World::manual(base).await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let id = publish(&acme, "orders").await;
    let held = publish(&acme, "orders").await;
    let items = claim(&acme, "orders").await;
    assert_eq!(settle(&acme, "orders", "fail", items[0].clone()).await, "Done");
    let letter = acme.sees("/api/dead-letters").await["items"][0]["id"].as_str().unwrap().to_owned();
    let made = acme.does("/api/keys", json!({"name": "n", "role": "viewer"}), 201).await;

    other.get(&format!("/api/events/{id}")).await.problem(404);
    other.get(&format!("/api/dead-letters/{letter}")).await.problem(404);
    other.delete(&format!("/api/keys/{}", made["id"].as_str().unwrap())).await.problem(404);
    other.get("/api/queues/orders").await.problem(404);
    other.post("/api/queues/orders/ack", json!({"items": [items[1]]})).await.problem(404);
    for path in ["/api/queues", "/api/dead-letters", "/api/keys"] {
        assert_eq!(other.sees(path).await["items"], json!([]), "{path}");
    }
    let replayed = other.does("/api/dead-letters/replay", json!({"ids": [letter]}), 200).await;
    assert_eq!(replayed["replayed"], 0);
    assert!(claim(&other, "orders").await.is_empty());
    for verb in ["ack", "abandon", "fail"] {
        assert_eq!(settle(&other, "orders", verb, items[1].clone()).await, "NotFound", "{verb}");
    }
    assert_eq!(items[1]["id"], json!(held));
    assert_eq!(settle(&acme, "orders", "ack", items[1].clone()).await, "Done");
}

async fn a_key_is_of_one_tenant(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    world.tenant("other").await;
    publish(&acme, "orders").await;
    let viewer = world.key(&acme, "viewer").await;
    assert_eq!(viewer.sees("/api/queues").await["items"][0]["topic"], "orders");
    assert_eq!(viewer.tenant("acme").sees("/api/queues").await["items"][0]["topic"], "orders");
    for slug in ["other", "default", "nobody"] {
        viewer.tenant(slug).get("/api/queues").await.problem(403);
    }
    let ops = world.key(&acme, "ops").await;
    assert_eq!(ops.tenant("other").sees("/api/queues").await["items"], json!([]));
    ops.tenant("nobody").get("/api/queues").await.problem(404);
    world.root().post("/api/tenants", json!({"slug": "acme", "name": "A"})).await.problem(409);
}

async fn tenants_are_listed_in_parts(base: Base) {
    let world = World::manual(base).await;
    for slug in ["a", "b", "c"] {
        world.tenant(slug).await;
    }
    let (mut path, mut seen) = ("/api/tenants?limit=2".to_owned(), Vec::new());
    loop {
        let part = world.root().sees(&path).await;
        seen.extend(part["items"].as_array().unwrap().iter().map(|t| t["slug"].as_str().unwrap().to_owned()));
        let Some(cursor) = part["nextCursor"].as_str() else {
            break;
        };
        path = format!("/api/tenants?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["default", "a", "b", "c"]);
}
