//! The due work that a process is just advancing, so that it does not read the same rows twice.
//!
//! Not promised: that no other process reads them, too. The one that takes them first has them.

use crate::base::clock::Timestamp;
use crate::base::id::LaneId;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::store::entries::advance::{PeekQuota, PeekedEntries, WorkRange};
use crate::queue::rules::share::LaneQuota;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stretches of lanes that one advance has read.
type HeldRanges = HashMap<LaneId, WorkRange>;

/// Advances of one kind of entries that are under way.
#[derive(Debug)]
pub(super) struct InHand {
    /// So many at once.
    most: usize,
    advances: Mutex<Advances>,
}

#[derive(Debug, Default)]
struct Advances {
    last: u64,
    held: HashMap<u64, HeldRanges>,
}

impl InHand {
    pub(super) fn new(most: usize) -> Self {
        Self { most, advances: Mutex::default() }
    }

    /// Whether another advance has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.lock().held.len() >= self.most
    }

    /// Counts an advance, until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, context: &Arc<DeliveryContext>) -> AdvanceGuard {
        let mut advances = self.lock();
        advances.last += 1;
        let number = advances.last;
        advances.held.insert(number, HeldRanges::new());
        AdvanceGuard { in_hand: Arc::clone(self), context: Arc::clone(context), number }
    }

    /// Returns these quotas without the work that is in hand.
    pub(super) fn beside(&self, quotas: &[LaneQuota]) -> Vec<PeekQuota> {
        let advances = self.lock();
        let quota = |take: &LaneQuota| {
            let held = advances.held.values().filter_map(|of| of.get(&take.lane));
            PeekQuota { take: *take, beside: held.copied().reduce(hull).unwrap_or(WorkRange::EMPTY) }
        };
        quotas.iter().map(quota).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Advances> {
        self.advances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hull(one: WorkRange, other: WorkRange) -> WorkRange {
    WorkRange { first: one.first.min(other.first), last: one.last.max(other.last) }
}

/// An advance that is under way.
#[derive(Debug)]
pub(super) struct AdvanceGuard {
    in_hand: Arc<InHand>,
    context: Arc<DeliveryContext>,
    number: u64,
}

impl AdvanceGuard {
    /// Notes what the advance has read.
    pub(super) fn hold(&self, peeked: &PeekedEntries) {
        let mut held = HeldRanges::new();
        for work in peeked.due.iter().map(|(work, _)| work).chain(&peeked.gone) {
            let place: (Timestamp, i64) = (work.due_at, work.id);
            let range = WorkRange { first: place, last: place };
            held.entry(work.lane).and_modify(|known| *known = hull(*known, range)).or_insert(range);
        }
        self.in_hand.lock().held.insert(self.number, held);
    }

    /// Returns these quotas without the work that other advances have in hand.
    pub(super) fn beside(&self, quotas: &[LaneQuota]) -> Vec<PeekQuota> {
        self.in_hand.lock().held.insert(self.number, HeldRanges::new());
        self.in_hand.beside(quotas)
    }
}

impl Drop for AdvanceGuard {
    fn drop(&mut self) {
        self.in_hand.lock().held.remove(&self.number);
        self.context.worker.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_advances_hold_is_left_out_as_one_stretch() {
        let at = |us, id| (Timestamp::from_micros(us), id);
        let one = WorkRange { first: at(1, 5), last: at(2, 1) };
        let other = WorkRange { first: at(2, 2), last: at(3, 9) };
        let both = WorkRange { first: at(1, 5), last: at(3, 9) };
        assert_eq!((hull(one, other), hull(other, one)), (both, both));
    }
}
