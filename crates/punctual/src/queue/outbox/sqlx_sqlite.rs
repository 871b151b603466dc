//! Enqueueing inside a sqlx transaction on SQLite.
//!
//! Begin it with `pool.begin_with("begin immediate")`: SQLite has one writer, and a transaction that first
//! reads and then writes fails when another connection wrote in between. The file must be the engine's own; a
//! database in memory cannot be shared.

use crate::base::error::{Error, Result};
use crate::base::tenant::Tenant;
use crate::database::components::missing_in_sqlite;
use crate::database::dialect::Dialect;
use crate::database::sqlite::threads::is_refusal;
use crate::queue::outbox::sqlx::statements_of;
use crate::queue::outbox::{AdmittedId, EnqueueBatch, InsertedMessage, Param, Statement};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::EnqueueOutcome;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Error as SqlxError, Row};

/// Writes messages in the caller's transaction (`&mut *tx`), which sqlx must have begun;
/// answers in the order given. On a bare connection it is a transaction of its own. After
/// the commit call [`Engine::wake`](crate::engine::Engine::wake).
///
/// # Errors
/// [`Error::Invalid`] with every problem; whatever the error, nothing of the batch is left
/// in the transaction. [`Error::Unknown`] when a transaction of its own failed to commit: the messages may be
/// there after a crash, so enqueue them again under the same ids.
pub async fn enqueue(
    connection: &mut SqliteConnection,
    tenant: Tenant,
    messages: &[NewMessage],
) -> Result<Vec<EnqueueOutcome>> {
    run(connection, &EnqueueBatch::new(tenant, messages)?).await
}

/// As [`enqueue`], for a batch that was put together before.
///
/// # Errors
/// As [`enqueue`].
pub async fn run(connection: &mut SqliteConnection, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    // A savepoint inside the caller's transaction. Dropped half-way, it is rolled back.
    let mut inner = connection.begin().await.map_err(trouble)?;
    let outcome = write(&mut inner, batch).await?;
    // To release the outermost savepoint is to commit; to release another one writes nothing that could fail.
    inner.commit().await.map_err(trouble).map_err(commit_failure)?;
    Ok(outcome)
}

async fn write(connection: &mut SqliteConnection, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    let mut written = Vec::new();
    for statement in batch.statements(Dialect::Sqlite) {
        written.extend(rows(connection, statement, read_inserted_message).await?);
    }
    let known = match batch.duplicates(Dialect::Sqlite, &written) {
        Some(statement) => rows(connection, statement, read_admitted_id).await?,
        None => Vec::new(),
    };
    batch.outcome(&written, &known)
}

statements_of!(SqliteConnection, SqliteRow);

/// Turns the error of a commit into [`Error::Unknown`], unless SQLite refused it before it wrote anything.
fn commit_failure(error: Error) -> Error {
    match error {
        Error::Unavailable(source) | Error::Database(source)
            if !source.downcast_ref().and_then(code).is_some_and(is_refusal) =>
        {
            Error::Unknown(source)
        }
        refused => refused,
    }
}

fn code(error: &SqlxError) -> Option<i32> {
    error.as_database_error().and_then(|refused| refused.code()?.parse().ok())
}

/// Busy, locked, out of memory, read-only, an I/O error, a full disk, not to be opened.
const UNAVAILABLE: [i32; 7] = [5, 6, 7, 8, 10, 13, 14];

fn trouble(e: SqlxError) -> Error {
    let unavailable = match &e {
        // The low byte of an extended result code is the code itself.
        SqlxError::Database(_) => code(&e).is_some_and(|code| UNAVAILABLE.contains(&(code & 0xff))),
        SqlxError::Io(_) | SqlxError::PoolTimedOut | SqlxError::PoolClosed | SqlxError::WorkerCrashed => true,
        _ => false,
    };
    match e.as_database_error().and_then(|refused| missing_in_sqlite(refused.message())) {
        Some(missing) => missing,
        None if unavailable => Error::Unavailable(e.into()),
        None => Error::Database(e.into()),
    }
}
