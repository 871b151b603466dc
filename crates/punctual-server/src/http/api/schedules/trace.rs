//! What happened for a schedule, in words, the oldest first.

use super::{find, last_error};
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::api::communication_logs::words_of;
use crate::http::error::Answer;
use axum::Json;
use axum::extract::State;
use punctual::Timestamp;
use punctual::rules::notice::{DeliveryStatus, NoticeStatus};
use punctual::store::notices::look::Logged;
use punctual::store::notices::look::notice::Notice;
use serde::Serialize;

/// What happened.
#[derive(Debug, Serialize)]
pub struct Trace {
    id: String,
    key: String,
    status: &'static str,
    lines: Vec<Line>,
}

/// One thing that happened.
#[derive(Debug, Serialize)]
pub struct Line {
    at: Timestamp,
    what: String,
}

/// `GET /api/automation-schedules/{id}/trace`
///
/// # Errors
/// 404 when this tenant has none of that id.
pub async fn trace(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<Trace>> {
    let notice = find(&app, &caller, id).await?;
    let mut lines = vec![Line { at: notice.created_at, what: beginning(&notice) }];
    for one in &notice.deliveries {
        lines.extend(of_delivery(&caller, one));
    }
    if let Some(at) = notice.ended_at {
        lines.push(Line { at, what: ending(&caller, &notice) });
    }
    // What happened at one moment stays in the order it was told in.
    lines.sort_by_key(|line| line.at);
    let status = super::status_of(&notice);
    Ok(Json(Trace { id: notice.id.to_string(), key: notice.key(), status, lines }))
}

fn beginning(notice: &Notice) -> String {
    let about = notice.entity.as_ref().map_or_else(String::new, |e| format!(" about {} `{}`", e.kind, e.id));
    let event = format!("event {} of kind `{}`{about}", notice.message, notice.kind);
    match &notice.request {
        None => format!("{event} was taken up"),
        Some((request, who)) => format!("{who} asked to have {event} told again, in request {request}"),
    }
}

fn of_delivery(caller: &Caller, one: &Logged) -> Vec<Line> {
    let name = format!("message {} by {}", one.id, one.channel);
    let (template, to) = (one.template, caller.address(&one.address));
    let planned = match (one.status, one.tries.is_empty()) {
        (DeliveryStatus::Skipped, true) => {
            format!("{name} was not sent: {}", one.error.as_deref().unwrap_or("it was not to be"))
        }
        _ => format!("{name} to {to} was planned, worded by template {template}"),
    };
    let mut lines = vec![Line { at: one.created_at, what: planned }];
    if let Some((at, said)) = &one.held_back {
        lines.push(Line { at: *at, what: format!("{name} was held back: {said}") });
    }
    for tried in &one.tries {
        let error =
            tried.error.as_ref().map(|said| format!(": {}", words_of(caller, one, said))).unwrap_or_default();
        let taken = tried.provider_id.as_ref().map_or_else(String::new, |id| format!(" as {id}"));
        let what = format!("try {} of {name} came to `{}`{taken}{error}", tried.number, tried.outcome);
        lines.push(Line { at: tried.at, what });
    }
    let last = one.tries.last().map_or(one.created_at, |tried| tried.at);
    if let Some(by) = one.replaced_by {
        lines.push(Line { at: last, what: format!("{name} was given up, and message {by} took its place") });
    }
    lines
}

fn ending(caller: &Caller, notice: &Notice) -> String {
    let why = last_error(caller, notice).filter(|_| notice.status != NoticeStatus::Sent);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("all was done: {}{why}", notice.status.word())
}
