//! Work for remote workers: claim with a lease, then say what became of each item.

use super::queues::Place;
use super::{raw, route_waiting};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::frame::Hangup;
use crate::http::input::{Fields, Input};
use axum::Json;
use axum::extract::State;
use punctual::base::clock::monotonic;
use punctual::base::{limits, random};
use punctual::rules::attempt::Retry;
use punctual::rules::job::check_output;
use punctual::rules::share::Take;
use punctual::run::subscription::Ask;
use punctual::store::claims::{Catch, Claimed, Wish};
use punctual::store::queues::Lane;
use punctual::store::settle::{Outcome, Settlement, Word};
use punctual::{Entity, MessageId, Problems, Timestamp, Token};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// The longest a claim waits for work.
const WAIT_SECONDS_MAX: u64 = 60;

/// A claimed item.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedItem {
    id: String,
    token: String,
    attempt: u32,
    topic: String,
    kind: String,
    key: Option<String>,
    entity: Option<Entity>,
    payload: Box<RawValue>,
    headers: Option<Box<RawValue>>,
    correlation_id: Option<String>,
    occurred_at: Timestamp,
    due_at: Timestamp,
    lease_until: Option<Timestamp>,
}

/// Items, each with what the verb gave.
#[derive(Debug, Serialize)]
pub struct Items<T> {
    items: Vec<T>,
}

/// What a settlement did to one item.
#[derive(Debug, Serialize)]
pub struct Settled {
    id: String,
    outcome: Outcome,
}

/// `POST /api/queues/{topic}/claim`
///
/// # Errors
/// 404 for a subscription that does not exist, 409 for one that is not for remote workers, 422 for an
/// impossible wish, 429 when too many claims of the key wait.
pub async fn claim(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    hangup: Hangup,
    input: Input,
) -> Answer<Json<Items<ClaimedItem>>> {
    let known = app.engine.store().lane(caller.tenant, &place.topic, &place.subscription).await?;
    if !place.is_own() {
        let lane = known.as_ref().ok_or_else(|| place.not_found())?;
        app.engine.check_claimable(lane).await?;
    }
    let (ask, wait) = read_ask(&input)?;
    let lane = match known {
        Some(lane) if lane.declared || !place.is_own() => lane,
        _ => app.engine.store().declare_queue(caller.tenant, &place.topic).await?,
    };
    let catch = if wait.is_zero() {
        claim_now(&app, &lane, &ask).await?
    } else {
        let _admitted = app.settings.waiting.admit(&caller)?;
        claim_waiting(&app, &lane, &ask, wait, &hangup).await?
    };
    let until = catch.lease_until;
    Ok(Json(Items { items: catch.items.into_iter().map(|c| claimed(c, until)).collect() }))
}

fn read_ask(input: &Input) -> Answer<(Ask, Duration)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only(&["owner", "leaseSeconds", "limit", "waitSeconds"]);
    let owner = read.need_name("owner");
    let most = u64::try_from(limits::CLAIM_ITEMS_MAX).unwrap_or(u64::MAX);
    let limit = read.whole("limit", 1..=most).and_then(|n| usize::try_from(n).ok());
    let wait = read.whole("waitSeconds", 0..=WAIT_SECONDS_MAX).unwrap_or(0);
    let lease = lease(&mut read);
    problems.into_result()?;
    let limit = limit.unwrap_or(limits::CLAIM_ITEMS_DEFAULT);
    Ok((Ask { owner, lease, limit }, Duration::from_secs(wait)))
}

/// The lease that a body asks for.
pub(super) fn lease(read: &mut Fields<'_, '_>) -> Duration {
    let range = limits::LEASE_MIN.as_secs()..=limits::LEASE_MAX.as_secs();
    read.whole("leaseSeconds", range).map_or(limits::LEASE_DEFAULT, Duration::from_secs)
}

/// Claims, and waits for work if there is none. It is entered among those that wait before it claims, so
/// that nothing slips in between.
async fn claim_waiting(app: &App, lane: &Lane, ask: &Ask, wait: Duration, hangup: &Hangup) -> Answer<Catch> {
    let end = monotonic() + wait;
    loop {
        let mut waiting = app.settings.waiting.enter(&app.engine, lane.id);
        let catch = claim_now(app, lane, ask).await?;
        if catch.items.len() >= ask.limit {
            app.settings.waiting.filled(lane.id);
        }
        let left = end.since(monotonic());
        if !catch.items.is_empty() || left.is_zero() {
            return Ok(catch);
        }
        tokio::select! {
            () = waiting.woken() => {}
            () = tokio::time::sleep(left) => {}
            () = hangup.heard() => return Ok(Catch::default()),
            () = app.settings.stopping.begun() => return Ok(Catch::default()),
        }
    }
}

async fn claim_now(app: &App, lane: &Lane, ask: &Ask) -> Answer<Catch> {
    loop {
        let catch = claim_once(app, lane, ask).await?;
        // Followers of a busy key leave the queue without being handed out: look behind them.
        let only_followers = catch.items.is_empty() && !catch.taken.is_empty();
        if only_followers || (catch.items.is_empty() && route_waiting(&app.engine).await? > 0) {
            continue;
        }
        return Ok(catch);
    }
}

async fn claim_once(app: &App, lane: &Lane, ask: &Ask) -> Answer<Catch> {
    if !lane.subscription.is_empty() {
        return Ok(app.engine.claim_subscribed(lane, ask).await?);
    }
    let take = Take { lane: lane.id, since: Timestamp::MIN, quota: ask.limit };
    let wish = Wish { owner: ask.owner.clone(), lease: ask.lease, takes: vec![take] };
    Ok(app.engine.store().claim(wish).await?)
}

fn claimed(c: Claimed, lease_until: Option<Timestamp>) -> ClaimedItem {
    ClaimedItem {
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

/// One item as a worker names it. An id that is no number is nobody's.
struct Named {
    id: String,
    message: MessageId,
    token: Token,
    word: Word,
}

/// `POST /api/queues/{topic}/ack`
///
/// # Errors
/// 404 for an unknown queue, 422 with every problem.
pub async fn ack(app: State<App>, who: Caller, place: Place, input: Input) -> Answer<Json<Items<Settled>>> {
    settle(&app, &who, &place, &input, |item| match item.value("output").map(ToString::to_string) {
        None => Word::Ack,
        Some(output) => {
            item.fine("output", check_output(&output));
            Word::Done { output }
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
    place: Place,
    input: Input,
) -> Answer<Json<Items<Settled>>> {
    settle(&app, &who, &place, &input, |item| Word::Abandon {
        error: reason(item),
        retry: item.duration("retryAfter").map_or(Retry::Policy, Retry::After),
    })
    .await
}

/// `POST /api/queues/{topic}/fail`
///
/// # Errors
/// As [`ack`].
pub async fn fail(app: State<App>, who: Caller, place: Place, input: Input) -> Answer<Json<Items<Settled>>> {
    settle(&app, &who, &place, &input, |item| Word::Fail { error: reason(item) }).await
}

fn reason(item: &mut Fields<'_, '_>) -> String {
    item.text("error").unwrap_or_else(|| "the worker gave no reason".into())
}

async fn settle(
    app: &App,
    caller: &Caller,
    place: &Place,
    input: &Input,
    word: fn(&mut Fields<'_, '_>) -> Word,
) -> Answer<Json<Items<Settled>>> {
    let lane = place.lane(app, caller.tenant).await?;
    let (named, _) = read_items(input, word)?;
    let (settlements, order) = by_token(&named);
    let outcomes = app.engine.store().settle(settlements, Some(lane.id), random::seed()).await?;
    app.engine.wake();
    let outcome = |(claim, n): (usize, usize)| {
        outcomes.get(claim).and_then(|of| of.get(n)).copied().unwrap_or(Outcome::NotFound)
    };
    let items = named.into_iter().zip(order);
    Ok(Json(Items { items: items.map(|(n, at)| Settled { id: n.id, outcome: outcome(at) }).collect() }))
}

/// `POST /api/queues/{topic}/extend`: the lease of every claim that is named.
///
/// # Errors
/// As [`ack`].
pub async fn extend(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    input: Input,
) -> Answer<Json<Items<Settled>>> {
    let lane = place.lane(&app, caller.tenant).await?;
    let (named, lease) = read_items(&input, |_| Word::Ack)?;
    let items: Vec<(Token, MessageId)> = named.iter().map(|n| (n.token.clone(), n.message)).collect();
    let outcomes = app.engine.store().extend_within(items, lease, lane.id).await?;
    let items = named.iter().zip(outcomes).map(|(n, outcome)| Settled { id: n.id.clone(), outcome });
    Ok(Json(Items { items: items.collect() }))
}

fn read_items(input: &Input, word: fn(&mut Fields<'_, '_>) -> Word) -> Answer<(Vec<Named>, Duration)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only(&["items", "leaseSeconds", "owner"]);
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
fn read_item(item: &mut Fields<'_, '_>, word: fn(&mut Fields<'_, '_>) -> Word) -> Named {
    item.need("id");
    let id = item.id_text("id").unwrap_or_default();
    let message = MessageId(id.parse().unwrap_or(-1));
    let token = Token::from(item.need_name("token"));
    Named { id, message, token, word: word(item) }
}

/// Items under their claims, and where each of them went.
fn by_token(named: &[Named]) -> (Vec<Settlement>, Vec<(usize, usize)>) {
    let mut settlements: Vec<Settlement> = Vec::new();
    let mut places: HashMap<&Token, usize> = HashMap::new();
    let mut order = Vec::with_capacity(named.len());
    for item in named {
        let at = *places.entry(&item.token).or_insert_with(|| {
            settlements.push(Settlement { token: item.token.clone(), words: Vec::new() });
            settlements.len() - 1
        });
        order.push((at, settlements[at].words.len()));
        settlements[at].words.push((item.message, item.word.clone()));
    }
    (settlements, order)
}

impl Place {
    async fn lane(&self, app: &App, tenant: punctual::Tenant) -> Result<Lane, Failure> {
        let lane = app.engine.store().lane(tenant, &self.topic, &self.subscription).await?;
        lane.ok_or_else(|| self.not_found())
    }
}
