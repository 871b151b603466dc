//! What became of deliveries: every try, the delivery, its notification, and the work of what comes
//! again. Those that a provider took are written by `taken.rs`.

use super::super::columns::Column;
use super::super::entries::step;
use super::super::points::{Point, reach};
use super::super::sequences::WORK_AGAIN;
use super::super::settle;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::deliver::{Due, Ending, Settled, SettledDelivery};
use super::new_deliveries::{NewDelivery, insert_deliveries};
use super::{Lanes, deliver_lane, taken};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, Token};
use crate::base::tenant::Tenant;
use crate::rules::attempt::kept_error;
use crate::rules::claim::Item;
use crate::rules::entry::EntryKind;
use crate::rules::notification::{DeliveryStatus, NotificationStatus, Planned};
use std::collections::{BTreeMap, HashMap, HashSet};

pub(super) async fn end(
    tx: &mut Tx,
    token: &Token,
    ended: &[SettledDelivery],
    mark: Option<usize>,
) -> Result<Settled> {
    let now = tx.now().await?;
    let items: Vec<&Item> = ended.iter().map(|one| &one.due.item).collect();
    match settle::finish_deliveries(tx, token, &items, mark, now).await? {
        settle::SettleOutcome::Done => {}
        settle::SettleOutcome::AlreadyFinished => return Ok(Settled::Done),
        _ => return Ok(Settled::LostClaim),
    }
    write(tx, ended, now).await?;
    reach(Point::SettledBeforeCommit);
    Ok(Settled::Done)
}

async fn write(tx: &mut Tx, ended: &[SettledDelivery], now: Timestamp) -> Result<()> {
    let ended = super::entry_end::stop_after_end(tx, ended).await?;
    let mut order: Vec<&SettledDelivery> = ended.iter().map(AsRef::as_ref).collect();
    // In one order, so that two settlements never wait for each other in a circle.
    order.sort_by_key(|one| one.due.delivery.id);
    let mut written = taken::write(tx, &order, now).await?;
    let (mut lanes, mut places) = (Lanes::new(), Vec::with_capacity(order.len()));
    for one in &order {
        places.push(match &one.ending {
            Ending::Moved { channel, .. } => {
                let of = &one.due.delivery;
                deliver_lane(tx, of.tenant, (of.kind, channel), &mut lanes).await?
            }
            _ => one.due.item.lane().0,
        });
    }
    let others = || order.iter().zip(&places).filter(|(one, _)| !matches!(one.ending, Ending::Sent { .. }));
    let (rest, rest_places): (Vec<&SettledDelivery>, Vec<i64>) =
        others().map(|(one, place)| (*one, *place)).unzip();
    log(tx, &rest, now).await?;
    written.extend(update(tx, &rest, &rest_places, now).await?);
    // What somebody has ended meanwhile has its tries in the log, and nothing else.
    let (order, places): (Vec<&SettledDelivery>, Vec<i64>) =
        order.into_iter().zip(places).filter(|(one, _)| written.contains(&one.due.delivery.id.0)).unzip();
    come_again(tx, &order, &places, now).await?;
    let replaced = send_instead(tx, &order, &mut lanes, now).await?;
    count(tx, &order, &replaced, now).await?;
    step::after_outcomes(tx, &order, |one| replaced.contains_key(&one.due.delivery.id), now).await
}

/// A line of the log.
struct Logged<'a> {
    one: &'a SettledDelivery,
    number: i64,
    outcome: &'static str,
    reason: Option<&'a str>,
    error: String,
}

/// Writes down every try that was not taken, and why one that is held back or skipped was not tried.
async fn log(tx: &mut Tx, ended: &[&SettledDelivery], now: Timestamp) -> Result<()> {
    let tries: Vec<Logged<'_>> = ended
        .iter()
        .filter_map(|one| {
            let number = i64::from(one.due.number());
            let (number, outcome, reason, error) = match &one.ending {
                Ending::Again { outcome, error, .. } => (number, *outcome, None, kept_error(error)),
                Ending::Failed { outcome: Some(outcome), error, .. }
                | Ending::Uncertain { outcome: Some(outcome), error } => {
                    (number, *outcome, None, kept_error(error))
                }
                // Neither was tried: why it waited stands before its first try, and why there was none
                // before that.
                Ending::HeldBack { said, .. } => (0, "transient", None, said.clone()),
                Ending::Skipped { reason, said } => (-1, "skipped", Some(reason.as_str()), said.clone()),
                _ => return None,
            };
            Some(Logged { one, number, outcome, reason, error })
        })
        .collect();
    let warnings: Vec<Option<String>> = tries.iter().map(|t| warnings(t.one)).collect();
    let columns = [
        Column::Ints(tries.iter().map(|t| t.one.due.delivery.id.0).collect()),
        Column::Ints(tries.iter().map(|t| t.number).collect()),
        Column::Texts(tries.iter().map(|t| Some(t.outcome)).collect()),
        Column::Texts(tries.iter().map(|t| Some(t.error.as_str())).collect()),
        Column::Texts(warnings.iter().map(Option::as_deref).collect()),
        Column::Texts(tries.iter().map(|t| t.reason).collect()),
        Column::Texts(tries.iter().map(|t| t.one.due.provider.as_deref()).collect()),
    ];
    tx.in_columns((TRIES_AT_ONCE, TRY), params![now], &columns).await?;
    Ok(())
}

const TRIES_AT_ONCE: &str = "insert into punctual.delivery_attempt \
        (at, delivery_id, tried, outcome, error, warnings, reason, provider) \
    select $1::bigint, unnest($2::bigint[]), unnest($3::int[]), unnest($4::text[]), unnest($5::text[]), \
        unnest($6::text[]), unnest($7::text[]), unnest($8::text[]) \
    on conflict do nothing";
const TRY: &str = "insert into punctual.delivery_attempt \
        (at, delivery_id, tried, outcome, error, warnings, reason, provider) \
    values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing";

/// What the words lacked, as a list in JSON.
pub(super) fn warnings(one: &SettledDelivery) -> Option<String> {
    let warnings = &one.due.warnings;
    (!warnings.is_empty()).then(|| serde_json::Value::from(warnings.as_slice()).to_string())
}

const fn status_of(ending: &Ending) -> DeliveryStatus {
    match ending {
        Ending::Sent { .. } => DeliveryStatus::Sent,
        Ending::Failed { .. } => DeliveryStatus::Failed,
        Ending::Uncertain { .. } => DeliveryStatus::Uncertain,
        Ending::Skipped { .. } => DeliveryStatus::Skipped,
        Ending::Again { .. } | Ending::Later(_) | Ending::HeldBack { .. } | Ending::Moved { .. } => {
            DeliveryStatus::Pending
        }
    }
}

fn error_of(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Again { error, .. } | Ending::Failed { error, .. } | Ending::Uncertain { error, .. } => {
            Some(kept_error(error))
        }
        Ending::Skipped { said, .. } | Ending::HeldBack { said, .. } => Some(said.clone()),
        _ => None,
    }
}

/// Tries so far: a delivery that was not begun has had none by this claim, and some do not count.
fn tries(one: &SettledDelivery) -> u32 {
    let counted = match one.ending {
        Ending::Later(_) | Ending::HeldBack { .. } | Ending::Moved { .. } | Ending::Skipped { .. } => false,
        Ending::Again { counted, .. } => counted,
        Ending::Sent { .. } | Ending::Failed { .. } | Ending::Uncertain { .. } => true,
    };
    if counted { one.due.item.attempt() } else { one.due.item.attempt() - 1 }
}

/// Tries that no longer count, since another channel has not had them, or never did.
fn counted_anew(one: &SettledDelivery) -> i64 {
    match one.ending {
        Ending::Moved { .. } => i64::from(tries(one)),
        Ending::Again { counted: false, .. } => 1,
        _ => 0,
    }
}

/// The channel and the address that a delivery has from now on.
fn place(one: &SettledDelivery) -> (&str, &str) {
    match &one.ending {
        Ending::Moved { channel, address } => (channel, address),
        _ => (&one.due.delivery.channel, &one.due.delivery.address),
    }
}

/// Answers the deliveries that were still waiting, and are written now.
async fn update(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    places: &[i64],
    now: Timestamp,
) -> Result<HashSet<i64>> {
    let errors: Vec<Option<String>> = ended.iter().map(|one| error_of(&one.ending)).collect();
    let next = ended.iter().map(|one| next_due(&one.ending, now).map(Timestamp::as_micros)).collect();
    let whereto: Vec<(&str, &str)> = ended.iter().map(|one| place(one)).collect();
    let columns = [
        Column::Ints(ended.iter().map(|one| one.due.delivery.id.0).collect()),
        Column::Ints(ended.iter().map(|one| status_of(&one.ending).code()).collect()),
        Column::Texts(errors.iter().map(Option::as_deref).collect()),
        Column::Ints(ended.iter().map(|one| i64::from(tries(one))).collect()),
        Column::MaybeInts(next),
        Column::Texts(whereto.iter().map(|(channel, _)| Some(*channel)).collect()),
        Column::Ints(places.to_vec()),
        Column::Texts(whereto.iter().map(|(_, address)| Some(*address)).collect()),
        Column::Ints(ended.iter().map(|one| counted_anew(one)).collect()),
    ];
    let rows = tx.in_columns((UPDATE_AT_ONCE, UPDATE), &[], &columns).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

/// Only one that still waits: what somebody has ended meanwhile stays as it is.
const UPDATE_AT_ONCE: &str = "update punctual.delivery d set status = x.status, error = x.error, \
        tries = x.tries, due_at = x.due_at, channel = x.channel, lane_id = x.lane_id, \
        address = x.address, tried_before = d.tried_before + x.anew, \
        keeps_key = case when x.status = 4 then 0 else 1 end, version = d.version + 1 \
    from (select unnest($1::bigint[]) id, unnest($2::int[]) status, unnest($3::text[]) error, \
        unnest($4::int[]) tries, unnest($5::bigint[]) due_at, unnest($6::text[]) channel, \
        unnest($7::int[]) lane_id, unnest($8::text[]) address, unnest($9::int[]) anew) x \
    where d.id = x.id and d.status = 0 returning d.id";
const UPDATE: &str = "update punctual.delivery set status = $2, error = $3, tries = $4, due_at = $5, \
        channel = $6, lane_id = $7, address = $8, tried_before = tried_before + $9, \
        keeps_key = case when $2 = 4 then 0 else 1 end, version = version + 1 \
    where id = $1 and status = 0 returning id";

/// When it comes again, if it does.
fn next_due(ending: &Ending, now: Timestamp) -> Option<Timestamp> {
    match ending {
        Ending::Again { wait, .. } => Some(now.plus(*wait)),
        Ending::Later(at) | Ending::HeldBack { until: at, .. } => Some(*at),
        Ending::Moved { .. } => Some(now),
        _ => None,
    }
}

async fn come_again(tx: &mut Tx, ended: &[&SettledDelivery], places: &[i64], now: Timestamp) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = ended
        .iter()
        .zip(places)
        .filter_map(|(one, lane)| {
            let at = next_due(&one.ending, now)?;
            let moved = matches!(one.ending, Ending::Moved { .. });
            let tries = if moved { 0 } else { i64::from(tries(one)) };
            let work = one.due.delivery.id.0;
            Some(vec![work.into(), (*lane).into(), at.into(), tries.into(), 0.into(), Value::Null])
        })
        .collect();
    tx.each(WORK_AGAIN, &rows).await?;
    Ok(())
}

/// Writes what is sent in the place of what was given up; answers which deliveries were replaced so.
async fn send_instead(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    lanes: &mut Lanes,
    now: Timestamp,
) -> Result<HashMap<DeliveryId, Instead>> {
    let given_up: Vec<GivenUp<'_>> = ended
        .iter()
        .filter_map(|one| match &one.ending {
            Ending::Failed { instead: Some(planned), .. } => {
                let of = &one.due.delivery;
                Some(GivenUp { id: of.id, entry: of.entry, kind: of.kind, tenant: of.tenant, planned })
            }
            _ => None,
        })
        .collect();
    replace(tx, &given_up, lanes, now).await
}

/// A delivery that was given up, and what is sent in its place.
pub(in crate::store) struct GivenUp<'a> {
    pub id: DeliveryId,
    pub entry: EntryId,
    pub kind: EntryKind,
    pub tenant: Tenant,
    pub planned: &'a Planned,
}

/// What takes the place of a delivery that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Instead {
    /// One that was written for it: there is as much to wait for.
    New,
    /// One that its notification has anyway: there is one less.
    Known,
}

pub(in crate::store) async fn replace(
    tx: &mut Tx,
    given_up: &[GivenUp<'_>],
    lanes: &mut Lanes,
    now: Timestamp,
) -> Result<HashMap<DeliveryId, Instead>> {
    let mut rows = Vec::with_capacity(given_up.len());
    for of in given_up {
        let GivenUp { entry, kind, tenant, planned, .. } = *of;
        let lane = deliver_lane(tx, tenant, (kind, &planned.channel), lanes).await?;
        rows.push(NewDelivery { entry, kind, tenant, lane, planned });
    }
    let mut replaced = HashMap::new();
    if rows.is_empty() {
        return Ok(replaced);
    }
    let mut made = insert_deliveries(tx, &rows, now).await?;
    for (row, given_up) in rows.iter().zip(given_up) {
        let (id, instead) = match made.take(row) {
            Some(id) if row.status() == DeliveryStatus::Pending => (id.0, Instead::New),
            Some(_) => continue,
            None => match anyway(tx, row).await? {
                Some(id) => (id, Instead::Known),
                None => continue,
            },
        };
        tx.execute(REPLACED, params![given_up.id.0, id]).await?;
        replaced.insert(given_up.id, instead);
    }
    Ok(replaced)
}

/// What the notification has under that key, on its way or sent.
async fn anyway(tx: &mut Tx, row: &NewDelivery<'_>) -> Result<Option<i64>> {
    let of = params![row.planned.key.as_str(), row.tenant.id(), row.entry.0];
    tx.first(HAS_ANYWAY, of).await?.map(|found| found.int(0)).transpose()
}

const HAS_ANYWAY: &str = "select id from punctual.delivery where idempotency_key = $1 \
    and tenant_id = $2 and keeps_key = 1 and entry_id = $3 and status in (0, 1, 2)";
const REPLACED: &str = "update punctual.delivery set replaced_by = $2 where id = $1";

/// What notifications have lost and won; one with nothing left to wait for has ended.
#[derive(Default)]
pub(in crate::store) struct Change {
    pub open: i64,
    pub sent: i64,
    pub failed: i64,
    pub reason: Option<String>,
    pub error: Option<String>,
}

async fn count(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    replaced: &HashMap<DeliveryId, Instead>,
    now: Timestamp,
) -> Result<()> {
    let mut changes: BTreeMap<EntryId, Change> = BTreeMap::new();
    for one in ended {
        let status = status_of(&one.ending);
        // A survey counts what its steps count.
        if status == DeliveryStatus::Pending || one.due.delivery.kind == EntryKind::Survey {
            continue;
        }
        let change = changes.entry(one.due.delivery.entry).or_default();
        // Where another channel has taken its place, it has not failed.
        let instead = replaced.get(&one.due.delivery.id);
        change.open -= i64::from(instead != Some(&Instead::New));
        match &one.ending {
            _ if instead.is_some() => {}
            Ending::Sent { .. } => change.sent += 1,
            Ending::Skipped { reason, said } => {
                change.reason = Some(reason.clone());
                change.error.get_or_insert_with(|| said.clone());
            }
            ending => {
                change.failed += 1;
                change.error = error_of(ending);
            }
        }
    }
    recount(tx, &changes, now).await
}

pub(in crate::store) async fn recount(
    tx: &mut Tx,
    changes: &BTreeMap<EntryId, Change>,
    now: Timestamp,
) -> Result<()> {
    let all: Vec<(&EntryId, &Change)> = changes.iter().collect();
    let ints = |pick: &dyn Fn(&Change) -> i64| Column::Ints(all.iter().map(|(_, c)| pick(c)).collect());
    let columns = [
        Column::Ints(all.iter().map(|(notification, _)| notification.0).collect()),
        ints(&|change| change.open),
        ints(&|change| change.sent),
        ints(&|change| change.failed),
        Column::Texts(all.iter().map(|(_, change)| change.reason.as_deref()).collect()),
        Column::Texts(all.iter().map(|(_, change)| change.error.as_deref()).collect()),
    ];
    tx.in_columns((COUNT_AT_ONCE, COUNT), params![now], &columns).await?;
    Ok(())
}

macro_rules! counted {
    ($open:literal, $sent:literal, $failed:literal, $reason:literal, $error:literal) => {
        concat!(
            "set open = n.open + ",
            $open,
            ", sent = n.sent + ",
            $sent,
            ", failed = n.failed + ",
            $failed,
            ", status = case when n.kind <> 'notification' or n.status = 5 then n.status when n.open + ",
            $open,
            " > 0 then 0 when n.failed + ",
            $failed,
            " > 0 then 6 when n.sent + ",
            $sent,
            " > 0 then 1 else 5 end, reason = coalesce(",
            $reason,
            ", n.reason), error = coalesce(",
            $error,
            ", n.error), ended_at = case when n.kind <> 'notification' then n.ended_at when n.open + ",
            $open,
            " > 0 then null else $1::bigint end "
        )
    };
}
const COUNT_AT_ONCE: &str = concat!(
    "update punctual.entry n ",
    counted!("x.open", "x.sent", "x.failed", "x.reason", "x.error"),
    "from (select unnest($2::bigint[]) id, unnest($3::int[]) open, unnest($4::int[]) sent, \
        unnest($5::int[]) failed, unnest($6::text[]) reason, \
        unnest($7::text[]) error) x where n.id = x.id"
);
const COUNT: &str =
    concat!("update punctual.entry as n ", counted!("$3", "$4", "$5", "$6", "$7"), "where n.id = $2");
const _: () = assert!(NotificationStatus::Cancelled as i64 == 5 && NotificationStatus::Failed as i64 == 6);

/// The queue has given these up: their sends were lost too often.
pub(in crate::store) async fn give_up(tx: &mut Tx, items: &[Item], now: Timestamp) -> Result<()> {
    let mut ended = Vec::new();
    for item in items {
        let id = item.delivery();
        let Some(delivery) = super::deliver::pending(tx, id).await? else { continue };
        let due = Due::new(item.clone(), delivery);
        let error = "its send was lost too often; it may have gone out".to_owned();
        ended.push(SettledDelivery {
            due,
            ending: Ending::Uncertain { outcome: Some("unknown"), error },
            survey: None,
        });
    }
    if ended.is_empty() {
        return Ok(());
    }
    write(tx, &ended, now).await?;
    // What follows is said by a definition that is not at hand here.
    let entries: Vec<i64> = ended.iter().map(|one| one.due.delivery.entry.0).collect();
    tx.execute(ADVANCE, &[Value::Ints(&entries)]).await?;
    Ok(())
}

/// At the time of the send that was lost: whoever holds or ends the entry finds its work by that.
const ADVANCE: &str = "insert into punctual.work (message_id, lane_id, due_at) \
    select e.id, e.lane_id, e.due_at from punctual.entry e \
    where e.id = any($1::bigint[]) and e.kind = 'survey' and e.status < 3 and e.due_at is not null";
