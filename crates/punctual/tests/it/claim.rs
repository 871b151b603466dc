//! Claiming: what is due, in order, to one claimer each.

use crate::bench::{Bench, LEASE, TENANT, abandon, claim_from, ids, message, seconds, wish};
use punctual::base::clock::Timestamp;
use punctual::base::id::{LaneId, MessageId};
use punctual::base::limits;
use punctual::queue::rules::attempt::Retry;
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::claims::ClaimRequest;
use punctual::queue::store::settle::SettleAction;
use std::collections::BTreeSet;
use tokio::task::JoinSet;

cases![
    plt_1_items_come_by_due_time_then_age,
    plt_1_nothing_comes_before_it_is_due,
    plt_1_a_retry_time_in_the_future_is_not_due,
    plt_1_no_more_is_taken_than_asked_for,
    plt_1_what_is_claimed_is_nobody_elses,
    plt_1_concurrent_claimers_share_without_overlap,
    plt_1_a_claimer_does_not_wait_for_another,
    a_paused_lane_gives_nothing,
    a_lane_that_is_not_there_gives_nothing,
    a_lane_named_twice_gives_each_item_once,
    the_hint_only_narrows,
    a_claim_tells_its_lease_and_what_each_lane_gave,
    a_claim_row_holds_no_more_than_its_limit,
    plt_2_an_extended_lease_is_not_reaped,
    plt_15_an_item_carries_its_message_and_attempt,
    a_message_of_two_lanes_is_two_items,
];

/// PLT-1
async fn plt_1_items_come_by_due_time_then_age(t: &Bench) {
    let lane = t.lane("orders").await;
    let now = t.now().await;
    let due = |s| message("orders").due_at(now.minus(seconds(s)));
    let put = t.enqueue(vec![message("orders"), due(10), due(60), message("orders"), due(10)]).await;
    let order = [put[2], put[1], put[4], put[0], put[3]];
    assert_eq!(ids(&t.claim(lane, 3).await), order[..3]);
    assert_eq!(ids(&t.claim(lane, 3).await), order[3..]);
}

/// PLT-1, PLT-6
async fn plt_1_nothing_comes_before_it_is_due(t: &Bench) {
    let lane = t.lane("orders").await;
    let due = t.now().await.plus(seconds(10));
    let put = t.enqueue(vec![message("orders").due_at(due)]).await;
    assert!(t.claim(lane, 10).await.is_empty());
    t.advance(seconds(10).checked_sub(std::time::Duration::from_micros(1)).unwrap()).await;
    assert!(t.claim(lane, 10).await.is_empty(), "a microsecond too early");
    t.advance(std::time::Duration::from_micros(1)).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put);
}

/// PLT-1: the retry time counts, not the first due time.
async fn plt_1_a_retry_time_in_the_future_is_not_due(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 1).await;
    let item = t.claim_one(lane).await;
    let word = SettleAction::Abandon { error: "later".into(), retry: Retry::After(seconds(90)) };
    t.say(&[item], word).await;
    assert!(t.claim(lane, 10).await.is_empty());
    t.advance(seconds(89)).await;
    assert!(t.claim(lane, 10).await.is_empty());
    t.advance(seconds(1)).await;
    let again = t.claim(lane, 10).await;
    assert_eq!(ids(&again), put);
    assert_eq!(again[0].item.attempt(), 2);
}

/// PLT-1
async fn plt_1_no_more_is_taken_than_asked_for(t: &Bench) {
    let (a, b) = (t.lane("a").await, t.lane("b").await);
    t.put("a", 20).await;
    t.put("b", 20).await;
    for quota in [0, 1, 7] {
        let catch = t.store().claim(wish(&[(a, quota), (b, 2)])).await.unwrap();
        let from = |lane: LaneId| catch.items.iter().filter(|i| i.item.lane() == lane).count();
        assert_eq!((from(a), from(b)), (quota, 2));
        assert_eq!(catch.taken.get(&a).copied().unwrap_or_default(), quota);
    }
    assert!(t.store().claim(wish(&[])).await.unwrap().items.is_empty());
}

/// PLT-1
async fn plt_1_what_is_claimed_is_nobody_elses(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 3).await;
    assert_eq!(t.claim(lane, 10).await.len(), 3);
    assert!(t.claim(lane, 10).await.is_empty());
    t.advance(LEASE * 2).await;
    assert!(t.claim(lane, 10).await.is_empty(), "only reaping brings an item back");
    t.assert_sound().await;
}

/// PLT-1: eight claimers, each item to exactly one of them.
async fn plt_1_concurrent_claimers_share_without_overlap(t: &Bench) {
    let lane = t.lane("orders").await;
    let put: BTreeSet<MessageId> = t.put("orders", 400).await.into_iter().collect();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let store = t.another().await;
        tasks.spawn(async move {
            let mut got = Vec::new();
            loop {
                let items = claim_from(&store, lane, 7).await;
                if items.is_empty() {
                    return got;
                }
                got.extend(ids(&items));
            }
        });
    }
    let mut seen = BTreeSet::new();
    for got in tasks.join_all().await {
        for id in got {
            assert!(seen.insert(id), "message {id} was handed out twice");
        }
    }
    // A claimer may find every row locked and leave early; what is left is still there.
    seen.extend(ids(&t.claim(lane, 400).await));
    assert_eq!(seen, put);
    t.assert_sound().await;
}

/// PLT-1: rows locked by somebody else are passed over, not waited for.
async fn plt_1_a_claimer_does_not_wait_for_another(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 5).await;
    if t.backend == punctual::testing::Backend::Sqlite {
        // One writer: nobody ever holds a row of it open.
        assert_eq!(ids(&t.claim(lane, 2).await), put[..2]);
        return;
    }
    let (other, connection) = tokio_postgres::connect(t.place.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "begin; select 1 from punctual.work order by message_id limit 2 for update";
    other.simple_query(lock).await.unwrap();
    let waited = tokio::time::timeout(seconds(10), t.claim(lane, 2)).await;
    let got = waited.expect("a claim does not wait for a session that holds rows");
    assert_eq!(ids(&got), put[2..4], "the locked rows are passed over");
    other.simple_query("rollback").await.unwrap();
}

async fn a_paused_lane_gives_nothing(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 2).await;
    t.pause("orders", true).await;
    let before = t.dump().await;
    assert!(t.claim(lane, 10).await.is_empty());
    before.assert_equals(&t.dump().await, "a claim on a paused lane");
    t.pause("orders", false).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put);
}

async fn a_lane_that_is_not_there_gives_nothing(t: &Bench) {
    assert!(t.claim(LaneId(77), 10).await.is_empty());
}

async fn a_lane_named_twice_gives_each_item_once(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 6).await;
    let items = t.store().claim(wish(&[(lane, 3), (lane, 2)])).await.unwrap().items;
    let different: BTreeSet<MessageId> = ids(&items).into_iter().collect();
    assert_eq!(different.len(), items.len(), "no item twice");
    t.assert_sound().await;
}

/// PLT-1: a hint hides what is due before it, and nothing else; without it all is found.
async fn the_hint_only_narrows(t: &Bench) {
    let lane = t.lane("orders").await;
    let now = t.now().await;
    let due = |s| message("orders").due_at(now.minus(seconds(s)));
    let put = t.enqueue(vec![due(60), due(30), due(30), due(1)]).await;
    let since = |since| ClaimRequest {
        owner: "tester".into(),
        lease: LEASE,
        takes: vec![LaneQuota { lane, since, quota: 10 }],
    };
    let later = t.store().claim(since(now.plus(seconds(1)))).await.unwrap();
    assert!(later.items.is_empty(), "a hint in the future finds nothing");
    let some = t.store().claim(since(now.minus(seconds(30)))).await.unwrap();
    assert_eq!(ids(&some.items), put[1..], "a hint includes its own moment");
    assert_eq!(ids(&t.claim(lane, 10).await), put[..1], "a look without the hint finds the rest");
}

async fn a_claim_tells_its_lease_and_what_each_lane_gave(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put_keyed("orders", &["k", "k", "l"]).await;
    let catch = t.store().claim(wish(&[(lane, 10)])).await.unwrap();
    assert_eq!(catch.items.len(), 2, "two heads");
    assert_eq!(catch.taken[&lane], 3, "the follower counts as taken");
    assert_eq!(catch.now, Some(t.now().await));
    assert_eq!(catch.lease_until, Some(t.now().await.plus(LEASE)));
    let leases = t.store().peek_leases().await.unwrap();
    assert_eq!(leases.next, catch.lease_until);
}

/// Items per claim row are capped, so that settling in parts stays cheap.
async fn a_claim_row_holds_no_more_than_its_limit(t: &Bench) {
    let lane = t.lane("orders").await;
    let n = limits::CLAIM_ITEMS_MAX + 10;
    t.put("orders", n).await;
    let items = t.claim(lane, n).await;
    assert_eq!(items.len(), n);
    let tokens: BTreeSet<_> = items.iter().map(|i| &i.token).collect();
    assert_eq!(tokens.len(), 2, "the batch is kept in two rows");
}

/// PLT-2: an extension moves the end, counted from now.
async fn plt_2_an_extended_lease_is_not_reaped(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.advance(seconds(29)).await;
    let token = items[0].token.clone();
    let held = t.store().extend(vec![token.clone()], seconds(60)).await.unwrap();
    assert_eq!(held, [token]);
    t.advance(seconds(59)).await;
    assert_eq!(t.reap().await.claims, 0);
    t.advance(seconds(1)).await;
    assert_eq!(t.reap().await.claims, 1);
}

/// PLT-15: everything a remote worker needs comes with the claim.
async fn plt_15_an_item_carries_its_message_and_attempt(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.enqueue(vec![message("orders").key("k").correlation_id("c")]).await;
    let item = t.claim_one(lane).await;
    let kept = t.store().message(TENANT, put[0]).await.unwrap().unwrap();
    assert_eq!(item.message, kept);
    assert_eq!((item.item.attempt(), item.item.lane(), item.item.key()), (1, lane, Some("k")));
    assert_eq!(item.due_at, t.now().await);
    t.say(std::slice::from_ref(&item), abandon("no")).await;
    t.advance(seconds(1)).await;
    let again = t.claim_one(lane).await;
    assert_eq!(again.item.attempt(), 2);
    assert_ne!(again.token, item.token, "every claim has a token of its own");
    assert!(again.due_at > Timestamp::MIN && again.due_at <= t.now().await);
}

/// A message that its topic owes to two lanes is handed out for each of them.
async fn a_message_of_two_lanes_is_two_items(t: &Bench) {
    let own = t.lane("orders").await;
    let dot = if t.backend == punctual::testing::Backend::Sqlite { "_" } else { "." };
    let second = [
        "insert into punctual.lane (tenant_id, topic, subscription, created_at) \
            values (1, 'orders', 'audit', 0)",
        "insert into punctual.route (tenant_id, topic, lane_id) \
            select 1, 'orders', id from punctual.lane where subscription = 'audit'",
    ];
    t.place.sql(&second.map(|sql| sql.replace("punctual.", &format!("punctual{dot}")))).await.unwrap();
    let audit = t.store().lane(TENANT, "orders", "audit").await.unwrap().unwrap().id;
    let put = t.enqueue(vec![message("orders"), message("orders").key("k")]).await;
    assert_eq!(put.len(), 2, "two messages, not four");
    let items = t.store().claim(wish(&[(own, 10), (audit, 10)])).await.unwrap().items;
    let mut got: Vec<_> = items.iter().map(|i| (i.item.lane(), i.message.id)).collect();
    got.sort_unstable();
    assert_eq!(got, [(own, put[0]), (own, put[1]), (audit, put[0]), (audit, put[1])]);
    let words = ids(&items).into_iter().map(|id| (id, SettleAction::Ack)).collect();
    let said = crate::bench::settle_with(t.store(), items[0].token.clone(), words).await;
    assert_eq!(said, [punctual::queue::store::settle::SettleOutcome::Done; 4]);
    assert!(t.whereabouts().await.is_empty());
}
