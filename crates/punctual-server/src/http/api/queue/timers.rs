//! Timers: schedule them, look at them, cancel or move them until somebody takes them.

mod body;

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::api::requests::TimerMove;
use crate::http::api::selection::count;
use crate::http::body_room::chew;
use crate::http::error::Answer;
use crate::http::idempotency::RequestToken;
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::{DateTime, EntityName, ProblemAt};
use crate::http::openapi::words;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::base::duration;
use punctual::engine::TimerChangeOutcome;
use punctual::queue::rules::timer::{TimerProgress, TimerStatus};
use punctual::queue::store::timers::{Timer, TimerCursor, TimerFilter};
use punctual::{Entity, Error, MessageId, NewTimer, Problem, Problems, ScheduledTimer, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::time::Duration;

/// A timer that was scheduled.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ScheduledTimer")]
pub struct NewTimerView {
    id: String,
    #[schemars(with = "DateTime")]
    due_at: Timestamp,
    /// This id was admitted before; the first timer is shown.
    duplicate: bool,
    /// Such as a kind that is defined for another topic; not there if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// `POST /api/timers`
///
/// # Errors
/// 400, 413 and 422 with every problem; nothing is written then.
pub async fn schedule(
    State(app): State<App>,
    caller: Caller,
    token: RequestToken,
    query: Page,
    mut input: Input,
) -> Answer<(StatusCode, Json<ScheduledTimers>)> {
    let (mut timers, is_list) = chew(input.bytes.len(), || body::read_timers(&input, &caller.name))?;
    input.forget_text();
    let identified = token.identify(&caller.name, timers.iter_mut().map(|timer| &mut timer.message));
    let spread = read_spread(query.filter("spread"))?;
    let warnings = topic_warnings(&app, &caller, &timers).await?;
    let made = app.engine.schedule(caller.tenant, timers, spread).await?;
    let mut made = made.into_iter().zip(identified).zip(warnings).map(shown_made);
    let shown = match made.next() {
        Some(one) if !is_list => ScheduledTimers::One(one),
        first => ScheduledTimers::Many(first.into_iter().chain(made).collect()),
    };
    Ok((StatusCode::CREATED, Json(shown)))
}

/// Timers that were scheduled: a list for a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ScheduledTimers")]
pub enum ScheduledTimers {
    /// One timer.
    One(NewTimerView),
    /// A list of timers.
    Many(Vec<NewTimerView>),
}

/// A timer that was `identified` by the request's own key is its own also when it is there already.
fn shown_made(((made, identified), warnings): ((ScheduledTimer, bool), Vec<Problem>)) -> NewTimerView {
    let duplicate = made.duplicate && !identified;
    NewTimerView { id: made.id.to_string(), due_at: made.due_at, duplicate, warnings }
}

/// Returns a warning for each timer with a kind that is defined for another topic, where no handler gets it.
async fn topic_warnings(app: &App, caller: &Caller, timers: &[NewTimer]) -> Answer<Vec<Vec<Problem>>> {
    let kinds = app.engine.event_kinds().of(app.engine.store(), caller.tenant).await?;
    let warning = |timer: &NewTimer| {
        let said = kinds.topic_warning(&timer.message.kind, &timer.message.topic);
        said.map(|said| Problem::new("topic", said)).into_iter().collect()
    };
    Ok(timers.iter().map(warning).collect())
}

fn read_spread(text: Option<&str>) -> Answer<Option<Duration>> {
    let read = text.map(|text| duration::parse(text).map_err(|said| Error::invalid("spread", said)));
    Ok(read.transpose()?)
}

/// `GET /api/timers`
///
/// # Errors
/// 422 for a wrong filter, cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<TimerView>>> {
    let mut problems = Problems::default();
    let (which, status) = read_query(&page, &mut problems);
    let after = page.after().map(read_place);
    if after == Some(None) {
        problems.push("cursor", "is not a cursor that this list handed out");
    }
    problems.into_result()?;
    let store = app.engine.store();
    let fetch = |after, limit| store.timers(caller.tenant, which.clone(), status, after, limit);
    let place = |timer: &Timer| Some((timer.due_at, timer.message.id));
    let weigh = |timer: &Timer| timer.message.payload.len();
    let (timers, more) = page.gather(after.flatten(), fetch, place, weigh).await?;
    let next = timers.last().filter(|_| more).map(|t| format!("{}:{}", t.due_at.as_micros(), t.message.id));
    let timers = timers.into_iter().map(|timer| shown(&caller, timer)).collect();
    Ok(Json(page.list_up_to(timers, next)))
}

fn read_query(page: &Page, problems: &mut Problems) -> (TimerFilter, Option<TimerStatus>) {
    let text = |name: &str| page.filter(name).map(str::to_owned);
    let mut time = |name: &str| {
        let read = page.filter(name).map(Timestamp::parse)?;
        read.map_err(|said| problems.push(name, said)).ok()
    };
    let which = TimerFilter {
        ids: None,
        topic: text("topic"),
        key: text("key"),
        correlation_id: text("correlationId"),
        due_from: time("dueFrom"),
        due_before: time("dueBefore"),
    };
    which.check("", problems);
    let status = page.filter("status").map(TimerStatus::parse);
    if status == Some(None) {
        problems.push("status", "must be Waiting, Fired or Cancelled");
    }
    (which, status.flatten())
}

fn read_place(text: &str) -> Option<TimerCursor> {
    let (due, id) = text.split_once(':')?;
    Some((Timestamp::from_micros(due.parse().ok()?), MessageId(id.parse().ok()?)))
}

/// `GET /api/timers/{id}`
///
/// # Errors
/// 404 when this tenant has no such timer.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<TimerView>> {
    let timer = app.engine.store().timer(caller.tenant, MessageId(id.0)).await?;
    timer.map(|t| Json(shown(&caller, t))).ok_or_else(|| id.not_found("timer"))
}

/// Whether a timer was cancelled.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TimerCancelled")]
pub struct CancelledTimer {
    /// Whether it was in time.
    cancelled: bool,
}

/// `DELETE /api/timers/{id}`
///
/// # Errors
/// 404 when this tenant has no such timer.
pub async fn cancel(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<CancelledTimer>> {
    let cancelled = app.engine.cancel_timer(caller.tenant, MessageId(id.0)).await?;
    if !cancelled {
        must_be_there(&app, &caller, id).await?;
    }
    Ok(Json(CancelledTimer { cancelled }))
}

async fn must_be_there(app: &App, caller: &Caller, id: Id) -> Answer<Timer> {
    let timer = app.engine.store().timer(caller.tenant, MessageId(id.0)).await?;
    timer.ok_or_else(|| id.not_found("timer"))
}

/// Whether a timer was moved.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TimerMoved")]
pub struct MovedTimer {
    /// Whether it was in time.
    moved: bool,
    /// When it is due, or was.
    #[schemars(with = "DateTime")]
    due_at: Timestamp,
}

/// `POST /api/timers/{id}/move`
///
/// # Errors
/// 404 when this tenant has no such timer, 422 unless it says when.
pub async fn put_off(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    input: Input,
) -> Answer<Json<MovedTimer>> {
    must_be_there(&app, &caller, id).await?;
    let object = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&object, "", &mut problems);
    read.only_of::<TimerMove>();
    let when = body::read_when(&mut read);
    problems.into_result()?;
    let Some(when) = when else { return Err(Error::invalid("dueAt", "is missing").into()) };
    let moved = app.engine.move_timer(caller.tenant, MessageId(id.0), when).await?;
    // Where it stands, also when it was too late.
    let due_at = match moved {
        Some(due_at) => due_at,
        None => must_be_there(&app, &caller, id).await?.due_at,
    };
    Ok(Json(MovedTimer { moved: moved.is_some(), due_at }))
}

/// `POST /api/timers/cancel`
///
/// # Errors
/// 422 unless it says which.
pub async fn cancel_all(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<ChangedTimers>> {
    let change = body::read_change(&input, false)?;
    let done = app.engine.cancel_timers(caller.tenant, change.filter, change.dry_run).await?;
    let (cancelled, would_cancel) = count(&done.ids, change.dry_run);
    Ok(Json(ChangedTimers { cancelled, would_cancel, ..ChangedTimers::new(&done, change.by_id) }))
}

/// `POST /api/timers/move`
///
/// # Errors
/// 422 unless it says which, and when.
pub async fn put_off_all(
    State(app): State<App>,
    caller: Caller,
    input: Input,
) -> Answer<Json<ChangedTimers>> {
    let change = body::read_change(&input, true)?;
    let Some(to) = change.to else { return Err(Error::invalid("dueAt", "is missing").into()) };
    let done = app.engine.move_timers(caller.tenant, change.filter, to, change.dry_run).await?;
    let (moved, would_move) = count(&done.ids, change.dry_run);
    Ok(Json(ChangedTimers { moved, would_move, ..ChangedTimers::new(&done, change.by_id) }))
}

/// The count stands under the word for what was done.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TimersChanged")]
pub struct ChangedTimers {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    cancelled: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_cancel: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    moved: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_move: Option<usize>,
    /// There may be more than one call changes: call again.
    more: bool,
    /// Only when ids were given: a filter may mean a million.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    ids: Option<Vec<String>>,
}

impl ChangedTimers {
    fn new(done: &TimerChangeOutcome, by_id: bool) -> Self {
        let ids = by_id.then(|| done.ids.iter().map(ToString::to_string).collect());
        Self { more: done.more, ids, ..Self::default() }
    }
}

/// A timer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Timer")]
pub struct TimerView {
    /// Also the id of its message.
    id: String,
    topic: String,
    kind: String,
    key: Option<String>,
    #[schemars(with = "Option<EntityName>")]
    entity: Option<Entity>,
    /// Any JSON; null for viewers.
    payload: Option<Box<RawValue>>,
    #[schemars(with = "Option<Map<String, Value>>")]
    headers: Option<Box<RawValue>>,
    correlation_id: Option<String>,
    #[schemars(with = "words::TimerStatus")]
    status: TimerStatus,
    /// How far its message has come, once it has fired. While Queued it can still be cancelled.
    #[schemars(with = "Option<words::TimerProgress>")]
    progress: Option<TimerProgress>,
    #[schemars(with = "DateTime")]
    due_at: Timestamp,
    /// As it was scheduled.
    #[schemars(with = "DateTime")]
    first_due_at: Timestamp,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    /// When it was last moved, or cancelled.
    #[schemars(with = "Option<DateTime>")]
    changed_at: Option<Timestamp>,
}

/// Viewers see neither payload nor headers.
fn shown(caller: &Caller, timer: Timer) -> TimerView {
    let m = timer.message;
    TimerView {
        id: m.id.to_string(),
        topic: m.topic,
        kind: m.kind,
        key: m.key,
        entity: m.entity,
        payload: caller.visible_payload(m.payload),
        headers: m.headers.and_then(|headers| caller.visible_payload(headers)),
        correlation_id: m.correlation_id,
        status: timer.status,
        progress: timer.progress,
        due_at: timer.due_at,
        first_due_at: m.due_at,
        created_at: m.created_at,
        changed_at: timer.changed_at,
    }
}
