//! Completing inside a rusqlite transaction.
//!
//! Begin it as `immediate`: SQLite has one writer, and a transaction that first reads and then writes fails
//! when another connection wrote in between. The file must be the engine's own.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::queue::inbox::Completion;
use crate::queue::store::inbox::InboxTicket;
use rusqlite::Connection;

/// Marks the message as processed in the transaction that is open on this connection.
///
/// # Errors
/// [`crate::Error::Conflict`] when the ticket holds nothing any more: roll back.
pub fn complete(connection: &Connection, tenant: Tenant, ticket: &InboxTicket) -> Result<()> {
    let completion = Completion::new(tenant, ticket);
    let statement = completion.statement(Dialect::Sqlite);
    completion.outcome(crate::queue::outbox::rusqlite::count(connection, &statement)?)
}
