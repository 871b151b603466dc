//! PLT-22: jobs in earnest: several engines, the system's clock, all loops.

use super::{Live, SOON, ear, start, stop, telling};
use crate::bench::TENANT;
use punctual::base::clock::monotonic;
use punctual::engine::Builder;
use punctual::jobs::store::runs::{Run, RunStatus};
use punctual::{ClockMode, Engine, HandlerError, MisfirePolicy, NewJob, OverlapPolicy, Timestamp, Work};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

live! {
    quick: [
        plt_22_engines_share_the_occurrences_of_a_job,
        plt_22_a_job_that_is_put_is_planned_without_polling,
        plt_23_a_handler_hands_in_output,
        plt_22_travelling_runs_each_occurrence_at_its_time,
    ],
    slow: [plt_22_a_job_put_by_another_process_is_planned_soon],
}

async fn runs(engine: &Engine, name: &str) -> Vec<Run> {
    engine.store().runs(TENANT, name, None, 1_000).await.unwrap().unwrap()
}

/// Awaits that so many runs have ended.
async fn until_ended(engine: &Engine, name: &str, count: usize) -> Vec<Run> {
    let begun = monotonic();
    loop {
        let runs = runs(engine, name).await;
        if runs.iter().filter(|run| run.ended_at.is_some()).count() >= count {
            return runs;
        }
        assert!(begun.elapsed() < SOON, "{count} runs should end, but they are {runs:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn every_second(topic: &str) -> NewJob {
    NewJob::new(topic, "* * * * * *").misfire(MisfirePolicy::RunAll)
}

/// PLT-22: three engines plan the same job; each occurrence is one run, and handled once.
async fn plt_22_engines_share_the_occurrences_of_a_job(live: &Live) {
    let (tell, mut ear) = ear();
    let build = || live.builder().handler("t", telling(tell.clone())).job("often", every_second("t"));
    let engines = [start(build()).await, start(build()).await, start(build()).await];
    let ended = until_ended(&engines[0], "often", 4).await;
    engines[0].enable_job(TENANT, "often", false).await.unwrap();
    let times: BTreeSet<Timestamp> = ended.iter().map(|run| run.scheduled_at).collect();
    assert_eq!(times.len(), ended.len(), "no occurrence has two runs");
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    assert_eq!(last.since(*first).as_secs() + 1, times.len() as u64, "and none is left out");
    let all = until_ended(&engines[0], "often", runs(&engines[0], "often").await.len()).await;
    let mut seen = BTreeSet::new();
    for _ in &all {
        let work: Work = ear.next_within(SOON).await;
        assert!(seen.insert(work.message.entity.unwrap().id), "a run is handled once");
    }
    for engine in engines {
        stop(engine).await;
    }
}

/// PLT-22: the planner would look only 30 seconds later.
async fn plt_22_a_job_that_is_put_is_planned_without_polling(live: &Live) {
    let (tell, mut ear) = ear();
    let engine = start(live.builder().handler("t", telling(tell))).await;
    engine.put_job(TENANT, "often", every_second("t")).await.unwrap();
    let _: Work = ear.next_within(Duration::from_secs(5)).await;
    stop(engine).await;
}

/// PLT-7, PLT-22
async fn plt_22_a_job_put_by_another_process_is_planned_soon(live: &Live) {
    let (tell, mut ear) = ear();
    let engine = start(live.builder().handler("t", telling(tell))).await;
    let other = live.builder().open().await.unwrap();
    other.put_job(TENANT, "often", every_second("t")).await.unwrap();
    let _: Work = ear.next_within(Duration::from_secs(5)).await;
    stop(engine).await;
}

/// PLT-23: output, a retry, and a next run that waits for the end.
async fn plt_23_a_handler_hands_in_output(live: &Live) {
    let handler = |work: Work| async move {
        work.set_output(format!("{{\"attempt\":{}}}", work.attempt))?;
        if work.attempt == 1 { Err(HandlerError::retry("not yet")) } else { Ok(()) }
    };
    let job = NewJob::new("t", "0 0 0 1 1 *").overlap(OverlapPolicy::Queue);
    let engine = start(live.builder().handler("t", handler).job("yearly", job)).await;
    engine.trigger_job(TENANT, "yearly").await.unwrap();
    engine.trigger_job(TENANT, "yearly").await.unwrap();
    for run in until_ended(&engine, "yearly", 2).await {
        assert_eq!((run.status, run.attempts), (RunStatus::Succeeded, 2));
        assert_eq!(run.output.as_deref(), Some("{\"attempt\":2}"), "of the attempt that succeeded");
        assert_eq!(run.last_error.as_deref(), Some("not yet"));
    }
    stop(engine).await;
}

/// PLT-22: on a manual clock each occurrence is planned and handled at its own moment.
async fn plt_22_travelling_runs_each_occurrence_at_its_time(live: &Live) {
    let seen: Arc<Mutex<Vec<(String, Timestamp)>>> = Arc::default();
    let handler = {
        let seen = Arc::clone(&seen);
        move |work: Work| {
            let headers = work.message.headers.clone().unwrap_or_default();
            let name = headers.split('"').nth(3).unwrap_or_default().to_owned();
            seen.lock().unwrap().push((name, work.due_at));
            async { Ok(()) }
        }
    };
    let builder: Builder = live.builder().clock(ClockMode::Manual).handler("t", handler);
    let engine = builder.open().await.unwrap();
    let time = |text: &str| Timestamp::parse(text).unwrap();
    engine.travel(time("2026-05-14T05:13:00Z"), false).await.unwrap();
    engine.put_job(TENANT, "hourly", NewJob::new("t", "0 0 * * * *")).await.unwrap();
    engine.put_job(TENANT, "daily", NewJob::new("t", "0 30 0 * * *")).await.unwrap();
    let stepped = engine.travel(time("2026-05-15T05:13:00Z"), true).await.unwrap();
    assert_eq!(stepped.handled, 25);
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().filter(|(name, _)| name == "daily").count(), 1);
    assert!(seen.windows(2).all(|two| two[0].1 < two[1].1), "in order: {seen:?}");
    for run in runs(&engine, "hourly").await {
        assert_eq!((run.status, run.started_at), (RunStatus::Succeeded, Some(run.scheduled_at)));
    }
}
