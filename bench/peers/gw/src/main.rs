//! graphile_worker (Rust) with its batch settings: `gw enqueue` or `gw drain`.
//!
//! Reads `DATABASE_URL` and `N`; prints one line `{"op","n","seconds"}`. `enqueue` empties the queue
//! first. Not timed: connecting, migrating, starting the worker. A drain is timed from the first
//! handler call until the database holds no job any more.

use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker,
    WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Jobs per bulk call; the peer is fastest with large ones.
const BULK: usize = 5_000;

static HANDLED: AtomicUsize = AtomicUsize::new(0);
static FIRST: OnceLock<Instant> = OnceLock::new();

#[derive(Serialize, Deserialize)]
struct Noop {
    i: usize,
    t: f64,
    pad: String,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        FIRST.get_or_init(Instant::now);
        HANDLED.fetch_add(1, Ordering::Relaxed);
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let op = env::args().nth(1).unwrap_or_default();
    let n: usize = env::var("N").context("N is not set")?.parse()?;
    let url = env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let pool = PgPoolOptions::new().max_connections(20).connect(&url).await?;
    let worker = worker(&pool).await?;
    let took = match op.as_str() {
        "enqueue" => enqueue(&worker, &pool, n).await?,
        "drain" => drain(worker, &pool, n).await?,
        other => bail!("unknown operation {other:?}: enqueue or drain"),
    };
    println!(r#"{{"op":"{op}","n":{n},"seconds":{}}}"#, took.as_secs_f64());
    // The worker catches signals and would linger.
    std::process::exit(0)
}

async fn worker(pool: &PgPool) -> Result<Worker> {
    let options = WorkerOptions::default()
        .pg_pool(pool.clone())
        .concurrency(500)
        .local_queue(LocalQueueConfig::default().with_size(5_000))
        .complete_job_batch_delay(Duration::from_millis(5))
        .define_job::<Noop>();
    Ok(options.init().await?)
}

async fn enqueue(worker: &Worker, pool: &PgPool, n: usize) -> Result<Duration> {
    sqlx::query("truncate graphile_worker._private_jobs cascade").execute(pool).await?;
    let jobs = (0..n).map(job).collect::<Result<Vec<_>>>()?;
    let helper = worker.create_utils();
    let start = Instant::now();
    for bulk in jobs.chunks(BULK) {
        helper.add_raw_jobs(bulk).await?;
    }
    Ok(start.elapsed())
}

fn job(i: usize) -> Result<RawJobSpec> {
    let noop = Noop { i, t: 1_700_000_000.0, pad: "x".repeat(150) };
    Ok(RawJobSpec {
        identifier: "noop".into(),
        payload: serde_json::to_value(noop)?,
        spec: JobSpec::default(),
    })
}

async fn drain(worker: Worker, pool: &PgPool, n: usize) -> Result<Duration> {
    tokio::spawn(async move {
        if let Err(error) = worker.run().await {
            eprintln!("worker ended: {error}");
        }
    });
    while HANDLED.load(Ordering::Relaxed) < n {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    while waiting(pool).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(FIRST.get().context("no handler was called")?.elapsed())
}

async fn waiting(pool: &PgPool) -> Result<bool> {
    let row = sqlx::query("select 1 from graphile_worker._private_jobs limit 1");
    Ok(row.fetch_optional(pool).await?.is_some())
}
