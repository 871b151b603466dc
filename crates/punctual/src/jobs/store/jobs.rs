//! Jobs: work that is due again and again.
//!
//! Every verb that changes a job first takes its row, as the planner and the end of a run do
//! ([`super::plan`], [`super::runs`]): so their view of its runs is consistent. Putting the same definition
//! again changes nothing; another pattern or zone is planned anew from now on. A deleted job's waiting runs
//! are deleted with it; runs in flight complete.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::{JobId, RunId};
use crate::base::outcome::PutOutcome;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::jobs::rules::job::{MisfirePolicy, NewJob, OverlapPolicy};
use crate::jobs::rules::timetable::Timetable;
use crate::jobs::store::runs;
use crate::jobs::store::runs::RunStatus;
use crate::queue::store::routes;

/// A job as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The tenant of the job.
    pub tenant: Tenant,
    /// Its name.
    pub name: String,
    /// Where its runs go.
    pub topic: String,
    /// When.
    pub cron: String,
    /// In which zone.
    pub time_zone: String,
    /// The payload of each run, as JSON text.
    pub payload: String,
    /// Whether the job is planned.
    pub enabled: bool,
    /// The policy for occurrences that were missed.
    pub misfire: MisfirePolicy,
    /// The policy while an earlier run is still going.
    pub overlap: OverlapPolicy,
    /// When it is due next; `None` while it is disabled.
    pub next_due: Option<Timestamp>,
    /// How often its definition was changed, from 1.
    pub version: i64,
}

impl Job {
    /// Its timetable.
    ///
    /// # Errors
    /// [`Error::Invalid`] when its zone or pattern is no longer known.
    pub fn timetable(&self) -> Result<Timetable> {
        let mut problems = Problems::default();
        Timetable::parse(&self.cron, &self.time_zone, &mut problems).ok_or(Error::Invalid(problems))
    }
}

/// A job with the state of its latest runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// The job.
    pub job: Job,
    /// When its last run began (or was scheduled, if it has not), and how it is.
    pub last_run: Option<(Timestamp, RunStatus)>,
}

/// The data that was dropped with a deleted job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedJob {
    /// Runs that waited and were deleted.
    pub waiting: usize,
    /// Runs that are in flight and end by themselves.
    pub in_flight: usize,
}

struct Definition {
    tenant: Tenant,
    name: String,
    new: NewJob,
    timetable: Timetable,
}

impl Store {
    /// Makes a job, or changes it into this.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub fn put_job<'a>(
        &'a self,
        tenant: Tenant,
        name: &'a str,
        new: NewJob,
    ) -> VerbFuture<'a, (PutOutcome, Job)> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            let timetable = new.check(name, &mut problems);
            problems.into_result()?;
            let Some(timetable) = timetable else { return Err(Error::invalid("cron", "cannot be planned")) };
            let definition = Definition { tenant, name: name.to_owned(), new, timetable };
            self.of(tenant).write(definition, |tx, definition| Box::pin(put(tx, definition))).await
        })
    }

    /// Deletes a job with its runs that wait.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn delete_job(&self, tenant: Tenant, name: &str) -> VerbFuture<'_, DeletedJob> {
        self.of(tenant)
            .write((tenant, name.to_owned()), |tx, (tenant, name)| Box::pin(delete(tx, *tenant, name)))
    }

    /// Enables or disables a job. An enabled one is planned from now on; one that was enabled
    /// before goes on as it was.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn enable_job(&self, tenant: Tenant, name: &str, enabled: bool) -> VerbFuture<'_, Job> {
        let request = (tenant, name.to_owned(), enabled);
        self.of(tenant)
            .write(request, |tx, (tenant, name, enabled)| Box::pin(enable(tx, *tenant, name, *enabled)))
    }

    /// Starts a run now, beside the timetable. The overlap policy holds for it, too.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such job.
    pub fn trigger_job(&self, tenant: Tenant, name: &str) -> VerbFuture<'_, RunId> {
        self.of(tenant)
            .write((tenant, name.to_owned()), |tx, (tenant, name)| Box::pin(trigger(tx, *tenant, name)))
    }

    /// A job by its name.
    pub fn job(&self, tenant: Tenant, name: &str) -> VerbFuture<'_, Option<JobState>> {
        self.of(tenant).read((tenant, name.to_owned()), |tx, (tenant, name)| {
            Box::pin(async move {
                let rows = tx.query(BY_NAME, params![tenant.id(), name]).await?;
                Ok(with_last_runs(tx, &rows).await?.pop())
            })
        })
    }

    /// Jobs of a tenant by name, those behind `after`.
    pub fn jobs(&self, tenant: Tenant, after: &str, limit: usize) -> VerbFuture<'_, Vec<JobState>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.of(tenant).read((tenant, after.to_owned(), limit), |tx, (tenant, after, limit)| {
            Box::pin(async move {
                let rows = tx.query(LIST, params![tenant.id(), after, *limit]).await?;
                with_last_runs(tx, &rows).await
            })
        })
    }
}

/// The columns that [`read_job`] reads, from a table called `j`.
macro_rules! job_columns {
    () => {
        "
        j.id, j.tenant_id, j.name, j.topic, j.cron, j.time_zone, j.payload, j.enabled, j.misfire,
        j.overlap, j.next_due, j.version
        "
    };
}
pub(crate) use job_columns;

statements! {
    const BY_NAME = "
        select ", job_columns!(), "
        from punctual.job j
        where j.tenant_id = $1 and j.name = $2
    ";

    const TAKE = "
        select ", job_columns!(), "
        from punctual.job j
        where j.tenant_id = $1 and j.name = $2
        for update
    ";

    const LIST = "
        select ", job_columns!(), "
        from punctual.job j
        where j.tenant_id = $1 and j.name > $2
        order by j.name
        limit $3
    ";
}

pub(crate) fn read_job(row: &Row) -> Result<Job> {
    let unknown = |said: String| Error::Database(said.into());
    Ok(Job {
        id: JobId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        name: row.text(2)?,
        topic: row.text(3)?,
        cron: row.text(4)?,
        time_zone: row.text(5)?,
        payload: row.text(6)?,
        enabled: row.flag(7)?,
        misfire: MisfirePolicy::parse(&row.text(8)?).map_err(unknown)?,
        overlap: OverlapPolicy::parse(&row.text(9)?).map_err(unknown)?,
        next_due: row.maybe_time(10)?,
        version: row.int(11)?,
    })
}

async fn with_last_runs(tx: &mut Tx, rows: &[Row]) -> Result<Vec<JobState>> {
    let jobs = rows.iter().map(read_job).collect::<Result<Vec<_>>>()?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id.0).collect();
    let mut last = runs::last_of(tx, &ids).await?;
    Ok(jobs.into_iter().map(|job| JobState { last_run: last.remove(&job.id), job }).collect())
}

/// Takes a job's row: no other transaction plans, changes or ends a run of it until the commit.
async fn take(tx: &mut Tx, tenant: Tenant, name: &str) -> Result<Option<Job>> {
    let row = tx.first(TAKE, params![tenant.id(), name]).await?;
    row.as_ref().map(read_job).transpose()
}

async fn must_take(tx: &mut Tx, tenant: Tenant, name: &str) -> Result<Job> {
    take(tx, tenant, name).await?.ok_or_else(|| not_found(name))
}

/// There is no such job.
pub(crate) fn not_found(name: &str) -> Error {
    Error::NotFound(format!("there is no job `{name}`"))
}

async fn put(tx: &mut Tx, definition: &Definition) -> Result<(PutOutcome, Job)> {
    let now = tx.now().await?;
    if let Some(job) = take(tx, definition.tenant, &definition.name).await? {
        return change(tx, definition, job, now).await;
    }
    routes::ensure(tx, definition.tenant, &definition.new.topic).await?;
    let enabled = definition.new.enabled.unwrap_or(true);
    let next = definition.timetable.next_after(now).filter(|_| enabled);
    let mut row = definition.columns(enabled, next, now);
    row.extend_from_slice(params![definition.tenant.id(), definition.name.as_str()]);
    let made = tx.query(INSERT, &row).await?;
    let Some(job) = take(tx, definition.tenant, &definition.name).await? else {
        return Err(Error::Database("a job that was just written is not there".into()));
    };
    // Another transaction made the job at the same moment: then this one changes it.
    if made.is_empty() { change(tx, definition, job, now).await } else { Ok((PutOutcome::Created, job)) }
}

async fn change(tx: &mut Tx, definition: &Definition, old: Job, now: Timestamp) -> Result<(PutOutcome, Job)> {
    let new = &definition.new;
    let enabled = new.enabled.unwrap_or(old.enabled);
    let timetable = &definition.timetable;
    let replanned = (timetable.cron.text(), timetable.zone.name())
        != (old.cron.as_str(), old.time_zone.as_str())
        || enabled != old.enabled;
    let same = !replanned
        && (&new.topic, &new.payload) == (&old.topic, &old.payload)
        && (new.misfire, new.overlap) == (old.misfire, old.overlap);
    if same {
        return Ok((PutOutcome::Same, old));
    }
    routes::ensure(tx, definition.tenant, &new.topic).await?;
    let next = if replanned { timetable.next_after(now).filter(|_| enabled) } else { old.next_due };
    let mut row = definition.columns(enabled, next, now);
    row.push(old.id.0.into());
    tx.execute(CHANGE, &row).await?;
    Ok((PutOutcome::Changed, must_take(tx, definition.tenant, &definition.name).await?))
}

impl Definition {
    fn columns(&self, enabled: bool, next: Option<Timestamp>, now: Timestamp) -> Vec<Value<'_>> {
        vec![
            self.new.topic.as_str().into(),
            self.timetable.cron.text().into(),
            self.timetable.zone.name().into(),
            self.new.payload.as_str().into(),
            enabled.into(),
            self.new.misfire.word().into(),
            self.new.overlap.word().into(),
            next.map(Timestamp::as_micros).into(),
            now.into(),
        ]
    }
}

statements! {
    const INSERT = "
        insert into punctual.job (
            topic, cron, time_zone, payload, enabled, misfire, overlap, next_due, created_at,
            updated_at, tenant_id, name
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11)
        on conflict do nothing
        returning id
    ";

    const CHANGE = "
        update punctual.job
        set topic = $1, cron = $2, time_zone = $3, payload = $4, enabled = $5, misfire = $6,
            overlap = $7, next_due = $8, updated_at = $9, version = version + 1
        where id = $10
    ";
}

async fn enable(tx: &mut Tx, tenant: Tenant, name: &str, enabled: bool) -> Result<Job> {
    let job = must_take(tx, tenant, name).await?;
    if job.enabled == enabled {
        return Ok(job);
    }
    let now = tx.now().await?;
    let next = if enabled { job.timetable()?.next_after(now) } else { None };
    tx.execute(ENABLE, params![job.id.0, enabled, next.map(Timestamp::as_micros), now]).await?;
    must_take(tx, tenant, name).await
}

statements! {
    const ENABLE = "
        update punctual.job
        set enabled = $2, next_due = $3, updated_at = $4, version = version + 1
        where id = $1
    ";
}

async fn trigger(tx: &mut Tx, tenant: Tenant, name: &str) -> Result<RunId> {
    let job = must_take(tx, tenant, name).await?;
    let now = tx.now().await?;
    runs::trigger(tx, &job, now).await
}

async fn delete(tx: &mut Tx, tenant: Tenant, name: &str) -> Result<DeletedJob> {
    let job = must_take(tx, tenant, name).await?;
    let deleted = runs::forget(tx, job.id).await?;
    tx.execute(DELETE, params![job.id.0]).await?;
    Ok(deleted)
}

statements! {
    const DELETE = "
        delete from punctual.job
        where id = $1
    ";
}
