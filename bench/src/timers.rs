//! `punctual bench timers`: how punctual timers are, and what cancelling many costs.
//!
//! Three questions, each on a fresh database: how long after its due time a timer reaches its
//! handler on an idle system; how late the last of many is that are due at one moment; and how long
//! it takes to cancel many of very many. Lateness is the host's clock in the handler against the due
//! time; server and client share this machine's clock. Not measured: handlers that do something.

mod burst;
mod cancel;
mod precision;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::punctual::{Engine, Timestamp, Work};
use anyhow::Result;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::bounds::Wanted;
use crate::cluster::{Cluster, ClusterOptions};
use crate::database::Database;
use crate::machine::Machine;
use crate::ours::Place;
use crate::queue::Databases;
use crate::raw_sqlite::remove;
use crate::report::{Report, ReportFuture};
use crate::series::Series;

/// The topic whose timers are handled.
const TOPIC: &str = "timers";
/// How long the last timer may be late before we call it lost.
const PATIENCE: Duration = Duration::from_secs(120);
/// Timers per call.
const BATCH: usize = 10_000;

/// What is measured, and how much of it.
#[derive(Debug, Clone)]
pub struct TimerOptions {
    /// Which databases.
    pub databases: Databases,
    /// Single timers on an idle system; 0: not measured.
    pub single: usize,
    /// Timers due at one moment; 0: not measured.
    pub burst: usize,
    /// Timers that wait while some are cancelled; 0: not measured.
    pub waiting: usize,
    /// How many of them are cancelled.
    pub cancelled: usize,
    /// Where databases are kept for the run; the system's temporary folder if not given.
    pub folder: Option<PathBuf>,
}

impl Default for TimerOptions {
    fn default() -> Self {
        Self {
            databases: Databases::Both,
            single: 300,
            burst: 100_000,
            waiting: 1_000_000,
            cancelled: 100_000,
            folder: None,
        }
    }
}

/// Measures timers.
pub fn timers(options: TimerOptions) -> ReportFuture {
    Box::pin(async move {
        let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
        let mut report = Report { machine: Machine::here(&folder), ..Report::default() };
        let settings = [("single", options.single), ("burst", options.burst), ("waiting", options.waiting)];
        for (name, value) in settings {
            report.settings.insert(name.to_owned(), value.to_string());
        }
        if options.databases != Databases::Sqlite {
            let mut settings = ClusterOptions::durable();
            settings.folder.clone_from(&options.folder);
            let cluster = Arc::new(Cluster::start(&settings)?);
            report.machine.postgres = Some(Database::version(&cluster).await?);
            let place = Place::Postgres(Database::new(&cluster, "timers"));
            measure("postgres", &place, &options, &mut report).await?;
        }
        if options.databases != Databases::Postgres {
            let file = folder.join(format!("punctual-bench-timers-{}.db", std::process::id()));
            let done = measure("sqlite", &Place::Sqlite(file.clone()), &options, &mut report).await;
            remove(&file);
            done?;
        }
        Ok(report)
    })
}

/// Measures what the options ask for on one database.
pub(crate) async fn measure(
    name: &str,
    place: &Place,
    options: &TimerOptions,
    report: &mut Report,
) -> Result<()> {
    if options.single > 0 {
        eprintln!("{name}: single timers");
        place.recreate().await?;
        precision::measure(name, place, options.single, report).await?;
    }
    if options.burst > 0 {
        eprintln!("{name}: many at one moment");
        place.recreate().await?;
        burst::measure(name, place, options.burst, report).await?;
    }
    if options.waiting > 0 {
        eprintln!("{name}: cancelling");
        place.recreate().await?;
        cancel::measure(name, place, options, report).await?;
    }
    Ok(())
}

/// What a handler saw: the number in the payload, and how late it was in milliseconds.
type Seen = (usize, f64);

/// An engine whose handler tells how late each timer is.
async fn engine(url: &str) -> Result<(Engine, UnboundedReceiver<Seen>)> {
    let (tell, told) = unbounded_channel();
    let handler = move |work: Work| {
        tell_lateness(&tell, &work);
        async { Ok(()) }
    };
    let engine = Engine::builder(url).pool_size(4).handler(TOPIC, handler).open().await?;
    Ok((engine, told))
}

fn tell_lateness(tell: &UnboundedSender<Seen>, work: &Work) {
    let late = (now().as_micros() - work.due_at.as_micros()) as f64 / 1e3;
    // Nobody listens any more when the measurement has broken off.
    let _ = tell.send((work.message.payload.parse().unwrap_or(usize::MAX), late));
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Waits for `n` timers; each must come once, and none early.
async fn all_of(told: &mut UnboundedReceiver<Seen>, n: usize) -> Result<Series> {
    let mut series = Series::default();
    let mut seen = vec![false; n];
    for count in 0..n {
        let next = tokio::time::timeout(PATIENCE, told.recv()).await;
        let Ok(Some((number, late))) = next else {
            anyhow::bail!("{count} of {n} timers fired, then nothing");
        };
        anyhow::ensure!(late >= 0.0, "timer {number} fired {late} ms early");
        let first = seen.get_mut(number).is_some_and(|seen| !std::mem::replace(seen, true));
        anyhow::ensure!(first, "timer {number} fired twice, or was never scheduled");
        series.push(late);
    }
    Ok(series)
}

fn add_lateness(report: &mut Report, name: &str, series: &Series, wanted: Option<Wanted>) {
    let name = format!("{name}: lateness");
    report.figure(&name, "ms", series);
    match wanted {
        Some(wanted) => wanted.judge(&name, series, report),
        None => report.inform(&format!("{name}: p99 (ms)"), series.percentile(0.99)),
    }
}
