//! Notifications: from an event to what is to be sent, and to what became of it.
//!
//! [`Store::write_notifications`] settles claimed events and, in the same transaction, writes for each of
//! them one notification with its deliveries, and their work or the claim under which they are sent at
//! once ([`begin`]). A delivery whose key is there already is not written: its message was sent, or is
//! another one's matter ([`duplicates`]). [`deliver`] sends; [`queries`] lists.
//!
//! Events of a kind that nobody is told of are passed over. What was told to people, or is of a kind that
//! surveys look at, is taken out of its topic's own queue if nobody has declared that: it is not unconsumed.

pub mod begin;
pub mod deliver;
pub mod duplicates;
pub(super) mod entry_end;
pub mod hold;
pub(super) mod new_deliveries;
pub(super) mod outcome;
mod own_queue;
pub mod preview;
pub mod prune;
pub mod queries;
mod reaped;
pub mod replan;
pub mod replay;
pub mod source_events;
mod taken;

pub(super) use reaped::DeliveryHook;

use self::begin::Start;
use self::deliver::{ClaimedDeliveries, Due};
use self::new_deliveries::{NewDelivery, insert_counted, made_of};
use super::Store;
use super::columns::Column;
use super::entries::key::{NewKey, insert_keys, key_of_text};
use super::points::{Point, reach};
use super::queues;
use super::settle::hooks::SettlementHooks;
use super::settle::{self, SettleAction, SettleOutcome, Settlement};
use super::tx::Tx;
use super::value::{Row, params};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, MessageId, Token};
use crate::base::tenant::Tenant;
use crate::rules::entry::EntryKind;
use crate::rules::message::{Entity, Message};
use crate::rules::notification::{DeliveryStatus, NotificationStatus, Planned};
use crate::rules::purpose::Purpose;
use crate::store::tx::VerbFuture;
use std::collections::HashMap;
use std::sync::Arc;

/// The lane of a topic's events for the people they are about.
pub(super) const FLOWS_LANE: &str = "/flows";
/// Why nothing was sent: nobody could be reached.
pub const NO_RECIPIENT: &str = "NoRecipient";
/// Why something is not sent yet: it is quiet where its recipient is.
pub const QUIET_HOURS: &str = "QuietHours";

/// What became of an event.
#[derive(Clone, Debug)]
pub enum PlannedEvent {
    /// Nobody is told of such events.
    Passed,
    /// Surveys have looked at it, and nobody else is told of it.
    Taken,
    /// It lacks what it takes: a dead letter, with the reason.
    Failed(String),
    /// A notification.
    Notification(NewNotification),
}

impl PlannedEvent {
    /// The notification, if there is one.
    #[must_use]
    pub const fn notification(&self) -> Option<&NewNotification> {
        if let Self::Notification(notification) = self { Some(notification) } else { None }
    }
}

/// A notification to be.
#[derive(Clone, Debug)]
pub struct NewNotification {
    /// What the event is about.
    pub entity: Option<Entity>,
    /// How it ends at once, if it does: the status, the word and the sentence for it.
    pub ended: Option<(NotificationStatus, Option<&'static str>, String)>,
    /// What is to be sent.
    pub deliveries: Vec<Planned>,
    /// Who asked for it again, and the name of the request.
    pub request: Option<(String, String)>,
}

impl NewNotification {
    /// How many letters are to be sent.
    #[must_use]
    pub fn letters(&self) -> usize {
        self.deliveries.iter().filter(|planned| planned.address.is_some()).count()
    }
}

/// A delivery that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The delivery.
    pub id: DeliveryId,
    /// Its key.
    pub idempotency_key: String,
}

/// Events with what they come to.
pub type PlannedEvents = Arc<[(Arc<Message>, PlannedEvent)]>;

/// What a filing came to.
#[derive(Debug)]
pub enum WriteOutcome {
    /// The claim was lost, and nothing was written.
    LostClaim,
    /// The events are settled.
    Notifications {
        /// The new notifications, by their events.
        by_event: HashMap<MessageId, EntryId>,
        /// Claims of their letters that are to be sent now.
        begun: Vec<ClaimedDeliveries>,
    },
}

struct Filing {
    token: Token,
    filed: PlannedEvents,
    start: Option<Start>,
    seed: u64,
    hooks: SettlementHooks,
}

impl Store {
    /// Settles events of one claim, and writes what they come to; with `start`, begins their letters.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn write_notifications(
        &self,
        token: Token,
        filed: PlannedEvents,
        start: Option<Start>,
        seed: u64,
    ) -> VerbFuture<'_, WriteOutcome> {
        VerbFuture::new(async move {
            let filing = Filing { token, filed, start, seed, hooks: self.hooks.clone() };
            let filed = self.write(filing, |tx, filing| Box::pin(file(tx, filing))).await?;
            if matches!(&filed, WriteOutcome::Notifications { begun, .. } if !begun.is_empty()) {
                reach(Point::ClaimedBeforeAnswer);
            }
            Ok(filed)
        })
    }

    /// Writes a notification that a person asked for, about an event that was; answers its deliveries.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn write_resend(&self, event: Message, notification: NewNotification) -> VerbFuture<'_, Vec<Asked>> {
        self.of(event.tenant).write((event, notification), |tx, (event, notification)| {
            Box::pin(async move {
                let one = [(event, notification)];
                let now = tx.now().await?;
                let rows = write(tx, &one, None, now).await?.rows;
                let made = made_of(tx, &rows).await?;
                let asked = rows.iter().filter_map(|row| {
                    Some(Asked { id: made.of(row)?, idempotency_key: row.planned.key.clone() })
                });
                Ok(asked.collect())
            })
        })
    }
}

async fn file(tx: &mut Tx, filing: &Filing) -> Result<WriteOutcome> {
    let word = |filed: &PlannedEvent| match filed {
        PlannedEvent::Failed(error) => SettleAction::Fail { error: error.clone() },
        PlannedEvent::Passed | PlannedEvent::Taken | PlannedEvent::Notification(_) => SettleAction::Ack,
    };
    let words = filing.filed.iter().map(|(event, filed)| (event.id, word(filed))).collect();
    let settlement = Settlement { token: filing.token.clone(), words };
    let said = settle::say(tx, settlement, filing.seed, &filing.hooks).await?;
    if said.contains(&SettleOutcome::LostClaim) {
        return Ok(WriteOutcome::LostClaim);
    }
    let done = filing.filed.iter().zip(said).filter(|(_, said)| *said == SettleOutcome::Done);
    let (mut notifications, mut taken) = (Vec::with_capacity(filing.filed.len()), Vec::new());
    let mut passed = Vec::new();
    for ((event, filed), _) in done {
        match filed {
            PlannedEvent::Notification(notification) => notifications.push((event.as_ref(), notification)),
            PlannedEvent::Taken => taken.push(event.as_ref()),
            PlannedEvent::Passed => passed.push(event.as_ref()),
            PlannedEvent::Failed(_) => {}
        }
    }
    let now = tx.now().await?;
    let Written { by_event, begun, .. } = write(tx, &notifications, filing.start.as_ref(), now).await?;
    taken.extend(notifications.iter().map(|(event, _)| *event));
    own_queue::take(tx, &taken).await?;
    own_queue::leave(tx, &passed).await?;
    let begun = match &filing.start {
        Some(start) if !begun.is_empty() => begin::hold(tx, start, begun, now).await?,
        _ => Vec::new(),
    };
    Ok(WriteOutcome::Notifications { by_event, begun })
}

/// Notifications that were written.
#[derive(Default)]
struct Written<'a> {
    /// Their deliveries, also those whose keys were known.
    rows: Vec<NewDelivery<'a>>,
    by_event: HashMap<MessageId, EntryId>,
    /// Deliveries without work.
    begun: Vec<Due>,
}

/// Writes notifications with their deliveries.
async fn write<'a>(
    tx: &mut Tx,
    notifications: &[(&'a Message, &'a NewNotification)],
    start: Option<&Start>,
    now: Timestamp,
) -> Result<Written<'a>> {
    if notifications.is_empty() {
        return Ok(Written::default());
    }
    let by_event = insert(tx, notifications, now).await?;
    let (mut rows, mut lanes) = (Vec::new(), HashMap::new());
    for (event, notification) in notifications {
        let Some(id) = by_event.get(&event.id) else { continue };
        for planned in &notification.deliveries {
            let of = (EntryKind::Notification, planned.channel.as_str());
            let lane = deliver_lane(tx, event.tenant, of, &mut lanes).await?;
            let kind = EntryKind::Notification;
            rows.push(NewDelivery { entry: *id, kind, tenant: event.tenant, lane, planned });
        }
    }
    let (mut rows, rest) = begin::choose(tx, start, rows, now).await?;
    let begun = begin::insert(tx, &rows, now).await?;
    let written = begun.len() + insert_counted(tx, &rest, now).await?;
    rows.extend(rest);
    if written < rows.len() || rows.iter().any(|row| row.status() == DeliveryStatus::Skipped) {
        let made = made_of(tx, &rows).await?;
        duplicates::end_empty(tx, &rows, &made, now).await?;
    }
    Ok(Written { rows, by_event, begun })
}

/// Notifications by their events; one whose key is known is not written again.
async fn insert(
    tx: &mut Tx,
    notifications: &[(&Message, &NewNotification)],
    now: Timestamp,
) -> Result<HashMap<MessageId, EntryId>> {
    let texts: Vec<String> = notifications.iter().map(|one| key_text(one.0, one.1)).collect();
    let new_key = |(one, text): (&(&Message, &NewNotification), &String)| NewKey {
        tenant: one.0.tenant,
        key: key_of_text(text),
        public_id: None,
    };
    let keys: Vec<NewKey> = notifications.iter().zip(&texts).map(new_key).collect();
    let ids = insert_keys(tx, &keys, now).await?;
    let new = ids.iter().zip(notifications).zip(texts);
    let new: Vec<NewRow<'_>> = new
        .filter_map(|((id, (event, notification)), key)| {
            Some(NewRow { id: (*id)?, key, event, notification })
        })
        .collect();
    insert_new(tx, &new, now).await?;
    Ok(new.iter().map(|row| (row.event.id, row.id)).collect())
}

/// A notification whose key is new.
struct NewRow<'a> {
    id: EntryId,
    key: String,
    event: &'a Message,
    notification: &'a NewNotification,
}

async fn insert_new(tx: &mut Tx, new: &[NewRow<'_>], now: Timestamp) -> Result<()> {
    let ints = |pick: &dyn Fn(&NewRow<'_>) -> i64| Column::Ints(new.iter().map(pick).collect());
    let open = |row: &NewRow<'_>| i64::try_from(row.notification.letters()).unwrap_or(i64::MAX);
    let ended = || new.iter().map(|row| row.notification.ended.as_ref());
    let statuses = ended().map(|ended| ended.map_or(NotificationStatus::Pending, |ended| ended.0).code());
    let triggered_by: Vec<String> = new.iter().map(|row| triggered_by(row.event, row.notification)).collect();
    let entities: Vec<Option<&Entity>> = new.iter().map(|row| row.notification.entity.as_ref()).collect();
    let requests = new.iter().map(|row| row.notification.request.as_ref().map(|r| r.0.as_str()));
    let columns = [
        ints(&|row| row.id.0),
        ints(&|row| row.event.tenant.id()),
        Column::Texts(new.iter().map(|row| Some(row.key.as_str())).collect()),
        ints(&|row| row.event.id.0),
        Column::Texts(new.iter().map(|row| Some(row.event.kind.as_str())).collect()),
        Column::Texts(entities.iter().map(|e| e.map(|e| e.kind.as_str())).collect()),
        Column::Texts(entities.iter().map(|e| e.map(|e| e.id.as_str())).collect()),
        Column::Texts(new.iter().map(|row| row.event.correlation_id.as_deref()).collect()),
        Column::Texts(requests.collect()),
        Column::Texts(triggered_by.iter().map(|by| Some(by.as_str())).collect()),
        Column::Ints(statuses.collect()),
        Column::Texts(ended().map(|ended| ended.and_then(|e| e.1)).collect()),
        Column::Texts(ended().map(|ended| ended.map(|e| e.2.as_str())).collect()),
        ints(&open),
        Column::MaybeInts(ended().map(|ended| ended.map(|_| now.as_micros())).collect()),
    ];
    tx.in_columns((NOTIFICATIONS_AT_ONCE, NOTIFICATION), params![now], &columns).await?;
    Ok(())
}

macro_rules! notification_columns {
    () => {
        "insert into punctual.entry (kind, created_at, id, tenant_id, key, message_id, event_kind, \
            entity_type, entity_id, correlation_id, request_id, triggered_by, status, reason, error, open, \
            ended_at) "
    };
}
const NOTIFICATIONS_AT_ONCE: &str = concat!(
    notification_columns!(),
    "select 'notification', $1::bigint, unnest($2::bigint[]), unnest($3::int[]), unnest($4::text[]), \
        unnest($5::bigint[]), unnest($6::text[]), unnest($7::text[]), unnest($8::text[]), \
        unnest($9::text[]), unnest($10::text[]), unnest($11::text[]), unnest($12::int[]), \
        unnest($13::text[]), unnest($14::text[]), unnest($15::int[]), unnest($16::bigint[])"
);
const NOTIFICATION: &str = concat!(
    notification_columns!(),
    "values ('notification', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
);

/// The key of a notification: of its event, or of the request of a person.
fn key_text(event: &Message, of: &NewNotification) -> String {
    of.request
        .as_ref()
        .map_or_else(|| format!("event:{}", event.id), |request| format!("manual:{}", request.0))
}

/// Who or what made a notification.
fn triggered_by(event: &Message, of: &NewNotification) -> String {
    of.request.as_ref().map_or_else(|| format!("event:{}", event.kind), |request| request.1.clone())
}

/// Lanes of deliveries that are known, by tenant, kind of entry and channel.
pub(super) type Lanes = HashMap<(Tenant, EntryKind), HashMap<String, i64>>;

/// The lane of deliveries by one channel, for entries of one kind.
pub(super) async fn deliver_lane(
    tx: &mut Tx,
    tenant: Tenant,
    (kind, channel): (EntryKind, &str),
    known: &mut Lanes,
) -> Result<i64> {
    if let Some(lane) = known.get(&(tenant, kind)).and_then(|of| of.get(channel)) {
        return Ok(*lane);
    }
    let lane = queues::own_lane(tx, tenant, Purpose::Send, (channel, kind.word())).await?;
    known.entry((tenant, kind)).or_default().insert(channel.to_owned(), lane);
    Ok(lane)
}

/// What a notification is about: its type in this column, its id in the next.
fn entity(row: &Row, n: usize) -> Result<Option<Entity>> {
    Ok(row.maybe_text(n)?.zip(row.maybe_text(n + 1)?).map(|(kind, id)| Entity { kind, id }))
}
