//! Messages: facts that are written once, together with their work.
//!
//! Enqueueing writes the message and, in the same statement, one work row for each lane
//! its topic is routed to (lane 0 if it has none yet). It takes no lock that another
//! enqueuer or a claimer would wait for. A message that carries its publisher's id is
//! admitted once per (tenant, source, id).

pub(crate) mod addressed;
mod admission;
pub(crate) mod facts;
mod parts;

pub use crate::queue::store::messages::addressed::AddressedMessage;

use crate::base::clock::Timestamp;
use crate::base::error::{Problem, Problems, Result};
use crate::base::id::MessageId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::message::{Entity, Message, NewMessage};
use crate::queue::store::messages::admission::{ADMITTED, admit, read_duplicate};
use crate::queue::store::messages::parts::parts;
use std::collections::BTreeMap;

/// The outcome of one enqueued message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueOutcome {
    /// The message was written.
    New(MessageId),
    /// Its id was admitted before.
    Duplicate {
        /// The first one, while it is kept.
        of: Option<MessageId>,
        /// Whether the content is the same.
        same: bool,
    },
}

impl EnqueueOutcome {
    /// The message this stands for.
    #[must_use]
    pub const fn id(&self) -> Option<MessageId> {
        match self {
            Self::New(id) => Some(*id),
            Self::Duplicate { of, .. } => *of,
        }
    }
}

/// Messages of one tenant that are written together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) tenant: Tenant,
    pub(crate) messages: Vec<NewMessage>,
}

impl Store {
    /// Writes a batch, whole or not at all; answers in the order given.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] with every problem when one message is not acceptable.
    pub fn enqueue(&self, tenant: Tenant, messages: Vec<NewMessage>) -> VerbFuture<'_, Vec<EnqueueOutcome>> {
        VerbFuture::new(async move {
            check(&messages)?;
            self.enqueue_checked(tenant, messages).await
        })
    }

    /// The same for messages that were checked already.
    pub(crate) async fn enqueue_checked(
        &self,
        tenant: Tenant,
        mut messages: Vec<NewMessage>,
    ) -> Result<Vec<EnqueueOutcome>> {
        if messages.iter().all(|m| m.id.is_none()) {
            if messages.len() > 1 {
                return self.enqueue_plain(tenant, messages).await;
            }
            let Some(message) = messages.pop() else { return Ok(Vec::new()) };
            return Ok(vec![self.enqueue_grouped(tenant, message).await?]);
        }
        let enqueued =
            self.of(tenant).write(Batch { tenant, messages }, |tx, b| Box::pin(enqueue_new(tx, b))).await;
        reach(CrashPoint::EnqueuedBeforeAnswer);
        enqueued
    }

    /// Looks whether a message would be a duplicate; `None` if it would be new.
    pub(crate) fn find_duplicate(
        &self,
        tenant: Tenant,
        message: NewMessage,
    ) -> VerbFuture<'_, Option<EnqueueOutcome>> {
        self.of(tenant).read((tenant, message), |tx, (tenant, message)| {
            Box::pin(async move {
                let Some((source, id)) = name_of(message) else { return Ok(None) };
                let row = tx.first(ADMITTED, params![tenant.id(), source, id]).await?;
                row.map(|row| read_duplicate(&row, &message.content_digest())).transpose()
            })
        })
    }

    /// One message of a tenant.
    pub fn message(&self, tenant: Tenant, id: MessageId) -> VerbFuture<'_, Option<Message>> {
        self.of(tenant).read((tenant, id), |tx, (tenant, id)| {
            Box::pin(async move {
                let row = tx.first(MESSAGE_BY_ID, params![tenant.id(), id.0]).await?;
                row.map(|mut row| read_message(&mut row, 0)).transpose()
            })
        })
    }
}

/// Whether a batch may be written: all its problems, or none.
///
/// # Errors
/// [`crate::Error::Invalid`] with every problem.
pub fn check(messages: &[NewMessage]) -> Result<()> {
    let mut problems = Problems::default();
    if messages.len() > limits::BATCH_ITEMS_MAX {
        let most = limits::BATCH_ITEMS_MAX;
        problems.push("", format!("{} messages in one batch, at most {most} are allowed", messages.len()));
        return problems.into_result();
    }
    for (n, message) in messages.iter().enumerate() {
        let found = message.problems().0;
        if found.is_empty() {
            continue;
        }
        let place = if messages.len() == 1 { String::new() } else { format!("[{n}].") };
        problems.0.extend(found.into_iter().map(|p| Problem::new(format!("{place}{}", p.path), p.message)));
    }
    problems.into_result()
}

impl Store {
    /// Writes messages without ids in one statement (Postgres, if they are not large) or one request
    /// (SQLite).
    pub(crate) async fn enqueue_plain(
        &self,
        tenant: Tenant,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<EnqueueOutcome>> {
        let is_one = parts(&messages, NewMessage::bytes).count() == 1;
        let batch = Batch { tenant, messages };
        let enqueued = if is_one {
            self.write_alone(batch, |tx, b| Box::pin(enqueue_all(tx, b))).await
        } else {
            self.write(batch, |tx, b| Box::pin(enqueue_all(tx, b))).await
        };
        reach(CrashPoint::EnqueuedBeforeAnswer);
        enqueued
    }
}

/// Writes messages without ids.
pub(crate) async fn enqueue_all(tx: &mut Tx, batch: &Batch) -> Result<Vec<EnqueueOutcome>> {
    let all: Vec<&NewMessage> = batch.messages.iter().collect();
    Ok(insert(tx, batch.tenant, &all).await?.into_iter().map(EnqueueOutcome::New).collect())
}

/// The first message of a batch for each (source, id).
type FirstByName<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// Some messages carry ids: those are admitted first, and only new ones are written.
pub(crate) async fn enqueue_new(tx: &mut Tx, batch: &Batch) -> Result<Vec<EnqueueOutcome>> {
    let now = tx.now().await?;
    let mut first: FirstByName<'_> = BTreeMap::new();
    let mut outcome: Vec<Option<EnqueueOutcome>> = vec![None; batch.messages.len()];
    let mut fresh: Vec<usize> = Vec::new();
    for (n, message) in batch.messages.iter().enumerate() {
        match name_of(message) {
            None => fresh.push(n),
            Some(name) => {
                first.entry(name).or_insert(n);
            }
        }
    }
    // In the order of their names, so that two batches never wait for each other in a circle.
    for (name, n) in &first {
        match admit(tx, batch.tenant, &batch.messages[*n], *name, now).await? {
            None => fresh.push(*n),
            duplicate => outcome[*n] = duplicate,
        }
    }
    fresh.sort_unstable();
    let written: Vec<&NewMessage> = fresh.iter().map(|n| &batch.messages[*n]).collect();
    for (n, id) in fresh.iter().zip(insert(tx, batch.tenant, &written).await?) {
        outcome[*n] = Some(EnqueueOutcome::New(id));
    }
    reach(CrashPoint::EnqueuedBeforeCommit);
    let all = batch.messages.iter().zip(outcome.clone());
    Ok(all.map(|(m, known)| known.unwrap_or_else(|| same_batch(m, batch, &first, &outcome))).collect())
}

/// The source and the id under which a message is admitted, if it carries an id.
pub(crate) fn name_of(message: &NewMessage) -> Option<(&str, &str)> {
    Some((message.source.as_deref().unwrap_or_default(), message.id.as_deref()?))
}

/// The source as it is kept: a message with an id and no source is found by both, too.
pub(crate) fn source_of(message: &NewMessage) -> Option<&str> {
    name_of(message).map(|(source, _)| source).or(message.source.as_deref())
}

/// The second of two messages with one id in the same batch.
fn same_batch(
    message: &NewMessage,
    batch: &Batch,
    first: &FirstByName<'_>,
    outcome: &[Option<EnqueueOutcome>],
) -> EnqueueOutcome {
    let n = name_of(message).and_then(|name| first.get(&name)).copied().unwrap_or_default();
    let same = batch.messages[n].content_digest() == message.content_digest();
    EnqueueOutcome::Duplicate { of: outcome[n].as_ref().and_then(EnqueueOutcome::id), same }
}

/// Writes messages and their work; ids in the order given.
pub(crate) async fn insert(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => insert_arrays(tx, tenant, messages).await,
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(_) => insert_rows(tx, tenant, messages).await,
    }
}

/// Large messages in several statements of the transaction. Later ones have higher ids, as they have been
/// read from the sequence later.
#[cfg(feature = "postgres")]
async fn insert_arrays(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    let mut ids = Vec::with_capacity(messages.len());
    for part in parts(messages, |message| message.bytes()) {
        ids.extend(insert_part(tx, tenant, part).await?);
    }
    Ok(ids)
}

#[cfg(feature = "postgres")]
async fn insert_part(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    let texts = |pick: fn(&NewMessage) -> Option<&str>| messages.iter().map(|m| pick(m)).collect::<Vec<_>>();
    let payloads = texts(|m| Some(&m.payload));
    if let Some((topic, kind)) = uniform(messages) {
        let values = [tenant.id().into(), topic.into(), kind.into(), Value::Texts(&payloads)];
        let rows = tx.query(INSERT_UNIFORM, &values).await?;
        let mut ids = rows.first().map_or_else(|| Ok(Vec::new()), |row| row.ints(0))?;
        ids.sort_unstable();
        return Ok(ids.into_iter().map(MessageId).collect());
    }
    let times = |pick: fn(&NewMessage) -> Option<Timestamp>| {
        messages.iter().map(|m| pick(m).map(Timestamp::as_micros)).collect::<Vec<_>>()
    };
    let (due, occurred) = (times(|m| m.due_at), times(|m| m.occurred_at));
    let lists: [Vec<Option<&str>>; 10] = [
        texts(|m| Some(&m.topic)),
        texts(|m| Some(&m.kind)),
        texts(|m| m.key.as_deref()),
        texts(|m| m.entity.as_ref().map(|e| e.kind.as_str())),
        texts(|m| m.entity.as_ref().map(|e| e.id.as_str())),
        texts(|m| m.correlation_id.as_deref()),
        texts(|m| m.headers.as_deref()),
        texts(source_of),
        texts(|m| m.id.as_deref()),
        texts(|m| m.schema_version.as_deref()),
    ];
    let mut values = vec![tenant.id().into(), Value::Texts(&payloads)];
    values.extend([Value::MaybeInts(&due), Value::MaybeInts(&occurred)]);
    values.extend(lists.iter().map(|list| Value::Texts(list)));
    ids(&tx.query(INSERT_FULL, &values).await?)
}

/// Messages of one topic and kind with nothing but a payload, by far the most common
/// batch, are written with fewer parameters.
fn uniform<'a>(messages: &[&'a NewMessage]) -> Option<(&'a str, &'a str)> {
    let first = messages.first()?;
    let alike = |m: &&NewMessage| {
        let texts = [&m.key, &m.correlation_id, &m.headers, &m.source, &m.id, &m.schema_version];
        m.topic == first.topic
            && m.kind == first.kind
            && m.entity.is_none()
            && m.due_at.is_none()
            && m.occurred_at.is_none()
            && texts.iter().all(|t| t.is_none())
    };
    messages.iter().all(alike).then_some((&first.topic, &first.kind))
}

/// Ids rise in input order.
#[cfg(feature = "postgres")]
fn ids(rows: &[Row]) -> Result<Vec<MessageId>> {
    let mut ids = rows.iter().map(|row| row.int(0).map(MessageId)).collect::<Result<Vec<_>>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// The clock is asked in a query of its own, which runs once, not once per row.
#[cfg(feature = "postgres")]
const INSERT_UNIFORM: &str = "\
    with n as materialized (select punctual.now_us() as now), \
    m as (insert into punctual.message (tenant_id, topic, kind, payload, created_at) \
        select $1::int, $2::text, $3::text, p, (select now from n) from unnest($4::text[]) p returning id), \
    w as (insert into punctual.work (message_id, lane_id, due_at) \
        select m.id, r.lane_id, (select now from n) from m cross join ( \
            select lane_id from punctual.route where tenant_id = $1::int and topic = $2::text \
            union all select 0 where not exists ( \
                select 1 from punctual.route where tenant_id = $1::int and topic = $2::text)) r) \
    select array_agg(id) from m";

#[cfg(feature = "postgres")]
const INSERT_FULL: &str = "\
    with m as (insert into punctual.message (tenant_id, topic, kind, payload, created_at, due_at, \
            occurred_at, key, entity_type, entity_id, correlation_id, headers, source, external_id, \
            schema_version) \
        select $1::int, e.topic, e.kind, e.payload, (select punctual.now_us()), e.due_at, e.occurred_at, \
            e.key, e.entity_type, e.entity_id, e.correlation_id, e.headers, e.source, e.external_id, \
            e.schema_version \
        from (select unnest($2::text[]) payload, unnest($3::bigint[]) due_at, \
            unnest($4::bigint[]) occurred_at, unnest($5::text[]) topic, unnest($6::text[]) kind, \
            unnest($7::text[]) key, unnest($8::text[]) entity_type, unnest($9::text[]) entity_id, \
            unnest($10::text[]) correlation_id, unnest($11::text[]) headers, unnest($12::text[]) source, \
            unnest($13::text[]) external_id, unnest($14::text[]) schema_version) e \
        returning id, tenant_id, topic, key, coalesce(due_at, created_at) as due_at), \
    w as (insert into punctual.work (message_id, lane_id, due_at, key) \
        select m.id, coalesce(r.lane_id, 0), m.due_at, m.key from m \
        left join punctual.route r on r.tenant_id = m.tenant_id and r.topic = m.topic) \
    select id from m";

#[cfg(feature = "sqlite")]
async fn insert_rows(tx: &mut Tx, tenant: Tenant, messages: &[&NewMessage]) -> Result<Vec<MessageId>> {
    let now = tx.now().await?;
    match uniform(messages) {
        Some((topic, kind)) if messages.len() == 1 => {
            let row = params![tenant.id(), topic, kind, &messages[0].payload, now];
            tx.execute(INSERT_MESSAGE_PLAIN, row).await?;
        }
        Some((topic, kind)) => {
            let payloads: Vec<Option<&str>> = messages.iter().map(|m| Some(m.payload.as_str())).collect();
            let row = [tenant.id().into(), topic.into(), kind.into(), Value::Texts(&payloads), now.into()];
            tx.execute(INSERT_MESSAGES_UNIFORM, &row).await?;
        }
        None => {
            let rows: Vec<_> = messages.iter().map(|m| columns(tenant, m, now)).collect();
            tx.each(INSERT_MESSAGE, &rows).await?;
        }
    }
    // The writer is alone, so the ids of one run of inserts follow each other.
    let last = tx.last_id();
    let first = last - i64::try_from(messages.len()).unwrap_or(0) + 1;
    match uniform(messages) {
        Some((topic, _)) => {
            tx.execute(INSERT_WORK_UNIFORM, params![first, last, tenant.id(), topic, now]).await?;
        }
        None => {
            tx.execute(INSERT_WORK_OF, params![first, last]).await?;
        }
    }
    Ok((first..=last).map(MessageId).collect())
}

#[cfg(feature = "sqlite")]
const INSERT_MESSAGE_PLAIN: &str = "insert into punctual.message \
    (tenant_id, topic, kind, payload, created_at) values ($1, $2, $3, $4, $5)";
#[cfg(feature = "sqlite")]
const INSERT_MESSAGES_UNIFORM: &str = "insert into punctual.message \
    (tenant_id, topic, kind, payload, created_at) select $1, $2, $3, value, $5 from rarray($4)";
/// The lanes are looked up once, then each takes all messages.
#[cfg(feature = "sqlite")]
const INSERT_WORK_UNIFORM: &str = "insert into punctual.work (message_id, lane_id, due_at) \
    select m.id, r.lane_id, $5 from ( \
        select lane_id from punctual.route where tenant_id = $3 and topic = $4 \
        union all select 0 where not exists ( \
            select 1 from punctual.route where tenant_id = $3 and topic = $4)) r \
    cross join punctual.message m where m.id between $1 and $2";
#[cfg(feature = "sqlite")]
const INSERT_WORK_OF: &str = "insert into punctual.work (message_id, lane_id, due_at, key) \
    select m.id, coalesce(r.lane_id, 0), coalesce(m.due_at, m.created_at), m.key \
    from punctual.message m \
    left join punctual.route r on r.tenant_id = m.tenant_id and r.topic = m.topic \
    where m.id between $1 and $2";

fn columns<'a>(tenant: Tenant, m: &'a NewMessage, now: Timestamp) -> Vec<Value<'a>> {
    let micros = |t: Option<Timestamp>| t.map(Timestamp::as_micros);
    vec![
        tenant.id().into(),
        m.topic.as_str().into(),
        m.kind.as_str().into(),
        m.payload.as_str().into(),
        now.into(),
        micros(m.due_at).into(),
        micros(m.occurred_at).into(),
        m.key.as_deref().into(),
        m.entity.as_ref().map(|e| e.kind.as_str()).into(),
        m.entity.as_ref().map(|e| e.id.as_str()).into(),
        m.correlation_id.as_deref().into(),
        m.headers.as_deref().into(),
        source_of(m).into(),
        m.id.as_deref().into(),
        m.schema_version.as_deref().into(),
    ]
}

macro_rules! insert_message {
    () => {
        "insert into punctual.message (tenant_id, topic, kind, payload, created_at, due_at, occurred_at, \
            key, entity_type, entity_id, correlation_id, headers, source, external_id, schema_version) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    };
}
pub(crate) use insert_message;

#[cfg(feature = "sqlite")]
const INSERT_MESSAGE: &str = insert_message!();

/// One work row; also for what comes back into the table one by one.
pub(crate) const INSERT_WORK: &str =
    "insert into punctual.work (message_id, lane_id, due_at, key) values ($1, $2, $3, $4)";

/// The columns that [`read_message`] reads, from a table called `m`.
macro_rules! message_columns {
    () => {
        "m.id, m.tenant_id, m.topic, m.kind, m.payload, m.key, m.entity_type, m.entity_id, \
         m.correlation_id, m.headers, m.created_at, m.occurred_at, m.due_at"
    };
}
pub(crate) use message_columns;

/// The payload of the message whose id stands in a column.
macro_rules! payload_of {
    ($id:literal) => {
        concat!("(select m.payload from punctual.message m where m.id = ", $id, ")")
    };
}
pub(crate) use payload_of;

/// The times at which messages were due; one that is not there any more is left out.
pub(crate) async fn due_times(tx: &mut Tx, ids: &[i64]) -> Result<BTreeMap<MessageId, Timestamp>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = tx.query(DUE_TIMES, &[Value::Ints(ids)]).await?;
    rows.iter().map(|row| Ok((MessageId(row.int(0)?), row.time(1)?))).collect()
}

const DUE_TIMES: &str =
    "select id, coalesce(due_at, created_at) from punctual.message where id = any($1::bigint[])";

pub(crate) const MESSAGE_BY_ID: &str =
    concat!("select ", message_columns!(), " from punctual.message m where m.tenant_id = $1 and m.id = $2");

/// Reads a message whose columns begin at `at`.
pub(crate) fn read_message(row: &mut Row, at: usize) -> Result<Message> {
    let created_at = row.time(at + 10)?;
    let entity = match (row.take_maybe_text(at + 6)?, row.take_maybe_text(at + 7)?) {
        (Some(kind), Some(id)) => Some(Entity { kind, id }),
        _ => None,
    };
    Ok(Message {
        id: MessageId(row.int(at)?),
        tenant: Tenant::from_row(row.int(at + 1)?),
        topic: row.take_text(at + 2)?,
        kind: row.take_text(at + 3)?,
        payload: row.take_text(at + 4)?,
        key: row.take_maybe_text(at + 5)?,
        entity,
        correlation_id: row.take_maybe_text(at + 8)?,
        headers: row.take_maybe_text(at + 9)?,
        created_at,
        occurred_at: row.maybe_time(at + 11)?.unwrap_or(created_at),
        due_at: row.maybe_time(at + 12)?.unwrap_or(created_at),
    })
}
