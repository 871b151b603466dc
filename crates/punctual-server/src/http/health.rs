//! Health for people and load balancers: alive, ready, and the details.

use crate::app::App;
use crate::disk_space::DiskSpace;
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words::{ClockSource, HealthStatus, LanePurpose, ProbeStatus};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::engine::Health;
use punctual::operate::store::census::Census;
use punctual::operate::store::lag::{JobLag, WorkerLag};
use punctual::queue::run::loop_health::LoopStatus;
use punctual::queue::store::inbox::InboxCounts;
use punctual::{ClockMode, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// The health of the server, with its details.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Health")]
pub struct Details {
    #[schemars(with = "HealthStatus")]
    status: &'static str,
    version: &'static str,
    #[schemars(with = "ClockSource")]
    clock: &'static str,
    live: bool,
    ready: bool,
    complaints: Vec<String>,
    database: Database,
    inbox: Inbox,
    /// The lag of the workers of all processes, one item for each purpose of lanes.
    workers: Vec<Worker>,
    /// The enabled jobs that are due first, the latest one first.
    #[schemars(length(max = 20))]
    jobs: Vec<Job>,
    loops: Vec<Loop>,
}

/// The database.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Database {
    /// `SQLite` or `PostgreSQL`.
    kind: &'static str,
    reachable: bool,
    error: Option<String>,
    /// The time of its clock.
    #[schemars(with = "Option<DateTime>")]
    now: Option<Timestamp>,
    /// How far this host's clock is ahead of it.
    host_skew_ms: Option<i64>,
    schema_version: Option<i64>,
    /// What its schema lacks.
    missing: Vec<String>,
    #[schemars(range(min = 0))]
    open_claims: Option<i64>,
    /// Claims whose lease is over.
    #[schemars(range(min = 0))]
    stuck_claims: Option<i64>,
    #[schemars(range(min = 0))]
    dead_letters: Option<i64>,
    #[schemars(with = "Option<DateTime>")]
    oldest_due: Option<Timestamp>,
    /// Whether a write that changes nothing went well.
    takes_writes: Option<bool>,
    /// The size of an SQLite file's write-ahead log.
    wal_bytes: Option<u64>,
    /// The room on the disk of an SQLite file.
    free_bytes: Option<u64>,
}

/// Counts of the inbox.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Inbox {
    #[schemars(range(min = 0))]
    processing: i64,
    #[schemars(range(min = 0))]
    stuck: i64,
    #[schemars(range(min = 0))]
    dead: i64,
}

/// The workers of one purpose, in all processes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Worker {
    #[schemars(with = "LanePurpose")]
    purpose: &'static str,
    /// The due time of the oldest item that is due, not claimed and not paused.
    #[schemars(with = "Option<DateTime>")]
    oldest_due: Option<Timestamp>,
    /// How long that item has waited.
    #[schemars(range(min = 0))]
    lag_seconds: f64,
}

/// An enabled job.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Job {
    tenant: String,
    name: String,
    #[schemars(with = "DateTime")]
    next_due: Timestamp,
    /// How late the next run is.
    #[schemars(range(min = 0))]
    lag_seconds: f64,
}

/// One loop of this process.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Loop {
    name: &'static str,
    seconds_since_success: f64,
    /// How long the tick has taken that is not over.
    busy_seconds: f64,
    /// Whether that is too long: `/health/live` fails.
    hung: bool,
    trouble: Option<String>,
    ticks: u64,
    /// How often it panicked and was started again.
    panics: u64,
}

/// Whether a probe is content.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct Probe {
    #[schemars(with = "ProbeStatus")]
    status: &'static str,
}

/// `GET /health`: 200 when requests can be served and the loops are alive, else 503.
pub async fn details(State(app): State<App>) -> (StatusCode, Json<Details>) {
    let health = app.engine.health().await;
    let (live, ready) = (app.engine.is_live(), health.is_ready());
    let complaints = complaints(&app, &health);
    let status = match (live && ready, complaints.is_empty()) {
        (true, true) => "ok",
        (true, false) => "degraded",
        (false, _) => "down",
    };
    let details = Details {
        status,
        version: env!("CARGO_PKG_VERSION"),
        clock: if app.engine.clock() == ClockMode::Manual { "manual" } else { "system" },
        live,
        ready,
        complaints,
        database: database(&app, &health),
        inbox: inbox(health.inbox),
        workers: health.database.as_ref().map(workers).unwrap_or_default(),
        jobs: health.database.as_ref().map(jobs).unwrap_or_default(),
        loops: health.loops.into_iter().map(show_loop).collect(),
    };
    (code(live && ready), Json(details))
}

/// Everything that is not as it should be, in words.
pub fn complaints(app: &App, health: &Health) -> Vec<String> {
    let disk = DiskSpace::of(app.engine.store()).and_then(DiskSpace::complaint);
    health.complaints().into_iter().chain(disk).collect()
}

/// `GET /health/live`: whether this process should go on. The database may be away.
pub async fn live(State(app): State<App>) -> (StatusCode, Json<Probe>) {
    answer(app.engine.is_live())
}

/// `GET /health/ready`: whether requests should come here.
pub async fn ready(State(app): State<App>) -> (StatusCode, Json<Probe>) {
    answer(app.engine.health().await.is_ready())
}

fn answer(well: bool) -> (StatusCode, Json<Probe>) {
    (code(well), Json(Probe { status: if well { "ok" } else { "down" } }))
}

const fn code(well: bool) -> StatusCode {
    if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn database(app: &App, health: &Health) -> Database {
    let kind = app.engine.store().dialect().name();
    let census = health.database.as_ref().ok();
    Database {
        kind,
        reachable: census.is_some(),
        error: health.database.as_ref().err().cloned(),
        now: census.map(|c| c.now),
        host_skew_ms: census.map(|c| c.host_skew_us / 1_000),
        schema_version: census.map(|c| c.schema_version),
        missing: census.map(|c: &Census| c.missing.clone()).unwrap_or_default(),
        open_claims: census.map(|c| c.open_claims),
        stuck_claims: census.map(|c| c.stuck_claims),
        dead_letters: census.map(|c| c.dead_letters),
        oldest_due: census.and_then(Census::oldest_due),
        takes_writes: census.map(|_| health.storage.write_error.is_none()),
        wal_bytes: health.storage.wal_bytes,
        free_bytes: DiskSpace::of(app.engine.store()).map(|space| space.free),
    }
}

const fn inbox(counts: InboxCounts) -> Inbox {
    Inbox { processing: counts.processing, stuck: counts.stuck, dead: counts.dead }
}

fn workers(census: &Census) -> Vec<Worker> {
    let worker = |lag: &WorkerLag| Worker {
        purpose: lag.purpose.word(),
        oldest_due: lag.oldest_due,
        lag_seconds: lag.at(census.now).as_secs_f64(),
    };
    census.workers.iter().map(worker).collect()
}

fn jobs(census: &Census) -> Vec<Job> {
    let job = |lag: &JobLag| Job {
        tenant: lag.tenant.clone(),
        name: lag.name.clone(),
        next_due: lag.next_due,
        lag_seconds: lag.at(census.now).as_secs_f64(),
    };
    census.jobs.iter().map(job).collect()
}

fn show_loop(status: LoopStatus) -> Loop {
    Loop {
        name: status.name,
        seconds_since_success: status.since_success.as_secs_f64(),
        busy_seconds: status.busy_for.as_secs_f64(),
        hung: status.is_hung(),
        trouble: status.trouble,
        ticks: status.ticks,
        panics: status.panics,
    }
}
