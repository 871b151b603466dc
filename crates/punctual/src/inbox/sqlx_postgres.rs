//! Completing inside a sqlx transaction on PostgreSQL.

use super::Completion;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::store::dialect::Dialect;
use crate::store::inbox::Ticket;
use sqlx::postgres::PgConnection;

/// Marks the message as processed in the caller's transaction (`&mut *tx`).
///
/// # Errors
/// [`crate::Error::Conflict`] when the ticket holds nothing any more: roll back.
pub async fn complete(connection: &mut PgConnection, tenant: Tenant, ticket: &Ticket) -> Result<()> {
    let completion = Completion::new(tenant, ticket);
    let statement = completion.statement(Dialect::Postgres);
    completion.outcome(crate::outbox::sqlx_postgres::count(connection, statement).await?)
}
