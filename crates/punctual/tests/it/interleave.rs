//! Several sessions at once on the same claim, lane or key: whoever wins, nothing is lost,
//! nothing is doubled, and one settlement counts.

use crate::bench::{
    Bench, LEASE, SEED, TENANT, abandon, claim_from, fail, ids, message, new_ids, seconds, settle_with,
};
use punctual::database::store::Store;
use punctual::queue::store::claims::ClaimedItem;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use std::collections::BTreeSet;
use std::future::Future;

cases![
    plt_2_of_two_settlements_one_wins,
    plt_2_of_two_settlements_in_parts_each_item_goes_once,
    plt_2_settling_beside_reaping_one_wins,
    plt_2_extending_beside_reaping_one_wins,
    plt_1_claiming_beside_claiming_shares,
    claiming_beside_pausing_is_sound,
    plt_14_settling_a_head_beside_claiming_its_follower,
    plt_14_settling_reaping_and_claiming_one_key,
    plt_4_of_two_replays_each_letter_moves_once,
    replaying_beside_purging_moves_each_letter_once,
    enqueueing_an_id_beside_itself_admits_it_once,
    routing_beside_enqueueing_and_declaring_loses_nothing,
    reaping_beside_reaping_brings_each_item_back_once,
];

const ROUNDS: usize = 30;

/// Two at the same time, on threads of their own.
async fn both<A, B>(
    a: impl Future<Output = A> + Send + 'static,
    b: impl Future<Output = B> + Send + 'static,
) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let (a, b) = (tokio::spawn(a), tokio::spawn(b));
    (a.await.expect("no panic"), b.await.expect("no panic"))
}

async fn say(store: Store, items: Vec<ClaimedItem>, word: SettleAction) -> Vec<SettleOutcome> {
    let words = items.iter().map(|i| (i.message.id, word.clone())).collect();
    settle_with(&store, items[0].token.clone(), words).await
}

/// PLT-2
async fn plt_2_of_two_settlements_one_wins(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..ROUNDS {
        t.put("orders", 2).await;
        let items = t.claim(lane, 2).await;
        let other = [SettleAction::Ack, abandon("no"), fail("no"), SettleAction::Release][round % 4].clone();
        let (first, second) = both(
            say(a.clone(), items.clone(), SettleAction::Ack),
            say(b.clone(), items.clone(), other.clone()),
        )
        .await;
        let won = |said: &[SettleOutcome]| said.iter().all(|o| *o == SettleOutcome::Done);
        let late = |said: &[SettleOutcome]| said.iter().all(|o| *o == SettleOutcome::AlreadyFinished);
        let one = (won(&first) && late(&second)) || (won(&second) && late(&first));
        assert!(one, "exactly one wins: {first:?} {second:?}");
        let expected = if won(&first) || other == SettleAction::Ack { 0 } else { 2 };
        assert_eq!(t.whereabouts().await.len(), expected, "the winner's word ({other:?}) counts");
        t.store().purge(TENANT, DeadLetterFilter::default(), false).await.unwrap();
        t.advance(seconds(60)).await;
        let rest = t.claim(lane, 10).await;
        if !rest.is_empty() {
            t.say(&rest, SettleAction::Ack).await;
        }
    }
}

/// PLT-2
async fn plt_2_of_two_settlements_in_parts_each_item_goes_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        t.put("orders", 6).await;
        let items = t.claim(lane, 6).await;
        let (first, second) = both(
            say(a.clone(), items[..4].to_vec(), SettleAction::Ack),
            say(b.clone(), items[2..].to_vec(), SettleAction::Ack),
        )
        .await;
        let done = first.iter().chain(&second).filter(|o| **o == SettleOutcome::Done).count();
        assert_eq!(done, 6, "each item once: {first:?} {second:?}");
    }
    assert!(t.whereabouts().await.is_empty());
}

/// PLT-2, PLT-3
async fn plt_2_settling_beside_reaping_one_wins(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        t.put("orders", 2).await;
        let items = t.claim(lane, 2).await;
        t.advance(LEASE).await;
        let reap = |store: Store| async move { store.reap(SEED).await.unwrap() };
        let (said, reaped) = both(say(a.clone(), items, SettleAction::Ack), reap(b.clone())).await;
        let left = t.whereabouts().await.len();
        match said[..] {
            [SettleOutcome::Done, SettleOutcome::Done] => assert_eq!((reaped.returned, left), (0, 0)),
            [SettleOutcome::LostClaim, SettleOutcome::LostClaim] => {
                assert_eq!((reaped.returned, left), (2, 2))
            }
            _ => panic!("a claim is held or lost as a whole: {said:?}"),
        }
        t.advance(seconds(60)).await;
        for item in t.claim(lane, 10).await {
            t.ack(&item).await;
        }
    }
    t.assert_sound().await;
}

/// PLT-2, PLT-3
async fn plt_2_extending_beside_reaping_one_wins(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        t.put("orders", 1).await;
        let item = t.claim_one(lane).await;
        t.advance(LEASE).await;
        let token = item.token.clone();
        let extend = |store: Store| async move { store.extend(vec![token], LEASE).await.unwrap() };
        let reap = |store: Store| async move { store.reap(SEED).await.unwrap() };
        let (held, reaped) = both(extend(a.clone()), reap(b.clone())).await;
        assert_eq!(held.len() + reaped.claims, 1, "extended or reaped, not both");
        let said = t.ack(&item).await;
        let expected = if held.is_empty() { SettleOutcome::LostClaim } else { SettleOutcome::Done };
        assert_eq!(said, expected);
        t.advance(seconds(60)).await;
        for item in t.claim(lane, 10).await {
            t.ack(&item).await;
        }
    }
    assert!(t.whereabouts().await.is_empty());
}

/// PLT-1
async fn plt_1_claiming_beside_claiming_shares(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        let put = t.put("orders", 5).await;
        let claim = |store: Store| async move { ids(&claim_from(&store, lane, 3).await) };
        let (first, second) = both(claim(a.clone()), claim(b.clone())).await;
        let rest = ids(&t.claim(lane, 5).await);
        let mut all = [first, second, rest].concat();
        all.sort_unstable();
        assert_eq!(all, put, "each item to exactly one");
    }
    t.assert_sound().await;
}

async fn claiming_beside_pausing_is_sound(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        let put = t.put("orders", 2).await;
        let pause = |store: Store, paused: bool| async move {
            let change = serde_json::json!({ "paused": paused }).as_object().unwrap().clone();
            store.set_queue(TENANT, "orders", change).await.unwrap();
        };
        let claim = |store: Store| async move { ids(&claim_from(&store, lane, 9).await) };
        let (got, ()) = both(claim(a.clone()), pause(b.clone(), true)).await;
        assert!(got.is_empty() || got == put, "all or nothing: {got:?}");
        assert!(t.claim(lane, 9).await.is_empty(), "a pause that was answered holds");
        pause(b.clone(), false).await;
        assert_eq!(ids(&t.claim(lane, 9).await).len() + got.len(), 2);
    }
    t.assert_sound().await;
}

/// PLT-14
async fn plt_14_settling_a_head_beside_claiming_its_follower(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..ROUNDS * 2 {
        let key = format!("k{round}");
        let head = {
            t.put_keyed("orders", &[&key]).await;
            t.claim(lane, 1).await
        };
        let next = t.put_keyed("orders", &[&key]).await;
        let claim = |store: Store| async move { claim_from(&store, lane, 9).await };
        let (said, got) = both(say(a.clone(), head, SettleAction::Ack), claim(b.clone())).await;
        assert_eq!(said, [SettleOutcome::Done]);
        let late = if got.is_empty() { t.claim(lane, 9).await } else { got };
        assert_eq!(ids(&late), next, "round {round}: the follower is claimable");
        t.ack(&late[0]).await;
    }
    t.assert_sound().await;
    assert!(t.whereabouts().await.is_empty());
}

/// PLT-14: three at once on one key.
async fn plt_14_settling_reaping_and_claiming_one_key(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b, c) = (t.another().await, t.another().await, t.another().await);
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let put = t.put_keyed("orders", &[&key, &key, &key]).await;
        let head = t.claim(lane, 2).await;
        t.advance(LEASE).await;
        let claim = |store: Store| async move { claim_from(&store, lane, 9).await };
        let reap = |store: Store| async move { store.reap(SEED).await.unwrap() };
        let others = |b: Store, c: Store| both(reap(b), claim(c));
        let (said, (_, got)) =
            both(say(a.clone(), head, SettleAction::Ack), others(b.clone(), c.clone())).await;
        let mut seen = if said == [SettleOutcome::Done] { vec![put[0]] } else { Vec::new() };
        let mut got = got;
        for _ in 0..6 {
            assert!(got.len() <= 1, "one at a time");
            for item in &got {
                seen.push(item.message.id);
                t.ack(item).await;
            }
            t.advance(seconds(60)).await;
            got = t.claim(lane, 9).await;
        }
        assert_eq!(seen, put, "round {round}: in order, each once ({said:?})");
    }
    t.assert_sound().await;
}

async fn some_dead(t: &Bench, keys: &[&str]) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", keys).await;
    let items = t.claim(lane, 10).await;
    t.say(&items, fail("no")).await;
}

/// PLT-4
async fn plt_4_of_two_replays_each_letter_moves_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        some_dead(t, &["k", "l", "m"]).await;
        let replay =
            |s: Store| async move { s.replay(TENANT, DeadLetterFilter::default(), false).await.unwrap().ids };
        let (first, second) = both(replay(a.clone()), replay(b.clone())).await;
        assert_eq!(first.len() + second.len(), 3, "each told once: {first:?} {second:?}");
        let items = t.claim(lane, 10).await;
        assert_eq!(items.len(), 3, "each is work once");
        t.say(&items, SettleAction::Ack).await;
    }
    t.assert_sound().await;
}

async fn replaying_beside_purging_moves_each_letter_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS {
        some_dead(t, &["k", "k", "l"]).await;
        let replay =
            |s: Store| async move { s.replay(TENANT, DeadLetterFilter::default(), false).await.unwrap().ids };
        let purge =
            |s: Store| async move { s.purge(TENANT, DeadLetterFilter::default(), false).await.unwrap().ids };
        let (back, gone) = both(replay(a.clone()), purge(b.clone())).await;
        assert_eq!(back.len() + gone.len(), 2, "each told once: {back:?} {gone:?}");
        t.assert_sound().await;
        // Whichever came first, the follower gets its turn.
        let mut handled = 0;
        loop {
            let items = t.claim(lane, 10).await;
            if items.is_empty() {
                break;
            }
            handled += items.len();
            t.say(&items, SettleAction::Ack).await;
        }
        assert_eq!(handled, back.len() + 1);
    }
}

async fn enqueueing_an_id_beside_itself_admits_it_once(t: &Bench) {
    let (a, b) = (t.another().await, t.another().await);
    for round in 0..ROUNDS {
        let enqueue = |store: Store| async move {
            let named = message("orders").id("shop", round.to_string());
            store.enqueue(TENANT, vec![named]).await.unwrap()
        };
        let (first, second) = both(enqueue(a.clone()), enqueue(b.clone())).await;
        assert_eq!(new_ids(&first).len() + new_ids(&second).len(), 1);
        assert_eq!(first[0].id(), second[0].id(), "both stand for the same message");
    }
    let rounds = i64::try_from(ROUNDS).unwrap();
    assert_eq!(t.count("select count(*) from punctual.work").await, rounds);
}

async fn routing_beside_enqueueing_and_declaring_loses_nothing(t: &Bench) {
    let (a, b, c) = (t.another().await, t.another().await, t.another().await);
    for round in 0..ROUNDS {
        let topic = format!("t{round}");
        let put = t.put(&topic, 2).await;
        let new = message(&topic);
        let enqueue = |store: Store| async move { new_ids(&store.enqueue(TENANT, vec![new]).await.unwrap()) };
        let route = |store: Store| async move { store.route_waiting().await.unwrap() };
        let name = topic.clone();
        let declare = |store: Store| async move {
            store.declare_queue(TENANT, &name).await.unwrap();
            store.route_waiting().await.unwrap()
        };
        let two = |b: Store, c: Store| both(route(b), declare(c));
        let (more, _) = both(enqueue(a.clone()), two(b.clone(), c.clone())).await;
        t.store().route_waiting().await.unwrap();
        let got: BTreeSet<_> = ids(&t.claim(t.lane(&topic).await, 9).await).into_iter().collect();
        assert_eq!(got, [put, more].concat().into_iter().collect(), "round {round}");
    }
    t.assert_sound().await;
}

async fn reaping_beside_reaping_brings_each_item_back_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let (a, b) = (t.another().await, t.another().await);
    for _ in 0..ROUNDS / 3 {
        let put = t.put("orders", 6).await;
        for _ in 0..3 {
            t.claim(lane, 2).await;
        }
        t.advance(LEASE).await;
        let reap = |store: Store| async move { store.reap(SEED).await.unwrap() };
        let (first, second) = both(reap(a.clone()), reap(b.clone())).await;
        let rest = t.reap().await;
        assert_eq!(first.returned + second.returned + rest.returned, 6);
        t.assert_sound().await;
        t.advance(seconds(60)).await;
        let items = t.claim(lane, 10).await;
        assert_eq!(ids(&items).into_iter().collect::<BTreeSet<_>>(), put.into_iter().collect());
        for item in items {
            t.ack(&item).await;
        }
    }
}
