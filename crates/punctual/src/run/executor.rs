//! Executors: what the pipeline's loop does with the work of ready lanes.
//!
//! The loop ([`super::send`]) looks for ready lanes once, and shares its room fairly among the lanes of each
//! executor. An executor says which lanes it serves and how much of each it can take now, and runs what it
//! was given. One that calls nothing outside is *local*: it takes, decides and writes in one transaction.

use super::database_clock::DatabaseClock;
use super::delivery_batch::DeliveryBatch;
use super::event_planner::BeginAllowance;
use super::kinds::BoxFuture;
use super::send::DeliveryContext;
use super::stop::Stop;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::rules::purpose::Purpose;
use crate::rules::share::LaneQuota;
use crate::store::claims::ClaimRequest;
use crate::store::entries::ready_lanes::{DueEntries, EntryLane};
use std::fmt::Debug;
use std::sync::Arc;

/// Claims of deliveries that are begun with their notifications, of the events that are planned at once.
const BEGUN_MAX: usize = 2;

/// Does the work of some lanes.
pub(super) trait Executor: Debug + Send + Sync {
    /// Whether the executor does the work of this lane.
    fn serves(&self, lane: &EntryLane) -> bool;

    /// How much of a lane can be claimed now.
    fn room(&self, post: &DeliveryContext, lane: &EntryLane, now: Timestamp) -> LaneRoom {
        let _ = (post, lane, now);
        LaneRoom { items: usize::MAX, opens_at: None }
    }

    /// Claims and does work of these lanes, as much of each as its quota says.
    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>>;
}

/// How much of a lane can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneRoom {
    /// So many items at most.
    pub(super) items: usize,
    /// When there is room again, where there is none and that is known.
    pub(super) opens_at: Option<Timestamp>,
}

/// One look of the loop, and what it has come to so far.
pub(super) struct WorkRound<'l> {
    pub(super) post: &'l Arc<DeliveryContext>,
    pub(super) ready: &'l DueEntries,
    pub(super) present: DatabaseClock,
    /// The most items that one claim takes.
    pub(super) batch: usize,
    /// What stops the tasks beside the loop; none if the round waits for all that it begins.
    pub(super) stop: Option<&'l Stop>,
    /// Claims of deliveries that are to be sent.
    pub(super) postings: Vec<DeliveryBatch>,
    /// Entries that expired.
    pub(super) expired: usize,
    /// Work that was looked at, whatever came of it.
    pub(super) seen: usize,
}

impl WorkRound<'_> {
    /// Whether nothing more may be claimed. A round that waits for what it begins sends one claim after the
    /// other: one that waited for its turn would not be renewed.
    pub(super) fn is_full(&self) -> bool {
        self.stop.is_none() && !self.postings.is_empty()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some_and(Stop::is_asked)
    }

    pub(super) fn claim_of(&self, takes: Vec<LaneQuota>) -> ClaimRequest {
        ClaimRequest { owner: self.post.owner.clone(), lease: self.post.lease, takes }
    }

    /// What may be begun of deliveries as they are written: none by channels for which something waits, which
    /// goes first.
    pub(super) fn may_begin(&self) -> BeginAllowance {
        let waits = self.ready.lanes.iter().filter(|lane| lane.purpose == Purpose::Send);
        BeginAllowance {
            claims: if self.stop.is_some() { BEGUN_MAX } else { 1 },
            batch: self.batch,
            awaited: waits.map(|lane| lane.channel.clone()).collect(),
            present: self.present,
        }
    }
}
