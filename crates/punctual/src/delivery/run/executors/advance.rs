//! Writes the next delivery of due entries: read, planned outside of any transaction, then taken.

use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::database::dialect::Dialect;
use crate::delivery::run::begin_allowance::BeginAllowance;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_batch::{DeliveryBatch, run_batches};
use crate::delivery::run::executors::advances_in_progress::{AdvanceGuard, AdvancesInProgress};
use crate::delivery::store::entries::advance::PeekedEntries;
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{BoxFuture, Executor, LaneClaim, WorkCounts, WorkRound};
use crate::queue::run::stop::StopSignal;
use crate::queue::store::ready_lanes::ReadyLane;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Advances of one kind at once on PostgreSQL: while one waits for the database, the other plans.
const ADVANCES_AT_ONCE: usize = 2;
/// How often due entries are read again that another process was faster to take.
const ADVANCE_TRIES: usize = 10;
/// The pause before that.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(5);

/// Advances due entries of one kind.
#[derive(Debug)]
pub(super) struct AdvanceExecutor {
    context: Arc<DeliveryContext>,
    kind: EntryKind,
    in_hand: Arc<AdvancesInProgress>,
}

impl AdvanceExecutor {
    pub(super) fn new(context: &Arc<DeliveryContext>, kind: EntryKind) -> Self {
        let most = match context.store().dialect() {
            Dialect::Postgres => ADVANCES_AT_ONCE,
            // One writer: a second transaction would wait for the first.
            Dialect::Sqlite => 1,
        };
        Self { context: Arc::clone(context), kind, in_hand: Arc::new(AdvancesInProgress::new(most)) }
    }

    /// Reads what is due, and begins to advance it beside the loop, which learns how much each lane had.
    async fn peek(&self, round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
        let guard = self.in_hand.begin(&self.context.worker.room);
        let peeked = self.in_hand.peek(self.context.store(), self.in_hand.beside(&quotas)).await?;
        round.taken = due_of_lanes(&peeked);
        if peeked.due.is_empty() && peeked.gone.is_empty() {
            guard.found_nothing();
            return Ok(());
        }
        guard.hold(&peeked);
        let advance = AdvanceRound {
            context: Arc::clone(&self.context),
            kind: self.kind,
            quotas,
            guard,
            allowance: BeginAllowance::of(round),
            stop: round.stop.clone(),
            in_turn: round.in_turn,
        };
        round.begin(async move {
            let (stop, in_turn) = (advance.stop.clone(), advance.in_turn);
            let (mut counts, batches) = advance.run(peeked).await?;
            run_batches(batches, &stop, in_turn, &mut counts).await?;
            Ok(counts)
        });
        Ok(())
    }
}

/// How much due work was read in each lane, in the order of its due times.
fn due_of_lanes(peeked: &PeekedEntries) -> HashMap<LaneId, LaneClaim> {
    let mut lanes: HashMap<LaneId, LaneClaim> = HashMap::new();
    for work in peeked.due.iter().map(|(work, _)| work).chain(&peeked.gone) {
        let lane = lanes.entry(work.lane).or_insert(LaneClaim { items: 0, last_due: None });
        lane.items += 1;
        lane.last_due = lane.last_due.max(Some(work.due_at));
    }
    lanes
}

impl Executor for AdvanceExecutor {
    /// The topic of an advance lane is its kind.
    fn slot(&self, lane: &ReadyLane) -> Option<usize> {
        (lane.purpose == Purpose::Advance && lane.topic == self.kind.word()).then_some(0)
    }

    fn room(&self, batch: usize) -> Vec<usize> {
        vec![if self.in_hand.is_full() { 0 } else { self.context.room(batch) }]
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(self.peek(round, quotas))
    }
}

/// One advance of due entries.
struct AdvanceRound {
    context: Arc<DeliveryContext>,
    kind: EntryKind,
    quotas: Vec<LaneQuota>,
    guard: AdvanceGuard,
    allowance: BeginAllowance,
    stop: StopSignal,
    in_turn: bool,
}

impl AdvanceRound {
    /// Advances what was read; if other processes were faster to take it, reads again what is due.
    async fn run(self, mut peeked: PeekedEntries) -> Result<(WorkCounts, Vec<DeliveryBatch>)> {
        let (mut counts, mut batches) = (WorkCounts::default(), Vec::new());
        for _ in 0..ADVANCE_TRIES {
            if !self.advance(peeked, &mut counts, &mut batches).await? {
                break;
            }
            tokio::time::sleep(OVERTAKEN_PAUSE).await;
            peeked = self.guard.peek_again(self.context.store(), &self.quotas).await?;
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
        if advanced.taken < due {
            self.guard.was_overtaken();
        }
        for (claimed, entries) in advanced.begun {
            let mut renderer = kind.renderer();
            renderer.know_entries(entries);
            batches.extend(DeliveryBatch::new(context, self.kind, renderer, claimed, asked));
        }
        Ok(advanced.taken == 0 && due > 0)
    }
}
