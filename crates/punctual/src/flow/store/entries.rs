//! Entries: one row for each occurrence of a trigger, whatever its kind.
//!
//! [`crate::flow::rules::entry`] decides every change of an entry, which is written under the version that
//! the decision was based on. The due parts of an entry are in the work queue: the next send in an advance
//! lane of its tenant and kind, the end in the tenant's expire lane. Verbs that touch deliveries as well are
//! in [`crate::delivery::store`].

pub mod history;
pub mod insert;
pub mod key;
pub mod lists;
pub(crate) mod prune;
pub mod trace;

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId, LaneId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value, params};
use crate::flow::rules::entry::state::EntryState;
use crate::flow::rules::entry::{EntryKind, EntryStatus};
use crate::flow::rules::public_id::PublicId;
use crate::queue::rules::message::Entity;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::queues::own_lane;
use std::collections::HashSet;
use std::time::Duration;

/// An entry, as its row has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub id: EntryId,
    /// The tenant that owns it.
    pub tenant: Tenant,
    /// Its kind.
    pub kind: EntryKind,
    /// The text of its key: one entry of a key exists.
    pub key: String,
    /// Its id outside, where entries of its kind have one.
    pub public_id: Option<PublicId>,
    /// The kind of its event, or the event type of its texts.
    pub event_kind: String,
    /// The event that it comes from, unless a date or a person made it.
    pub message: Option<MessageId>,
    /// The request of a person that made it.
    pub request_id: Option<String>,
    /// The author of the entry.
    pub triggered_by: String,
    /// The entity of the entry's event.
    pub entity: Option<Entity>,
    /// The correlation id of its cause.
    pub correlation_id: Option<String>,
    /// The definition that it comes from, where there is one.
    pub definition: Option<EntryDefinition>,
    /// The version of its event kind's definition, where it has no definition of its own.
    pub event_kind_version: Option<u32>,
    /// Its recipient, where it has one of its own.
    pub recipient: Option<EntryRecipient>,
    /// The payload of its event, as JSON text.
    pub payload: Option<String>,
    /// The subscriptions that get its messages; `None` is every one of the topic.
    pub listeners: Option<Vec<String>>,
    /// Where it waits to be advanced.
    pub lane: Option<LaneId>,
    /// Its status and timetable.
    pub state: EntryState,
    /// The reminders it was made with.
    pub reminders: i64,
    /// How long it may be quiet.
    pub grace: Duration,
    /// Its sends, counted.
    pub sends: SendCounts,
    /// The word for why it has its status.
    pub reason: Option<String>,
    /// The sentence for why, or the last error.
    pub error: Option<String>,
    /// The hold that it is under, if it is.
    pub hold: Option<EntryHold>,
    /// When a person first opened its page.
    pub opened_at: Option<Timestamp>,
    /// When it was answered.
    pub completed_at: Option<Timestamp>,
    /// When nothing was left to do.
    pub ended_at: Option<Timestamp>,
    /// Whether the entry was deleted.
    pub deleted: bool,
    /// Rises with every change.
    pub version: i64,
    /// The hash of what it was made of.
    pub input_hash: Option<String>,
    /// The local date on which it was due when it was made.
    pub local_date: Option<String>,
    /// The zone of its local dates.
    pub time_zone: Option<String>,
}

/// The definition that an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDefinition {
    /// The flow.
    pub flow: FlowId,
    /// Its version.
    pub number: u32,
    /// The trigger in it.
    pub trigger_id: String,
}

/// The recipient of an entry that has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecipient {
    /// The key of the channel.
    pub channel: String,
    /// The address.
    pub address: String,
    /// The locale that the recipient reads.
    pub locale: Option<String>,
    /// The recipient's name in another system.
    pub customer_ref: Option<String>,
}

/// The sends of an entry, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Sends that have not ended, the one that is planned next included.
    pub open: u32,
    /// Sends that a provider took.
    pub sent: u32,
    /// Sends that were given up.
    pub failed: u32,
}

/// A hold on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHold {
    /// Since when.
    pub since: Timestamp,
    /// The author of the hold.
    pub by: String,
    /// Why.
    pub reason: String,
}

impl Entry {
    /// The number of the send that is due next: 1 is the first, n + 1 the nth reminder.
    #[must_use]
    pub fn next_send(&self) -> u32 {
        let sent = (self.reminders - self.state.remaining).clamp(0, self.reminders.max(0));
        u32::try_from(sent).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The idempotency key of the send that is due next, of an entry with a public id:
    /// `survey:{publicId}:{send}`.
    #[must_use]
    pub fn send_key(&self) -> String {
        let id = self.public_id.map_or_else(|| self.id.to_string(), |id| id.to_string());
        format!("{}:{id}:{}", self.kind.word(), self.next_send())
    }

    /// Whether a delivery of this send is the one that the entry waits for.
    #[must_use]
    pub fn waits_for(&self, send: u32) -> bool {
        self.state.next_send_at.is_some() && self.next_send() == send
    }

    /// Whether nothing more can be sent of it.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.kind.has_ended(self.state.status)
    }

    /// Returns when the entry will have been quiet for longer than its grace. An entry without a timetable
    /// ends with its deliveries.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.state.expires_at(self.grace).filter(|_| self.kind.has_timetable())
    }
}

/// The columns that [`read_entry`] reads, from a table called `e`.
macro_rules! entry_columns {
    () => {
        concat! {"
            e.id, e.tenant_id, e.kind, e.key, e.public_high, e.public_low, e.event_kind, e.message_id,
            e.request_id, e.triggered_by, e.entity_type, e.entity_id, e.correlation_id, e.flow_id,
            e.number, e.trigger_id, e.channel, e.address, e.locale, e.customer_ref,
            ", $crate::queue::store::messages::payload_of!("e.message_id"), ",
            e.listeners, e.lane_id, e.status, e.created_at, e.due_at, e.last_sent_at, e.remaining,
            e.reminders, e.grace_us, e.open, e.sent, e.failed, e.reason, e.error, e.held_at, e.held_by,
            e.hold_reason, e.opened_at, e.completed_at, e.ended_at,
            case when e.deleted_at is null then 0 else 1 end, e.version, e.input_hash, e.local_date,
            e.time_zone
        "}
    };
}
pub(crate) use entry_columns;

pub(crate) fn read_entry(row: &mut Row) -> Result<Entry> {
    let public = row.maybe_int(4)?.zip(row.maybe_int(5)?);
    let entity = row.take_maybe_text(10)?.zip(row.take_maybe_text(11)?);
    let number = row.maybe_int(14)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let definition = row.maybe_int(13)?.map(FlowId).zip(number).zip(row.take_maybe_text(15)?);
    let recipient = row.take_maybe_text(16)?.zip(row.take_maybe_text(17)?);
    let (locale, customer_ref) = (row.take_maybe_text(18)?, row.take_maybe_text(19)?);
    let hold = row.maybe_time(35)?.map(|since| (since, row.maybe_text(36), row.maybe_text(37)));
    Ok(Entry {
        id: EntryId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        kind: read_kind(&row.text(2)?)?,
        key: row.take_text(3)?,
        public_id: public.map(|halves| PublicId::from_halves(halves).ok_or_else(corrupt)).transpose()?,
        event_kind: row.take_text(6)?,
        message: row.maybe_int(7)?.map(MessageId),
        request_id: row.take_maybe_text(8)?,
        triggered_by: row.take_text(9)?,
        entity: entity.map(|(kind, id)| Entity { kind, id }),
        correlation_id: row.take_maybe_text(12)?,
        event_kind_version: number.filter(|_| definition.is_none()),
        definition: definition.map(|((flow, number), trigger_id)| EntryDefinition {
            flow,
            number,
            trigger_id,
        }),
        recipient: recipient.map(|(channel, address)| EntryRecipient {
            channel,
            address,
            locale,
            customer_ref,
        }),
        payload: row.take_maybe_text(20)?,
        listeners: row
            .maybe_text(21)?
            .map(|names| serde_json::from_str(&names))
            .transpose()
            .map_err(|_| corrupt())?,
        lane: row.maybe_int(22)?.map(LaneId),
        state: EntryState {
            status: EntryStatus::from_code(row.int(23)?).ok_or_else(corrupt)?,
            triggered_at: row.time(24)?,
            next_send_at: row.maybe_time(25)?,
            last_sent_at: row.maybe_time(26)?,
            remaining: row.int(27)?,
        },
        reminders: row.int(28)?,
        grace: Duration::from_micros(row.maybe_int(29)?.and_then(|us| u64::try_from(us).ok()).unwrap_or(0)),
        sends: SendCounts { open: row.count(30)?, sent: row.count(31)?, failed: row.count(32)? },
        reason: row.take_maybe_text(33)?,
        error: row.take_maybe_text(34)?,
        hold: match hold {
            Some((since, by, reason)) => {
                Some(EntryHold { since, by: by?.unwrap_or_default(), reason: reason?.unwrap_or_default() })
            }
            None => None,
        },
        opened_at: row.maybe_time(38)?,
        completed_at: row.maybe_time(39)?,
        ended_at: row.maybe_time(40)?,
        deleted: row.flag(41)?,
        version: row.int(42)?,
        input_hash: row.take_maybe_text(43)?,
        local_date: row.take_maybe_text(44)?,
        time_zone: row.take_maybe_text(45)?,
    })
}

fn corrupt() -> Error {
    Error::Database("corrupt entry row: invalid kind, public id, status or listeners".into())
}

/// The kind that a row names.
pub(crate) fn read_kind(word: &str) -> Result<EntryKind> {
    EntryKind::from_word(word).ok_or_else(corrupt)
}

/// Reads entries by id.
pub(crate) async fn entries_by_id(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Entry>> {
    tx.query(BY_ID, &[Value::Ints(ids)]).await?.iter_mut().map(read_entry).collect()
}

/// Reads entries by id, each under its lock; entries that another transaction has locked at this moment are
/// left out.
pub(crate) async fn lock_entries(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Entry>> {
    tx.query(LOCK, &[Value::Ints(ids)]).await?.iter_mut().map(read_entry).collect()
}

/// Reads one entry under its lock, and waits for that.
pub(crate) async fn wait_for_entry(tx: &mut Tx, id: EntryId) -> Result<Option<Entry>> {
    let row = tx.first(WAIT_FOR, params![id.0]).await?;
    row.map(|mut row| read_entry(&mut row)).transpose()
}

/// Reads entries under their locks, in the order of their ids, and waits for those.
pub(crate) async fn wait_for_entries(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Entry>> {
    tx.query(WAIT_FOR_ALL, &[Value::Ints(ids)]).await?.iter_mut().map(read_entry).collect()
}

/// Reads the entry of a public id that was not deleted, under its lock.
pub(crate) async fn lock_by_public_id(tx: &mut Tx, id: PublicId) -> Result<Option<Entry>> {
    let (high, low) = id.to_halves();
    let row = tx.first(BY_PUBLIC_ID_LOCKED, params![high, low]).await?;
    row.map(|mut row| read_entry(&mut row)).transpose()
}

/// Reads the entries of public ids that were not deleted, each under its lock, in the order of their ids.
pub(crate) async fn lock_by_public_ids(tx: &mut Tx, tenant: Tenant, ids: &[PublicId]) -> Result<Vec<Entry>> {
    let wanted: HashSet<PublicId> = ids.iter().copied().collect();
    let high: Vec<i64> = ids.iter().map(|id| id.to_halves().0).collect();
    let mut rows = tx.query(BY_PUBLIC_IDS_LOCKED, &[tenant.id().into(), Value::Ints(&high)]).await?;
    let found: Vec<Entry> = rows.iter_mut().map(read_entry).collect::<Result<_>>()?;
    Ok(found.into_iter().filter(|entry| entry.public_id.is_some_and(|id| wanted.contains(&id))).collect())
}

/// Which of these exist: entries that could not be locked and are among them are another transaction's now.
pub(crate) async fn existing(tx: &mut Tx, ids: &[i64]) -> Result<HashSet<i64>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = tx.query(EXISTING, &[Value::Ints(ids)]).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

statements! {
    const BY_ID = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.id = any($1::bigint[])
    ";

    const LOCK = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.id = any($1::bigint[])
        for update skip locked
    ";

    const WAIT_FOR = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.id = $1
        for update
    ";

    const WAIT_FOR_ALL = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.id = any($1::bigint[])
        order by e.id
        for update
    ";

    const BY_PUBLIC_ID_LOCKED = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.public_high = $1 and e.public_low = $2 and e.deleted_at is null
        for update
    ";

    const BY_PUBLIC_IDS_LOCKED = "
        select ", entry_columns!(), "
        from punctual.entry e
        where e.public_high = any($2::bigint[]) and e.tenant_id = $1 and e.deleted_at is null
        order by e.id
        for update
    ";

    const EXISTING = "
        select id
        from punctual.entry
        where id = any($1::bigint[])
    ";
}

/// The lane of a tenant in which expiries wait.
pub(crate) async fn expire_lane(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    own_lane(tx, tenant, Purpose::Expire, ("", "")).await
}
