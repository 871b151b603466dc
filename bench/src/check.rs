//! `punctual bench check`: whether timers, fairness, rendering and evaluations are as they must be, in less
//! than a minute.
//!
//! A short form of the other commands, with the same requirements ([`crate::bounds`]). What cannot be
//! measured is an error here, and not a note. It says that something is badly wrong, and not how fast a
//! machine is: for that the series are too short.

use std::path::PathBuf;
use std::sync::Arc;

use ::punctual::Engine;
use anyhow::Result;

use crate::cluster::{Cluster, ClusterOptions};
use crate::database::Database;
use crate::evaluations::Evaluations;
use crate::fairness::fairness;
use crate::machine::Machine;
use crate::notifications;
use crate::ours::{EngineSettings, Place, System};
use crate::punctual::Punctual;
use crate::queue::Databases;
use crate::raw_sqlite::remove;
use crate::report::{Report, ReportFuture};
use crate::surveys;
use crate::timers::{self, TimerOptions};

/// Rounds of what is only computed.
const ROUNDS: usize = 3;
/// Other tenants beside the backlog: few, so that they have all come before it is gone.
const OTHERS: usize = 20;
/// How the engines work whose fairness is measured.
const ENGINE: EngineSettings = EngineSettings { batch: 1_000, claimers: 1 };

/// How much is measured.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Which databases.
    pub databases: Databases,
    /// Single timers on an idle system.
    pub single: usize,
    /// Timers due at one moment.
    pub burst: usize,
    /// The one tenant's backlog; it must last for two seconds.
    pub backlog: usize,
    /// Where databases are kept for the run; the system's temporary folder if not given.
    pub folder: Option<PathBuf>,
}

/// Measures all of it.
pub fn check(options: CheckOptions) -> ReportFuture {
    Box::pin(async move {
        let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
        let mut report = Report { machine: Machine::here(&folder), ..Report::default() };
        let settings = [("single", options.single), ("burst", options.burst), ("backlog", options.backlog)];
        for (name, value) in settings {
            report.settings.insert(name.to_owned(), value.to_string());
        }
        if cfg!(debug_assertions) {
            report.note("this build is not optimised: what is computed may take longer than in a release");
        }
        if options.databases != Databases::Sqlite {
            let mut settings = ClusterOptions::durable();
            settings.folder.clone_from(&options.folder);
            let cluster = Arc::new(Cluster::start(&settings)?);
            report.machine.postgres = Some(Database::version(&cluster).await?);
            measure("postgres", &Place::Postgres(Database::new(&cluster, "checked")), &options, &mut report)
                .await?;
        }
        if options.databases != Databases::Postgres {
            let file = folder.join(format!("punctual-bench-check-{}.db", std::process::id()));
            let done = measure("sqlite", &Place::Sqlite(file.clone()), &options, &mut report).await;
            remove(&file);
            done?;
        }
        compute(&mut report).await?;
        Ok(report)
    })
}

async fn measure(name: &str, place: &Place, options: &CheckOptions, report: &mut Report) -> Result<()> {
    let timers = TimerOptions {
        databases: options.databases,
        single: options.single,
        burst: options.burst,
        waiting: 0,
        cancelled: 0,
        folder: None,
    };
    timers::measure(name, place, &timers, report).await?;
    eprintln!("{name}: fairness");
    place.recreate().await?;
    let (producer, worker) =
        (Punctual.open(&place.url(), ENGINE).await?, Punctual.open(&place.url(), ENGINE).await?);
    let beside = fairness(producer.as_ref(), worker.as_ref(), options.backlog, OTHERS).await;
    worker.stop().await?;
    producer.stop().await?;
    beside?.report(&format!("{name}, wait beside a backlog of {}", options.backlog), report);
    Ok(())
}

/// What needs no database to speak of.
async fn compute(report: &mut Report) -> Result<()> {
    eprintln!("rendering and evaluations");
    notifications::report_rendering(ROUNDS, report)?;
    let engine = Engine::builder("sqlite::memory:").open().await?;
    surveys::publish(&engine).await?;
    let mut evaluations = Evaluations::default();
    for _ in 0..ROUNDS {
        evaluations.measure(engine.store(), surveys::KIND, surveys::item).await?;
    }
    evaluations.report(report);
    Ok(())
}
