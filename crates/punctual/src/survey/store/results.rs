//! Answers: the data of a survey's results, and the entry of a recipient with a link.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, Value, params};
use crate::flow::rules::entry::EntryStatus;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::{Entry, entry_columns, read_entry};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

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

/// The subscriptions that the message of an answer went to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseListeners {
    /// The message.
    pub message: MessageId,
    /// The subscriptions; an empty name is the topic's own queue.
    pub subscribers: Vec<String>,
    /// Names that the survey lists and that had no enabled subscription.
    pub unknown: Vec<String>,
}

impl ResponseListeners {
    /// The names, as the row has them.
    pub(crate) fn names(&self) -> String {
        serde_json::json!([self.subscribers, self.unknown]).to_string()
    }
}

/// Selects instances, and so their answers; a field that is `None` matches all.
#[derive(Clone, Debug, Default)]
pub struct ResultFilter {
    /// Of this version.
    pub number: Option<u32>,
    /// Of this trigger.
    pub trigger_id: Option<String>,
    /// Triggered at this moment or later, whenever they were answered.
    pub from: Option<Timestamp>,
    /// Triggered before this moment.
    pub to: Option<Timestamp>,
}

/// How many entries of a flow there are, by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts(pub [u64; EntryStatus::ALL.len()]);

impl EntryCounts {
    /// Those of one status.
    #[must_use]
    pub fn of(&self, status: EntryStatus) -> u64 {
        let at = EntryStatus::ALL.iter().position(|one| *one == status).unwrap_or_default();
        self.0[at]
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Entries and answers that retention has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RemovedEntries {
    /// Entries.
    pub entries: u64,
    /// Answers among them.
    pub answers: u64,
}

impl Store {
    /// Reads an entry by its public id, of any tenant: a person who has the link may see it.
    pub fn entry_of_link(&self, id: PublicId) -> VerbFuture<'_, Option<(Entry, Map<String, Json>)>> {
        self.read(id, |tx, id| Box::pin(of_link(tx, *id)))
    }

    /// How many entries and answers of a flow retention has removed.
    pub fn removed_entries(&self, tenant: Tenant, flow: FlowId) -> VerbFuture<'_, RemovedEntries> {
        self.of(tenant).read((tenant, flow), |tx, (tenant, flow)| Box::pin(removed(tx, *tenant, *flow)))
    }

    /// The messages that the answers of entries became, by entry; for a page of them at once.
    pub fn listeners_of(
        &self,
        tenant: Tenant,
        entries: Vec<EntryId>,
    ) -> VerbFuture<'_, HashMap<EntryId, ResponseListeners>> {
        self.of(tenant).read((tenant, entries), |tx, (tenant, entries)| {
            Box::pin(async move {
                let ids: Vec<i64> = entries.iter().map(|id| id.0).collect();
                let rows = tx.query(LISTENERS, &[Value::Ints(&ids), tenant.id().into()]).await?;
                rows.iter().map(read_listeners).collect()
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
        let request = ResponseRequest { tenant, flow, filter, place: after, limit };
        self.of(tenant).read(request, |tx, request| Box::pin(responses(tx, RESPONSES, request)))
    }

    /// Answers to a flow, the newest first, from `place` (a moment and an entry) on.
    pub fn newest_responses(
        &self,
        tenant: Tenant,
        flow: FlowId,
        filter: ResultFilter,
        place: (Timestamp, EntryId),
        limit: usize,
    ) -> VerbFuture<'_, Vec<Response>> {
        let request = ResponseRequest { tenant, flow, filter, place, limit };
        self.of(tenant).read(request, |tx, request| Box::pin(responses(tx, NEWEST_RESPONSES, request)))
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
    let (high, low) = id.to_halves();
    let Some(mut row) = tx.first(BY_PUBLIC_ID, params![high, low]).await? else { return Ok(None) };
    let entry = read_entry(&mut row)?;
    let kept = tx.first(PROGRESS, params![entry.id.0]).await?;
    let progress = kept.map(|row| row.text(0)).transpose()?;
    let progress = progress.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(Some((entry, progress)))
}

statements! {
    const PROGRESS = "
        select answers
        from punctual.progress
        where entry_id = $1
    ";

    const BY_PUBLIC_ID = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.public_high = $1 and e.public_low = $2 and e.deleted_at is null
    ";
}

async fn removed(tx: &mut Tx, tenant: Tenant, flow: FlowId) -> Result<RemovedEntries> {
    let row = tx.first(REMOVED, params![tenant.id(), flow.0]).await?;
    let Some(row) = row else { return Ok(RemovedEntries::default()) };
    let count = |column| Ok::<_, Error>(u64::try_from(row.int(column)?).unwrap_or_default());
    Ok(RemovedEntries { entries: count(0)?, answers: count(1)? })
}

statements! {
    const REMOVED = "
        select removed_entries, removed_answers
        from punctual.flow
        where tenant_id = $1 and id = $2
    ";

    const LISTENERS = "
        select entry_id, message_id, told
        from punctual.response
        where entry_id = any($1::bigint[]) and tenant_id = $2
    ";
}

fn read_listeners(row: &Row) -> Result<(EntryId, ResponseListeners)> {
    let (subscribers, unknown) = serde_json::from_str(&row.text(2)?).unwrap_or_default();
    let message = MessageId(row.int(1)?);
    Ok((EntryId(row.int(0)?), ResponseListeners { message, subscribers, unknown }))
}

/// A request for a part of the answers to a flow.
struct ResponseRequest {
    tenant: Tenant,
    flow: FlowId,
    filter: ResultFilter,
    place: (Timestamp, EntryId),
    limit: usize,
}

async fn responses(tx: &mut Tx, sql: &'static str, request: &ResponseRequest) -> Result<Vec<Response>> {
    let ResponseRequest { tenant, flow, filter, place, limit } = request;
    let row = [
        tenant.id().into(),
        flow.0.into(),
        place.0.into(),
        place.1.0.into(),
        i64::try_from(*limit).unwrap_or(i64::MAX).into(),
        Value::from(filter.number.map(i64::from)),
        filter.trigger_id.as_deref().into(),
        Value::from(filter.from.map(Timestamp::as_micros)),
        Value::from(filter.to.map(Timestamp::as_micros)),
    ];
    tx.query(sql, &row).await?.iter().map(read_response).collect()
}

macro_rules! select_responses {
    () => {
        "
        select r.entry_id, e.public_high, e.public_low, r.number, r.trigger_id, r.answers,
            r.completed_at
        from punctual.response r
        join punctual.entry e on e.id = r.entry_id and e.deleted_at is null
        where r.tenant_id = $1
            and r.flow_id = $2
            and ($6::bigint is null or r.number = $6)
            and ($7::text is null or r.trigger_id = $7)
            and ($8::bigint is null or e.created_at >= $8)
            and ($9::bigint is null or e.created_at < $9)
        "
    };
}

statements! {
    const RESPONSES = select_responses!(), "
            and r.completed_at >= $3 and (r.completed_at > $3 or r.entry_id > $4)
        order by r.completed_at, r.entry_id
        limit $5
    ";

    const NEWEST_RESPONSES = select_responses!(), "
            and r.completed_at <= $3 and (r.completed_at < $3 or r.entry_id <= $4)
        order by r.completed_at desc, r.entry_id desc
        limit $5
    ";
}

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

statements! {
    const COUNTS = "
        select e.status, count(*)
        from punctual.entry e
        where e.tenant_id = $1
            and e.flow_id = $2
            and e.deleted_at is null
            and ($3::bigint is null or e.number = $3)
            and ($4::text is null or e.trigger_id = $4)
            and ($5::bigint is null or e.created_at >= $5)
            and ($6::bigint is null or e.created_at < $6)
        group by e.status
    ";
}
