//! Time travel.

use crate::world::{Base, World, claim, publish};
use punctual::{ClockMode, Engine, Work};
use punctual_server::app::Settings;
use serde_json::json;
use std::sync::{Arc, Mutex};

on_each! { time_stands_still_and_moves_both_ways, the_system_clock_cannot_be_moved }

async fn time_stands_still_and_moves_both_ways(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let set = root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z"}), 200).await;
    assert_eq!(set["now"], "2026-05-14T05:13:00Z");
    assert_eq!(world.advance("60d").await["now"], "2026-07-13T05:13:00Z");
    assert_eq!(root.sees("/dev/clock").await["now"], "2026-07-13T05:13:00Z");
    publish(&root, "orders").await;
    assert_eq!(claim(&root, "orders").await[0]["dueAt"], "2026-07-13T05:13:00Z");
    let back = root.does("/dev/clock", json!({"set": "2026-01-01T00:00:00Z"}), 200).await;
    assert_eq!(back["now"], "2026-01-01T00:00:00Z");
    let moved = root.does("/dev/clock", json!({"advance": "1d", "run": false}), 200).await;
    assert_eq!(moved["now"], "2026-01-02T00:00:00Z");
    let ticked = root.does("/api/scheduler/tick", json!({}), 200).await;
    assert_eq!(ticked, json!({"sent": 0, "failed": 0, "expired": 0, "dispatched": 0}));
    assert_eq!(root.send("POST", "/api/scheduler/tick", "").await.status, 200, "a body is not needed");
}

async fn the_system_clock_cannot_be_moved(base: Base) {
    let world = World::system(base).await;
    let root = world.root();
    root.get("/dev/clock").await.problem(409);
    root.post("/dev/clock", json!({"advance": "1d"})).await.problem(409);
    let ticked = root.does("/api/scheduler/tick", json!({}), 200).await;
    assert_eq!(ticked["dispatched"], 0, "one more beside the loops");
}

/// PRD-17: what becomes due on the way is done in order, each at its own time; a tick does what is due now.
#[tokio::test]
async fn prd_17_what_becomes_due_on_the_way_is_done_in_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let seen = Arc::clone(&seen);
        move |work: Work| {
            seen.lock().unwrap().push(work.message.payload);
            async { Ok(()) }
        }
    };
    let builder = Engine::builder("sqlite::memory:").clock(ClockMode::Manual).handler("t", handler);
    let world = World::serve(builder.open().await.unwrap(), Settings::default()).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T00:00:00Z"}), 200).await;
    for (payload, due) in
        [(3, "2026-05-17T00:00:00Z"), (1, "2026-05-15T00:00:00Z"), (2, "2026-05-16T00:00:00Z")]
    {
        root.does("/api/events", json!({"topic": "t", "kind": "k", "payload": payload, "dueAt": due}), 202)
            .await;
    }
    root.does("/api/events", json!({"topic": "t", "kind": "k", "payload": 0}), 202).await;
    assert!(seen.lock().unwrap().is_empty(), "nothing happens by itself");
    assert_eq!(root.does("/api/scheduler/tick", json!({"batchSize": 5}), 200).await["dispatched"], 1);
    world.advance("60d").await;
    assert_eq!(*seen.lock().unwrap(), ["0", "1", "2", "3"]);
}
