//! The source events of deliveries, parsed.
//!
//! A process that sends deliveries which it has just written knows their events (`filed`); all others are
//! read (`read`): those that another process wrote, that waited, or that are tried again. An event never
//! changes, so both are the same.

use crate::base::error::Result;
use crate::base::id::{EntryId, MessageId};
use crate::database::store::Store;
use crate::delivery::store::deliveries::planned_events::{PlannedEvent, PlannedEvents};
use crate::delivery::store::deliveries::source_events::NotificationCause;
use crate::flow::run::source_event::payload_of;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The event of a notification, with its parsed payload.
#[derive(Clone, Debug)]
pub struct ParsedSourceEvent {
    /// The event, and its entity as far as it is known.
    pub cause: NotificationCause,
    /// Its payload, parsed.
    pub payload: Arc<Value>,
}

/// The source events of deliveries, by their notifications. An event that was dropped by age is not among
/// them.
pub type SourceEventByEntry = HashMap<EntryId, ParsedSourceEvent>;

/// Reads the source events of notifications.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn read(store: &Store, mut notifications: Vec<EntryId>) -> Result<SourceEventByEntry> {
    if notifications.is_empty() {
        return Ok(SourceEventByEntry::new());
    }
    notifications.sort_unstable();
    notifications.dedup();
    let parsed =
        |cause: NotificationCause| ParsedSourceEvent { payload: Arc::new(payload_of(&cause.event)), cause };
    let causes = store.causes(notifications).await?;
    Ok(causes.into_iter().map(|(notification, cause)| (notification, parsed(cause))).collect())
}

/// Returns the source events of entries that were just written, with the payloads in the same order.
pub(crate) fn filed(
    filings: &PlannedEvents,
    payloads: Vec<Arc<Value>>,
    by_event: &HashMap<MessageId, EntryId>,
) -> SourceEventByEntry {
    let parsed = filings.iter().zip(payloads).filter_map(|((event, filed), payload)| {
        let (PlannedEvent::Entry(entry), Some(id)) = (filed, by_event.get(&event.id)) else {
            return None;
        };
        let cause =
            NotificationCause { event: Arc::clone(event), entity: entry.entity.clone(), by_hand: false };
        Some((*id, ParsedSourceEvent { cause, payload }))
    });
    parsed.collect()
}
