//! Enqueueing inside a tokio-postgres transaction.
//!
//! One statement and one flight, never prepared under a name, so it works through a
//! pooler in transaction mode.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::postgres::{trouble, unless_refused};
use crate::queue::outbox::{AdmittedId, EnqueueBatch, InsertedMessage, Param, Statement};
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::EnqueueOutcome;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};

/// Writes messages in the caller's transaction; answers in the order given. With a bare
/// client it is a transaction of its own. After the commit call
/// [`Engine::wake`](crate::engine::Engine::wake).
///
/// # Errors
/// [`crate::Error::Invalid`] with every problem, before anything is sent to the server.
/// [`crate::Error::Unknown`] when the connection broke: messages that a bare client wrote may be there, so
/// enqueue them again under the same ids; those of a transaction are not, unless its commit was under way.
pub async fn enqueue<C>(client: &C, tenant: Tenant, messages: &[NewMessage]) -> Result<Vec<EnqueueOutcome>>
where
    C: GenericClient + Sync,
{
    run(client, &EnqueueBatch::new(tenant, messages)?).await
}

/// As [`enqueue`], for a batch that was put together before, such as one that is
/// [`quiet`](EnqueueBatch::quiet).
///
/// # Errors
/// As [`enqueue`].
pub async fn run<C: GenericClient + Sync>(client: &C, batch: &EnqueueBatch) -> Result<Vec<EnqueueOutcome>> {
    let mut written = Vec::new();
    for statement in batch.statements(Dialect::Postgres) {
        written.extend(rows(client, &statement, read_inserted_message).await?);
    }
    let known = match batch.duplicates(Dialect::Postgres, &written) {
        Some(statement) => rows(client, &statement, read_admitted_id).await?,
        None => Vec::new(),
    };
    batch.outcome(&written, &known)
}

async fn rows<C: GenericClient + Sync, T>(
    client: &C,
    statement: &Statement,
    read: fn(&Row) -> Result<T, tokio_postgres::Error>,
) -> Result<Vec<T>> {
    let params: Vec<(&(dyn ToSql + Sync), Type)> = statement.params.iter().map(value).collect();
    let rows = client.query_typed(statement.sql, &params).await.map_err(|e| unless_refused(trouble(e)))?;
    rows.iter().map(read).collect::<Result<_, _>>().map_err(trouble)
}

/// Runs a statement; answers how many rows it returned.
pub(crate) async fn count<C: GenericClient + Sync>(client: &C, statement: &Statement) -> Result<usize> {
    Ok(rows(client, statement, |_| Ok(())).await?.len())
}

fn value(param: &Param) -> (&(dyn ToSql + Sync), Type) {
    match param {
        Param::Int(v) => (v, Type::INT8),
        Param::Text(v) => (v, Type::TEXT),
    }
}

fn read_inserted_message(row: &Row) -> Result<InsertedMessage, tokio_postgres::Error> {
    Ok(InsertedMessage { id: row.try_get(0)?, source: row.try_get(1)?, external_id: row.try_get(2)? })
}

fn read_admitted_id(row: &Row) -> Result<AdmittedId, tokio_postgres::Error> {
    Ok(AdmittedId {
        source: row.try_get(0)?,
        external_id: row.try_get(1)?,
        digest: row.try_get(2)?,
        message_id: row.try_get(3)?,
    })
}
