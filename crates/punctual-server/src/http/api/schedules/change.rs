//! What support does to a schedule of any kind: hold, release, retry and cancel it, with a reason for the
//! history.

use super::listed::shown_entry;
use super::named::{self, Found, ScheduleId};
use super::{Shown, Step, shown};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::input::{Fields, Input};
use axum::Json;
use axum::extract::State;
use punctual::EntryId;
use punctual::Problems;
use punctual::store::deliveries::hold::{ActionOutcome, EntryAction, EntryChange, EntryHistory, EntryName};

/// `POST /api/automation-schedules/{id}/hold {reason}`: nothing of it is sent until it is released.
///
/// # Errors
/// 404 for an unknown id, 409 when it has ended.
pub async fn hold(state: State<App>, caller: Caller, id: ScheduleId, input: Input) -> Answer<Json<Shown>> {
    change(state, caller, id, input, EntryAction::Hold).await
}

/// `POST /api/automation-schedules/{id}/release {reason}`: it goes on.
///
/// # Errors
/// 404 for an unknown id, 409 when it is not on hold.
pub async fn release(state: State<App>, caller: Caller, id: ScheduleId, input: Input) -> Answer<Json<Shown>> {
    change(state, caller, id, input, EntryAction::Release).await
}

/// `POST /api/automation-schedules/{id}/retry {reason}`: what waits or has failed is tried now.
///
/// # Errors
/// 404 for an unknown id, 409 when there is nothing to try.
pub async fn retry(state: State<App>, caller: Caller, id: ScheduleId, input: Input) -> Answer<Json<Shown>> {
    change(state, caller, id, input, EntryAction::Retry).await
}

/// `POST /api/automation-schedules/{id}/cancel {reason}`: nothing more of it is sent.
///
/// # Errors
/// 404 for an unknown id, 409 when it has ended.
pub async fn cancel(state: State<App>, caller: Caller, id: ScheduleId, input: Input) -> Answer<Json<Shown>> {
    change(state, caller, id, input, EntryAction::Cancel).await
}

async fn change(
    State(app): State<App>,
    caller: Caller,
    id: ScheduleId,
    input: Input,
    action: EntryAction,
) -> Answer<Json<Shown>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut fields = Fields::new(&body, "", &mut problems);
    fields.only(&["reason"]);
    let reason = fields.need_text("reason");
    problems.into_result()?;
    let name = match id {
        ScheduleId::Notification(id) => EntryName::Id(id),
        ScheduleId::Entry(id) => EntryName::PublicId(id),
    };
    let change = EntryChange { name, action, actor: caller.name.clone(), reason };
    match app.engine.change_entry(caller.tenant, change).await? {
        ActionOutcome::Done => Ok(Json(shown_whole(&app, &caller, id).await?)),
        ActionOutcome::NotFound => Err(named::not_found()),
        ActionOutcome::Refused(said) => Err(Failure::conflict(format!("the automation schedule {said}"))),
    }
}

/// A schedule with all that was tried, and all that people did to it.
pub(super) async fn shown_whole(app: &App, caller: &Caller, id: ScheduleId) -> Answer<Shown> {
    let (entry, mut whole): (EntryId, Shown) = match named::find(app, caller, id).await? {
        Found::Notification(notification) => (notification.id, shown(caller, *notification)),
        Found::Entry(entry, log) => (entry.id, shown_entry(caller, &entry, &log)),
    };
    let changes = app.engine.store().entry_history(caller.tenant, entry).await?;
    whole.history.extend(changes.into_iter().map(step));
    whole.history.sort_by_key(|step| step.at);
    Ok(whole)
}

fn step(change: EntryHistory) -> Step {
    Step {
        at: change.at,
        delivery_id: None,
        channel: None,
        outcome: change.what,
        actor: Some(change.actor),
        reason: Some(change.reason),
        error: None,
        provider_message_id: None,
    }
}
