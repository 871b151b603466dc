//! Traces: the data that was loaded and resolved for an entry, kept for a shorter time than the entry.
//!
//! A trace does not repeat the columns of its entry and deliveries. A step with no further data has none.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::params;

/// One step of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryTrace {
    /// When.
    pub at: Timestamp,
    /// The step: `planned` or `advanced`.
    pub step: String,
    /// The data that was loaded and resolved, as JSON.
    pub detail: String,
}

/// A step to be written down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTrace<'a> {
    pub tenant: Tenant,
    pub entry: EntryId,
    pub step: &'static str,
    pub detail: &'a str,
}

/// Writes steps down.
pub(crate) async fn add_traces(tx: &mut Tx, traces: &[NewTrace<'_>], now: Timestamp) -> Result<()> {
    if traces.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::Ints(traces.iter().map(|trace| trace.tenant.id()).collect()),
        Column::Ints(traces.iter().map(|trace| trace.entry.0).collect()),
        Column::Texts(traces.iter().map(|trace| Some(trace.step)).collect()),
        Column::Texts(traces.iter().map(|trace| Some(trace.detail)).collect()),
    ];
    tx.in_columns((ADD_AT_ONCE, ADD), params![now], &columns).await?;
    Ok(())
}

statements! {
    const ADD_AT_ONCE for Postgres = "
        insert into punctual.entry_trace (at, tenant_id, entry_id, step, detail)
        select $1::bigint, unnest($2::int[]), unnest($3::bigint[]), unnest($4::text[]),
            unnest($5::text[])
    ";

    const ADD = "
        insert into punctual.entry_trace (at, tenant_id, entry_id, step, detail)
        values ($1, $2, $3, $4, $5)
    ";
}

impl Store {
    /// Reads the traces of an entry, in order, as far as they are kept.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entry_traces(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Vec<EntryTrace>> {
        self.of(tenant).read((tenant, entry), |tx, (tenant, entry)| {
            Box::pin(async move {
                let rows = tx.query(TRACES, params![tenant.id(), entry.0]).await?;
                let read = |row: &crate::database::value::Row| {
                    Ok(EntryTrace { at: row.time(0)?, step: row.text(1)?, detail: row.text(2)? })
                };
                rows.iter().map(read).collect()
            })
        })
    }
}

statements! {
    const TRACES = "
        select at, step, detail
        from punctual.entry_trace
        where tenant_id = $1 and entry_id = $2
        order by id
    ";
}
