//! Bad input is refused with what and where, and nothing is written.

use crate::world::{Base, World, publish};
use serde_json::{Value, json};

on_each! {
    plt_29_bad_input_is_refused_and_nothing_is_written,
    ids_are_checked_before_the_body,
    unknown_paths_and_methods_are_problems_too,
    what_is_too_large_is_413,
}

type Paths = &'static [&'static str];
/// Method, path, body, status, paths of the problems.
type Case = (&'static str, &'static str, Value, u16, Paths);

fn events() -> Vec<Case> {
    let long = "x".repeat(256);
    let post = |body, paths: Paths| ("POST", "/api/events", body, 422, paths);
    vec![
        ("POST", "/api/events", Value::from("not an object"), 422, &[""]),
        post(json!({}), &["topic", "kind", "payload"]),
        post(json!({"topic": "a/b", "kind": long, "payload": 1}), &["topic", "kind"]),
        post(
            json!({"topic": "t", "kind": "k", "payload": 1, "dueAt": "soon", "occurredAt": 3}),
            &["dueAt", "occurredAt"],
        ),
        post(json!({"topic": "t", "kind": "k", "payload": 1, "headers": {"a": 1}}), &["headers.a"]),
        post(
            json!({"topic": "t", "kind": "k", "payload": 1, "entity": {"type": 1}}),
            &["entity.type", "entity.id"],
        ),
        post(
            json!([{"topic": "t", "kind": "k", "payload": 1}, {"topic": "", "kind": "k", "payload": 1}, 5]),
            &["[1].topic", "[2]"],
        ),
        post(json!({"specversion": "2.0", "type": "k", "source": "s"}), &["specversion", "id"]),
    ]
}

fn queues() -> Vec<Case> {
    let claim = |body, paths: Paths| ("POST", "/api/queues/orders/claim", body, 422, paths);
    let set = |body, paths: Paths| ("PUT", "/api/queues/orders", body, 422, paths);
    vec![
        claim(json!({}), &["owner"]),
        claim(json!({"owner": "w", "leaseSeconds": -1}), &["leaseSeconds"]),
        claim(
            json!({"owner": "w", "leaseSeconds": 0, "limit": 0, "waitSeconds": 61}),
            &["leaseSeconds", "limit", "waitSeconds"],
        ),
        claim(json!({"owner": "w", "limit": 1001, "leaseSeconds": 1.5}), &["leaseSeconds", "limit"]),
        claim(json!({"owner": "", "lease": 3}), &["lease", "owner"]),
        claim(json!({"owner": "a\u{0}"}), &["owner"]),
        ("POST", "/api/queues/orders/ack", json!({}), 422, &["items"]),
        (
            "POST",
            "/api/queues/orders/ack",
            json!({"items": [{"id": true}, 3]}),
            422,
            &["items[0].id", "items[0].token", "items[1]"],
        ),
        (
            "POST",
            "/api/queues/orders/abandon",
            json!({"items": [{"id": 1, "token": "t", "retryAfter": "soon"}]}),
            422,
            &["items[0].retryAfter"],
        ),
        set(
            json!({"maxAttempts": 0, "backoff": ["x"], "retention": "-1d", "colour": 1}),
            &["backoff", "colour", "maxAttempts", "retention"],
        ),
        ("PUT", "/api/queues/%20", json!({}), 422, &["topic"]),
    ]
}

fn others() -> Vec<Case> {
    vec![
        ("POST", "/api/dead-letters/replay", json!({}), 422, &["ids"]),
        ("POST", "/api/dead-letters/replay", json!({"ids": ["x"], "dryRun": 1}), 422, &["dryRun", "ids[0]"]),
        ("GET", "/api/dead-letters?limit=0&cursor=zz", json!(""), 422, &["limit", "cursor"]),
        ("GET", "/api/queues?limit=1001", json!(""), 422, &["limit"]),
        (
            "POST",
            "/api/tenants",
            json!({"slug": "A B", "name": "", "timeZone": "Mars/Base"}),
            422,
            &["slug", "name", "timeZone"],
        ),
        ("POST", "/api/keys", json!({"role": "king", "expiresAt": "x"}), 422, &["name", "role", "expiresAt"]),
        (
            "POST",
            "/api/keys",
            json!({"name": "k", "role": "viewer", "expiresAt": "2000-01-01T00:00:00Z"}),
            422,
            &["expiresAt"],
        ),
        ("POST", "/dev/clock", json!({"advance": "1 day"}), 422, &["advance"]),
        ("POST", "/dev/clock", json!({"advance": "1d", "set": "2026-01-01T00:00:00Z"}), 422, &["advance"]),
        ("POST", "/api/scheduler/tick", json!({"batchSize": 0}), 422, &["batchSize"]),
    ]
}

/// PLT-29: every problem is named by its path, and the tables stay as they were.
async fn plt_29_bad_input_is_refused_and_nothing_is_written(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, "orders").await;
    let before = state(&world).await;
    for (method, path, body, status, paths) in [events(), queues(), others()].concat() {
        let reply = root.send(method, path, &body.to_string()).await;
        let mut found = reply.problem(status);
        found.sort();
        let mut expected = paths.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{method} {path} {body}: {}", reply.text);
        assert_eq!(state(&world).await, before, "{method} {path} {body}");
    }
    for text in ["", "{", "{\"topic\": }", "[1,", "\u{1}"] {
        root.send("POST", "/api/events", text).await.problem(400);
        root.send("POST", "/api/queues/orders/claim", text).await.problem(400);
    }
    assert_eq!(state(&world).await, before);
}

async fn state(world: &World) -> Value {
    let root = world.root();
    json!([
        root.sees("/api/queues").await,
        root.sees("/api/tenants").await,
        root.sees("/api/keys").await,
        root.sees("/api/dead-letters").await,
        root.sees("/dev/clock").await,
    ])
}

async fn ids_are_checked_before_the_body(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.send("POST", "/api/queues/nowhere/ack", "not json").await.problem(404);
    root.tenant("nobody").send("POST", "/api/events", "not json").await.problem(404);
    world.anybody().send("POST", "/api/events", "not json").await.problem(401);
    for path in ["/api/events/7", "/api/events/x", "/api/dead-letters/7", "/api/dead-letters/-1"] {
        root.get(path).await.problem(404);
    }
    root.delete("/api/keys/99").await.problem(404);
}

async fn unknown_paths_and_methods_are_problems_too(base: Base) {
    let world = World::manual(base).await;
    world.root().get("/api/nothing").await.problem(404);
    let reply = world.root().delete("/api/events").await;
    reply.problem(405);
    assert_eq!(reply.header("allow"), "POST");
}

async fn what_is_too_large_is_413(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let payload = "x".repeat(1024 * 1024 + 1);
    let event = json!({"topic": "t", "kind": "k", "payload": payload});
    assert_eq!(root.post("/api/events", event).await.problem(413), ["payload"]);
    let huge = " ".repeat(32 * 1024 * 1024 + 1);
    root.send("POST", "/api/events", &huge).await.problem(413);
    let event = json!({"topic": "t", "kind": "k", "payload": 1});
    let paths = root.post("/api/events", json!(vec![event; 10_001])).await.problem(422);
    assert_eq!(paths, [""]);
    assert_eq!(root.sees("/api/queues").await["items"], json!([]));
}
