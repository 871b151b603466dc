//! Timers as they are looked at: messages that were given a due time of their own.
//!
//! A timer has no row of its own. Its content is its message; its present due time is the latest of its
//! changes (see [`change`]), or the time it was given; it waits as long as its work exists. So nothing fires
//! a timer but the claim of its work, and nothing can fire it twice.
//!
//! Lists go by the present due time and walk an index from the cursor on, however many timers there are. A
//! timer that is moved while a client reads the pages may be seen twice or not at all.

pub mod change;

use crate::base::clock::Timestamp;
use crate::base::error::{Problems, Result};
use crate::base::id::MessageId;
use crate::base::limits;
use crate::base::name::check_name;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::message::Message;
use crate::queue::rules::timer::{TimerProgress, TimerStatus};
use crate::queue::store::messages::{message_columns, read_message};
use crate::queue::store::settle::read_items;
use crate::queue::store::waiting_work::something_waits;
use std::collections::{HashMap, HashSet};

/// The time at which a message `m` is due by itself: as it was moved, as it was given, or
/// when it was written. Its work stands there until an attempt names another time.
macro_rules! own_due {
    () => {
        "
        coalesce(
            (
                select c.due_at
                from punctual.timer_change c
                where m.due_at is not null and c.tenant_id = m.tenant_id and c.message_id = m.id
                order by c.id desc
                limit 1
            ),
            m.due_at, m.created_at
        )
        "
    };
}
pub(crate) use own_due;

/// A timer, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Its message; there `due_at` is the time it was given first.
    pub message: Message,
    /// When it is due, or was.
    pub due_at: Timestamp,
    /// Where it stands.
    pub status: TimerStatus,
    /// How far its message has come, once it has fired.
    pub progress: Option<TimerProgress>,
    /// When it was last moved, or cancelled.
    pub changed_at: Option<Timestamp>,
}

/// Which timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerFilter {
    /// Only these; all if `None`.
    pub ids: Option<Vec<MessageId>>,
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only of this key.
    pub key: Option<String>,
    /// Only of this story.
    pub correlation_id: Option<String>,
    /// Only those due at this moment or later.
    pub due_from: Option<Timestamp>,
    /// Only those due before this moment.
    pub due_before: Option<Timestamp>,
}

impl TimerFilter {
    /// Notes what is wrong with it, each under its name.
    pub fn check(&self, at: &str, problems: &mut Problems) {
        let names = [("topic", &self.topic), ("key", &self.key), ("correlationId", &self.correlation_id)];
        for (name, value) in names {
            if let Some(value) = value {
                check_name(value, &format!("{at}{name}"), problems);
            }
        }
        if let Some(ids) = self.ids.as_ref().filter(|ids| ids.len() > limits::BATCH_ITEMS_MAX) {
            let said = format!("{} ids, at most {} are allowed", ids.len(), limits::BATCH_ITEMS_MAX);
            problems.push("ids", said);
        }
    }

    fn from(&self) -> Timestamp {
        self.due_from.unwrap_or(Timestamp::MIN)
    }

    fn before(&self) -> Timestamp {
        self.due_before.unwrap_or(Timestamp::from_micros(i64::MAX))
    }
}

/// The place in a list where the last page ended.
pub type TimerCursor = (Timestamp, MessageId);

struct TimerListRequest {
    tenant: Tenant,
    which: TimerFilter,
    status: Option<TimerStatus>,
    after: Option<TimerCursor>,
    limit: usize,
}

impl Store {
    /// One timer of a tenant.
    pub fn timer(&self, tenant: Tenant, id: MessageId) -> VerbFuture<'_, Option<Timer>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let rows = tx.query(ONE, params![tenant.id(), id.0]).await?;
                Ok(timers(tx, *tenant, rows).await?.pop())
            })
        })
    }

    /// Timers of a tenant by their due time, from behind `after` on. Of `which`, the ids are
    /// not looked at.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when a filter is not a name.
    pub fn timers(
        &self,
        tenant: Tenant,
        which: TimerFilter,
        status: Option<TimerStatus>,
        after: Option<TimerCursor>,
        limit: usize,
    ) -> VerbFuture<'_, Vec<Timer>> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            which.check("", &mut problems);
            problems.into_result()?;
            let wanted = TimerListRequest { tenant, which, status, after, limit };
            self.of(tenant).read(wanted, |tx, wanted| Box::pin(list(tx, wanted))).await
        })
    }
}

async fn list(tx: &mut Tx, wanted: &TimerListRequest) -> Result<Vec<Timer>> {
    let now = tx.now().await?;
    let which = &wanted.which;
    let next = now.plus(std::time::Duration::from_micros(1));
    let (from, before) = match wanted.status {
        Some(TimerStatus::Waiting) => (which.from().max(next), which.before()),
        Some(TimerStatus::Fired) => (which.from(), which.before().min(next)),
        _ => (which.from(), which.before()),
    };
    let cancelled = match wanted.status {
        None => 2,
        Some(status) => i64::from(status == TimerStatus::Cancelled),
    };
    let after = wanted.after.unwrap_or((Timestamp::MIN, MessageId(0)));
    let values = params![
        wanted.tenant.id(),
        after.0,
        after.1.0,
        which.topic.as_deref(),
        which.key.as_deref(),
        which.correlation_id.as_deref(),
        from,
        before,
        i64::try_from(wanted.limit).unwrap_or(i64::MAX),
        wanted.status != Some(TimerStatus::Cancelled),
        cancelled,
    ];
    let sql = if which.correlation_id.is_some() { LIST_OF_STORY } else { LIST };
    let rows = tx.query(sql, values).await?;
    timers(tx, wanted.tenant, rows).await
}

/// Timers as they were given, and those that were changed since: two walks in due order.
macro_rules! list_where {
    ($story:literal) => {
        concat! {"
            select s.due_at, s.changed_at, s.cancelled, ", message_columns!(), "
            from (
                select *
                from (
                    select m.id, m.due_at, null::bigint as changed_at, 0 as cancelled
                    from punctual.message m
                    where $10 = 1
                        and m.tenant_id = $1
                        and m.due_at is not null
                        and (m.due_at, m.id) > ($2, $3)
                        and m.due_at >= $7
                        and m.due_at < $8
                        and ($4::text is null or m.topic = $4)
                        and ($5::text is null or m.key = $5)
                        and ", $story, "
                        and not exists (
                            select 1
                            from punctual.timer_change c
                            where c.tenant_id = m.tenant_id and c.message_id = m.id
                        )
                    order by m.due_at, m.id
                    limit $9
                ) given
                union all
                select *
                from (
                    select m.id, c.due_at, c.at, c.cancelled
                    from punctual.timer_change c
                    join punctual.message m on m.id = c.message_id
                    where c.tenant_id = $1
                        and (c.due_at, c.message_id) > ($2, $3)
                        and c.due_at >= $7
                        and c.due_at < $8
                        and ($11 = 2 or c.cancelled = $11)
                        and ($4::text is null or m.topic = $4)
                        and ($5::text is null or m.key = $5)
                        and ", $story, "
                        and not exists (
                            select 1
                            from punctual.timer_change d
                            where d.tenant_id = c.tenant_id
                                and d.message_id = c.message_id
                                and d.id > c.id
                        )
                    order by c.due_at, c.message_id
                    limit $9
                ) changed
            ) s
            join punctual.message m on m.id = s.id
            order by s.due_at, s.id
            limit $9
        "}
    };
}

statements! {
    const LIST = list_where!("$6::text is null");

    const LIST_OF_STORY = list_where!("m.correlation_id = $6::text");

    const ONE = "
        select coalesce(c.due_at, m.due_at), c.at, coalesce(c.cancelled, 0), ", message_columns!(), "
        from punctual.message m
        left join punctual.timer_change c on c.tenant_id = m.tenant_id
            and c.message_id = m.id
            and c.id = (
                select max(d.id)
                from punctual.timer_change d
                where d.tenant_id = m.tenant_id and d.message_id = m.id
            )
        where m.tenant_id = $1 and m.id = $2 and m.due_at is not null
    ";
}

/// Makes timers of rows, and looks up how far those have come that have fired.
async fn timers(tx: &mut Tx, tenant: Tenant, rows: Vec<Row>) -> Result<Vec<Timer>> {
    let now = tx.now().await?;
    let mut all = rows.into_iter().map(|row| read(row, now)).collect::<Result<Vec<_>>>()?;
    let fired: Vec<i64> =
        all.iter().filter(|t| t.status == TimerStatus::Fired).map(|t| t.message.id.0).collect();
    if fired.is_empty() {
        return Ok(all);
    }
    let progress = progress(tx, tenant, &fired).await?;
    for timer in all.iter_mut().filter(|t| t.status == TimerStatus::Fired) {
        timer.progress = progress.get(&timer.message.id.0).copied();
    }
    Ok(all)
}

fn read(mut row: Row, now: Timestamp) -> Result<Timer> {
    let due_at = row.time(0)?;
    let status = match row.flag(2)? {
        true => TimerStatus::Cancelled,
        false if due_at > now => TimerStatus::Waiting,
        false => TimerStatus::Fired,
    };
    let changed_at = row.maybe_time(1)?;
    Ok(Timer { message: read_message(&mut row, 3)?, due_at, status, progress: None, changed_at })
}

async fn progress(tx: &mut Tx, tenant: Tenant, ids: &[i64]) -> Result<HashMap<i64, TimerProgress>> {
    let in_flight = in_flight(tx, ids).await?;
    let rows = tx.query(PROGRESS, &[tenant.id().into(), Value::Ints(ids)]).await?;
    let mut all = HashMap::with_capacity(rows.len());
    for row in &rows {
        let (id, dead, tried, waits) = (row.int(0)?, row.flag(1)?, row.flag(2)?, row.flag(3)?);
        let progress = match (dead, in_flight.contains(&id), waits) {
            (true, ..) => TimerProgress::Dead,
            (_, true, _) => TimerProgress::InFlight,
            (_, _, true) if tried => TimerProgress::Retrying,
            (_, _, true) => TimerProgress::Queued,
            _ => TimerProgress::Done,
        };
        all.insert(id, progress);
    }
    Ok(all)
}

statements! {
    const PROGRESS = "
        select m.id,
            case
                when exists (select 1 from punctual.dead_letter d where d.message_id = m.id) then 1
                else 0
            end,
            case
                when exists (select 1 from punctual.attempt a where a.message_id = m.id) then 1
                else 0
            end,
            case when ", something_waits!(), " then 1 else 0 end
        from punctual.message m
        where m.tenant_id = $1 and m.id = any($2::bigint[])
    ";
}

/// Which of these messages are under an open claim. Open claims are few.
pub(crate) async fn in_flight(tx: &mut Tx, ids: &[i64]) -> Result<HashSet<i64>> {
    let (first, last) = (ids.iter().min().copied(), ids.iter().max().copied());
    let mut all = HashSet::new();
    for row in tx.query(OPEN_CLAIMS, params![first, last]).await? {
        all.extend(read_items(&row.text(0)?)?.iter().map(|item| item.message().0));
    }
    Ok(all)
}

statements! {
    const OPEN_CLAIMS = "
        select coalesce(open, items)
        from punctual.claim
        where finished_at is null and purpose = 'dispatch' and last_id >= $1 and first_id <= $2
    ";
}
