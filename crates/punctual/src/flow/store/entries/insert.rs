//! New entries, of every kind.
//!
//! Keys are inserted first and decide which entries are new ([`super::key`]); only those are written, each
//! with its work in an advance lane if it has one. The caller decides what a known key means.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{EntryId, FlowId, LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::base::zone::Zone;
use crate::database::columns::Column;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;
use crate::flow::rules::entry::{EntryKind, EntryStatus};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::{KeyDigestHalf, NewKey, insert_keys};
use crate::flow::store::entries::trace::{NewTrace, add_traces};
use crate::queue::rules::message::Entity;
use crate::queue::store::waiting_work::{ADD_WORK_ROW, add_work};
use std::borrow::Cow;
use std::time::Duration;

/// An entry to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewEntry<'a> {
    pub tenant: Tenant,
    pub kind: EntryKind,
    pub key: KeyDigestHalf,
    pub key_text: &'a str,
    pub public_id: Option<PublicId>,
    pub event_kind: &'a str,
    pub triggered_by: &'a str,
    pub message: Option<MessageId>,
    pub request_id: Option<&'a str>,
    pub entity: Option<&'a Entity>,
    pub correlation_id: Option<&'a str>,
    pub definition: Option<(FlowId, u32, &'a str)>,
    /// The version of the event kind's definition, where the entry has no definition of its own.
    pub event_kind_version: Option<u32>,
    pub recipient: Option<NewRecipient<'a>>,
    pub listeners: Option<&'a str>,
    /// Where it waits to be advanced, and from when.
    pub advance: Option<(LaneId, Timestamp)>,
    pub reminders: i64,
    pub grace: Option<Duration>,
    /// Sends that are to end.
    pub open: i64,
    /// The hash of its inputs.
    pub input_hash: Option<Cow<'a, str>>,
    /// The zone of its local date.
    pub zone: Option<&'a Zone>,
    /// The data that was loaded and resolved when it was planned, as JSON.
    pub trace: Option<&'a str>,
    /// The end of an entry that ends at once: the status, the word and the sentence for it.
    pub ended: Option<(EntryStatus, Option<&'a str>, &'a str)>,
}

/// The recipient of an entry to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecipient<'a> {
    pub channel: &'a str,
    pub address: &'a str,
    pub locale: Option<&'a str>,
    pub customer_ref: Option<&'a str>,
}

/// Inserts the keys of entries, which must all be different; returns the id of each entry whose key is new,
/// in its place. The entries are written by [`insert_entries`].
pub(crate) async fn admit_keys(
    tx: &mut Tx,
    entries: &[NewEntry<'_>],
    now: Timestamp,
) -> Result<Vec<Option<EntryId>>> {
    let keys: Vec<NewKey> = entries
        .iter()
        .map(|entry| NewKey { tenant: entry.tenant, key: entry.key, public_id: entry.public_id })
        .collect();
    insert_keys(tx, &keys, now).await
}

/// Writes entries under the ids that their keys were given, with their work and their traces.
pub(crate) async fn insert_entries(
    tx: &mut Tx,
    new: &[(EntryId, &NewEntry<'_>)],
    now: Timestamp,
) -> Result<()> {
    let dates: Vec<Option<String>> = new.iter().map(|(_, entry)| local_date(entry, now)).collect();
    tx.in_columns((INSERT_AT_ONCE, INSERT), params![now], &columns(new, &dates, now)).await?;
    if tx.dialect() == Dialect::Sqlite {
        tx.in_columns(("", ADD_WORK_ROW), &[], &work_columns(new)).await?;
    }
    let traces = new.iter().filter_map(|(id, entry)| {
        let detail = entry.trace?;
        Some(NewTrace { tenant: entry.tenant, entry: *id, step: "planned", detail })
    });
    add_traces(tx, &traces.collect::<Vec<_>>(), now).await
}

/// The local date on which an entry is due.
fn local_date(entry: &NewEntry<'_>, now: Timestamp) -> Option<String> {
    let due = entry.advance.map_or(now, |(_, due)| due);
    entry.zone?.local_date(due)
}

fn columns<'a>(
    new: &'a [(EntryId, &NewEntry<'a>)],
    dates: &'a [Option<String>],
    now: Timestamp,
) -> Vec<Column<'a>> {
    let ints = |pick: &dyn Fn(&NewEntry<'_>) -> i64| Column::Ints(new.iter().map(|(_, e)| pick(e)).collect());
    let maybe = |pick: &dyn Fn(&NewEntry<'_>) -> Option<i64>| {
        Column::MaybeInts(new.iter().map(|(_, e)| pick(e)).collect())
    };
    let texts = |pick: fn(&'a NewEntry<'a>) -> Option<&'a str>| {
        Column::Texts(new.iter().map(|(_, e)| pick(e)).collect())
    };
    vec![
        Column::Ints(new.iter().map(|(id, _)| id.0).collect()),
        ints(&|e| e.tenant.id()),
        texts(|e| Some(e.kind.word())),
        texts(|e| Some(e.key_text)),
        maybe(&|e| e.public_id.map(|id| id.to_halves().0)),
        maybe(&|e| e.public_id.map(|id| id.to_halves().1)),
        texts(|e| Some(e.event_kind)),
        texts(|e| Some(e.triggered_by)),
        maybe(&|e| e.message.map(|id| id.0)),
        texts(|e| e.request_id),
        texts(|e| e.entity.map(|entity| entity.kind.as_str())),
        texts(|e| e.entity.map(|entity| entity.id.as_str())),
        texts(|e| e.correlation_id),
        maybe(&|e| e.definition.map(|(flow, ..)| flow.0)),
        maybe(&|e| e.definition.map_or(e.event_kind_version, |of| Some(of.1)).map(i64::from)),
        texts(|e| e.definition.map(|(.., trigger)| trigger)),
        texts(|e| e.recipient.map(|to| to.channel)),
        texts(|e| e.recipient.map(|to| to.address)),
        texts(|e| e.recipient.and_then(|to| to.locale)),
        texts(|e| e.recipient.and_then(|to| to.customer_ref)),
        texts(|e| e.listeners),
        maybe(&|e| e.advance.map(|(lane, _)| lane.0)),
        maybe(&|e| e.advance.map(|(_, due)| due.as_micros())),
        ints(&|e| e.reminders),
        maybe(&|e| e.grace.map(|grace| i64::try_from(grace.as_micros()).unwrap_or(i64::MAX))),
        ints(&|e| e.open),
        ints(&|e| e.ended.map_or(EntryStatus::Pending, |(status, ..)| status).code()),
        texts(|e| e.ended.and_then(|(_, reason, _)| reason)),
        texts(|e| e.ended.map(|(.., said)| said)),
        maybe(&|e| e.ended.map(|_| now.as_micros())),
        texts(|e| e.input_hash.as_deref()),
        texts(|e| e.zone.map(Zone::name)),
        Column::Texts(dates.iter().map(Option::as_deref).collect()),
    ]
}

/// The work of entries that wait to be advanced.
fn work_columns<'a>(new: &[(EntryId, &NewEntry<'_>)]) -> [Column<'a>; 3] {
    let waiting = || new.iter().filter_map(|(id, entry)| Some((id.0, entry.advance?)));
    [
        Column::Ints(waiting().map(|(id, _)| id).collect()),
        Column::Ints(waiting().map(|(_, (lane, _))| lane.0).collect()),
        Column::Ints(waiting().map(|(_, (_, due))| due.as_micros()).collect()),
    ]
}

macro_rules! insert_entry {
    () => {
        "
        insert into punctual.entry (
            created_at, id, tenant_id, kind, key, public_high, public_low, event_kind, triggered_by,
            message_id, request_id, entity_type, entity_id, correlation_id, flow_id, number, trigger_id,
            channel, address, locale, customer_ref, listeners, lane_id, due_at, reminders, grace_us,
            open, status, reason, error, ended_at, input_hash, time_zone, local_date, remaining
        )
        "
    };
}

statements! {
    const INSERT_AT_ONCE for Postgres = "
        with e as (
            ", insert_entry!(), "
            select $1::bigint, x.*, x.reminders
            from (
                select unnest($2::bigint[]), unnest($3::int[]), unnest($4::text[]), unnest($5::text[]),
                    unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::text[]), unnest($9::text[]),
                    unnest($10::bigint[]), unnest($11::text[]), unnest($12::text[]),
                    unnest($13::text[]), unnest($14::text[]), unnest($15::bigint[]),
                    unnest($16::bigint[]), unnest($17::text[]), unnest($18::text[]),
                    unnest($19::text[]), unnest($20::text[]), unnest($21::text[]), unnest($22::text[]),
                    unnest($23::bigint[]), unnest($24::bigint[]), unnest($25::int[]) reminders,
                    unnest($26::bigint[]), unnest($27::int[]), unnest($28::int[]), unnest($29::text[]),
                    unnest($30::text[]), unnest($31::bigint[]), unnest($32::text[]),
                    unnest($33::text[]), unnest($34::text[])
            ) x
            returning id, lane_id, due_at
        )
        ", add_work!(), "
        select id, lane_id, due_at
        from e
        where lane_id is not null
    ";

    const INSERT = insert_entry!(), "
        values (
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
            $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $25
        )
    ";
}
