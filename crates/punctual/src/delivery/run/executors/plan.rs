//! Claims events that a tenant's definitions are about, and plans their entries.

use crate::base::error::Result;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::event_planner::EventBatch;
use crate::delivery::store::deliveries::FLOWS_LANE;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::executor::{BoxFuture, Executor, WorkRound};
use crate::queue::store::ready_lanes::ReadyLane;
use std::sync::Arc;

/// Plans the entries of events.
#[derive(Debug)]
pub(super) struct PlanExecutor {
    context: Arc<DeliveryContext>,
}

impl PlanExecutor {
    pub(super) fn new(context: &Arc<DeliveryContext>) -> Self {
        Self { context: Arc::clone(context) }
    }
}

impl Executor for PlanExecutor {
    fn slot(&self, lane: &ReadyLane) -> Option<usize> {
        (lane.purpose == Purpose::Dispatch && lane.subscription == FLOWS_LANE).then_some(0)
    }

    fn room(&self, batch: usize) -> Vec<usize> {
        vec![self.context.room(batch)]
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            if let Some(batch) = EventBatch::claim(&self.context, round, quotas).await? {
                let (stop, in_turn) = (round.stop.clone(), round.in_turn);
                round.begin(batch.run(stop, in_turn));
            }
            Ok(())
        })
    }
}
