//! The outbox: every message of every tenant, what became of it, and another try for what failed.

mod outlook;

use crate::app::App;
use crate::http::api::requests::OutboxSelectionFilter;
use crate::http::api::selection::BulkSelection;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::{DateTime, EntityName};
use crate::http::openapi::words;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use outlook::Outlook;
use punctual::base::limits;
use punctual::base::name::check_name;
use punctual::operate::store::outbox::failed_messages::FailedMessage;
use punctual::operate::store::outbox::{OutboxFilter, OutboxMessage, OutboxStatus};
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::{DeadLetterId, Entity, MessageId, Problems, Tenant, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutboxMessage")]
pub struct OutboxMessageView {
    id: String,
    tenant_id: i64,
    topic: String,
    kind: String,
    key: Option<String>,
    #[schemars(with = "Option<EntityName>")]
    entity: Option<Entity>,
    #[schemars(with = "words::OutboxStatus")]
    status: &'static str,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    /// When it was done or died; null if that is long ago.
    #[schemars(with = "Option<DateTime>")]
    processed_at: Option<Timestamp>,
    /// By all consumers together.
    attempts: u32,
    last_error: Option<String>,
    correlation_id: Option<String>,
}

/// What a replay did, or would do.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutboxReplayed")]
pub struct Replayed {
    /// How many consumers get something again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    replayed: Option<usize>,
    /// How many would.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_replay: Option<usize>,
    /// The messages.
    ids: Vec<String>,
    /// In a dry run: what goes to whom again, up to 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<ReplayItem>")]
    items: Option<Vec<ReplayItem>>,
    /// In a dry run: how many more there are than items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    more_items: Option<usize>,
    /// What does not, and why.
    skipped: Vec<SkippedMessage>,
}

/// A message that a consumer would get again.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ReplayItem {
    id: String,
    tenant_id: i64,
    topic: String,
    subscription: Option<String>,
    kind: String,
    key: Option<String>,
    dead_letter_id: String,
    last_error: String,
    /// What would become of it, if it is for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Outlook")]
    messages: Option<Outlook>,
}

/// A message that is not replayed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SkippedMessage {
    id: String,
    reason: &'static str,
}

/// What failed that is looked at in one step.
const STEP: usize = 1_000;
/// Items of one dry run that are told one by one.
const TOLD_MAX: usize = limits::LIST_ITEMS_MAX;

/// `GET /ops/outbox?status=&from=&to=&tenantId=&topic=&kind=`, the newest first.
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, page: Page) -> Answer<Json<List<OutboxMessageView>>> {
    let mut problems = Problems::default();
    let mut filter = OutboxFilter::default();
    let mut read = |name: &str| page.filter(name).map(str::to_owned);
    let fields = ["topic", "kind", "from", "to", "tenantId"].map(&mut read);
    narrow(&app, &mut filter, fields, "", &mut problems).await?;
    if let Some(word) = page.filter("status") {
        filter.status = OutboxStatus::from_word(word);
        if filter.status.is_none() {
            let words = OutboxStatus::ALL.map(|(_, word)| word).join(", ");
            problems.push("status", format!("must be one of {words}"));
        }
    }
    problems.into_result()?;
    let before = match page.after_id()? {
        0 => MessageId(i64::MAX),
        id => MessageId(id),
    };
    let found = app.engine.store().outbox(filter, before, page.limit).await?;
    let next = found.next.map(|id| id.to_string());
    Ok(Json(page.list_up_to(found.messages.into_iter().map(shown).collect(), next)))
}

/// `POST /ops/outbox/replay {ids?|filter, dryRun?}`: what failed is tried again by those it failed for.
///
/// # Errors
/// 422 unless it says which.
pub async fn replay(State(app): State<App>, input: Input) -> Answer<Json<Replayed>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let selection = BulkSelection::read(&body, "a message", &mut problems);
    let mut filter = OutboxFilter::default();
    if let Some(given) = selection.filter {
        let mut read = Fields::new(given, "filter", &mut problems);
        read.only_of::<OutboxSelectionFilter>();
        if read.text("status").is_some_and(|word| word != OutboxStatus::Failed.word()) {
            read.wrong("status", "must be Failed: nothing else is replayed");
        }
        let mut field = |name: &str| if name == "tenantId" { read.id_text(name) } else { read.text(name) };
        let fields = ["topic", "kind", "from", "to", "tenantId"].map(&mut field);
        narrow(&app, &mut filter, fields, "filter.", &mut problems).await?;
    }
    if selection.ids.as_ref().is_some_and(|ids| ids.len() > limits::BATCH_ITEMS_MAX) {
        problems.push("ids", format!("at most {} are allowed", limits::BATCH_ITEMS_MAX));
    }
    problems.into_result()?;
    let ids: Option<Vec<MessageId>> = selection.ids.map(|ids| ids.into_iter().map(MessageId).collect());
    let failed = all_failed(&app, &filter, ids.as_ref()).await?;
    let mut told = tell(&failed, ids.as_deref());
    let again: Vec<FailedMessage> = failed.into_iter().filter(|one| one.served).collect();
    if selection.dry_run {
        told.would_replay = Some(again.len());
        told.ids = messages(again.iter().map(|one| one.message));
        told.more_items = Some(again.len().saturating_sub(TOLD_MAX));
        told.items = Some(foretell(&app, again).await?);
    } else {
        let moved = put_back(&app, &again).await?;
        told.replayed = Some(moved.len());
        told.ids = messages(again.iter().filter(|one| moved.contains(&one.letter)).map(|one| one.message));
        app.engine.wake();
    }
    Ok(Json(told))
}

/// Reads what a list and a replay share: topic, kind, from, to, tenant.
async fn narrow(
    app: &App,
    filter: &mut OutboxFilter,
    [topic, kind, from, to, tenant]: [Option<String>; 5],
    at: &str,
    problems: &mut Problems,
) -> Answer<()> {
    for (name, value) in [("topic", &topic), ("kind", &kind)] {
        if let Some(value) = value {
            check_name(value, &format!("{at}{name}"), problems);
        }
    }
    let mut time = |name: &str, text: Option<String>| {
        let read = Timestamp::parse(&text?);
        read.map_err(|said| problems.push(format!("{at}{name}"), said)).ok()
    };
    (filter.from, filter.to) = (time("from", from), time("to", to));
    (filter.topic, filter.kind) = (topic, kind);
    if let Some(named) = tenant {
        filter.tenant = find_tenant(app, &named).await?;
        if filter.tenant.is_none() {
            problems.push(format!("{at}tenantId"), "there is no such tenant; name its id or its slug");
        }
    }
    Ok(())
}

/// A tenant by its id or its slug.
async fn find_tenant(app: &App, named: &str) -> Answer<Option<Tenant>> {
    let store = app.engine.store();
    if named.chars().any(char::is_control) {
        return Ok(None);
    }
    if let Some(before) = named.parse::<i64>().ok().and_then(|id| id.checked_sub(1)) {
        let found = store.tenants(before, 1).await?.pop();
        let found = found.filter(|row| row.tenant.id().checked_sub(1) == Some(before));
        if let Some(row) = found {
            return Ok(Some(row.tenant));
        }
    }
    Ok(store.tenant(named).await?.map(|row| row.tenant))
}

/// Everything that failed, counted before anything is moved.
async fn all_failed(
    app: &App,
    filter: &OutboxFilter,
    ids: Option<&Vec<MessageId>>,
) -> Answer<Vec<FailedMessage>> {
    let mut all: Vec<FailedMessage> = Vec::new();
    loop {
        let after = all.last().map_or(DeadLetterId(0), |last| last.letter);
        let step = app.engine.store().outbox_failed(filter.clone(), ids.cloned(), after, STEP).await?;
        let more = step.len() == STEP;
        all.extend(step);
        if !more {
            return Ok(all);
        }
    }
}

/// Puts letters back to work, tenant by tenant; answers those that nobody else had moved meanwhile.
async fn put_back(app: &App, again: &[FailedMessage]) -> Answer<BTreeSet<DeadLetterId>> {
    let mut by_tenant: BTreeMap<Tenant, Vec<DeadLetterId>> = BTreeMap::new();
    for one in again {
        by_tenant.entry(one.tenant).or_default().push(one.letter);
    }
    let mut moved = BTreeSet::new();
    for (tenant, letters) in by_tenant {
        for step in letters.chunks(STEP) {
            let which = DeadLetterFilter { ids: Some(step.to_vec()), ..DeadLetterFilter::default() };
            moved.extend(app.engine.store().replay(tenant, which, false).await?.ids);
        }
    }
    Ok(moved)
}

/// What is not replayed, and why.
fn tell(failed: &[FailedMessage], ids: Option<&[MessageId]>) -> Replayed {
    let known: BTreeSet<MessageId> = failed.iter().map(|one| one.message).collect();
    let untouched = ids.unwrap_or_default().iter().filter(|id| !known.contains(id));
    let untouched = untouched.map(|id| SkippedMessage { id: id.to_string(), reason: "nothing of it failed" });
    let left = failed.iter().filter(|one| !one.served);
    let left = left
        .map(|one| SkippedMessage { id: one.message.to_string(), reason: "its subscription was deleted" });
    Replayed { skipped: untouched.chain(left).collect(), ..Replayed::default() }
}

fn messages(ids: impl Iterator<Item = MessageId>) -> Vec<String> {
    ids.collect::<BTreeSet<_>>().into_iter().map(|id| id.to_string()).collect()
}

/// What goes to whom again, and what people would be told.
async fn foretell(app: &App, again: Vec<FailedMessage>) -> Answer<Vec<ReplayItem>> {
    let (mut items, mut seen) = (Vec::new(), outlook::SeenKeys::new());
    for one in again.into_iter().take(TOLD_MAX) {
        let messages = outlook::of(app, &one, &mut seen).await?;
        items.push(item(one, messages));
    }
    Ok(items)
}

fn item(one: FailedMessage, messages: Option<Outlook>) -> ReplayItem {
    ReplayItem {
        id: one.message.to_string(),
        tenant_id: one.tenant.id(),
        topic: one.topic,
        subscription: Some(one.subscription).filter(|name| !name.is_empty()),
        kind: one.kind,
        key: one.key,
        dead_letter_id: one.letter.to_string(),
        last_error: one.error,
        messages,
    }
}

fn shown(message: OutboxMessage) -> OutboxMessageView {
    OutboxMessageView {
        id: message.id.to_string(),
        tenant_id: message.tenant.id(),
        topic: message.topic,
        kind: message.kind,
        key: message.key,
        entity: message.entity,
        status: message.status.word(),
        created_at: message.created_at,
        processed_at: message.processed_at,
        attempts: message.attempts,
        last_error: message.last_error,
        correlation_id: message.correlation_id,
    }
}
