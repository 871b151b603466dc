//! Failed survey entries again: the send that was given up last is made once more, under the key it had, and
//! the reminders that were left after it follow.
//!
//! Its delivery is put back as for every kind (`deliveries/replay.rs`). A send that has none to put back,
//! because it was skipped, is planned anew. Who may not be written to is asked when it is sent, as always.

use super::super::tx::Tx;
use super::super::value::params;
use super::{ADD_WORK, Entry, lock};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::rules::public_id::PublicId;
use std::collections::BTreeMap;

/// A failed entry that is set going again.
pub(in crate::store) struct ReopenedEntry {
    pub id: EntryId,
    pub public_id: PublicId,
    pub channel: String,
    /// The key of the send that is planned anew; `None` if a delivery is put back.
    pub planned_key: Option<String>,
}

/// Sets failed entries going again, which must be locked. `put_back` counts the deliveries that are put back,
/// by entry. A dry run writes nothing.
pub(in crate::store) async fn reopen(
    tx: &mut Tx,
    ids: &[i64],
    put_back: &BTreeMap<i64, i64>,
    now: Timestamp,
    dry_run: bool,
) -> Result<Vec<ReopenedEntry>> {
    let mut reopened = Vec::with_capacity(ids.len());
    if ids.is_empty() {
        return Ok(reopened);
    }
    for entry in lock(tx, ids).await? {
        let Ok(standing) = entry.standing.replayed(now) else { continue };
        let anew = !put_back.contains_key(&entry.id.0);
        if !dry_run {
            tx.execute(REPLAY, params![entry.id.0, standing.status.code(), now]).await?;
        }
        if anew && !dry_run {
            // What was skipped has given its key back.
            tx.execute(ADD_WORK, params![entry.work_id(), entry.lane.0, now]).await?;
        }
        let planned_key = anew.then(|| entry.send_key());
        let Entry { id, public_id, channel, .. } = entry;
        reopened.push(ReopenedEntry { id, public_id, channel, planned_key });
    }
    Ok(reopened)
}

const REPLAY: &str = "update punctual.entry set status = $2, due_at = $3, version = version + 1 \
    where id = $1";
