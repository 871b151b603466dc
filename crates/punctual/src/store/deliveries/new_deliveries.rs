//! The rows of new deliveries, and their work: what is to be sent, and has a key that nobody has.

use super::super::columns::Column;
use super::super::dialect::Dialect;
use super::super::tx::Tx;
use super::super::value::{Row, Value, params};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::tenant::Tenant;
use crate::rules::entry::EntryKind;
use crate::rules::notification::{DeliveryStatus, Planned};
use std::collections::HashMap;

pub(in crate::store) struct NewDelivery<'a> {
    pub entry: EntryId,
    pub kind: EntryKind,
    pub tenant: Tenant,
    pub lane: i64,
    pub planned: &'a Planned,
}

/// Deliveries that were written, with their keys, by notification.
#[derive(Default)]
pub(in crate::store) struct Made(HashMap<EntryId, HashMap<String, DeliveryId>>);

impl Made {
    pub(super) fn read(rows: &[Row]) -> Result<Self> {
        let mut made = Self::default();
        for row in rows {
            let of = made.0.entry(EntryId(row.int(4)?)).or_default();
            of.insert(row.text(1)?, DeliveryId(row.int(0)?));
        }
        Ok(made)
    }

    /// What became of one that was to be written; `None` if its key was known.
    pub(in crate::store) fn of(&self, row: &NewDelivery<'_>) -> Option<DeliveryId> {
        self.0.get(&row.entry)?.get(&row.planned.key).copied()
    }

    /// The same for one of several that may have the same key: what was written is the first one's.
    pub(super) fn take(&mut self, row: &NewDelivery<'_>) -> Option<DeliveryId> {
        self.0.get_mut(&row.entry)?.remove(&row.planned.key)
    }
}

impl NewDelivery<'_> {
    pub(super) const fn status(&self) -> DeliveryStatus {
        if self.planned.address.is_some() { DeliveryStatus::Pending } else { DeliveryStatus::Skipped }
    }
}

/// The columns of deliveries, in the order of their statements.
fn columns<'a>(rows: &'a [NewDelivery<'_>]) -> [Column<'a>; 15] {
    let ints = |pick: &dyn Fn(&NewDelivery<'_>) -> i64| Column::Ints(rows.iter().map(pick).collect());
    let nobody = |row: &NewDelivery<'_>| row.planned.address.is_none().then_some("No recipient");
    [
        ints(&|row| row.tenant.id()),
        ints(&|row| row.entry.0),
        Column::Texts(rows.iter().map(|row| Some(row.planned.key.as_str())).collect()),
        ints(&|row| row.lane),
        Column::Texts(rows.iter().map(|row| Some(row.planned.channel.as_str())).collect()),
        Column::Texts(rows.iter().map(|row| Some(row.planned.address.as_deref().unwrap_or(""))).collect()),
        ints(&|row| i64::try_from(row.planned.part).unwrap_or_default()),
        ints(&|row| row.planned.template.0),
        ints(&|row| i64::from(row.planned.version)),
        ints(&|row| row.status().code()),
        Column::Texts(rows.iter().map(nobody).collect()),
        ints(&|row| i64::from(row.status() != DeliveryStatus::Skipped)),
        Column::Texts(rows.iter().map(|row| row.planned.whom.name.as_deref()).collect()),
        Column::Texts(rows.iter().map(|row| row.planned.whom.reference.as_deref()).collect()),
        ints(&|row| i64::from(row.planned.send)),
    ]
}

/// Writes deliveries whose keys are new, and the work of those that are to be sent; answers how many. Mostly
/// that is all of them, and then nobody needs to know which.
pub(super) async fn insert_counted(tx: &mut Tx, rows: &[NewDelivery<'_>], now: Timestamp) -> Result<usize> {
    let answer = insert_rows(tx, COUNTED, rows, now).await?;
    match (tx.dialect(), answer.first()) {
        (Dialect::Postgres, Some(counted)) => Ok(usize::try_from(counted.int(0)?).unwrap_or_default()),
        _ => Ok(answer.len()),
    }
}

/// The same; answers them by key.
pub(in crate::store) async fn insert_deliveries(
    tx: &mut Tx,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<Made> {
    Made::read(&insert_rows(tx, AT_ONCE, rows, now).await?)
}

/// What these notifications have now, if nobody else writes to them.
pub(super) async fn made_of(tx: &mut Tx, rows: &[NewDelivery<'_>]) -> Result<Made> {
    let mut notifications: Vec<i64> = rows.iter().map(|row| row.entry.0).collect();
    notifications.dedup();
    Made::read(&tx.query(MADE_OF, &[Value::Ints(&notifications)]).await?)
}

/// Writes deliveries whose keys are new, without any work: they are begun. Answers them in any order.
pub(super) async fn insert_begun(tx: &mut Tx, rows: &[NewDelivery<'_>], now: Timestamp) -> Result<Vec<Row>> {
    tx.in_columns((WITHOUT_WORK, DELIVERY), params![now], &columns(rows)).await
}

/// Answers what the statement does on Postgres, and each of them on SQLite.
async fn insert_rows(
    tx: &mut Tx,
    at_once: &'static str,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<Vec<Row>> {
    let made = tx.in_columns((at_once, DELIVERY), params![now], &columns(rows)).await?;
    if tx.dialect() == Dialect::Postgres {
        return Ok(made);
    }
    let (mut work, mut lanes) = (Vec::new(), Vec::new());
    for row in &made {
        if row.int(3)? == DeliveryStatus::Pending.code() {
            work.push(row.int(0)?);
            lanes.push(row.int(2)?);
        }
    }
    let work = [Column::Ints(work), Column::Ints(lanes)];
    tx.in_columns((WORK_AT_ONCE, WORK), params![now], &work).await?;
    Ok(made)
}

macro_rules! delivery_columns {
    () => {
        "insert into punctual.delivery (created_at, due_at, tenant_id, entry_id, idempotency_key, \
            lane_id, channel, address, part, template_id, template_version, status, error, keeps_key, \
            recipient, recipient_ref, send) "
    };
}
macro_rules! insert_at_once {
    () => {
        concat!(
            delivery_columns!(),
            "select $1::bigint, $1::bigint, unnest($2::int[]), unnest($3::bigint[]), unnest($4::text[]), \
                unnest($5::int[]), unnest($6::text[]), unnest($7::text[]), unnest($8::int[]), \
                unnest($9::bigint[]), unnest($10::int[]), unnest($11::int[]), unnest($12::text[]), \
                unnest($13::int[]), unnest($14::text[]), unnest($15::text[]), unnest($16::int[]) \
             on conflict (idempotency_key, tenant_id) where keeps_key = 1 do nothing \
             returning id, idempotency_key, lane_id, status, entry_id"
        )
    };
}
/// Their work is written in the same statement.
macro_rules! with_work {
    ($answer:literal) => {
        concat!(
            "with made as (",
            insert_at_once!(),
            "), waiting as (insert into punctual.work (message_id, lane_id, due_at) \
                select id, lane_id, $1::bigint from made where status = 0) \
             select ",
            $answer,
            " from made"
        )
    };
}
const AT_ONCE: &str = with_work!("id, idempotency_key, lane_id, status, entry_id");
const COUNTED: &str = with_work!("count(*)");
const WITHOUT_WORK: &str = insert_at_once!();
const MADE_OF: &str = "select id, idempotency_key, lane_id, status, entry_id \
    from punctual.delivery where entry_id = any($1::bigint[])";
const DELIVERY: &str = concat!(
    delivery_columns!(),
    "values ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
     on conflict (idempotency_key, tenant_id) where keeps_key = 1 do nothing \
     returning id, idempotency_key, lane_id, status, entry_id"
);
pub(super) const WORK_AT_ONCE: &str = "insert into punctual.work (message_id, lane_id, due_at) \
    select id, lane, $1::bigint from unnest($2::bigint[], $3::int[]) x (id, lane)";
pub(super) const WORK: &str = "insert into punctual.work (message_id, lane_id, due_at) values ($2, $3, $1)";
