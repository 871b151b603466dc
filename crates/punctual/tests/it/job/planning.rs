//! PLT-22: one run for every occurrence, and what happens after a downtime.

use super::{hourly, plan_with, time};
use crate::bench::{Bench, TENANT, seconds};
use punctual::base::clock::host_now;
use punctual::jobs::store::plan::PlanOutcome;
use punctual::jobs::store::runs::RunStatus;
use punctual::jobs::store::runs::RunStatus::{Pending, Queued, Skipped};
use punctual::{MisfirePolicy, NewJob, OverlapPolicy};
use std::collections::BTreeSet;
use std::sync::Arc;

cases![
    plt_22_a_run_goes_out_as_a_message_when_it_is_due,
    plt_22_many_planners_make_one_run_for_each_occurrence,
    plt_22_a_stale_planner_makes_no_second_run,
    plt_22_a_host_that_is_years_off_plans_by_the_database,
    plt_22_what_is_missed_is_run_as_the_policy_says,
    plt_22_run_all_is_bounded_and_says_so,
    plt_23_runs_overlap_as_the_policy_says,
    plt_23_a_queue_of_runs_has_an_end,
    plt_23_queued_runs_never_overlap_whoever_comes_together,
    an_error_in_a_verb_of_jobs_leaves_nothing,
];

/// PLT-22
async fn plt_22_a_run_goes_out_as_a_message_when_it_is_due(t: &Bench) {
    t.job("nightly", hourly().payload("{\"n\":1}")).await;
    t.at("2026-05-14T05:59:59.999999Z").await;
    assert_eq!(t.plan().await, PlanOutcome::default(), "not early");
    t.at("2026-05-14T06:00:00.25Z").await;
    let planned = t.plan().await;
    assert_eq!((planned.jobs, planned.started, planned.skipped), (1, 1, 0));
    assert_eq!(planned.lateness, [std::time::Duration::from_millis(250)]);
    assert_eq!(t.plan().await, PlanOutcome::default(), "once");
    let lane = t.lane("reports").await;
    let item = t.claim_one(lane).await;
    let due = time("2026-05-14T06:00:00Z");
    assert_eq!((item.due_at, item.message.occurred_at), (due, due), "the nominal time, not the planner's");
    assert_eq!((item.message.kind.as_str(), item.message.payload.as_str()), ("job-run", "{\"n\":1}"));
    let run = &t.runs("nightly").await[0];
    assert_eq!((run.scheduled_at, run.triggered, run.message), (due, false, Some(item.message.id)));
    assert_eq!(t.state("nightly").await.job.next_due, Some(time("2026-05-14T07:00:00Z")));
}

/// PLT-22: eight planners on four handles, 20 jobs, 30 occurrences each.
async fn plt_22_many_planners_make_one_run_for_each_occurrence(t: &Bench) {
    for n in 0..20 {
        t.job(&format!("job-{n}"), hourly().misfire(MisfirePolicy::RunAll)).await;
    }
    let stores = Arc::new([t.another().await, t.another().await, t.another().await, t.another().await]);
    for hour in [6, 7, 8, 20, 23] {
        t.at(&format!("2026-05-14T{hour:02}:00:00Z")).await;
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..8 {
            let stores = Arc::clone(&stores);
            tasks.spawn(async move { plan_with(&stores[n % 4]).await.started });
        }
        tasks.join_all().await;
        // Whoever was passed by a planner that had a job looks again.
        t.plan().await;
    }
    for n in 0..20 {
        let runs = t.runs(&format!("job-{n}")).await;
        let times: BTreeSet<_> = runs.iter().map(|run| run.scheduled_at).collect();
        assert_eq!((runs.len(), times.len()), (18, 18), "06:00 to 23:00, each once");
    }
    assert_eq!(t.count("select count(*) from punctual.message").await, 20 * 18);
    assert_eq!(t.count("select count(*) from punctual.work").await, 20 * 18);
}

/// PLT-22: even if a job's next time is put back behind runs that were made, they are not made again.
async fn plt_22_a_stale_planner_makes_no_second_run(t: &Bench) {
    t.job("nightly", hourly()).await;
    let due = t.at("2026-05-14T06:00:00Z").await;
    t.plan().await;
    let back = format!("update punctual.job set next_due = {}", due.as_micros());
    t.texts(&back).await;
    let planned = t.plan().await;
    assert_eq!((planned.jobs, planned.started), (1, 0), "the occurrence has its run");
    assert_eq!(t.count("select count(*) from punctual.message").await, 1);
    // The clock goes back, and the job is put anew: the same.
    t.at("2026-05-14T05:13:00Z").await;
    t.job("nightly", NewJob::new("reports", "0 0 6 * * *")).await;
    t.at("2026-05-14T06:00:00Z").await;
    assert_eq!(t.plan().await.started, 0);
    assert_eq!(t.runs("nightly").await.len(), 1);
}

/// PLT-6, PLT-22: only the database's clock says what is due.
async fn plt_22_a_host_that_is_years_off_plans_by_the_database(t: &Bench) {
    for (name, years) in [("past", -3_i64), ("future", 3)] {
        let off = seconds(years.unsigned_abs() * 365 * 86_400);
        let now = if years < 0 { host_now().minus(off) } else { host_now().plus(off) };
        t.store().set_clock(now).await.unwrap();
        let job = t.job(name, hourly()).await;
        let due = job.next_due.unwrap();
        assert!(due > now && due.since(now) <= seconds(3_600), "{due} is the next hour after {now}");
        assert_eq!(t.plan().await.started, 0);
        t.store().set_clock(due).await.unwrap();
        assert_eq!(t.plan().await.started, 1);
        t.store().enable_job(TENANT, name, false).await.unwrap();
    }
}

/// PLT-22: down from 05:13 until some moment, with an hourly job.
async fn plt_22_what_is_missed_is_run_as_the_policy_says(t: &Bench) {
    use MisfirePolicy::{RunAll, RunOnce, Skip};
    type Case = (MisfirePolicy, &'static str, &'static [&'static str], Option<&'static str>);
    let table: [Case; 9] = [
        (
            RunOnce,
            "08:30:00",
            &["08"],
            Some("2 occurrences from 2026-05-14T06:00:00Z to 2026-05-14T07:00:00Z"),
        ),
        (RunAll, "08:30:00", &["06", "07", "08"], None),
        (Skip, "08:30:00", &[], Some("3 occurrences from")),
        // A single one that is late: caught up, or left out.
        (RunOnce, "06:30:00", &["06"], None),
        (RunAll, "06:30:00", &["06"], None),
        (Skip, "06:30:00", &[], Some("the occurrence of 2026-05-14T06:00:00Z was missed")),
        // A little late is on time.
        (Skip, "06:00:59", &["06"], None),
        (Skip, "08:00:10", &["08"], Some("2 occurrences from")),
        (RunOnce, "06:00:00", &["06"], None),
    ];
    for (n, (misfire, until, want, reason)) in table.into_iter().enumerate() {
        t.at("2026-05-14T05:13:00Z").await;
        let name = format!("job-{n}");
        t.job(&name, hourly().misfire(misfire)).await;
        t.at(&format!("2026-05-14T{until}Z")).await;
        t.plan().await;
        let runs = t.runs(&name).await;
        let run: Vec<_> = runs.iter().filter(|r| r.status == Pending).map(|r| r.scheduled_at).collect();
        let want: Vec<_> = want.iter().map(|hour| time(&format!("2026-05-14T{hour}:00:00Z"))).collect();
        assert_eq!(run, want, "{misfire:?} at {until}");
        let skipped: Vec<_> = runs.iter().filter(|r| r.status == Skipped).collect();
        let said = skipped.first().and_then(|run| run.last_error.clone());
        match reason {
            None => assert_eq!(said, None, "{misfire:?} at {until}"),
            Some(reason) => {
                assert!(said.clone().unwrap().contains(reason), "{misfire:?} at {until}: {said:?}")
            }
        }
        assert!(skipped.iter().all(|run| run.ended_at.is_some() && run.message.is_none()));
        t.store().delete_job(TENANT, &name).await.unwrap();
    }
}

/// PLT-22: three days without a planner, and a job for every minute.
async fn plt_22_run_all_is_bounded_and_says_so(t: &Bench) {
    t.job("often", NewJob::new("reports", "0 * * * * *").misfire(MisfirePolicy::RunAll)).await;
    let now = t.at("2026-05-17T05:13:30Z").await;
    let planned = t.plan().await;
    assert_eq!((planned.started, planned.skipped), (1_000, 1));
    let runs = t.runs("often").await;
    assert_eq!(runs[0].status, Skipped);
    let said = runs[0].last_error.clone().unwrap();
    assert!(said.starts_with("3320 occurrences from 2026-05-14T05:14:00Z to"), "{said}");
    assert_eq!(runs.last().unwrap().scheduled_at, time("2026-05-17T05:13:00Z"), "the latest ones are run");
    let times: Vec<_> = runs[1..].iter().map(|run| run.scheduled_at).collect();
    assert!(times.windows(2).all(|two| two[1].since(two[0]) == seconds(60)));
    assert!(t.state("often").await.job.next_due.unwrap() > now);
}

/// PLT-23
async fn plt_23_runs_overlap_as_the_policy_says(t: &Bench) {
    let lane = t.lane("reports").await;
    let table = [
        (OverlapPolicy::Allow, [Pending, Pending, Pending]),
        (OverlapPolicy::Skip, [Pending, Skipped, Skipped]),
        (OverlapPolicy::Queue, [Pending, Queued, Queued]),
    ];
    for (policy, want) in table {
        t.at("2026-05-14T05:13:00Z").await;
        let name = policy.word();
        t.job(name, hourly().overlap(policy)).await;
        for hour in 6..9 {
            t.at(&format!("2026-05-14T{hour:02}:00:00Z")).await;
            t.plan().await;
        }
        assert_eq!(t.statuses(name).await, want, "{name}");
        let claimed = t.claim(lane, 9).await;
        assert_eq!(claimed.len(), want.iter().filter(|s| **s == Pending).count(), "{name}");
        for item in &claimed {
            t.say(std::slice::from_ref(item), punctual::queue::store::settle::SettleAction::Ack).await;
        }
        // What was queued comes one by one, in its order.
        let waited =
            if policy == OverlapPolicy::Queue { t.runs(name).await.split_off(1) } else { Vec::new() };
        for run in &waited {
            let item = t.claim_one(lane).await;
            assert_eq!(item.message.occurred_at, run.scheduled_at, "{name}");
            assert!(t.claim(lane, 1).await.is_empty(), "one at a time");
            t.ack(&item).await;
        }
        let open = |s: &RunStatus| matches!(s, Pending | Queued);
        assert!(!t.statuses(name).await.iter().any(open), "{name}");
        t.store().delete_job(TENANT, name).await.unwrap();
    }
    // A trigger follows the policy as well.
    t.job("alone", hourly().overlap(OverlapPolicy::Skip)).await;
    t.trigger("alone").await;
    t.trigger("alone").await;
    assert_eq!(t.statuses("alone").await, [Pending, Skipped]);
    let said = t.runs("alone").await[1].last_error.clone().unwrap();
    assert_eq!(said, "an earlier run is still going (overlap: skip)");
}

/// PLT-23: a run that never ends does not fill the table.
async fn plt_23_a_queue_of_runs_has_an_end(t: &Bench) {
    let job =
        NewJob::new("reports", "0 * * * * *").overlap(OverlapPolicy::Queue).misfire(MisfirePolicy::RunAll);
    t.job("often", job).await;
    t.at("2026-05-14T21:00:00Z").await;
    t.plan().await;
    t.at("2026-05-15T05:00:00Z").await;
    t.plan().await;
    let queued = t.count("select count(*) from punctual.run where status = 'queued'").await;
    assert_eq!(queued, 1_000);
    let last = t.runs("often").await.pop().unwrap();
    assert!(last.last_error.unwrap().contains("1000 runs wait already"), "{:?}", last.status);
}

/// PLT-23: triggers, ends and a planner beside each other; the runs still come one at a time.
async fn plt_23_queued_runs_never_overlap_whoever_comes_together(t: &Bench) {
    let job = hourly().overlap(OverlapPolicy::Queue).misfire(MisfirePolicy::RunAll);
    t.job("alone", job).await;
    t.at("2026-05-14T15:00:00Z").await;
    let lane = t.lane("reports").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let store = t.another().await;
        tasks.spawn(async move {
            for _ in 0..5 {
                store.trigger_job(TENANT, "alone").await.unwrap();
                plan_with(&store).await;
            }
        });
    }
    for _ in 0..3 {
        let store = t.another().await;
        tasks.spawn(async move {
            for _ in 0..40 {
                for item in crate::bench::claim_from(&store, lane, 5).await {
                    let words = vec![(item.message.id, punctual::queue::store::settle::SettleAction::Ack)];
                    crate::bench::settle_with(&store, item.token, words).await;
                }
            }
        });
    }
    let watch = t.another().await;
    let looking = async {
        for _ in 0..50 {
            let runs = watch.runs(TENANT, "alone", None, 100).await.unwrap().unwrap();
            let going =
                |s: &&punctual::jobs::store::runs::Run| matches!(s.status, Pending | RunStatus::Running);
            assert!(runs.iter().filter(going).count() <= 1, "two runs are going: {runs:?}");
        }
    };
    tokio::join!(looking, tasks.join_all());
    // A planner leaves out a job that somebody else holds just then, and comes again.
    t.plan().await;
    let total = 15 + 10;
    for _ in 0..total {
        for item in t.claim(lane, 5).await {
            t.ack(&item).await;
        }
    }
    let ended = t.statuses("alone").await;
    assert_eq!(ended, vec![RunStatus::Succeeded; total], "each of them had its turn");
}

/// The n-th statement of each verb fails: nothing of it is left.
async fn an_error_in_a_verb_of_jobs_leaves_nothing(t: &Bench) {
    let queue = || hourly().overlap(OverlapPolicy::Queue).misfire(MisfirePolicy::RunAll);
    shake!(t, "put_job", |s| s.put_job(TENANT, "nightly", queue()));
    shake!(t, "change a job", |s| s.put_job(TENANT, "nightly", queue().payload("1")));
    t.at("2026-05-14T08:00:00Z").await;
    shake!(t, "plan_jobs", |s| s.plan_jobs());
    shake!(t, "trigger_job", |s| s.trigger_job(TENANT, "nightly"));
    let lane = t.lane("reports").await;
    let item = t.claim_one(lane).await;
    let word = punctual::queue::store::settle::SettleAction::Done { output: "1".into() };
    let words = || vec![(item.message.id, word.clone())];
    let settlement =
        || vec![punctual::queue::store::settle::Settlement { token: item.token.clone(), words: words() }];
    shake!(t, "settle a run", |s| s.settle(settlement(), None, crate::bench::SEED));
    assert_eq!(t.claim(lane, 9).await.len(), 1, "the next one was released");
    t.advance(crate::bench::LEASE).await;
    shake!(t, "reap a run", |s| s.reap(crate::bench::SEED));
    shake!(t, "enable_job", |s| s.enable_job(TENANT, "nightly", false));
    shake!(t, "delete_job", |s| s.delete_job(TENANT, "nightly"));
    t.advance(seconds(60 * 86_400)).await;
    shake!(t, "prune_runs", |s| s.prune_runs(seconds(60)));
    t.assert_sound().await;
}
