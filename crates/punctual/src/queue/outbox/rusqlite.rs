//! Enqueueing inside a rusqlite transaction.
//!
//! Begin it as `immediate`: SQLite has one writer, and a transaction that first reads and then writes fails
//! when another connection wrote in between. The file must be the engine's own; a database in memory cannot
//! be shared.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::sqlite::threads::commit_failure;
use crate::database::sqlite::trouble;
use crate::queue::outbox::{AdmittedId, EnqueueBatch, InsertedMessage, Param, Statement};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::EnqueueOutcome;
use rusqlite::{Connection, Row, ToSql};

/// Writes messages in the transaction that is open on this connection (a
/// `rusqlite::Transaction` is one, too); answers in the order given. Without a transaction
/// it is one of its own. After the commit call
/// [`Engine::wake`](crate::engine::Engine::wake).
///
/// # Errors
/// [`crate::Error::Invalid`] with every problem; whatever the error, nothing of the batch
/// is left in the transaction. [`crate::Error::Unknown`] when a transaction of its own failed to commit: the
/// messages may be there after a crash, so enqueue them again under the same ids.
pub fn enqueue(
    connection: &Connection,
    tenant: Tenant,
    messages: &[NewMessage],
) -> Result<Vec<EnqueueOutcome>> {
    run(connection, &EnqueueBatch::new(tenant, messages)?)
}

/// As [`enqueue`], for a batch that was put together before.
///
/// # Errors
/// As [`enqueue`].
pub fn run(connection: &Connection, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    connection.execute_batch("savepoint punctual_outbox").map_err(trouble)?;
    // To release the outermost savepoint is to commit; to release another one writes nothing that could fail.
    let release =
        || connection.execute_batch("release punctual_outbox").map_err(trouble).map_err(commit_failure);
    let result = write(connection, batch).and_then(|all| release().map(|()| all));
    if result.is_err() {
        // When even this fails SQLite has rolled back the whole transaction already.
        connection.execute_batch("rollback to punctual_outbox; release punctual_outbox").ok();
    }
    result
}

fn write(connection: &Connection, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    let mut written = Vec::new();
    for (n, statement) in batch.statements(Dialect::Sqlite).iter().enumerate() {
        let rows = rows(connection, statement, if n == 0 { read_inserted_message } else { unread })?;
        written.extend(rows);
    }
    let known = match batch.duplicates(Dialect::Sqlite, &written) {
        Some(statement) => rows(connection, &statement, read_admitted_id)?,
        None => Vec::new(),
    };
    batch.outcome(&written, &known)
}

fn rows<T>(
    connection: &Connection,
    statement: &Statement,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let params: Vec<&dyn ToSql> = statement.params.iter().map(value).collect();
    let mut prepared = connection.prepare_cached(statement.sql).map_err(trouble)?;
    let rows = prepared.query_map(&*params, read).map_err(trouble)?;
    rows.collect::<rusqlite::Result<_>>().map_err(trouble)
}

/// Runs a statement; answers how many rows it returned.
pub(crate) fn count(connection: &Connection, statement: &Statement) -> Result<usize> {
    let own = connection.is_autocommit();
    let rows = rows(connection, statement, |_| Ok(()));
    Ok(if own { rows.map_err(commit_failure) } else { rows }?.len())
}

fn value(param: &Param) -> &dyn ToSql {
    match param {
        Param::Int(v) => v,
        Param::Text(v) => v,
    }
}

fn read_inserted_message(row: &Row<'_>) -> rusqlite::Result<InsertedMessage> {
    Ok(InsertedMessage { id: row.get(0)?, source: row.get(1)?, external_id: row.get(2)? })
}

fn unread(_: &Row<'_>) -> rusqlite::Result<InsertedMessage> {
    Err(rusqlite::Error::ExecuteReturnedResults)
}

fn read_admitted_id(row: &Row<'_>) -> rusqlite::Result<AdmittedId> {
    Ok(AdmittedId {
        source: row.get(0)?,
        external_id: row.get(1)?,
        digest: row.get(2)?,
        message_id: row.get(3)?,
    })
}
