//! Writes the next delivery of due entries: read, planned outside of any transaction, then taken.

use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::delivery::run::begin_allowance::BeginAllowance;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_batch::{DeliveryBatch, run_batches};
use crate::delivery::run::executors::OneAtATime;
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{BoxFuture, Executor, WorkCounts, WorkRound};
use crate::queue::run::stop::Stop;
use crate::queue::store::ready_lanes::ReadyLane;
use std::sync::Arc;
use std::time::Duration;

/// How often due entries are read again that another process was faster to take.
const ADVANCE_TRIES: usize = 10;
/// The pause before that.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(5);

/// Advances due entries of one kind.
#[derive(Debug)]
pub(super) struct AdvanceEntries {
    context: Arc<DeliveryContext>,
    kind: EntryKind,
    running: OneAtATime,
}

impl AdvanceEntries {
    pub(super) fn new(context: &Arc<DeliveryContext>, kind: EntryKind) -> Self {
        Self { context: Arc::clone(context), kind, running: OneAtATime::default() }
    }
}

impl Executor for AdvanceEntries {
    /// The topic of an advance lane is its kind.
    fn slot(&self, lane: &ReadyLane) -> Option<usize> {
        (lane.purpose == Purpose::Advance && lane.topic == self.kind.word()).then_some(0)
    }

    fn room(&self, batch: usize) -> Vec<usize> {
        vec![self.running.room(self.context.room(batch))]
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        let guard = self.running.begin(&self.context);
        let advance = Advance {
            context: Arc::clone(&self.context),
            kind: self.kind,
            quotas,
            allowance: BeginAllowance::of(round),
            stop: round.stop.clone(),
            in_turn: round.in_turn,
        };
        round.begin(async move {
            let (mut counts, batches) = advance.run().await?;
            drop(guard);
            run_batches(batches, &advance.stop, advance.in_turn, &mut counts).await?;
            Ok(counts)
        });
        Box::pin(async { Ok(()) })
    }
}

/// One advance of due entries.
struct Advance {
    context: Arc<DeliveryContext>,
    kind: EntryKind,
    quotas: Vec<LaneQuota>,
    allowance: BeginAllowance,
    stop: Stop,
    in_turn: bool,
}

impl Advance {
    /// Advances what is due; entries that another process was faster to take are read again.
    async fn run(&self) -> Result<(WorkCounts, Vec<DeliveryBatch>)> {
        let (mut counts, mut batches) = (WorkCounts::default(), Vec::new());
        for _ in 0..ADVANCE_TRIES {
            if !self.advance_once(&mut counts, &mut batches).await? {
                break;
            }
            tokio::time::sleep(OVERTAKEN_PAUSE).await;
        }
        Ok((counts, batches))
    }

    /// Whether there was something due, and others took all of it.
    async fn advance_once(&self, counts: &mut WorkCounts, batches: &mut Vec<DeliveryBatch>) -> Result<bool> {
        let context = &self.context;
        let Some(kind) = context.kinds.get(self.kind) else { return Ok(false) };
        let peeked = context.store().peek_entries(self.quotas.clone()).await?;
        let sends = kind.plan_sends(context, &peeked).await?;
        let start = (!self.stop.is_asked()).then(|| {
            let channels = sends.iter().map(|send| &send.planned.channel);
            self.allowance.start(context, channels)
        });
        let asked = monotonic();
        let due = sends.len() + peeked.gone.len();
        let advanced = context.store().advance_entries(sends, peeked.gone, start).await?;
        counts.seen += advanced.taken;
        for (claimed, entries) in advanced.begun {
            let mut renderer = kind.renderer();
            renderer.know_entries(entries);
            batches.extend(DeliveryBatch::new(context, self.kind, renderer, claimed, asked));
        }
        Ok(advanced.taken == 0 && due > 0)
    }
}
