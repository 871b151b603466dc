//! Completing inside a sqlx transaction on SQLite.
//!
//! Begin it with `pool.begin_with("begin immediate")`: SQLite has one writer, and a transaction that first
//! reads and then writes fails when another connection wrote in between. The file must be the engine's own.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::queue::inbox::Completion;
use crate::queue::store::inbox::InboxTicket;
use sqlx::sqlite::SqliteConnection;

/// Marks the message as processed in the caller's transaction (`&mut *tx`).
///
/// # Errors
/// [`crate::Error::Conflict`] when the ticket holds nothing any more: roll back.
pub async fn complete(connection: &mut SqliteConnection, tenant: Tenant, ticket: &InboxTicket) -> Result<()> {
    let completion = Completion::new(tenant, ticket);
    let statement = completion.statement(Dialect::Sqlite);
    completion.outcome(crate::queue::outbox::sqlx_sqlite::count(connection, statement).await?)
}
