//! The end of an entry, and its effect on the deliveries.
//!
//! The transaction that ends an entry skips its waiting deliveries. A delivery in flight keeps its key and
//! its true outcome; only its retry, its fallback and the next reminder stop, when it is settled or its claim
//! is reaped.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Value, params};
use crate::delivery::rules::delivery::delivery_status;
use crate::delivery::store::deliveries::delivery::{DeliveryOutcome, SettledDelivery};
use crate::delivery::store::deliveries::in_flight::deliveries_in_flight;
use crate::delivery::store::deliveries::key::{free_keys, may_have_gone_out};
use crate::delivery::store::entries::hooks::{ChangedEntry, EntryEvent, tell_kinds};
use crate::flow::rules::entry::state::EntryState;
use crate::flow::rules::entry::{EntryStatus, Transition, TransitionRefusal};
use crate::flow::store::entries::{Entry, read_kind};
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::waiting_work::take_out_all;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The word for why a delivery was skipped.
const ENTRY_ENDED: &str = "EntryEnded";

/// A waiting delivery, as far as skipping it looks at it.
struct SkippableDelivery {
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
    if tx.has(PlantedBug::EndWithoutDeliveries) {
        return Ok(BTreeMap::new());
    }
    let mut waiting = Vec::new();
    for row in tx.query(WAITING, &[Value::Ints(&ids)]).await? {
        waiting.push(SkippableDelivery {
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

statements! {
    const WAITING = "
        select d.id, d.entry_id, d.tenant_id, d.idempotency_key, d.lane_id, d.due_at
        from punctual.delivery d
        where d.entry_id = any($1::bigint[]) and d.status = ", delivery_status!(Pending), "
        order by d.id
        for update of d
    ";
}

/// Skips deliveries; each gives its key back, unless a try of it may have gone out.
async fn skip(tx: &mut Tx, waiting: &[SkippableDelivery], said: &str) -> Result<BTreeMap<i64, i64>> {
    let ids: Vec<i64> = waiting.iter().map(|one| one.id.0).collect();
    tx.execute(SKIP, &[Value::Ints(&ids), said.into()]).await?;
    let doubtful = may_have_gone_out(tx, &ids).await?;
    let free = waiting.iter().filter(|one| !doubtful.contains(&one.id.0));
    let free: Vec<_> = free.map(|one| (one.tenant, one.key.as_str(), one.id)).collect();
    free_keys(tx, &free).await?;
    let work = waiting.iter().filter_map(|one| one.work.map(|(lane, due)| (one.id.0, lane, due)));
    take_out_all(tx, &work.collect::<Vec<_>>()).await?;
    let mut skipped = BTreeMap::new();
    for one in waiting {
        *skipped.entry(one.entry).or_default() += 1;
    }
    Ok(skipped)
}

statements! {
    const SKIP = "
        update punctual.delivery
        set status = ", delivery_status!(Skipped), ", error = $2, due_at = null, version = version + 1
        where id = any($1::bigint[]) and status = ", delivery_status!(Pending), "
    ";
}

/// The end of an entry, or of its sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryEnd<'a> {
    /// The entry as it was, locked.
    pub entry: &'a Entry,
    /// Its status and timetable from now on.
    pub state: EntryState,
    /// The word for why.
    pub reason: Option<&'a str>,
    /// The sentence for why.
    pub said: &'a str,
}

impl EntryEnd<'_> {
    /// Sends that are still to end, after so many were skipped.
    fn open(&self, skipped: i64) -> i64 {
        // An entry with a timetable has one send open at a time, and none any more.
        if self.entry.kind.has_timetable() { 0 } else { i64::from(self.entry.sends.open) - skipped }
    }
}

/// Writes that entries have ended, or that nothing more is sent of them: takes their waiting sends out of the
/// queue and skips their waiting deliveries. The entries must be locked.
pub(crate) async fn write_ends(tx: &mut Tx, ends: &[EntryEnd<'_>], now: Timestamp) -> Result<()> {
    let mut skipped: BTreeMap<i64, i64> = BTreeMap::new();
    for of in ends.chunk_by(|a, b| a.said == b.said) {
        let ids: Vec<EntryId> = of.iter().map(|end| end.entry.id).collect();
        skipped.extend(skip_waiting(tx, &ids, of[0].said).await?);
    }
    let open = |end: &EntryEnd<'_>| end.open(skipped.get(&end.entry.id.0).copied().unwrap_or_default());
    let completed = |end: &EntryEnd<'_>| end.state.status == EntryStatus::Completed;
    let columns = [
        Column::Ints(ends.iter().map(|end| end.entry.id.0).collect()),
        Column::Ints(ends.iter().map(|end| end.state.status.code()).collect()),
        Column::Ints(ends.iter().map(|end| i64::from(completed(end))).collect()),
        Column::Ints(ends.iter().map(|end| i64::from(end.entry.kind.has_ended(end.state.status))).collect()),
        Column::Ints(ends.iter().map(open).collect()),
        Column::Texts(ends.iter().map(|end| end.reason).collect()),
        Column::Texts(ends.iter().map(|end| end.reason.map(|_| end.said)).collect()),
    ];
    tx.in_columns((END_AT_ONCE, END), params![now], &columns).await?;
    let work = ends.iter().filter_map(|end| {
        let entry = end.entry;
        Some((entry.id.0, entry.lane?.0, entry.state.next_send_at?))
    });
    take_out_all(tx, &work.collect::<Vec<_>>()).await
}

macro_rules! ended {
    ($status:literal, $completed:literal, $ended:literal, $open:literal, $reason:literal, $error:literal) => {
        concat! {"
            set status = ", $status, ", due_at = null,
                completed_at = case
                    when ", $completed, " = 1 then coalesce(e.completed_at, $1::bigint)
                    else e.completed_at
                end,
                held_at = case when ", $ended, " = 1 then null else e.held_at end,
                held_by = case when ", $ended, " = 1 then null else e.held_by end,
                hold_reason = case when ", $ended, " = 1 then null else e.hold_reason end,
                ended_at = case
                    when ", $ended, " = 1 then coalesce(e.ended_at, $1::bigint)
                    else e.ended_at
                end,
                open = ", $open, ", reason = coalesce(", $reason, ", e.reason),
                error = coalesce(", $error, ", e.error), version = e.version + 1
        "}
    };
}

statements! {
    const END_AT_ONCE for Postgres = "
        update punctual.entry e
        ", ended!("x.status", "x.completed", "x.ended", "x.open", "x.reason", "x.error"), "
        from (
            select unnest($2::bigint[]) id, unnest($3::int[]) status, unnest($4::int[]) completed,
                unnest($5::int[]) ended, unnest($6::int[]) open, unnest($7::text[]) reason,
                unnest($8::text[]) error
        ) x
        where e.id = x.id
    ";

    const END = "
        update punctual.entry as e
        ", ended!("$3", "$4", "$5", "$6", "$7", "$8"), "
        where e.id = $2
    ";
}

/// Cancels entries that are locked, of any kind, and runs the hooks of their kinds. Returns for each what it
/// became, in order; an entry that was cancelled before is left as it is.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn cancel_all(
    tx: &mut Tx,
    entries: &[Entry],
    transition: Transition,
    (reason, said): (Option<&str>, &str),
) -> Result<Vec<std::result::Result<EntryState, TransitionRefusal>>> {
    let states: Vec<_> = entries.iter().map(|entry| entry.state.after(transition)).collect();
    let changed = entries.iter().zip(states.iter().copied()).filter_map(|(entry, state)| {
        let state = state.ok().filter(|state| *state != entry.state)?;
        Some(EntryEnd { entry, state, reason, said })
    });
    let ends: Vec<EntryEnd<'_>> = changed.collect();
    if !ends.is_empty() {
        let now = tx.now().await?;
        write_ends(tx, &ends, now).await?;
        let news =
            ends.iter().map(|end| ChangedEntry { entry: end.entry, moment: EntryEvent::Cancelled(now) });
        tell_kinds(tx, &news.collect::<Vec<_>>()).await?;
    }
    Ok(states)
}

/// Outcomes as they count where the entry has ended meanwhile: nothing is tried again or by another channel.
/// Also returns which entries are on hold. Locks the entries before their deliveries are touched: a
/// transaction that holds or ends an entry takes the locks in that order.
pub(crate) async fn stop_after_end<'e>(
    tx: &mut Tx,
    ended: &'e [SettledDelivery],
) -> Result<(Vec<Cow<'e, SettledDelivery>>, HashSet<i64>)> {
    let mut entries: Vec<i64> = ended.iter().map(|one| one.due.delivery.entry.0).collect();
    entries.sort_unstable();
    entries.dedup();
    let (mut over, mut held) = (HashSet::new(), HashSet::new());
    if !ended.iter().any(goes_on) {
        tx.first(LOCK_ONLY, &[Value::Ints(&entries)]).await?;
        return Ok((ended.iter().map(Cow::Borrowed).collect(), held));
    }
    for row in tx.query(LOCKED_STATES, &[Value::Ints(&entries)]).await? {
        if stops_sends(row.int(1)?, &row.text(2)?, row.flag(4)?)? {
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

statements! {
    const LOCKED_STATES = "
        select e.id, e.status, e.kind, case when e.held_at is null then 0 else 1 end,
            case when e.deleted_at is null then 0 else 1 end
        from punctual.entry e
        where e.id = any($1::bigint[])
        order by e.id
        for update
    ";

    /// Nothing goes on, so that how the entries stand does not matter, and one row is the answer.
    const LOCK_ONLY = "
        select count(*)
        from (select 1 from punctual.entry e where e.id = any($1::bigint[]) order by e.id for update) x
    ";
}

/// Whether an entry with this status and kind lets nothing be sent any more. One that was deleted never does.
pub(crate) fn stops_sends(status: i64, kind: &str, deleted: bool) -> Result<bool> {
    let status = EntryStatus::from_code(status);
    Ok(deleted || status.is_none_or(|status| read_kind(kind).is_ok_and(|kind| kind.stops_sends(status))))
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
        DeliveryOutcome::Retry { outcome, error, .. }
            if one.due.unsure || matches!(*outcome, "unknown" | "timeout") =>
        {
            one.due.given_up_in_doubt(Some(outcome), after(error))
        }
        DeliveryOutcome::Retry { outcome, error, .. } => {
            DeliveryOutcome::Failed { outcome: Some(outcome), error: after(error), fallback: None }
        }
        DeliveryOutcome::Failed { outcome, error, .. } => {
            DeliveryOutcome::Failed { outcome: *outcome, error: error.clone(), fallback: None }
        }
        _ if one.due.unsure => {
            let error = "a try before may have gone out; it is not sent again, because its entry has ended";
            one.due.given_up_in_doubt(None, error.to_owned())
        }
        _ => DeliveryOutcome::Skipped {
            reason: ENTRY_ENDED.to_owned(),
            said: "its entry has ended".to_owned(),
        },
    }
}

/// Locks the entries of deliveries whose claim was reaped; returns the deliveries whose entries have ended.
pub(crate) async fn lock_entries_of(tx: &mut Tx, items: &[&ClaimItem]) -> Result<HashSet<i64>> {
    let ids: Vec<i64> = items.iter().map(|item| item.delivery().0).collect();
    let mut over = HashSet::new();
    for row in tx.query(LOCK_ENTRIES, &[Value::Ints(&ids)]).await? {
        if stops_sends(row.int(1)?, &row.text(2)?, row.flag(3)?)? {
            over.insert(row.int(0)?);
        }
    }
    Ok(over)
}

statements! {
    const LOCK_ENTRIES = "
        select d.id, e.status, e.kind, case when e.deleted_at is null then 0 else 1 end
        from punctual.delivery d
        join punctual.entry e on e.id = d.entry_id
        where d.id = any($1::bigint[])
        order by e.id
        for update of e
    ";
}

/// Skips deliveries of a reaped claim that were never begun and whose entries have ended. The entries must be
/// locked.
pub(crate) async fn skip_not_begun(tx: &mut Tx, items: &[&ClaimItem]) -> Result<()> {
    let ids: Vec<i64> = items.iter().map(|item| item.delivery().0).collect();
    let mut waiting = Vec::with_capacity(ids.len());
    let mut counted: HashMap<i64, bool> = HashMap::new();
    for row in tx.query(NOT_BEGUN, &[Value::Ints(&ids)]).await? {
        counted.insert(row.int(1)?, !read_kind(&row.text(4)?)?.has_timetable());
        waiting.push(SkippableDelivery {
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

statements! {
    const NOT_BEGUN = "
        select d.id, d.entry_id, d.tenant_id, d.idempotency_key, e.kind
        from punctual.delivery d
        join punctual.entry e on e.id = d.entry_id
        where d.id = any($1::bigint[]) and d.status = ", delivery_status!(Pending), "
        order by d.id
        for update of d
    ";
}
