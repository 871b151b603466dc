//! Entries that end: what of them waits is not sent any more, and what is in flight is not tried again.
//!
//! Whoever ends an entry (an answer, a cancel, an expiry) has its lock, and marks the deliveries that
//! wait as skipped in the same transaction ([`skip_waiting`]). A delivery in flight keeps its key and its
//! true outcome: only its retry, its fallback and what would follow stop, when it is settled
//! ([`stop_after_end`]).

use super::super::planted::Bug;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::deliver::{Ending, LOST, SettledDelivery};
use super::queries::in_flight;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::rules::claim::Item;
use crate::rules::entry::{EntryKind, Status};
use std::borrow::Cow;
use std::collections::HashSet;

/// The word for why a delivery was skipped.
pub(in crate::store) const ENTRY_ENDED: &str = "EntryEnded";

/// Skips the deliveries of entries that wait, with a sentence for the log. Those that are in flight are
/// left to their claims. The entries must be locked.
pub(in crate::store) async fn skip_waiting(tx: &mut Tx, entries: &[EntryId], said: &str) -> Result<usize> {
    if tx.has(Bug::EndWithoutDeliveries) {
        return Ok(0);
    }
    let ids: Vec<i64> = entries.iter().map(|entry| entry.0).collect();
    let waiting = tx.query(WAITING, &[Value::Ints(&ids)]).await?;
    if waiting.is_empty() {
        return Ok(0);
    }
    let flying = in_flight(tx).await?;
    let mut skipped = 0;
    for row in &waiting {
        let id = row.int(0)?;
        if flying.binary_search(&id).is_ok() {
            continue;
        }
        tx.execute(SKIP, params![id, said]).await?;
        skipped += 1;
        if let Some(due) = row.maybe_time(2)? {
            tx.execute(DROP_WORK, params![row.int(1)?, due, id]).await?;
        }
    }
    Ok(skipped)
}

const WAITING: &str = "select d.id, d.lane_id, d.due_at from punctual.delivery d \
    where d.entry_id = any($1::bigint[]) and d.status = 0 order by d.id for update of d";
/// It gives its key back, unless a try may have gone out.
const SKIP: &str = "update punctual.delivery set status = 4, error = $2, due_at = null, \
        version = version + 1, \
        keeps_key = case when exists (select 1 from punctual.delivery_attempt a \
            where a.delivery_id = $1 and a.outcome in ('unknown', 'timeout')) then 1 else 0 end \
    where id = $1 and status = 0";
const DROP_WORK: &str = "delete from punctual.work where lane_id = $1 and due_at = $2 and message_id = $3";

/// Outcomes as they count where the entry has ended meanwhile: nothing is tried again or by another
/// channel. Locks the entries of surveys, which people may answer at any moment, before their deliveries
/// are touched.
pub(super) async fn stop_after_end<'e>(
    tx: &mut Tx,
    ended: &'e [SettledDelivery],
) -> Result<Vec<Cow<'e, SettledDelivery>>> {
    let asked = ended.iter().filter(|one| one.due.delivery.kind == EntryKind::Survey || goes_on(one));
    let mut entries: Vec<i64> = asked.map(|one| one.due.delivery.entry.0).collect();
    if entries.is_empty() {
        return Ok(ended.iter().map(Cow::Borrowed).collect());
    }
    entries.sort_unstable();
    let mut over = HashSet::new();
    for row in tx.query(LOCKED_STATUS, &[Value::Ints(&entries)]).await? {
        if row.int(1)? >= Status::Completed.code() {
            over.insert(row.int(0)?);
        }
    }
    let stopped = |one: &'e SettledDelivery| match over.contains(&one.due.delivery.entry.0) && goes_on(one) {
        true => Cow::Owned(SettledDelivery { ending: stopped(one), ..one.clone() }),
        false => Cow::Borrowed(one),
    };
    Ok(ended.iter().map(stopped).collect())
}

const LOCKED_STATUS: &str = "select e.id, e.status from punctual.entry e where e.id = any($1::bigint[]) \
    order by e.id for update";

/// Whether something follows for the delivery: another try, or another channel.
const fn goes_on(one: &SettledDelivery) -> bool {
    match &one.ending {
        Ending::Again { .. } | Ending::Later(_) | Ending::HeldBack { .. } | Ending::Moved { .. } => true,
        Ending::Failed { instead, .. } => instead.is_some(),
        Ending::Sent { .. } | Ending::Uncertain { .. } | Ending::Skipped { .. } => false,
    }
}

/// What becomes of a delivery that would have gone on.
fn stopped(one: &SettledDelivery) -> Ending {
    let after = |error: &str| format!("{error}; it is not tried again, because its entry has ended");
    match &one.ending {
        Ending::Again { outcome: outcome @ ("unknown" | "timeout"), error, .. } => {
            Ending::Uncertain { outcome: Some(outcome), error: after(error) }
        }
        Ending::Again { outcome, error, .. } => {
            Ending::Failed { outcome: Some(outcome), error: after(error), instead: None }
        }
        Ending::Failed { outcome, error, .. } => {
            Ending::Failed { outcome: *outcome, error: error.clone(), instead: None }
        }
        _ if one.due.unsure => {
            let error = "a try before may have gone out; it is not sent again, because its entry has ended";
            Ending::Uncertain { outcome: None, error: error.to_owned() }
        }
        _ => Ending::Skipped { reason: ENTRY_ENDED.to_owned(), said: "its entry has ended".to_owned() },
    }
}

/// Notes that tries of a reaped claim were lost, so that the log knows of them whatever happens next.
/// Answers the deliveries whose entries have ended: those are not tried again, and nobody knows what
/// became of them.
pub(in crate::store) async fn note_reaped(
    tx: &mut Tx,
    items: &[Item],
    now: Timestamp,
) -> Result<HashSet<i64>> {
    let ids: Vec<i64> = items.iter().map(|item| item.delivery().0).collect();
    let mut over = HashSet::new();
    for row in tx.query(LOCK_ENTRIES, &[Value::Ints(&ids)]).await? {
        if row.int(1)? >= Status::Completed.code() {
            over.insert(row.int(0)?);
        }
    }
    let going_on = items.iter().filter(|item| !over.contains(&item.delivery().0));
    let rows: Vec<Vec<Value<'_>>> = going_on
        .map(|item| vec![item.delivery().0.into(), i64::from(item.attempt()).into(), now.into(), LOST.into()])
        .collect();
    tx.each(NOTE_REAPED, &rows).await?;
    Ok(over)
}

const LOCK_ENTRIES: &str = "select d.id, e.status from punctual.delivery d \
    join punctual.entry e on e.id = d.entry_id where d.id = any($1::bigint[]) order by e.id for update of e";
const NOTE_REAPED: &str = "insert into punctual.delivery_attempt (delivery_id, tried, at, outcome, error) \
    select d.id, d.tried_before + $2, $3, 'unknown', $4 from punctual.delivery d where d.id = $1 \
    on conflict do nothing";

/// Ends deliveries that a claim found waiting although their entries have ended: a lost claim brought
/// them back.
pub(super) async fn skip_ended(tx: &mut Tx, ids: &[i64]) -> Result<()> {
    for row in tx.query(ENDED, &[Value::Ints(ids)]).await? {
        tx.execute(SKIP, params![row.int(0)?, "its entry has ended"]).await?;
        tx.execute(COUNT_SKIPPED, params![row.int(1)?]).await?;
    }
    Ok(())
}

const ENDED: &str = "select d.id, e.id from punctual.delivery d join punctual.entry e on e.id = d.entry_id \
    where d.id = any($1::bigint[]) and d.status = 0 and e.status >= 3 order by e.id, d.id for update of e";
const COUNT_SKIPPED: &str =
    "update punctual.entry set open = open - 1 where id = $1 and kind = 'notification'";
