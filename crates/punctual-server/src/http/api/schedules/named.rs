//! Schedules by their ids: a notice by its number, a survey instance by its public id.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use punctual::NoticeId;
use punctual::rules::entry::log::DeliveryLine;
use punctual::rules::public_id::PublicId;
use punctual::store::entries::Entry;
use punctual::store::notices::look::notice::Notice;
use serde_json::Value;

/// The id of a schedule.
#[derive(Clone, Copy, Debug)]
pub enum ScheduleId {
    /// A notice's.
    Notice(NoticeId),
    /// A survey instance's.
    Entry(PublicId),
}

impl ScheduleId {
    /// Reads one as a body has it.
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_i64().map(|id| Self::Notice(NoticeId(id))).or_else(|| Self::parse(value.as_str()?))
    }

    /// No public id is a number that a notice could have: it is longer.
    fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok().map(|id| Self::Notice(NoticeId(id)));
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

fn not_found() -> Failure {
    Failure::not_found("there is no automation schedule of that id")
}

/// A schedule with all that was done for it.
pub(super) enum Found {
    Notice(Box<Notice>),
    Entry(Box<Entry>, Vec<DeliveryLine>),
}

/// The schedule of an id.
pub(super) async fn find(app: &App, caller: &Caller, id: ScheduleId) -> Answer<Found> {
    let store = app.engine.store();
    match id {
        ScheduleId::Notice(id) => {
            let notice = store.notice(caller.tenant, id).await?.ok_or_else(not_found)?;
            Ok(Found::Notice(Box::new(notice)))
        }
        ScheduleId::Entry(id) => {
            let entry = store.entry(caller.tenant, id).await?.ok_or_else(not_found)?;
            let log = store.delivery_log(caller.tenant, entry.id).await?;
            Ok(Found::Entry(Box::new(entry), log))
        }
    }
}

/// The ids of notices, and those of survey instances.
pub(super) fn split(ids: &[ScheduleId]) -> (Vec<NoticeId>, Vec<PublicId>) {
    let (mut notices, mut entries) = (Vec::new(), Vec::new());
    for id in ids {
        match id {
            ScheduleId::Notice(id) => notices.push(*id),
            ScheduleId::Entry(id) => entries.push(*id),
        }
    }
    (notices, entries)
}
