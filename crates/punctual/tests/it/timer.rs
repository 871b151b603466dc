//! Timers: scheduled, fired by their claim, cancelled and moved in time or not.

use crate::bench::{Bench, TENANT, abandon, fail, ids, message, seconds};
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::MessageId;
use punctual::queue::rules::timer::{TimerProgress, TimerStatus};
use punctual::queue::store::settle::SettleAction;
use punctual::queue::store::timers::{Timer, TimerFilter};
use punctual::testing::{Recorder, Stage};
use punctual::{ClockMode, DueTime, Engine, NewTimer, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

cases![
    plt_19_a_timer_fires_at_its_time_and_once,
    plt_19_a_cancelled_timer_never_fires_and_stays_known_as_cancelled,
    plt_19_what_is_in_flight_or_was_tried_is_not_cancelled,
    plt_19_a_moved_timer_fires_at_its_new_time,
    plt_19_a_released_timer_goes_back_to_the_time_it_was_moved_to,
    plt_19_a_replayed_timer_goes_back_to_the_time_it_was_moved_to,
    plt_19_an_unrouted_timer_can_be_cancelled_and_moved,
    plt_19_a_cancelled_head_lets_the_next_of_its_key_go,
    plt_19_a_follower_can_be_cancelled_and_moved,
    plt_19_a_timer_of_several_consumers_is_past_cancelling_when_due,
    plt_19_a_filter_changes_what_it_means,
    plt_19_lists_go_by_due_time_and_tell_the_truth,
    plt_19_another_tenant_sees_and_changes_nothing,
    plt_19_a_timer_is_kept_while_it_waits_and_for_a_while_after,
    plt_19_a_batch_is_spread_and_bad_ones_write_nothing,
    plt_19_the_same_id_schedules_once,
    plt_19_travel_fires_timers_in_order_each_at_its_time,
    plt_19_a_fault_in_a_change_leaves_nothing_behind,
];

const DAY: Duration = Duration::from_secs(86_400);

async fn timer(t: &Bench, topic: &str, after: Duration) -> MessageId {
    let due = t.now().await.plus(after);
    t.enqueue(vec![message(topic).due_at(due)]).await[0]
}

async fn keyed(t: &Bench, topic: &str, after: Duration) -> MessageId {
    let due = t.now().await.plus(after);
    t.enqueue(vec![message(topic).due_at(due).key("k")]).await[0]
}

async fn look(t: &Bench, id: MessageId) -> Timer {
    t.store().timer(TENANT, id).await.unwrap().expect("the timer is known")
}

async fn standing(t: &Bench, id: MessageId) -> (TimerStatus, Option<TimerProgress>) {
    let timer = look(t, id).await;
    (timer.status, timer.progress)
}

async fn cancel(t: &Bench, id: MessageId) -> bool {
    !t.store().cancel_timers(TENANT, vec![id]).await.unwrap().is_empty()
}

async fn put_off(t: &Bench, id: MessageId, by: Duration) -> bool {
    let due = t.now().await.plus(by);
    !t.store().move_timers(TENANT, vec![(id, due)]).await.unwrap().is_empty()
}

/// PLT-19: not a moment early, and only once.
async fn plt_19_a_timer_fires_at_its_time_and_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let id = timer(t, "orders", seconds(60)).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Waiting, None));
    t.advance(seconds(60) - Duration::from_micros(1)).await;
    assert!(t.claim(lane, 10).await.is_empty(), "a microsecond before its time it waits");
    t.advance(Duration::from_micros(1)).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Fired, Some(TimerProgress::Queued)));
    let fired = t.claim_one(lane).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Fired, Some(TimerProgress::InFlight)));
    assert!(t.claim(lane, 10).await.is_empty(), "it fires once");
    t.ack(&fired).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Fired, Some(TimerProgress::Done)));
}

/// PLT-19: cancelled is not the same as done.
async fn plt_19_a_cancelled_timer_never_fires_and_stays_known_as_cancelled(t: &Bench) {
    let lane = t.lane("orders").await;
    let id = timer(t, "orders", seconds(60)).await;
    assert!(cancel(t, id).await, "it was in time");
    assert!(!cancel(t, id).await, "it was cancelled before");
    assert!(!put_off(t, id, DAY).await, "what is cancelled is not moved");
    t.advance(DAY).await;
    assert!(t.claim(lane, 10).await.is_empty());
    let timer = look(t, id).await;
    assert_eq!((timer.status, timer.progress), (TimerStatus::Cancelled, None));
    assert_eq!(timer.changed_at, Some(t.now().await.minus(DAY)));
    assert_eq!(t.whereabouts().await.len(), 0);
}

/// PLT-19: cancel answers whether it was in time.
async fn plt_19_what_is_in_flight_or_was_tried_is_not_cancelled(t: &Bench) {
    let lane = t.lane("orders").await;
    let id = timer(t, "orders", seconds(1)).await;
    t.advance(seconds(1)).await;
    let fired = t.claim_one(lane).await;
    assert!(!cancel(t, id).await, "it is in flight");
    assert!(!put_off(t, id, DAY).await, "it is in flight");
    t.say(&[fired], abandon("no")).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Fired, Some(TimerProgress::Retrying)));
    assert!(!cancel(t, id).await, "it has fired and is tried again");
    t.advance(seconds(5)).await;
    let again = t.claim_one(lane).await;
    t.say(&[again], fail("never")).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Fired, Some(TimerProgress::Dead)));
    assert!(!cancel(t, id).await, "it is dead");
    t.assert_sound().await;
}

async fn plt_19_a_moved_timer_fires_at_its_new_time(t: &Bench) {
    let lane = t.lane("orders").await;
    let (late, early) = (timer(t, "orders", seconds(10)).await, timer(t, "orders", DAY).await);
    assert!(put_off(t, late, seconds(100)).await);
    assert!(put_off(t, early, seconds(20)).await);
    let given = look(t, late).await;
    assert_eq!(given.message.due_at, t.now().await.plus(seconds(10)), "the fact stays as it was");
    assert_eq!(given.due_at, t.now().await.plus(seconds(100)));
    t.advance(seconds(20)).await;
    assert_eq!(ids(&t.claim(lane, 10).await), [early]);
    t.advance(seconds(80)).await;
    assert_eq!(ids(&t.claim(lane, 10).await), [late]);
}

async fn plt_19_a_released_timer_goes_back_to_the_time_it_was_moved_to(t: &Bench) {
    let lane = t.lane("orders").await;
    let id = timer(t, "orders", DAY).await;
    assert!(put_off(t, id, seconds(5)).await);
    t.advance(seconds(5)).await;
    let items = t.claim(lane, 1).await;
    t.say(&items, SettleAction::Release).await;
    assert_eq!(standing(t, id).await, (TimerStatus::Fired, Some(TimerProgress::Queued)));
    assert!(cancel(t, id).await, "what was handed back unbegun can be cancelled");
    assert!(t.claim(lane, 1).await.is_empty());
}

async fn plt_19_a_replayed_timer_goes_back_to_the_time_it_was_moved_to(t: &Bench) {
    let lane = t.lane("orders").await;
    let id = timer(t, "orders", DAY).await;
    assert!(put_off(t, id, seconds(5)).await);
    t.advance(seconds(5)).await;
    let items = t.claim(lane, 1).await;
    t.say(&items, fail("no")).await;
    t.store().replay(TENANT, Default::default(), false).await.unwrap();
    assert!(!cancel(t, id).await, "it has fired before");
    assert_eq!(ids(&t.claim(lane, 1).await), [id], "it is due at once, not in a day");
}

async fn plt_19_an_unrouted_timer_can_be_cancelled_and_moved(t: &Bench) {
    let (gone, moved) = (timer(t, "new", DAY).await, timer(t, "new", DAY).await);
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 2);
    assert!(cancel(t, gone).await);
    assert!(put_off(t, moved, seconds(1)).await);
    let which = TimerFilter { topic: Some("new".into()), ..TimerFilter::default() };
    assert_eq!(t.store().timer_ids(TENANT, which, 10).await.unwrap(), [moved]);
    t.store().route_waiting().await.unwrap();
    t.advance(seconds(1)).await;
    let lane = t.lane("new").await;
    assert_eq!(ids(&t.claim(lane, 10).await), [moved]);
}

/// PLT-19, PLT-14
async fn plt_19_a_cancelled_head_lets_the_next_of_its_key_go(t: &Bench) {
    let lane = t.lane("orders").await;
    let mut all = Vec::new();
    for n in 1..=4 {
        all.push(keyed(t, "orders", seconds(n)).await);
    }
    t.advance(seconds(4)).await;
    let first = t.claim(lane, 10).await;
    assert_eq!(ids(&first), all[..1], "the others follow");
    t.ack(&first[0]).await;
    t.assert_sound().await;
    assert!(cancel(t, all[1]).await, "the new head waits in the queue");
    t.assert_sound().await;
    assert!(put_off(t, all[2], seconds(10)).await, "so does the next one");
    t.assert_sound().await;
    let next = t.claim(lane, 10).await;
    assert_eq!(ids(&next), all[3..], "the moved one is not in its way");
    t.ack(&next[0]).await;
    t.advance(seconds(10)).await;
    let last = t.claim(lane, 10).await;
    assert_eq!(ids(&last), all[2..3]);
    t.ack(&last[0]).await;
    assert_eq!(t.count("select count(*) from punctual.sequence").await, 0);
}

/// PLT-19, PLT-14
async fn plt_19_a_follower_can_be_cancelled_and_moved(t: &Bench) {
    let lane = t.lane("orders").await;
    let mut all = Vec::new();
    for n in 1..=4 {
        all.push(keyed(t, "orders", seconds(n)).await);
    }
    t.advance(seconds(4)).await;
    let head = t.claim(lane, 10).await;
    assert_eq!(t.count("select count(*) from punctual.follower").await, 3);
    assert_eq!(standing(t, all[1]).await, (TimerStatus::Fired, Some(TimerProgress::Queued)));
    assert!(cancel(t, all[1]).await, "nobody has begun it");
    assert!(put_off(t, all[2], seconds(60)).await);
    assert!(!cancel(t, all[0]).await, "the head is in flight");
    t.assert_sound().await;
    t.ack(&head[0]).await;
    let next = t.claim(lane, 10).await;
    assert_eq!(ids(&next), all[3..]);
    t.ack(&next[0]).await;
    t.advance(seconds(60)).await;
    assert_eq!(ids(&t.claim(lane, 10).await), all[2..3]);
}

async fn plt_19_a_timer_of_several_consumers_is_past_cancelling_when_due(t: &Bench) {
    let lane = t.lane("orders").await;
    t.texts(
        "insert into punctual.lane (tenant_id, topic, subscription, created_at) \
         values (1, 'orders', 'mail', 0)",
    )
    .await;
    t.texts(
        "insert into punctual.route (tenant_id, topic, lane_id) \
         select 1, 'orders', id from punctual.lane where subscription = 'mail'",
    )
    .await;
    let (soon, later) = (timer(t, "orders", seconds(1)).await, timer(t, "orders", seconds(9)).await);
    assert_eq!(t.count("select count(*) from punctual.work").await, 4, "each consumer has its own");
    assert!(cancel(t, later).await, "before its time nobody can have it");
    assert_eq!(t.count("select count(*) from punctual.work").await, 2);
    t.advance(seconds(1)).await;
    t.claim_one(lane).await;
    assert!(!cancel(t, soon).await, "one consumer has it already");
    assert_eq!(t.count("select count(*) from punctual.work").await, 1, "the other will get it");
}

async fn plt_19_a_filter_changes_what_it_means(t: &Bench) {
    t.lane("a").await;
    let now = t.now().await;
    let make = |topic: &str, key: &str, story: &str, after: u64| {
        message(topic).key(key).correlation_id(story).due_at(now.plus(seconds(after)))
    };
    let all = t
        .enqueue(vec![
            make("a", "k1", "s1", 10),
            make("a", "k2", "s1", 20),
            make("b", "k1", "s2", 30),
            make("b", "k1", "s1", 40),
        ])
        .await;
    t.put("a", 3).await;
    let some = |ids: &[usize]| ids.iter().map(|n| all[*n]).collect::<Vec<_>>();
    let text = |s: &str| Some(s.to_owned());
    let cases = [
        (TimerFilter::default(), some(&[0, 1, 2, 3])),
        (TimerFilter { topic: text("a"), ..TimerFilter::default() }, some(&[0, 1])),
        (TimerFilter { key: text("k1"), ..TimerFilter::default() }, some(&[0, 2, 3])),
        (TimerFilter { correlation_id: text("s1"), ..TimerFilter::default() }, some(&[0, 1, 3])),
        (TimerFilter { correlation_id: text("s1"), topic: text("b"), ..TimerFilter::default() }, some(&[3])),
        (
            TimerFilter {
                due_from: Some(now.plus(seconds(20))),
                due_before: Some(now.plus(seconds(40))),
                ..TimerFilter::default()
            },
            some(&[1, 2]),
        ),
        (TimerFilter { topic: text("c"), ..TimerFilter::default() }, Vec::new()),
    ];
    for (which, expected) in cases {
        let found = t.store().timer_ids(TENANT, which.clone(), 100).await.unwrap();
        assert_eq!(found, expected, "{which:?}");
        let in_time = t.store().timers_in_time(TENANT, found).await.unwrap();
        assert_eq!(in_time, expected, "{which:?}");
        let mut listed: Vec<MessageId> = t
            .store()
            .timers(TENANT, which.clone(), Some(TimerStatus::Waiting), None, 100)
            .await
            .unwrap()
            .into_iter()
            .map(|timer| timer.message.id)
            .collect();
        listed.sort_unstable();
        assert_eq!(listed, expected, "{which:?}");
    }
    let gone = t.store().cancel_timers(TENANT, some(&[0, 3])).await.unwrap();
    assert_eq!(gone, some(&[0, 3]));
    let story = TimerFilter { correlation_id: text("s1"), ..TimerFilter::default() };
    let left = t.store().timer_ids(TENANT, story, 100).await.unwrap();
    assert_eq!(t.store().timers_in_time(TENANT, left).await.unwrap(), some(&[1]));
}

async fn plt_19_lists_go_by_due_time_and_tell_the_truth(t: &Bench) {
    let lane = t.lane("orders").await;
    let mut all = Vec::new();
    for n in [50, 10, 30, 20, 40] {
        all.push(timer(t, "orders", seconds(n)).await);
    }
    t.put("orders", 2).await;
    assert!(put_off(t, all[1], seconds(35)).await);
    assert!(put_off(t, all[1], seconds(45)).await, "moved twice, listed once");
    assert!(cancel(t, all[2]).await);
    let list = async |status, after, limit| {
        let found = t.store().timers(TENANT, TimerFilter::default(), status, after, limit).await.unwrap();
        found.into_iter().map(|timer| (timer.message.id, timer.status)).collect::<Vec<_>>()
    };
    let waiting = |n: usize| (all[n], TimerStatus::Waiting);
    let (fired, cancelled) = ((all[3], TimerStatus::Fired), (all[2], TimerStatus::Cancelled));
    assert_eq!(list(Some(TimerStatus::Fired), None, 9).await, []);
    t.advance(seconds(20)).await;
    assert_eq!(list(None, None, 9).await, [fired, cancelled, waiting(4), waiting(1), waiting(0)]);
    assert_eq!(list(Some(TimerStatus::Waiting), None, 9).await, [waiting(4), waiting(1), waiting(0)]);
    assert_eq!(list(Some(TimerStatus::Fired), None, 9).await, [fired]);
    assert_eq!(list(Some(TimerStatus::Cancelled), None, 9).await, [cancelled]);
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = t.store().timers(TENANT, TimerFilter::default(), None, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.due_at, last.message.id));
        seen.extend(page.iter().map(|timer| timer.message.id));
    }
    assert_eq!(seen, [all[3], all[2], all[4], all[1], all[0]], "page by page");
    t.claim(lane, 10).await;
    assert_eq!(standing(t, all[3]).await.1, Some(TimerProgress::InFlight));
}

async fn plt_19_another_tenant_sees_and_changes_nothing(t: &Bench) {
    let new = NewTenant { slug: "other".into(), name: "Other".into(), ..NewTenant::default() };
    let other = t.store().create_tenant(new).await.unwrap().tenant;
    let id = timer(t, "orders", DAY).await;
    assert_eq!(t.store().timer(other, id).await.unwrap(), None);
    assert!(t.store().timers(other, TimerFilter::default(), None, None, 9).await.unwrap().is_empty());
    assert!(t.store().timer_ids(other, TimerFilter::default(), 9).await.unwrap().is_empty());
    assert!(t.store().cancel_timers(other, vec![id]).await.unwrap().is_empty());
    assert!(t.store().move_timers(other, vec![(id, Timestamp::MAX)]).await.unwrap().is_empty());
    assert_eq!(standing(t, id).await, (TimerStatus::Waiting, None));
}

/// PLT-8, PLT-19: a timer 400 days out is not dropped, and neither is one that was moved there.
async fn plt_19_a_timer_is_kept_while_it_waits_and_for_a_while_after(t: &Bench) {
    let lane = t.lane("orders").await;
    let far = timer(t, "orders", DAY * 400).await;
    let moved = timer(t, "orders", DAY).await;
    let unrouted = timer(t, "nobody", DAY * 400).await;
    let gone = timer(t, "orders", DAY * 400).await;
    assert!(put_off(t, moved, DAY * 400).await && cancel(t, gone).await);
    let kept = async || -> BTreeSet<MessageId> {
        t.store().prune_messages(0, DAY * 30).await.unwrap();
        let rows = t.ints("select id from punctual.message").await;
        rows.into_iter().map(|row| MessageId(row[0].unwrap())).collect()
    };
    t.advance(DAY * 29).await;
    assert_eq!(kept().await.len(), 4);
    t.advance(DAY * 2).await;
    assert_eq!(kept().await, BTreeSet::from([far, moved, unrouted]), "the cancelled one is past its time");
    t.advance(DAY * 369).await;
    let fired = t.claim(lane, 10).await;
    assert_eq!(fired.len(), 2);
    t.say(&fired, SettleAction::Ack).await;
    assert_eq!(kept().await.len(), 3, "its time counts from when it was due");
    assert_eq!(standing(t, moved).await, (TimerStatus::Fired, Some(TimerProgress::Done)));
    t.advance(DAY * 31).await;
    assert_eq!(kept().await, BTreeSet::from([unrouted]));
    assert_eq!(t.count("select count(*) from punctual.timer_change").await, 0, "its changes went along");
}

async fn engine(t: &Bench) -> Engine {
    Engine::builder(t.place.url()).clock(ClockMode::Manual).open().await.unwrap()
}

/// PLT-19, PLT-29
async fn plt_19_a_batch_is_spread_and_bad_ones_write_nothing(t: &Bench) {
    let engine = engine(t).await;
    let batch = |n: usize| (0..n).map(|_| NewTimer::after(DAY, "orders", "{}")).collect::<Vec<_>>();
    let spread = Some(seconds(600));
    let due = t.now().await.plus(DAY);
    let made = engine.schedule(TENANT, batch(4), spread).await.unwrap();
    let after: Vec<u64> = made.iter().map(|s| s.due_at.since(due).as_secs()).collect();
    assert_eq!(after, [0, 150, 300, 450]);
    for one in &made {
        assert_eq!(look(t, one.id).await.due_at, one.due_at);
    }
    let mut bad = batch(3);
    bad[2] = NewTimer::after(DAY, "a/b", "{}");
    let said = engine.schedule(TENANT, bad, None).await.unwrap_err().to_string();
    assert!(said.starts_with("[2].topic: must not contain `/`"), "{said}");
    let said = engine.schedule(TENANT, batch(10_001), None).await.unwrap_err().to_string();
    assert_eq!(said, "10001 timers in one batch, at most 10000 are allowed");
    assert_eq!(t.count("select count(*) from punctual.message").await, 4);
    assert_eq!(engine.schedule(TENANT, batch(10_000), spread).await.unwrap().len(), 10_000);
    let moved = punctual::engine::TimerMove { when: DueTime::In(DAY * 2), spread };
    let which = TimerFilter { topic: Some("orders".into()), ..TimerFilter::default() };
    let dry = engine.move_timers(TENANT, which.clone(), moved, true).await.unwrap();
    assert_eq!((dry.ids.len(), dry.more), (10_004, false));
    assert_eq!(t.count("select count(*) from punctual.timer_change").await, 0, "a dry run writes nothing");
    let moved = engine.move_timers(TENANT, which.clone(), moved, false).await.unwrap();
    assert_eq!(moved.ids.len(), 10_004);
    let first = t.now().await.plus(DAY * 2);
    assert_eq!(t.count("select count(distinct due_at) from punctual.work").await, 10_004, "spread");
    assert_eq!(t.count("select min(due_at) from punctual.work").await, first.as_micros());
    assert_eq!(engine.cancel_timers(TENANT, which, false).await.unwrap().ids.len(), 10_004);
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
}

async fn plt_19_the_same_id_schedules_once(t: &Bench) {
    let engine = engine(t).await;
    let timer = |after| NewTimer::after(after, "orders", "{}").with(|m| m.id("shop", "order-7"));
    let first = engine.schedule_one(TENANT, timer(DAY)).await.unwrap();
    let second = engine.schedule_one(TENANT, timer(DAY * 2)).await.unwrap();
    assert!(!first.duplicate && second.duplicate);
    assert_eq!((first.id, first.due_at), (second.id, second.due_at), "the first one stands");
}

/// PLT-19, PRD-17
async fn plt_19_travel_fires_timers_in_order_each_at_its_time(t: &Bench) {
    let seen = Recorder::new();
    let stage = Stage::on(t.backend).handler("orders", seen.clone()).open().await.unwrap();
    let engine = stage.engine();
    let mut made = Vec::new();
    for n in [3, 1, 4, 2] {
        made.push(engine.schedule_one(TENANT, NewTimer::after(DAY * n, "orders", "{}")).await.unwrap());
    }
    assert!(engine.cancel_timer(TENANT, made[2].id).await.unwrap());
    let moved = engine.move_timer(TENANT, made[1].id, DueTime::In(DAY * 9)).await.unwrap();
    assert_eq!(moved, Some(stage.now().await.unwrap().plus(DAY * 9)));
    stage.advance(DAY * 30).await.unwrap();
    let expected = [(made[3].id, made[3].due_at), (made[0].id, made[0].due_at), (made[1].id, moved.unwrap())];
    let fired: Vec<_> = seen.works().into_iter().map(|work| (work.message.id, work.due_at)).collect();
    assert_eq!(fired, expected);
    assert!(!engine.cancel_timer(TENANT, made[0].id).await.unwrap(), "it has fired");
    stage.assert_enqueued("orders").with_kind("timer").count(4).await;
}

async fn plt_19_a_fault_in_a_change_leaves_nothing_behind(t: &Bench) {
    let lane = t.lane("orders").await;
    let (head, next) = (keyed(t, "orders", seconds(1)).await, keyed(t, "orders", seconds(2)).await);
    t.advance(seconds(2)).await;
    let items = t.claim(lane, 10).await;
    t.say(&items, SettleAction::Release).await;
    let before = t.dump().await;
    let mut faults = 0;
    for n in 1.. {
        let store = t.store().failing_at(n);
        match store.cancel_timers(TENANT, vec![head, next]).await {
            Ok(done) => {
                assert_eq!(done, [head, next]);
                break;
            }
            Err(_) => faults += 1,
        }
        if t.count("select count(*) from punctual.timer_change").await == 0 {
            before.assert_equals(&t.dump().await, &format!("a fault at statement {n}"));
        }
    }
    assert!(faults >= 5, "only {faults} statements failed");
    assert_eq!(t.count("select count(*) from punctual.sequence").await, 0);
    t.assert_sound().await;
}
