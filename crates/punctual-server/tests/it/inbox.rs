//! PLT-16 to PLT-18 over HTTP: begin, complete, fail, dead, list, replay.

use crate::client::Client;
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    plt_16_each_decision_over_http,
    plt_17_a_stale_token_is_a_conflict,
    plt_18_the_inbox_is_listed_and_replayed,
    plt_18_what_is_stuck_is_in_health_and_metrics,
    plt_16_a_wrong_delivery_is_refused_with_every_problem,
}

async fn begin(client: &Client, id: &str) -> Value {
    let body = json!({"source": "shop", "messageId": id, "hash": "h", "leaseSeconds": 60, "maxAttempts": 2});
    client.does("/api/inbox/begin", body, 200).await
}

fn said(told: &Value, id: &str) -> Value {
    json!({"source": "shop", "messageId": id, "token": told["token"], "error": "no such customer"})
}

/// PLT-16, PLT-17
async fn plt_16_each_decision_over_http(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let first = begin(&root, "1").await;
    assert_eq!((&first["decision"], &first["attempts"]), (&json!("Process"), &json!(1)), "{first}");
    let second = begin(&root, "1").await;
    assert_eq!((&second["decision"], second.get("token")), (&json!("InProgress"), None), "{second}");
    let other = json!({"source": "shop", "messageId": "1", "hash": "other"});
    assert_eq!(root.does("/api/inbox/begin", other, 200).await["decision"], "Conflict");
    assert_eq!(root.does("/api/inbox/fail", said(&first, "1"), 200).await, json!({"outcome": "Done"}));
    let again = begin(&root, "1").await;
    assert_eq!((&again["decision"], &again["attempts"]), (&json!("Process"), &json!(2)), "{again}");
    assert_eq!(root.does("/api/inbox/complete", said(&again, "1"), 200).await, json!({"outcome": "Done"}));
    let twice = root.does("/api/inbox/complete", said(&again, "1"), 200).await;
    assert_eq!(twice, json!({"outcome": "AlreadyFinished"}), "an answer that was lost can be had again");
    assert_eq!(begin(&root, "1").await, json!({"decision": "AlreadyProcessed", "attempts": 2}));
    let doomed = begin(&root, "2").await;
    root.does("/api/inbox/dead", said(&doomed, "2"), 200).await;
    assert_eq!(begin(&root, "2").await, json!({"decision": "Dead", "attempts": 1}));
}

/// PLT-17: whatever is said.
async fn plt_17_a_stale_token_is_a_conflict(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let stale = begin(&root, "1").await;
    world.advance("60s").await;
    let own = begin(&root, "1").await;
    assert_eq!(own["attempts"], 2, "a crash frees it when its lease ends");
    let before = root.sees("/api/inbox").await;
    for verb in ["complete", "fail", "dead"] {
        let path = format!("/api/inbox/{verb}");
        root.post(&path, said(&stale, "1")).await.problem(409);
        root.post(&path, said(&stale, "unknown")).await.problem(404);
        world.tenant(&format!("t-{verb}")).await.post(&path, said(&own, "1")).await.problem(404);
    }
    assert_eq!(root.sees("/api/inbox").await, before, "and nothing has changed");
    root.does("/api/inbox/complete", said(&own, "1"), 200).await;
}

/// PLT-18
async fn plt_18_the_inbox_is_listed_and_replayed(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    for id in ["1", "2", "3"] {
        let told = begin(&root, id).await;
        root.does("/api/inbox/dead", said(&told, id), 200).await;
    }
    begin(&root, "4").await;
    let first = root.sees("/api/inbox?source=shop&status=Dead&limit=2").await;
    let row = &first["items"][0];
    assert_eq!((&row["messageId"], &row["status"]), (&json!("1"), &json!("Dead")), "{row}");
    assert_eq!((&row["error"], &row["attempts"]), (&json!("no such customer"), &json!(1)));
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = root.sees(&format!("/api/inbox?status=dead&limit=2&cursor={cursor}")).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(root.sees("/api/inbox?source=web").await["items"], json!([]));
    root.get("/api/inbox?status=gone").await.problem(422);

    let dry =
        root.does("/api/inbox/replay", json!({"filter": {"source": "shop"}, "dryRun": true}), 200).await;
    assert_eq!(dry["wouldReplay"], 3, "{dry}");
    let ids = json!([row["id"]]);
    let one = root.does("/api/inbox/replay", json!({"ids": ids, "dryRun": false}), 200).await;
    assert_eq!(one, json!({"replayed": 1, "ids": ids}));
    assert_eq!(begin(&root, "1").await["decision"], "Process");
    assert_eq!(root.does("/api/inbox/replay", json!({"filter": {}}), 200).await["replayed"], 2);
    root.post("/api/inbox/replay", json!({})).await.problem(422);
}

/// PLT-18, PLT-25: over an hour past its lease.
async fn plt_18_what_is_stuck_is_in_health_and_metrics(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    begin(&root, "1").await;
    let told = begin(&root, "2").await;
    root.does("/api/inbox/dead", said(&told, "2"), 200).await;
    assert_eq!(root.sees("/health").await["inbox"], json!({"processing": 1, "stuck": 0, "dead": 1}));
    world.advance("62m").await;
    let health = root.sees("/health").await;
    assert_eq!(health["inbox"]["stuck"], 1, "{health}");
    assert_eq!(health["status"], "degraded", "which is no reason to turn requests away");
    assert!(health["complaints"][0].as_str().unwrap().contains("inbox"), "{health}");
    let metrics = world.anybody().get("/metrics").await.text;
    for line in ["punctual_inbox_processing 1", "punctual_inbox_stuck 1", "punctual_inbox_dead 1"] {
        assert!(metrics.lines().any(|l| l == line), "{line} in {metrics}");
    }
}

/// PLT-29
async fn plt_16_a_wrong_delivery_is_refused_with_every_problem(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let wrong = json!({"messageId": "", "hash": "\n", "leaseSeconds": -1, "maxAttempts": 0, "colour": 1});
    let mut paths = root.post("/api/inbox/begin", wrong).await.problem(422);
    paths.sort();
    assert_eq!(paths, ["colour", "hash", "leaseSeconds", "maxAttempts", "messageId", "source"]);
    let wrong = root.post("/api/inbox/complete", json!({"source": "shop"})).await;
    assert_eq!(wrong.problem(422), ["messageId", "token"]);
    assert_eq!(root.sees("/api/inbox").await["items"], json!([]));
}
