//! The outcomes of deliveries: every try, the delivery, the work of what comes again, fallbacks, the counts
//! and the next step of its entry, in one transaction under the claim's token. A lost claim writes nothing.
//!
//! Deliveries that a provider took are written by `sent.rs`.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, Token};
use crate::base::reason_class::reason_class;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Value, params};
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery, delivery_status};
use crate::delivery::store::deliveries::delivery::{
    Delivery, DeliveryOutcome, DeliverySettlement, SettledDelivery,
};
use crate::delivery::store::deliveries::key::{free_keys, key_holders, may_have_gone_out};
use crate::delivery::store::deliveries::new_deliveries::{
    NewDelivery, SendLanes, insert_deliveries, send_lane,
};
use crate::delivery::store::deliveries::sent;
use crate::delivery::store::entries::counts::{CountChange, change_counts};
use crate::delivery::store::entries::end::stop_after_end;
use crate::delivery::store::entries::step;
use crate::flow::rules::entry::EntryKind;
use crate::queue::rules::attempt::kept_error;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::sequences::WORK_AGAIN;
use crate::queue::store::settle;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

impl Store {
    /// Writes the outcomes of deliveries of one claim, and moves its mark: so many of the claim's deliveries
    /// may be begun from now on.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn end_deliveries(
        &self,
        token: Token,
        ended: Arc<[SettledDelivery]>,
        mark: Option<usize>,
    ) -> VerbFuture<'_, DeliverySettlement> {
        VerbFuture::new(async move {
            let settled = self
                .write((token, ended, mark), |tx, (token, ended, mark)| {
                    Box::pin(end(tx, token, ended, *mark))
                })
                .await;
            reach(CrashPoint::SettledBeforeAnswer);
            settled
        })
    }
}

async fn end(
    tx: &mut Tx,
    token: &Token,
    ended: &[SettledDelivery],
    mark: Option<usize>,
) -> Result<DeliverySettlement> {
    let now = tx.now().await?;
    let items: Vec<&ClaimItem> = ended.iter().map(|one| &one.due.item).collect();
    match settle::finish_deliveries(tx, token, &items, mark, now).await? {
        settle::SettleOutcome::Done => {}
        settle::SettleOutcome::AlreadyFinished => return Ok(DeliverySettlement::Done),
        _ => return Ok(DeliverySettlement::LostClaim),
    }
    write_outcomes(tx, ended, now).await?;
    reach(CrashPoint::SettledBeforeCommit);
    Ok(DeliverySettlement::Done)
}

/// Writes outcomes of deliveries that are not in a claim any more.
pub(crate) async fn write_outcomes(tx: &mut Tx, ended: &[SettledDelivery], now: Timestamp) -> Result<()> {
    let (ended, held) = stop_after_end(tx, ended).await?;
    let mut order: Vec<&SettledDelivery> = ended.iter().map(AsRef::as_ref).collect();
    // In one order, so that two settlements never wait for each other in a circle.
    order.sort_by_key(|one| one.due.delivery.id);
    let mut written = sent::write(tx, &order, now).await?;
    let mut lanes = SendLanes::new();
    let rest: Vec<&SettledDelivery> =
        order.iter().filter(|one| !matches!(one.outcome, DeliveryOutcome::Sent { .. })).copied().collect();
    log_tries(tx, &rest, now).await?;
    let places = places(tx, &rest, &mut lanes).await?;
    written.extend(update(tx, &rest, &places, now).await?);
    // A delivery that was ended meanwhile has its tries in the log, and nothing else.
    let is_written = |one: &SettledDelivery| written.contains(&one.due.delivery.id.0);
    free_skipped(tx, rest.iter().filter(|one| is_written(one)).copied()).await?;
    let comes_again = rest.iter().zip(&places).filter(|(one, _)| is_written(one));
    come_again(tx, comes_again.map(|(one, place)| (*one, *place)), now).await?;
    order.retain(|one| is_written(one));
    let replaced = send_fallbacks(tx, &order, (&mut lanes, &held), now).await?;
    count(tx, &order, &replaced, now).await?;
    step::after_outcomes(tx, &order, |one| replaced.contains_key(&one.due.delivery.id), now).await
}

/// The lanes that deliveries wait in from now on.
async fn places(tx: &mut Tx, ended: &[&SettledDelivery], lanes: &mut SendLanes) -> Result<Vec<i64>> {
    let mut places = Vec::with_capacity(ended.len());
    for one in ended {
        places.push(match &one.outcome {
            DeliveryOutcome::Redirected { channel, .. } => {
                let of = &one.due.delivery;
                send_lane(tx, of.tenant, (of.kind, channel), lanes).await?
            }
            _ => one.due.item.lane().0,
        });
    }
    Ok(places)
}

/// A line of the log.
struct AttemptRow<'a> {
    one: &'a SettledDelivery,
    number: i64,
    outcome: &'static str,
    reason: Option<&'a str>,
    error: String,
    class: Option<String>,
}

impl<'a> AttemptRow<'a> {
    fn of(one: &'a SettledDelivery) -> Option<Self> {
        let number = i64::from(one.due.number());
        let (number, outcome, reason, error) = match &one.outcome {
            DeliveryOutcome::Retry { outcome, error, .. } => (number, *outcome, None, kept_error(error)),
            DeliveryOutcome::Failed { outcome: Some(outcome), error, .. }
            | DeliveryOutcome::Uncertain { outcome: Some(outcome), error } => {
                (number, *outcome, None, kept_error(error))
            }
            // Neither was tried: why it waited stands before its first try, and why there was none before
            // that.
            DeliveryOutcome::Delayed { said, .. } => (0, "transient", None, said.clone()),
            DeliveryOutcome::Skipped { reason, said } => (-1, "skipped", Some(reason.as_str()), said.clone()),
            _ => return None,
        };
        let class = (number > 0).then(|| reason_class(&error));
        Some(Self { one, number, outcome, reason, error, class })
    }
}

/// Writes down every try that was not taken, and why a delivery that is delayed or skipped was not tried.
async fn log_tries(tx: &mut Tx, ended: &[&SettledDelivery], now: Timestamp) -> Result<()> {
    let tries: Vec<AttemptRow<'_>> = ended.iter().filter_map(|one| AttemptRow::of(one)).collect();
    let warnings: Vec<Option<String>> = tries.iter().map(|t| warnings(t.one)).collect();
    let columns = [
        Column::Ints(tries.iter().map(|t| t.one.due.delivery.id.0).collect()),
        Column::Ints(tries.iter().map(|t| t.number).collect()),
        Column::Texts(tries.iter().map(|t| Some(t.outcome)).collect()),
        Column::Texts(tries.iter().map(|t| Some(t.error.as_str())).collect()),
        Column::Texts(warnings.iter().map(Option::as_deref).collect()),
        Column::Texts(tries.iter().map(|t| t.reason).collect()),
        Column::Texts(tries.iter().map(|t| t.one.due.provider.as_deref()).collect()),
        Column::Texts(tries.iter().map(|t| t.class.as_deref()).collect()),
    ];
    tx.in_columns((TRIES_AT_ONCE, TRY), params![now], &columns).await?;
    Ok(())
}

statements! {
    const TRIES_AT_ONCE for Postgres = "
        insert into punctual.delivery_attempt (
            at, delivery_id, tried, outcome, error, warnings, reason, provider, reason_class
        )
        select $1::bigint, unnest($2::bigint[]), unnest($3::int[]), unnest($4::text[]),
            unnest($5::text[]), unnest($6::text[]), unnest($7::text[]), unnest($8::text[]),
            unnest($9::text[])
        on conflict do nothing
    ";

    const TRY = "
        insert into punctual.delivery_attempt (
            at, delivery_id, tried, outcome, error, warnings, reason, provider, reason_class
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        on conflict do nothing
    ";
}

/// The doubts about a text, as a list in JSON.
pub(crate) fn warnings(one: &SettledDelivery) -> Option<String> {
    let warnings = &one.due.warnings;
    (!warnings.is_empty()).then(|| serde_json::Value::from(warnings.as_slice()).to_string())
}

const fn status_of(outcome: &DeliveryOutcome) -> DeliveryStatus {
    match outcome {
        DeliveryOutcome::Sent { .. } => DeliveryStatus::Sent,
        DeliveryOutcome::Failed { .. } => DeliveryStatus::Failed,
        DeliveryOutcome::Uncertain { .. } => DeliveryStatus::Uncertain,
        DeliveryOutcome::Skipped { .. } => DeliveryStatus::Skipped,
        DeliveryOutcome::Retry { .. }
        | DeliveryOutcome::NotBegun(_)
        | DeliveryOutcome::Delayed { .. }
        | DeliveryOutcome::Redirected { .. } => DeliveryStatus::Pending,
    }
}

fn error_of(outcome: &DeliveryOutcome) -> Option<String> {
    match outcome {
        DeliveryOutcome::Retry { error, .. }
        | DeliveryOutcome::Failed { error, .. }
        | DeliveryOutcome::Uncertain { error, .. } => Some(kept_error(error)),
        DeliveryOutcome::Skipped { said, .. } | DeliveryOutcome::Delayed { said, .. } => Some(said.clone()),
        _ => None,
    }
}

/// Tries so far: a delivery that was not begun has had none by this claim, and some do not count.
fn tries(one: &SettledDelivery) -> u32 {
    let counted = match one.outcome {
        DeliveryOutcome::NotBegun(_)
        | DeliveryOutcome::Delayed { .. }
        | DeliveryOutcome::Redirected { .. }
        | DeliveryOutcome::Skipped { .. } => false,
        DeliveryOutcome::Retry { counted, .. } => counted,
        DeliveryOutcome::Sent { .. } | DeliveryOutcome::Failed { .. } | DeliveryOutcome::Uncertain { .. } => {
            true
        }
    };
    if counted { one.due.item.attempt() } else { one.due.item.attempt() - 1 }
}

/// Tries that no longer count, since another channel has not had them, or never did.
fn counted_anew(one: &SettledDelivery) -> i64 {
    match one.outcome {
        DeliveryOutcome::Redirected { .. } => i64::from(tries(one)),
        DeliveryOutcome::Retry { counted: false, .. } => 1,
        _ => 0,
    }
}

/// The channel and the address that a delivery has from now on.
fn target(one: &SettledDelivery) -> (&str, &str) {
    match &one.outcome {
        DeliveryOutcome::Redirected { channel, address } => (channel, address),
        _ => (&one.due.delivery.channel, &one.due.delivery.address),
    }
}

/// Writes deliveries; returns those that were still waiting.
async fn update(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    places: &[i64],
    now: Timestamp,
) -> Result<HashSet<i64>> {
    let errors: Vec<Option<String>> = ended.iter().map(|one| error_of(&one.outcome)).collect();
    let next = ended.iter().map(|one| next_due(&one.outcome, now).map(Timestamp::as_micros)).collect();
    let targets: Vec<(&str, &str)> = ended.iter().map(|one| target(one)).collect();
    let columns = [
        Column::Ints(ended.iter().map(|one| one.due.delivery.id.0).collect()),
        Column::Ints(ended.iter().map(|one| status_of(&one.outcome).code()).collect()),
        Column::Texts(errors.iter().map(Option::as_deref).collect()),
        Column::Ints(ended.iter().map(|one| i64::from(tries(one))).collect()),
        Column::MaybeInts(next),
        Column::Texts(targets.iter().map(|(channel, _)| Some(*channel)).collect()),
        Column::Ints(places.to_vec()),
        Column::Texts(targets.iter().map(|(_, address)| Some(*address)).collect()),
        Column::Ints(ended.iter().map(|one| counted_anew(one)).collect()),
    ];
    let rows = tx.in_columns((UPDATE_AT_ONCE, UPDATE), &[], &columns).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

statements! {
    /// Only a delivery that still waits: one that was ended meanwhile stays as it is.
    const UPDATE_AT_ONCE for Postgres = "
        update punctual.delivery d
        set status = x.status, error = x.error, tries = x.tries, due_at = x.due_at, channel = x.channel,
            lane_id = x.lane_id, address = x.address, tried_before = d.tried_before + x.anew,
            version = d.version + 1
        from (
            select unnest($1::bigint[]) id, unnest($2::int[]) status, unnest($3::text[]) error,
                unnest($4::int[]) tries, unnest($5::bigint[]) due_at, unnest($6::text[]) channel,
                unnest($7::int[]) lane_id, unnest($8::text[]) address, unnest($9::int[]) anew
        ) x
        where d.id = x.id and d.status = ", delivery_status!(Pending), "
        returning d.id
    ";

    const UPDATE = "
        update punctual.delivery
        set status = $2, error = $3, tries = $4, due_at = $5, channel = $6, lane_id = $7, address = $8,
            tried_before = tried_before + $9, version = version + 1
        where id = $1 and status = ", delivery_status!(Pending), "
        returning id
    ";
}

/// Deliveries that are skipped give their keys back, unless a try may have gone out, also one before a
/// replay.
async fn free_skipped(tx: &mut Tx, ended: impl Iterator<Item = &SettledDelivery>) -> Result<()> {
    let skipped = ended.filter(|one| matches!(one.outcome, DeliveryOutcome::Skipped { .. }));
    let skipped: Vec<&Delivery> = skipped.map(|one| &one.due.delivery).collect();
    if skipped.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = skipped.iter().map(|of| of.id.0).collect();
    let doubtful = may_have_gone_out(tx, &ids).await?;
    let free = skipped.into_iter().filter(|of| !doubtful.contains(&of.id.0));
    let keys: Vec<(Tenant, &str, DeliveryId)> = free.map(|of| (of.tenant, of.key.as_str(), of.id)).collect();
    free_keys(tx, &keys).await
}

/// When it comes again, if it does.
fn next_due(outcome: &DeliveryOutcome, now: Timestamp) -> Option<Timestamp> {
    match outcome {
        DeliveryOutcome::Retry { wait, .. } => Some(now.plus(*wait)),
        DeliveryOutcome::NotBegun(at) | DeliveryOutcome::Delayed { until: at, .. } => Some(*at),
        DeliveryOutcome::Redirected { .. } => Some(now),
        _ => None,
    }
}

async fn come_again(
    tx: &mut Tx,
    ended: impl Iterator<Item = (&SettledDelivery, i64)>,
    now: Timestamp,
) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = ended
        .filter_map(|(one, lane)| {
            let at = next_due(&one.outcome, now)?;
            let redirected = matches!(one.outcome, DeliveryOutcome::Redirected { .. });
            let tries = if redirected { 0 } else { i64::from(tries(one)) };
            let work = one.due.delivery.id.0;
            Some(vec![work.into(), lane.into(), at.into(), tries.into(), 0.into(), Value::Null])
        })
        .collect();
    tx.each(WORK_AGAIN, &rows).await?;
    Ok(())
}

/// Writes what is sent in the place of deliveries that were given up; returns which were replaced so.
async fn send_fallbacks(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    (lanes, held): (&mut SendLanes, &HashSet<i64>),
    now: Timestamp,
) -> Result<HashMap<DeliveryId, Replacement>> {
    let given_up: Vec<FailedDelivery<'_>> = ended
        .iter()
        .filter_map(|one| match &one.outcome {
            DeliveryOutcome::Failed { fallback: Some(planned), .. } => {
                let of = &one.due.delivery;
                let (id, entry, kind, tenant) = (of.id, of.entry, of.kind, of.tenant);
                Some(FailedDelivery { id, entry, kind, tenant, held: held.contains(&entry.0), planned })
            }
            _ => None,
        })
        .collect();
    replace(tx, &given_up, lanes, now).await
}

/// A delivery that was given up, and its replacement.
pub(crate) struct FailedDelivery<'a> {
    pub id: DeliveryId,
    pub entry: EntryId,
    pub kind: EntryKind,
    pub tenant: Tenant,
    pub held: bool,
    pub planned: &'a PlannedDelivery,
}

/// The replacement for a delivery that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// A delivery that was written for it: there is as much to wait for.
    New,
    /// A delivery that its entry has anyway: there is one less.
    Known,
}

pub(crate) async fn replace(
    tx: &mut Tx,
    given_up: &[FailedDelivery<'_>],
    lanes: &mut SendLanes,
    now: Timestamp,
) -> Result<HashMap<DeliveryId, Replacement>> {
    let mut rows = Vec::with_capacity(given_up.len());
    for of in given_up {
        let FailedDelivery { entry, kind, tenant, held, planned, .. } = *of;
        let lane = send_lane(tx, tenant, (kind, &planned.channel), lanes).await?;
        rows.push(NewDelivery { entry, kind, tenant, lane, held, planned });
    }
    let mut replaced = HashMap::new();
    if rows.is_empty() {
        return Ok(replaced);
    }
    let mut made = insert_deliveries(tx, &rows, now).await?;
    for (row, given_up) in rows.iter().zip(given_up) {
        let (id, replacement) = match made.take(row) {
            Some(id) if row.status() == DeliveryStatus::Pending => (id.0, Replacement::New),
            Some(_) => continue,
            None => match own_holder(tx, row).await? {
                Some(id) => (id, Replacement::Known),
                None => continue,
            },
        };
        tx.execute(REPLACED, params![given_up.id.0, id]).await?;
        replaced.insert(given_up.id, replacement);
    }
    Ok(replaced)
}

/// The delivery that the same entry has under that key, on its way or sent.
async fn own_holder(tx: &mut Tx, row: &NewDelivery<'_>) -> Result<Option<i64>> {
    let holders = key_holders(tx, &[(row.tenant, row.planned.key.as_str())], false).await?;
    let on_its_way =
        |status| matches!(status, DeliveryStatus::Pending | DeliveryStatus::Sent | DeliveryStatus::Delivered);
    let own = holders.into_values().find(|one| one.entry == Some(row.entry.0) && on_its_way(one.status));
    Ok(own.map(|one| one.id.0))
}

statements! {
    const REPLACED = "
        update punctual.delivery
        set replaced_by = $2
        where id = $1
    ";
}

/// Counts the outcomes for entries whose kind has no timetable: an entry with one counts with its step.
async fn count(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    replaced: &HashMap<DeliveryId, Replacement>,
    now: Timestamp,
) -> Result<()> {
    let mut changes: BTreeMap<EntryId, CountChange> = BTreeMap::new();
    for one in ended {
        let status = status_of(&one.outcome);
        if status == DeliveryStatus::Pending || one.due.delivery.kind.has_timetable() {
            continue;
        }
        let change = changes.entry(one.due.delivery.entry).or_default();
        // Where another channel has taken its place, it has not failed.
        let replacement = replaced.get(&one.due.delivery.id);
        change.open -= i64::from(replacement != Some(&Replacement::New));
        match &one.outcome {
            _ if replacement.is_some() => {}
            DeliveryOutcome::Sent { .. } => change.sent += 1,
            DeliveryOutcome::Skipped { reason, said } => {
                change.reason = Some(reason.clone());
                change.error.get_or_insert_with(|| said.clone());
            }
            outcome => {
                change.failed += 1;
                change.error = error_of(outcome);
            }
        }
    }
    change_counts(tx, &changes, now).await
}
