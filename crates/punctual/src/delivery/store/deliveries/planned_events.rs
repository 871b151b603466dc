//! Settled events, with the entries and deliveries that they lead to.
//!
//! [`Store::write_planned_events`] settles claimed events and, in the same transaction, writes the entry of
//! each with its deliveries, and their work or the claim under which they are sent at once
//! ([`super::begin`]). A delivery whose key is known is not written: its message was sent, or another entry
//! sends it ([`super::duplicates`]).
//!
//! Events of a kind that no definition is about are passed over. Events that led to something, or that
//! surveys look at, are taken out of their topic's own queue if that is not declared: they are not
//! unconsumed.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, MessageId, Token};
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery};
use crate::delivery::store::deliveries::begin::{self, BeginRequest};
use crate::delivery::store::deliveries::delivery::{ClaimedDeliveries, DueDelivery};
use crate::delivery::store::deliveries::new_deliveries::{
    NewDelivery, SendLanes, insert_counted, send_lane, written_of,
};
use crate::delivery::store::deliveries::{duplicates, own_queue};
use crate::flow::rules::entry::{EntryKind, EntryStatus};
use crate::flow::rules::input_hash::EntryOrigin;
use crate::flow::store::entries::insert::{NewEntry, admit_keys, insert_entries};
use crate::flow::store::entries::key::key_of_text;
use crate::queue::rules::message::{Entity, Message};
use crate::queue::store::settle::{self, SettleAction, SettleOutcome, Settlement};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The result of planning an event.
#[derive(Clone, Debug)]
pub enum PlannedEvent {
    /// No definition is about such events.
    Passed,
    /// A kind has looked at it, and committed what it leads to.
    Taken,
    /// The event lacks a required part and becomes a dead letter, with this reason.
    Failed(String),
    /// An entry.
    Entry(Box<PlannedEntry>),
}

impl PlannedEvent {
    /// The entry, if there is one.
    #[must_use]
    pub const fn entry(&self) -> Option<&PlannedEntry> {
        if let Self::Entry(entry) = self { Some(entry) } else { None }
    }
}

/// An entry that is written with all its deliveries.
#[derive(Clone, Debug)]
pub struct PlannedEntry {
    /// Its kind.
    pub kind: EntryKind,
    /// The entity of the event.
    pub entity: Option<Entity>,
    /// The end of an entry that ends at once: the status, the word and the sentence for it.
    pub ended: Option<(EntryStatus, Option<&'static str>, String)>,
    /// The deliveries to send.
    pub deliveries: Vec<PlannedDelivery>,
    /// The name of the request that asked for it again, and its author.
    pub request: Option<(String, String)>,
    /// Where it comes from.
    pub origin: EntryOrigin,
}

impl PlannedEntry {
    /// How many messages are to be sent.
    fn open(&self) -> i64 {
        let reached = self.deliveries.iter().filter(|planned| planned.address.is_some());
        i64::try_from(reached.count()).unwrap_or(i64::MAX)
    }

    /// Its key: that of its event, or of the request of a person.
    fn key(&self, event: &Message) -> String {
        match &self.request {
            None => format!("event:{}", event.id),
            Some((request, _)) => format!("manual:{request}"),
        }
    }

    /// Returns the author that is stored with the entry.
    fn triggered_by(&self, event: &Message) -> String {
        match &self.request {
            None => format!("event:{}", event.kind),
            Some((_, who)) => who.clone(),
        }
    }
}

/// A delivery that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedDelivery {
    /// The delivery.
    pub id: DeliveryId,
    /// Its key.
    pub idempotency_key: String,
}

/// Events with what they come to.
pub type PlannedEvents = Arc<[(Arc<Message>, PlannedEvent)]>;

/// The result of writing planned events.
#[derive(Debug)]
pub enum WriteOutcome {
    /// The claim was lost, and nothing was written.
    LostClaim,
    /// The events are settled.
    Written {
        /// The new entries, by their events.
        by_event: HashMap<MessageId, EntryId>,
        /// Claims of their deliveries that are to be sent now.
        begun: Vec<ClaimedDeliveries>,
    },
}

struct Request {
    token: Token,
    events: PlannedEvents,
    start: Option<BeginRequest>,
    seed: u64,
}

impl Store {
    /// Settles events of one claim, and writes what they come to; with `start`, begins their deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn write_planned_events(
        &self,
        token: Token,
        events: PlannedEvents,
        start: Option<BeginRequest>,
        seed: u64,
    ) -> VerbFuture<'_, WriteOutcome> {
        VerbFuture::new(async move {
            let request = Request { token, events, start, seed };
            let written = self.write(request, |tx, request| Box::pin(settle_and_write(tx, request))).await?;
            if matches!(&written, WriteOutcome::Written { begun, .. } if !begun.is_empty()) {
                reach(CrashPoint::ClaimedBeforeAnswer);
            }
            Ok(written)
        })
    }

    /// Writes an entry that a person asked for, about an event that was; returns its deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn write_resend(
        &self,
        event: Message,
        entry: PlannedEntry,
    ) -> VerbFuture<'_, Vec<RequestedDelivery>> {
        self.of(event.tenant).write((event, entry), |tx, (event, entry)| {
            Box::pin(async move {
                let now = tx.now().await?;
                let rows = write(tx, &[(event, entry)], None, now).await?.rows;
                let written = written_of(tx, &rows).await?;
                let asked = rows.iter().filter_map(|row| {
                    Some(RequestedDelivery { id: written.of(row)?, idempotency_key: row.planned.key.clone() })
                });
                Ok(asked.collect())
            })
        })
    }
}

async fn settle_and_write(tx: &mut Tx, request: &Request) -> Result<WriteOutcome> {
    let action = |planned: &PlannedEvent| match planned {
        PlannedEvent::Failed(error) => SettleAction::Fail { error: error.clone() },
        PlannedEvent::Passed | PlannedEvent::Taken | PlannedEvent::Entry(_) => SettleAction::Ack,
    };
    let words = request.events.iter().map(|(event, planned)| (event.id, action(planned))).collect();
    let settlement = Settlement { token: request.token.clone(), words };
    let settled = settle::settle_items(tx, settlement, request.seed).await?;
    if settled.contains(&SettleOutcome::LostClaim) {
        return Ok(WriteOutcome::LostClaim);
    }
    let done = request.events.iter().zip(settled).filter(|(_, outcome)| *outcome == SettleOutcome::Done);
    let (mut entries, mut taken, mut passed) =
        (Vec::with_capacity(request.events.len()), Vec::new(), Vec::new());
    for ((event, planned), _) in done {
        match planned {
            PlannedEvent::Entry(entry) => entries.push((event.as_ref(), entry.as_ref())),
            PlannedEvent::Taken => taken.push(event.as_ref()),
            PlannedEvent::Passed => passed.push(event.as_ref()),
            PlannedEvent::Failed(_) => {}
        }
    }
    let now = tx.now().await?;
    let WrittenEntries { by_event, begun, .. } = write(tx, &entries, request.start.as_ref(), now).await?;
    taken.extend(entries.iter().map(|(event, _)| *event));
    own_queue::take(tx, &taken).await?;
    own_queue::leave(tx, &passed).await?;
    let begun = match &request.start {
        Some(start) if !begun.is_empty() => begin::hold(tx, start, begun, now).await?,
        _ => Vec::new(),
    };
    Ok(WriteOutcome::Written { by_event, begun })
}

/// Entries that were written.
#[derive(Default)]
struct WrittenEntries<'a> {
    /// Their deliveries, also those whose keys were known.
    rows: Vec<NewDelivery<'a>>,
    by_event: HashMap<MessageId, EntryId>,
    /// Deliveries without work.
    begun: Vec<DueDelivery>,
}

/// Writes entries with their deliveries.
async fn write<'a>(
    tx: &mut Tx,
    entries: &[(&'a Message, &'a PlannedEntry)],
    start: Option<&BeginRequest>,
    now: Timestamp,
) -> Result<WrittenEntries<'a>> {
    if entries.is_empty() {
        return Ok(WrittenEntries::default());
    }
    let by_event = insert(tx, entries, now).await?;
    let (mut rows, mut lanes) = (Vec::new(), SendLanes::new());
    for (event, entry) in entries {
        let Some(id) = by_event.get(&event.id) else { continue };
        let (tenant, kind) = (event.tenant, entry.kind);
        for planned in &entry.deliveries {
            let lane = send_lane(tx, tenant, (kind, &planned.channel), &mut lanes).await?;
            rows.push(NewDelivery { entry: *id, kind, tenant, lane, held: false, planned });
        }
    }
    let (mut rows, rest) = begin::choose(tx, start, rows, now).await?;
    let begun = begin::insert(tx, &rows, now).await?;
    let written = begun.len() + insert_counted(tx, &rest, now).await?;
    rows.extend(rest);
    if written < rows.len() || rows.iter().any(|row| row.status() == DeliveryStatus::Skipped) {
        let made = written_of(tx, &rows).await?;
        duplicates::end_empty(tx, &rows, &made, now).await?;
    }
    Ok(WrittenEntries { rows, by_event, begun })
}

/// Writes entries; returns them by their events. One whose key is known is not written again.
async fn insert(
    tx: &mut Tx,
    entries: &[(&Message, &PlannedEntry)],
    now: Timestamp,
) -> Result<HashMap<MessageId, EntryId>> {
    let texts: Vec<(String, String)> =
        entries.iter().map(|(event, entry)| (entry.key(event), entry.triggered_by(event))).collect();
    let new: Vec<NewEntry<'_>> = entries
        .iter()
        .zip(&texts)
        .map(|((event, entry), (key, triggered_by))| NewEntry {
            tenant: event.tenant,
            kind: entry.kind,
            key: key_of_text(key),
            key_text: key,
            public_id: None,
            event_kind: &event.kind,
            triggered_by,
            message: Some(event.id),
            request_id: entry.request.as_ref().map(|(request, _)| request.as_str()),
            entity: entry.entity.as_ref(),
            correlation_id: event.correlation_id.as_deref(),
            definition: None,
            event_kind_version: entry.origin.event_kind_version,
            recipient: None,
            listeners: None,
            advance: None,
            reminders: 0,
            grace: None,
            open: entry.open(),
            input_hash: entry.origin.input_hash.as_deref().map(Cow::Borrowed),
            zone: entry.origin.zone.as_ref(),
            trace: entry.origin.trace.as_deref(),
            ended: entry.ended.as_ref().map(|(status, reason, said)| (*status, *reason, said.as_str())),
        })
        .collect();
    let ids = admit_keys(tx, &new, now).await?;
    let admitted: Vec<(EntryId, &NewEntry<'_>)> =
        ids.iter().zip(&new).filter_map(|(id, entry)| Some(((*id)?, entry))).collect();
    insert_entries(tx, &admitted, now).await?;
    let by_event = entries.iter().zip(ids).filter_map(|((event, _), id)| Some((event.id, id?)));
    Ok(by_event.collect())
}
