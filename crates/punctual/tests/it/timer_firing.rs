//! Timers beside others: cancelled while they are claimed, fired by running engines.

use crate::bench::{Bench, TENANT, claim_from, message, seconds};
use punctual::base::id::MessageId;
use punctual::queue::rules::timer::TimerStatus;
use punctual::queue::store::timers::TimerFilter;
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use punctual::{Engine, NewTimer, Timestamp, Work};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

cases![
    plt_19_a_timer_is_either_cancelled_or_fired_never_both,
    plt_19_two_who_cancel_and_move_at_once_agree,
    plt_19_cancelling_beside_routing_misses_nothing,
    plt_19_a_head_cancelled_while_it_is_made_lets_the_next_go,
];

/// PLT-19: a claimer took the second of a key, saw the first still wait, and makes it head; the first
/// is cancelled before that claimer commits. The second must not wait for a head that never comes.
async fn plt_19_a_head_cancelled_while_it_is_made_lets_the_next_go(t: &Bench) {
    let lane = t.lane("orders").await;
    let due = t.now().await;
    let keyed = || punctual::NewMessage { key: Some("k".into()), ..message("orders").due_at(due) };
    let all = t.enqueue(vec![keyed(), keyed()]).await;
    let (first, second) = (all[0], all[1]);
    if t.backend == Backend::Sqlite {
        // One writer: nobody is ever in the middle of a claim.
        assert_eq!(t.store().cancel_timers(TENANT, vec![first]).await.unwrap(), [first]);
    } else {
        let (claimer, connection) =
            tokio_postgres::connect(t.place.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let claim = format!(
            "begin; delete from punctual.work where message_id = {second}; \
             insert into punctual.sequence (lane_id, key, head) values ({lane}, 'k', {first}); \
             insert into punctual.follower (lane_id, key, due_at, message_id, attempts, unstarted) \
                values ({lane}, 'k', {}, {second}, 0, 0)",
            due.as_micros()
        );
        claimer.batch_execute(&claim).await.unwrap();
        let store = t.another().await;
        let cancelling = tokio::spawn(async move { store.cancel_timers(TENANT, vec![first]).await });
        while !cancelling.is_finished() && t.count(WAITING_SESSIONS).await == 0 {
            tokio::task::yield_now().await;
        }
        claimer.batch_execute("commit").await.unwrap();
        assert_eq!(cancelling.await.unwrap().unwrap(), [first]);
    }
    let next: Vec<MessageId> = t.claim(lane, 5).await.iter().map(|item| item.message.id).collect();
    assert_eq!(next, [second], "the next of the key may go");
}

const WAITING_SESSIONS: &str = "select count(*) from pg_stat_activity \
    where datname = current_database() and wait_event_type = 'Lock'";

/// PLT-19: whoever is first, wins; nobody else has it.
async fn plt_19_a_timer_is_either_cancelled_or_fired_never_both(t: &Bench) {
    let lane = t.lane("orders").await;
    let due = t.now().await;
    let keys = |n: usize| if n.is_multiple_of(3) { Some(format!("k{}", n % 7)) } else { None };
    let new = (0..600).map(|n| punctual::NewMessage { key: keys(n), ..message("orders").due_at(due) });
    let all = t.enqueue(new.collect()).await;
    let mut claimers = JoinSet::new();
    for _ in 0..3 {
        let store = t.another().await;
        claimers.spawn(async move {
            let mut fired = Vec::new();
            loop {
                let items = claim_from(&store, lane, 7).await;
                if items.is_empty() {
                    return fired;
                }
                fired.extend(items.iter().map(|i| i.message.id));
                let words = |i: &punctual::queue::store::claims::ClaimedItem| {
                    (i.message.id, punctual::queue::store::settle::SettleAction::Ack)
                };
                crate::bench::settle_with(&store, items[0].token.clone(), items.iter().map(words).collect())
                    .await;
            }
        });
    }
    let mut cancellers = JoinSet::new();
    for part in all.rchunks(25).step_by(2).map(<[MessageId]>::to_vec) {
        let store = t.another().await;
        cancellers.spawn(async move { store.cancel_timers(TENANT, part).await.unwrap() });
    }
    let cancelled: Vec<MessageId> = cancellers.join_all().await.into_iter().flatten().collect();
    let mut fired: Vec<MessageId> = claimers.join_all().await.into_iter().flatten().collect();
    // A canceller may have released the next of a key after the claimers had gone home.
    while let Some(item) = t.claim(lane, 1).await.pop() {
        fired.push(item.message.id);
        t.ack(&item).await;
    }
    let once: BTreeSet<MessageId> = cancelled.iter().chain(&fired).copied().collect();
    assert_eq!(once.len(), cancelled.len() + fired.len(), "none is both cancelled and fired");
    assert_eq!(once, all.iter().copied().collect(), "none is lost");
    assert_eq!(t.count("select count(*) from punctual.follower").await, 0);
    assert_eq!(t.count("select count(*) from punctual.sequence").await, 0);
    for id in cancelled {
        assert_eq!(t.store().timer(TENANT, id).await.unwrap().unwrap().status, TimerStatus::Cancelled);
    }
}

/// PLT-19: a timer is in one place at the end, and the last change tells which.
async fn plt_19_two_who_cancel_and_move_at_once_agree(t: &Bench) {
    t.lane("orders").await;
    let due = t.now().await.plus(seconds(60));
    let all = t.enqueue((0..200).map(|_| message("orders").due_at(due)).collect()).await;
    let mut tasks = JoinSet::new();
    for n in 0..4_u64 {
        let (store, ids) = (t.another().await, all.clone());
        tasks.spawn(async move {
            let moves = ids.iter().map(|id| (*id, due.plus(seconds(n)))).collect();
            match n {
                0 => store.cancel_timers(TENANT, ids).await.unwrap().len(),
                _ => {
                    store.move_timers(TENANT, moves).await.unwrap();
                    0
                }
            }
        });
    }
    let cancelled: usize = tasks.join_all().await.into_iter().sum();
    assert_eq!(cancelled, 200, "a timer that is being moved is not too late to cancel");
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
}

/// PLT-19: what is just being given its lane is found there.
async fn plt_19_cancelling_beside_routing_misses_nothing(t: &Bench) {
    for round in 0..20 {
        let due = t.now().await.plus(seconds(60));
        let topic = format!("new-{round}");
        let ids = t.enqueue((0..20).map(|_| message(&topic).due_at(due)).collect()).await;
        let (router, canceller) = (t.another().await, t.another().await);
        let asked = ids.clone();
        let (routed, cancelled) = tokio::join!(
            tokio::spawn(async move { router.route_waiting().await }),
            tokio::spawn(async move { canceller.cancel_timers(TENANT, asked).await })
        );
        routed.unwrap().unwrap();
        assert_eq!(cancelled.unwrap().unwrap(), ids, "round {round}");
        assert_eq!(t.count("select count(*) from punctual.work").await, 0, "round {round}");
    }
}

type Fired = (usize, i64);

/// A running engine on the system clock, and what its timers' handler sees: which, and how
/// many microseconds after its time.
async fn running(backend: Backend) -> (TestDatabase, Engine, UnboundedReceiver<Fired>) {
    let place = TestDatabase::empty(backend).await.unwrap();
    let (tell, told) = unbounded_channel();
    let handler = move |work: Work| {
        let late = host_now().as_micros() - work.due_at.as_micros();
        tell.send((work.message.payload.parse().unwrap(), late)).ok();
        async { Ok(()) }
    };
    let engine = Engine::builder(place.url()).handler("orders", handler).open().await.unwrap();
    engine.start();
    (place, engine, told)
}

fn host_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
}

/// Each of `n` fires once, and none early.
async fn all_once(told: &mut UnboundedReceiver<Fired>, n: usize) -> Vec<i64> {
    let (mut seen, mut late) = (BTreeSet::new(), Vec::new());
    while seen.len() < n {
        let next = tokio::time::timeout(Duration::from_secs(120), told.recv()).await;
        let (number, after) = next.unwrap_or_else(|_| panic!("{} of {n} timers fired", seen.len())).unwrap();
        assert!(after >= 0, "timer {number} fired {} us before its time", -after);
        assert!(seen.insert(number), "timer {number} fired twice");
        late.push(after);
    }
    assert!(told.try_recv().is_err(), "nothing else fires");
    late.sort_unstable();
    late
}

/// The sleeper wakes by itself when the next timer is due, and not by looking all the time.
async fn one_at_a_time(backend: Backend) {
    let (_place, engine, mut told) = running(backend).await;
    let timer = |n: usize| {
        let after = Duration::from_millis(4_000 + 137 * n as u64);
        NewTimer::after(after, "orders", n.to_string())
    };
    engine.schedule(TENANT, (0..30).map(timer).collect(), None).await.unwrap();
    let late = all_once(&mut told, 30).await;
    engine.stop(Duration::from_secs(10)).await;
    // The sleeper wakes at the due time: even polling at the shortest interval would be later than this.
    assert!(late[15] < 120_000, "half of the timers were more than {} us late", late[15]);
}

async fn all_at_once(backend: Backend) {
    let (_place, engine, mut told) = running(backend).await;
    let due = host_now().plus(Duration::from_secs(5));
    for first in (0..100_000).step_by(10_000) {
        let timers = (first..first + 10_000).map(|n| NewTimer::at(due, "orders", n.to_string()));
        engine.schedule(TENANT, timers.collect(), None).await.unwrap();
    }
    all_once(&mut told, 100_000).await;
    engine.stop(Duration::from_secs(10)).await;
}

async fn many_of_very_many(backend: Backend) {
    let place = TestDatabase::empty(backend).await.unwrap();
    let engine = Engine::builder(place.url()).open().await.unwrap();
    for first in (0..200_000).step_by(10_000) {
        let timers = (first..first + 10_000).map(|n| {
            let timer = NewTimer::after(Duration::from_secs(86_400), "orders", n.to_string());
            if n % 10 == 0 { timer.with(|m| m.correlation_id("story")) } else { timer }
        });
        engine.schedule(TENANT, timers.collect(), Some(Duration::from_secs(3_600))).await.unwrap();
    }
    let which = TimerFilter { correlation_id: Some("story".into()), ..TimerFilter::default() };
    assert_eq!(engine.cancel_timers(TENANT, which.clone(), true).await.unwrap().ids.len(), 20_000);
    assert_eq!(engine.cancel_timers(TENANT, which.clone(), false).await.unwrap().ids.len(), 20_000);
    assert_eq!(engine.cancel_timers(TENANT, which, false).await.unwrap().ids.len(), 0);
    let left = engine.store().timer_ids(TENANT, TimerFilter::default(), 1_000_000).await.unwrap();
    assert_eq!(left.len(), 180_000);
}

macro_rules! slow_cases {
    ($($name:ident: $case:ident),* $(,)?) => {
        mod slow_sqlite {
            $(/// PLT-19, PLT-20
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "slow"]
            async fn $name() {
                super::$case(punctual::testing::Backend::Sqlite).await;
            })*
        }
        mod slow_postgres {
            $(/// PLT-19, PLT-20
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "slow"]
            async fn $name() {
                super::$case(punctual::testing::Backend::Postgres).await;
            })*
        }
    };
}

slow_cases! {
    plt_20_an_idle_engine_wakes_when_a_timer_is_due: one_at_a_time,
    plt_19_a_hundred_thousand_due_at_once_all_fire_once: all_at_once,
    plt_19_many_of_very_many_are_cancelled: many_of_very_many,
}
