//! The journal: messages in the order they were written, for those who want to know what
//! was enqueued. Not for consuming: a transaction that commits late appears among earlier ones.

use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::database::value::params;
use crate::queue::rules::message::Message;
use crate::queue::store::messages::{message_columns, read_message};

impl Store {
    /// Messages of a tenant whose id is above `after`, up to `limit`.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn messages(&self, tenant: Tenant, after: MessageId, limit: usize) -> VerbFuture<'_, Vec<Message>> {
        self.of(tenant).read((tenant, after, limit), |tx, (tenant, after, limit)| {
            Box::pin(async move {
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                let rows = tx.query(JOURNAL, params![tenant.id(), after.0, limit]).await?;
                rows.into_iter().map(|mut row| read_message(&mut row, 0)).collect()
            })
        })
    }
}

statements! {
    const JOURNAL = "
        select ", message_columns!(), "
        from punctual.message m
        where m.tenant_id = $1 and m.id > $2
        order by m.id
        limit $3
    ";
}
