//! Health, metrics, and what surrounds every request.

use crate::cli::process::{Place, Run};
use crate::world::{Base, World, publish};
use punctual::ClockMode;
use punctual::base::clock::monotonic;
use punctual::database::migrate::SCHEMA_VERSION;
use punctual::database::planted_bugs::PlantedBug;
use punctual::engine::Builder;
use punctual_faulty_disk::{Fault, FaultTarget, heal, install, plan};
use punctual_server::app::Settings;
use serde_json::json;
use std::time::Duration;

on_each! {
    plt_25_health_and_metrics_over_http,
    plt_25_health_and_metrics_tell_each_loops_last_success,
    plt_25_a_hung_loop_is_not_live,
    plt_25_health_and_metrics_tell_each_lag,
    every_answer_is_dressed,
    a_queue_keeps_its_settings,
}

/// PLT-25: live, ready and details apart from each other, and metrics for all of it.
async fn plt_25_health_and_metrics_over_http(base: Base) {
    let world = World::system(base).await;
    publish(&world.root(), "orders").await;
    let health = world.anybody().sees("/health").await;
    assert_eq!((&health["status"], &health["ready"]), (&json!("ok"), &json!(true)), "{health}");
    assert_eq!(health["database"]["missing"], json!([]));
    assert_eq!(
        health["database"]["kind"],
        match base {
            Base::Sqlite => "SQLite",
            Base::Postgres => "PostgreSQL",
        }
    );
    assert_eq!(health["database"]["schemaVersion"], SCHEMA_VERSION);
    let loops: Vec<&str> =
        health["loops"].as_array().unwrap().iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert!(loops.contains(&"reaper") && loops.contains(&"retention"), "{loops:?}");
    assert!(health["loops"].as_array().unwrap().iter().all(|of| of["hung"] == false && of["panics"] == 0));
    assert_eq!(health["database"]["takesWrites"], true);
    assert_eq!(world.anybody().sees("/health/live").await, json!({"status": "ok"}));
    assert_eq!(world.anybody().sees("/health/ready").await, json!({"status": "ok"}));
    world.root().sees("/api/queues").await;
    let metrics = world.anybody().get("/metrics").await;
    assert!(metrics.header("content-type").starts_with("text/plain"));
    for line in [
        "punctual_ready 1",
        "punctual_live 1",
        "punctual_dead_letters 0",
        "punctual_stuck_claims 0",
        "punctual_takes_writes 1",
        &format!("punctual_schema_version {SCHEMA_VERSION}"),
        "punctual_loop_in_trouble{loop=\"reaper\"} 0",
        "punctual_loop_in_trouble{loop=\"job planner\"} 0",
        "punctual_job_lag_seconds 0",
        "punctual_job_runs{status=\"open\"} 0",
        "punctual_queue_waiting{tenant=\"default\",topic=\"orders\",subscription=\"\"} 1",
    ] {
        assert!(metrics.text.lines().any(|l| l == line), "{line} in {}", metrics.text);
    }
}

/// PLT-25: the listener looks every second, so its last success is never long ago; the loop that hangs has
/// none, and the time since then grows.
async fn plt_25_health_and_metrics_tell_each_loops_last_success(base: Base) {
    let stuck = |builder: Builder| builder.plant(PlantedBug::StuckLoop);
    let world =
        World::furnished(World::place(base).await, ClockMode::System, Settings::default(), stuck).await;
    let since = async |name: &str| {
        let health = world.anybody().sees("/health").await;
        let all = health["loops"].as_array().unwrap();
        let of = all.iter().find(|of| of["name"] == name).unwrap_or_else(|| panic!("{name}: {health}"));
        of["secondsSinceSuccess"].as_f64().unwrap()
    };
    let began = monotonic();
    while since("retention").await < 3.0 {
        assert!(began.elapsed() < Duration::from_secs(30), "the time since the start grows");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (reaper, retention) = (since("reaper").await, since("retention").await);
    assert!(reaper < retention, "the reaper succeeded {reaper} s ago, `retention` never in {retention} s");
    let metrics = world.anybody().get("/metrics").await.text;
    let told = |name: &str| {
        let head = format!("punctual_loop_seconds_since_success{{loop=\"{name}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&head));
        line.unwrap_or_else(|| panic!("{head} in {metrics}")).parse::<f64>().unwrap()
    };
    assert!(told("retention") >= 3.0, "{metrics}");
    assert!(told("reaper") < told("retention"), "{metrics}");
}

/// PLT-25: the tick of a loop does not end, and the process asks to be started again; it still serves.
async fn plt_25_a_hung_loop_is_not_live(base: Base) {
    let stuck =
        |builder: Builder| builder.plant(PlantedBug::StuckLoop).hung_after(Duration::from_millis(300));
    let world =
        World::furnished(World::place(base).await, ClockMode::System, Settings::default(), stuck).await;
    let began = monotonic();
    while world.anybody().get("/health/live").await.status == 200 {
        assert!(began.elapsed() < Duration::from_secs(30), "a hung loop makes /health/live fail");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let live = world.anybody().get("/health/live").await;
    assert_eq!((live.status, live.json()), (503, json!({"status": "down"})));
    let health = world.anybody().get("/health").await;
    let details = health.json();
    assert_eq!((health.status, &details["status"]), (503, &json!("down")), "{details}");
    assert!(details["complaints"].to_string().contains("the loop `retention` hangs"), "{details}");
    let hung = |of: &&serde_json::Value| of["name"] == "retention" && of["hung"] == true;
    assert!(details["loops"].as_array().unwrap().iter().any(|of| hung(&of)), "{details}");
    assert!(world.anybody().get("/metrics").await.text.lines().any(|line| line == "punctual_live 0"));
    assert_eq!(world.anybody().sees("/health/ready").await, json!({"status": "ok"}));
}

/// PLT-25: the lag of the workers of each purpose and of each job, in words and in numbers.
async fn plt_25_health_and_metrics_tell_each_lag(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    publish(&root, "orders").await;
    let job = json!({"topic": "reports", "cron": "0 14 * * * *"});
    assert_eq!(root.put("/api/jobs/nightly", job).await.status, 200);
    root.does("/dev/clock", json!({"set": "2026-05-14T05:15:30Z", "run": false}), 200).await;
    let health = world.anybody().sees("/health").await;
    let due = "2026-05-14T05:13:00Z";
    let idle = |purpose: &str| json!({"purpose": purpose, "oldestDue": null, "lagSeconds": 0.0});
    let busy = json!({"purpose": "dispatch", "oldestDue": due, "lagSeconds": 150.0});
    assert_eq!(health["workers"], json!([busy, idle("advance"), idle("send"), idle("expire")]), "{health}");
    let next = "2026-05-14T05:14:00Z";
    let late = json!({"tenant": "default", "name": "nightly", "nextDue": next, "lagSeconds": 90.0});
    assert_eq!(health["jobs"], json!([late]), "{health}");
    let metrics = world.anybody().get("/metrics").await;
    for line in [
        "punctual_worker_lag_seconds{purpose=\"dispatch\"} 150",
        "punctual_worker_lag_seconds{purpose=\"send\"} 0",
        "punctual_job_next_lag_seconds{tenant=\"default\",job=\"nightly\"} 90",
        "punctual_lag_seconds 150",
        "punctual_job_lag_seconds 90",
    ] {
        assert!(metrics.text.lines().any(|l| l == line), "{line} in {}", metrics.text);
    }
}

async fn every_answer_is_dressed(base: Base) {
    let world = World::manual(base).await;
    for path in ["/api/queues", "/health", "/nowhere", "/openapi.json", "/docs"] {
        let reply = world.root().with("x-request-id", "abc-1").get(path).await;
        assert_eq!(reply.header("x-request-id"), "abc-1", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        assert!(reply.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
    }
    let reply = world.root().with("x-request-id", &"x".repeat(200)).get("/health").await;
    assert_eq!(reply.header("x-request-id").len(), 32, "a wild id is replaced");
    assert_eq!(world.anybody().get("/api/queues").await.header("www-authenticate"), "Bearer");
}

async fn a_queue_keeps_its_settings(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let change = json!({"maxAttempts": 3, "backoff": ["5m", "1h"], "retention": "7d", "deadHead": "pass"});
    let put = root.put("/api/queues/orders", change).await.json();
    assert_eq!(put, root.sees("/api/queues/orders").await);
    root.put("/api/queues/orders", json!({"maxAttempts": null, "paused": true})).await;
    let queue = root.sees("/api/queues/orders").await;
    for (name, value) in [
        ("maxAttempts", json!(10)),
        ("paused", json!(true)),
        ("backoff", json!(["5m", "1h"])),
        ("retention", json!("7d")),
        ("deadHead", json!("pass")),
        ("declared", json!(true)),
        ("subscription", json!(null)),
    ] {
        assert_eq!(queue[name], value, "{name} in {queue}");
    }
    for topic in ["a", "b", "c"] {
        root.put(&format!("/api/queues/{topic}"), json!({})).await;
    }
    let first = root.sees("/api/queues?limit=3").await;
    let rest = root.sees(&format!("/api/queues?cursor={}", first["nextCursor"].as_str().unwrap())).await;
    assert_eq!(rest["items"][0]["topic"], "orders", "{rest}");
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
}

/// PLT-25: a database that can be read and not written is not well, and health says what to do.
#[tokio::test]
async fn plt_25_health_tells_that_writes_fail() {
    install();
    let folder = std::env::temp_dir().join(format!("punctual_full_{}", punctual::base::random::hex::<8>()));
    std::fs::create_dir(&folder).unwrap();
    let database = folder.join("punctual.db");
    let url = format!("sqlite:{}", database.display());
    let world = World::furnished(url, ClockMode::Manual, Settings::default(), |builder| builder).await;
    plan(&database, FaultTarget::Syncs, Fault::NotDone);
    let event = json!({"topic": "orders", "kind": "order.placed", "payload": 1});
    let failed = world.root().post("/api/events", event).await;
    assert_eq!((failed.status, failed.header("retry-after")), (503, "1"), "{}", failed.text);
    for words in ["it is unknown whether it happened", "the disk of the database cannot be read or written"] {
        assert!(failed.text.contains(words), "a commit that fails names the disk: {}", failed.text);
    }
    let ill = world.anybody().sees("/health").await;
    assert_eq!(
        (&ill["status"], &ill["database"]["takesWrites"]),
        (&json!("degraded"), &json!(false)),
        "{ill}"
    );
    assert!(ill["complaints"].to_string().contains("look at the disk and at the system's log"), "{ill}");
    assert!(!heal(&database).is_empty(), "a write was tried");
    let well = world.anybody().sees("/health").await;
    assert_eq!((&well["status"], &well["database"]["takesWrites"]), (&json!("ok"), &json!(true)), "{well}");
    assert!(well["database"]["freeBytes"].as_u64().unwrap() > 0, "{well}");
    std::fs::remove_dir_all(&folder).ok();
}

/// PLT-25: so does one that is a replica, or was made read-only.
#[tokio::test]
async fn plt_25_health_tells_that_the_database_is_read_only() {
    let url = World::place(Base::Postgres).await;
    let system = ClockMode::System;
    World::furnished(url.clone(), system, Settings::default(), |builder| builder).await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let name: String = client.query_one("select current_database()", &[]).await.unwrap().get(0);
    let alter = format!("alter database {name} set default_transaction_read_only = on");
    client.batch_execute(&alter).await.unwrap();
    let world = World::furnished(url.clone(), system, Settings::default(), Builder::without_migrations).await;
    let ill = world.anybody().sees("/health").await;
    assert_eq!(
        (&ill["status"], &ill["database"]["takesWrites"]),
        (&json!("degraded"), &json!(false)),
        "{ill}"
    );
    assert!(ill["complaints"].to_string().contains("point the server at the primary"), "{ill}");
    let doctor =
        tokio::task::spawn_blocking(move || Place::new().command(&["doctor", "--database", &url]).said());
    let said = doctor.await.unwrap();
    let line = said.out.lines().find(|line| line.contains("storage")).unwrap_or_default();
    assert!(line.starts_with("bad") && line.contains("point the server at the primary"), "{said:?}");
    assert_eq!(said.code, 1, "{said:?}");
}
