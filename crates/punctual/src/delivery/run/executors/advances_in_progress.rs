//! The due work that a process is just advancing, so that it does not read the same rows twice.
//!
//! Not promised: that no other process reads them, too. The one that takes them first has them. A process
//! that came too late leaves out what others are just taking for its next [`LOOKS_BESIDE_OTHERS`] looks;
//! mostly there is nobody, and reading without locks is cheaper.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::database::store::Store;
use crate::delivery::store::entries::advance::{PeekQuota, PeekedEntries, WorkRange};
use crate::queue::rules::share::LaneQuota;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Looks that leave out what other processes are just taking, after one of them was faster.
const LOOKS_BESIDE_OTHERS: u32 = 64;

/// The stretches of lanes that one advance has read.
type HeldRanges = HashMap<LaneId, WorkRange>;

/// Advances of one kind of entries that are under way.
#[derive(Debug)]
pub(super) struct AdvancesInProgress {
    /// So many at once.
    most: usize,
    advances: Mutex<ProgressState>,
}

#[derive(Debug, Default)]
struct ProgressState {
    last: u64,
    held: HashMap<u64, HeldRanges>,
    /// Whether a read found nothing beside what is in hand.
    dry: bool,
    /// So many looks leave out what other processes are just taking.
    beside_others: u32,
}

impl AdvancesInProgress {
    pub(super) fn new(most: usize) -> Self {
        Self { most, advances: Mutex::default() }
    }

    /// Whether another advance has to wait: so many are under way, or one is and there is nothing beside it.
    /// Its rows are still seen by a look until it has committed.
    pub(super) fn is_full(&self) -> bool {
        let advances = self.lock();
        advances.held.len() >= self.most || (advances.dry && !advances.held.is_empty())
    }

    /// Counts an advance, until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, room: &Arc<Notify>) -> AdvanceGuard {
        let mut advances = self.lock();
        advances.last += 1;
        let number = advances.last;
        advances.held.insert(number, HeldRanges::new());
        AdvanceGuard { in_hand: Arc::clone(self), room: Arc::clone(room), number }
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

    /// Reads what is due.
    pub(super) async fn peek(&self, store: &Store, takes: Vec<PeekQuota>) -> Result<PeekedEntries> {
        let is_alone = {
            let mut advances = self.lock();
            let before = advances.beside_others;
            advances.beside_others = before.saturating_sub(1);
            before == 0
        };
        if is_alone { store.peek_entries(takes).await } else { store.peek_entries_beside_others(takes).await }
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.advances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hull(one: WorkRange, other: WorkRange) -> WorkRange {
    WorkRange { first: one.first.min(other.first), last: one.last.max(other.last) }
}

/// An advance that is under way.
#[derive(Debug)]
pub(super) struct AdvanceGuard {
    in_hand: Arc<AdvancesInProgress>,
    room: Arc<Notify>,
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

    /// Ends an advance that has read nothing: no other begins until one that is under way has ended.
    pub(super) fn found_nothing(self) {
        let in_hand = Arc::clone(&self.in_hand);
        drop(self);
        let mut advances = in_hand.lock();
        advances.dry = !advances.held.is_empty();
    }

    /// Reads again what is due, without the work that other advances have in hand.
    pub(super) async fn peek_again(&self, store: &Store, quotas: &[LaneQuota]) -> Result<PeekedEntries> {
        self.in_hand.lock().held.insert(self.number, HeldRanges::new());
        let peeked = self.in_hand.peek(store, self.in_hand.beside(quotas)).await?;
        self.hold(&peeked);
        Ok(peeked)
    }

    /// Notes that other processes take from the same lanes.
    pub(super) fn was_overtaken(&self) {
        self.in_hand.lock().beside_others = LOOKS_BESIDE_OTHERS;
    }
}

impl Drop for AdvanceGuard {
    fn drop(&mut self) {
        let mut advances = self.in_hand.lock();
        advances.held.remove(&self.number);
        advances.dry = false;
        drop(advances);
        self.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_that_finds_nothing_waits_for_the_advance_that_is_under_way() {
        let (in_hand, room) = (Arc::new(AdvancesInProgress::new(2)), Arc::new(Notify::new()));
        let first = in_hand.begin(&room);
        assert!(!in_hand.is_full(), "a second may read beside the first");
        in_hand.begin(&room).found_nothing();
        assert!(in_hand.is_full(), "the first has all there is");
        drop(first);
        assert!(!in_hand.is_full());
        in_hand.begin(&room).found_nothing();
        assert!(!in_hand.is_full(), "nothing is under way");
    }

    #[test]
    fn what_two_advances_hold_is_left_out_as_one_stretch() {
        let at = |us, id| (Timestamp::from_micros(us), id);
        let one = WorkRange { first: at(1, 5), last: at(2, 1) };
        let other = WorkRange { first: at(2, 2), last: at(3, 9) };
        let both = WorkRange { first: at(1, 5), last: at(3, 9) };
        assert_eq!((hull(one, other), hull(other, one)), (both, both));
    }
}
