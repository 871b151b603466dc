//! Work for remote workers: claim with a lease, then say what became of each item.

use super::queues::QueuePath;
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::raw;
use crate::http::api::requests;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::middleware::Hangup;
use crate::http::openapi::values::{DateTime, EntityName};
use crate::http::openapi::words::SettledOutcome;
use axum::Json;
use axum::extract::State;
use punctual::base::clock::monotonic;
use punctual::base::limits;
use punctual::engine::{ClaimOptions, ItemSettlement};
use punctual::queue::rules::attempt::Retry;
use punctual::queue::rules::message::check_output;
use punctual::queue::store::claims::{ClaimedBatch, ClaimedItem};
use punctual::queue::store::queues::Lane;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use punctual::{Entity, MessageId, Problems, Timestamp, Token};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::time::Duration;

/// The longest a claim waits for work.
const WAIT_SECONDS_MAX: u64 = 60;

/// A claimed item.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClaimedItem")]
pub struct ClaimedItemView {
    id: String,
    token: String,
    attempt: u32,
    topic: String,
    kind: String,
    key: Option<String>,
    #[schemars(with = "Option<EntityName>")]
    entity: Option<Entity>,
    /// Any JSON.
    payload: Box<RawValue>,
    #[schemars(with = "Option<Map<String, Value>>")]
    headers: Option<Box<RawValue>>,
    correlation_id: Option<String>,
    #[schemars(with = "DateTime")]
    occurred_at: Timestamp,
    #[schemars(with = "DateTime")]
    due_at: Timestamp,
    #[schemars(with = "Option<DateTime>")]
    lease_until: Option<Timestamp>,
}

/// A claimed batch.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Claimed")]
pub struct ClaimedItems {
    /// Due items, in order; fewer than the limit when their payloads and headers would be more than 16 MiB.
    /// The others wait for the next claim.
    items: Vec<ClaimedItemView>,
}

/// What a settlement did.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Settled")]
pub struct SettledItems {
    items: Vec<Settled>,
}

/// What a settlement did to one item.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Settled {
    id: String,
    #[schemars(with = "SettledOutcome")]
    outcome: SettleOutcome,
}

impl SettledItems {
    fn new(ids: Vec<String>, outcomes: Vec<SettleOutcome>) -> Self {
        let items = ids.into_iter().zip(outcomes).map(|(id, outcome)| Settled { id, outcome });
        Self { items: items.collect() }
    }
}

/// `POST /api/queues/{topic}/claim`
///
/// # Errors
/// 404 for a subscription that does not exist, 409 for one that is not for remote workers, 422 for an
/// impossible wish, 429 when too many claims of the key wait.
pub async fn claim(
    State(app): State<App>,
    caller: Caller,
    place: QueuePath,
    hangup: Hangup,
    input: Input,
) -> Answer<Json<ClaimedItems>> {
    let (options, wait) = read_options(&input)?;
    let lane = app.engine.claimable_lane(caller.tenant, &place.topic, &place.subscription).await?;
    let catch = if wait.is_zero() {
        app.engine.claim(&lane, &options).await?
    } else {
        let _admitted = app.settings.waiting.admit(&caller)?;
        claim_waiting(&app, &lane, &options, wait, &hangup).await?
    };
    let until = catch.lease_until;
    Ok(Json(ClaimedItems { items: catch.items.into_iter().map(|c| claimed(c, until)).collect() }))
}

fn read_options(input: &Input) -> Answer<(ClaimOptions, Duration)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::Claim>();
    let owner = read.need_name("owner");
    let most = u64::try_from(limits::CLAIM_ITEMS_MAX).unwrap_or(u64::MAX);
    let limit = read.whole("limit", 1..=most).and_then(|n| usize::try_from(n).ok());
    let wait = read.whole("waitSeconds", 0..=WAIT_SECONDS_MAX).unwrap_or(0);
    let lease = lease(&mut read);
    problems.into_result()?;
    let limit = limit.unwrap_or(limits::CLAIM_ITEMS_DEFAULT);
    let bytes = Some(limits::CLAIM_BYTES_MAX);
    Ok((ClaimOptions { owner, lease, limit, bytes }, Duration::from_secs(wait)))
}

/// The lease that a body asks for.
pub(in crate::http::api) fn lease(read: &mut Fields<'_, '_>) -> Duration {
    let range = limits::LEASE_MIN.as_secs()..=limits::LEASE_MAX.as_secs();
    read.whole("leaseSeconds", range).map_or(limits::LEASE_DEFAULT, Duration::from_secs)
}

/// Claims, and waits for work if there is none. It is entered among those that wait before it claims, so
/// that nothing slips in between.
async fn claim_waiting(
    app: &App,
    lane: &Lane,
    options: &ClaimOptions,
    wait: Duration,
    hangup: &Hangup,
) -> Answer<ClaimedBatch> {
    let end = monotonic() + wait;
    loop {
        let mut waiting = app.settings.waiting.enter(&app.engine, lane.id);
        let catch = app.engine.claim(lane, options).await?;
        if catch.is_cut || catch.items.len() >= options.limit {
            app.settings.waiting.filled(lane.id);
        }
        let left = end.since(monotonic());
        if !catch.items.is_empty() || left.is_zero() {
            return Ok(catch);
        }
        tokio::select! {
            () = waiting.woken() => {}
            () = tokio::time::sleep(left) => {}
            () = hangup.wait() => return Ok(ClaimedBatch::default()),
            () = app.settings.stopping.begun() => return Ok(ClaimedBatch::default()),
        }
    }
}

fn claimed(c: ClaimedItem, lease_until: Option<Timestamp>) -> ClaimedItemView {
    ClaimedItemView {
        id: c.message.id.to_string(),
        token: c.token.to_string(),
        attempt: c.item.attempt(),
        topic: c.message.topic,
        kind: c.message.kind,
        key: c.message.key,
        entity: c.message.entity,
        payload: raw(c.message.payload),
        headers: c.message.headers.map(raw),
        correlation_id: c.message.correlation_id,
        occurred_at: c.message.occurred_at,
        due_at: c.due_at,
        lease_until,
    }
}

/// One item as a worker names it, with its id as it was written. An id that is no number is nobody's.
struct NamedItem {
    id: String,
    item: ItemSettlement,
}

/// `POST /api/queues/{topic}/ack`
///
/// # Errors
/// 404 for an unknown queue, 422 with every problem.
pub async fn ack(app: State<App>, who: Caller, place: QueuePath, input: Input) -> Answer<Json<SettledItems>> {
    settle(&app, &who, &place, &input, |item| match item.value("output").map(ToString::to_string) {
        None => SettleAction::Ack,
        Some(output) => {
            item.fine("output", check_output(&output));
            SettleAction::Done { output }
        }
    })
    .await
}

/// `POST /api/queues/{topic}/abandon`
///
/// # Errors
/// As [`ack`].
pub async fn abandon(
    app: State<App>,
    who: Caller,
    place: QueuePath,
    input: Input,
) -> Answer<Json<SettledItems>> {
    settle(&app, &who, &place, &input, |item| SettleAction::Abandon {
        error: reason(item),
        retry: item.duration("retryAfter").map_or(Retry::Policy, Retry::After),
    })
    .await
}

/// `POST /api/queues/{topic}/fail`
///
/// # Errors
/// As [`ack`].
pub async fn fail(
    app: State<App>,
    who: Caller,
    place: QueuePath,
    input: Input,
) -> Answer<Json<SettledItems>> {
    settle(&app, &who, &place, &input, |item| SettleAction::Fail { error: reason(item) }).await
}

fn reason(item: &mut Fields<'_, '_>) -> String {
    item.text("error").unwrap_or_else(|| "the worker gave no reason".into())
}

async fn settle(
    app: &App,
    caller: &Caller,
    place: &QueuePath,
    input: &Input,
    word: fn(&mut Fields<'_, '_>) -> SettleAction,
) -> Answer<Json<SettledItems>> {
    let lane = place.lane(app, caller.tenant).await?;
    let (named, _) = read_items::<requests::Settle>(input, word)?;
    let (ids, items): (Vec<String>, Vec<ItemSettlement>) = named.into_iter().map(|n| (n.id, n.item)).unzip();
    let outcomes = app.engine.settle(&lane, items).await?;
    Ok(Json(SettledItems::new(ids, outcomes)))
}

/// `POST /api/queues/{topic}/extend`: the lease of every claim that is named.
///
/// # Errors
/// As [`ack`].
pub async fn extend(
    State(app): State<App>,
    caller: Caller,
    place: QueuePath,
    input: Input,
) -> Answer<Json<SettledItems>> {
    let lane = place.lane(&app, caller.tenant).await?;
    let (named, lease) = read_items::<requests::ExtendLease>(&input, |_| SettleAction::Ack)?;
    let (ids, items): (Vec<String>, Vec<(Token, MessageId)>) =
        named.into_iter().map(|n| (n.id, (n.item.token, n.item.message))).unzip();
    let outcomes = app.engine.extend(&lane, items, lease).await?;
    Ok(Json(SettledItems::new(ids, outcomes)))
}

fn read_items<T: JsonSchema + 'static>(
    input: &Input,
    word: fn(&mut Fields<'_, '_>) -> SettleAction,
) -> Answer<(Vec<NamedItem>, Duration)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<T>();
    read.need("items");
    let lease = lease(&mut read);
    let items = read.list("items");
    if items.is_some_and(|items| items.len() > limits::BATCH_ITEMS_MAX) {
        read.wrong("items", format!("has more than {} items", limits::BATCH_ITEMS_MAX));
        return Err(problems.into());
    }
    let mut named = Vec::new();
    for (n, item) in items.into_iter().flatten().enumerate() {
        let at = format!("items[{n}]");
        match item.as_object() {
            Some(item) => named.push(read_item(&mut Fields::new(item, at, &mut problems), word)),
            None => problems.push(at, "must be an object"),
        }
    }
    problems.into_result()?;
    Ok((named, lease))
}

/// Other fields are let be: a worker may hand back the whole item it was given.
fn read_item(item: &mut Fields<'_, '_>, word: fn(&mut Fields<'_, '_>) -> SettleAction) -> NamedItem {
    item.need("id");
    let id = item.id_text("id").unwrap_or_default();
    let message = MessageId(id.parse().unwrap_or(-1));
    let token = Token::from(item.need_name("token"));
    NamedItem { id, item: ItemSettlement { token, message, word: word(item) } }
}

impl QueuePath {
    async fn lane(&self, app: &App, tenant: punctual::Tenant) -> Answer<Lane> {
        Ok(app.engine.lane(tenant, &self.topic, &self.subscription).await?)
    }
}
