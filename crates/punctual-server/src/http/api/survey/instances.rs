//! Survey instances, for people who support: find one by what a customer knows, see everything that
//! was done for it, withdraw it.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, ApiFailure};
use crate::http::openapi::documents;
use crate::http::openapi::values::{DateTime, PublicIdText};
use crate::http::openapi::words::InstanceStatus;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::flow::rules::entry::EntryKind;
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::entry::log::DeliveryLine;
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::entries::Entry;
use punctual::flow::store::entries::history::ChangeAuthor;
use punctual::flow::store::entries::lists::EntryFilter;
use punctual::survey::store::instance::SurveyInstance;
use punctual::survey::store::results::ResponseListeners;
use punctual::{EntryId, FlowId, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A survey instance.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SurveyInstance")]
pub struct SurveyInstanceView {
    #[schemars(with = "PublicIdText")]
    public_id: PublicId,
    survey_id: i64,
    survey_version: u32,
    trigger_id: String,
    #[schemars(with = "InstanceStatus")]
    status: &'static str,
    channel: String,
    recipient_address: String,
    recipient_locale: Option<String>,
    customer_ref: Option<String>,
    #[schemars(with = "Option<Map<String, Value>>")]
    metadata: Option<Box<RawValue>>,
    #[schemars(with = "DateTime")]
    triggered_at: Timestamp,
    triggered_by: String,
    #[schemars(with = "Option<DateTime>")]
    next_send_at: Option<Timestamp>,
    #[schemars(with = "Option<DateTime>")]
    last_sent_at: Option<Timestamp>,
    reminders_remaining: i64,
    unique_hash: String,
    #[schemars(with = "Vec<documents::DeliveryLine>")]
    delivery_log: Vec<DeliveryLine>,
    dispatches: Vec<Dispatch>,
    #[schemars(with = "Option<DateTime>")]
    opened_at: Option<Timestamp>,
    #[schemars(with = "Option<DateTime>")]
    completed_at: Option<Timestamp>,
}

/// One subscriber that was told of the answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dispatch {
    subscriber: String,
    status: &'static str,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<String>,
}

/// The `{publicId}` of a path. A text that is none names nothing.
#[derive(Clone, Copy, Debug)]
pub struct Named(pub PublicId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| PublicId::parse(&text));
        id.map(Self).ok_or_else(not_found)
    }
}

fn not_found() -> ApiFailure {
    ApiFailure::not_found("there is no survey instance of that id")
}

/// `GET /api/survey-instances?surveyId=&status=&address=&customerRef=`, the newest first.
///
/// # Errors
/// 422 for a wrong filter.
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    page: Page,
) -> Answer<Json<List<SurveyInstanceView>>> {
    let filter = read_filter(&page)?;
    let before = match page.after_id()? {
        0 => EntryId(i64::MAX),
        id => EntryId(id),
    };
    let store = app.engine.store();
    let fetch = |before, limit| store.entries(caller.tenant, filter.clone(), before, limit);
    let weigh = |entry: &Entry| entry.payload.as_ref().map_or(0, String::len);
    let (entries, more) = page.gather(before, fetch, |entry| entry.id, weigh).await?;
    let next = entries.last().filter(|_| more).map(|entry| entry.id.0.to_string());
    let shown = show_entries(&app, &caller, &entries).await?;
    Ok(Json(page.list_up_to(shown, next)))
}

/// `GET /api/survey-instances/{publicId}`: with everything that was done for it.
///
/// # Errors
/// 404 when there is none.
pub async fn show(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named,
) -> Answer<Json<SurveyInstanceView>> {
    let store = app.engine.store();
    let entry = store.entry(caller.tenant, id).await?.ok_or_else(not_found)?;
    let shown = show_entries(&app, &caller, std::slice::from_ref(&entry)).await?.pop();
    Ok(Json(shown.ok_or_else(not_found)?))
}

/// Instances with what was done for each, by the same few statements however many they are.
async fn show_entries(app: &App, caller: &Caller, entries: &[Entry]) -> Answer<Vec<SurveyInstanceView>> {
    let store = app.engine.store();
    let ids: Vec<EntryId> = entries.iter().map(|entry| entry.id).collect();
    let mut logs = store.delivery_logs(caller.tenant, ids.clone()).await?;
    let mut dispatches = dispatches(app, caller, ids).await?;
    let shown = entries.iter().filter_map(|entry| {
        let mut shown = show_entry(caller, entry)?;
        let address = entry.recipient.as_ref().map_or("", |to| to.address.as_str());
        shown.delivery_log = logs.remove(&entry.id).unwrap_or_default();
        for line in &mut shown.delivery_log {
            line.error = line.error.take().map(|said| caller.redact(&said, address));
        }
        shown.dispatches = dispatches.remove(&entry.id).unwrap_or_default();
        Some(shown)
    });
    Ok(shown.collect())
}

/// `POST /api/survey-instances/{publicId}/cancel`
///
/// # Errors
/// 404 when there is none, 409 when it has ended.
pub async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named,
) -> Answer<Json<SurveyInstanceView>> {
    change(&app, &caller, id, EntryAction::Cancel).await?;
    show(State(app), caller, Named(id)).await
}

/// `DELETE /api/survey-instances/{publicId}`: hidden from lists; the same event may begin a new one.
///
/// # Errors
/// 404 when there is none.
pub async fn delete(State(app): State<App>, caller: Caller, Named(id): Named) -> Answer<StatusCode> {
    change(&app, &caller, id, EntryAction::Delete).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change(app: &App, caller: &Caller, id: PublicId, action: EntryAction) -> Answer<()> {
    let author = ChangeAuthor::new(&caller.name, "requested through /api/survey-instances");
    let request = EntryActionRequest { name: EntryReference::PublicId(id), action, author };
    match app.engine.change_entry(caller.tenant, request).await? {
        ActionOutcome::Done => Ok(()),
        ActionOutcome::NotFound => Err(not_found()),
        ActionOutcome::Refused(said) => Err(ApiFailure::conflict(format!("this survey instance {said}"))),
    }
}

/// The subscribers of the answers of entries, by entry.
async fn dispatches(
    app: &App,
    caller: &Caller,
    entries: Vec<EntryId>,
) -> Answer<HashMap<EntryId, Vec<Dispatch>>> {
    let store = app.engine.store();
    let listeners: Vec<_> = store.listeners_of(caller.tenant, entries).await?.into_iter().collect();
    // The topic's own queue is no subscriber.
    let named =
        |of: &ResponseListeners| of.subscribers.iter().filter(|name| !name.is_empty()).cloned().collect();
    let asked: Vec<_> = listeners.iter().map(|(_, of)| (of.message, named(of))).collect();
    let found = store.dispatches_of(caller.tenant, asked).await?;
    let shown = listeners.into_iter().zip(found).map(|((entry, of), found)| {
        let known = found.into_iter().map(|one| Dispatch {
            subscriber: one.subscriber,
            status: one.status.word(),
            attempts: one.attempts,
            message_id: Some(of.message.to_string()),
            error: one.error.and_then(|error| caller.visible_text(error)),
        });
        (entry, known.chain(of.unknown.into_iter().map(unknown)).collect())
    });
    Ok(shown.collect())
}

/// A subscriber that a survey lists and that there was not.
fn unknown(subscriber: String) -> Dispatch {
    let error = "there was no enabled subscription of that name on survey.responses".to_owned();
    Dispatch { subscriber, status: "Unknown", attempts: 0, message_id: None, error: Some(error) }
}

/// Viewers see neither the whole address nor what the event said.
fn show_entry(caller: &Caller, entry: &Entry) -> Option<SurveyInstanceView> {
    let of = SurveyInstance::of(entry)?;
    Some(SurveyInstanceView {
        public_id: of.public_id,
        survey_id: of.flow.0,
        survey_version: of.number,
        trigger_id: of.trigger_id.to_owned(),
        status: entry.state.status.word(),
        channel: of.channel.to_owned(),
        recipient_address: caller.visible_address(of.address),
        recipient_locale: of.locale.map(str::to_owned),
        customer_ref: of.customer_ref.map(str::to_owned),
        metadata: caller.visible_payload(of.payload.to_owned()),
        triggered_at: entry.state.triggered_at,
        triggered_by: entry.triggered_by.clone(),
        next_send_at: entry.state.next_send_at,
        last_sent_at: entry.state.last_sent_at,
        reminders_remaining: entry.state.remaining,
        unique_hash: entry.key.clone(),
        delivery_log: Vec::new(),
        dispatches: Vec::new(),
        opened_at: entry.opened_at,
        completed_at: entry.completed_at,
    })
}

fn read_filter(page: &Page) -> Answer<EntryFilter> {
    let mut problems = Problems::default();
    let status = page.filter("status").map(EntryStatus::parse);
    if status == Some(None) {
        let words = EntryStatus::ALL.map(EntryStatus::word).join(", ");
        problems.push("status", format!("must be one of {words}"));
    }
    let flow = page.filter("surveyId").map(str::parse);
    if matches!(flow, Some(Err(_))) {
        problems.push("surveyId", "must be the number of a survey");
    }
    problems.into_result()?;
    Ok(EntryFilter {
        kind: Some(EntryKind::Survey),
        flow: flow.and_then(Result::ok).map(FlowId),
        status: status.flatten(),
        address: page.filter("address").map(str::to_owned),
        customer_ref: page.filter("customerRef").map(str::to_owned),
        ..EntryFilter::default()
    })
}
