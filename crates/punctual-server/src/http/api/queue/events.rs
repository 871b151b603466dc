//! Publishing: events of our own form and CloudEvents become messages.
//!
//! A batch is taken whole or not at all. An event that carries an id is admitted once per
//! source; the second is a duplicate, not an error.

mod cloud;
pub(in crate::http::api) mod plain;

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::body_room::chew;
use crate::http::error::{Answer, ApiFailure};
use crate::http::idempotency::RequestToken;
use crate::http::input::{self, Input};
use crate::http::openapi::values::{DateTime, EntityName, ProblemAt};
use crate::http::openapi::words;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use punctual::base::limits;
use punctual::engine::{EventKindSet, EventToExplain};
use punctual::flow::rules::entity::NewEntityState;
use punctual::operate::store::outbox::OutboxStatus;
use punctual::{
    ClockMode, Engine, EnqueueOutcome, Entity, Message, MessageId, NewMessage, Problem, Problems, Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};

/// Content shorter than this cannot be nested too deeply to be read later.
const SHALLOW_BYTES: usize = 256;

/// Problems after which no more payloads of a batch are looked at.
const PROBLEMS_MAX: usize = 100;

/// What became of the events, in the order given.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Published {
    accepted: usize,
    duplicates: usize,
    /// Message ids in the order given; null when a duplicate's first message is gone by now.
    ids: Vec<Option<String>>,
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// Events that were read, with what is worth a word and what is wrong.
#[derive(Debug, Default)]
pub(in crate::http::api) struct Reading {
    messages: Vec<NewMessage>,
    /// What each message's form calls our fields.
    names: Vec<fn(&str) -> &str>,
    /// The states that come with messages, each with the number of its message.
    pub(in crate::http::api) states: Vec<(usize, NewEntityState)>,
    pub(in crate::http::api) warnings: Problems,
    pub(in crate::http::api) problems: Problems,
    too_large: Problems,
}

/// One event before it is understood: its fields, and its content as it was written.
pub(in crate::http::api) struct Draft<'a> {
    pub(in crate::http::api) fields: Map<String, Value>,
    content: Option<&'a RawValue>,
    pub(in crate::http::api) at: String,
    /// Whose event it is when it does not say.
    publisher: &'a str,
}

/// `POST /api/events`
///
/// # Errors
/// 400, 413 and 422 with every problem; nothing is written then.
pub async fn publish(
    State(app): State<App>,
    caller: Caller,
    token: RequestToken,
    headers: HeaderMap,
    mut input: Input,
) -> Answer<(StatusCode, Json<Published>)> {
    let mut reading = Reading::default();
    chew(input.bytes.len(), || {
        if headers.contains_key(cloud::SPEC_VERSION) {
            cloud::read_binary(&headers, &input, &mut reading)
        } else {
            read_json(&input, &caller.name, &mut reading)
        }
    })?;
    input.forget_text();
    reading.check_forms(&app, &caller).await?;
    let states = std::mem::take(&mut reading.states);
    let (mut messages, mut warnings) = reading.finish()?;
    let identified = token.identify(&caller.name, &mut messages);
    let enqueued = app.engine.enqueue_with_states(caller.tenant, messages, states).await?;
    route_at_once(&app.engine).await?;
    let published = published(&enqueued, &identified, &mut warnings);
    Ok((StatusCode::ACCEPTED, Json(Published { warnings: warnings.0, ..published })))
}

/// On a manual clock nothing runs by itself, so work is made claimable before the answer.
async fn route_at_once(engine: &Engine) -> Answer<()> {
    if engine.clock() == ClockMode::Manual {
        engine.route_waiting().await?;
    }
    Ok(())
}

/// One thing or a list of them, each as it was written; and whether it was a list.
pub(in crate::http::api) fn one_or_many<'a>(
    input: &'a Input,
    noun: &str,
) -> Answer<(Vec<&'a RawValue>, bool)> {
    let is_list = input.bytes.trim_ascii_start().starts_with(b"[");
    let items: Vec<&RawValue> = if is_list {
        serde_json::from_slice(&input.bytes).map_err(|e| input::not_json(&e))?
    } else {
        vec![serde_json::from_slice(&input.bytes).map_err(|e| input::not_json(&e))?]
    };
    if items.len() > limits::BATCH_ITEMS_MAX {
        let said = format!("{} {noun}, at most {} are allowed", items.len(), limits::BATCH_ITEMS_MAX);
        return Err(punctual::Error::invalid("", said).into());
    }
    Ok((items, is_list))
}

fn read_json(input: &Input, publisher: &str, reading: &mut Reading) -> Answer<()> {
    let (items, _) = one_or_many(input, "events")?;
    let all_cloud = input.media_type.starts_with("application/cloudevents");
    for (n, item) in items.iter().enumerate() {
        let at = if items.len() == 1 { String::new() } else { format!("[{n}]") };
        if let Some(draft) = draft(item, at, publisher, reading) {
            read_draft(draft, all_cloud, reading);
        }
    }
    Ok(())
}

fn read_draft(draft: Draft<'_>, is_cloud: bool, reading: &mut Reading) {
    if is_cloud || cloud::is_one(&draft.fields) {
        let (message, at) = cloud::read(draft, reading);
        reading.add(message, &at, cloud::name);
    } else {
        let (message, at) = plain::read(draft, reading);
        reading.add(message, &at, |name| name);
    }
}

/// Reads an event that stands at `at`, with the state of its entity, for an explanation.
///
/// # Errors
/// 413 and 422 with every problem.
pub(crate) fn read_one(item: &RawValue, at: &str, publisher: &str) -> Answer<EventToExplain> {
    let mut reading = Reading::default();
    if let Some(draft) = draft(item, at.to_owned(), publisher, &mut reading) {
        read_draft(draft, false, &mut reading);
    }
    let state = std::mem::take(&mut reading.states).pop().map(|(_, state)| Box::new(state));
    let (mut messages, _) = reading.finish()?;
    let message = messages.pop().ok_or_else(|| ApiFailure::malformed("there is no event"))?;
    Ok(EventToExplain::New { message: Box::new(message), state })
}

/// Takes an event apart; its content stays as it was written, to the last digit.
pub(in crate::http::api) fn draft<'a>(
    item: &'a RawValue,
    at: String,
    publisher: &'a str,
    reading: &mut Reading,
) -> Option<Draft<'a>> {
    let Ok(parts) = serde_json::from_str::<BTreeMap<String, &'a RawValue>>(item.get()) else {
        reading.problems.push(at, "must be an object");
        return None;
    };
    let mut draft = Draft { fields: Map::new(), content: None, at, publisher };
    for (name, value) in parts {
        let is_content = name == "payload" || name == "data";
        if is_content && draft.content.is_some() {
            reading.problems.push(join(&draft.at, &name), "is the payload once more: leave it or `data` out");
            continue;
        }
        if is_content && value.get().len() < SHALLOW_BYTES {
            draft.content = Some(value);
            continue;
        }
        match serde_json::from_str(value.get()) {
            Ok(_) if is_content => draft.content = Some(value),
            Ok(value) => drop(draft.fields.insert(name, value)),
            Err(e) => reading.problems.push(join(&draft.at, &name), format!("cannot be read: {e}")),
        }
    }
    Some(draft)
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

impl Reading {
    /// Takes a message that stands at `at`; `name` is what its form calls our fields.
    pub(in crate::http::api) fn add(&mut self, message: NewMessage, at: &str, name: fn(&str) -> &str) {
        let mut found = Problems::default();
        message.check("", &mut found);
        let large = message.payload.len() > limits::PAYLOAD_BYTES_MAX;
        for problem in found.0 {
            let is_size = large && problem.path == "payload";
            let list = if is_size { &mut self.too_large } else { &mut self.problems };
            list.push(join(at, name(&problem.path)), problem.message);
        }
        self.messages.push(message);
        self.names.push(name);
    }

    /// Takes the state of what the next message is about.
    fn add_state(&mut self, state: NewEntityState, at: &str) {
        state.check(at, &mut self.problems);
        self.states.push((self.messages.len(), state));
    }

    /// Where a message stands in the body.
    fn at(&self, n: usize) -> String {
        if self.messages.len() == 1 { String::new() } else { format!("[{n}]") }
    }

    /// Warns of events whose kind is defined for another topic: nobody is told of them.
    fn check_topics(&mut self, kinds: &EventKindSet) {
        for (n, (message, name)) in self.messages.iter().zip(&self.names).enumerate() {
            if self.warnings.0.len() >= PROBLEMS_MAX || !kinds.has_topics() {
                return;
            }
            if let Some(said) = kinds.topic_warning(&message.kind, &message.topic) {
                self.warnings.push(join(&self.at(n), name("topic")), said);
            }
        }
    }

    /// Tells where a payload does not have the form of its kind.
    async fn check_forms(&mut self, app: &App, caller: &Caller) -> Answer<()> {
        let kinds = app.engine.event_kinds().of(app.engine.store(), caller.tenant).await?;
        self.check_topics(&kinds);
        for (n, (message, name)) in self.messages.iter().zip(&self.names).enumerate() {
            let kind = kinds.get(&message.kind).filter(|kind| kind.comes_by(&message.topic));
            let Some(kind) = kind.filter(|kind| kind.has_checks(&message.payload)) else { continue };
            let at = self.at(n);
            // What is not JSON was told already.
            let Ok(payload) = serde_json::from_str(&message.payload) else { continue };
            kind.check(&payload, &join(&at, name("payload")), &mut self.problems);
            if self.problems.0.len() > PROBLEMS_MAX {
                break;
            }
        }
        Ok(())
    }

    pub(in crate::http::api) fn finish(mut self) -> Answer<(Vec<NewMessage>, Problems)> {
        if !self.too_large.0.is_empty() {
            return Err(ApiFailure::too_large(self.too_large.to_string()).with(self.too_large));
        }
        // The first word about a field is the plainest: "is missing" before "must not be empty".
        let mut told = HashSet::new();
        self.problems.0.retain(|p| told.insert(p.path.clone()));
        self.problems.into_result()?;
        Ok((self.messages, self.warnings))
    }
}

/// Messages that were `identified` by the request's own key are its own also when they are there already.
fn published(enqueued: &[EnqueueOutcome], identified: &[bool], warnings: &mut Problems) -> Published {
    let accepted = enqueued.iter().zip(identified);
    let accepted = accepted.filter(|(e, own)| **own || matches!(e, EnqueueOutcome::New(_))).count();
    for (n, one) in enqueued.iter().enumerate() {
        if matches!(one, EnqueueOutcome::Duplicate { same: false, .. }) {
            let path = if enqueued.len() == 1 { String::new() } else { format!("[{n}]") };
            warnings.push(
                path,
                "this id was admitted before with other content, which stands; this one is dropped",
            );
        }
    }
    let ids = enqueued.iter().map(|e| e.id().map(|id| id.to_string())).collect();
    Published { accepted, duplicates: enqueued.len() - accepted, ids, warnings: Vec::new() }
}

/// A message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub struct MessageView {
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
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    #[schemars(with = "DateTime")]
    occurred_at: Timestamp,
    #[schemars(with = "DateTime")]
    due_at: Timestamp,
    #[schemars(with = "words::OutboxStatus")]
    status: &'static str,
}

/// `GET /api/events/{id}`; viewers see neither payload nor headers.
///
/// # Errors
/// 404 when this tenant has no such message.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<MessageView>> {
    let store = app.engine.store();
    let message =
        store.message(caller.tenant, MessageId(id.0)).await?.ok_or_else(|| id.not_found("event"))?;
    // A message that goes in between is one that was done long ago.
    let became = store.outbox_message(caller.tenant, message.id).await?;
    let status = became.map_or(OutboxStatus::Published, |became| became.status);
    Ok(Json(shown(&caller, message, status)))
}

fn shown(caller: &Caller, m: Message, status: OutboxStatus) -> MessageView {
    MessageView {
        id: m.id.to_string(),
        topic: m.topic,
        kind: m.kind,
        key: m.key,
        entity: m.entity,
        payload: caller.visible_payload(m.payload),
        headers: m.headers.and_then(|headers| caller.visible_payload(headers)),
        correlation_id: m.correlation_id,
        created_at: m.created_at,
        occurred_at: m.occurred_at,
        due_at: m.due_at,
        status: status.word(),
    }
}
