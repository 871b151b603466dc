//! Completing a received message inside a transaction of the host's own.
//!
//! The effects of the message and the mark that it was processed commit together: after a crash in between
//! neither is there, and the message comes again; a delivery that is too late finds it processed. The message
//! is begun beforehand, in a transaction of the store's own
//! ([`Store::begin_inbox`](crate::Store::begin_inbox)), so that no second delivery does the same work
//! meanwhile.
//!
//! A ticket whose token holds nothing any more is an *error* here, not an outcome: another receiver was told
//! to process the message, and the host must roll back, which `?` makes it do. Fail or give up a message
//! outside of the transaction, which is rolled back then: [`Store::mark_inbox`](crate::Store::mark_inbox).
//!
//! There is an adapter for each driver we know, behind its feature: `inbox::rusqlite`,
//! `inbox::tokio_postgres`, `inbox::sqlx_sqlite`, `inbox::sqlx_postgres`. With any other driver,
//! run [`Completion::statement`] and hand the number of rows it returned to
//! [`Completion::outcome`].

#[cfg(feature = "sqlite")]
pub mod rusqlite;
#[cfg(feature = "sqlx-postgres")]
pub mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
pub mod sqlx_sqlite;
#[cfg(feature = "postgres")]
pub mod tokio_postgres;

use crate::base::clock::host_now;
use crate::base::error::{Error, Result};
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::queue::outbox::{Param, Statement};
use crate::queue::store::inbox::InboxTicket;

/// A message that is to be marked as processed.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    tenant: Tenant,
    ticket: &'a InboxTicket,
}

impl<'a> Completion<'a> {
    /// The completion of what this ticket stands for.
    #[must_use]
    pub const fn new(tenant: Tenant, ticket: &'a InboxTicket) -> Self {
        Self { tenant, ticket }
    }

    /// Returns the statement that marks the message: run it inside the transaction. The statement returns one
    /// row, or none when the ticket holds nothing any more. From then to the end of the transaction other
    /// deliveries get the answer that the message is in progress.
    #[must_use]
    pub fn statement(&self, dialect: Dialect) -> Statement {
        let mut params = vec![
            Param::Int(self.tenant.id()),
            Param::Text(self.ticket.source.clone()),
            Param::Text(self.ticket.message_id.clone()),
            Param::Text(self.ticket.token.text().to_owned()),
        ];
        if dialect == Dialect::Sqlite {
            // Here the host is the authority on time, unless the database's clock is manual.
            params.push(Param::Int(host_now().as_micros()));
        }
        Statement { sql: dialect.pick(POSTGRES, SQLITE), params }
    }

    /// Reads the outcome from the number of returned rows.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the ticket held nothing any more: roll back.
    pub fn outcome(&self, rows: usize) -> Result<()> {
        if rows == 1 {
            return Ok(());
        }
        Err(Error::Conflict(format!(
            "the message `{}` of `{}` is not this ticket's any more: it was finished, or another delivery \
             has it; roll back",
            self.ticket.message_id, self.ticket.source
        )))
    }
}

statements! {
    const POSTGRES for Postgres = "
        update punctual.inbox
        set status = 'processed', finished_at = punctual.now_us(), error = null
        where tenant_id = $1::bigint
            and source = $2
            and message_id = $3
            and token = $4
            and status = 'processing'
        returning id
    ";

    const SQLITE for Sqlite = "
        update punctual_inbox
        set status = 'processed', error = null,
            finished_at = coalesce((select now_us from punctual_clock where id = 1 and manual = 1), ?5)
        where tenant_id = ?1
            and source = ?2
            and message_id = ?3
            and token = ?4
            and status = 'processing'
        returning id
    ";
}
