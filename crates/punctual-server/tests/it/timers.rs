//! Timers: scheduled, seen, cancelled and moved.

use crate::world::{Base, World, claim, settle};
use serde_json::{Value, json};

on_each! {
    prd_14_a_list_of_large_payloads_comes_in_parts,
    plt_19_a_timer_fires_at_its_time,
    plt_19_a_cancel_says_whether_it_was_in_time,
    plt_19_a_moved_timer_fires_at_its_new_time,
    plt_19_a_list_is_scheduled_whole_and_spread,
    plt_19_many_are_cancelled_and_moved_by_a_filter,
    plt_29_every_problem_of_a_timer_is_named,
    timers_are_listed_with_filters_and_a_cursor,
    another_tenants_timers_are_not_there,
}

async fn schedule(world: &World, delay: &str) -> Value {
    let timer = json!({"topic": "orders", "payload": {"order": 7}, "delay": delay});
    world.root().does("/api/timers", timer, 201).await
}

/// PLT-19
async fn plt_19_a_timer_fires_at_its_time(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z"}), 200).await;
    let made = schedule(&world, "1d12h").await;
    assert_eq!(made["dueAt"], "2026-05-15T17:13:00Z");
    let path = format!("/api/timers/{}", made["id"].as_str().unwrap());
    let seen = root.sees(&path).await;
    assert_eq!((&seen["status"], &seen["progress"]), (&json!("Waiting"), &json!(null)));
    assert_eq!((&seen["kind"], &seen["payload"]), (&json!("timer"), &json!({"order": 7})));
    world.advance("36h").await;
    assert_eq!(root.sees(&path).await["progress"], "Queued");
    let item = claim(&root, "orders").await.remove(0);
    assert_eq!((&item["id"], &item["dueAt"]), (&made["id"], &json!("2026-05-15T17:13:00Z")));
    assert_eq!(root.sees(&path).await["progress"], "InFlight");
    assert_eq!(settle(&root, "orders", "ack", item).await, "Done");
    let seen = root.sees(&path).await;
    assert_eq!((&seen["status"], &seen["progress"]), (&json!("Fired"), &json!("Done")));
}

/// PLT-19
async fn plt_19_a_cancel_says_whether_it_was_in_time(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let (first, second) = (schedule(&world, "1h").await, schedule(&world, "2h").await);
    let path = |made: &Value| format!("/api/timers/{}", made["id"].as_str().unwrap());
    assert_eq!(root.delete(&path(&first)).await.json(), json!({"cancelled": true}));
    assert_eq!(root.delete(&path(&first)).await.json(), json!({"cancelled": false}));
    assert_eq!(root.sees(&path(&first)).await["status"], "Cancelled");
    world.advance("3h").await;
    let items = claim(&root, "orders").await;
    assert_eq!(items.len(), 1, "the cancelled one did not fire");
    assert_eq!(root.delete(&path(&second)).await.json(), json!({"cancelled": false}), "it is in flight");
    root.delete("/api/timers/999999").await.problem(404);
    root.get("/api/timers/999999").await.problem(404);
    root.get("/api/timers/soon").await.problem(404);
}

/// PLT-19
async fn plt_19_a_moved_timer_fires_at_its_new_time(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T00:00:00Z"}), 200).await;
    let made = schedule(&world, "1h").await;
    let path = format!("/api/timers/{}/move", made["id"].as_str().unwrap());
    let moved = root.does(&path, json!({"dueAt": "2026-05-16T00:00:00+02:00"}), 200).await;
    assert_eq!(moved, json!({"moved": true, "dueAt": "2026-05-15T22:00:00Z"}));
    world.advance("1d").await;
    assert!(claim(&root, "orders").await.is_empty());
    world.advance("22h").await;
    assert_eq!(claim(&root, "orders").await.len(), 1);
    let late = root.does(&path, json!({"delay": "1h"}), 200).await;
    assert_eq!(late, json!({"moved": false, "dueAt": "2026-05-15T22:00:00Z"}));
    let wrong = root.post(&path, json!({"dueAt": "tomorrow", "delay": "1h"})).await;
    assert_eq!(wrong.problem(422), ["delay"]);
    root.post("/api/timers/999999/move", json!({"delay": "1h"})).await.problem(404);
}

/// PLT-19
async fn plt_19_a_list_is_scheduled_whole_and_spread(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let due = "2030-01-01T00:00:00Z";
    let one = json!({"topic": "orders", "payload": 1, "dueAt": due, "id": 7});
    let list = json!([one, {"topic": "orders", "payload": 2, "dueAt": due}]);
    let made = root.does("/api/timers?spread=10m", list, 201).await;
    assert_eq!((&made[0]["dueAt"], &made[1]["dueAt"]), (&json!(due), &json!("2030-01-01T00:05:00Z")));
    let again = root.does("/api/timers", json!([one]), 201).await;
    assert_eq!(again, json!([{"id": made[0]["id"], "dueAt": due, "duplicate": true}]));
    let many: Vec<Value> = (0..10_001).map(|_| one.clone()).collect();
    root.post("/api/timers", json!(many)).await.problem(422);
    assert_eq!(root.does("/api/timers", json!([]), 201).await, json!([]));
    assert_eq!(root.sees("/api/timers").await["items"].as_array().unwrap().len(), 2);
}

/// PLT-19
async fn plt_19_many_are_cancelled_and_moved_by_a_filter(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T00:00:00Z"}), 200).await;
    let mut ids = Vec::new();
    for n in 1..=6 {
        let story = if n % 2 == 0 { "even" } else { "odd" };
        let timer =
            json!({"topic": "orders", "payload": n, "delay": format!("{n}h"), "correlationId": story});
        ids.push(root.does("/api/timers", timer, 201).await["id"].clone());
    }
    let odd = json!({"filter": {"correlationId": "odd"}, "dryRun": true});
    assert_eq!(root.does("/api/timers/cancel", odd, 200).await, json!({"wouldCancel": 3, "more": false}));
    let odd = json!({"filter": {"correlationId": "odd"}});
    assert_eq!(root.does("/api/timers/cancel", odd, 200).await, json!({"cancelled": 3, "more": false}));
    let named = json!({"ids": [ids[0], ids[1], "999"]});
    let done = root.does("/api/timers/cancel", named, 200).await;
    assert_eq!(done, json!({"cancelled": 1, "more": false, "ids": [ids[1]]}), "one was cancelled before");
    let late = json!({"filter": {"dueFrom": "2026-05-14T05:00:00Z"}, "delay": "2d", "spread": "1h"});
    assert_eq!(root.does("/api/timers/move", late, 200).await, json!({"moved": 1, "more": false}));
    let path = format!("/api/timers/{}", ids[5].as_str().unwrap());
    assert_eq!(root.sees(&path).await["dueAt"], "2026-05-16T00:00:00Z");
    assert_eq!(root.post("/api/timers/cancel", json!({})).await.problem(422), ["ids"]);
    let wrong = json!({"filter": {"colour": 1, "dueFrom": "soon"}, "ids": ["x"]});
    let paths = root.post("/api/timers/move", wrong).await.problem(422);
    for path in ["ids", "ids[0]", "filter.colour", "filter.dueFrom", "dueAt"] {
        assert!(paths.iter().any(|p| p == path), "{path} in {paths:?}");
    }
}

/// PLT-29
async fn plt_29_every_problem_of_a_timer_is_named(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let wrong = json!([
        {"topic": "a/b", "dueAt": "soon", "deley": "1h"},
        {"topic": "orders", "payload": {}, "delay": "1h", "dueAt": "2030-01-01T00:00:00Z"},
        {"topic": "orders", "payload": {}},
        {"topic": "orders", "payload": {}, "delay": "40000d"},
        7
    ]);
    let paths = root.post("/api/timers", wrong).await.problem(422);
    for path in
        ["[0].topic", "[0].payload", "[0].dueAt", "[0].deley", "[1].delay", "[2].dueAt", "[3].delay", "[4]"]
    {
        assert!(paths.iter().any(|p| p == path), "{path} in {paths:?}");
    }
    root.post("/api/timers?spread=soon", json!({"topic": "t", "payload": 1, "delay": "1s"}))
        .await
        .problem(422);
    assert_eq!(root.sees("/api/timers").await["items"], json!([]), "nothing was written");
}

async fn timers_are_listed_with_filters_and_a_cursor(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    for (topic, key, delay) in [("a", "k", "3h"), ("a", "l", "1h"), ("b", "k", "2h")] {
        let timer = json!({"topic": topic, "key": key, "payload": topic, "delay": delay, "kind": "k"});
        root.does("/api/timers", timer, 201).await;
    }
    let count = async |query: &str| {
        let list = root.sees(&format!("/api/timers?{query}")).await;
        list["items"].as_array().unwrap().len()
    };
    for (query, expected) in [
        ("", 3),
        ("topic=a", 2),
        ("key=k", 2),
        ("status=Waiting", 3),
        ("status=fired", 0),
        ("topic=a&key=k", 1),
    ] {
        assert_eq!(count(query).await, expected, "{query}");
    }
    let first = root.sees("/api/timers?limit=2").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = root.sees(&format!("/api/timers?limit=2&cursor={cursor}")).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (1, &json!(null)));
    assert_eq!(rest["items"][0]["key"], "k", "the last one due");
    assert_eq!(root.get("/api/timers?status=late&dueFrom=x").await.problem(422), ["dueFrom", "status"]);
    root.get("/api/timers?cursor=6161").await.problem(422);
    world.advance("2h").await;
    assert_eq!(count("status=Fired").await, 2);
}

async fn another_tenants_timers_are_not_there(base: Base) {
    let world = World::manual(base).await;
    let made = schedule(&world, "1h").await;
    let other = world.tenant("other").await;
    let path = format!("/api/timers/{}", made["id"].as_str().unwrap());
    other.get(&path).await.problem(404);
    other.delete(&path).await.problem(404);
    other.post(&format!("{path}/move"), json!({"delay": "1h"})).await.problem(404);
    assert_eq!(other.does("/api/timers/cancel", json!({"filter": {}}), 200).await["cancelled"], 0);
    assert_eq!(world.root().sees(&path).await["status"], "Waiting");
}

/// PRD-14: however large the payloads, an answer has about 16 MiB of them, and the cursor leads to the rest.
async fn prd_14_a_list_of_large_payloads_comes_in_parts(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let payload = "x".repeat(1024 * 1000);
    let timer = |n: u32| json!({"topic": "t", "payload": payload, "delay": format!("{n}h")});
    let timers: Vec<_> = (1..=24).map(timer).collect();
    root.does("/api/timers", json!(timers), 201).await;
    let first = root.sees("/api/timers?limit=1000").await;
    let count = first["items"].as_array().unwrap().len();
    assert!((16..=18).contains(&count), "{count}");
    let next = format!("/api/timers?limit=1000&cursor={}", first["nextCursor"].as_str().unwrap());
    let rest = root.sees(&next).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (24 - count, &json!(null)));
    let few = root.sees("/api/timers?limit=3").await;
    assert_eq!(few["items"].as_array().unwrap().len(), 3);
    assert!(few["nextCursor"].is_string());
}
