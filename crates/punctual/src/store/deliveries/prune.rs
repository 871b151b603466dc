//! Notifications leave by age, when they have ended: with their tries and receipts, and with all that is
//! personal in their deliveries. Of a delivery its key stays behind for longer, so that an event which
//! comes again after a year is still known; then that goes, too.
//!
//! Not promised: anything about an event that comes again after its key has gone. It is sent.

use super::super::Store;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::limits;
use crate::store::tx::VerbFuture;
use std::time::Duration;

/// How far one pass has come through the notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedNotifications {
    /// The last notification that was looked at; the next step begins behind it.
    pub cursor: i64,
    /// Notifications dropped by this step.
    pub notifications: usize,
    /// Whether the pass is through.
    pub finished: bool,
}

impl Store {
    /// One step of a pass through the notifications, beginning behind `cursor`: what has ended and was
    /// made longer than `kept` ago goes. The last step also drops keys that are past their time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn prune_notifications(&self, cursor: i64, kept: Duration) -> VerbFuture<'_, PrunedNotifications> {
        self.write((cursor, kept), |tx, (cursor, kept)| Box::pin(prune(tx, *cursor, *kept)))
    }
}

async fn prune(tx: &mut Tx, cursor: i64, kept: Duration) -> Result<PrunedNotifications> {
    let now = tx.now().await?;
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let rows = tx.query(OLD, params![cursor, now.minus(kept), limit]).await?;
    let mut step =
        PrunedNotifications { cursor, notifications: 0, finished: rows.len() < limits::PRUNE_ROWS };
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
        for sql in DROPS {
            tx.execute(sql, &[Value::Ints(&ids)]).await?;
        }
        step.notifications = ids.len();
    }
    if step.finished {
        let before = now.minus(kept.max(limits::DELIVERY_KEY_RETENTION));
        step.finished = drop_keys(tx, before, limit).await? < limits::PRUNE_ROWS;
    }
    Ok(step)
}

const OLD: &str = "select n.id, case when n.created_at < $2 and n.status <> 0 then 1 else 0 end, \
        case when n.created_at < $2 then 1 else 0 end \
    from punctual.entry n where n.id > $1 and n.kind = 'notification' order by n.id limit $3";
/// What was skipped lets the next one of its key through anyway. One that somebody has put back to work
/// in this moment keeps what it needs.
const DROPS: [&str; 6] = [
    "delete from punctual.entry_history where entry_id = any($1::bigint[])",
    "delete from punctual.receipt where delivery_id in (select d.id from punctual.delivery d \
        where d.entry_id = any($1::bigint[]))",
    "delete from punctual.delivery_attempt where delivery_id in (select d.id from punctual.delivery d \
        where d.entry_id = any($1::bigint[]))",
    "delete from punctual.delivery where entry_id = any($1::bigint[]) and status = 4",
    "update punctual.delivery set address = '', recipient = null, recipient_ref = null, error = null, \
        provider_id = null where entry_id = any($1::bigint[]) and status <> 0",
    "delete from punctual.entry where id = any($1::bigint[]) and status <> 0",
];

/// Drops the oldest keys whose notifications are gone, as many as fit into a step; answers how many.
async fn drop_keys(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<usize> {
    let mut ids = Vec::new();
    for row in tx.query(OLDEST, params![limit]).await? {
        if row.time(1)? >= before {
            break;
        }
        if row.flag(2)? {
            ids.push(row.int(0)?);
        }
    }
    if !ids.is_empty() {
        tx.execute(DROP_KEYS, &[Value::Ints(&ids)]).await?;
    }
    Ok(ids.len())
}

const OLDEST: &str = "select d.id, d.created_at, case when d.status <> 0 and not exists (select 1 \
        from punctual.entry n where n.id = d.entry_id) then 1 else 0 end \
    from punctual.delivery d order by d.id limit $1";
const DROP_KEYS: &str = "delete from punctual.delivery where id = any($1::bigint[])";
