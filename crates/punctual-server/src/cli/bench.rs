//! `punctual bench`: measure this machine.

use super::Everywhere;
use super::failure::{Failure, Outcome};

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Bench {
    /// The queue, beside hand-written SQL and its peers
    Queue(Queue),
}

/// How much of it.
#[derive(Debug, clap::Args)]
pub(super) struct Queue {
    /// Messages in each round
    #[arg(long, default_value_t = 100_000)]
    messages: usize,
}

impl Bench {
    pub(super) async fn run(self, _everywhere: &Everywhere) -> Outcome {
        let Self::Queue(queue) = self;
        Err(Failure::failed(format!("measuring {} messages is not wired yet", queue.messages)))
    }
}
