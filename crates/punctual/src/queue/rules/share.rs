//! The shares of a claim: the fairness between tenants and topics.
//!
//! Every lane with due work is offered. Each topic's room (what its handler can take) is shared evenly among
//! its lanes, at least one item each, and the turn moves on from claim to claim, so that neither a backlog of
//! a million rows nor a long list of lanes keeps a lane waiting for more than a turn.

use crate::base::clock::Timestamp;
use crate::base::id::LaneId;
use crate::base::limits;
use std::collections::HashSet;

/// A lane that has due work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueLane {
    /// The lane.
    pub lane: LaneId,
    /// Which handler takes it.
    pub handler: usize,
    /// Nothing due before this is expected there: a hint that spares a walk over index
    /// entries of rows already claimed.
    pub since: Timestamp,
}

/// The quota of a lane in a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneQuota {
    /// The lane.
    pub lane: LaneId,
    /// Look no earlier than this.
    pub since: Timestamp,
    /// At most this many items.
    pub quota: usize,
}

/// Returns the offers that a claim may take now: those whose handler has room, lanes that are not known to
/// be deep before all others, because a small claim is a quick one.
#[must_use]
pub fn claimable(offers: &[DueLane], room: &[usize], deep: &HashSet<LaneId>) -> Vec<DueLane> {
    let open: Vec<DueLane> = offers.iter().filter(|offer| room[offer.handler] > 0).copied().collect();
    let shallow: Vec<DueLane> = open.iter().filter(|offer| !deep.contains(&offer.lane)).copied().collect();
    if shallow.is_empty() { open } else { shallow }
}

/// Shares the room of each handler among the offered lanes, beginning at `turn`.
#[must_use]
pub fn plan(offers: &[DueLane], room: &[usize], turn: usize) -> Vec<LaneQuota> {
    let mut left = room.to_vec();
    let chosen = choose(offers, room, turn);
    let mut sharers = vec![0_usize; room.len()];
    chosen.iter().for_each(|offer| sharers[offer.handler] += 1);
    let mut takes = Vec::with_capacity(chosen.len());
    for offer in chosen {
        let (left, sharers) = (&mut left[offer.handler], &mut sharers[offer.handler]);
        let quota = left.div_ceil((*sharers).max(1));
        *left -= quota;
        *sharers -= 1;
        if quota > 0 {
            takes.push(LaneQuota { lane: offer.lane, since: offer.since, quota });
        }
    }
    takes
}

/// The lanes whose turn it is: no more per handler than it has room, no more in all than
/// one statement may visit.
fn choose<'a>(offers: &'a [DueLane], room: &[usize], turn: usize) -> Vec<&'a DueLane> {
    let start = if offers.is_empty() { 0 } else { turn % offers.len() };
    let mut free = room.to_vec();
    offers[start..]
        .iter()
        .chain(&offers[..start])
        .filter(|offer| {
            let free = &mut free[offer.handler];
            let fits = *free > 0;
            *free = free.saturating_sub(1);
            fits
        })
        .take(limits::CLAIM_LANES_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(n: usize) -> Vec<DueLane> {
        let lane = |l: usize| LaneId(i64::try_from(l).unwrap() + 1);
        (0..n).map(|l| DueLane { lane: lane(l), handler: 0, since: Timestamp::MIN }).collect()
    }

    /// PLT-9: a lane whose handler is busy keeps no deep lane of another handler waiting.
    #[test]
    fn plt_9_a_busy_handler_holds_up_no_other() {
        let lane = |n: i64, handler: usize| DueLane { lane: LaneId(n), handler, since: Timestamp::MIN };
        let (busy, backlog, small) = (lane(1, 0), lane(2, 1), lane(3, 1));
        let deep = HashSet::from([LaneId(2)]);
        let claimed = |offers: &[DueLane], room: [usize; 2]| -> Vec<i64> {
            claimable(offers, &room, &deep).iter().map(|offer| offer.lane.0).collect()
        };
        let all = [busy, backlog, small];
        for (offers, room, expected) in [
            (&all[..], [1, 9], vec![1, 3]),
            (&all[..], [0, 9], vec![3]),
            (&all[..2], [0, 9], vec![2]),
            (&all[..2], [1, 9], vec![1]),
            (&all[..], [0, 0], vec![]),
        ] {
            assert_eq!(claimed(offers, room), expected, "{} offers, room {room:?}", offers.len());
        }
    }

    #[test]
    fn one_lane_gets_all_the_room() {
        let takes = plan(&offers(1), &[1_000], 0);
        assert_eq!(takes.iter().map(|t| t.quota).collect::<Vec<_>>(), [1_000]);
    }

    /// PLT-9: with a hundred lanes beside a big one, each gets its share of one claim.
    #[test]
    fn plt_9_room_is_shared_evenly() {
        let takes = plan(&offers(101), &[1_000], 5);
        assert_eq!(takes.len(), 101);
        assert_eq!(takes.iter().map(|t| t.quota).sum::<usize>(), 1_000);
        assert!(takes.iter().all(|t| (9..=10).contains(&t.quota)));
    }

    /// PLT-9: with more lanes than room, the turn reaches every lane.
    #[test]
    fn plt_9_the_turn_reaches_every_lane() {
        let offers = offers(500);
        let mut seen = std::collections::BTreeSet::new();
        let mut turn = 0;
        for _ in 0..50 {
            let takes = plan(&offers, &[10], turn);
            assert_eq!(takes.iter().map(|t| t.quota).sum::<usize>(), 10);
            seen.extend(takes.iter().map(|t| t.lane));
            turn += takes.len();
        }
        assert_eq!(seen.len(), 500);
    }

    #[test]
    fn a_full_handler_takes_nothing_and_blocks_no_other() {
        let mut offers = offers(2);
        offers[1].handler = 1;
        let takes = plan(&offers, &[0, 7], 0);
        assert_eq!(takes.iter().map(|t| (t.lane.0, t.quota)).collect::<Vec<_>>(), [(2, 7)]);
        assert_eq!(plan(&[], &[5], 3), vec![]);
    }
}
