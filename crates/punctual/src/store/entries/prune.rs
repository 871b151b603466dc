//! Entries leave by the age of their last event, when they have ended; their keys stay behind, so that an
//! event which comes again after years is still known. Their survey counts how many have left.

use super::super::Store;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::key::prune_keys;
use crate::base::error::{Error, Result};
use crate::base::id::FlowId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::store::tx::VerbFuture;

/// How far one pass has come through the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedEntries {
    /// The last entry that was looked at; the next step begins behind it.
    pub cursor: i64,
    /// Entries dropped by this step.
    pub entries: usize,
    /// Whether the pass is through.
    pub finished: bool,
}

/// What retention has dropped of a survey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RemovedEntries {
    /// Entries.
    pub entries: u64,
    /// Answers among them.
    pub answers: u64,
}

impl Store {
    /// One step of a pass through the entries, beginning behind `cursor`: drops those that have ended and
    /// whose last event (made, sent, opened or answered) is too old, with their deliveries and answers. The
    /// last step also drops keys that are past their time, of entries of every kind.
    pub fn prune_entries(&self, cursor: i64) -> VerbFuture<'_, PrunedEntries> {
        self.write(cursor, |tx, cursor| Box::pin(prune(tx, *cursor)))
    }

    /// How many entries and answers of a survey retention has dropped so far.
    pub fn removed_entries(&self, tenant: Tenant, flow: FlowId) -> VerbFuture<'_, RemovedEntries> {
        self.of(tenant).read((tenant, flow), |tx, (tenant, flow)| Box::pin(removed(tx, *tenant, *flow)))
    }
}

async fn removed(tx: &mut Tx, tenant: Tenant, flow: FlowId) -> Result<RemovedEntries> {
    let row = tx.first(REMOVED, params![tenant.id(), flow.0]).await?;
    let Some(row) = row else { return Ok(RemovedEntries::default()) };
    let count = |column| Ok::<_, Error>(u64::try_from(row.int(column)?).unwrap_or_default());
    Ok(RemovedEntries { entries: count(0)?, answers: count(1)? })
}

async fn prune(tx: &mut Tx, cursor: i64) -> Result<PrunedEntries> {
    let now = tx.now().await?;
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let old = now.minus(limits::ENTRY_RETENTION);
    let rows = tx.query(OLD, params![cursor, old, limit]).await?;
    let mut step = PrunedEntries { cursor, entries: 0, finished: rows.len() < limits::PRUNE_ROWS };
    let mut ids = Vec::new();
    for row in &rows {
        step.cursor = row.int(0)?;
        if row.flag(1)? {
            ids.push(step.cursor);
        }
        // Ids follow time: behind the first that is young enough there is hardly an old one.
        step.finished |= !row.flag(2)?;
    }
    if !ids.is_empty() {
        tx.execute(COUNT_REMOVED, &[Value::Ints(&ids)]).await?;
        for sql in DROPS {
            tx.execute(sql, &[Value::Ints(&ids)]).await?;
        }
        step.entries = ids.len();
    }
    if step.finished {
        step.finished = prune_keys(tx, now).await? < limits::PRUNE_ROWS;
    }
    Ok(step)
}

const OLD: &str = "select e.id, case when e.created_at < $2 and coalesce(e.last_sent_at, 0) < $2 \
            and coalesce(e.opened_at, 0) < $2 and coalesce(e.completed_at, 0) < $2 \
            and e.status > 2 then 1 else 0 end, \
        case when e.created_at < $2 then 1 else 0 end \
    from punctual.entry e where e.id > $1 and e.kind = 'survey' order by e.id limit $3";
const COUNT_REMOVED: &str = "update punctual.flow as f set \
        removed_entries = removed_entries + (select count(*) from punctual.entry e \
            where e.flow_id = f.id and e.id = any($1::bigint[])), \
        removed_answers = removed_answers + (select count(*) from punctual.response r \
            where r.flow_id = f.id and r.entry_id = any($1::bigint[])) \
    where f.id in (select e.flow_id from punctual.entry e where e.id = any($1::bigint[]))";
const REMOVED: &str = "select removed_entries, removed_answers from punctual.flow \
    where tenant_id = $1 and id = $2";
const DROPS: [&str; 7] = [
    "delete from punctual.entry_history where entry_id = any($1::bigint[])",
    "delete from punctual.receipt where delivery_id in (select d.id from punctual.delivery d \
        where d.entry_id = any($1::bigint[]))",
    "delete from punctual.delivery_attempt where delivery_id in (select d.id from punctual.delivery d \
        where d.entry_id = any($1::bigint[]))",
    "delete from punctual.delivery where entry_id = any($1::bigint[])",
    "delete from punctual.response where entry_id = any($1::bigint[])",
    "delete from punctual.progress where entry_id = any($1::bigint[])",
    "delete from punctual.entry where id = any($1::bigint[])",
];
