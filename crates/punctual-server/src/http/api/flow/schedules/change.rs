//! What support does to a schedule of any kind: hold, release, retry and cancel it, with a reason for the
//! history.

use super::named;
use super::named::ScheduleId;
use super::shown::{ScheduleView, change_step, shown};
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests::ScheduleChange;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use axum::Json;
use axum::extract::State;
use punctual::Problems;
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::flow::store::entries::history::ChangeAuthor;

/// `POST /api/automation-schedules/{id}/hold {reason}`: nothing of it is sent until it is released.
///
/// # Errors
/// 404 for an unknown id, 409 when it has ended.
pub async fn hold(
    state: State<App>,
    caller: Caller,
    id: ScheduleId,
    input: Input,
) -> Answer<Json<ScheduleView>> {
    change(state, caller, id, input, EntryAction::Hold).await
}

/// `POST /api/automation-schedules/{id}/release {reason}`: it goes on.
///
/// # Errors
/// 404 for an unknown id, 409 when it is not on hold.
pub async fn release(
    state: State<App>,
    caller: Caller,
    id: ScheduleId,
    input: Input,
) -> Answer<Json<ScheduleView>> {
    change(state, caller, id, input, EntryAction::Release).await
}

/// `POST /api/automation-schedules/{id}/retry {reason}`: what waits or has failed is tried now.
///
/// # Errors
/// 404 for an unknown id, 409 when there is nothing to try.
pub async fn retry(
    state: State<App>,
    caller: Caller,
    id: ScheduleId,
    input: Input,
) -> Answer<Json<ScheduleView>> {
    change(state, caller, id, input, EntryAction::Retry).await
}

/// `POST /api/automation-schedules/{id}/cancel {reason}`: nothing more of it is sent.
///
/// # Errors
/// 404 for an unknown id, 409 when it has ended.
pub async fn cancel(
    state: State<App>,
    caller: Caller,
    id: ScheduleId,
    input: Input,
) -> Answer<Json<ScheduleView>> {
    change(state, caller, id, input, EntryAction::Cancel).await
}

async fn change(
    State(app): State<App>,
    caller: Caller,
    id: ScheduleId,
    input: Input,
    action: EntryAction,
) -> Answer<Json<ScheduleView>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut fields = Fields::new(&body, "", &mut problems);
    fields.only_of::<ScheduleChange>();
    let reason = fields.need_text("reason");
    problems.into_result()?;
    let name = match id {
        ScheduleId::Number(id) => EntryReference::Id(id),
        ScheduleId::PublicId(id) => EntryReference::PublicId(id),
    };
    let request = EntryActionRequest { name, action, author: ChangeAuthor::new(&caller.name, reason) };
    match app.engine.change_entry(caller.tenant, request).await? {
        ActionOutcome::Done => Ok(Json(shown_whole(&app, &caller, id).await?)),
        ActionOutcome::NotFound => Err(named::not_found()),
        ActionOutcome::Refused(said) => Err(ApiFailure::conflict(format!("the automation schedule {said}"))),
    }
}

/// A schedule with all that was tried, and all changes.
pub(super) async fn shown_whole(app: &App, caller: &Caller, id: ScheduleId) -> Answer<ScheduleView> {
    let found = named::find(app, caller, id).await?;
    let mut whole = shown(caller, &found);
    let changes = app.engine.store().entry_history(caller.tenant, found.entry.id).await?;
    whole.history.extend(changes.into_iter().map(change_step));
    whole.history.sort_by_key(|step| step.at);
    Ok(whole)
}
