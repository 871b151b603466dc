//! Plans entries of events: a few at once, many beside the loop.

use super::super::event_planner;
use super::super::executor::{Executor, WorkRound};
use super::super::kinds::BoxFuture;
use crate::base::error::Result;
use crate::rules::purpose::Purpose;
use crate::rules::share::LaneQuota;
use crate::store::entries::ready_lanes::EntryLane;

/// Plans the events that a tenant's definitions are about.
#[derive(Debug)]
pub(super) struct PlanEvents;

impl Executor for PlanEvents {
    fn serves(&self, lane: &EntryLane) -> bool {
        lane.purpose == Purpose::Dispatch
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(plan(round, quotas))
    }
}

async fn plan(round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
    let Some(telling) = event_planner::begin(round.post, quotas, round.may_begin()).await? else {
        return Ok(());
    };
    round.seen += telling.events();
    match round.stop {
        Some(stop) if telling.events() >= round.batch => {
            drop(tokio::spawn(telling.run_beside(stop.clone())));
            Ok(())
        }
        stop => {
            let postings = &mut round.postings;
            telling.run(stop, &mut |posting| postings.push(posting)).await
        }
    }
}
