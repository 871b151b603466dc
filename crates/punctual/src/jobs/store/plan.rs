//! Planning: occurrences that are due become runs.
//!
//! One transaction takes the rows of jobs that are due (skipping those that another planner has locked),
//! writes their runs, messages and work, and moves each job to its next occurrence. The database's clock
//! decides which jobs are due. Any number of planners may run: a job is with one of them, and an occurrence
//! that has a run never gets a second one.

use crate::base::clock::{Timestamp, host_now};
use crate::base::error::{Error, Result};
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use crate::jobs::rules::job;
use crate::jobs::store::jobs::{Job, job_columns, read_job};
use crate::jobs::store::runs;
use crate::jobs::store::runs::{NewRun, OccurrenceDecision};
use std::time::Duration;

/// Jobs that one transaction plans.
const PLAN_JOBS: i64 = 100;

/// The result of a planning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOutcome {
    /// Jobs that were due.
    pub jobs: usize,
    /// Runs that were started.
    pub started: usize,
    /// Runs that wait for an earlier one.
    pub queued: usize,
    /// Occurrences, or spans of them, that were not run.
    pub skipped: usize,
    /// How late each occurrence that is run was planned.
    pub lateness: Vec<Duration>,
}

/// When the planner has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanningTime {
    /// The authority's time.
    pub now: Timestamp,
    /// When the first job is due.
    pub next: Option<Timestamp>,
}

impl Store {
    /// When the next job is due: one cheap question.
    pub fn peek_jobs(&self) -> VerbFuture<'_, PlanningTime> {
        self.read((), |tx, ()| {
            Box::pin(async move {
                let now = planning_time(tx).await?;
                let next = tx.first(FIRST_DUE, &[]).await?.map_or(Ok(None), |row| row.maybe_time(0))?;
                Ok(PlanningTime { now, next })
            })
        })
    }

    /// Plans jobs that are due, a bounded number at a time.
    pub fn plan_jobs(&self) -> VerbFuture<'_, PlanOutcome> {
        self.write((), |tx, ()| Box::pin(plan(tx)))
    }
}

statements! {
    const FIRST_DUE = "
        select min(next_due)
        from punctual.job
        where next_due is not null
    ";

    const DUE = "
        select ", job_columns!(), "
        from punctual.job j
        where j.next_due is not null and j.next_due <= $1
        order by j.next_due, j.id
        limit $2
        for update skip locked
    ";
}

/// The database's time, whatever the host's clock says; unless the bug is planted that asks the host.
async fn planning_time(tx: &mut Tx) -> Result<Timestamp> {
    if tx.has(PlantedBug::CronPlannedByHostClock) { Ok(host_now()) } else { tx.now().await }
}

async fn plan(tx: &mut Tx) -> Result<PlanOutcome> {
    let now = planning_time(tx).await?;
    let rows = tx.query(DUE, params![now, PLAN_JOBS]).await?;
    let jobs = rows.iter().map(read_job).collect::<Result<Vec<_>>>()?;
    let mut planned = PlanOutcome { jobs: jobs.len(), ..PlanOutcome::default() };
    if jobs.is_empty() {
        return Ok(planned);
    }
    // Read after the rows are taken: now no other transaction begins or ends a run of these.
    let mut going = runs::going(tx, &jobs).await?;
    let mut starts = Vec::new();
    let mut moves: Vec<Vec<Value<'_>>> = Vec::new();
    for job in &jobs {
        let (occurrences, next) = decide(job, now);
        moves.push(vec![job.id.0.into(), next.map(Timestamp::as_micros).into()]);
        for (scheduled_at, reason) in occurrences {
            let how = match reason {
                Some(reason) => OccurrenceDecision::Skip(reason),
                None => going.entry(job.id).or_default().next(job.overlap),
            };
            starts.push(NewRun { job, scheduled_at, planned: true, how });
        }
    }
    let runs = runs::start(tx, &starts, now).await?;
    planned.count(&starts, &runs, now);
    tx.each(MOVE, &moves).await?;
    Ok(planned)
}

statements! {
    const MOVE = "
        update punctual.job
        set next_due = $2
        where id = $1
    ";
}

/// An occurrence, and why it is not run if it is not.
type Occurrence = (Timestamp, Option<String>);

/// Decides about a job that is due. A job whose definition can no longer be read is not due again, and its
/// history says why.
fn decide(job: &Job, now: Timestamp) -> (Vec<Occurrence>, Option<Timestamp>) {
    let Some(due) = job.next_due else { return (Vec::new(), None) };
    let timetable = match job.timetable() {
        Ok(timetable) => timetable,
        Err(error) => return (vec![(due, Some(cannot(&error)))], None),
    };
    let plan = job::plan(&timetable, due, now, job.misfire);
    let missed = plan.missed.map(|missed| (missed.last, Some(missed.reason)));
    (missed.into_iter().chain(plan.run.into_iter().map(|at| (at, None))).collect(), plan.next)
}

fn cannot(error: &Error) -> String {
    format!("the job is not planned any more, put it again: {error}")
}

impl PlanOutcome {
    fn count(&mut self, starts: &[NewRun<'_>], runs: &[Option<crate::base::id::RunId>], now: Timestamp) {
        for (start, _) in starts.iter().zip(runs).filter(|(_, run)| run.is_some()) {
            match start.how {
                OccurrenceDecision::Go => self.started += 1,
                OccurrenceDecision::Queue => self.queued += 1,
                OccurrenceDecision::Skip(_) => self.skipped += 1,
            }
            if !matches!(start.how, OccurrenceDecision::Skip(_)) {
                self.lateness.push(now.since(start.scheduled_at));
            }
        }
    }
}
