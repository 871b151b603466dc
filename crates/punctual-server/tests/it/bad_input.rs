//! Bad input is refused with what and where, and nothing is written.

use crate::unknown_names::fill;
use crate::world::{Base, World, publish};
use serde_json::{Value, json};

on_each! {
    plt_29_bad_input_is_refused_and_nothing_is_written,
    ids_are_checked_before_the_body,
    unknown_paths_and_methods_are_problems_too,
    what_is_too_large_is_413,
    prd_14_refusals_of_the_parser_are_problems_too,
    prd_14_an_encoded_body_is_refused,
    prd_14_a_nul_is_refused_alike,
    prd_14_problems_are_counted_and_the_first_are_named,
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

/// PRD-14: what cannot be read as HTTP at all is refused in the form of every other problem.
async fn prd_14_refusals_of_the_parser_are_problems_too(base: Base) {
    let world = World::manual(base).await;
    let (long, wide) = ("x".repeat(65_600), "x".repeat(60_000));
    let many: String = (0..120).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (head, status) in [
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), 400),
        ("G@T / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /\u{7f} HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET /?{long} HTTP/1.1\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nx: {wide}\r\ny: {wide}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), 431),
    ] {
        let reply = world.anybody().raw(&head).await;
        assert!([status, 414].contains(&reply.status), "{}: {}", &head[..20], reply.status);
        reply.problem(reply.status);
    }
    for path in ["/api/queues/%ff", "/api/surveys/%ff", "/s/assets/%ff", "/api/surveys/%ff/versions/1"] {
        let reply = world.root().get(path).await;
        reply.problem(reply.status);
    }
}

/// PRD-14: a compressed body is neither unpacked without bounds nor read as if it were JSON.
async fn prd_14_an_encoded_body_is_refused(base: Base) {
    let world = World::manual(base).await;
    let event = json!({"topic": "t", "kind": "k", "payload": 1});
    for encoding in ["gzip", "br", "identity, gzip", "x"] {
        let reply = world.root().with("content-encoding", encoding).post("/api/events", event.clone()).await;
        reply.problem(415);
        assert_eq!(reply.header("accept-encoding"), "identity");
    }
    world.root().with("content-encoding", "identity").does("/api/events", event, 202).await;
}

/// PRD-14: the one character that PostgreSQL cannot keep is refused on both databases, in every filter of
/// every GET, and in every name in a path.
async fn prd_14_a_nul_is_refused_alike(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let document = root.sees("/openapi.json").await;
    let (mut filters, mut names) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for parameter in item["get"]["parameters"].as_array().into_iter().flatten() {
            let parameter =
                parameter["$ref"].as_str().map_or(Some(parameter), |at| document.pointer(&at[1..]));
            let parameter = parameter.unwrap();
            let name = parameter["name"].as_str().unwrap();
            if parameter["in"] == "query" {
                let reply = root.get(&format!("{}?{name}=a%00b", fill(path))).await;
                if is_for_strangers(path) {
                    assert_eq!(reply.status, 404, "{path} {name}: {}", reply.text);
                } else {
                    assert!(reply.problem(422).contains(&name.to_owned()), "{path} {name}: {}", reply.text);
                }
                filters += 1;
            } else if parameter["in"] == "path" {
                let reply = root.get(&fill(&path.replace(&format!("{{{name}}}"), "a%00b"))).await;
                assert!([404, 422].contains(&reply.status), "{path} {name}: {} {}", reply.status, reply.text);
                names += 1;
            }
        }
    }
    assert!(filters > 60 && names > 25, "only {filters} filters and {names} names were asked");
    let filter = |filter: Value| json!({"filter": filter, "dryRun": true});
    for (path, body) in [
        ("/api/dead-letters/replay", filter(json!({"topic": "a\u{0}b"}))),
        ("/api/inbox/replay", filter(json!({"source": "a\u{0}b"}))),
        ("/api/timers/cancel", filter(json!({"key": "a\u{0}b"}))),
        ("/api/automation-schedules/replay", filter(json!({"eventType": "a\u{0}b"}))),
        ("/ops/outbox/replay", filter(json!({"kind": "a\u{0}b"}))),
    ] {
        root.post(path, body).await.problem(422);
    }
}

/// Whether a link leads there: it names nothing here, and a page reads its language or step leniently.
fn is_for_strangers(path: &str) -> bool {
    ["/u/", "/s/", "/webhooks/"].iter().any(|start| path.starts_with(start))
}

/// PRD-14: an answer about a thousand mistakes is not larger than one about a hundred.
async fn prd_14_problems_are_counted_and_the_first_are_named(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.put("/api/queues/orders", json!({})).await;
    for (items, count) in [(150, 300), (5_000, 1_000)] {
        let body = json!({"items": vec![json!({"id": true}); items]});
        let reply = root.post("/api/queues/orders/ack", body).await;
        assert_eq!(reply.problem(422).len(), 100);
        assert_eq!(reply.json()["errorCount"], count, "{}", reply.text);
        let more = format!("and at least {} more; errors has the first 100", count - 1);
        assert!(reply.json()["detail"].as_str().unwrap().contains(&more), "{}", reply.text);
    }
    let few = root.post("/api/queues/orders/ack", json!({"items": [{"id": true}]})).await;
    assert_eq!((few.problem(422).len(), few.json().get("errorCount")), (2, None));
}
