//! Claims due deliveries of one kind, as many as their channels have room for.

use crate::base::clock::{Timestamp, monotonic};
use crate::base::error::Result;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_batch::DeliveryBatch;
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{BoxFuture, Executor, LaneClaim, LaneRoom, WorkCounts, WorkRound};
use crate::queue::store::ready_lanes::ReadyLane;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long deliveries wait for a process that has their channel before they fail for want of it. Not on a
/// manual clock, where the process that is told to step does all that is due.
const NO_CHANNEL_PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Sends deliveries of one kind, by every channel.
#[derive(Debug)]
pub(super) struct SendExecutor {
    context: Arc<DeliveryContext>,
    kind: EntryKind,
    /// Channels that this process lacks and that have been logged, until what was due by them was taken.
    logged: Mutex<BTreeSet<String>>,
}

impl SendExecutor {
    pub(super) fn new(context: &Arc<DeliveryContext>, kind: EntryKind) -> Self {
        Self { context: Arc::clone(context), kind, logged: Mutex::default() }
    }

    /// Until when a lane is left to processes that have its channel, such as one that is being rolled out.
    /// Deliveries that no process takes for so long are taken here, and fail for want of a channel. (A survey
    /// sends nothing more then, and expires in its time.)
    fn is_for_others_until(&self, lane: &ReadyLane, now: Timestamp) -> Option<Timestamp> {
        if self.context.channels.get(&lane.topic).is_some() {
            return None;
        }
        let until = left_to_others_until(lane.first_due, self.context.worker.manual_clock);
        let until = until.filter(|until| *until > now);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_none() {
            logged.remove(&lane.topic);
        } else if lane.first_due <= now && logged.insert(lane.topic.clone()) {
            let (channel, until) = (lane.topic.as_str(), until.map(|until| until.to_string()));
            tracing::warn!(
                target: "punctual",
                channel,
                until,
                "deliveries wait for a process with their channel"
            );
        }
        until
    }

    async fn claim(&self, round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
        let context = &self.context;
        let Some(kind) = context.kinds.get(self.kind) else { return Ok(()) };
        let asked = monotonic();
        let lanes = quotas.iter().filter_map(|quota| round.ready.get(&quota.lane));
        let terms = context.send_terms(lanes.map(|lane| &lane.topic));
        let request = round.claim_request(&context.worker, quotas);
        let claimed = context.store().begin_deliveries(request, self.kind, terms).await?;
        let seen = claimed.taken.values().sum::<usize>();
        for (lane, items) in &claimed.taken {
            round.taken.insert(*lane, LaneClaim { items: *items, last_due: None });
        }
        let stop = round.stop.clone();
        let batch = DeliveryBatch::new(context, self.kind, kind.renderer(), claimed, asked);
        round.begin(async move {
            let mut counts = WorkCounts { seen, ..WorkCounts::default() };
            if let Some(batch) = batch {
                counts.add(batch.run(stop).await?);
            }
            Ok(counts)
        });
        Ok(())
    }
}

impl Executor for SendExecutor {
    fn prepare<'f>(&'f self, lanes: &'f [ReadyLane], now: Timestamp) -> BoxFuture<'f, Result<()>> {
        let is_due =
            move |lane: &&ReadyLane| !lane.paused && lane.first_due <= now && self.slot(lane).is_some();
        let channels = lanes.iter().filter(is_due).map(|lane| &lane.topic);
        let here = channels.filter(|channel| self.context.channels.get(channel).is_some());
        Box::pin(async move {
            self.context.lease_shares(here).await;
            Ok(())
        })
    }

    /// The topic of a send lane is its channel, its subscription the kind of entries.
    fn slot(&self, lane: &ReadyLane) -> Option<usize> {
        (lane.purpose == Purpose::Send && lane.subscription == self.kind.word()).then_some(0)
    }

    fn room(&self, batch: usize) -> Vec<usize> {
        vec![self.context.room(batch)]
    }

    fn lane_room(&self, lane: &ReadyLane, now: Timestamp) -> LaneRoom {
        if let Some(until) = self.is_for_others_until(lane, now) {
            return LaneRoom { items: 0, opens_at: Some(until) };
        }
        let limiter = self.context.limiters.of(&lane.topic);
        let items = limiter.room(now);
        LaneRoom { items, opens_at: if items == 0 { limiter.opens_at(now) } else { None } }
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(self.claim(round, quotas))
    }
}

/// Until when deliveries that are due since `first_due`, by a channel that this process lacks, are left to
/// other processes.
fn left_to_others_until(first_due: Timestamp, manual_clock: bool) -> Option<Timestamp> {
    (!manual_clock).then(|| first_due.plus(NO_CHANNEL_PATIENCE))
}
