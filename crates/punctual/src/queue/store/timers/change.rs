//! Cancelling and moving timers, in sets.
//!
//! A timer can be changed for as long as no worker has claimed it: its work row (or its place behind its key)
//! is taken out under its lock, the change is written down, and a moved one is put back at its new time. A
//! worker that claims at the same moment either has it, and the answer is that it was too late, or finds it
//! gone. A timer that is in flight, or was tried before, is never touched. Nor is a run of a job, which would
//! never end without its work: a job is disabled or deleted instead. One that goes to several consumers is
//! past changing when it is due: some of them may have it.
//!
//! Locks are taken in one order: work rows by lane, due time and id, then sequences by lane and key. Claimers
//! skip work that is locked, so no two transactions wait in a circle.

use crate::base::component::Component;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::{LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value};
use crate::queue::store::messages::INSERT_WORK;
use crate::queue::store::sequences::{DELETE_FOLLOWER, leave, lock_heads};
use crate::queue::store::timers::{TimerFilter, Timestamp, own_due};
use std::collections::{BTreeMap, HashSet};

/// Looks again at timers that another transaction routed or moved at the same moment. Each time one of the
/// concurrent changes succeeds, so this is more than there are of them.
const TRIES: usize = 1_000;

/// A timer, and the time it is to be moved to; `None` to cancel it.
pub type TimerChange = (MessageId, Option<Timestamp>);

impl Store {
    /// Cancels timers; answers those that were cancelled in time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than a batch.
    pub fn cancel_timers(&self, tenant: Tenant, ids: Vec<MessageId>) -> VerbFuture<'_, Vec<MessageId>> {
        VerbFuture::new(async move {
            self.change_timers(tenant, ids.into_iter().map(|id| (id, None)).collect()).await
        })
    }

    /// Moves timers to other times; answers those that were moved in time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than a batch.
    pub fn move_timers(
        &self,
        tenant: Tenant,
        moves: Vec<(MessageId, Timestamp)>,
    ) -> VerbFuture<'_, Vec<MessageId>> {
        VerbFuture::new(async move {
            self.change_timers(tenant, moves.into_iter().map(|(id, due)| (id, Some(due))).collect()).await
        })
    }

    async fn change_timers(&self, tenant: Tenant, mut changes: Vec<TimerChange>) -> Result<Vec<MessageId>> {
        let ids = Some(changes.iter().map(|(id, _)| *id).collect());
        checked(&TimerFilter { ids, ..TimerFilter::default() })?;
        let mut done: Vec<MessageId> = Vec::new();
        for _ in 0..TRIES {
            let request = (tenant, changes.clone());
            done.extend(self.of(tenant).write(request, |tx, (t, c)| Box::pin(change(tx, *t, c))).await?);
            let changed: HashSet<&MessageId> = done.iter().collect();
            let missed = changes.iter().map(|(id, _)| *id).filter(|id| !changed.contains(id)).collect();
            let still: HashSet<MessageId> = self.timers_in_time(tenant, missed).await?.into_iter().collect();
            changes.retain(|(id, _)| still.contains(id));
            if changes.is_empty() {
                done.sort_unstable();
                return Ok(done);
            }
        }
        Err(Error::Conflict("others keep changing these timers at this moment; try again".into()))
    }

    /// Which of these timers could still be changed.
    pub fn timers_in_time(&self, tenant: Tenant, ids: Vec<MessageId>) -> VerbFuture<'_, Vec<MessageId>> {
        VerbFuture::new(async move {
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            self.of(tenant)
                .read((tenant, ids), |tx, (tenant, ids)| {
                    Box::pin(async move {
                        let now = tx.now().await?;
                        let numbers: Vec<i64> = ids.iter().map(|id| id.0).collect();
                        let values = [tenant.id().into(), Value::Ints(&numbers), now.into()];
                        let sql = statements(tx).await?.in_time;
                        tx.query(sql, &values).await?.iter().map(|row| row.int(0).map(MessageId)).collect()
                    })
                })
                .await
        })
    }

    /// The ids of timers that seem to be in time, by their filter; up to a limit.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a filter is not a name.
    pub fn timer_ids(
        &self,
        tenant: Tenant,
        which: TimerFilter,
        limit: usize,
    ) -> VerbFuture<'_, Vec<MessageId>> {
        VerbFuture::new(async move {
            checked(&which)?;
            self.of(tenant)
                .read((tenant, which, limit), |tx, (tenant, which, limit)| {
                    Box::pin(find(tx, *tenant, which, *limit))
                })
                .await
        })
    }
}

fn checked(which: &TimerFilter) -> Result<()> {
    let mut problems = Problems::default();
    which.check("", &mut problems);
    problems.into_result()
}

async fn find(tx: &mut Tx, tenant: Tenant, which: &TimerFilter, limit: usize) -> Result<Vec<MessageId>> {
    if let Some(ids) = &which.ids {
        return Ok(ids.clone());
    }
    let values = [
        tenant.id().into(),
        which.topic.as_deref().into(),
        which.key.as_deref().into(),
        which.correlation_id.as_deref().into(),
        which.from().into(),
        which.before().into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
    ];
    let sql = if which.correlation_id.is_some() { IDS_OF_STORY } else { IDS };
    tx.query(sql, &values).await?.iter().map(|row| row.int(0).map(MessageId)).collect()
}

statements! {
    /// Waiting timers are found where they wait: in the lanes of the topic, unrouted, or behind a key.
    const IDS = "
        select w.message_id
        from punctual.lane l
        join punctual.work w on w.lane_id = l.id
        join punctual.message m on m.id = w.message_id
        where l.tenant_id = $1
            and l.purpose = 'dispatch'
            and ($2::text is null or l.topic = $2)
            and m.due_at is not null
            and w.attempts = 0
            and w.due_at >= $5
            and w.due_at < $6
            and ($3::text is null or w.key = $3)
            and $4::text is null
        union
        select w.message_id
        from punctual.work w
        join punctual.message m on m.id = w.message_id
        where w.lane_id = 0
            and m.tenant_id = $1
            and ($2::text is null or m.topic = $2)
            and m.due_at is not null
            and w.due_at >= $5
            and w.due_at < $6
            and ($3::text is null or w.key = $3)
        union
        select f.message_id
        from punctual.lane l
        join punctual.follower f on f.lane_id = l.id
        join punctual.message m on m.id = f.message_id
        where l.tenant_id = $1
            and l.purpose = 'dispatch'
            and ($2::text is null or l.topic = $2)
            and m.due_at is not null
            and f.attempts = 0
            and f.due_at >= $5
            and f.due_at < $6
            and ($3::text is null or f.key = $3)
        order by 1
        limit $7
    ";

    const IDS_OF_STORY = "
        select id
        from (
            select m.id, ", own_due!(), " as due_at
            from punctual.message m
            where m.tenant_id = $1
                and m.correlation_id = $4::text
                and m.due_at is not null
                and ($2::text is null or m.topic = $2)
                and ($3::text is null or m.key = $3)
        ) t
        where t.due_at >= $5 and t.due_at < $6
        order by id
        limit $7
    ";
}

/// A timer that was taken out of where it waited.
struct TakenTimer {
    message: i64,
    lane: i64,
    due_at: i64,
    key: Option<String>,
    from_work: bool,
}

impl TakenTimer {
    fn read(row: &Row, from_work: bool) -> Result<Self> {
        let (message, lane, due_at) = (row.int(0)?, row.int(1)?, row.int(2)?);
        Ok(Self { message, lane, due_at, key: row.maybe_text(3)?, from_work })
    }
}

async fn change(tx: &mut Tx, tenant: Tenant, changes: &[TimerChange]) -> Result<Vec<MessageId>> {
    let now = tx.now().await?;
    let wanted: BTreeMap<i64, Option<Timestamp>> = changes.iter().map(|(id, due)| (id.0, *due)).collect();
    let mut taken = take_work(tx, tenant, wanted.keys().copied().collect(), now).await?;
    let got: HashSet<i64> = taken.iter().map(|t| t.message).collect();
    let missing: Vec<i64> = wanted.keys().copied().filter(|id| !got.contains(id)).collect();
    taken.extend(take_followers(tx, tenant, &missing, now).await?);
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let new_due = |t: &TakenTimer| wanted.get(&t.message).copied().flatten().map(Timestamp::as_micros);
    write_down(tx, tenant, now, &taken, new_due).await?;
    put_back(tx, &taken, new_due).await?;
    // A follower was not the head of a sequence.
    let heads: Vec<(LaneId, &str, MessageId)> = taken
        .iter()
        .filter(|t| t.from_work)
        .filter_map(|t| Some((LaneId(t.lane), t.key.as_deref()?, MessageId(t.message))))
        .collect();
    leave(tx, &heads).await?;
    let done: HashSet<i64> = taken.iter().map(|t| t.message).collect();
    Ok(done.into_iter().map(MessageId).collect())
}

/// The message of a run that goes on is no timer. Where the database has no jobs, there is no run.
macro_rules! is_no_run {
    (with_jobs) => {
        "and not exists (select 1 from punctual.run r where r.message_id = m.id and r.open > 0)"
    };
    (without_jobs) => {
        ""
    };
}

/// Where these timers wait, if they do: `$1` tenant, `$2` ids, `$3` the time.
macro_rules! places {
    ($jobs:tt) => {
        concat! {"
            with t as materialized (
                select m.id, m.topic, m.key, ", own_due!(), " as due_at
                from punctual.message m
                where m.tenant_id = $1
                    and m.id = any($2::bigint[])
                    and m.due_at is not null
                    and not exists (select 1 from punctual.attempt a where a.message_id = m.id)
                    ", is_no_run!($jobs), "
            ),
            x as materialized (
                select l.id as lane_id, t.id, t.due_at, t.key
                from t
                join punctual.lane l on l.tenant_id = $1
                    and l.topic = t.topic
                    and l.purpose = 'dispatch'
                where t.due_at > $3
                    or (
                        select count(*)
                        from punctual.route r
                        where r.tenant_id = $1 and r.topic = t.topic
                    ) <= 1
                union all
                select 0, t.id, t.due_at, t.key
                from t
            )
        "}
    };
}

macro_rules! at_work {
    () => {
        "
        x
        join punctual.work w on w.lane_id = x.lane_id
            and w.due_at = x.due_at
            and w.message_id = x.id
            and w.attempts = 0
        "
    };
}

macro_rules! behind_key {
    () => {
        "
        x
        join punctual.follower f on f.lane_id = x.lane_id
            and f.key = x.key
            and f.due_at = x.due_at
            and f.message_id = x.id
            and f.attempts = 0
        "
    };
}

/// The statements that find timers where they wait.
struct Statements {
    /// As a claim does it: rows are locked where they stand, and deleted by their address.
    take_locked: &'static str,
    take: &'static str,
    followers: &'static str,
    in_time: &'static str,
}

macro_rules! take_locked {
    ($jobs:tt) => {
        concat! {places!($jobs), ",
            locked as materialized (
                select w.ctid as place
                from ", at_work!(), "
                order by w.lane_id, w.due_at, w.message_id
                for update of w
            )
            delete from punctual.work
            where ctid = any(array(select place from locked))
            returning message_id, lane_id, due_at, key
        "}
    };
}

macro_rules! take {
    ($jobs:tt) => {
        concat! {places!($jobs), "
            delete from punctual.work
            where (lane_id, due_at, message_id) in (select x.lane_id, x.due_at, x.id from x)
                and attempts = 0
            returning message_id, lane_id, due_at, key
        "}
    };
}

macro_rules! followers {
    ($jobs:tt) => {
        concat! {places!($jobs), "
            select f.message_id, f.lane_id, f.due_at, f.key
            from ", behind_key!(), "
            order by f.lane_id, f.key, f.due_at, f.message_id
        "}
    };
}

macro_rules! in_time {
    ($jobs:tt) => {
        concat! {places!($jobs), "
            select w.message_id
            from ", at_work!(), "
            union
            select f.message_id
            from ", behind_key!(), "
            order by 1
        "}
    };
}

statements! {
    const TAKE_LOCKED for Postgres = take_locked!(with_jobs);

    const TAKE = take!(with_jobs);

    const FOLLOWERS = followers!(with_jobs);

    const IN_TIME = in_time!(with_jobs);

    const TAKE_LOCKED_WITHOUT_JOBS for Postgres = take_locked!(without_jobs);

    const TAKE_WITHOUT_JOBS = take!(without_jobs);

    const FOLLOWERS_WITHOUT_JOBS = followers!(without_jobs);

    const IN_TIME_WITHOUT_JOBS = in_time!(without_jobs);
}

const WITH_JOBS: Statements =
    Statements { take_locked: TAKE_LOCKED, take: TAKE, followers: FOLLOWERS, in_time: IN_TIME };
const WITHOUT_JOBS: Statements = Statements {
    take_locked: TAKE_LOCKED_WITHOUT_JOBS,
    take: TAKE_WITHOUT_JOBS,
    followers: FOLLOWERS_WITHOUT_JOBS,
    in_time: IN_TIME_WITHOUT_JOBS,
};

async fn statements(tx: &mut Tx) -> Result<&'static Statements> {
    Ok(if tx.has_component(Component::Jobs).await? { &WITH_JOBS } else { &WITHOUT_JOBS })
}

async fn take_work(tx: &mut Tx, tenant: Tenant, ids: Vec<i64>, now: Timestamp) -> Result<Vec<TakenTimer>> {
    let values = [tenant.id().into(), Value::Ints(&ids), now.into()];
    let statements = statements(tx).await?;
    let rows = tx.query(tx.dialect().pick(statements.take_locked, statements.take), &values).await?;
    rows.iter().map(|row| TakenTimer::read(row, true)).collect()
}

/// Followers are deleted under the lock of their sequence: no other transaction makes one of them head
/// meanwhile.
async fn take_followers(tx: &mut Tx, tenant: Tenant, ids: &[i64], now: Timestamp) -> Result<Vec<TakenTimer>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let values = [tenant.id().into(), Value::Ints(ids), now.into()];
    let sql = statements(tx).await?.followers;
    let rows = tx.query(sql, &values).await?;
    let found = rows.iter().map(|row| TakenTimer::read(row, false)).collect::<Result<Vec<_>>>()?;
    lock_heads(tx, found.iter().filter_map(|t| Some((t.lane, t.key.as_deref()?)))).await?;
    let places: Vec<Vec<Value<'_>>> = found
        .iter()
        .map(|t| vec![t.lane.into(), t.key.as_deref().into(), t.due_at.into(), t.message.into()])
        .collect();
    let gone = tx.each(DELETE_FOLLOWER, &places).await?;
    drop(places);
    Ok(found.into_iter().zip(gone).filter(|(_, rows)| !rows.is_empty()).map(|(t, _)| t).collect())
}

/// One fact for each timer, however many lanes it waited in.
async fn write_down(
    tx: &mut Tx,
    tenant: Tenant,
    now: Timestamp,
    taken: &[TakenTimer],
    new_due: impl Fn(&TakenTimer) -> Option<i64>,
) -> Result<()> {
    let mut seen = HashSet::new();
    let first: Vec<&TakenTimer> = taken.iter().filter(|t| seen.insert(t.message)).collect();
    let ids: Vec<i64> = first.iter().map(|t| t.message).collect();
    let due: Vec<i64> = first.iter().map(|t| new_due(t).unwrap_or(t.due_at)).collect();
    let gone: Vec<i64> = first.iter().map(|t| i64::from(new_due(t).is_none())).collect();
    if tx.dialect() == Dialect::Postgres {
        let lists = [Value::Ints(&ids), Value::Ints(&due), Value::Ints(&gone)];
        tx.execute(WRITE_ALL, &[tenant.id().into(), now.into(), lists[0], lists[1], lists[2]]).await?;
        return Ok(());
    }
    let row = |n: usize| vec![tenant.id().into(), now.into(), ids[n].into(), due[n].into(), gone[n].into()];
    let rows: Vec<Vec<Value<'_>>> = (0..ids.len()).map(row).collect();
    tx.each(WRITE_ONE, &rows).await?;
    Ok(())
}

statements! {
    const WRITE_ALL for Postgres = "
        insert into punctual.timer_change (tenant_id, message_id, at, due_at, cancelled)
        select $1::int, t.id, $2::bigint, t.due_at, t.cancelled
        from unnest($3::bigint[], $4::bigint[], $5::int[]) t (id, due_at, cancelled)
    ";

    const WRITE_ONE = "
        insert into punctual.timer_change (tenant_id, at, message_id, due_at, cancelled)
        values ($1, $2, $3, $4, $5)
    ";
}

/// Moved timers wait again, at their new time.
async fn put_back(
    tx: &mut Tx,
    taken: &[TakenTimer],
    new_due: impl Fn(&TakenTimer) -> Option<i64>,
) -> Result<()> {
    let moved: Vec<(&TakenTimer, i64)> = taken.iter().filter_map(|t| Some((t, new_due(t)?))).collect();
    if moved.is_empty() {
        return Ok(());
    }
    if tx.dialect() == Dialect::Postgres {
        let ids: Vec<i64> = moved.iter().map(|(t, _)| t.message).collect();
        let lanes: Vec<i64> = moved.iter().map(|(t, _)| t.lane).collect();
        let due: Vec<i64> = moved.iter().map(|(_, due)| *due).collect();
        let keys: Vec<Option<&str>> = moved.iter().map(|(t, _)| t.key.as_deref()).collect();
        let lists = [Value::Ints(&ids), Value::Ints(&lanes), Value::Ints(&due), Value::Texts(&keys)];
        tx.execute(WAIT_ALL, &lists).await?;
        return Ok(());
    }
    let rows: Vec<Vec<Value<'_>>> = moved
        .iter()
        .map(|(t, due)| vec![t.message.into(), t.lane.into(), (*due).into(), t.key.as_deref().into()])
        .collect();
    tx.each(INSERT_WORK, &rows).await?;
    Ok(())
}

statements! {
    const WAIT_ALL for Postgres = "
        insert into punctual.work (message_id, lane_id, due_at, key)
        select t.*
        from unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[]) t
    ";
}
