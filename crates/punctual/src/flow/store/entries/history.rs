//! The history of an entry: changes that its deliveries and answers do not show.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, params};

/// The actor of changes that the engine makes by itself.
pub const ENGINE: &str = "engine";
/// The status of an entry on hold, in the history only: a hold is a mark beside the status.
pub const ON_HOLD: &str = "OnHold";
/// The status of a deleted entry, in the history only.
pub const DELETED: &str = "Deleted";

/// The person or process that changes an entry, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeAuthor {
    /// The author of the change.
    pub actor: String,
    /// Why.
    pub reason: String,
}

impl ChangeAuthor {
    /// Names an actor and a reason.
    #[must_use]
    pub fn new(actor: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { actor: actor.into(), reason: reason.into() }
    }
}

/// One change of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// When.
    pub at: Timestamp,
    /// The word for the change, such as `held`.
    pub action: String,
    /// The status before.
    pub from: String,
    /// The status after.
    pub to: String,
    /// The author of the change.
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
    pub action: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub actor: &'a str,
    pub reason: &'a str,
    pub cause: Option<&'a str>,
}

/// Writes changes down.
pub(crate) async fn add_changes(tx: &mut Tx, changes: &[NewChange<'_>], now: Timestamp) -> Result<()> {
    let columns = [
        Column::Ints(changes.iter().map(|change| change.tenant.id()).collect()),
        Column::Ints(changes.iter().map(|change| change.entry.0).collect()),
        Column::Texts(changes.iter().map(|change| Some(change.action)).collect()),
        Column::Texts(changes.iter().map(|change| Some(change.from)).collect()),
        Column::Texts(changes.iter().map(|change| Some(change.to)).collect()),
        Column::Texts(changes.iter().map(|change| Some(change.actor)).collect()),
        Column::Texts(changes.iter().map(|change| Some(change.reason)).collect()),
        Column::Texts(changes.iter().map(|change| change.cause).collect()),
    ];
    tx.in_columns((ADD_AT_ONCE, ADD), params![now], &columns).await?;
    Ok(())
}

macro_rules! history_columns {
    () => {
        "
        insert into punctual.entry_history (
            at, tenant_id, entry_id, action, from_status, to_status, actor, reason, cause
        )
        "
    };
}

statements! {
    const ADD_AT_ONCE for Postgres = history_columns!(), "
        select $1::bigint, unnest($2::int[]), unnest($3::bigint[]), unnest($4::text[]),
            unnest($5::text[]), unnest($6::text[]), unnest($7::text[]), unnest($8::text[]),
            unnest($9::text[])
    ";

    const ADD = history_columns!(), "
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ";
}

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

statements! {
    const HISTORY = "
        select at, action, from_status, to_status, actor, reason, cause
        from punctual.entry_history
        where tenant_id = $1 and entry_id = $2
        order by id
    ";
}

fn read_change(row: &Row) -> Result<EntryChange> {
    Ok(EntryChange {
        at: row.time(0)?,
        action: row.text(1)?,
        from: row.text(2)?,
        to: row.text(3)?,
        actor: row.text(4)?,
        reason: row.text(5)?,
        cause: row.maybe_text(6)?,
    })
}
