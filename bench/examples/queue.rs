//! `bench queue` without the server binary: cargo run --release -p punctual-bench --example queue -- postgres 5
use punctual_bench::{
    punctual::Punctual,
    queue::{Databases, QueueOptions, queue},
};
use std::sync::Arc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let databases = match args.next().as_deref() {
        Some("sqlite") => Databases::Sqlite,
        Some("both") => Databases::Both,
        _ => Databases::Postgres,
    };
    let rounds = args.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let connections = args.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let rest: Vec<String> = args.collect();
    let on = |name: &str| rest.iter().any(|a| a == name);
    let options = QueueOptions {
        databases,
        rounds,
        connections,
        peers: on("peers").then(|| "bench/peers".into()),
        drains_in_a_row: if on("drains") { 10 } else { 0 },
        latency: std::time::Duration::from_secs(if on("latency") { 10 } else { 0 }),
        backlog: if on("fairness") { 1_000_000 } else { 0 },
        extra: rest.iter().find_map(|a| a.strip_prefix("extra=")).and_then(|n| n.parse().ok()).unwrap_or(0),
        ..QueueOptions::default()
    };
    let report = queue(Some(Arc::new(Punctual)), options).await?;
    println!("{}", report.table());
    Ok(())
}
