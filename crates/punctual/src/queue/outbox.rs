//! The outbox: enqueueing inside a transaction of the host's own.
//!
//! The rows that the host writes and the messages about them commit together: rolled back means never sent,
//! committed means handled at least once. An enqueue inserts messages, their work and the ids they were
//! published under, and nothing else; it takes no lock that another enqueuer waits for, unless both publish
//! under the same id. The engine routes a topic that is new.
//!
//! There is an adapter for each driver we know, behind its feature: `outbox::rusqlite`,
//! `outbox::tokio_postgres`, `outbox::sqlx_sqlite`, `outbox::sqlx_postgres`. With any other
//! driver, run [`EnqueueBatch::statements`]: texts with integers and texts as parameters.
//!
//! After the commit call [`Engine::wake`](crate::engine::Engine::wake). The call is not needed for safety:
//! without it the work waits for a notification (PostgreSQL), for the next look at the file (SQLite, a second
//! at most), or for a poll.

mod outcome;
#[cfg(feature = "sqlite")]
pub mod rusqlite;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
mod sqlx;
#[cfg(feature = "sqlx-postgres")]
pub mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
pub mod sqlx_sqlite;
mod texts;
#[cfg(feature = "postgres")]
pub mod tokio_postgres;

use crate::base::clock::{Timestamp, host_now};
use crate::base::error::{Error, Result};
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::{check, name_of, source_of};
use serde::Serialize;
use std::collections::HashSet;

pub use crate::queue::outbox::outcome::{AdmittedId, InsertedMessage};

/// A statement for any driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its text, with `$1`, `$2`, … (PostgreSQL) or `?1`, `?2`, … (SQLite).
    pub sql: &'static str,
    /// Its parameters, in order.
    pub params: Vec<Param>,
}

/// A parameter: only what every driver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// `bigint` on PostgreSQL, `integer` on SQLite.
    Int(i64),
    /// `text`.
    Text(String),
}

/// Messages of one tenant that are to be enqueued: checked, but not written yet.
///
/// ```
/// use punctual::outbox::{EnqueueBatch, Param};
/// use punctual::database::dialect::Dialect;
/// use punctual::{NewMessage, Tenant};
///
/// let message = NewMessage::new("orders", "order.placed", r#"{"order": 7}"#);
/// let enqueue = EnqueueBatch::new(Tenant::DEFAULT, &[message])?;
/// for statement in enqueue.statements(Dialect::Postgres) {
///     for param in &statement.params {
///         match param {
///             Param::Int(_) => { /* bind an i64 */ }
///             Param::Text(_) => { /* bind a string */ }
///         }
///     }
///     // Run statement.sql on the connection whose transaction this belongs to.
/// }
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EnqueueBatch {
    tenant: Tenant,
    /// The messages as one JSON text, without repetitions of an id.
    batch: String,
    slots: Vec<OutcomeSource>,
    notify: bool,
}

/// The data of a message that its outcome is read from.
#[derive(Clone, Debug)]
struct OutcomeSource {
    name: Option<ExternalId>,
    digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ExternalId {
    source: String,
    id: String,
}

impl EnqueueBatch {
    /// Checks a batch, by the rules that hold for every enqueue.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem when one message is not acceptable.
    pub fn new(tenant: Tenant, messages: &[NewMessage]) -> Result<Self> {
        check(messages)?;
        let mut seen = HashSet::new();
        let mut entries = Vec::with_capacity(messages.len());
        let mut slots = Vec::with_capacity(messages.len());
        for message in messages {
            let slot = OutcomeSource::of(message);
            if slot.name.is_none() || seen.insert(slot.name.clone()) {
                entries.push(MessageRow::of(message, &slot));
            }
            slots.push(slot);
        }
        let batch = serde_json::to_string(&entries)
            .map_err(|e| Error::invalid("", format!("cannot be written as JSON: {e}")))?;
        Ok(Self { tenant, batch, slots, notify: true })
    }

    /// Does not notify on commit.
    ///
    /// On PostgreSQL the statement notifies the engines that listen, so that they wake when
    /// the transaction commits. The price: from then to its end, such a commit holds a lock
    /// that is one for the whole server, and commits that notify queue up behind each
    /// other. Where thousands of transactions commit in a second, leave it out and call
    /// [`Engine::wake`](crate::engine::Engine::wake) after the commit instead: one
    /// notification then stands for many. On SQLite this changes nothing.
    #[must_use]
    pub const fn quiet(mut self) -> Self {
        self.notify = false;
        self
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the statements that write the batch: run all of them, in order, on one connection, inside a
    /// transaction; if one fails, roll back. The time of a SQLite enqueue is that of this call, so build the
    /// statements right before they are run.
    ///
    /// The first statement returns a row for each new message: `id`, `source`, `external_id`. A host may
    /// ignore the rows. For the outcome of each message, pass them to [`EnqueueBatch::outcome`].
    #[must_use]
    pub fn statements(&self, dialect: Dialect) -> Vec<Statement> {
        if self.is_empty() {
            return Vec::new();
        }
        let batch = Param::Text(self.batch.clone());
        let statement = |sql, last| {
            let params = vec![Param::Int(self.tenant.id()), batch.clone(), Param::Int(last)];
            Statement { sql, params }
        };
        if dialect == Dialect::Postgres {
            return vec![statement(texts::POSTGRES, i64::from(self.notify))];
        }
        // Here the host is the authority on time, unless the database's clock is manual.
        let now = host_now().as_micros();
        let work = Statement { sql: texts::SQLITE_WORK, params: Vec::new() };
        let mut all = vec![statement(texts::SQLITE_MESSAGE, now), work];
        if self.slots.iter().any(|slot| slot.name.is_some()) {
            all.push(statement(texts::SQLITE_ADMIT, now));
        }
        all
    }
}

impl OutcomeSource {
    fn of(message: &NewMessage) -> Self {
        match name_of(message) {
            None => Self { name: None, digest: String::new() },
            Some((source, id)) => Self {
                name: Some(ExternalId { source: source.to_owned(), id: id.to_owned() }),
                digest: message.content_digest(),
            },
        }
    }
}

/// A message as the statements read it. An absent field is null.
#[derive(Serialize)]
struct MessageRow<'a> {
    topic: &'a str,
    kind: &'a str,
    payload: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurred_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<&'a str>,
}

impl<'a> MessageRow<'a> {
    fn of(m: &'a NewMessage, slot: &OutcomeSource) -> Self {
        Self {
            topic: &m.topic,
            kind: &m.kind,
            payload: &m.payload,
            due_at: m.due_at.map(Timestamp::as_micros),
            occurred_at: m.occurred_at.map(Timestamp::as_micros),
            key: m.key.as_deref(),
            entity_type: m.entity.as_ref().map(|e| e.kind.as_str()),
            entity_id: m.entity.as_ref().map(|e| e.id.as_str()),
            correlation_id: m.correlation_id.as_deref(),
            headers: m.headers.as_deref(),
            source: source_of(m),
            external_id: m.id.as_deref(),
            digest: m.id.as_ref().map(|_| slot.digest.clone()),
            schema_version: m.schema_version.as_deref(),
        }
    }
}
