//! Sequences: messages of one key are handled in order, one at a time.

use crate::bench::{
    Bench, LEASE, TENANT, abandon, claim_from, fail, ids, message, seconds, settle_with, wish,
};
use punctual::base::clock::{Timestamp, monotonic};
use punctual::base::id::MessageId;
use punctual::base::limits;
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::claims::ClaimRequest;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

cases![
    plt_14_messages_of_one_key_come_in_order_one_at_a_time,
    plt_14_other_keys_and_plain_messages_do_not_wait,
    plt_14_one_key_in_two_lanes_is_two_sequences,
    plt_14_a_retry_keeps_its_place_at_the_head,
    plt_14_a_released_head_stays_head,
    plt_14_a_reaped_head_stays_head,
    plt_14_a_follower_keeps_its_attempts,
    plt_14_a_dead_head_blocks_its_key,
    plt_14_a_dead_head_lets_its_key_pass_if_told,
    plt_14_a_replayed_head_goes_first,
    plt_14_a_purged_head_lets_the_next_go,
    plt_14_a_hint_does_not_let_a_later_message_overtake,
    plt_14_what_finds_a_route_does_not_overtake_what_waited_for_one,
    plt_14_a_new_route_takes_all_that_waits_for_it,
    plt_14_claimers_at_once_never_swap_two_of_a_key,
    plt_14_settling_beside_claiming_leaves_no_follower_behind,
];

/// PLT-14
async fn plt_14_messages_of_one_key_come_in_order_one_at_a_time(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put_keyed("orders", &["k"; 5]).await;
    for n in 0..5 {
        let items = t.claim(lane, 10).await;
        assert_eq!(ids(&items), put[n..=n], "the turn of message {n}, and nobody else's");
        assert!(t.claim(lane, 10).await.is_empty());
        t.assert_sound().await;
        t.ack(&items[0]).await;
    }
    assert_eq!(t.count("select count(*) from punctual.sequence").await, 0, "nothing is left");
    assert_eq!(t.count("select count(*) from punctual.follower").await, 0);
}

/// PLT-14: found by the simulation. A message that was enqueued before its topic had a route came after
/// one that found it.
async fn plt_14_what_finds_a_route_does_not_overtake_what_waited_for_one(t: &Bench) {
    for (topic, declared) in [("declared", true), ("ensured", false)] {
        let first = t.put_keyed(topic, &["k"]).await;
        if declared {
            t.lane(topic).await;
        } else {
            t.store().ensure_routes(TENANT, vec![topic.into()]).await.unwrap();
        }
        t.advance(seconds(1)).await;
        let second = t.put_keyed(topic, &["k"]).await;
        let lane = t.store().lane(TENANT, topic, "").await.unwrap().unwrap().id;
        let items = t.claim(lane, 10).await;
        assert_eq!(ids(&items), first, "{topic}: the first of its key comes first");
        t.ack(&items[0]).await;
        assert_eq!(ids(&t.claim(lane, 10).await), second, "{topic}: and then the second");
    }
}

/// PLT-14: more waits for a route than a router moves at a time, and the topic is not alone.
async fn plt_14_a_new_route_takes_all_that_waits_for_it(t: &Bench) {
    let head = t.put_keyed("orders", &["other"]).await;
    t.put("crowd", limits::BATCH_ITEMS_MAX).await;
    let first = t.put_keyed("orders", &["k"]).await;
    t.store().route_waiting().await.unwrap();
    let second = t.put_keyed("orders", &["k"]).await;
    let lane = t.store().lane(TENANT, "orders", "").await.unwrap().unwrap().id;
    let items = t.claim(lane, 10).await;
    assert_eq!(ids(&items), [head[0], first[0]], "the first of the key comes before the second");
    t.say(&items, SettleAction::Ack).await;
    assert_eq!(ids(&t.claim(lane, 10).await), second);
    while t.store().route_waiting().await.unwrap() > 0 {}
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 0);
    let crowd = t.store().queue(TENANT, "crowd").await.unwrap().unwrap();
    assert_eq!(crowd.waiting, i64::try_from(limits::BATCH_ITEMS_MAX).unwrap(), "nothing is lost");
}

/// PLT-14: a router is held up with another topic, while somebody else makes the route of this one.
#[tokio::test]
async fn plt_14_a_busy_router_lets_no_message_overtake() {
    let t = &Bench::postgres().await;
    t.texts("insert into punctual.lane (tenant_id, topic, created_at) values (1, 'busy', 0)").await;
    t.put("busy", 1).await;
    let first = t.put_keyed("orders", &["k"]).await;
    let (mut other, connection) =
        tokio_postgres::connect(t.place.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let taking = other.transaction().await.unwrap();
    let take = "select 1 from punctual.lane where topic = 'busy' for no key update";
    taking.batch_execute(take).await.unwrap();
    let router = t.another().await;
    let routing = tokio::spawn(async move { router.route_waiting().await.unwrap() });
    until_blocked(t).await;
    t.store().ensure_routes(TENANT, vec!["orders".into()]).await.unwrap();
    let second = t.put_keyed("orders", &["k"]).await;
    let lane = t.store().lane(TENANT, "orders", "").await.unwrap().unwrap().id;
    let items = t.claim(lane, 10).await;
    assert_eq!(ids(&items), first, "the first of its key comes first");
    taking.rollback().await.unwrap();
    assert_eq!(routing.await.unwrap(), 1, "the router moves the rest");
    t.ack(&items[0]).await;
    assert_eq!(ids(&t.claim(lane, 10).await), second);
}

/// Awaits that a session waits for a lock of another one.
pub async fn until_blocked(t: &Bench) {
    let began = monotonic();
    let waiting = "select count(*) from pg_stat_activity \
        where datname = current_database() and wait_event_type = 'Lock'";
    while t.count(waiting).await == 0 {
        assert!(began.elapsed() < seconds(20), "a session should wait for a lock by now");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// PLT-14
async fn plt_14_other_keys_and_plain_messages_do_not_wait(t: &Bench) {
    let lane = t.lane("orders").await;
    let keyed = t.put_keyed("orders", &["k", "l", "k", "m"]).await;
    let plain = t.put("orders", 1).await;
    let got = ids(&t.claim(lane, 10).await);
    assert_eq!(got, [keyed[0], keyed[1], keyed[3], plain[0]]);
}

/// PLT-14
async fn plt_14_one_key_in_two_lanes_is_two_sequences(t: &Bench) {
    let (a, b) = (t.lane("a").await, t.lane("b").await);
    t.put_keyed("a", &["k"]).await;
    t.put_keyed("b", &["k"]).await;
    assert_eq!(t.store().claim(wish(&[(a, 1), (b, 1)])).await.unwrap().items.len(), 2);
}

/// PLT-14: nobody overtakes a head that waits for its retry.
async fn plt_14_a_retry_keeps_its_place_at_the_head(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put_keyed("orders", &["k", "k"]).await;
    let head = t.claim_one(lane).await;
    t.say(&[head], abandon("no")).await;
    assert!(t.claim(lane, 10).await.is_empty(), "the second waits while the first is retried");
    t.advance(seconds(1)).await;
    let again = t.claim(lane, 10).await;
    assert_eq!(ids(&again), put[..1]);
    t.ack(&again[0]).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put[1..]);
}

/// PLT-14
async fn plt_14_a_released_head_stays_head(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put_keyed("orders", &["k", "k"]).await;
    let items = t.claim(lane, 10).await;
    t.say(&items, SettleAction::Release).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put[..1]);
    t.assert_sound().await;
}

/// PLT-3, PLT-14
async fn plt_14_a_reaped_head_stays_head(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put_keyed("orders", &["k", "k"]).await;
    t.claim(lane, 10).await;
    t.advance(LEASE).await;
    t.reap().await;
    assert!(t.claim(lane, 10).await.is_empty());
    t.advance(seconds(1)).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put[..1]);
    t.assert_sound().await;
}

/// PLT-14: to be set aside is not an attempt.
async fn plt_14_a_follower_keeps_its_attempts(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", &["k", "k"]).await;
    let head = t.claim(lane, 10).await;
    t.ack(&head[0]).await;
    let next = t.claim_one(lane).await;
    assert_eq!((next.item.attempt(), next.item.unstarted()), (1, 0));
}

/// PLT-14: by default a dead head blocks, and is shown.
async fn plt_14_a_dead_head_blocks_its_key(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", &["k", "k", "l"]).await;
    let items = t.claim(lane, 10).await;
    t.say(&items[..1], fail("no")).await;
    t.put_keyed("orders", &["k"]).await;
    assert!(t.claim(lane, 10).await.is_empty(), "the key waits");
    let state = t.store().queue(TENANT, "orders").await.unwrap().unwrap();
    assert_eq!((state.dead, state.behind_their_key), (1, 2));
    t.assert_sound().await;
}

/// PLT-14
async fn plt_14_a_dead_head_lets_its_key_pass_if_told(t: &Bench) {
    let lane = t.lane_with("orders", json!({"deadHead": "pass"})).await;
    let put = t.put_keyed("orders", &["k", "k"]).await;
    let items = t.claim(lane, 10).await;
    t.say(&items, fail("no")).await;
    let next = t.claim_one(lane).await;
    assert_eq!(next.message.id, put[1]);
    t.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    assert!(t.claim(lane, 10).await.is_empty(), "the replayed one waits its turn");
    t.assert_sound().await;
    t.ack(&next).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put[..1]);
}

/// PLT-4, PLT-14
async fn plt_14_a_replayed_head_goes_first(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put_keyed("orders", &["k", "k", "k"]).await;
    let head = t.claim(lane, 10).await;
    t.say(&head, fail("no")).await;
    t.advance(seconds(60)).await;
    t.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    for id in put {
        let items = t.claim(lane, 10).await;
        assert_eq!(ids(&items), [id]);
        assert_eq!(items[0].item.attempt(), 1, "attempts begin anew");
        t.ack(&items[0]).await;
    }
}

/// PLT-14
async fn plt_14_a_purged_head_lets_the_next_go(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put_keyed("orders", &["k", "k"]).await;
    let head = t.claim(lane, 10).await;
    t.say(&head, fail("no")).await;
    t.store().purge(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    assert_eq!(ids(&t.claim(lane, 10).await), put[1..]);
    t.assert_sound().await;
}

/// PLT-14: a hint may hide the first of a key; then the second is not its head.
async fn plt_14_a_hint_does_not_let_a_later_message_overtake(t: &Bench) {
    let lane = t.lane("orders").await;
    let now = t.now().await;
    let due = |s| message("orders").key("k").due_at(now.minus(seconds(s)));
    let put = t.enqueue(vec![due(60), due(30)]).await;
    let narrow = LaneQuota { lane, since: now.minus(seconds(40)), quota: 10 };
    let hinted = ClaimRequest { owner: "tester".into(), lease: LEASE, takes: vec![narrow] };
    assert_eq!(ids(&t.store().claim(hinted).await.unwrap().items), Vec::<MessageId>::new());
    t.assert_sound().await;
    for id in put {
        let items = t.claim(lane, 10).await;
        assert_eq!(ids(&items), [id]);
        t.ack(&items[0]).await;
    }
}

/// PLT-14: two claimers at the same moment, one with the first and one with the second.
async fn plt_14_claimers_at_once_never_swap_two_of_a_key(t: &Bench) {
    let lane = t.lane("orders").await;
    let stores = [t.another().await, t.another().await, t.another().await];
    for round in 0..60 {
        let key = format!("k{round}");
        let put = t.put_keyed("orders", &[key.as_str(); 3]).await;
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let claims = stores.iter().map(|s| claim_from(s, lane, 1));
            let [a, b, c] = <[_; 3]>::try_from(claims.collect::<Vec<_>>()).ok().unwrap();
            let (a, b, c) = tokio::join!(a, b, c);
            let got = [a, b, c].concat();
            assert!(got.len() <= 1, "one at a time, not {:?}", ids(&got));
            for item in got {
                seen.push(item.message.id);
                assert_eq!(t.ack(&item).await, SettleOutcome::Done);
            }
        }
        assert_eq!(seen, put, "round {round}: in the order they became due");
    }
    t.assert_sound().await;
}

/// PLT-14: many workers, few keys; everything is handled, in order, never two of a key at once.
async fn plt_14_settling_beside_claiming_leaves_no_follower_behind(t: &Bench) {
    const KEYS: usize = 5;
    let lane = t.lane("orders").await;
    let keys: Vec<String> = (0..200).map(|n| format!("k{}", n % KEYS)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let put = t.put_keyed("orders", &keys).await;
    let mut tasks = JoinSet::new();
    let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for quota in [1, 2, 3, 8] {
        let (store, log) = (t.another().await, log.clone());
        tasks.spawn(async move {
            while log.lock().unwrap().len() < 200 {
                for item in claim_from(&store, lane, quota).await {
                    // Written down before the ack: the next of the key cannot come earlier.
                    log.lock().unwrap().push((item.message.key.clone().unwrap(), item.message.id));
                    let words = vec![(item.message.id, SettleAction::Ack)];
                    assert_eq!(settle_with(&store, item.token, words).await, [SettleOutcome::Done]);
                }
            }
        });
    }
    let waited = tokio::time::timeout(seconds(60), tasks.join_all()).await;
    if waited.is_err() {
        t.assert_sound().await;
        panic!("work is left that nobody can claim: {:?}", t.whereabouts().await);
    }
    let mut by_key: BTreeMap<String, Vec<MessageId>> = BTreeMap::new();
    for (key, id) in log.lock().unwrap().drain(..) {
        by_key.entry(key).or_default().push(id);
    }
    for (n, (key, seen)) in by_key.into_iter().enumerate() {
        let expected: Vec<_> = put.iter().copied().skip(n).step_by(KEYS).collect();
        assert_eq!(seen, expected, "{key} in order");
    }
    assert!(t.whereabouts().await.is_empty());
    assert!(t.now().await > Timestamp::MIN);
}
