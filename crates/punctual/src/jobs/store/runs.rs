//! Runs: one row for every run of a job.
//!
//! A run goes out as a message that names it (`entity` is `job-run` and its id), but a run is only ever found
//! by the message it was given itself, so a message that merely claims to be a run belongs to none. While a
//! run is in flight, the open claim names its worker; `RunHook` writes its result in the transaction of the
//! settlement or the reaping. A run has ended when no lane has work for it any more: done, or dead. A
//! replayed dead letter opens it again.
//!
//! Not promised: that a run ends whose items are settled by [`Store::ack_whole`], which looks at
//! nothing but the claim. The engine does not do that to runs ([`Store::has_hooks_for`]).

mod history;
mod hook;

pub(crate) use crate::jobs::store::runs::history::last_of;
pub use crate::jobs::store::runs::history::{Run, RunCensus, RunStatus};
pub(crate) use crate::jobs::store::runs::hook::RunHook;

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{JobId, LaneId, MessageId, RunId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
#[cfg(doc)]
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value, params};
use crate::jobs::rules::job::OverlapPolicy;
use crate::jobs::store::jobs::{DeletedJob, Job, job_columns, read_job};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages;
use crate::queue::store::routes;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The entity type of a run's message.
pub const ENTITY: &str = "job-run";
/// The kind of a run's message.
pub const KIND: &str = "job-run";

/// The decision about an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OccurrenceDecision {
    Go,
    Queue,
    Skip(String),
}

/// A run to be.
pub(crate) struct NewRun<'a> {
    pub(crate) job: &'a Job,
    pub(crate) scheduled_at: Timestamp,
    pub(crate) planned: bool,
    pub(crate) how: OccurrenceDecision,
}

/// The unfinished runs of one job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnfinishedRuns {
    open: i64,
    queued: i64,
}

impl UnfinishedRuns {
    /// Decides about the next run, by the policy.
    pub(crate) fn next(&mut self, policy: OverlapPolicy) -> OccurrenceDecision {
        let most = limits::QUEUED_RUNS_MAX;
        let busy = self.open + self.queued > 0;
        match policy {
            OverlapPolicy::Skip if busy => {
                OccurrenceDecision::Skip("an earlier run is still going (overlap: skip)".into())
            }
            OverlapPolicy::Queue if self.queued >= most => OccurrenceDecision::Skip(format!(
                "{most} runs wait already for an earlier one (overlap: queue)"
            )),
            OverlapPolicy::Queue if busy => {
                self.queued += 1;
                OccurrenceDecision::Queue
            }
            _ => {
                self.open += 1;
                OccurrenceDecision::Go
            }
        }
    }
}

/// Reads the unfinished runs of these jobs, as far as their policies need them.
pub(crate) async fn going(tx: &mut Tx, jobs: &[Job]) -> Result<HashMap<JobId, UnfinishedRuns>> {
    let ids: Vec<i64> = jobs.iter().filter(|j| j.overlap != OverlapPolicy::Allow).map(|j| j.id.0).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.query(GOING, &[Value::Ints(&ids)]).await?;
    let read =
        |row: &Row| Ok((JobId(row.int(0)?), UnfinishedRuns { open: row.int(1)?, queued: row.int(2)? }));
    rows.iter().map(read).collect()
}

statements! {
    const GOING = "
        select j.id, (select count(*) from punctual.run r where r.job_id = j.id and r.open > 0),
            (select count(*) from punctual.run r where r.job_id = j.id and r.status = 'queued')
        from punctual.job j
        where j.id = any($1::bigint[])
    ";
}

/// Starts a run beside the timetable.
pub(crate) async fn trigger(tx: &mut Tx, job: &Job, now: Timestamp) -> Result<RunId> {
    let mut going = going(tx, std::slice::from_ref(job)).await?;
    let how = going.entry(job.id).or_default().next(job.overlap);
    let started = start(tx, &[NewRun { job, scheduled_at: now, planned: false, how }], now).await?;
    started.first().copied().flatten().ok_or_else(|| Error::Database("a run was not written".into()))
}

/// Writes runs, and the messages of those that go; `None` for an occurrence that has a run.
pub(crate) async fn start(tx: &mut Tx, starts: &[NewRun<'_>], now: Timestamp) -> Result<Vec<Option<RunId>>> {
    let rows: Vec<Vec<Value<'_>>> = starts.iter().map(|start| start.row(now)).collect();
    let made = tx.each(INSERT, &rows).await?;
    let mut ids = Vec::with_capacity(made.len());
    for rows in &made {
        ids.push(rows.first().map(|row| row.int(0).map(RunId)).transpose()?);
    }
    let going = starts.iter().zip(&ids).filter(|(start, _)| start.how == OccurrenceDecision::Go);
    let going: Vec<_> = going.filter_map(|(s, id)| Some((s.job, (*id)?, s.scheduled_at))).collect();
    send(tx, &going).await?;
    Ok(ids)
}

impl NewRun<'_> {
    fn row(&self, now: Timestamp) -> Vec<Value<'_>> {
        let (status, reason) = match &self.how {
            OccurrenceDecision::Go => ("pending", None),
            OccurrenceDecision::Queue => ("queued", None),
            OccurrenceDecision::Skip(reason) => ("skipped", Some(reason.as_str())),
        };
        vec![
            self.job.tenant.id().into(),
            self.job.id.0.into(),
            self.planned.into(),
            self.scheduled_at.into(),
            status.into(),
            reason.map(|_| now.as_micros()).into(),
            reason.into(),
        ]
    }
}

statements! {
    const INSERT = "
        insert into punctual.run (
            tenant_id, job_id, planned, scheduled_at, status, ended_at, last_error
        )
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict do nothing
        returning id
    ";
}

/// Writes the messages of runs, with their work.
async fn send(tx: &mut Tx, runs: &[(&Job, RunId, Timestamp)]) -> Result<()> {
    let mut routed: HashSet<(Tenant, &str)> = HashSet::new();
    let mut by_tenant: BTreeMap<Tenant, Vec<(RunId, &str, NewMessage)>> = BTreeMap::new();
    for (job, run, scheduled_at) in runs {
        let topic = job.topic.as_str();
        if routed.insert((job.tenant, topic)) {
            routes::ensure(tx, job.tenant, topic).await?;
        }
        let message = message_of(job, *run, *scheduled_at);
        by_tenant.entry(job.tenant).or_default().push((*run, topic, message));
    }
    for (tenant, sent) in by_tenant {
        let all: Vec<&NewMessage> = sent.iter().map(|(_, _, message)| message).collect();
        let ids = messages::insert(tx, tenant, &all).await?;
        let mut rows: Vec<Vec<Value<'_>>> = Vec::with_capacity(sent.len());
        for ((run, topic, message), id) in sent.iter().zip(ids) {
            let due = message.due_at.map(Timestamp::as_micros);
            rows.push(vec![run.0.into(), id.0.into(), tenant.id().into(), (*topic).into(), due.into()]);
        }
        tx.each(SENT, &rows).await?;
    }
    Ok(())
}

statements! {
    /// The lanes that owe something are counted by what was written: routes may change at any moment.
    const SENT = "
        update punctual.run
        set message_id = $2, status = 'pending',
            open = (
                select count(*)
                from punctual.lane l
                join punctual.work w on w.lane_id = l.id and w.due_at = $5 and w.message_id = $2
                where l.tenant_id = $3 and l.topic = $4 and l.purpose = 'dispatch'
            )
        where id = $1
    ";
}

fn message_of(job: &Job, run: RunId, scheduled_at: Timestamp) -> NewMessage {
    let headers = [("job", job.name.clone()), ("scheduledTime", scheduled_at.to_string())];
    let mut message = NewMessage::new(&job.topic, KIND, &job.payload)
        .entity(ENTITY, run.to_string())
        .headers(&headers.map(|(name, value)| (name.to_owned(), value)).into())
        .due_at(scheduled_at);
    message.occurred_at = Some(scheduled_at);
    message
}

/// The result of one item.
#[derive(Clone, Debug)]
pub(crate) struct RunEnding {
    pub(crate) message: MessageId,
    pub(crate) lane: LaneId,
    pub(crate) attempt: u32,
    pub(crate) what: ItemResult,
}

#[derive(Clone, Debug)]
pub(crate) enum ItemResult {
    /// The item is done, with this output.
    Done(Option<String>),
    /// The item is due again.
    Again(String),
    /// The item is dead.
    Dead(String),
    /// The item was not handled, because its consumer was deleted.
    Dropped,
}

/// The claimer of the items, and the time of the claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimHolder<'a> {
    pub(crate) owner: &'a str,
    pub(crate) claimed_at: Timestamp,
}

/// Writes the results of items that may be runs. A run that has ended makes way for one that waits.
pub(crate) async fn note(
    tx: &mut Tx,
    holder: ClaimHolder<'_>,
    endings: &[RunEnding],
    now: Timestamp,
) -> Result<()> {
    let messages: Vec<i64> = endings.iter().map(|e| e.message.0).collect();
    let rows = tx.query(JOBS_OF, &[Value::Ints(&messages)]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let ids = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    // The job's row first, as in every transaction that touches its runs. The job may be gone by now.
    let rows = tx.query(TAKE_JOBS, &[Value::Ints(&ids)]).await?;
    let jobs = rows.iter().map(read_job).collect::<Result<Vec<_>>>()?;
    let planning = planning_lanes(tx, endings.iter().map(|e| e.lane)).await?;
    let common = |e: &RunEnding| -> Vec<Value<'_>> {
        if planning.contains(&e.lane) {
            return vec![e.message.0.into(), Value::Null, 0.into(), Value::Null];
        }
        vec![e.message.0.into(), holder.claimed_at.into(), i64::from(e.attempt).into(), holder.owner.into()]
    };
    let (mut done, mut again, mut dead, mut dropped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ending in endings {
        let mut row = common(ending);
        match &ending.what {
            ItemResult::Again(error) => {
                row.push(error.as_str().into());
                again.push(row);
            }
            ItemResult::Done(output) => {
                row.extend_from_slice(params![now, output.as_deref()]);
                done.push(row);
            }
            ItemResult::Dead(error) => {
                row.extend_from_slice(params![now, error.as_str()]);
                dead.push(row);
            }
            ItemResult::Dropped => dropped.push(vec![ending.message.0.into(), now.into()]),
        }
    }
    tx.each(AGAIN, &again).await?;
    tx.each(DONE, &done).await?;
    tx.each(DEAD, &dead).await?;
    tx.each(DROPPED, &dropped).await?;
    for job in &jobs {
        release(tx, job).await?;
    }
    Ok(())
}

/// Those of the lanes in which the engine plans entries from messages. A run waits for them too, but it is no
/// worker who takes its message there.
pub(crate) async fn planning_lanes(
    tx: &mut Tx,
    lanes: impl Iterator<Item = LaneId>,
) -> Result<HashSet<LaneId>> {
    let lanes: Vec<i64> = lanes.map(|lane| lane.0).collect::<HashSet<_>>().into_iter().collect();
    let rows = tx.query(PLANNING_LANES, &[Value::Ints(&lanes)]).await?;
    rows.iter().map(|row| Ok(LaneId(row.int(0)?))).collect()
}

statements! {
    const PLANNING_LANES = "
        select id
        from punctual.lane
        where id = any($1::bigint[]) and subscription = '/flows'
    ";

    const JOBS_OF = "
        select distinct job_id
        from punctual.run
        where message_id = any($1::bigint[]) and open > 0
    ";

    const TAKE_JOBS = "
        select ", job_columns!(), "
        from punctual.job j
        where j.id = any($1::bigint[])
        order by j.id
        for update
    ";
}

macro_rules! attempted {
    () => {
        "
        update punctual.run
        set started_at = coalesce(started_at, $2),
            attempts = case when attempts < $3 then $3 else attempts end,
            claimed_by = coalesce($4, claimed_by),
        "
    };
}

statements! {
    const AGAIN = attempted!(), "
            last_error = $5
        where message_id = $1 and open > 0
    ";

    const DONE = attempted!(), "
            ended_at = case when open = 1 then $5::bigint end, output = coalesce($6, output),
            status = case when open = 1 and status = 'pending' then 'succeeded' else status end,
            open = open - 1
        where message_id = $1 and open > 0
    ";

    const DEAD = attempted!(), "
            ended_at = case when open = 1 then $5::bigint end, last_error = $6, status = 'failed',
            open = open - 1
        where message_id = $1 and open > 0
    ";

    /// A run that all other consumers did without trouble has succeeded; any other was not done by all of
    /// them.
    const DROPPED = "
        update punctual.run
        set ended_at = case when open = 1 then $2::bigint end,
            status = case
                when open > 1 or status <> 'pending' then status
                when started_at is not null and last_error is null then 'succeeded'
                else 'skipped'
            end,
            last_error = case
                when started_at is null then 'its subscription was deleted'
                else last_error
            end,
            open = open - 1
        where message_id = $1 and open > 0
    ";
}

/// Runs that waited for one that has ended may go: the next, or all if the policy has changed.
async fn release(tx: &mut Tx, job: &Job) -> Result<()> {
    let rows = tx.query(QUEUED, params![job.id.0, RELEASE_MAX]).await?;
    let Some(first) = rows.first() else { return Ok(()) };
    let (busy, one_by_one) = (first.int(2)? > 0, job.overlap == OverlapPolicy::Queue);
    if busy && one_by_one {
        return Ok(());
    }
    let many = if one_by_one { 1 } else { rows.len() };
    let read = |row: &Row| Ok((job, RunId(row.int(0)?), row.time(1)?));
    let runs = rows.iter().take(many).map(read).collect::<Result<Vec<_>>>()?;
    send(tx, &runs).await
}

/// Waiting runs that one ending releases.
const RELEASE_MAX: i64 = 100;
statements! {
    const QUEUED = "
        select id, scheduled_at,
            (select count(*) from punctual.run o where o.job_id = $1 and o.open > 0)
        from punctual.run
        where job_id = $1 and status = 'queued'
        order by id
        limit $2
    ";
}

/// Dead letters of these messages were replayed: their runs go on.
pub(crate) async fn reopen(tx: &mut Tx, messages: &[MessageId]) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = messages.iter().map(|message| vec![message.0.into()]).collect();
    tx.each(REOPEN, &rows).await?;
    Ok(())
}

statements! {
    const REOPEN = "
        update punctual.run
        set open = open + 1, status = 'pending', ended_at = null
        where message_id = $1 and status = 'failed'
    ";
}

/// Deletes the waiting runs of a job; runs in flight stay, and complete.
pub(crate) async fn forget(tx: &mut Tx, job: JobId) -> Result<DeletedJob> {
    let queued = tx.execute(FORGET_QUEUED, params![job.0]).await?;
    let mut deleted = DeletedJob { waiting: usize::try_from(queued).unwrap_or(0), in_flight: 0 };
    let runs = tx.query(OPEN, params![job.0]).await?;
    let messages = runs.iter().map(|row| Ok(vec![row.int(1)?.into()])).collect::<Result<Vec<_>>>()?;
    let gone = tx.each(FORGET_WORK, &messages).await?;
    for (run, gone) in runs.iter().zip(&gone) {
        let (id, left) = (run.int(0)?, run.int(2)? - i64::try_from(gone.len()).unwrap_or(0));
        if left > 0 {
            tx.execute(LEAVE_OPEN, params![id, left]).await?;
            deleted.in_flight += 1;
        } else {
            tx.execute(DELETE, params![id]).await?;
            deleted.waiting += 1;
        }
    }
    Ok(deleted)
}

statements! {
    const LEAVE_OPEN = "
        update punctual.run
        set open = $2
        where id = $1
    ";

    const DELETE = "
        delete from punctual.run
        where id = $1
    ";

    const FORGET_QUEUED = "
        delete from punctual.run
        where job_id = $1 and status = 'queued'
    ";

    const OPEN = "
        select id, message_id, open
        from punctual.run
        where job_id = $1 and open > 0
    ";

    /// A work row stands at the time its last attempt named, or at the message's own.
    const FORGET_WORK = "
        delete from punctual.work
        where message_id = $1
            and (lane_id, due_at) in (
                select l.id,
                    coalesce(
                        (
                            select a.next_due
                            from punctual.attempt a
                            where a.message_id = $1 and a.lane_id = l.id
                            order by a.id desc
                            limit 1
                        ),
                        m.due_at, m.created_at
                    )
                from punctual.message m
                join punctual.lane l on l.tenant_id = m.tenant_id and l.topic = m.topic
                where m.id = $1 and l.purpose = 'dispatch'
            )
        returning lane_id
    ";
}
