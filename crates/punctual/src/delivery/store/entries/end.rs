//! The end of an entry, and what it means for its deliveries.
//!
//! The transaction that ends an entry skips its waiting deliveries. A delivery in flight keeps its key and
//! its true outcome; only its retry, its fallback and the next reminder stop, when it is settled or its claim
//! is reaped.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::tenant::Tenant;
use crate::database::planted::Bug;
use crate::database::tx::Tx;
use crate::database::value::{Value, params};
use crate::delivery::store::deliveries::delivery::{DeliveryOutcome, SettledDelivery};
use crate::delivery::store::deliveries::in_flight::deliveries_in_flight;
use crate::delivery::store::deliveries::key::{free_keys, may_have_gone_out};
use crate::delivery::store::entries::hooks::{EntryMoment, EntryNews, tell_kinds};
use crate::flow::rules::entry::state::EntryState;
use crate::flow::rules::entry::{Deed, EntryStatus, Refusal};
use crate::flow::store::entries::{Entry, read_kind};
use crate::queue::rules::claim::Item;
use crate::queue::store::waiting::take_out;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The word for why a delivery was skipped.
const ENTRY_ENDED: &str = "EntryEnded";

/// A waiting delivery, as far as skipping it looks at it.
struct Waiting {
    id: DeliveryId,
    entry: i64,
    tenant: Tenant,
    key: String,
    work: Option<(i64, Timestamp)>,
}

/// Skips the waiting deliveries of entries, with a sentence for the log; returns how many of each. Deliveries
/// in flight are left to their claims. The entries must be locked.
pub(crate) async fn skip_waiting(tx: &mut Tx, entries: &[EntryId], said: &str) -> Result<BTreeMap<i64, i64>> {
    let ids: Vec<i64> = entries.iter().map(|entry| entry.0).collect();
    if tx.has(Bug::EndWithoutDeliveries) {
        return Ok(BTreeMap::new());
    }
    let mut waiting = Vec::new();
    for row in tx.query(WAITING, &[Value::Ints(&ids)]).await? {
        waiting.push(Waiting {
            id: DeliveryId(row.int(0)?),
            entry: row.int(1)?,
            tenant: Tenant::from_row(row.int(2)?),
            key: row.text(3)?,
            work: Some(row.int(4)?).zip(row.maybe_time(5)?),
        });
    }
    if waiting.is_empty() {
        return Ok(BTreeMap::new());
    }
    let flying = deliveries_in_flight(tx).await?;
    waiting.retain(|one| flying.binary_search(&one.id.0).is_err());
    skip(tx, &waiting, said).await
}

const WAITING: &str = "select d.id, d.entry_id, d.tenant_id, d.idempotency_key, d.lane_id, d.due_at \
    from punctual.delivery d \
    where d.entry_id = any($1::bigint[]) and d.status = 0 order by d.id for update of d";

/// Skips deliveries; each gives its key back, unless a try of it may have gone out.
async fn skip(tx: &mut Tx, waiting: &[Waiting], said: &str) -> Result<BTreeMap<i64, i64>> {
    let ids: Vec<i64> = waiting.iter().map(|one| one.id.0).collect();
    tx.execute(SKIP, &[Value::Ints(&ids), said.into()]).await?;
    let doubtful = may_have_gone_out(tx, &ids).await?;
    let free = waiting.iter().filter(|one| !doubtful.contains(&one.id.0));
    let free: Vec<_> = free.map(|one| (one.tenant, one.key.as_str(), one.id)).collect();
    free_keys(tx, &free).await?;
    let mut skipped = BTreeMap::new();
    for one in waiting {
        *skipped.entry(one.entry).or_default() += 1;
        if let Some((lane, due)) = one.work {
            take_out(tx, one.id.0, lane, due).await?;
        }
    }
    Ok(skipped)
}

const SKIP: &str = "update punctual.delivery \
    set status = 4, error = $2, due_at = null, version = version + 1 \
    where id = any($1::bigint[]) and status = 0";

/// Writes that an entry has ended, or that nothing more is sent of it: takes its waiting send out of the
/// queue and skips its waiting deliveries. The entry must be locked.
pub(crate) async fn write_end(
    tx: &mut Tx,
    entry: &Entry,
    state: EntryState,
    (reason, said): (Option<&str>, &str),
    now: Timestamp,
) -> Result<()> {
    let skipped = skip_waiting(tx, &[entry.id], said).await?;
    let skipped = skipped.get(&entry.id.0).copied().unwrap_or_default();
    let has_ended = entry.kind.has_ended(state.status);
    // An entry with a timetable has one send open at a time, and none any more.
    let open = if entry.kind.has_timetable() { 0 } else { i64::from(entry.sends.open) - skipped };
    let row = params![
        entry.id.0,
        state.status.code(),
        (state.status == EntryStatus::Completed).then_some(now),
        i64::from(has_ended),
        now,
        open,
        reason,
        reason.map(|_| said),
    ];
    tx.execute(END, row).await?;
    if let (Some(lane), Some(due)) = (entry.lane, entry.state.next_send_at) {
        take_out(tx, entry.id.0, lane.0, due).await?;
    }
    Ok(())
}

const END: &str = "update punctual.entry set status = $2, due_at = null, \
        completed_at = coalesce(completed_at, $3), \
        held_at = case when $4 = 1 then null else held_at end, \
        held_by = case when $4 = 1 then null else held_by end, \
        hold_reason = case when $4 = 1 then null else hold_reason end, \
        ended_at = case when $4 = 1 then coalesce(ended_at, $5) else ended_at end, open = $6, \
        reason = coalesce($7, reason), error = coalesce($8, error), version = version + 1 \
    where id = $1";

/// Cancels an entry that is locked, of any kind; its kind hears of it.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn cancel(
    tx: &mut Tx,
    entry: &Entry,
    deed: Deed,
    (reason, said): (Option<&str>, &str),
) -> Result<std::result::Result<EntryState, Refusal>> {
    let state = match entry.state.after(deed) {
        Ok(state) => state,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if state != entry.state {
        let now = tx.now().await?;
        write_end(tx, entry, state, (reason, said), now).await?;
        tell_kinds(tx, &[EntryNews { entry, moment: EntryMoment::Cancelled(now) }]).await?;
    }
    Ok(Ok(state))
}

/// Outcomes as they count where the entry has ended meanwhile: nothing is tried again or by another channel.
/// Also returns which entries are on hold. Locks entries with a timetable, which people may answer at any
/// moment, and those of which something goes on, before their deliveries are touched.
pub(crate) async fn stop_after_end<'e>(
    tx: &mut Tx,
    ended: &'e [SettledDelivery],
) -> Result<(Vec<Cow<'e, SettledDelivery>>, HashSet<i64>)> {
    let asked = ended.iter().filter(|one| one.due.delivery.kind.has_timetable() || goes_on(one));
    let mut entries: Vec<i64> = asked.map(|one| one.due.delivery.entry.0).collect();
    if entries.is_empty() {
        return Ok((ended.iter().map(Cow::Borrowed).collect(), HashSet::new()));
    }
    entries.sort_unstable();
    let (mut over, mut held) = (HashSet::new(), HashSet::new());
    for row in tx.query(LOCKED_STATES, &[Value::Ints(&entries)]).await? {
        if has_ended(row.int(1)?, &row.text(2)?)? {
            over.insert(row.int(0)?);
        }
        if row.flag(3)? {
            held.insert(row.int(0)?);
        }
    }
    let stopped = |one: &'e SettledDelivery| match over.contains(&one.due.delivery.entry.0) && goes_on(one) {
        true => Cow::Owned(SettledDelivery { outcome: stopped(one), ..one.clone() }),
        false => Cow::Borrowed(one),
    };
    Ok((ended.iter().map(stopped).collect(), held))
}

const LOCKED_STATES: &str = "select e.id, e.status, e.kind, case when e.held_at is null then 0 else 1 end \
    from punctual.entry e where e.id = any($1::bigint[]) order by e.id for update";

fn has_ended(status: i64, kind: &str) -> Result<bool> {
    let status = EntryStatus::from_code(status);
    Ok(status.is_none_or(|status| read_kind(kind).is_ok_and(|kind| kind.stops_sends(status))))
}

/// Whether something follows for the delivery: another try, or another channel.
const fn goes_on(one: &SettledDelivery) -> bool {
    match &one.outcome {
        DeliveryOutcome::Retry { .. }
        | DeliveryOutcome::NotBegun(_)
        | DeliveryOutcome::Delayed { .. }
        | DeliveryOutcome::Redirected { .. } => true,
        DeliveryOutcome::Failed { fallback, .. } => fallback.is_some(),
        DeliveryOutcome::Sent { .. }
        | DeliveryOutcome::Uncertain { .. }
        | DeliveryOutcome::Skipped { .. } => false,
    }
}

/// The outcome of a delivery that would have gone on.
fn stopped(one: &SettledDelivery) -> DeliveryOutcome {
    let after = |error: &str| format!("{error}; it is not tried again, because its entry has ended");
    match &one.outcome {
        DeliveryOutcome::Retry { outcome: outcome @ ("unknown" | "timeout"), error, .. } => {
            DeliveryOutcome::Uncertain { outcome: Some(outcome), error: after(error) }
        }
        DeliveryOutcome::Retry { outcome, error, .. } => {
            DeliveryOutcome::Failed { outcome: Some(outcome), error: after(error), fallback: None }
        }
        DeliveryOutcome::Failed { outcome, error, .. } => {
            DeliveryOutcome::Failed { outcome: *outcome, error: error.clone(), fallback: None }
        }
        _ if one.due.unsure => {
            let error = "a try before may have gone out; it is not sent again, because its entry has ended";
            DeliveryOutcome::Uncertain { outcome: None, error: error.to_owned() }
        }
        _ => DeliveryOutcome::Skipped {
            reason: ENTRY_ENDED.to_owned(),
            said: "its entry has ended".to_owned(),
        },
    }
}

/// Locks the entries of deliveries whose claim was reaped; returns the deliveries whose entries have ended.
pub(crate) async fn lock_entries_of(tx: &mut Tx, items: &[&Item]) -> Result<HashSet<i64>> {
    let ids: Vec<i64> = items.iter().map(|item| item.delivery().0).collect();
    let mut over = HashSet::new();
    for row in tx.query(LOCK_ENTRIES, &[Value::Ints(&ids)]).await? {
        if has_ended(row.int(1)?, &row.text(2)?)? {
            over.insert(row.int(0)?);
        }
    }
    Ok(over)
}

const LOCK_ENTRIES: &str = "select d.id, e.status, e.kind from punctual.delivery d \
    join punctual.entry e on e.id = d.entry_id where d.id = any($1::bigint[]) order by e.id for update of e";

/// Skips deliveries of a reaped claim that were never begun and whose entries have ended. The entries must be
/// locked.
pub(crate) async fn skip_not_begun(tx: &mut Tx, items: &[&Item]) -> Result<()> {
    let ids: Vec<i64> = items.iter().map(|item| item.delivery().0).collect();
    let mut waiting = Vec::with_capacity(ids.len());
    let mut counted: HashMap<i64, bool> = HashMap::new();
    for row in tx.query(NOT_BEGUN, &[Value::Ints(&ids)]).await? {
        counted.insert(row.int(1)?, !read_kind(&row.text(4)?)?.has_timetable());
        waiting.push(Waiting {
            id: DeliveryId(row.int(0)?),
            entry: row.int(1)?,
            tenant: Tenant::from_row(row.int(2)?),
            key: row.text(3)?,
            work: None,
        });
    }
    let mut skipped = skip(tx, &waiting, "its entry has ended").await?;
    skipped.retain(|entry, _| counted.get(entry).copied().unwrap_or_default());
    super::counts::uncount(tx, &skipped).await
}

const NOT_BEGUN: &str = "select d.id, d.entry_id, d.tenant_id, d.idempotency_key, e.kind \
    from punctual.delivery d join punctual.entry e on e.id = d.entry_id \
    where d.id = any($1::bigint[]) and d.status = 0 order by d.id for update of d";
