//! New deliveries: their keys decide which are written, each with its work or with none.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery, delivery_status};
use crate::flow::rules::entry::EntryKind;
use crate::flow::store::entries::key::{KeyDigestHalf, key_of_text};
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::queues::own_lane;
use crate::queue::store::waiting_work::{ADD_WORK_ROW, add_work};
use std::collections::{HashMap, HashSet};

/// A delivery to be written.
pub(crate) struct NewDelivery<'a> {
    pub entry: EntryId,
    pub kind: EntryKind,
    pub tenant: Tenant,
    pub lane: i64,
    /// Whether its entry is on hold.
    pub held: bool,
    pub planned: &'a PlannedDelivery,
}

impl NewDelivery<'_> {
    /// A delivery without an address is written as skipped, and takes no key.
    pub(crate) const fn status(&self) -> DeliveryStatus {
        if self.planned.address.is_some() { DeliveryStatus::Pending } else { DeliveryStatus::Skipped }
    }
}

/// Deliveries that were written, by entry and key.
#[derive(Default)]
pub(crate) struct WrittenDeliveries(HashMap<EntryId, HashMap<String, DeliveryId>>);

impl WrittenDeliveries {
    pub(crate) fn read(rows: &[Row]) -> Result<Self> {
        let mut written = Self::default();
        for row in rows {
            let of = written.0.entry(EntryId(row.int(4)?)).or_default();
            of.insert(row.text(1)?, DeliveryId(row.int(0)?));
        }
        Ok(written)
    }

    /// The id of a delivery that was to be written; `None` if its key was known.
    pub(crate) fn of(&self, row: &NewDelivery<'_>) -> Option<DeliveryId> {
        self.0.get(&row.entry)?.get(&row.planned.key).copied()
    }

    /// The same for one of several that may have the same key: the one that was written is the first.
    pub(crate) fn take(&mut self, row: &NewDelivery<'_>) -> Option<DeliveryId> {
        self.0.get_mut(&row.entry)?.remove(&row.planned.key)
    }
}

/// Send lanes that are known, by tenant, kind of entry and channel.
pub(crate) type SendLanes = HashMap<(Tenant, EntryKind), HashMap<String, i64>>;

/// The lane of deliveries by one channel, for entries of one kind.
pub(crate) async fn send_lane(
    tx: &mut Tx,
    tenant: Tenant,
    (kind, channel): (EntryKind, &str),
    known: &mut SendLanes,
) -> Result<i64> {
    if let Some(lane) = known.get(&(tenant, kind)).and_then(|of| of.get(channel)) {
        return Ok(*lane);
    }
    let lane = own_lane(tx, tenant, Purpose::Send, (channel, kind.word())).await?;
    known.entry((tenant, kind)).or_default().insert(channel.to_owned(), lane);
    Ok(lane)
}

/// Writes deliveries whose keys are new, and the work of those that are to be sent; returns how many were
/// written. Mostly that is all of them, and then the caller does not need to know which.
pub(crate) async fn insert_counted(tx: &mut Tx, rows: &[NewDelivery<'_>], now: Timestamp) -> Result<usize> {
    let written = insert_rows(tx, COUNTED, rows, now).await?;
    match (tx.dialect(), written.first()) {
        (Dialect::Postgres, Some(counted)) => Ok(usize::try_from(counted.int(0)?).unwrap_or_default()),
        _ => Ok(written.len()),
    }
}

/// The same; returns them by key.
pub(crate) async fn insert_deliveries(
    tx: &mut Tx,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<WrittenDeliveries> {
    WrittenDeliveries::read(&insert_rows(tx, WITH_WORK, rows, now).await?)
}

/// Writes deliveries whose keys are new, without any work: they are begun. Returns the id and the entry of
/// each that was written, with ids that rise in the order of the rows. Keys of entries with a timetable name
/// the send, so that a known one is rare.
pub(crate) async fn insert_begun(
    tx: &mut Tx,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<Vec<(DeliveryId, EntryId)>> {
    let (written, entry) = match tx.dialect() {
        Dialect::Postgres => {
            let are_new = !tx.is_rerun() && rows.iter().all(|row| row.kind.has_timetable());
            let at_once = if are_new { NEW_WITHOUT_WORK } else { WITHOUT_WORK };
            (tx.in_columns((at_once, ""), params![now], &columns(rows, &[])).await?, 1)
        }
        Dialect::Sqlite => (insert_each(tx, rows, now).await?, 4),
    };
    let (ids, entries) = (tx.listed(&written, 0)?, tx.listed(&written, entry)?);
    Ok(ids.into_iter().map(DeliveryId).zip(entries.into_iter().map(EntryId)).collect())
}

/// These deliveries, by entry and key.
pub(crate) async fn written_by_id(
    tx: &mut Tx,
    written: &[(DeliveryId, EntryId)],
) -> Result<WrittenDeliveries> {
    let ids: Vec<i64> = written.iter().map(|(id, _)| id.0).collect();
    WrittenDeliveries::read(&tx.query(BY_ID, &[Value::Ints(&ids)]).await?)
}

/// The deliveries that these entries have now.
pub(crate) async fn written_of(tx: &mut Tx, rows: &[NewDelivery<'_>]) -> Result<WrittenDeliveries> {
    let mut entries: Vec<i64> = rows.iter().map(|row| row.entry.0).collect();
    entries.dedup();
    WrittenDeliveries::read(&tx.query(OF_ENTRIES, &[Value::Ints(&entries)]).await?)
}

/// Returns what the statement does on PostgreSQL, and each delivery on SQLite.
async fn insert_rows(
    tx: &mut Tx,
    at_once: &'static str,
    rows: &[NewDelivery<'_>],
    now: Timestamp,
) -> Result<Vec<Row>> {
    if tx.dialect() == Dialect::Postgres {
        return tx.in_columns((at_once, ""), params![now], &columns(rows, &[])).await;
    }
    let written = insert_each(tx, rows, now).await?;
    let (mut work, mut lanes) = (Vec::new(), Vec::new());
    for row in &written {
        if row.int(3)? == DeliveryStatus::Pending.code() && !row.flag(5)? {
            work.push(row.int(0)?);
            lanes.push(row.int(2)?);
        }
    }
    let due = vec![now.as_micros(); work.len()];
    let work = [Column::Ints(work), Column::Ints(lanes), Column::Ints(due)];
    tx.in_columns(("", ADD_WORK_ROW), &[], &work).await?;
    Ok(written)
}

/// Row after row: the keys first, under the ids that the deliveries will have. The writer is alone, so the
/// ids behind the last one are free.
async fn insert_each(tx: &mut Tx, rows: &[NewDelivery<'_>], now: Timestamp) -> Result<Vec<Row>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let last = tx.first(LAST_ID, &[]).await?.map_or(Ok(0), |row| row.int(0))?;
    let ids: Vec<i64> = (last + 1..).take(rows.len()).collect();
    let keyed: Vec<(&NewDelivery<'_>, i64)> =
        rows.iter().zip(ids.iter().copied()).filter(|(row, _)| takes_key(row)).collect();
    let digests: Vec<KeyDigestHalf> = keyed.iter().map(|(row, _)| key_of_text(&row.planned.key)).collect();
    let keys = [
        Column::Ints(keyed.iter().map(|(row, _)| row.tenant.id()).collect()),
        Column::Ints(digests.iter().map(|key| key.0).collect()),
        Column::Ints(digests.iter().map(|key| key.1).collect()),
        Column::Ints(keyed.iter().map(|(_, id)| *id).collect()),
    ];
    let new = tx.in_columns(("", INSERT_KEY), params![now], &keys).await?;
    let new = new.iter().map(|row| row.int(0)).collect::<Result<HashSet<i64>>>()?;
    let (admitted, ids): (Vec<&NewDelivery<'_>>, Vec<i64>) =
        rows.iter().zip(ids).filter(|(row, id)| !takes_key(row) || new.contains(id)).unzip();
    tx.in_columns(("", INSERT_DELIVERY), params![now], &columns_of(&admitted, &ids)).await
}

fn takes_key(row: &NewDelivery<'_>) -> bool {
    row.status() != DeliveryStatus::Skipped
}

fn columns<'a>(rows: &'a [NewDelivery<'_>], ids: &[i64]) -> Vec<Column<'a>> {
    columns_of(&rows.iter().collect::<Vec<_>>(), ids)
}

/// The columns of deliveries, in the order of their statements: with ids on SQLite, with keys on PostgreSQL.
fn columns_of<'a>(rows: &[&'a NewDelivery<'_>], ids: &[i64]) -> Vec<Column<'a>> {
    let ints =
        |pick: &dyn Fn(&NewDelivery<'_>) -> i64| Column::Ints(rows.iter().map(|row| pick(row)).collect());
    let no_recipient = |row: &&NewDelivery<'_>| row.planned.address.is_none().then_some("No recipient");
    let mut columns = vec![
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
        Column::Texts(rows.iter().map(no_recipient).collect()),
        ints(&|row| i64::from(row.held)),
        Column::Texts(rows.iter().map(|row| row.planned.recipient.name.as_deref()).collect()),
        Column::Texts(rows.iter().map(|row| row.planned.recipient.reference.as_deref()).collect()),
        ints(&|row| i64::from(row.planned.send)),
    ];
    if ids.is_empty() {
        let digests: Vec<KeyDigestHalf> = rows.iter().map(|row| key_of_text(&row.planned.key)).collect();
        columns.push(Column::Ints(digests.iter().map(|key| key.0).collect()));
        columns.push(Column::Ints(digests.iter().map(|key| key.1).collect()));
    } else {
        columns.push(Column::Ints(ids.to_vec()));
    }
    columns
}

/// The columns of a delivery, behind the time that is both its creation and its due time.
macro_rules! new_columns {
    () => {
        "
        (
            created_at, due_at, tenant_id, entry_id, idempotency_key, lane_id, channel, address, part,
            template_id, template_version, status, error, held, recipient, recipient_ref, send, id
        )
        "
    };
}
/// Ids are drawn first, so that keys can name them. Keys are inserted in one order, so that two transactions
/// never wait for each other in a circle.
macro_rules! insert_at_once {
    ($known:literal, $admitted:expr) => {
        concat! {"
            with x as materialized (
                select nextval('punctual.delivery_id_seq') id, unnest($2::int[]) tenant_id,
                    unnest($3::bigint[]) entry_id, unnest($4::text[]) key, unnest($5::int[]) lane_id,
                    unnest($6::text[]) channel, unnest($7::text[]) address, unnest($8::int[]) part,
                    unnest($9::bigint[]) template_id, unnest($10::int[]) version,
                    unnest($11::int[]) status, unnest($12::text[]) error, unnest($13::int[]) held,
                    unnest($14::text[]) recipient, unnest($15::text[]) recipient_ref,
                    unnest($16::int[]) send, unnest($17::bigint[]) high, unnest($18::bigint[]) low
            ),
            k as (
                insert into punctual.delivery_key (tenant_id, key_high, key_low, delivery_id, made_at)
                select tenant_id, high, low, id, $1::bigint
                from x
                where status <> ", delivery_status!(Skipped), "
                order by high, low ", $known, "
            ),
            made as (
                insert into punctual.delivery ", new_columns!(), "
                select $1::bigint, $1::bigint, tenant_id, entry_id, key, lane_id, channel, address,
                    part, template_id, version, status, error, held, recipient, recipient_ref, send, id
                from x ", $admitted, "
                returning id, idempotency_key, lane_id, status, entry_id, held
            )
        "}
    };
}
/// Those whose keys are new.
macro_rules! insert_admitted {
    () => {
        insert_at_once!(
            "
                on conflict do nothing
                returning delivery_id
            ",
            concat! {"
                where status = ", delivery_status!(Skipped), "
                    or id in (select delivery_id from k)
            "}
        )
    };
}
macro_rules! with_work {
    ($answer:literal) => {
        concat! {insert_admitted!(), ",
            waiting as (
                ", add_work!(), "
                select id, lane_id, $1::bigint
                from made
                where status = ", delivery_status!(Pending), " and held = 0
            )
            select ", $answer, "
            from made
        "}
    };
}

statements! {
    const WITH_WORK for Postgres = with_work!("id, idempotency_key, lane_id, status, entry_id");

    const COUNTED for Postgres = with_work!("count(*)");
}
macro_rules! begun_answer {
    () => {
        "
        select array_agg(id), array_agg(entry_id)
        from made
        "
    };
}

statements! {
    const WITHOUT_WORK for Postgres = insert_admitted!(), " ", begun_answer!();

    /// With keys that are all new; the transaction is tried again if one is not. An insert that bears with
    /// known keys costs more for every row.
    const NEW_WITHOUT_WORK for Postgres = insert_at_once!("", ""), " ", begun_answer!();

    const BY_ID = "
        select id, idempotency_key, lane_id, status, entry_id
        from punctual.delivery
        where id = any($1::bigint[])
    ";

    const OF_ENTRIES = "
        select id, idempotency_key, lane_id, status, entry_id
        from punctual.delivery
        where entry_id = any($1::bigint[])
    ";

    const INSERT_KEY = "
        insert into punctual.delivery_key (made_at, tenant_id, key_high, key_low, delivery_id)
        values ($1, $2, $3, $4, $5)
        on conflict do nothing
        returning delivery_id
    ";

    const INSERT_DELIVERY = "
        insert into punctual.delivery ", new_columns!(), "
        values ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
        returning id, idempotency_key, lane_id, status, entry_id, held
    ";

    const LAST_ID for Sqlite = "
        select coalesce(max(seq), 0)
        from sqlite_sequence
        where name = 'punctual.delivery'
    ";
}
