//! Writes the next delivery of due entries: read, planned outside of any transaction, then taken.

use super::super::delivery_batch::DeliveryBatch;
use super::super::executor::{Executor, WorkRound};
use super::super::kinds::{BoxFuture, Planner};
use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::rules::entry::EntryKind;
use crate::rules::purpose::Purpose;
use crate::rules::share::LaneQuota;
use crate::store::entries::ready_lanes::EntryLane;
use std::time::Duration;

/// How often due entries are read again that another process was faster to take.
const ADVANCE_TRIES: usize = 10;
/// The pause before that.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(5);

/// Advances due entries of one kind.
#[derive(Debug)]
pub(super) struct AdvanceEntries {
    pub(super) kind: EntryKind,
}

/// What became of an attempt to advance due entries.
enum AdvanceOutcome {
    /// Some were advanced, or none is due.
    Done,
    /// Others were faster.
    Overtaken,
}

impl Executor for AdvanceEntries {
    /// The topic of an advance lane is its kind.
    fn serves(&self, lane: &EntryLane) -> bool {
        lane.purpose == Purpose::Advance && lane.channel == self.kind.word()
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(self.advance(round, quotas))
    }
}

impl AdvanceEntries {
    async fn advance(&self, round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
        let post = round.post;
        let Some(planner) = post.kinds.planner(self.kind) else { return Ok(()) };
        for _ in 0..ADVANCE_TRIES {
            match advance_once(round, planner, quotas.clone()).await? {
                // Another process has taken all of them since they were read: what it has not is next.
                AdvanceOutcome::Overtaken => tokio::time::sleep(OVERTAKEN_PAUSE).await,
                AdvanceOutcome::Done => break,
            }
        }
        Ok(())
    }
}

async fn advance_once(
    round: &mut WorkRound<'_>,
    planner: &dyn Planner,
    quotas: Vec<LaneQuota>,
) -> Result<AdvanceOutcome> {
    let post = round.post;
    let peeked = post.store.peek_entries(quotas).await?;
    let sends = planner.plan_sends(post, &peeked).await?;
    let start = (!round.is_stopping()).then(|| {
        let channels = sends.iter().map(|send| &send.planned.channel);
        round.may_begin().start(post, channels)
    });
    let asked = monotonic();
    let seen = sends.len() + peeked.gone.len();
    let advanced = post.store.advance_entries(sends, peeked.gone, start).await?;
    round.seen += advanced.taken;
    for (outgoing, contexts) in advanced.begun {
        round.postings.extend(DeliveryBatch::new(post, planner.renderer_of(contexts), outgoing, asked));
    }
    let overtaken = advanced.taken == 0 && seen > 0;
    Ok(if overtaken { AdvanceOutcome::Overtaken } else { AdvanceOutcome::Done })
}
