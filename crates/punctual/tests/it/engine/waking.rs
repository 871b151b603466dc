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
        plt_7_an_interval_outside_its_limits_is_refused,
    ],
    slow: [
        plt_7_work_of_another_process_starts_within_a_second,
        plt_7_an_engine_that_was_never_started_wakes_others,
        plt_7_an_idle_worker_looks_less_and_less_often,
        plt_7_an_idle_worker_looks_as_often_as_it_is_told,
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

/// PLT-7: the pauses double from 250 ms, so seven seconds have five of them; wake-ups while the engine starts
/// may begin them anew. Looks every 250 ms would be 28.
async fn plt_7_an_idle_worker_looks_less_and_less_often(live: &Live) {
    let began = monotonic();
    let (worker, _ear) = worker(live).await;
    while began.elapsed() < Duration::from_secs(7) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let health = worker.health().await;
    let looks = health.loops.iter().find(|of| of.name == "worker").map(|of| of.ticks);
    assert!(
        looks.is_some_and(|looks| (3..=14).contains(&looks)),
        "an idle worker looked {looks:?} times in 7 s"
    );
    stop(worker).await;
}

/// PLT-7: doubling pauses without this limit would take more than two minutes.
async fn plt_7_an_idle_worker_looks_as_often_as_it_is_told(live: &Live) {
    let (tell, _ear) = ear();
    let often = live.builder().max_polling_interval(Duration::from_millis(250));
    let worker = start(often.handler("t", telling(tell))).await;
    until_idle(&worker, 24).await;
    stop(worker).await;
}

/// PLT-7, PLT-29: a longer interval would miss what SQL functions schedule, and is not cut short in silence.
async fn plt_7_an_interval_outside_its_limits_is_refused(live: &Live) {
    for (interval, said) in
        [(249, Some("at least 250 ms")), (30_001, Some("at most 30 seconds")), (30_000, None)]
    {
        let builder = live.builder().max_polling_interval(Duration::from_millis(interval));
        let refused = builder.open().await.err().map(|error| error.to_string());
        let is_as_wanted = match (&refused, said) {
            (Some(refused), Some(said)) => refused.contains("maxPollingInterval") && refused.contains(said),
            (refused, said) => refused.is_some() == said.is_some(),
        };
        assert!(is_as_wanted, "{interval} ms: {refused:?}, but it should say {said:?}");
    }
}

const TERMINATE_LISTENERS: &str = "select pg_terminate_backend(pid) from pg_stat_activity \
    where datname = current_database() and btrim(query, E' \\n') = 'listen punctual'";
