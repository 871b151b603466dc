//! The inbox: what a delivery is told, what became of a message, and what an operator sees.

use super::work::lease;
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests::{self, InboxMark, InboxSelectionFilter};
use crate::http::api::selection::{BulkSelection, MovedItems};
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words::{self, InboxDecision, InboxOutcome};
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use punctual::base::limits;
use punctual::base::name::check_name;
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::store::inbox::{
    InboxBeginOutcome, InboxFilter, InboxMessage, InboxTicket, ProcessingOutcome,
};
use punctual::queue::store::settle::SettleOutcome;
use punctual::{InboxDelivery, InboxId, Problems, Timestamp, Token};
use schemars::JsonSchema;
use serde::Serialize;

/// What a delivery is told.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InboxBeginResult")]
pub struct InboxBeginResult {
    #[schemars(with = "InboxDecision")]
    decision: &'static str,
    /// Only with Process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    token: Option<String>,
    attempts: u32,
    /// Only with Process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DateTime")]
    lease_until: Option<Timestamp>,
}

/// A message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InboxMessage")]
pub struct InboxMessageView {
    id: String,
    source: String,
    message_id: String,
    hash: Option<String>,
    #[schemars(with = "words::InboxStatus")]
    status: &'static str,
    attempts: u32,
    #[schemars(with = "DateTime")]
    first_seen: Timestamp,
    #[schemars(with = "DateTime")]
    last_seen: Timestamp,
    #[schemars(with = "DateTime")]
    lease_until: Timestamp,
    #[schemars(with = "Option<DateTime>")]
    finished_at: Option<Timestamp>,
    /// Null for viewers.
    error: Option<String>,
}

/// `POST /api/inbox/begin`
///
/// # Errors
/// 422 with every problem.
pub async fn begin(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<InboxBeginResult>> {
    let delivery = read_delivery(&input)?;
    let begun = app.engine.store().begin_inbox(caller.tenant, delivery).await?;
    let plain = |decision, attempts| InboxBeginResult { decision, token: None, attempts, lease_until: None };
    Ok(Json(match begun {
        InboxBeginOutcome::Process { ticket, attempts, lease_until } => InboxBeginResult {
            token: Some(ticket.token.to_string()),
            lease_until: Some(lease_until),
            ..plain("Process", attempts)
        },
        InboxBeginOutcome::AlreadyProcessed { attempts } => plain("AlreadyProcessed", attempts),
        InboxBeginOutcome::InProgress { attempts } => plain("InProgress", attempts),
        InboxBeginOutcome::Conflict { attempts } => plain("Conflict", attempts),
        InboxBeginOutcome::Dead { attempts } => plain("Dead", attempts),
    }))
}

fn read_delivery(input: &Input) -> Answer<InboxDelivery> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::InboxDelivery>();
    let delivery = InboxDelivery {
        source: read.need_name("source"),
        message_id: read.need_name("messageId"),
        hash: read.text("hash"),
        lease: lease(&mut read),
        max_attempts: read
            .whole("maxAttempts", 1..=limits::ATTEMPTS_MAX.into())
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(limits::ATTEMPTS_DEFAULT),
    };
    if let Some(hash) = &delivery.hash {
        check_name(hash, "hash", &mut problems);
    }
    problems.into_result()?;
    Ok(delivery)
}

/// The outcome of a mark.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "InboxMarked")]
pub struct MarkedMessage {
    #[schemars(with = "InboxOutcome")]
    outcome: SettleOutcome,
}

/// `POST /api/inbox/complete`
///
/// # Errors
/// 409 when the token holds nothing any more, 404 for an unknown message.
pub async fn complete(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<MarkedMessage>> {
    mark(&app, &caller, &input, |_| ProcessingOutcome::Processed).await
}

/// `POST /api/inbox/fail`
///
/// # Errors
/// As [`complete`].
pub async fn fail(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<MarkedMessage>> {
    mark(&app, &caller, &input, |error| ProcessingOutcome::Failed { error }).await
}

/// `POST /api/inbox/dead`
///
/// # Errors
/// As [`complete`].
pub async fn dead(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<MarkedMessage>> {
    mark(&app, &caller, &input, |error| ProcessingOutcome::Dead { error }).await
}

async fn mark(
    app: &App,
    caller: &Caller,
    input: &Input,
    word: fn(String) -> ProcessingOutcome,
) -> Answer<Json<MarkedMessage>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<InboxMark>();
    let ticket = InboxTicket {
        source: read.need_name("source"),
        message_id: read.need_name("messageId"),
        token: Token::from(read.need_name("token")),
    };
    let error = read.text("error").unwrap_or_else(|| "the receiver gave no reason".into());
    problems.into_result()?;
    let (source, id) = (ticket.source.clone(), ticket.message_id.clone());
    let outcome = app.engine.store().mark_inbox(caller.tenant, ticket, word(error)).await?;
    match outcome {
        SettleOutcome::Done | SettleOutcome::AlreadyFinished => Ok(Json(MarkedMessage { outcome })),
        SettleOutcome::LostClaim => Err(ApiFailure::conflict(format!(
            "this token does not hold the message `{id}` of `{source}` any more: it was finished, or another \
             delivery has it; undo what can be undone"
        ))),
        SettleOutcome::NotFound => {
            Err(ApiFailure::not_found(format!("there is no message `{id}` of `{source}`")))
        }
    }
}

/// `GET /api/inbox`
///
/// # Errors
/// 422 for a wrong filter, cursor or limit.
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    page: Page,
) -> Answer<Json<List<InboxMessageView>>> {
    let mut problems = Problems::default();
    let source = page.filter("source").map(str::to_owned);
    if let Some(source) = &source {
        check_name(source, "source", &mut problems);
    }
    let status = page.filter("status").and_then(|word| {
        let status = InboxStatus::parse(word);
        if status.is_none() {
            problems.push("status", "must be Processing, Processed, Failed or Dead");
        }
        status
    });
    problems.into_result()?;
    let which = InboxFilter { ids: None, source, status, after: page.after_id()? };
    let rows = app.engine.store().inbox(caller.tenant, which, page.limit + 1).await?;
    let rows = rows.into_iter().map(|row| shown(&caller, row)).collect();
    Ok(Json(page.list(rows, |row: &InboxMessageView| row.id.clone())))
}

/// `POST /api/inbox/replay`: the next delivery of each is told to process it.
///
/// # Errors
/// 422 unless it says which.
pub async fn replay(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<MovedItems>> {
    let (mut which, dry_run) = read_which(&input)?;
    let mut ids = Vec::new();
    loop {
        let step = app.engine.store().replay_inbox(caller.tenant, which.clone(), dry_run).await?;
        which.after = step.ids.last().map_or(which.after, |id| id.0);
        ids.extend(step.ids);
        if !step.more {
            break;
        }
    }
    Ok(Json(MovedItems::replayed(&ids, dry_run)))
}

fn read_which(input: &Input) -> Answer<(InboxFilter, bool)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let selection = BulkSelection::read(&body, "a message in the inbox", &mut problems);
    let ids = selection.ids.map(|ids| ids.into_iter().map(InboxId).collect());
    let mut which = InboxFilter { ids, ..InboxFilter::default() };
    if let Some(filter) = selection.filter {
        let mut read = Fields::new(filter, "filter", &mut problems);
        read.only_of::<InboxSelectionFilter>();
        which.source = read.text("source");
        if let Some(source) = &which.source {
            check_name(source, "filter.source", &mut problems);
        }
    }
    problems.into_result()?;
    Ok((which, selection.dry_run))
}

const fn word(status: InboxStatus) -> &'static str {
    match status {
        InboxStatus::Processing => "Processing",
        InboxStatus::Processed => "Processed",
        InboxStatus::Failed => "Failed",
        InboxStatus::Dead => "Dead",
    }
}

fn shown(caller: &Caller, row: InboxMessage) -> InboxMessageView {
    InboxMessageView {
        id: row.id.to_string(),
        source: row.source,
        message_id: row.message_id,
        hash: row.hash,
        status: word(row.status),
        attempts: row.attempts,
        first_seen: row.first_seen,
        last_seen: row.last_seen,
        lease_until: row.lease_until,
        finished_at: row.finished_at,
        error: row.error.and_then(|error| caller.visible_text(error)),
    }
}
