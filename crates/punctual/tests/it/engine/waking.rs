//! PLT-7: new work starts without polling, and a lost wake-up only delays.

use super::{Ear, Live, SOON, ear, enqueue_one, start, stop, telling};
use crate::bench::{TENANT, message};
use punctual::base::clock::monotonic;
use punctual::testing::Backend;
use punctual::{Engine, Work};
use std::time::Duration;

live! {
    quick: [
        plt_7_work_of_this_process_starts_at_once,
        plt_7_a_lost_wake_up_delays_and_loses_nothing,
    ],
    slow: [
        plt_7_work_of_another_process_starts_within_a_second,
        plt_7_an_engine_that_was_never_started_wakes_others,
    ],
}

/// After so many looks the next poll is four seconds away.
const LOOKS: u64 = 6;

/// Awaits that a worker has found nothing so often that it polls no more for a while.
async fn until_idle(worker: &Engine, looks: u64) {
    let start = monotonic();
    loop {
        let health = worker.health().await;
        if health.loops.iter().any(|of| of.name == "worker" && of.ticks >= looks) {
            return;
        }
        assert!(start.elapsed() < SOON, "an idle worker should look {looks} times");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn worker(live: &Live) -> (Engine, Ear<Work>) {
    let (tell, ear) = ear();
    (start(live.builder().handler("t", telling(tell))).await, ear)
}

/// How soon work of others is notified: a file is looked at once a second.
fn notification(backend: Backend) -> Duration {
    match backend {
        Backend::Sqlite => Duration::from_millis(2_000),
        Backend::Postgres => Duration::from_millis(1_000),
    }
}

/// PLT-7
async fn plt_7_work_of_this_process_starts_at_once(live: &Live) {
    let (worker, mut ear) = worker(live).await;
    until_idle(&worker, 4).await;
    let id = enqueue_one(&worker, "t").await;
    let work = ear.next_within(Duration::from_secs(1)).await;
    assert_eq!((work.message.id, work.attempt), (id, 1));
    live.until_drained().await;
    stop(worker).await;
}

/// PLT-7: the worker would poll only seconds later, and yet starts within one.
async fn plt_7_work_of_another_process_starts_within_a_second(live: &Live) {
    let (worker, mut ear) = worker(live).await;
    let producer = live.producer().await;
    for again in 0..2 {
        until_idle(&worker, LOOKS + again * LOOKS).await;
        let id = enqueue_one(&producer, "t").await;
        let work = ear.next_within(notification(live.backend)).await;
        assert_eq!(work.message.id, id);
    }
    stop(producer).await;
    stop(worker).await;
}

/// PLT-7: one that is only there to enqueue needs no loops for it.
async fn plt_7_an_engine_that_was_never_started_wakes_others(live: &Live) {
    let (worker, mut ear) = worker(live).await;
    let producer = live.builder().open().await.unwrap();
    // The second poll in a row pauses for a second, the third for two.
    until_idle(&worker, 5).await;
    let id = enqueue_one(&producer, "t").await;
    assert_eq!(ear.next_within(notification(live.backend)).await.message.id, id);
    stop(worker).await;
}

/// PLT-7: nobody says a word about the first message, and the listener loses its
/// connection before the second.
async fn plt_7_a_lost_wake_up_delays_and_loses_nothing(live: &Live) {
    let (worker, mut ear) = worker(live).await;
    let producer = live.producer().await;
    until_idle(&worker, 2).await;
    let unsaid = producer.store().enqueue(TENANT, vec![message("t")]).await.unwrap();
    assert_eq!(Some(ear.next().await.message.id), unsaid[0].id());
    if live.backend == Backend::Postgres {
        let ended = live.texts(TERMINATE_LISTENERS).await;
        assert!(!ended.is_empty(), "there should be listeners to terminate");
    }
    let id = enqueue_one(&producer, "t").await;
    assert_eq!(ear.next().await.message.id, id);
    live.until_drained().await;
    stop(producer).await;
    stop(worker).await;
}

const TERMINATE_LISTENERS: &str = "select pg_terminate_backend(pid) from pg_stat_activity \
    where datname = current_database() and query = 'listen punctual'";
