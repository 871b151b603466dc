//! Schedules by their ids: a number, or a public id.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, ApiFailure};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use punctual::EntryId;
use punctual::delivery::store::deliveries::schedule::ScheduledEntry;
use punctual::flow::rules::public_id::PublicId;
use serde_json::Value;

/// The id of a schedule.
#[derive(Clone, Copy, Debug)]
pub enum ScheduleId {
    /// A number.
    Number(EntryId),
    /// A public id.
    PublicId(PublicId),
}

impl ScheduleId {
    /// Reads one as a body has it.
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_i64().map(|id| Self::Number(EntryId(id))).or_else(|| Self::parse(value.as_str()?))
    }

    /// No public id is a number that an entry could have: it is longer.
    fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok().map(|id| Self::Number(EntryId(id)));
        number.or_else(|| PublicId::parse(text).map(Self::PublicId))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ScheduleId {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = RawPathParams::from_request_parts(parts, state).await.ok();
        let text = names.iter().flatten().find(|(name, _)| *name == "id");
        text.and_then(|(_, text)| Self::parse(text)).ok_or_else(not_found)
    }
}

pub(super) fn not_found() -> ApiFailure {
    ApiFailure::not_found("there is no automation schedule of that id")
}

/// The schedule of an id, with its deliveries.
pub(super) async fn find(app: &App, caller: &Caller, id: ScheduleId) -> Answer<ScheduledEntry> {
    let store = app.engine.store();
    let number = match id {
        ScheduleId::Number(id) => id,
        ScheduleId::PublicId(id) => store.entry(caller.tenant, id).await?.ok_or_else(not_found)?.id,
    };
    store.scheduled_entry(caller.tenant, number).await?.ok_or_else(not_found)
}

/// The numbers among ids, and the public ids.
pub(super) fn split(ids: &[ScheduleId]) -> (Vec<EntryId>, Vec<PublicId>) {
    let (mut numbers, mut public_ids) = (Vec::new(), Vec::new());
    for id in ids {
        match id {
            ScheduleId::Number(id) => numbers.push(*id),
            ScheduleId::PublicId(id) => public_ids.push(*id),
        }
    }
    (numbers, public_ids)
}
