//! Jobs and their runs. The clock stands at 2026-05-14T05:13:00Z.

mod ending;
mod planning;

use crate::bench::{Bench, TENANT};
use punctual::base::limits;
use punctual::base::outcome::PutOutcome;
use punctual::database::store::Store;
use punctual::jobs::store::jobs::{DeletedJob, Job, JobState};
use punctual::jobs::store::plan::PlanOutcome;
use punctual::jobs::store::runs::{Run, RunStatus};
use punctual::{Error, NewJob, OverlapPolicy, Timestamp};

cases![
    plt_21_putting_the_same_job_again_changes_nothing,
    plt_21_another_pattern_is_planned_anew_from_now,
    plt_21_a_disabled_job_is_not_planned,
    plt_21_a_trigger_leaves_the_timetable_alone,
    plt_21_jobs_are_listed_by_name_and_belong_to_their_tenant,
    plt_21_a_deleted_job_takes_its_waiting_runs_along,
    plt_21_deleting_while_in_flight_lets_the_run_end,
    plt_29_a_bad_job_is_refused_with_every_problem,
    prune_lets_old_runs_go,
];

/// At the start of every hour.
pub fn hourly() -> NewJob {
    NewJob::new("reports", "0 0 * * * *")
}

pub fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

impl Bench {
    pub async fn job(&self, name: &str, job: NewJob) -> Job {
        self.store().put_job(TENANT, name, job).await.unwrap().1
    }

    pub async fn state(&self, name: &str) -> JobState {
        self.store().job(TENANT, name).await.unwrap().expect("the job is there")
    }

    pub async fn trigger(&self, name: &str) -> punctual::RunId {
        self.store().trigger_job(TENANT, name).await.unwrap()
    }

    /// Moves the clock without doing anything on the way.
    pub async fn at(&self, text: &str) -> Timestamp {
        self.store().set_clock(time(text)).await.unwrap();
        time(text)
    }

    pub async fn plan(&self) -> PlanOutcome {
        plan_with(self.store()).await
    }

    /// Runs of a job, the oldest first.
    pub async fn runs(&self, name: &str) -> Vec<Run> {
        let mut runs =
            self.store().runs(TENANT, name, None, 10_000).await.unwrap().expect("the job is there");
        runs.reverse();
        runs
    }

    /// How the runs of a job are, the oldest first.
    pub async fn statuses(&self, name: &str) -> Vec<RunStatus> {
        self.runs(name).await.iter().map(|run| run.status).collect()
    }
}

/// Plans until nothing is due; answers all that was done.
pub async fn plan_with(store: &Store) -> PlanOutcome {
    let mut all = PlanOutcome::default();
    loop {
        let planned = store.plan_jobs().await.unwrap();
        if planned.jobs == 0 {
            return all;
        }
        all.jobs += planned.jobs;
        all.started += planned.started;
        all.queued += planned.queued;
        all.skipped += planned.skipped;
        all.lateness.extend(planned.lateness);
    }
}

/// PLT-21
async fn plt_21_putting_the_same_job_again_changes_nothing(t: &Bench) {
    let (put, job) = t.store().put_job(TENANT, "nightly", hourly()).await.unwrap();
    assert_eq!(put, PutOutcome::Created);
    assert_eq!(job.next_due, Some(time("2026-05-14T06:00:00Z")));
    let before = t.dump().await;
    let (put, _) = t.store().put_job(TENANT, "nightly", hourly()).await.unwrap();
    assert_eq!(put, PutOutcome::Same);
    before.assert_equals(&t.dump().await, "the same definition");
    let other = hourly().payload("[1]").overlap(OverlapPolicy::Skip);
    let (put, job) = t.store().put_job(TENANT, "nightly", other).await.unwrap();
    assert_eq!((put, job.version), (PutOutcome::Changed, 2));
    assert_eq!(job.next_due, Some(time("2026-05-14T06:00:00Z")), "its timetable is the same");
}

/// PLT-21
async fn plt_21_another_pattern_is_planned_anew_from_now(t: &Bench) {
    t.job("nightly", hourly()).await;
    t.at("2026-05-14T09:30:00Z").await;
    let job = t.job("nightly", hourly().time_zone("asia/kolkata")).await;
    assert_eq!(job.time_zone, "Asia/Kolkata", "by its right name");
    assert_eq!(job.next_due, Some(time("2026-05-14T10:30:00Z")), "the hours that are past are not due");
    let job = t.job("nightly", NewJob::new("reports", " @daily ")).await;
    assert_eq!((job.cron.as_str(), job.next_due), ("@daily", Some(time("2026-05-15T00:00:00Z"))));
}

/// PLT-21
async fn plt_21_a_disabled_job_is_not_planned(t: &Bench) {
    t.job("nightly", hourly()).await;
    let job = t.store().enable_job(TENANT, "nightly", false).await.unwrap();
    assert_eq!((job.enabled, job.next_due), (false, None));
    t.at("2026-05-14T09:30:00Z").await;
    assert_eq!(t.plan().await, PlanOutcome::default());
    // A process that declares its job again does not undo what an operator did.
    let job = t.job("nightly", hourly()).await;
    assert!(!job.enabled);
    let job = t.store().enable_job(TENANT, "nightly", true).await.unwrap();
    assert_eq!(job.next_due, Some(time("2026-05-14T10:00:00Z")), "what was due meanwhile is not made up for");
    t.at("2026-05-14T10:00:00Z").await;
    assert_eq!(t.plan().await.started, 1);
    let missing = t.store().enable_job(TENANT, "weekly", true).await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
}

/// PLT-21
async fn plt_21_a_trigger_leaves_the_timetable_alone(t: &Bench) {
    let before = t.job("nightly", hourly().enabled(false)).await;
    let run = t.trigger("nightly").await;
    let runs = t.runs("nightly").await;
    assert_eq!((runs.len(), runs[0].id, runs[0].triggered), (1, run, true), "the row is there at once");
    assert_eq!((runs[0].status, runs[0].scheduled_at), (RunStatus::Pending, t.now().await));
    assert_eq!(t.state("nightly").await.job, before);
    let lane = t.lane("reports").await;
    let item = t.claim_one(lane).await;
    assert_eq!(item.message.entity.unwrap().id, run.to_string());
    let headers = item.message.headers.unwrap();
    assert!(headers.contains("\"job\":\"nightly\""), "{headers}");
    let missing = t.store().trigger_job(TENANT, "weekly").await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
}

/// PLT-21
async fn plt_21_jobs_are_listed_by_name_and_belong_to_their_tenant(t: &Bench) {
    let acme = punctual::access::store::tenants::NewTenant {
        slug: "acme".into(),
        name: "Acme".into(),
        ..Default::default()
    };
    let acme = t.store().create_tenant(acme).await.unwrap().tenant;
    for name in ["b", "c", "a"] {
        t.job(name, hourly()).await;
    }
    t.store().put_job(acme, "b", hourly()).await.unwrap();
    let names = |jobs: Vec<JobState>| jobs.into_iter().map(|s| s.job.name).collect::<Vec<_>>();
    assert_eq!(names(t.store().jobs(TENANT, "", 2).await.unwrap()), ["a", "b"]);
    assert_eq!(names(t.store().jobs(TENANT, "b", 2).await.unwrap()), ["c"]);
    assert_eq!(names(t.store().jobs(acme, "", 9).await.unwrap()), ["b"]);
    assert!(t.store().job(acme, "a").await.unwrap().is_none());
    assert!(t.store().runs(acme, "a", None, 9).await.unwrap().is_none());
    assert!(matches!(t.store().delete_job(acme, "a").await, Err(Error::NotFound(_))));
    t.at("2026-05-14T06:00:00Z").await;
    assert_eq!(t.plan().await.started, 4);
    let lane = t.lane("reports").await;
    assert_eq!(t.claim(lane, 9).await.len(), 3, "the other tenant's run is in its own queue");
}

/// PLT-21
async fn plt_21_a_deleted_job_takes_its_waiting_runs_along(t: &Bench) {
    t.job("nightly", hourly()).await;
    t.at("2026-05-14T06:00:00Z").await;
    t.plan().await;
    t.trigger("nightly").await;
    let lane = t.lane("reports").await;
    // One of them was tried before, and waits for its next attempt.
    let tried = t.claim_one(lane).await;
    t.say(&[tried], crate::bench::abandon("no")).await;
    let deleted = t.store().delete_job(TENANT, "nightly").await.unwrap();
    assert_eq!(deleted, DeletedJob { waiting: 2, in_flight: 0 });
    assert_eq!(t.count("select count(*) from punctual.run").await, 0);
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
    let again = t.store().delete_job(TENANT, "nightly").await;
    assert!(matches!(again, Err(Error::NotFound(_))), "{again:?}");
}

/// PLT-21: what is in flight ends by itself.
async fn plt_21_deleting_while_in_flight_lets_the_run_end(t: &Bench) {
    t.job("nightly", hourly().overlap(OverlapPolicy::Queue)).await;
    t.trigger("nightly").await;
    t.trigger("nightly").await;
    let lane = t.lane("reports").await;
    let item = t.claim_one(lane).await;
    let deleted = t.store().delete_job(TENANT, "nightly").await.unwrap();
    assert_eq!(deleted, DeletedJob { waiting: 1, in_flight: 1 });
    assert_eq!(t.ack(&item).await, punctual::queue::store::settle::SettleOutcome::Done);
    let rows = t.texts("select status, open from punctual.run").await;
    assert_eq!(rows, [[Some("succeeded".into()), Some("0".into())]]);
    assert!(t.claim(lane, 1).await.is_empty(), "nothing of it is left");
    // Another job of the same name begins without a history.
    t.job("nightly", hourly()).await;
    assert!(t.runs("nightly").await.is_empty());
}

/// PLT-29
async fn plt_29_a_bad_job_is_refused_with_every_problem(t: &Bench) {
    let before = t.dump().await;
    let bad = NewJob::new("a/b", "61 * * * *").time_zone("Mars/Base").payload("{not json");
    let error = t.store().put_job(TENANT, "x/y", bad).await.unwrap_err();
    let Error::Invalid(problems) = error else { panic!("{error:?}") };
    let paths: Vec<&str> = problems.0.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["name", "topic", "payload", "cron", "timeZone"], "{problems}");
    for (name, job) in [
        ("never", NewJob::new("reports", "0 0 30 2 *")),
        ("", hourly()),
        (&*"x".repeat(101), hourly()),
        (&*"x".repeat(300), hourly()),
        ("big", hourly().payload(format!("\"{}\"", "x".repeat(1024 * 1024)))),
    ] {
        let refused = t.store().put_job(TENANT, name, job).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{name}: {refused:?}");
    }
    before.assert_equals(&t.dump().await, "a refused job");
    t.job(&"ü".repeat(100), hourly()).await;
}

/// PLT-8: runs leave a month after their end; what has not ended stays.
async fn prune_lets_old_runs_go(t: &Bench) {
    t.job("nightly", hourly()).await;
    let lane = t.lane("reports").await;
    t.trigger("nightly").await;
    let item = t.claim_one(lane).await;
    t.ack(&item).await;
    t.trigger("nightly").await;
    t.advance(crate::bench::seconds(30 * 86_400)).await;
    assert_eq!(t.store().prune_runs(limits::RUN_RETENTION).await.unwrap(), 0);
    t.advance(crate::bench::seconds(1)).await;
    assert_eq!(t.store().prune_runs(limits::RUN_RETENTION).await.unwrap(), 1);
    assert_eq!(t.statuses("nightly").await, [RunStatus::Pending]);
}
