//! Dead letters: seen, replayed, purged.

use crate::world::{Base, World, claim, publish, settle};
use serde_json::{Value, json};

on_each! {
    prd_13_the_status_page_shows_the_latest,
    a_dead_letter_tells_its_story_and_is_replayed,
    a_filter_moves_all_of_them,
    out_of_attempts_is_dead,
}

async fn die(world: &World, topic: &str) -> String {
    let root = world.root();
    publish(&root, topic).await;
    let item = claim(&root, topic).await.remove(0);
    let word = json!({"id": item["id"], "token": item["token"], "error": "no such customer"});
    assert_eq!(settle(&root, topic, "fail", word).await, "Done");
    item["id"].as_str().unwrap().to_owned()
}

async fn a_dead_letter_tells_its_story_and_is_replayed(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let message = die(&world, "orders").await;
    let list = root.sees("/api/dead-letters?topic=orders").await;
    let letter = &list["items"][0];
    assert_eq!((&letter["messageId"], &letter["subscription"]), (&json!(message), &json!(null)));
    assert_eq!(letter["attempts"][0]["error"], "no such customer");
    assert_eq!(letter["payload"], json!({"order": 7}));
    let id = letter["id"].as_str().unwrap();
    assert_eq!(&root.sees(&format!("/api/dead-letters/{id}")).await, letter);
    let path = "/api/dead-letters/replay";
    let dry = root.does(path, json!({"ids": [id], "dryRun": true}), 200).await;
    assert_eq!(dry, json!({"wouldReplay": 1, "ids": [id]}));
    assert!(claim(&root, "orders").await.is_empty());
    assert_eq!(root.does(path, json!({"ids": [id, 999]}), 200).await, json!({"replayed": 1, "ids": [id]}));
    assert_eq!(claim(&root, "orders").await[0]["id"], json!(message));
    assert_eq!(root.sees("/api/dead-letters").await["items"], json!([]));
}

async fn a_filter_moves_all_of_them(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    for topic in ["a", "a", "a", "b"] {
        die(&world, topic).await;
    }
    let first = root.sees("/api/dead-letters?limit=3").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = root.sees(&format!("/api/dead-letters?limit=3&cursor={cursor}")).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(rest["nextCursor"], json!(null));
    let filter = json!({"filter": {"topic": "a/$deadletterqueue"}});
    assert_eq!(root.does("/api/dead-letters/replay", filter, 200).await["replayed"], 3);
    let purged = root.does("/api/dead-letters/purge", json!({"filter": {}}), 200).await;
    assert_eq!(purged["purged"], 1);
    assert_eq!(claim(&root, "a").await.len(), 3);
    assert!(claim(&root, "b").await.is_empty());
}

async fn out_of_attempts_is_dead(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let set = root.put("/api/queues/orders", json!({"maxAttempts": 2, "backoff": ["1m", "1m"]})).await;
    assert_eq!(set.json()["maxAttempts"], 2, "{}", set.text);
    publish(&root, "orders").await;
    for _ in 0..2 {
        let item = claim(&root, "orders").await.remove(0);
        assert_eq!(settle(&root, "orders", "abandon", item).await, "Done");
        world.advance("1m").await;
    }
    assert!(claim(&root, "orders").await.is_empty());
    assert_eq!(root.sees("/api/queues/orders").await["dead"], 1);
}

/// PRD-13: however many there are, the page shows the latest, without reading their payloads.
async fn prd_13_the_status_page_shows_the_latest(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.put("/api/queues/orders", json!({})).await;
    let events: Vec<Value> =
        (0..205).map(|n| json!({"topic": "orders", "kind": format!("kind-{n}"), "payload": n})).collect();
    root.does("/api/events", json!(events), 202).await;
    let ask = json!({"owner": "w", "leaseSeconds": 30, "limit": 1_000});
    let claimed = root.does("/api/queues/orders/claim", ask, 200).await;
    let item = |item: &Value| json!({"id": item["id"], "token": item["token"], "error": "no such customer"});
    let items: Vec<Value> = claimed["items"].as_array().unwrap().iter().map(item).collect();
    root.does("/api/queues/orders/fail", json!({"items": items}), 200).await;
    let page = world.anybody().get("/").await.text;
    for (kind, is_shown) in [("kind-204", true), ("kind-195", true), ("kind-194", false), ("kind-0", false)] {
        assert_eq!(page.contains(&format!("<td>{kind}</td>")), is_shown, "{kind} in {page}");
    }
    let replayed = root.does("/api/dead-letters/replay", json!({"filter": {"topic": "orders"}}), 200).await;
    assert_eq!(replayed["replayed"], 205, "{replayed}");
}
