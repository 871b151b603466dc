//! Claims due deliveries of one kind, as many as their channels have room for.

use super::super::delivery_batch::DeliveryBatch;
use super::super::executor::{Executor, LaneRoom, WorkRound};
use super::super::kinds::BoxFuture;
use super::super::send::DeliveryContext;
use crate::base::clock::{Timestamp, monotonic};
use crate::base::error::Result;
use crate::rules::entry::EntryKind;
use crate::rules::purpose::Purpose;
use crate::rules::share::LaneQuota;
use crate::store::entries::ready_lanes::EntryLane;
use std::time::Duration;

/// How long deliveries wait for a process that has their channel before they fail for want of it.
const NO_CHANNEL_PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Sends deliveries of one kind, by every channel.
#[derive(Debug)]
pub(super) struct SendDeliveries {
    pub(super) kind: EntryKind,
}

impl Executor for SendDeliveries {
    fn serves(&self, lane: &EntryLane) -> bool {
        lane.purpose == Purpose::Send && lane.kind == Some(self.kind)
    }

    fn room(&self, post: &DeliveryContext, lane: &EntryLane, now: Timestamp) -> LaneRoom {
        if let Some(until) = is_for_others_until(post, lane).filter(|until| *until > now) {
            return LaneRoom { items: 0, opens_at: Some(until) };
        }
        let gate = post.gates.of(&lane.channel);
        let items = gate.room(now);
        LaneRoom { items, opens_at: if items == 0 { gate.opens_at(now) } else { None } }
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(self.begin(round, quotas))
    }
}

impl SendDeliveries {
    async fn begin(&self, round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
        let post = round.post;
        let Some(renderer) = post.kinds.renderer(self.kind) else { return Ok(()) };
        let asked = monotonic();
        let lanes =
            round.ready.lanes.iter().filter(|lane| quotas.iter().any(|quota| quota.lane == lane.lane));
        let window = post.window(lanes.map(|lane| &lane.channel));
        let outgoing = post.store.begin_deliveries(round.claim_of(quotas), window).await?;
        round.seen += outgoing.taken.values().sum::<usize>();
        round.postings.extend(DeliveryBatch::new(post, renderer, outgoing, asked));
        Ok(())
    }
}

/// Until when a lane is left to processes that have its channel, such as one that is being rolled out. What
/// nobody takes for so long is taken here, and fails for want of a channel. (A survey sends nothing more
/// then, and expires in its time.)
fn is_for_others_until(post: &DeliveryContext, lane: &EntryLane) -> Option<Timestamp> {
    let is_missing = post.channels.get(&lane.channel).is_none();
    is_missing.then(|| lane.first_due.plus(NO_CHANNEL_PATIENCE))
}
