//! The causes of deliveries: the events that they tell of, parsed.
//!
//! Whoever sends what it has just filed knows them ([`filed`]); all else is read ([`read`]): what another
//! process filed, what waited, what comes again. An event never changes, so both are the same.

use crate::base::error::Result;
use crate::base::id::{EntryId, MessageId};
use crate::database::store::Store;
use crate::delivery::store::deliveries::planned_events::{PlannedEvent, PlannedEvents};
use crate::delivery::store::deliveries::source_events::Cause;
use crate::flow::run::source_event::payload_of;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// An event that somebody is told of.
#[derive(Clone, Debug)]
pub struct Told {
    /// The event, and what is known of it.
    pub cause: Cause,
    /// Its payload, parsed.
    pub payload: Arc<Value>,
}

/// The causes of deliveries, by their notifications. One that was dropped by age is not among them.
pub type SourceEventByEntry = HashMap<EntryId, Told>;

/// Reads them all.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn read(store: &Store, mut notifications: Vec<EntryId>) -> Result<SourceEventByEntry> {
    if notifications.is_empty() {
        return Ok(SourceEventByEntry::new());
    }
    notifications.sort_unstable();
    notifications.dedup();
    let told = |cause: Cause| Told { payload: Arc::new(payload_of(&cause.event)), cause };
    let causes = store.causes(notifications).await?;
    Ok(causes.into_iter().map(|(notification, cause)| (notification, told(cause))).collect())
}

/// What was just filed, with the payloads in the same order.
pub(crate) fn filed(
    filings: &PlannedEvents,
    payloads: Vec<Arc<Value>>,
    by_event: &HashMap<MessageId, EntryId>,
) -> SourceEventByEntry {
    let told = filings.iter().zip(payloads).filter_map(|((event, filed), payload)| {
        let (PlannedEvent::Entry(entry), Some(id)) = (filed, by_event.get(&event.id)) else {
            return None;
        };
        let cause = Cause { event: Arc::clone(event), entity: entry.entity.clone(), by_hand: false };
        Some((*id, Told { cause, payload }))
    });
    told.collect()
}
