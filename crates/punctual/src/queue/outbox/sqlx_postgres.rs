//! Enqueueing inside a sqlx transaction on PostgreSQL.

use crate::base::error::{Error, Result};
use crate::base::tenant::Tenant;
use crate::database::components::missing_in_postgres;
use crate::database::dialect::Dialect;
use crate::database::postgres::is_unavailable;
use crate::queue::outbox::sqlx::statements_of;
use crate::queue::outbox::{AdmittedId, EnqueueBatch, InsertedMessage, Param, Statement};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::EnqueueOutcome;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Error as SqlxError, Row};

/// Writes messages in the caller's transaction (`&mut *tx`); answers in the order given.
/// On a bare connection it is a transaction of its own. After the commit call
/// [`Engine::wake`](crate::engine::Engine::wake).
///
/// # Errors
/// [`Error::Invalid`] with every problem, before anything is sent to the server. [`Error::Unknown`] when the
/// connection broke in a transaction of its own: enqueue the messages again under the same ids.
pub async fn enqueue(
    connection: &mut PgConnection,
    tenant: Tenant,
    messages: &[NewMessage],
) -> Result<Vec<EnqueueOutcome>> {
    run(connection, &EnqueueBatch::new(tenant, messages)?).await
}

/// As [`enqueue`], for a batch that was put together before, such as one that is
/// [`quiet`](EnqueueBatch::quiet).
///
/// # Errors
/// As [`enqueue`].
pub async fn run(connection: &mut PgConnection, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    let own = !connection.is_in_transaction();
    let done = write(connection, batch).await;
    if own { done.map_err(commit_failure) } else { done }
}

async fn write(connection: &mut PgConnection, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    let mut written = Vec::new();
    for statement in batch.statements(Dialect::Postgres) {
        written.extend(rows(connection, statement, read_inserted_message).await?);
    }
    let known = match batch.duplicates(Dialect::Postgres, &written) {
        Some(statement) => rows(connection, statement, read_admitted_id).await?,
        None => Vec::new(),
    };
    batch.outcome(&written, &known)
}

statements_of!(PgConnection, PgRow);

/// Turns the error of a statement that commits by itself into [`Error::Unknown`] where the connection was
/// lost, because the server may have committed.
fn commit_failure(error: Error) -> Error {
    match error {
        Error::Unavailable(source) => Error::Unknown(source),
        refused => refused,
    }
}

fn trouble(e: SqlxError) -> Error {
    let refused = e.as_database_error();
    if let Some(missing) = refused.and_then(|e| missing_in_postgres(&e.code()?, e.message())) {
        return missing;
    }
    let unavailable = match &e {
        SqlxError::Database(refused) => refused.code().is_some_and(|code| is_unavailable(&code)),
        SqlxError::Io(_) | SqlxError::Tls(_) | SqlxError::PoolTimedOut | SqlxError::PoolClosed => true,
        _ => false,
    };
    if unavailable { Error::Unavailable(e.into()) } else { Error::Database(e.into()) }
}
