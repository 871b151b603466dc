//! Entries leave by age, when they have ended; their keys stay behind, so that an event which comes
//! again after years is still known.

use super::super::Store;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use crate::base::error::Result;
use crate::base::limits;
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

impl Store {
    /// One step of a pass through the entries, beginning behind `cursor`: what has ended and is older
    /// than its time goes, with its deliveries and its answer.
    pub fn prune_entries(&self, cursor: i64) -> VerbFuture<'_, PrunedEntries> {
        self.write(cursor, |tx, cursor| Box::pin(prune(tx, *cursor)))
    }
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
        tx.execute(KEEP_KEYS, &[Value::Ints(&ids)]).await?;
        for sql in DROPS {
            tx.execute(sql, &[Value::Ints(&ids)]).await?;
        }
        step.entries = ids.len();
    }
    if step.finished {
        tx.execute(OLD_KEYS, params![now.minus(limits::ENTRY_KEY_RETENTION)]).await?;
    }
    Ok(step)
}

const OLD: &str = "select e.id, case when e.triggered_at < $2 and e.status > 2 then 1 else 0 end, \
        case when e.triggered_at < $2 then 1 else 0 end \
    from punctual.entry e where e.id > $1 order by e.id limit $3";
const KEEP_KEYS: &str = "insert into punctual.entry_key \
        (tenant_id, key_high, key_low, public_high, public_low, made_at) \
    select tenant_id, key_high, key_low, public_high, public_low, triggered_at from punctual.entry \
    where id = any($1::bigint[]) and deleted_at is null on conflict do nothing";
const DROPS: [&str; 5] = [
    "delete from punctual.delivery_outcome where entry_id = any($1::bigint[])",
    "delete from punctual.delivery where entry_id = any($1::bigint[])",
    "delete from punctual.response where entry_id = any($1::bigint[])",
    "delete from punctual.progress where entry_id = any($1::bigint[])",
    "delete from punctual.entry where id = any($1::bigint[])",
];
const OLD_KEYS: &str = "delete from punctual.entry_key where made_at < $1";
