//! What happened for a schedule, in words, the oldest first.

use super::named;
use super::named::ScheduleId;
use super::shown::{id_of, last_error, status_of};
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::delivery::communication_logs::words_of;
use crate::http::error::Answer;
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words::{ResolvedAt, ScheduleStatus};
use axum::Json;
use axum::extract::State;
use punctual::Timestamp;
use punctual::base::id::TemplateId;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::store::deliveries::log::LoggedDelivery;
use punctual::delivery::store::deliveries::schedule::ScheduledEntry;
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::store::entries::Entry;
use punctual::flow::store::entries::history::EntryChange;
use punctual::flow::store::entries::trace::EntryTrace;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// What happened.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ScheduleTrace")]
pub struct Trace {
    id: String,
    key: String,
    #[schemars(with = "ScheduleStatus")]
    status: &'static str,
    lines: Vec<TraceLine>,
    /// What was loaded and resolved when it was planned or advanced, kept for 30 days.
    resolved: Vec<ResolvedStep>,
}

/// What was loaded and resolved for one step of an entry.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ResolvedStep {
    #[schemars(with = "DateTime")]
    at: Timestamp,
    #[schemars(with = "ResolvedAt")]
    step: String,
    #[schemars(with = "Map<String, Value>")]
    detail: Value,
}

impl From<EntryTrace> for ResolvedStep {
    fn from(trace: EntryTrace) -> Self {
        let detail = serde_json::from_str(&trace.detail).unwrap_or_default();
        Self { at: trace.at, step: trace.step, detail }
    }
}

/// One thing that happened.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TraceLine {
    #[schemars(with = "DateTime")]
    at: Timestamp,
    what: String,
}

/// `GET /api/automation-schedules/{id}/trace`
///
/// # Errors
/// 404 when this tenant has none of that id.
pub async fn trace(State(app): State<App>, caller: Caller, id: ScheduleId) -> Answer<Json<Trace>> {
    let found = named::find(&app, &caller, id).await?;
    let changes = app.engine.store().entry_history(caller.tenant, found.entry.id).await?;
    let traces = app.engine.store().entry_traces(caller.tenant, found.entry.id).await?;
    Ok(Json(trace_of(&caller, &found, changes, traces)))
}

fn trace_of(
    caller: &Caller,
    one: &ScheduledEntry,
    changes: Vec<EntryChange>,
    traces: Vec<EntryTrace>,
) -> Trace {
    let entry = &one.entry;
    let mut lines = vec![TraceLine { at: entry.state.triggered_at, what: beginning(entry) }];
    for one in &one.deliveries {
        lines.extend(of_delivery(caller, one));
    }
    let opened = entry.opened_at.map(|at| TraceLine { at, what: "the survey was opened".to_owned() });
    let answered = entry.completed_at.map(|at| TraceLine { at, what: "the survey was answered".to_owned() });
    lines.extend(opened.into_iter().chain(answered));
    lines.extend(changes.into_iter().map(|change| TraceLine {
        at: change.at,
        what: format!("{} by {}: {}", change.action, change.actor, change.reason),
    }));
    if let Some(at) = entry.ended_at {
        lines.push(TraceLine { at, what: ending(caller, one) });
    }
    // The sort is stable: lines of one moment keep the order in which they were added.
    lines.sort_by_key(|line| line.at);
    if let Some(at) = entry.state.next_send_at.filter(|_| !entry.has_ended()) {
        lines.push(TraceLine { at, what: format!("send {} is due", entry.next_send()) });
    }
    let resolved = traces.into_iter().map(ResolvedStep::from).collect();
    Trace { id: id_of(entry), key: entry.key.clone(), status: status_of(one), lines, resolved }
}

fn beginning(entry: &Entry) -> String {
    let about = entry.entity.as_ref().map_or_else(String::new, |e| format!(" about {} `{}`", e.kind, e.id));
    let event = entry.message.map_or_else(String::new, |id| format!("event {id}"));
    match (&entry.definition, &entry.request_id) {
        (Some(of), _) => format!(
            "{event}{about} (`{}`) matched trigger `{}` of survey {}, version {}",
            entry.triggered_by, of.trigger_id, of.flow, of.number
        ),
        (None, Some(request)) => format!(
            "{} requested a resend of {event} of kind `{}`{about}, request {request}",
            entry.triggered_by, entry.event_kind
        ),
        (None, None) => {
            let version = entry.event_kind_version.map(|n| format!(" (version {n})")).unwrap_or_default();
            format!("{event} of kind `{}`{version}{about} matched active templates", entry.event_kind)
        }
    }
}

fn of_delivery(caller: &Caller, one: &LoggedDelivery) -> Vec<TraceLine> {
    let name = format!("delivery {} (send {}) by {}", one.id, one.send, one.channel);
    let to = caller.visible_address(&one.address);
    let planned = match (one.status, one.tries.is_empty() && one.skipped.is_none()) {
        (DeliveryStatus::Skipped, true) => {
            format!("{name} was skipped: {}", one.error.as_deref().unwrap_or("no reason was recorded"))
        }
        _ => format!("{name} to {to} was planned with {}", template_of(one)),
    };
    let mut lines = vec![TraceLine { at: one.created_at, what: planned }];
    if let Some((at, said)) = &one.delayed {
        lines.push(TraceLine { at: *at, what: format!("{name} was delayed: {said}") });
    }
    if let Some((at, reason, said)) = &one.skipped {
        let said = words_of(caller, one, said);
        lines.push(TraceLine { at: *at, what: format!("{name} was skipped ({reason}): {said}") });
    }
    for tried in &one.tries {
        let error =
            tried.error.as_ref().map(|said| format!(": {}", words_of(caller, one, said))).unwrap_or_default();
        let taken = tried.provider_id.as_ref().map_or_else(String::new, |id| format!(" as {id}"));
        let what = format!("attempt {} of {name}: `{}`{taken}{error}", tried.number, tried.outcome);
        lines.push(TraceLine { at: tried.at, what });
    }
    let last = one.tries.last().map_or(one.created_at, |tried| tried.at);
    if let Some(by) = one.replaced_by {
        lines.push(TraceLine { at: last, what: format!("{name} failed and was replaced by delivery {by}") });
    }
    lines
}

/// The template that a delivery is rendered from; surveys without one have a built-in text.
fn template_of(one: &LoggedDelivery) -> String {
    match one.template {
        TemplateId::BUILT_IN => "the built-in text".to_owned(),
        template => format!("template {template}, version {}", one.template_version),
    }
}

fn ending(caller: &Caller, one: &ScheduledEntry) -> String {
    let status = one.entry.state.status;
    let is_well = matches!(status, EntryStatus::Sent | EntryStatus::Completed);
    let why = last_error(caller, one).filter(|_| !is_well);
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("the entry ended as {}{why}", status.word())
}
