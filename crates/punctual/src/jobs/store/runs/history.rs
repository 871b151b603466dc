//! Runs as a person sees them.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{JobId, MessageId, RunId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::jobs::store::runs::planning_lanes;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::queues::COUNT_MAX;
use crate::queue::store::settle::read_items;
use std::collections::HashMap;
use std::time::Duration;

/// How a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// The run waits to be claimed, for the first time or again.
    Pending,
    /// The run waits for an earlier one.
    Queued,
    /// A worker handles the run.
    Running,
    /// The run is done.
    Succeeded,
    /// The run is a dead letter, or was one.
    Failed,
    /// The occurrence was not run; its error says why.
    Skipped,
}

impl RunStatus {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Skipped => "Skipped",
        }
    }
}

/// How many runs there are of each status, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCensus {
    /// Not ended, and not waiting for an earlier one.
    pub open: i64,
    /// Waiting for an earlier one.
    pub queued: i64,
    /// Succeeded within the last hour.
    pub succeeded: i64,
    /// Failed within the last hour.
    pub failed: i64,
    /// Skipped within the last hour.
    pub skipped: i64,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Whether a request triggered it.
    pub triggered: bool,
    /// The occurrence, or when it was triggered.
    pub scheduled_at: Timestamp,
    /// Its message, once it has one.
    pub message: Option<MessageId>,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When nothing was left to do for it.
    pub ended_at: Option<Timestamp>,
    /// The status of the run.
    pub status: RunStatus,
    /// How often it was claimed.
    pub attempts: u32,
    /// The worker that has it, or had it last.
    pub claimed_by: Option<String>,
    /// The output, as JSON text.
    pub output: Option<String>,
    /// Its last error, or why it was skipped.
    pub last_error: Option<String>,
}

impl Store {
    /// Runs of a job, the latest first, those before `before`; `None` when there is no such job.
    pub fn runs(
        &self,
        tenant: Tenant,
        name: &str,
        before: Option<RunId>,
        limit: usize,
    ) -> VerbFuture<'_, Option<Vec<Run>>> {
        let before = before.map_or(i64::MAX, |id| id.0);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, name.to_owned(), before, limit), |tx, (tenant, name, before, limit)| {
            Box::pin(async move {
                let Some(job) = tx.first(JOB, params![tenant.id(), name]).await? else { return Ok(None) };
                let rows = tx.query(LIST, params![job.int(0)?, *before, *limit]).await?;
                read_runs(tx, &rows).await.map(Some)
            })
        })
    }

    /// Counts runs of all tenants by status; counting stops at [`COUNT_MAX`].
    pub fn run_census(&self) -> VerbFuture<'_, RunCensus> {
        self.read((), |tx, ()| {
            Box::pin(async move {
                let since = tx.now().await?.minus(CENSUS_SPAN);
                let row = tx.first(CENSUS, params![since, COUNT_MAX]).await?;
                let int = |n| row.as_ref().map_or(Ok(0), |row| row.int(n));
                let (open, queued, succeeded) = (int(0)?, int(1)?, int(2)?);
                Ok(RunCensus { open, queued, succeeded, failed: int(3)?, skipped: int(4)? })
            })
        })
    }

    /// Deletes runs that ended longer ago than `kept_for`, a bounded number at a time; returns how many.
    pub fn prune_runs(&self, kept_for: Duration) -> VerbFuture<'_, u64> {
        self.write(kept_for, |tx, kept_for| {
            Box::pin(async move {
                let until = tx.now().await?.minus(*kept_for);
                let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
                tx.execute(PRUNE, params![until, limit]).await
            })
        })
    }
}

macro_rules! run_columns {
    () => {
        "
        r.id, r.planned, r.scheduled_at, r.message_id, r.started_at, r.ended_at, r.status, r.attempts,
        r.claimed_by, r.output, r.last_error, r.open, r.job_id
        "
    };
}

statements! {
    const JOB = "
        select id
        from punctual.job
        where tenant_id = $1 and name = $2
    ";

    const LIST = "
        select ", run_columns!(), "
        from punctual.run r
        where r.job_id = $1 and r.id < $2
        order by r.id desc
        limit $3
    ";

    const LAST = "
        select ", run_columns!(), "
        from punctual.job j
        join punctual.run r on r.id = (
            select x.id
            from punctual.run x
            where x.job_id = j.id and x.message_id is not null
            order by x.id desc
            limit 1
        )
        where j.id = any($1::bigint[])
    ";
}
/// Ended runs are counted this far back.
const CENSUS_SPAN: Duration = Duration::from_secs(60 * 60);
statements! {
    const CENSUS = "
        with ended as materialized (
            select status
            from punctual.run
            where ended_at is not null and ended_at > $1
            limit $2
        )
        select (select count(*) from (select 1 from punctual.run where open > 0 limit $2) x),
            (select count(*) from (select 1 from punctual.run where status = 'queued' limit $2) x),
            (select count(*) from ended where status = 'succeeded'),
            (select count(*) from ended where status = 'failed'),
            (select count(*) from ended where status = 'skipped')
    ";

    const PRUNE = "
        delete from punctual.run
        where id in (
            select id
            from punctual.run
            where ended_at is not null and ended_at < $1 and open = 0
            order by ended_at
            limit $2
        )
    ";
}

/// When the last run of each job began or was scheduled, and how it is.
pub(crate) async fn last_of(tx: &mut Tx, jobs: &[i64]) -> Result<HashMap<JobId, (Timestamp, RunStatus)>> {
    let rows = tx.query(LAST, &[Value::Ints(jobs)]).await?;
    let runs = read_runs(tx, &rows).await?;
    let last = |(row, run): (&Row, Run)| {
        Ok((JobId(row.int(12)?), (run.started_at.unwrap_or(run.scheduled_at), run.status)))
    };
    rows.iter().zip(runs).map(last).collect()
}

async fn read_runs(tx: &mut Tx, rows: &[Row]) -> Result<Vec<Run>> {
    let mut runs = rows.iter().map(read_run).collect::<Result<Vec<_>>>()?;
    let mut open = Vec::new();
    for (row, run) in rows.iter().zip(&mut runs) {
        if row.int(11)? > 0 {
            run.status = RunStatus::Pending;
            open.extend(run.message.map(|message| message.0));
        }
    }
    let in_flight = in_flight(tx, &open).await?;
    for run in &mut runs {
        let flight = run.message.and_then(|message| in_flight.get(&message));
        if let Some((owner, since, attempt)) = flight.filter(|_| run.status == RunStatus::Pending) {
            run.status = RunStatus::Running;
            run.claimed_by = Some(owner.clone());
            run.started_at.get_or_insert(*since);
            run.attempts = run.attempts.max(*attempt);
        }
    }
    Ok(runs)
}

/// The worker of a message, the time of its claim, and the attempt.
type RunInFlight = (String, Timestamp, u32);

async fn in_flight(tx: &mut Tx, messages: &[i64]) -> Result<HashMap<MessageId, RunInFlight>> {
    let (Some(first), Some(last)) = (messages.iter().min(), messages.iter().max()) else {
        return Ok(HashMap::new());
    };
    let mut held = Vec::new();
    for row in tx.query(CLAIMS, params![*first, *last]).await? {
        let (owner, since) = (row.text(0)?, row.time(1)?);
        held.extend(read_items(&row.text(2)?)?.into_iter().map(|item| (item, owner.clone(), since)));
    }
    let planning = planning_lanes(tx, held.iter().map(|(item, ..)| item.lane())).await?;
    held.retain(|(item, ..)| !planning.contains(&item.lane()));
    let flight = |(item, owner, since): (ClaimItem, String, Timestamp)| {
        (item.message(), (owner, since, item.attempt()))
    };
    Ok(held.into_iter().map(flight).collect())
}

statements! {
    const CLAIMS = "
        select owner, claimed_at, coalesce(open, items)
        from punctual.claim
        where finished_at is null and purpose = 'dispatch' and first_id <= $2 and last_id >= $1
    ";
}

fn read_run(row: &Row) -> Result<Run> {
    let status = match row.text(6)?.as_str() {
        "queued" => RunStatus::Queued,
        "succeeded" => RunStatus::Succeeded,
        "failed" => RunStatus::Failed,
        "skipped" => RunStatus::Skipped,
        _ => RunStatus::Pending,
    };
    Ok(Run {
        id: RunId(row.int(0)?),
        triggered: !row.flag(1)?,
        scheduled_at: row.time(2)?,
        message: row.maybe_int(3)?.map(MessageId),
        started_at: row.maybe_time(4)?,
        ended_at: row.maybe_time(5)?,
        status,
        attempts: row.count(7)?,
        claimed_by: row.maybe_text(8)?,
        output: row.maybe_text(9)?,
        last_error: row.maybe_text(10)?,
    })
}
