//! Ends entries that were quiet for too long: local, one transaction.

use super::super::executor::{Executor, WorkRound};
use super::super::kinds::BoxFuture;
use crate::base::error::Result;
use crate::rules::purpose::Purpose;
use crate::rules::share::LaneQuota;
use crate::store::entries::ready_lanes::EntryLane;

/// Ends quiet entries of every kind.
#[derive(Debug)]
pub(super) struct ExpireEntries;

impl Executor for ExpireEntries {
    fn serves(&self, lane: &EntryLane) -> bool {
        lane.purpose == Purpose::Expire
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            let quieted = round.post.store.expire_entries(quotas).await?;
            round.expired += quieted.expired;
            round.seen += quieted.seen;
            Ok(())
        })
    }
}
