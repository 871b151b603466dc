//! What goes wrong around a request: a database that is away, clients that hang up, many at once.

use crate::world::{Base, World, publish};
use punctual::Engine;
use punctual_bench::cluster::{Cluster, ClusterOptions};
use punctual_server::app::Settings;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

on_each! { a_write_once_begun_is_finished, every_item_goes_to_one_worker }

async fn a_write_once_begun_is_finished(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let event = json!({"topic": "orders", "kind": "k", "payload": 1}).to_string();
    drop(root.begin("POST", "/api/events", &event).await);
    let arrived = async {
        while root.get("/api/queues/orders").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), arrived).await.expect("the event is there");
}

async fn every_item_goes_to_one_worker(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let event = |n: u32| json!({"topic": "orders", "kind": "k", "payload": n});
    let batch: Vec<_> = (0..200).map(event).collect();
    root.does("/api/events", json!(batch), 202).await;
    let mut workers = Vec::new();
    for n in 0..8 {
        let root = root.clone();
        workers.push(tokio::spawn(async move {
            let ask = json!({"owner": format!("worker-{n}"), "limit": 7});
            let mut seen = Vec::new();
            loop {
                let items = root.does("/api/queues/orders/claim", ask.clone(), 200).await["items"].clone();
                if items == json!([]) {
                    return seen;
                }
                let done = root.does("/api/queues/orders/ack", json!({"items": items}), 200).await;
                let done = done["items"].as_array().unwrap().clone();
                assert!(done.iter().all(|i| i["outcome"] == "Done"), "{done:?}");
                seen.extend(done.iter().map(|i| i["id"].as_str().unwrap().to_owned()));
            }
        }));
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (200, 200));
}

/// PLT-25: while the database is away, the server lives on, is not ready, and says when to come back.
#[tokio::test]
#[ignore = "slow"]
async fn plt_25_a_database_that_is_away_is_503() {
    let cluster = Cluster::start(&ClusterOptions::fast()).unwrap();
    let engine = Engine::builder(cluster.url("postgres")).pool_size(2).open().await.unwrap();
    let world = World::serve(engine, Settings::default()).await;
    publish(&world.root(), "orders").await;
    drop(cluster);
    let event = json!({"topic": "orders", "kind": "k", "payload": 1});
    let reply = world.root().post("/api/events", event).await;
    reply.problem(503);
    assert_eq!(reply.header("retry-after"), "1");
    assert!(!reply.text.contains("127.0.0.1"), "the database's own words stay here: {}", reply.text);
    let health = world.anybody().get("/health").await;
    assert_eq!((health.status, &health.json()["database"]["reachable"]), (503, &json!(false)));
    assert_eq!(world.anybody().get("/health/ready").await.status, 503);
    assert_eq!(world.anybody().get("/health/live").await.status, 200);
    let metrics = world.anybody().get("/metrics").await;
    assert!(metrics.text.contains("punctual_ready 0"), "{}", metrics.text);
}
