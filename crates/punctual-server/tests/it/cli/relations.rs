//! A database that lacks a table or an index.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

use super::process::{Place, Run};
use punctual_bench::cluster::{Cluster, ClusterOptions};
use punctual_bench::database::Database;
use serde_json::Value;
use std::time::Duration;

/// PLT-25
#[test]
fn plt_25_health_and_doctor_name_what_is_gone_on_sqlite() {
    let place = Place::new();
    let database = place.database();
    named_when_gone(&place, &database, "punctual_", |sql| {
        let connection = rusqlite::Connection::open(database.trim_start_matches("sqlite:")).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection.execute_batch(sql).unwrap();
    });
}

/// PLT-25
#[test]
fn plt_25_health_and_doctor_name_what_is_gone_on_postgres() {
    let cluster = std::sync::Arc::new(Cluster::start(&ClusterOptions::fast()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    named_when_gone(&Place::new(), &cluster.url("postgres"), "punctual.", |sql| {
        runtime.block_on(async {
            let client = Database::new(&cluster, "postgres").connect().await.unwrap();
            client.batch_execute(sql).await.unwrap();
        });
    });
}

/// Drops an index, a unique index and a table that the counts of `/health` need, one after the other.
fn named_when_gone(place: &Place, database: &str, prefix: &str, run: impl Fn(&str)) {
    let serve = ["serve", "--database", database, "--listen", "127.0.0.1:0"];
    let serving = place.command(&serve).serve();
    assert_eq!(serving.get("/health/ready", "").0, 200);
    for (sort, name) in [("index", "work_by_key"), ("index", "run_by_occurrence"), ("table", "dead_letter")] {
        run(&format!("drop {sort} {prefix}{name}"));
        let name = format!("{prefix}{name}").replace("punctual.", "");
        let (status, answer) = serving.get("/health", "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let health: Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (status, &health["ready"], &health["status"]),
            (503, &false.into(), &"down".into()),
            "{health}"
        );
        let missing = health["database"]["missing"].as_array().unwrap();
        assert!(missing.contains(&name.as_str().into()), "{name} should be missing: {health}");
        let complaint = format!("the table or index {name} is missing");
        assert!(health["complaints"].as_array().unwrap().contains(&complaint.into()), "{health}");
        assert_eq!(serving.get("/health/ready", "").0, 503);
        let doctor = place.command(&["doctor", "--database", database]).said();
        assert_eq!(doctor.code, 1, "{doctor:?}");
        assert!(doctor.out.contains("bad   relations") && doctor.out.contains(&name), "{doctor:?}");
        if sort == "index" {
            let metrics = serving.get("/metrics", "").1;
            assert!(metrics.lines().any(|line| line == "punctual_ready 0"), "{metrics}");
        }
    }
}
