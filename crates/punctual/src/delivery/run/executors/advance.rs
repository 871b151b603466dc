//! Writes the next delivery of due entries: read, planned outside of any transaction, then taken.

use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::delivery::run::begin_allowance::BeginAllowance;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_batch::{DeliveryBatch, run_batches};
use crate::delivery::run::executors::OneAtATime;
use crate::delivery::store::entries::advance::PeekedEntries;
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{BoxFuture, Executor, TakenFromLane, WorkCounts, WorkRound};
use crate::queue::run::stop::Stop;
use crate::queue::store::ready_lanes::ReadyLane;
use std::collections::HashMap;
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

    /// Reads what is due, and begins to advance it beside the loop, which learns how much each lane had.
    async fn peek(&self, round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
        let guard = self.running.begin(&self.context);
        let peeked = self.context.store().peek_entries(quotas.clone()).await?;
        round.taken = due_of_lanes(&peeked);
        let advance = Advance {
            context: Arc::clone(&self.context),
            kind: self.kind,
            quotas,
            allowance: BeginAllowance::of(round),
            stop: round.stop.clone(),
            in_turn: round.in_turn,
        };
        round.begin(async move {
            let (mut counts, batches) = advance.run(peeked).await?;
            drop(guard);
            run_batches(batches, &advance.stop, advance.in_turn, &mut counts).await?;
            Ok(counts)
        });
        Ok(())
    }
}

/// How much due work was read in each lane, in the order of its due times.
fn due_of_lanes(peeked: &PeekedEntries) -> HashMap<LaneId, TakenFromLane> {
    let mut lanes: HashMap<LaneId, TakenFromLane> = HashMap::new();
    for work in peeked.due.iter().map(|(work, _)| work).chain(&peeked.gone) {
        let lane = lanes.entry(work.lane).or_insert(TakenFromLane { items: 0, last_due: None });
        lane.items += 1;
        lane.last_due = lane.last_due.max(Some(work.due_at));
    }
    lanes
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
        Box::pin(self.peek(round, quotas))
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
    /// Advances what was read; if other processes were faster to take it, reads again what is due.
    async fn run(&self, mut peeked: PeekedEntries) -> Result<(WorkCounts, Vec<DeliveryBatch>)> {
        let (mut counts, mut batches) = (WorkCounts::default(), Vec::new());
        for _ in 0..ADVANCE_TRIES {
            if !self.advance(peeked, &mut counts, &mut batches).await? {
                break;
            }
            tokio::time::sleep(OVERTAKEN_PAUSE).await;
            peeked = self.context.store().peek_entries(self.quotas.clone()).await?;
        }
        Ok((counts, batches))
    }

    /// Whether there was something due, and others took all of it.
    async fn advance(
        &self,
        peeked: PeekedEntries,
        counts: &mut WorkCounts,
        batches: &mut Vec<DeliveryBatch>,
    ) -> Result<bool> {
        let context = &self.context;
        let Some(kind) = context.kinds.get(self.kind) else { return Ok(false) };
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
