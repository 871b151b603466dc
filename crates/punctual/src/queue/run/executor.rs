//! Executors: they handle the work of ready lanes for the worker loop.
//!
//! The [loop](super::worker) looks for ready lanes once for all executors, and shares each executor's room
//! fairly among the lanes that it serves. An executor claims its share and returns futures that do the work;
//! the loop runs them beside itself, or, on a manual clock, one after the other. An executor that calls
//! nothing outside the database is *local*: its future takes, decides and writes in one transaction.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::context::WorkerContext;
use crate::queue::run::database_clock::DatabaseClock;
use crate::queue::run::gauge;
use crate::queue::run::panics::catch_panic;
use crate::queue::run::stop::StopSignal;
use crate::queue::store::claims::ClaimRequest;
use crate::queue::store::ready_lanes::ReadyLane;
use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

/// The future of a method of a trait object.
pub type BoxFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// Does the work of some lanes.
pub trait Executor: Debug + Send + Sync {
    /// Loads what [`Executor::slot`] asks about these lanes.
    fn prepare<'f>(&'f self, lanes: &'f [ReadyLane], now: Timestamp) -> BoxFuture<'f, Result<()>> {
        let _ = (lanes, now);
        Box::pin(async { Ok(()) })
    }

    /// The slot whose room a lane shares; `None` if the executor does not serve the lane.
    fn slot(&self, lane: &ReadyLane) -> Option<usize>;

    /// How many items each slot can take now.
    fn room(&self, batch: usize) -> Vec<usize>;

    /// How much of one lane can be claimed now, whatever room its slot has.
    fn lane_room(&self, lane: &ReadyLane, now: Timestamp) -> LaneRoom {
        let _ = (lane, now);
        LaneRoom { items: usize::MAX, opens_at: None }
    }

    /// Claims work of these lanes, as much of each as its quota says, and begins it.
    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>>;
}

/// How much of a lane can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRoom {
    /// At most this many items.
    pub items: usize,
    /// When there is room again, where there is none and that is known.
    pub opens_at: Option<Timestamp>,
}

/// The items that a claim took from a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneClaim {
    /// How many.
    pub items: usize,
    /// When the last of them was due.
    pub last_due: Option<Timestamp>,
}

/// One executor's turn in a tick of the loop.
pub struct WorkRound<'l> {
    /// The lanes that the last look found due, of all executors.
    pub ready: &'l HashMap<LaneId, ReadyLane>,
    /// The database's time.
    pub clock: DatabaseClock,
    /// The most items that one claim takes.
    pub batch: usize,
    /// The signal that stops the work.
    pub stop: &'l StopSignal,
    /// Whether the loop waits for all that it begins, in order.
    pub in_turn: bool,
    /// The items taken from each lane. A lane that is not named here is left alone until the next look.
    pub taken: HashMap<LaneId, LaneClaim>,
    /// The begun work.
    pub begun: Vec<ClaimedWork>,
}

impl WorkRound<'_> {
    /// The request to claim so much.
    #[must_use]
    pub fn claim_request(&self, context: &WorkerContext, quotas: Vec<LaneQuota>) -> ClaimRequest {
        ClaimRequest { owner: context.owner.clone(), lease: context.lease, takes: quotas }
    }

    /// Adds work that is to be run.
    pub fn begin(&mut self, run: impl Future<Output = Result<WorkCounts>> + Send + 'static) {
        self.begun.push(ClaimedWork::new(run));
    }

    /// Adds work that is run beside other such work, also where the loop waits for what it begins.
    pub fn begin_side_by_side(&mut self, run: impl Future<Output = Result<WorkCounts>> + Send + 'static) {
        self.begun.push(ClaimedWork { run: Box::pin(run), side_by_side: true });
    }
}

/// Work that was claimed, to be run to its end.
pub struct ClaimedWork {
    pub(crate) run: BoxFuture<'static, Result<WorkCounts>>,
    pub(crate) side_by_side: bool,
}

impl ClaimedWork {
    /// Work that is run in its order.
    pub(crate) fn new(run: impl Future<Output = Result<WorkCounts>> + Send + 'static) -> Self {
        Self { run: Box::pin(run), side_by_side: false }
    }

    /// Runs the work beside the loop, and reports its error to the loop.
    pub(crate) fn spawn(self, context: &Arc<WorkerContext>) {
        let (context, run) = (Arc::clone(context), self.run);
        tokio::spawn(async move {
            match catch_panic(run).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => context.note_trouble(error),
                // Its claimed items are due again when the lease ends.
                Err(panic) => {
                    tracing::error!(target: "punctual", panic, "claimed work panicked");
                    gauge::loop_panicked("claimed work");
                }
            }
        });
    }
}

/// The counts of handled work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Messages that a handler took well.
    pub handled: usize,
    /// Attempts of handlers that did not go well.
    pub handler_failures: usize,
    /// Messages that a channel took.
    pub sent: usize,
    /// Sends that did not go well.
    pub send_failures: usize,
    /// Entries that expired.
    pub expired: usize,
    /// Work that was looked at, whatever came of it.
    pub seen: usize,
}

impl WorkCounts {
    /// Adds what other work came to.
    pub const fn add(&mut self, other: Self) {
        self.handled += other.handled;
        self.handler_failures += other.handler_failures;
        self.sent += other.sent;
        self.send_failures += other.send_failures;
        self.expired += other.expired;
        self.seen += other.seen;
    }
}
