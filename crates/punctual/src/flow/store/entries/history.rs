//! The history of an entry: changes that its deliveries and answers do not show.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, Value, params};

/// One change of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// When.
    pub at: Timestamp,
    /// The word for the change, such as `held`.
    pub what: String,
    /// Who made it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The message or definition that led to it, if one did.
    pub cause: Option<String>,
}

/// A change to be written down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewChange<'a> {
    pub tenant: Tenant,
    pub entry: EntryId,
    pub what: &'a str,
    pub actor: &'a str,
    pub reason: &'a str,
    pub cause: Option<&'a str>,
}

/// Writes changes down.
pub(crate) async fn add_changes(tx: &mut Tx, changes: &[NewChange<'_>], now: Timestamp) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = changes
        .iter()
        .map(|change| {
            let NewChange { tenant, entry, what, actor, reason, cause } = *change;
            params![tenant.id(), entry.0, now, what, actor, reason, cause].to_vec()
        })
        .collect();
    tx.each(ADD, &rows).await?;
    Ok(())
}

const ADD: &str = "insert into punctual.entry_history (tenant_id, entry_id, at, what, actor, reason, cause) \
    values ($1, $2, $3, $4, $5, $6, $7)";

impl Store {
    /// The changes of an entry that its deliveries and answers do not show, in order.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entry_history(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Vec<EntryChange>> {
        self.of(tenant).read((tenant, entry), |tx, (tenant, entry)| {
            Box::pin(async move {
                let rows = tx.query(HISTORY, params![tenant.id(), entry.0]).await?;
                rows.iter().map(read_change).collect()
            })
        })
    }
}

const HISTORY: &str = "select at, what, actor, reason, cause from punctual.entry_history \
    where tenant_id = $1 and entry_id = $2 order by id";

fn read_change(row: &Row) -> Result<EntryChange> {
    Ok(EntryChange {
        at: row.time(0)?,
        what: row.text(1)?,
        actor: row.text(2)?,
        reason: row.text(3)?,
        cause: row.maybe_text(4)?,
    })
}
