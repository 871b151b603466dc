//! Looking at entries: one by its public id, lists by what a support person knows, the log of its
//! sends, and what a survey's results are made of.

use super::super::Store;
use super::super::tx::Tx;
use super::super::value::{Row, Value, params};
use super::key::key_of_hash;
use super::transition::BY_PUBLIC_ID;
use super::{Entry, entry_columns, read_entry};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId, MessageId};
use crate::base::tenant::Tenant;
use crate::rules::entry::Status;
use crate::rules::entry::log::{DeliveryLine, Outcome};
use crate::rules::message::Entity;
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// Which entries are wanted; what is `None` does not count.
#[derive(Clone, Debug, Default)]
pub struct EntryFilter {
    /// Of this flow.
    pub flow: Option<FlowId>,
    /// Of this status.
    pub status: Option<Status>,
    /// Sent to this address.
    pub address: Option<String>,
    /// For this customer.
    pub customer_ref: Option<String>,
    /// Only those that are on hold, or only those that are not.
    pub held: Option<bool>,
}

/// An answer, as it was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Whose.
    pub entry: EntryId,
    /// The entry's name outside.
    pub public_id: PublicId,
    /// The version that was answered.
    pub number: u32,
    /// The trigger that invited.
    pub trigger_id: String,
    /// The answers, in their canonical form.
    pub answers: Map<String, Json>,
    /// When.
    pub completed_at: Timestamp,
}

/// Whom the message of an answer went to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The message.
    pub message: MessageId,
    /// The subscriptions; an empty name is the topic's own queue.
    pub subscribers: Vec<String>,
    /// Names that the survey lists and that had no enabled subscription.
    pub unknown: Vec<String>,
}

impl Told {
    /// The names, as the row has them.
    pub(super) fn names(&self) -> String {
        serde_json::json!([self.subscribers, self.unknown]).to_string()
    }
}

/// Which answers are wanted; what is `None` does not count.
#[derive(Clone, Debug, Default)]
pub struct ResultFilter {
    /// Of this version.
    pub number: Option<u32>,
    /// Of this trigger.
    pub trigger_id: Option<String>,
    /// Not before this moment.
    pub from: Option<Timestamp>,
    /// Before this moment.
    pub to: Option<Timestamp>,
}

/// How many entries of a flow there are, by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts(pub [u64; Status::ALL.len()]);

impl EntryCounts {
    /// Those of one status.
    #[must_use]
    pub fn of(&self, status: Status) -> u64 {
        let at = Status::ALL.iter().position(|one| *one == status).unwrap_or_default();
        self.0[at]
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Store {
    /// One entry by its name outside, of whichever tenant: whoever has the link may see it.
    pub fn entry_of_link(&self, id: PublicId) -> VerbFuture<'_, Option<(Entry, Map<String, Json>)>> {
        self.read(id, |tx, id| Box::pin(of_link(tx, *id)))
    }

    /// One entry of a tenant.
    pub fn entry(&self, tenant: Tenant, id: PublicId) -> VerbFuture<'_, Option<Entry>> {
        VerbFuture::new(async move {
            let found = self.entry_of_link(id).await?;
            Ok(found.map(|(entry, _)| entry).filter(|entry| entry.tenant == tenant))
        })
    }

    /// One entry of a tenant, by its dedup key in hexadecimal.
    pub fn entry_of_hash<'a>(&'a self, tenant: Tenant, hash: &'a str) -> VerbFuture<'a, Option<Entry>> {
        VerbFuture::new(async move {
            let Some(key) = key_of_hash(hash) else { return Ok(None) };
            let found = self.of(tenant).read((tenant, key), |tx, (tenant, key)| {
                Box::pin(async move {
                    let row = tx.first(BY_KEY, params![tenant.id(), key.0, key.1]).await?;
                    row.map(|mut row| read_entry(&mut row)).transpose()
                })
            });
            // The key is half of the hash.
            Ok(found.await?.filter(|entry| entry.unique_hash.eq_ignore_ascii_case(hash)))
        })
    }

    /// Surveys' entries by their numbers, of whichever tenants: for the loops.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entries_by_id(&self, ids: Vec<EntryId>) -> VerbFuture<'_, Vec<Entry>> {
        self.read(ids, |tx, ids| {
            Box::pin(async move {
                let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
                tx.query(BY_ID, &[Value::Ints(&ids)]).await?.iter_mut().map(read_entry).collect()
            })
        })
    }

    /// What entries are about, of whichever tenants. One that is about nothing is left out.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entities_of_entries(&self, ids: Vec<EntryId>) -> VerbFuture<'_, Vec<(EntryId, Tenant, Entity)>> {
        self.read(ids, |tx, ids| {
            Box::pin(async move {
                let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
                let rows = tx.query(ENTITIES, &[Value::Ints(&ids)]).await?;
                let read = |row: &Row| {
                    let entity = Entity { kind: row.text(2)?, id: row.text(3)? };
                    Ok((EntryId(row.int(0)?), Tenant::from_row(row.int(1)?), entity))
                };
                rows.iter().map(read).collect()
            })
        })
    }

    /// Entries of a tenant with ids below `before`, the newest first.
    pub fn entries(
        &self,
        tenant: Tenant,
        filter: EntryFilter,
        before: EntryId,
        limit: usize,
    ) -> VerbFuture<'_, Vec<Entry>> {
        self.of(tenant).read((tenant, filter, before, limit), |tx, (tenant, filter, before, limit)| {
            Box::pin(list(tx, *tenant, filter, *before, *limit))
        })
    }

    /// What was tried for an entry, in order.
    pub fn delivery_log(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Vec<DeliveryLine>> {
        self.of(tenant).read((tenant, entry), |tx, (tenant, entry)| {
            Box::pin(async move {
                let rows = tx.query(LOG, params![entry.0, tenant.id()]).await?;
                rows.iter().map(read_line).collect()
            })
        })
    }

    /// What was tried for each of some entries, in order.
    pub fn delivery_logs(
        &self,
        tenant: Tenant,
        entries: Vec<EntryId>,
    ) -> VerbFuture<'_, HashMap<EntryId, Vec<DeliveryLine>>> {
        VerbFuture::new(async move {
            if entries.is_empty() {
                return Ok(HashMap::new());
            }
            self.of(tenant)
                .read((tenant, entries), |tx, (tenant, entries)| Box::pin(logs(tx, *tenant, entries)))
                .await
        })
    }

    /// The message that an entry's answer became.
    pub fn told_of(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Option<Told>> {
        self.of(tenant).read((tenant, entry), |tx, (tenant, entry)| {
            Box::pin(async move {
                let row = tx.first(TOLD, params![entry.0, tenant.id()]).await?;
                row.map(|row| {
                    let (subscribers, unknown) = serde_json::from_str(&row.text(1)?).unwrap_or_default();
                    Ok(Told { message: MessageId(row.int(0)?), subscribers, unknown })
                })
                .transpose()
            })
        })
    }

    /// Answers to a flow behind `after` (a moment and an entry), in order.
    pub fn responses(
        &self,
        tenant: Tenant,
        flow: FlowId,
        filter: ResultFilter,
        after: (Timestamp, EntryId),
        limit: usize,
    ) -> VerbFuture<'_, Vec<Response>> {
        let request = (tenant, flow, filter, after, limit);
        self.of(tenant).read(request, |tx, (tenant, flow, filter, after, limit)| {
            Box::pin(responses(tx, *tenant, *flow, filter, *after, *limit))
        })
    }

    /// How many entries of a flow there are, by status.
    pub fn entry_counts(
        &self,
        tenant: Tenant,
        flow: FlowId,
        filter: ResultFilter,
    ) -> VerbFuture<'_, EntryCounts> {
        self.of(tenant).read((tenant, flow, filter), |tx, (tenant, flow, filter)| {
            Box::pin(counts(tx, *tenant, *flow, filter))
        })
    }
}

async fn of_link(tx: &mut Tx, id: PublicId) -> Result<Option<(Entry, Map<String, Json>)>> {
    let (high, low) = id.halves();
    let Some(mut row) = tx.first(BY_PUBLIC_ID, params![high, low]).await? else { return Ok(None) };
    let entry = read_entry(&mut row)?;
    let kept =
        tx.first("select answers from punctual.progress where entry_id = $1", params![entry.id.0]).await?;
    let progress = kept.map(|row| row.text(0)).transpose()?;
    let progress = progress.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(Some((entry, progress)))
}

async fn list(
    tx: &mut Tx,
    tenant: Tenant,
    filter: &EntryFilter,
    before: EntryId,
    limit: usize,
) -> Result<Vec<Entry>> {
    // The most telling condition chooses the statement, and so the index; the others only filter.
    let sql = match filter {
        EntryFilter { address: Some(_), .. } => BY_ADDRESS,
        EntryFilter { customer_ref: Some(_), .. } => BY_CUSTOMER,
        EntryFilter { flow: Some(_), .. } => BY_FLOW,
        _ => ALL,
    };
    let row = params![
        tenant.id(),
        before.0,
        i64::try_from(limit).unwrap_or(i64::MAX),
        filter.flow.map(|flow| flow.0),
        filter.status.map(Status::code),
        filter.address.as_deref(),
        filter.customer_ref.as_deref(),
        filter.held.map(i64::from),
    ];
    tx.query(sql, row).await?.iter_mut().map(read_entry).collect()
}

macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "select ",
            entry_columns!(),
            " from punctual.entry e where e.tenant_id = $1 and e.id < $2 and e.kind = 'survey' \
                    and e.deleted_at is null and ",
            $condition,
            " and ($4::bigint is null or e.flow_id = $4) and ($5::bigint is null or e.status = $5) \
              and ($6::text is null or e.address = $6) and ($7::text is null or e.customer_ref = $7) \
              and ($8::bigint is null or ($8 = 1) = (e.held_at is not null)) \
              order by e.id desc limit $3"
        )
    };
}
const ENTITIES: &str = "select id, tenant_id, entity_type, entity_id from punctual.entry \
    where id = any($1::bigint[]) and entity_type is not null and entity_id is not null order by id";
const BY_ID: &str = concat!(
    "select ",
    entry_columns!(),
    " from punctual.entry e where e.id = any($1::bigint[]) and e.kind = 'survey'"
);
const BY_ADDRESS: &str = listed!("e.address = $6");
const BY_CUSTOMER: &str = listed!("e.customer_ref = $7");
const BY_FLOW: &str = listed!("e.flow_id = $4");
const ALL: &str = listed!("1 = 1");

fn read_line(row: &Row) -> Result<DeliveryLine> {
    let status = row.text(2)?;
    Ok(DeliveryLine {
        attempt: row.count(0)?,
        sent_at: row.time(1)?,
        status: Outcome::of_attempt(&status)
            .ok_or_else(|| Error::Database(format!("`{status}` is not an outcome").into()))?,
        message_id: row.maybe_text(3)?,
        error: row.maybe_text(4)?,
        reason: row.maybe_text(5)?,
    })
}

/// Tries of deliveries, and why some were never tried; that one had to wait is no line.
macro_rules! log_lines {
    ($condition:literal) => {
        concat!(
            "select d.send, a.at, a.outcome, a.provider_id, a.error, a.reason, d.entry_id \
             from punctual.delivery d join punctual.delivery_attempt a on a.delivery_id = d.id \
             where d.tenant_id = $2 and ",
            $condition,
            " and a.tried <> 0 order by d.entry_id, d.send, a.at, d.id, a.tried"
        )
    };
}
const LOG: &str = log_lines!("d.entry_id = $1");

async fn logs(
    tx: &mut Tx,
    tenant: Tenant,
    entries: &[EntryId],
) -> Result<HashMap<EntryId, Vec<DeliveryLine>>> {
    let ids: Vec<i64> = entries.iter().map(|id| id.0).collect();
    let mut logs: HashMap<EntryId, Vec<DeliveryLine>> = HashMap::new();
    for row in tx.query(LOGS, &[Value::Ints(&ids), tenant.id().into()]).await? {
        logs.entry(EntryId(row.int(6)?)).or_default().push(read_line(&row)?);
    }
    Ok(logs)
}

const LOGS: &str = log_lines!("d.entry_id = any($1::bigint[])");
const BY_KEY: &str = concat!(
    "select ",
    entry_columns!(),
    " from punctual.entry_key k join punctual.entry e on e.id = k.entry_id and e.kind = 'survey' \
      where k.tenant_id = $1 and k.key_high = $2 and k.key_low = $3 and e.deleted_at is null"
);
const TOLD: &str = "select message_id, told from punctual.response \
    where entry_id = $1 and tenant_id = $2";

async fn responses(
    tx: &mut Tx,
    tenant: Tenant,
    flow: FlowId,
    filter: &ResultFilter,
    after: (Timestamp, EntryId),
    limit: usize,
) -> Result<Vec<Response>> {
    let row = [
        tenant.id().into(),
        flow.0.into(),
        after.0.into(),
        after.1.0.into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
        Value::from(filter.number.map(i64::from)),
        filter.trigger_id.as_deref().into(),
        Value::from(filter.from.map(Timestamp::as_micros)),
        Value::from(filter.to.map(Timestamp::as_micros)),
    ];
    tx.query(RESPONSES, &row).await?.iter().map(read_response).collect()
}

const RESPONSES: &str = "select r.entry_id, e.public_high, e.public_low, r.number, r.trigger_id, r.answers, \
        r.completed_at \
    from punctual.response r join punctual.entry e on e.id = r.entry_id and e.deleted_at is null \
    where r.tenant_id = $1 and r.flow_id = $2 and r.completed_at >= $3 \
        and (r.completed_at > $3 or r.entry_id > $4) \
        and ($6::bigint is null or r.number = $6) and ($7::text is null or r.trigger_id = $7) \
        and ($8::bigint is null or r.completed_at >= $8) and ($9::bigint is null or r.completed_at < $9) \
    order by r.completed_at, r.entry_id limit $5";

fn read_response(row: &Row) -> Result<Response> {
    let public = PublicId::from_halves((row.int(1)?, row.int(2)?));
    Ok(Response {
        entry: EntryId(row.int(0)?),
        public_id: public.ok_or_else(|| Error::Database("an entry has no public id".into()))?,
        number: row.count(3)?,
        trigger_id: row.text(4)?,
        answers: serde_json::from_str(&row.text(5)?).unwrap_or_default(),
        completed_at: row.time(6)?,
    })
}

async fn counts(tx: &mut Tx, tenant: Tenant, flow: FlowId, filter: &ResultFilter) -> Result<EntryCounts> {
    let row = [
        tenant.id().into(),
        flow.0.into(),
        Value::from(filter.number.map(i64::from)),
        filter.trigger_id.as_deref().into(),
        Value::from(filter.from.map(Timestamp::as_micros)),
        Value::from(filter.to.map(Timestamp::as_micros)),
    ];
    let mut counts = EntryCounts::default();
    for row in tx.query(COUNTS, &row).await? {
        let code = usize::try_from(row.int(0)?).unwrap_or(usize::MAX);
        if let Some(place) = counts.0.get_mut(code) {
            *place = u64::try_from(row.int(1)?).unwrap_or_default();
        }
    }
    Ok(counts)
}

const COUNTS: &str = "select e.status, count(*) from punctual.entry e \
    where e.tenant_id = $1 and e.flow_id = $2 and e.deleted_at is null \
        and ($3::bigint is null or e.number = $3) and ($4::text is null or e.trigger_id = $4) \
        and ($5::bigint is null or e.created_at >= $5) and ($6::bigint is null or e.created_at < $6) \
    group by e.status";
