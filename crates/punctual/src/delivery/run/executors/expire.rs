//! Ends entries that were quiet for too long: local, one transaction.

use crate::base::error::Result;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::executors::LocalTurn;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{BoxFuture, Executor, WorkCounts, WorkRound};
use crate::queue::store::ready_lanes::ReadyLane;
use std::sync::Arc;

/// Ends quiet entries of every kind.
#[derive(Debug)]
pub(super) struct ExpireExecutor {
    context: Arc<DeliveryContext>,
    running: LocalTurn,
}

impl ExpireExecutor {
    pub(super) fn new(context: &Arc<DeliveryContext>) -> Self {
        Self { context: Arc::clone(context), running: LocalTurn::default() }
    }
}

impl Executor for ExpireExecutor {
    fn slot(&self, lane: &ReadyLane) -> Option<usize> {
        (lane.purpose == Purpose::Expire).then_some(0)
    }

    fn room(&self, batch: usize) -> Vec<usize> {
        vec![self.running.room(batch)]
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        let (context, guard) = (Arc::clone(&self.context), self.running.begin(&self.context));
        round.begin(async move {
            let quieted = context.store().expire_entries(quotas).await?;
            drop(guard);
            Ok(WorkCounts { expired: quieted.expired, seen: quieted.seen, ..WorkCounts::default() })
        });
        Box::pin(async { Ok(()) })
    }
}
