//! What happened for a schedule, in words, the oldest first.

use super::last_error;
use super::listed::{error_for, outcome};
use super::named::{self, Found, ScheduleId};
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::communication_logs::words_of;
use crate::http::error::Answer;
use axum::Json;
use axum::extract::State;
use punctual::Timestamp;
use punctual::rules::entry::Status;
use punctual::rules::entry::log::DeliveryLine;
use punctual::rules::notification::{DeliveryStatus, NotificationStatus};
use punctual::store::deliveries::queries::Logged;
use punctual::store::deliveries::queries::notification::Notification;
use punctual::store::entries::Entry;
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
pub async fn trace(State(app): State<App>, caller: Caller, id: ScheduleId) -> Answer<Json<Trace>> {
    Ok(Json(match named::find(&app, &caller, id).await? {
        Found::Notification(notification) => of_notification(&caller, &notification),
        Found::Entry(entry, log) => of_entry(&caller, &entry, &log),
    }))
}

fn of_notification(caller: &Caller, notification: &Notification) -> Trace {
    let mut lines = vec![Line { at: notification.created_at, what: beginning(notification) }];
    for one in &notification.deliveries {
        lines.extend(of_delivery(caller, one));
    }
    if let Some(at) = notification.ended_at {
        lines.push(Line { at, what: ending(caller, notification) });
    }
    // What happened at one moment stays in the order it was told in.
    lines.sort_by_key(|line| line.at);
    let status = super::status_of(notification);
    Trace { id: notification.id.to_string(), key: notification.key(), status, lines }
}

/// What happened for a survey instance. When it expired or was withdrawn is not written in it.
fn of_entry(caller: &Caller, entry: &Entry, log: &[DeliveryLine]) -> Trace {
    let standing = &entry.standing;
    let what = format!(
        "`{}` met trigger `{}` of survey {} in version {}",
        entry.triggered_by, entry.trigger_id, entry.flow, entry.number
    );
    let mut lines = vec![Line { at: standing.triggered_at, what }];
    lines.extend(log.iter().map(|line| Line { at: line.sent_at, what: of_try(caller, entry, line) }));
    let opened = entry.opened_at.map(|at| Line { at, what: "somebody opened the survey".to_owned() });
    let answered = entry.completed_at.map(|at| Line { at, what: "it was answered".to_owned() });
    lines.extend(opened.into_iter().chain(answered));
    lines.sort_by_key(|line| line.at);
    if let Some(at) = standing.next_send_at.filter(|_| standing.status.is_active()) {
        lines.push(Line { at, what: format!("send {} is due", entry.attempt()) });
    }
    if standing.status == Status::Failed {
        let at = lines.last().map_or(standing.triggered_at, |line| line.at);
        lines.push(Line { at, what: "nothing got through, and nothing more is sent".to_owned() });
    }
    let (id, key) = (entry.public_id.to_string(), entry.unique_hash.clone());
    Trace { id, key, status: standing.status.word(), lines }
}

fn of_try(caller: &Caller, entry: &Entry, line: &DeliveryLine) -> String {
    let error = error_for(caller, entry, line).map_or_else(String::new, |error| format!(": {error}"));
    let name = format!("send {} by {}", line.attempt, entry.channel);
    if line.reason.is_some() {
        return format!("{name} was not made{error}");
    }
    let taken = line.message_id.as_ref().map_or_else(String::new, |id| format!(" as {id}"));
    format!("a try of {name} came to `{}`{taken}{error}", outcome(line.status))
}

fn beginning(notification: &Notification) -> String {
    let about =
        notification.entity.as_ref().map_or_else(String::new, |e| format!(" about {} `{}`", e.kind, e.id));
    let event = format!("event {} of kind `{}`{about}", notification.message, notification.kind);
    match &notification.request {
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

fn ending(caller: &Caller, notification: &Notification) -> String {
    let why = last_error(caller, notification).filter(|_| notification.status != NotificationStatus::Sent);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("all was done: {}{why}", notification.status.word())
}
