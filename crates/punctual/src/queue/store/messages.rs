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
mod rows;

pub use crate::queue::store::messages::addressed::AddressedMessage;
pub(crate) use crate::queue::store::messages::rows::{INSERT_WORK, columns, insert, insert_message};

use crate::base::clock::Timestamp;
use crate::base::error::{Problem, Problems, Result};
use crate::base::id::MessageId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::statement::statements;
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

/// The columns that [`read_message`] reads, from a table called `m`.
macro_rules! message_columns {
    () => {
        "
        m.id, m.tenant_id, m.topic, m.kind, m.payload, m.key, m.entity_type, m.entity_id,
        m.correlation_id, m.headers, m.created_at, m.occurred_at, m.due_at
        "
    };
}
pub(crate) use message_columns;

/// The payload of the message whose id stands in a column.
macro_rules! payload_of {
    ($id:literal) => {
        concat! {"
            (select m.payload from punctual.message m where m.id = ", $id, ")
        "}
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

statements! {
    const DUE_TIMES = "
        select id, coalesce(due_at, created_at)
        from punctual.message
        where id = any($1::bigint[])
    ";

    pub(crate) const MESSAGE_BY_ID = "
        select ", message_columns!(), "
        from punctual.message m
        where m.tenant_id = $1 and m.id = $2
    ";
}

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
