//! Completing inside a tokio-postgres transaction.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::queue::inbox::Completion;
use crate::queue::store::inbox::InboxTicket;
use tokio_postgres::GenericClient;

/// Marks the message as processed in the caller's transaction.
///
/// # Errors
/// [`crate::Error::Conflict`] when the ticket holds nothing any more: roll back.
pub async fn complete<C>(client: &C, tenant: Tenant, ticket: &InboxTicket) -> Result<()>
where
    C: GenericClient + Sync,
{
    let completion = Completion::new(tenant, ticket);
    let statement = completion.statement(Dialect::Postgres);
    completion.outcome(crate::queue::outbox::tokio_postgres::count(client, &statement).await?)
}
