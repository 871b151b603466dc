//! Completing inside a sqlx transaction on PostgreSQL.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::queue::inbox::Completion;
use crate::queue::store::inbox::InboxTicket;
use sqlx::postgres::PgConnection;

/// Marks the message as processed in the caller's transaction (`&mut *tx`).
///
/// # Errors
/// [`crate::Error::Conflict`] when the ticket holds nothing any more: roll back.
pub async fn complete(connection: &mut PgConnection, tenant: Tenant, ticket: &InboxTicket) -> Result<()> {
    let completion = Completion::new(tenant, ticket);
    let statement = completion.statement(Dialect::Postgres);
    completion.outcome(crate::queue::outbox::sqlx_postgres::count(connection, statement).await?)
}
