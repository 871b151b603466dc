//! The clock that decides.

use crate::bench::{Bench, LEASE, claim_from, ids, message, seconds};
use punctual::base::clock::host_now;
use punctual::database::clock::ClockMode;
use punctual::database::store::Store;
use punctual::testing::TemporaryStore;
use punctual::{Engine, Error, Work};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

cases![
    plt_6_two_handles_share_a_manual_clock,
    plt_6_a_host_that_is_months_off_neither_hurries_nor_steals,
    plt_6_the_system_clock_is_the_authority_by_default,
    after_a_manual_clock_the_system_clock_is_refused_unless_told,
    only_a_manual_clock_is_set,
    one_hand_moves_the_clock_at_a_time,
    on_a_manual_clock_ticks_of_two_processes_wait_for_each_other,
    a_tick_that_lost_the_clock_breaks_off,
    the_next_moment_is_when_something_becomes_due_or_a_lease_ends,
];

/// PLT-6
async fn plt_6_two_handles_share_a_manual_clock(t: &Bench) {
    let other = t.another().await;
    assert_eq!(t.now().await, TemporaryStore::START);
    assert_eq!(other.now().await.unwrap(), TemporaryStore::START);
    t.advance(seconds(5)).await;
    assert_eq!(other.now().await.unwrap(), TemporaryStore::START.plus(seconds(5)));
    other.set_clock(TemporaryStore::START).await.unwrap();
    assert_eq!(t.now().await, TemporaryStore::START, "also back");
}

/// PLT-6: the host's wall clock is far from the database's here; only the latter counts.
async fn plt_6_a_host_that_is_months_off_neither_hurries_nor_steals(t: &Bench) {
    for off in [-1, 1] {
        let topic = format!("orders{off}");
        let lane = t.lane(&topic).await;
        let year = seconds(365 * 86_400);
        let now = if off < 0 { host_now().minus(year) } else { host_now().plus(year) };
        t.store().set_clock(now).await.unwrap();
        let put = t.enqueue(vec![message(&topic).due_at(now.plus(seconds(1)))]).await;
        assert!(t.claim(lane, 1).await.is_empty(), "not early");
        t.advance(seconds(1)).await;
        assert_eq!(ids(&t.claim(lane, 1).await), put, "not late");
        t.advance(LEASE - seconds(1)).await;
        assert_eq!(t.reap().await.claims, 0, "a lease that holds is not stolen");
        t.advance(seconds(1)).await;
        assert_eq!(t.reap().await.claims, 1);
    }
}

/// PLT-6
async fn plt_6_the_system_clock_is_the_authority_by_default(t: &Bench) {
    let before = host_now();
    t.store().use_clock(ClockMode::System, true).await.unwrap();
    let now = t.now().await;
    let after = host_now();
    // The server runs on this host, so the two clocks are one.
    assert!(before <= now.plus(seconds(1)) && now <= after.plus(seconds(1)), "{before} {now} {after}");
    let lane = t.lane("orders").await;
    let put = t.put("orders", 1).await;
    assert_eq!(ids(&claim_from(t.store(), lane, 1).await), put);
}

async fn after_a_manual_clock_the_system_clock_is_refused_unless_told(t: &Bench) {
    let before = t.dump().await;
    let other = Store::open(t.place.url(), 2).unwrap();
    let error = other.use_clock(ClockMode::System, false).await.unwrap_err();
    assert!(matches!(&error, Error::Config(said) if said.contains("manual clock")), "{error}");
    before.assert_equals(&t.dump().await, "a refused clock");
    other.use_clock(ClockMode::System, true).await.unwrap();
    let later = Store::open(t.place.url(), 2).unwrap();
    later.use_clock(ClockMode::System, false).await.expect("the manual clock was left");
}

async fn only_a_manual_clock_is_set(t: &Bench) {
    t.store().use_clock(ClockMode::System, true).await.unwrap();
    let error = t.store().set_clock(TemporaryStore::START).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error:?}");
    t.store().use_clock(ClockMode::Manual, false).await.unwrap();
    let began = t.now().await;
    assert!(began.since(host_now()) < seconds(60), "a manual clock starts at the host's time");
    assert_eq!(t.now().await, began, "and stands still");
}

async fn one_hand_moves_the_clock_at_a_time(t: &Bench) {
    assert!(t.store().hold_clock("a").await.unwrap());
    assert!(!t.another().await.hold_clock("b").await.unwrap());
    t.store().release_clock("b").await.unwrap();
    assert!(!t.store().hold_clock("b").await.unwrap(), "only its holder frees it");
    t.store().release_clock("a").await.unwrap();
    assert!(t.store().hold_clock("b").await.unwrap());
}

/// A handler of the topic `orders` that says when it has begun, and waits until it may end.
#[derive(Clone, Default)]
struct SlowHandler {
    begun: Arc<Notify>,
    may_end: Arc<Notify>,
}

impl SlowHandler {
    async fn handle(self) {
        self.begun.notify_one();
        self.may_end.notified().await;
    }

    /// An engine on the manual clock of the bench.
    async fn engine(&self, t: &Bench) -> Engine {
        let handler = self.clone();
        let handle = move |_: Work| {
            let handler = handler.clone();
            async move {
                handler.handle().await;
                Ok(())
            }
        };
        let builder = Engine::builder(t.place.url()).pool_size(4).owner("one name for all");
        builder.clock(ClockMode::Manual).handler("orders", handle).open().await.unwrap()
    }
}

/// The time until which the clock is held.
async fn held_until(t: &Bench) -> Option<i64> {
    t.ints("select held_until from punctual.clock where id = 1").await[0][0]
}

/// A tick, a step and a journey of another process wait until the tick ends; its hold is renewed as long as
/// it works, and is gone afterwards.
async fn on_a_manual_clock_ticks_of_two_processes_wait_for_each_other(t: &Bench) {
    let slow = SlowHandler::default();
    let (one, other) = (slow.engine(t).await, SlowHandler::default().engine(t).await);
    t.put("orders", 1).await;
    let ticking = tokio::spawn({
        let one = one.clone();
        async move { one.tick(10).await }
    });
    slow.begun.notified().await;
    let first = held_until(t).await.expect("the tick holds the clock");
    let waiting = tokio::spawn(async move {
        other.tick(10).await.unwrap();
        other.step().await.unwrap();
        other.travel(TemporaryStore::START.plus(seconds(1)), true).await.unwrap();
    });
    while held_until(t).await <= Some(first) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!waiting.is_finished(), "another tick waits, also while the hold is renewed");
    slow.may_end.notify_one();
    assert_eq!(ticking.await.unwrap().unwrap().dispatched, 1);
    waiting.await.unwrap();
    assert_eq!(held_until(t).await, None);
}

/// A tick renews its hold every few seconds, and breaks off when that fails.
const BREAK_OFF: Duration = Duration::from_secs(60);

/// The database gave the clock to another process because this one had not renewed its hold in time.
async fn a_tick_that_lost_the_clock_breaks_off(t: &Bench) {
    let slow = SlowHandler::default();
    let engine = slow.engine(t).await;
    t.put("orders", 1).await;
    let ticking = tokio::spawn(async move { engine.tick(10).await });
    slow.begun.notified().await;
    t.texts("update punctual.clock set held_until = 0 where id = 1").await;
    assert!(t.store().hold_clock("other").await.unwrap());
    let ticked = tokio::time::timeout(BREAK_OFF, ticking).await;
    let ticked =
        ticked.expect("a tick that has lost the clock should break off, but still waits for its handler");
    let error = ticked.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Conflict(said) if said.contains("taken over the clock")), "{error}");
    assert!(!t.store().hold_clock("third").await.unwrap(), "the tick frees no hold but its own");
}

async fn the_next_moment_is_when_something_becomes_due_or_a_lease_ends(t: &Bench) {
    let now = t.now().await;
    let lane = t.lane("orders").await;
    t.lane("other").await;
    let next = |topic: &str| t.store().next_moment(vec![topic.to_owned()], vec![]);
    assert_eq!(next("orders").await.unwrap(), None);
    t.enqueue(vec![message("orders").due_at(now.plus(seconds(90))), message("orders")]).await;
    assert_eq!(next("orders").await.unwrap(), Some(now.plus(seconds(90))));
    assert_eq!(next("other").await.unwrap(), None);
    t.claim_one(lane).await;
    assert_eq!(next("other").await.unwrap(), Some(now.plus(LEASE)));
    t.advance(LEASE).await;
    assert_eq!(next("orders").await.unwrap(), Some(now.plus(seconds(90))));
    t.pause("orders", true).await;
    assert_eq!(next("orders").await.unwrap(), None);
}
