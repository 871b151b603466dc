//! PLT-9: a backlog keeps nobody else waiting.

use crate::bench::{Bench, LEASE, message};
use punctual::base::clock::Timestamp;
use punctual::base::id::LaneId;
use punctual::queue::rules::share::{DueLane, plan};
use punctual::queue::store::claims::ClaimRequest;
use std::collections::BTreeSet;

cases![plt_9_a_backlog_starves_nobody, plt_9_more_lanes_than_room_all_have_their_turn];

/// Looks, shares the room and claims, as a worker does; answers the lanes it got from.
async fn turn(t: &Bench, room: usize, turn: &mut usize) -> Vec<LaneId> {
    let view = t.store().ready_lanes(LaneId(0), 1_000).await.unwrap();
    let offer = |lane| DueLane { lane, handler: 0, since: Timestamp::MIN };
    let offers: Vec<DueLane> = view.lanes.iter().map(|l| offer(l.lane)).collect();
    let takes = plan(&offers, &[room], *turn);
    *turn += takes.len();
    let wish = ClaimRequest { owner: "tester".into(), lease: LEASE, takes };
    t.store().claim(wish).await.unwrap().items.iter().map(|i| i.item.lane()).collect()
}

/// PLT-9: whatever waits in one lane, the others get their share of the very next claim.
async fn plt_9_a_backlog_starves_nobody(t: &Bench) {
    let big = t.lane("big").await;
    t.put("big", 3_000).await;
    let mut small = BTreeSet::new();
    for n in 0..10 {
        let topic = format!("small{n}");
        small.insert(t.lane(&topic).await);
        t.put(&topic, 1).await;
    }
    let got = turn(t, 100, &mut 0).await;
    let others: BTreeSet<_> = got.iter().copied().filter(|lane| *lane != big).collect();
    assert_eq!(others, small, "every small lane got its item at once");
    assert!(got.iter().filter(|lane| **lane == big).count() > 0, "and the big one went on");
}

/// PLT-9
async fn plt_9_more_lanes_than_room_all_have_their_turn(t: &Bench) {
    let mut lanes = BTreeSet::new();
    let mut batch = Vec::new();
    for n in 0..30 {
        let topic = format!("t{n}");
        lanes.insert(t.lane(&topic).await);
        batch.extend((0..20).map(|_| message(&topic)));
    }
    t.enqueue(batch).await;
    let (mut at, mut seen) = (0, BTreeSet::new());
    for _ in 0..6 {
        seen.extend(turn(t, 5, &mut at).await);
    }
    assert_eq!(seen, lanes, "six claims of five reach thirty lanes");
}
