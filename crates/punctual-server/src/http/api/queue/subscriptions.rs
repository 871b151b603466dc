//! Subscriptions: who else gets the messages of a topic.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests::Target;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::Input;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use punctual::queue::rules::message::check_topic;
use punctual::queue::rules::subscription::check_names;
use punctual::queue::store::subscriptions::SubscriptionState;
use punctual::{NewSubscription, Problems};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// A subscription.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Subscription")]
pub struct SubscriptionView {
    topic: String,
    name: String,
    #[schemars(with = "Option<Map<String, Value>>")]
    filter: Option<Value>,
    #[schemars(with = "Target")]
    target: Value,
    retry: Retry,
    enabled: bool,
    /// Due or not; counting stops at 100000.
    #[schemars(range(min = 0))]
    waiting: i64,
    #[schemars(range(min = 0))]
    due: i64,
    #[schemars(range(min = 0))]
    in_flight: i64,
    /// Its dead letters.
    #[schemars(range(min = 0))]
    dead: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Retry {
    max_attempts: u32,
    backoff: Value,
}

/// The `{topic}/{name}` of a path.
#[derive(Clone, Debug)]
pub struct SubscriptionPath {
    topic: String,
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for SubscriptionPath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((topic, name)) = names.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let mut problems = Problems::default();
        check_names(&topic, &name, &mut problems);
        problems.into_result()?;
        Ok(Self { topic, name })
    }
}

impl SubscriptionPath {
    fn not_found(&self) -> ApiFailure {
        ApiFailure::not_found(format!("there is no subscription `{}/{}`", self.topic, self.name))
    }
}

/// `GET /api/subscriptions`
///
/// # Errors
/// 422 for a wrong topic, cursor or limit.
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    page: Page,
) -> Answer<Json<List<SubscriptionView>>> {
    let topic = page.filter("topic").map(str::to_owned);
    let mut problems = Problems::default();
    if let Some(topic) = &topic {
        check_topic(topic, "topic", &mut problems);
    }
    problems.into_result()?;
    // No name has a control character in it.
    let (after_topic, after_name) = page.after().and_then(|a| a.split_once('\n')).unwrap_or_default();
    let after = (after_topic.to_owned(), after_name.to_owned());
    let states = app.engine.store().subscriptions(caller.tenant, topic, after, page.limit + 1).await?;
    let shown = states.into_iter().map(show_state).collect();
    Ok(Json(page.list(shown, |s: &SubscriptionView| format!("{}\n{}", s.topic, s.name))))
}

/// `GET /api/subscriptions/{topic}/{name}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(
    State(app): State<App>,
    caller: Caller,
    name: SubscriptionPath,
) -> Answer<Json<SubscriptionView>> {
    find(&app, &caller, &name).await
}

async fn find(app: &App, caller: &Caller, name: &SubscriptionPath) -> Answer<Json<SubscriptionView>> {
    let state = app.engine.store().subscription(caller.tenant, &name.topic, &name.name).await?;
    state.map(|state| Json(show_state(state))).ok_or_else(|| name.not_found())
}

/// `PUT /api/subscriptions/{topic}/{name}`: made, or changed into this; the same again changes nothing.
///
/// # Errors
/// 422 with every problem.
pub async fn put(
    State(app): State<App>,
    caller: Caller,
    name: SubscriptionPath,
    input: Input,
) -> Answer<Json<SubscriptionView>> {
    let body = Value::Object(input.object()?);
    let mut problems = Problems::default();
    let new = NewSubscription::read(&body, &mut problems);
    let Some(new) = new else { return Err(problems.into()) };
    app.engine.put_subscription(caller.tenant, &name.topic, &name.name, new).await?;
    find(&app, &caller, &name).await
}

/// What a deletion leaves.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedSubscription {
    /// Items that waited.
    dropped: usize,
    /// They end by themselves.
    #[schemars(range(min = 0))]
    in_flight: i64,
}

/// `DELETE /api/subscriptions/{topic}/{name}`
///
/// # Errors
/// 404 when there is none.
pub async fn delete(
    State(app): State<App>,
    caller: Caller,
    name: SubscriptionPath,
) -> Answer<Json<DeletedSubscription>> {
    let deleted = app.engine.delete_subscription(caller.tenant, &name.topic, &name.name).await?;
    Ok(Json(DeletedSubscription { dropped: deleted.waiting, in_flight: deleted.in_flight }))
}

fn show_state(state: SubscriptionState) -> SubscriptionView {
    let SubscriptionState { subscription, queue } = state;
    let patience = queue.lane.settings.patience();
    SubscriptionView {
        topic: subscription.topic,
        name: subscription.name,
        filter: subscription.filter,
        target: subscription.target.to_json(),
        retry: Retry { max_attempts: patience.max_attempts, backoff: patience.backoff.to_json() },
        enabled: subscription.enabled,
        waiting: queue.waiting + queue.behind_their_key,
        due: queue.due,
        in_flight: queue.in_flight,
        dead: queue.dead,
    }
}
