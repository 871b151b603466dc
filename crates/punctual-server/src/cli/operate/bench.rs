//! `punctual bench`: measure this machine.

use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_line};
use ::punctual::base::duration;
use punctual_bench::check::{CheckOptions, check};
use punctual_bench::notifications::{NotificationOptions, notify};
use punctual_bench::punctual::Punctual;
use punctual_bench::queue::{Databases, QueueOptions, queue};
use punctual_bench::report::Report;
use punctual_bench::surveys::{self, SurveyOptions};
use punctual_bench::timers::{TimerOptions, timers};
use std::path::PathBuf;
use std::sync::Arc;

/// The measurements.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Bench {
    /// Measure the queue beside hand-written SQL and its peers, on databases made for the run
    Queue(Box<Queue>),
    /// Measure the lateness of timers, single and in bulk, and the cost of cancelling many
    Timers(Timers),
    /// Check timers, fairness, rendering and evaluations against their limits, in about a minute
    Check(Check),
    /// Measure events to invitations beside hand-written SQL for the same rows (PostgreSQL)
    Ingest(Surveys),
    /// Measure due invitations through a channel that accepts all, beside hand-written SQL (PostgreSQL)
    Send(Surveys),
    /// Measure events to logged sends, two templates each, beside hand-written SQL (PostgreSQL)
    Notify(Notifications),
}

/// The databases to measure.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Postgres,
    Sqlite,
    Both,
}

/// The amounts of `bench queue`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Queue {
    /// The databases to measure
    #[arg(long, default_value = "both")]
    database_kind: Kind,
    /// Messages in each round
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    messages: usize,
    /// Rounds; the median of fewer than five says little
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Connections that drain in parallel
    #[arg(long, default_value_t = 1, value_name = "N")]
    connections: usize,
    /// Also measure the peers with the drivers in this folder
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "bench/peers")]
    peers: Option<PathBuf>,
    /// Rows that are not due, beside the due ones
    #[arg(long, default_value_t = 0, value_name = "N")]
    extra_rows: usize,
    /// Drains in a row without vacuum; 0 skips this measurement
    #[arg(long, default_value_t = 10, value_name = "N")]
    drains: usize,
    /// The time of the latency measurement; 0s skips it
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    latency: String,
    /// The backlog of one tenant for the fairness measurement; 0 skips it
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    backlog: usize,
}

/// The amounts of `bench ingest` and `bench send`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Surveys {
    /// Events, or deliveries, in each round
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    entries: usize,
    /// Rounds; the median of fewer than five says little
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Connections that send in parallel
    #[arg(long, default_value_t = 2, value_name = "N")]
    connections: usize,
}

/// The amounts of `bench notify`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Notifications {
    /// Events in each round; each causes two deliveries
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    events: usize,
    /// Rounds; the median of fewer than five says little
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Connections that send in parallel
    #[arg(long, default_value_t = 2, value_name = "N")]
    connections: usize,
}

/// The amounts of `bench check`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Check {
    /// The databases to measure
    #[arg(long, default_value = "both")]
    database_kind: Kind,
    /// Single timers on an idle system
    #[arg(long, default_value_t = 100, value_name = "N")]
    single: usize,
    /// Timers due at one moment
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    burst: usize,
    /// The backlog of one tenant for the fairness measurement; it must last for two seconds
    #[arg(long, default_value_t = 600_000, value_name = "N")]
    backlog: usize,
}

/// The amounts of `bench timers`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Timers {
    /// The databases to measure
    #[arg(long, default_value = "both")]
    database_kind: Kind,
    /// Single timers on an idle system; 0 skips this measurement
    #[arg(long, default_value_t = 300, value_name = "N")]
    single: usize,
    /// Timers due at one moment; 0 skips this measurement
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    burst: usize,
    /// Waiting timers, of which some are cancelled; 0 skips this measurement
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    waiting: usize,
    /// The number of timers to cancel
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    cancelled: usize,
}

impl From<Kind> for Databases {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Postgres => Self::Postgres,
            Kind::Sqlite => Self::Sqlite,
            Kind::Both => Self::Both,
        }
    }
}

impl Bench {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let trouble = |e: String| CommandFailure::failed(format!("the measurement broke off: {e}"));
        let report = match self {
            Self::Queue(wanted) => queue(Some(Arc::new(Punctual)), wanted.options()?).await,
            Self::Timers(wanted) => timers(wanted.options()?).await,
            Self::Check(wanted) => check(wanted.options()?).await,
            Self::Ingest(wanted) => surveys::ingest(wanted.options()?).await,
            Self::Send(wanted) => surveys::send(wanted.options()?).await,
            Self::Notify(wanted) => notify(wanted.options()?).await,
        };
        let report = report.map_err(|e| trouble(format!("{e:#}")))?;
        if options.json {
            print_line(&report.json().map_err(|e| trouble(e.to_string()))?);
        } else {
            print_line(report.table().trim_end());
        }
        verdict(&report)
    }
}

/// Fails if a required figure was missed.
fn verdict(report: &Report) -> Outcome {
    if report.all_met() {
        Ok(())
    } else {
        Err(CommandFailure::failed("not everything that is required was met"))
    }
}

impl Queue {
    fn options(&self) -> Outcome<QueueOptions> {
        if self.messages == 0 || self.rounds == 0 || self.connections == 0 {
            return Err(CommandFailure::usage("--messages, --rounds and --connections must be at least 1"));
        }
        let latency =
            duration::parse(&self.latency).map_err(|e| CommandFailure::usage(format!("--latency: {e}")))?;
        Ok(QueueOptions {
            databases: self.database_kind.into(),
            messages: self.messages,
            rounds: self.rounds,
            connections: self.connections,
            peers: self.peers.clone(),
            extra: self.extra_rows,
            drains_in_a_row: self.drains,
            latency,
            backlog: self.backlog,
            punctual: std::env::current_exe().ok(),
            ..QueueOptions::default()
        })
    }
}

impl Surveys {
    fn options(&self) -> Outcome<SurveyOptions> {
        if self.entries == 0 || self.rounds == 0 || self.connections == 0 {
            return Err(CommandFailure::usage("--entries, --rounds and --connections must be at least 1"));
        }
        Ok(SurveyOptions { entries: self.entries, rounds: self.rounds, connections: self.connections })
    }
}

impl Notifications {
    fn options(&self) -> Outcome<NotificationOptions> {
        if self.events == 0 || self.rounds == 0 || self.connections == 0 {
            return Err(CommandFailure::usage("--events, --rounds and --connections must be at least 1"));
        }
        Ok(NotificationOptions { events: self.events, rounds: self.rounds, connections: self.connections })
    }
}

impl Check {
    fn options(&self) -> Outcome<CheckOptions> {
        if self.single == 0 || self.burst == 0 || self.backlog == 0 {
            return Err(CommandFailure::usage("--single, --burst and --backlog must be at least 1"));
        }
        Ok(CheckOptions {
            databases: self.database_kind.into(),
            single: self.single,
            burst: self.burst,
            backlog: self.backlog,
            folder: None,
        })
    }
}

impl Timers {
    fn options(&self) -> Outcome<TimerOptions> {
        if self.cancelled > self.waiting {
            return Err(CommandFailure::usage("--cancelled must not be more than --waiting"));
        }
        Ok(TimerOptions {
            databases: self.database_kind.into(),
            single: self.single,
            burst: self.burst,
            waiting: self.waiting,
            cancelled: self.cancelled,
            folder: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_bench::report::Bound;

    #[test]
    fn one_missed_requirement_fails_the_command() {
        let mut report = Report::default();
        report.require("timers on time", 4.0, Bound::AtMost(20.0));
        report.inform("by the way", 1e9);
        assert!(verdict(&report).is_ok());
        report.require("and others late", 250.0, Bound::AtMost(20.0));
        assert!(verdict(&report).is_err());
    }
}
