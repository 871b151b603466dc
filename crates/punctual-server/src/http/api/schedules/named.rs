//! Schedules by their ids: a notification by its number, a survey instance by its public id.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use punctual::EntryId;
use punctual::rules::entry::log::DeliveryLine;
use punctual::rules::public_id::PublicId;
use punctual::store::deliveries::queries::notification::Notification;
use punctual::store::entries::Entry;
use serde_json::Value;

/// The id of a schedule.
#[derive(Clone, Copy, Debug)]
pub enum ScheduleId {
    /// A notification's.
    Notification(EntryId),
    /// A survey instance's.
    Entry(PublicId),
}

impl ScheduleId {
    /// Reads one as a body has it.
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_i64().map(|id| Self::Notification(EntryId(id))).or_else(|| Self::parse(value.as_str()?))
    }

    /// No public id is a number that a notification could have: it is longer.
    fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok().map(|id| Self::Notification(EntryId(id)));
        number.or_else(|| PublicId::parse(text).map(Self::Entry))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ScheduleId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let names = RawPathParams::from_request_parts(parts, state).await.ok();
        let text = names.iter().flatten().find(|(name, _)| *name == "id");
        text.and_then(|(_, text)| Self::parse(text)).ok_or_else(not_found)
    }
}

pub(super) fn not_found() -> Failure {
    Failure::not_found("there is no automation schedule of that id")
}

/// A schedule with all that was done for it.
pub(super) enum Found {
    Notification(Box<Notification>),
    Entry(Box<Entry>, Vec<DeliveryLine>),
}

/// The schedule of an id.
pub(super) async fn find(app: &App, caller: &Caller, id: ScheduleId) -> Answer<Found> {
    let store = app.engine.store();
    match id {
        ScheduleId::Notification(id) => {
            let notification = store.notification(caller.tenant, id).await?.ok_or_else(not_found)?;
            Ok(Found::Notification(Box::new(notification)))
        }
        ScheduleId::Entry(id) => {
            let entry = store.entry(caller.tenant, id).await?.ok_or_else(not_found)?;
            let log = store.delivery_log(caller.tenant, entry.id).await?;
            Ok(Found::Entry(Box::new(entry), log))
        }
    }
}

/// The ids of notifications, and those of survey instances.
pub(super) fn split(ids: &[ScheduleId]) -> (Vec<EntryId>, Vec<PublicId>) {
    let (mut notifications, mut entries) = (Vec::new(), Vec::new());
    for id in ids {
        match id {
            ScheduleId::Notification(id) => notifications.push(*id),
            ScheduleId::Entry(id) => entries.push(*id),
        }
    }
    (notifications, entries)
}
