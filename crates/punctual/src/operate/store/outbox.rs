//! The outbox as operators look at it: every message of every tenant, with its status.
//!
//! No status is stored with a message. The status follows from other rows: a dead letter, work, a claim, a
//! consumer.
//!
//! | status | when, the first that holds |
//! |---|---|
//! | `Failed` | it has a dead letter, whatever its other consumers did |
//! | `Pending` | work of it waits where a consumer takes it, or is in flight |
//! | `Unconsumed` | it waits in a queue that was never declared or claimed from, and that has no handler |
//! | `Cancelled` | it is a timer that was cancelled |
//! | `Published` | nothing is left of it |
//!
//! Lists go by id, the newest first. A page looks at a bounded number of messages
//! ([`limits::OUTBOX_EXAMINED_MAX`]), so one that filters may be short, or empty, and still have a next. A
//! filter by time finds its place by bisection, since ids rise with time but for the length of a transaction
//! ([`limits::OUTBOX_TIME_SLACK`]); messages that were written under a manual clock may lie anywhere, so
//! there all are walked.
//!
//! The time of processing is known from the claim, for as long as claims are kept.

pub mod failed_messages;

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::MessageId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::message::Entity;
use crate::queue::store::settle::read_items;
use crate::queue::store::timers::in_flight;
use crate::queue::store::waiting_work::{something_waits, waits_in_a_lane};
use std::collections::HashMap;

/// The number of a status as a literal, by which statements name it.
macro_rules! outbox_status {
    (Pending) => {
        0
    };
    (Published) => {
        1
    };
    (Failed) => {
        2
    };
    (Unconsumed) => {
        3
    };
    (Cancelled) => {
        4
    };
}

/// The status of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxStatus {
    /// The message waits for a consumer, or is in flight.
    Pending = outbox_status!(Pending),
    /// Nothing is left of it.
    Published = outbox_status!(Published),
    /// The message has a dead letter.
    Failed = outbox_status!(Failed),
    /// The message waits where no consumer takes it.
    Unconsumed = outbox_status!(Unconsumed),
    /// A timer that was cancelled.
    Cancelled = outbox_status!(Cancelled),
}

impl OutboxStatus {
    /// All of them, with their words, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Pending, "Pending"),
        (Self::Published, "Published"),
        (Self::Failed, "Failed"),
        (Self::Unconsumed, "Unconsumed"),
        (Self::Cancelled, "Cancelled"),
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL[self.number()].1
    }

    /// The status of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(status, _)| *status)
    }

    /// Its number in statements.
    const fn number(self) -> usize {
        self as usize
    }
}

/// Selects messages; a field that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct OutboxFilter {
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// Of this topic.
    pub topic: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Only messages with this status.
    pub status: Option<OutboxStatus>,
    /// Written at this moment or later.
    pub from: Option<Timestamp>,
    /// Written before this moment.
    pub to: Option<Timestamp>,
}

/// A message with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxMessage {
    /// Its id.
    pub id: MessageId,
    /// The tenant of the message.
    pub tenant: Tenant,
    /// Its topic.
    pub topic: String,
    /// Its kind.
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// The entity of the message.
    pub entity: Option<Entity>,
    /// Its story.
    pub correlation_id: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// The status of the message.
    pub status: OutboxStatus,
    /// When it was done, or died; unknown for what was done long ago.
    pub processed_at: Option<Timestamp>,
    /// The number of attempts of all consumers: the failed ones, and the one that is under way or succeeded.
    pub attempts: u32,
    /// The last error, unless a later attempt succeeded.
    pub last_error: Option<String>,
}

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxPage {
    /// The messages, the newest first.
    pub messages: Vec<OutboxMessage>,
    /// Where the next page begins: before this id; `None` at the end.
    pub next: Option<MessageId>,
}

impl Store {
    /// Messages before `before`, the newest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn outbox(
        &self,
        filter: OutboxFilter,
        before: MessageId,
        limit: usize,
    ) -> VerbFuture<'_, OutboxPage> {
        self.read((filter, before, limit), |tx, (filter, before, limit)| {
            Box::pin(async move {
                let ids = between(tx, filter, *before).await?;
                list(tx, filter, ids, *limit).await
            })
        })
    }

    /// Reads one message of a tenant with its status.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn outbox_message(&self, tenant: Tenant, id: MessageId) -> VerbFuture<'_, Option<OutboxMessage>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let filter = OutboxFilter { tenant: Some(*tenant), ..OutboxFilter::default() };
                Ok(list(tx, &filter, (id.0, id.0.saturating_add(1)), 1).await?.messages.pop())
            })
        })
    }
}

/// The ids that a page is about: from the first on, before the second.
async fn between(tx: &mut Tx, filter: &OutboxFilter, before: MessageId) -> Result<(i64, i64)> {
    let (mut from, mut to) = (0, before.0);
    if let Some(moment) = filter.from {
        let row = tx.first(SEEK, params![moment.minus(limits::OUTBOX_TIME_SLACK)]).await?;
        from = row.map_or(Ok(0), |row| row.int(0))?;
    }
    if let Some(moment) = filter.to {
        let row = tx.first(SEEK, params![moment.plus(limits::OUTBOX_TIME_SLACK)]).await?;
        to = row.map_or(Ok(to), |row| row.int(1))?.min(to);
    }
    Ok((from, to))
}

statements! {
    /// Bisection: the first id of a message that is not older than `$1`, in both columns. On a manual clock
    /// the first and the last id there are.
    const SEEK = "
        with recursive seek(low, high, step) as (
            select coalesce(min(id), 0), coalesce(max(id), 0) + 1, 0
            from punctual.message
            union all
            select
                case
                    when (
                        select m.created_at
                        from punctual.message m
                        where m.id >= (low + high) / 2
                        order by m.id
                        limit 1
                    ) < $1 then (low + high) / 2 + 1
                    else low
                end,
                case
                    when (
                        select m.created_at
                        from punctual.message m
                        where m.id >= (low + high) / 2
                        order by m.id
                        limit 1
                    ) < $1 then high
                    else (low + high) / 2
                end,
                step + 1
            from seek
            where low < high
                and step < 64
                and not exists (select 1 from punctual.clock c where c.manual = 1)
        )
        select low, high
        from seek
        order by step desc
        limit 1
    ";
}

async fn list(
    tx: &mut Tx,
    filter: &OutboxFilter,
    (from, to): (i64, i64),
    limit: usize,
) -> Result<OutboxPage> {
    let held = in_flight(tx, &[from, to]).await?;
    let held: Vec<i64> = held.into_iter().collect();
    let examined = i64::try_from(limits::OUTBOX_EXAMINED_MAX).unwrap_or(i64::MAX);
    let status = filter.status.map(|status| i64::try_from(status.number()).unwrap_or(0));
    let values = [
        from.into(),
        to.into(),
        examined.into(),
        filter.tenant.map(Tenant::id).into(),
        filter.topic.as_deref().into(),
        filter.kind.as_deref().into(),
        filter.from.unwrap_or(Timestamp::MIN).into(),
        filter.to.unwrap_or(Timestamp::from_micros(i64::MAX)).into(),
        Value::Ints(&held),
        status.into(),
        i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX).into(),
    ];
    let failed = filter.status == Some(OutboxStatus::Failed);
    let rows = tx.query(if failed { LIST_FAILED } else { LIST }, &values).await?;
    let mut messages = rows.iter().map(|row| read(row, &held)).collect::<Result<Vec<_>>>()?;
    let next = if messages.len() > limit {
        messages.truncate(limit);
        messages.last().map(|last| last.id)
    } else {
        // All examined messages are shown; older ones belong to the next page.
        let row = tx.first(if failed { EXAMINED_FAILED } else { EXAMINED }, &values[..3]).await?;
        let row = row.filter(|row| row.int(1).is_ok_and(|count| count >= examined));
        row.map(|row| row.int(0).map(MessageId)).transpose()?
    };
    note_ends(tx, &mut messages).await?;
    Ok(OutboxPage { messages, next })
}

/// The shown columns of a message, and its due time. Not its payload: pages look at many.
macro_rules! columns {
    () => {
        "
        m.id, m.tenant_id, m.topic, m.kind, m.key, m.entity_type, m.entity_id, m.correlation_id,
        m.created_at, m.due_at
        "
    };
}

/// The newest messages of a range.
macro_rules! newest {
    () => {
        concat! {"
            select ", columns!(), "
            from punctual.message m
            where m.id >= $1 and m.id < $2
            order by m.id desc
            limit $3
        "}
    };
}

/// The newest messages of a range that have a dead letter.
macro_rules! newest_failed {
    () => {
        concat! {"
            select ", columns!(), "
            from punctual.message m
            where m.id in (
                select d.message_id
                from punctual.dead_letter d
                where d.message_id >= $1 and d.message_id < $2
                order by d.message_id desc
                limit $3
            )
            order by m.id desc
        "}
    };
}

/// Whether a lane `l` has a consumer: it belongs to a subscription, or to an own queue that was declared or
/// is handled.
macro_rules! taken {
    () => {
        waits_in_a_lane!(
            "
            (
                l.subscription <> ''
                    or l.declared = 1
                    or exists (select 1 from punctual.handled_topic h where h.topic = l.topic)
            )
            "
        )
    };
}

macro_rules! list_of {
    ($messages:expr) => {
        concat! {"
            select s.id, s.tenant_id, s.topic, s.kind, s.key, s.entity_type, s.entity_id,
                s.correlation_id, s.created_at, s.status,
                (select count(*) from punctual.attempt a where a.message_id = s.id),
                (
                    select a.error
                    from punctual.attempt a
                    where a.message_id = s.id
                    order by a.id desc
                    limit 1
                ),
                (
                    select d.error
                    from punctual.dead_letter d
                    where d.message_id = s.id
                    order by d.id desc
                    limit 1
                ),
                (select max(d.died_at) from punctual.dead_letter d where d.message_id = s.id)
            from (
                select ", columns!(), ",
                    case
                        when exists (
                            select 1
                            from punctual.dead_letter d
                            where d.message_id = m.id
                        ) then ", outbox_status!(Failed), "
                        when m.id = any($9::bigint[]) then ", outbox_status!(Pending), "
                        when ", taken!(), " then ", outbox_status!(Pending), "
                        when ", something_waits!(), " then ", outbox_status!(Unconsumed), "
                        when m.due_at is not null
                            and (
                                select c.cancelled
                                from punctual.timer_change c
                                where c.tenant_id = m.tenant_id and c.message_id = m.id
                                order by c.id desc
                                limit 1
                            ) = 1 then ", outbox_status!(Cancelled), "
                        else ", outbox_status!(Published), "
                    end as status
                from (", $messages, ") m
                where ($4::bigint is null or m.tenant_id = $4)
                    and ($5::text is null or m.topic = $5)
                    and ($6::text is null or m.kind = $6)
                    and m.created_at >= $7
                    and m.created_at < $8
            ) s
            where ($10::bigint is null or s.status = $10)
            order by s.id desc
            limit $11
        "}
    };
}

statements! {
    const LIST = list_of!(newest!());

    const LIST_FAILED = list_of!(newest_failed!());

    const EXAMINED = "
        select min(e.id), count(*)
        from (", newest!(), ") e
    ";

    const EXAMINED_FAILED = "
        select min(e.id), count(*)
        from (", newest_failed!(), ") e
    ";
}

fn read(row: &Row, held: &[i64]) -> Result<OutboxMessage> {
    let (id, number) = (row.int(0)?, usize::try_from(row.int(9)?).unwrap_or(0));
    let status = OutboxStatus::ALL.get(number).map_or(OutboxStatus::Pending, |(status, _)| *status);
    let (failures, failed, died) = (row.count(10)?, row.maybe_text(11)?, row.maybe_text(12)?);
    let one_more = u32::from(status == OutboxStatus::Published || held.contains(&id));
    let last_error = match status {
        OutboxStatus::Failed => died,
        OutboxStatus::Pending => failed,
        _ => None,
    };
    let entity = row.maybe_text(5)?.zip(row.maybe_text(6)?);
    Ok(OutboxMessage {
        id: MessageId(id),
        tenant: Tenant::from_row(row.int(1)?),
        topic: row.text(2)?,
        kind: row.text(3)?,
        key: row.maybe_text(4)?,
        entity: entity.map(|(kind, id)| Entity { kind, id }),
        correlation_id: row.maybe_text(7)?,
        created_at: row.time(8)?,
        status,
        processed_at: row.maybe_time(13)?,
        attempts: failures + one_more,
        last_error,
    })
}

/// Claims that are looked through for when the messages of a page were done.
const CLAIMS_READ_MAX: i64 = 500;

/// Notes when messages were done, as far as their claims are still known.
async fn note_ends(tx: &mut Tx, messages: &mut [OutboxMessage]) -> Result<()> {
    let done = |message: &&mut OutboxMessage| message.status == OutboxStatus::Published;
    let mut ends: HashMap<i64, &mut OutboxMessage> =
        messages.iter_mut().filter(done).map(|message| (message.id.0, message)).collect();
    let (Some(first), Some(last)) = (ends.keys().min().copied(), ends.keys().max().copied()) else {
        return Ok(());
    };
    let sql = tx.dialect().pick(ENDED_POSTGRES, ENDED_SQLITE);
    for row in tx.query(sql, params![first, last, CLAIMS_READ_MAX]).await? {
        let at = row.time(1)?;
        for item in read_items(&row.text(0)?)? {
            if let Some(message) = ends.get_mut(&item.message().0) {
                message.processed_at = message.processed_at.max(Some(at));
            }
        }
    }
    Ok(())
}

statements! {
    /// By ranges of blocks here, …
    const ENDED_POSTGRES = "
        select items, finished_at
        from punctual.claim
        where purpose = 'dispatch'
            and last_id >= $1
            and first_id <= $2
            and finished_at is not null
            and ending = 'settled'
        order by finished_at desc
        limit $3
    ";

    /// … and in the order of the index there: claims that begin behind the page are soon all there are.
    const ENDED_SQLITE = "
        select c.items, c.finished_at
        from (
            select items, first_id, finished_at, ending
            from punctual.claim
            where purpose = 'dispatch' and last_id >= $1
            order by last_id
            limit $3
        ) c
        where c.first_id <= $2 and c.finished_at is not null and c.ending = 'settled'
    ";
}
