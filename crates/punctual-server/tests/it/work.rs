//! Work for remote workers.

use crate::world::{Base, World, claim, publish, settle};
use serde_json::{Value, json};
use std::time::Duration;

on_each! {
    plt_15_remote_worker_consumes_a_topic,
    plt_15_a_claim_that_names_only_its_owner_takes_fifty_for_thirty_seconds,
    a_stale_claim_is_lost_after_the_clock_moved,
    an_abandoned_item_comes_back_when_it_said,
    an_extended_claim_outlives_its_first_lease,
    a_key_is_handled_in_order,
    a_paused_queue_hands_out_nothing,
    a_queue_of_a_subscription_must_exist,
    a_waiting_claim_is_woken_by_an_event,
    a_waiting_claim_gets_what_becomes_due,
    a_client_that_hung_up_takes_no_work,
    a_whole_item_may_be_handed_back,
    prd_14_a_claim_of_large_payloads_comes_in_parts,
}

/// PLT-15: a worker in any language claims, acknowledges, and is told when it is too late.
async fn plt_15_remote_worker_consumes_a_topic(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let event = json!({"topic": "orders", "kind": "order.placed", "key": "k", "payload": {"n": 1.50},
        "headers": {"a": "b"}, "correlationId": "c", "entity": {"type": "order", "id": 7}});
    let id = root.does("/api/events", event, 202).await["ids"][0].clone();
    let items = claim(&root, "orders").await;
    let item = &items[0];
    assert_eq!(items.len(), 1);
    for (name, value) in [
        ("id", id.clone()),
        ("attempt", json!(1)),
        ("kind", json!("order.placed")),
        ("key", json!("k")),
        ("payload", json!({"n": 1.50})),
        ("headers", json!({"a": "b"})),
        ("correlationId", json!("c")),
        ("entity", json!({"type": "order", "id": "7"})),
    ] {
        assert_eq!(item[name], value, "{name} in {item}");
    }
    assert!(item["leaseUntil"].as_str() > item["dueAt"].as_str(), "{item}");
    assert_eq!(claim(&root, "orders").await, Vec::<Value>::new(), "it is under a claim");
    let named = json!({"id": id, "token": item["token"]});
    assert_eq!(settle(&root, "orders", "ack", named.clone()).await, "Done");
    assert_eq!(settle(&root, "orders", "ack", named).await, "AlreadyFinished");
    let other = json!({"id": "999", "token": item["token"]});
    assert_eq!(settle(&root, "orders", "ack", other).await, "NotFound");
    assert_eq!(settle(&root, "orders", "ack", json!({"id": id, "token": "made up"})).await, "LostClaim");
}

/// PLT-15
async fn plt_15_a_claim_that_names_only_its_owner_takes_fifty_for_thirty_seconds(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    let event = json!({"topic": "orders", "kind": "order.placed", "payload": {}});
    root.does("/api/events", json!(vec![event; 60]), 202).await;
    let answer = root.does("/api/queues/orders/claim", json!({"owner": "worker-1"}), 200).await;
    let items = answer["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["leaseUntil"]), (50, &json!("2026-05-14T05:13:30Z")));
}

async fn a_stale_claim_is_lost_after_the_clock_moved(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, "orders").await;
    let first = claim(&root, "orders").await.remove(0);
    world.advance("31s").await;
    let second = claim(&root, "orders").await.remove(0);
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
    assert_ne!(second["token"], first["token"]);
    for verb in ["ack", "abandon", "fail", "extend"] {
        assert_eq!(settle(&root, "orders", verb, first.clone()).await, "LostClaim", "{verb}");
    }
    assert_eq!(settle(&root, "orders", "ack", second).await, "Done");
}

async fn an_abandoned_item_comes_back_when_it_said(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, "orders").await;
    let item = claim(&root, "orders").await.remove(0);
    let word = json!({"id": item["id"], "token": item["token"], "error": "later", "retryAfter": "90s"});
    assert_eq!(settle(&root, "orders", "abandon", word).await, "Done");
    world.advance("89s").await;
    assert!(claim(&root, "orders").await.is_empty());
    world.advance("1s").await;
    assert_eq!(claim(&root, "orders").await[0]["attempt"], 2);
}

async fn an_extended_claim_outlives_its_first_lease(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, "orders").await;
    let item = claim(&root, "orders").await.remove(0);
    let body = json!({"items": [item], "leaseSeconds": 300});
    let answer = root.does("/api/queues/orders/extend", body, 200).await;
    assert_eq!(answer["items"][0]["outcome"], "Done", "{answer}");
    world.advance("200s").await;
    assert!(claim(&root, "orders").await.is_empty());
    assert_eq!(settle(&root, "orders", "ack", item).await, "Done");
}

async fn a_key_is_handled_in_order(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let event = |n: u32| json!({"topic": "orders", "kind": "k", "key": "customer-4", "payload": n});
    root.does("/api/events", json!([event(1), event(2), event(3)]), 202).await;
    for n in 1..=3 {
        let items = claim(&root, "orders").await;
        assert_eq!(items.len(), 1, "{items:?}");
        assert_eq!(items[0]["payload"], n);
        assert_eq!(settle(&root, "orders", "ack", items[0].clone()).await, "Done");
    }
}

async fn a_paused_queue_hands_out_nothing(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, "orders").await;
    let paused = root.does("/api/queues/orders/pause", json!({}), 200).await;
    assert_eq!((&paused["paused"], &paused["waiting"]), (&json!(true), &json!(1)), "{paused}");
    assert!(claim(&root, "orders").await.is_empty());
    root.does("/api/queues/orders/resume", json!({}), 200).await;
    assert_eq!(claim(&root, "orders").await.len(), 1);
}

async fn a_queue_of_a_subscription_must_exist(base: Base) {
    let world = World::manual(base).await;
    let body = json!({"owner": "w"});
    for path in ["/api/queues/orders/mail/claim", "/api/queues/orders%2Fmail/claim"] {
        world.root().post(path, body.clone()).await.problem(404);
    }
    world.root().post("/api/queues/orders/ack", json!({"items": []})).await.problem(404);
    assert_eq!(world.root().sees("/api/queues").await["items"], json!([]), "nothing was made");
}

async fn a_waiting_claim_is_woken_by_an_event(base: Base) {
    let world = World::system(base).await;
    let root = world.root();
    let ask = json!({"owner": "w", "waitSeconds": 30});
    let waiting = {
        let root = root.clone();
        async move { root.does("/api/queues/orders/claim", ask, 200).await }
    };
    let publishing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        publish(&root, "orders").await
    };
    let both = async { tokio::join!(waiting, publishing) };
    let (claimed, id) = tokio::time::timeout(Duration::from_secs(4), both).await.expect("woken, not polled");
    assert_eq!(claimed["items"][0]["id"], id);
}

async fn a_waiting_claim_gets_what_becomes_due(base: Base) {
    let world = World::system(base).await;
    let root = world.root();
    let now = world.engine.store().now().await.unwrap();
    let due = now.plus(Duration::from_millis(700)).to_string();
    root.does("/api/events", json!({"topic": "orders", "kind": "k", "payload": 1, "dueAt": due}), 202).await;
    let ask = json!({"owner": "w", "waitSeconds": 30});
    let waiting = root.does("/api/queues/orders/claim", ask, 200);
    let claimed = tokio::time::timeout(Duration::from_secs(4), waiting).await.expect("at its due time");
    assert_eq!(claimed["items"][0]["payload"], 1);
}

async fn a_client_that_hung_up_takes_no_work(base: Base) {
    let world = World::system(base).await;
    let root = world.root();
    let ask = json!({"owner": "gone", "waitSeconds": 30}).to_string();
    let stream = root.begin("POST", "/api/queues/orders/claim", &ask).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(150)).await;
    let id = publish(&root, "orders").await;
    assert_eq!(claim(&root, "orders").await[0]["id"], id);
}

async fn a_whole_item_may_be_handed_back(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, "orders").await;
    publish(&root, "orders").await;
    let items = claim(&root, "orders").await;
    let answer = root.does("/api/queues/orders/ack", json!({"items": items}), 200).await;
    let expected: Vec<Value> = items.iter().map(|i| json!({"id": i["id"], "outcome": "Done"})).collect();
    assert_eq!(answer["items"], json!(expected));
}

/// PRD-14: however large the payloads, an answer has at most 16 MiB of them; the others wait for the next
/// claim.
async fn prd_14_a_claim_of_large_payloads_comes_in_parts(base: Base) {
    const MIB: usize = 1024 * 1024;
    let world = World::manual(base).await;
    let root = world.root();
    let event = json!({"topic": "orders", "kind": "k", "payload": "x".repeat(MIB - 2)});
    let mut ids: Vec<Value> = Vec::new();
    for _ in 0..2 {
        let answer = root.does("/api/events", json!(vec![&event; 12]), 202).await;
        ids.extend(answer["ids"].as_array().unwrap().iter().cloned());
    }
    let mut got: Vec<Value> = Vec::new();
    for count in [16, 8] {
        let answer = root.post("/api/queues/orders/claim", json!({"owner": "w", "limit": 1_000})).await;
        assert!(answer.text.len() < 17 * MIB, "an answer of {} bytes", answer.text.len());
        let items = answer.json()["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), count);
        for item in &items {
            assert_eq!(item["attempt"], 1, "an item that did not fit was not tried");
            got.push(item["id"].clone());
        }
    }
    assert_eq!(got, ids, "each comes once, in order");
}
