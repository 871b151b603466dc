//! `punctual bench queue`: everything about the queue, in one run.
//!
//! Each database has a file of its own below this one. What cannot be measured (a peer that is not
//! installed, an engine that is not built in, a part that fails) becomes a note in the report; the
//! rest goes on.

mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::machine::Machine;
use crate::ours::{EngineSettings, System};
use crate::report::{Report, ReportFuture};
use crate::rounds::{Measured, Plan};
use crate::series::Series;

/// A load above this says that others are at work on the machine.
const BUSY: f64 = 0.5;

/// Which databases are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Databases {
    /// PostgreSQL only.
    Postgres,
    /// SQLite only.
    Sqlite,
    /// One after the other.
    Both,
}

/// What is measured, and how much of it.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// Which databases.
    pub databases: Databases,
    /// Messages in each round.
    pub messages: usize,
    /// Rounds; medians of fewer than five say little.
    pub rounds: usize,
    /// Messages per bulk enqueue, and per claim.
    pub batch: usize,
    /// Connections that drain side by side, in hand-written loops and in the engine alike.
    pub connections: usize,
    /// The folder with the peers' drivers; `None`: no peers.
    pub peers: Option<PathBuf>,
    /// So many rows not due, and as many finished, for the growth measurement; 0: not measured.
    pub extra: usize,
    /// Drains in a row without vacuum; 0: not measured.
    pub drains_in_a_row: usize,
    /// How long latency is measured; zero: not at all.
    pub latency: Duration,
    /// The backlog of the one tenant; 0: fairness is not measured.
    pub backlog: usize,
    /// The program whose `serve` is measured while idle; `None`: not measured.
    pub punctual: Option<PathBuf>,
    /// Where databases are kept for the run; the system's temporary folder if not given.
    pub folder: Option<PathBuf>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            databases: Databases::Both,
            messages: 100_000,
            rounds: 5,
            batch: 1_000,
            connections: 1,
            peers: Some(PathBuf::from("bench/peers")),
            extra: 0,
            drains_in_a_row: 10,
            latency: Duration::from_secs(30),
            backlog: 1_000_000,
            punctual: None,
            folder: None,
        }
    }
}

impl QueueOptions {
    fn plan(&self) -> Plan {
        Plan { messages: self.messages, rounds: self.rounds }
    }

    fn engine(&self) -> EngineSettings {
        EngineSettings { batch: self.batch, claimers: self.connections }
    }

    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Measures `system`; without one, only what stands beside it.
pub fn queue(system: Option<Arc<dyn System>>, options: QueueOptions) -> ReportFuture {
    Box::pin(async move {
        let mut report = Report { machine: Machine::here(&options.folder()), ..Report::default() };
        describe(&options, &mut report);
        if report.machine.load.is_some_and(|load| load > BUSY) {
            report.note("the machine was busy before the run: compare ratios, not figures");
        }
        if system.is_none() {
            report.note("punctual: not measured, there is no engine in this run");
        }
        if options.databases != Databases::Sqlite {
            postgres::measure(system.as_ref(), &options, &mut report).await?;
        }
        if options.databases != Databases::Postgres {
            sqlite::measure(system.as_ref(), &options, &mut report).await?;
        }
        Ok(report)
    })
}

fn describe(options: &QueueOptions, report: &mut Report) {
    let mut set = |name: &str, value: String| _ = report.settings.insert(name.to_owned(), value);
    set("messages", options.messages.to_string());
    set("rounds", options.rounds.to_string());
    set("batch", options.batch.to_string());
    set("connections", options.connections.to_string());
    set("extra", options.extra.to_string());
    set("drains in a row", options.drains_in_a_row.to_string());
    set("backlog", options.backlog.to_string());
    set("folder", options.folder().display().to_string());
}

/// Adds what every contender did in the rounds.
fn add_rounds(report: &mut Report, database: &str, all: &[Measured]) {
    let mut add = |what: &str, unit: &str, series: fn(&Measured) -> &Series| {
        for measured in all {
            let name = format!("{database} {what}: {}", measured.name);
            report.figure(&name, unit, series(measured));
        }
    };
    add("enqueue", "messages/s", |measured| &measured.enqueue);
    add("drain", "messages/s", |measured| &measured.drain);
    add("WAL", "bytes/message", |measured| &measured.wal);
    for measured in all {
        if let Some(words) = &measured.failed {
            report.note(format!("{}: failed: {words}", measured.name));
        }
    }
}

/// The one with a name, if it has figures.
fn find<'a>(all: &'a [Measured], name: &str) -> Option<&'a Measured> {
    all.iter().find(|measured| measured.name == name && !measured.drain.is_empty())
}

/// Keeps the run going when a part of it fails.
fn or_note<T>(report: &mut Report, what: &str, result: Result<T>) -> Option<T> {
    result.map_err(|error| report.note(format!("{what}: failed: {error:#}"))).ok()
}
