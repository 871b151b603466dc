//! `punctual bench`: measure this machine.

use super::failure::{Failure, Outcome};
use super::{Everywhere, print_line};
use punctual::rules::duration;
use punctual_bench::punctual::Punctual;
use punctual_bench::queue::{Databases, QueueOptions, queue};
use std::path::PathBuf;
use std::sync::Arc;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Bench {
    /// The queue, beside hand-written SQL and its peers, on databases made for the run
    Queue(Box<Queue>),
}

/// Which databases are measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Postgres,
    Sqlite,
    Both,
}

/// How much of it.
#[derive(Debug, clap::Args)]
pub(super) struct Queue {
    /// Which databases
    #[arg(long, default_value = "both")]
    database_kind: Kind,
    /// Messages in each round
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    messages: usize,
    /// Rounds; medians of fewer than five say little
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Connections that drain side by side
    #[arg(long, default_value_t = 1, value_name = "N")]
    connections: usize,
    /// Measure the peers too; their drivers are in this folder
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "bench/peers")]
    peers: Option<PathBuf>,
    /// So many rows that are not due beside those that are
    #[arg(long, default_value_t = 0, value_name = "N")]
    extra_rows: usize,
    /// Drains in a row without vacuum; 0 leaves it out
    #[arg(long, default_value_t = 10, value_name = "N")]
    drains: usize,
    /// How long latency is measured; 0s leaves it out
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    latency: String,
    /// The one tenant's backlog when fairness is measured; 0 leaves it out
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    backlog: usize,
}

impl Bench {
    pub(super) async fn run(self, everywhere: &Everywhere) -> Outcome {
        let Self::Queue(wanted) = self;
        let options = wanted.options()?;
        let trouble = |e: String| Failure::failed(format!("the measurement broke off: {e}"));
        let report = queue(Some(Arc::new(Punctual)), options).await.map_err(|e| trouble(format!("{e:#}")))?;
        if everywhere.json {
            print_line(&report.json().map_err(|e| trouble(e.to_string()))?);
        } else {
            print_line(report.table().trim_end());
        }
        if report.all_met() {
            Ok(())
        } else {
            Err(Failure::failed("not everything that is required was met"))
        }
    }
}

impl Queue {
    fn options(&self) -> Outcome<QueueOptions> {
        if self.messages == 0 || self.rounds == 0 || self.connections == 0 {
            return Err(Failure::usage("--messages, --rounds and --connections must be at least 1"));
        }
        let latency =
            duration::parse(&self.latency).map_err(|e| Failure::usage(format!("--latency: {e}")))?;
        Ok(QueueOptions {
            databases: match self.database_kind {
                Kind::Postgres => Databases::Postgres,
                Kind::Sqlite => Databases::Sqlite,
                Kind::Both => Databases::Both,
            },
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
