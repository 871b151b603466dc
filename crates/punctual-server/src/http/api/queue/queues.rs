//! Queues as operators see them: settings, and what waits.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::Input;
use crate::http::openapi::documents::Backoff;
use crate::http::openapi::values::{DateTime, ProblemAt};
use crate::http::openapi::words::DeadHeadWord;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use punctual::base::duration;
use punctual::base::name::check_name;
use punctual::queue::rules::message::check_topic;
use punctual::queue::store::queues::{Lane, QueueState};
use punctual::{Problem, Problems, Tenant, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Which queue a path names: a topic's own, or that of a subscription, written as
/// `{topic}/{subscription}` in two segments or one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePath {
    /// The topic.
    pub topic: String,
    /// The subscription, empty for the topic's own queue.
    pub subscription: String,
}

impl<S: Send + Sync> FromRequestParts<S> for QueuePath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let Path(mut names) = names.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let topic = names.remove("topic").unwrap_or_default();
        match names.remove("subscription") {
            Some(subscription) => Self::of(&topic, &subscription),
            None => {
                let (topic, subscription) = topic.split_once('/').unwrap_or((&topic, ""));
                Self::of(topic, subscription)
            }
        }
    }
}

impl QueuePath {
    fn of(topic: &str, subscription: &str) -> Result<Self, ApiFailure> {
        let mut problems = Problems::default();
        check_topic(topic, "topic", &mut problems);
        if !subscription.is_empty() {
            check_name(subscription, "subscription", &mut problems);
        }
        problems.into_result()?;
        Ok(Self { topic: topic.into(), subscription: subscription.into() })
    }

    /// Whether it is the topic's own queue.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.subscription.is_empty()
    }

    /// 404 for it.
    #[must_use]
    pub fn not_found(&self) -> ApiFailure {
        ApiFailure::not_found(format!("there is no queue `{}`", self.name()))
    }

    fn name(&self) -> String {
        if self.is_own() { self.topic.clone() } else { format!("{}/{}", self.topic, self.subscription) }
    }
}

/// A queue.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Queue")]
pub struct QueueView {
    topic: String,
    subscription: Option<String>,
    declared: bool,
    paused: bool,
    max_attempts: u32,
    /// Waits one after the other, or a growing wait.
    #[schemars(with = "Backoff")]
    backoff: Value,
    retention: Option<String>,
    #[schemars(with = "DeadHeadWord")]
    dead_head: &'static str,
    /// Items that wait, due or not; counting stops at 100000.
    #[schemars(range(min = 0))]
    waiting: i64,
    #[schemars(range(min = 0))]
    due: i64,
    /// Items that are claimed and not settled.
    #[schemars(range(min = 0))]
    in_flight: i64,
    #[schemars(range(min = 0))]
    behind_their_key: i64,
    #[schemars(range(min = 0))]
    dead: i64,
    #[schemars(with = "Option<DateTime>")]
    oldest_due: Option<Timestamp>,
    /// Only after a pause or resume that made the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// `GET /api/queues`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<QueueView>>> {
    app.engine.route_waiting().await?;
    let all = app.engine.store().queues(caller.tenant).await?;
    let after = page.after().unwrap_or_default().to_owned();
    let left = all.into_iter().filter(|q| after.is_empty() || position(&q.lane) > after);
    let shown = page.list(left.take(page.limit + 1).collect(), |q: &QueueState| position(&q.lane));
    let items = shown.items.into_iter().map(show_state).collect();
    Ok(Json(List { items, next_cursor: shown.next_cursor }))
}

/// Queues are listed by topic and subscription; no name has a control character in it.
fn position(lane: &Lane) -> String {
    format!("{}\u{1}{}", lane.topic, lane.subscription)
}

/// `GET /api/queues/{topic}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(State(app): State<App>, caller: Caller, place: QueuePath) -> Answer<Json<QueueView>> {
    app.engine.route_waiting().await?;
    find(&app, caller.tenant, &place).await.map(Json)
}

async fn find(app: &App, tenant: Tenant, place: &QueuePath) -> Answer<QueueView> {
    let all = app.engine.store().queues(tenant).await?;
    let is_it = |q: &QueueState| q.lane.topic == place.topic && q.lane.subscription == place.subscription;
    all.into_iter().find(is_it).map(show_state).ok_or_else(|| place.not_found())
}

/// `PUT /api/queues/{topic}`: what is left out stays, what is null goes to its default.
///
/// # Errors
/// 422 with every wrong setting.
pub async fn change(
    State(app): State<App>,
    caller: Caller,
    place: QueuePath,
    input: Input,
) -> Answer<Json<QueueView>> {
    own(&place)?;
    let change = input.object()?;
    set(&app, &caller, &place, change).await
}

/// `POST /api/queues/{topic}/pause`
///
/// # Errors
/// 422 for what is not a topic.
pub async fn pause(State(app): State<App>, caller: Caller, place: QueuePath) -> Answer<Json<QueueView>> {
    set_paused(&app, &caller, &place, true).await
}

/// `POST /api/queues/{topic}/resume`
///
/// # Errors
/// 422 for what is not a topic.
pub async fn resume(State(app): State<App>, caller: Caller, place: QueuePath) -> Answer<Json<QueueView>> {
    set_paused(&app, &caller, &place, false).await
}

/// Pauses or resumes a queue. One that is not there is made, since it may be paused before its first message
/// comes; the answer warns of it, since the name may be misspelt.
async fn set_paused(app: &App, caller: &Caller, place: &QueuePath, paused: bool) -> Answer<Json<QueueView>> {
    let known = find(app, caller.tenant, place).await.is_ok();
    let change = Map::from_iter([("paused".into(), json!(paused))]);
    let Json(mut shown) = set(app, caller, place, change).await?;
    if !known {
        let said = format!("there was no queue `{}` before; it was made", place.name());
        shown.warnings.push(Problem::new("topic", said));
    }
    Ok(Json(shown))
}

async fn set(
    app: &App,
    caller: &Caller,
    place: &QueuePath,
    change: Map<String, Value>,
) -> Answer<Json<QueueView>> {
    own(place)?;
    app.engine.store().set_queue(caller.tenant, &place.topic, change).await?;
    app.engine.wake();
    find(app, caller.tenant, place).await.map(Json)
}

fn own(place: &QueuePath) -> Answer<()> {
    if place.is_own() {
        return Ok(());
    }
    Err(ApiFailure::conflict("a subscription's settings are its own; change the subscription"))
}

fn show_state(state: QueueState) -> QueueView {
    let QueueState { lane, waiting, due, in_flight, behind_their_key, dead, oldest_due } = state;
    let patience = lane.settings.patience();
    QueueView {
        topic: lane.topic,
        subscription: Some(lane.subscription).filter(|s| !s.is_empty()),
        declared: lane.declared,
        paused: lane.settings.paused,
        max_attempts: patience.max_attempts,
        backoff: patience.backoff.to_json(),
        retention: lane.settings.retention.map(duration::write),
        dead_head: lane.settings.dead_head.word(),
        waiting,
        due,
        in_flight,
        behind_their_key,
        dead,
        oldest_due,
        warnings: Vec::new(),
    }
}
