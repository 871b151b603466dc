//! The causes of deliveries: the events that they tell of, parsed.
//!
//! Whoever sends what it has just filed knows them ([`filed`]); all else is read ([`read`]): what another
//! process filed, what waited, what comes again. An event never changes, so both are the same.

use crate::base::error::Result;
use crate::base::id::{MessageId, NoticeId};
use crate::rules::message::Message;
use crate::store::Store;
use crate::store::notices::deliver::Cause;
use crate::store::notices::{Filed, Filings};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// An event that somebody is told of.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// The event, and what is known of it.
    pub(super) cause: Cause,
    /// Its payload, parsed.
    pub(super) payload: Arc<Value>,
}

/// The payload as JSON; what is none has nothing in it.
pub(super) fn payload_of(event: &Message) -> Value {
    serde_json::from_str(&event.payload).unwrap_or_default()
}

/// The causes of deliveries, by their notices. One that was dropped by age is not among them.
pub(super) type ByNotice = HashMap<NoticeId, Told>;

/// Reads them all.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn read(store: &Store, mut notices: Vec<NoticeId>) -> Result<ByNotice> {
    if notices.is_empty() {
        return Ok(ByNotice::new());
    }
    notices.sort_unstable();
    notices.dedup();
    let told = |cause: Cause| Told { payload: Arc::new(payload_of(&cause.event)), cause };
    let causes = store.causes(notices).await?;
    Ok(causes.into_iter().map(|(notice, cause)| (notice, told(cause))).collect())
}

/// What was just filed, with the payloads in the same order.
pub(super) fn filed(
    filings: &Filings,
    payloads: Vec<Arc<Value>>,
    by_event: &HashMap<MessageId, NoticeId>,
) -> ByNotice {
    let told = filings.iter().zip(payloads).filter_map(|((event, filed), payload)| {
        let (Filed::Notice(notice), Some(id)) = (filed, by_event.get(&event.id)) else { return None };
        let cause = Cause { event: Arc::clone(event), entity: notice.entity.clone(), by_hand: false };
        Some((*id, Told { cause, payload }))
    });
    told.collect()
}
