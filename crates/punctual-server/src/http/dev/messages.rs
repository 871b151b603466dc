//! The sandbox's inbox: what the `memory:` channels of this process were given.

use super::sandbox;
use crate::app::App;
use crate::auth::{Caller, TENANT};
use crate::http::error::{Answer, ApiFailure};
use crate::http::openapi::values::{ChannelKey, DateTime};
use crate::http::openapi::words::SandboxOutcome;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::delivery::run::sandbox::{SandboxFilter, SandboxMessage};
use punctual::{Error, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// The inbox, or the part of it that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SandboxInbox")]
pub struct Inbox {
    #[serde(flatten)]
    list: List<SandboxMessageView>,
    /// How many there are in all parts.
    total: usize,
    /// How many had to go for newer ones since everything was cleared.
    dropped: u64,
}

/// A message that the sandbox received.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SandboxMessage")]
pub struct SandboxMessageView {
    #[serde(skip)]
    number: u64,
    /// What the sender was told, unless it timed out.
    message_id: String,
    tenant_id: i64,
    #[schemars(with = "ChannelKey")]
    channel: String,
    /// The address as it was given.
    to: String,
    subject: Option<String>,
    body: String,
    html: Option<String>,
    locale: String,
    /// 1 is the invitation, 2 the first reminder.
    #[schemars(range(min = 1))]
    attempt: u32,
    idempotency_key: String,
    #[schemars(with = "DateTime")]
    sent_at: Timestamp,
    public_id: Option<String>,
    survey_url: Option<String>,
    /// What the sender was told; a timeout is delivered all the same.
    #[schemars(with = "SandboxOutcome")]
    outcome: &'static str,
    /// The messageId of the first message under the same idempotencyKey, if this is not it.
    duplicate_of: Option<String>,
}

/// `GET /dev/messages`
///
/// # Errors
/// 409 without a sandbox, 422 for a wrong cursor or limit.
pub async fn list(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    page: Page,
) -> Answer<Json<Inbox>> {
    let sandbox = sandbox(&app)?;
    let all = wanted(&caller, &headers, &page);
    let wanted = SandboxFilter { after: after(&page)?, ..all.clone() };
    let letters = sandbox.messages(&wanted, page.limit + 1);
    let shown = letters.iter().map(|received| shown(received)).collect();
    Ok(Json(Inbox {
        list: page.list(shown, |one: &SandboxMessageView| one.number.to_string()),
        total: sandbox.count(&all),
        dropped: sandbox.dropped(),
    }))
}

/// How many messages were forgotten.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Deleted")]
pub struct DeletedMessages {
    deleted: usize,
}

/// `DELETE /dev/messages`
///
/// # Errors
/// 409 without a sandbox.
pub async fn clear(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    page: Page,
) -> Answer<Json<DeletedMessages>> {
    let deleted = sandbox(&app)?.clear(&wanted(&caller, &headers, &page));
    Ok(Json(DeletedMessages { deleted }))
}

/// Like the clock, the sandbox is one for all tenants; a header that names one is a filter.
fn wanted(caller: &Caller, headers: &HeaderMap, page: &Page) -> SandboxFilter {
    SandboxFilter {
        tenant: headers.contains_key(TENANT).then_some(caller.tenant),
        channel: page.filter("channel").map(str::to_owned),
        to: page.filter("to").map(str::to_owned),
        ..SandboxFilter::default()
    }
}

fn after(page: &Page) -> Answer<u64> {
    let wrong =
        |_| -> ApiFailure { Error::invalid("cursor", "is not a cursor that this list handed out").into() };
    page.after().map_or(Ok(0), |text| text.parse().map_err(wrong))
}

fn shown(received: &SandboxMessage) -> SandboxMessageView {
    let letter = received.message.clone();
    SandboxMessageView {
        number: received.number,
        message_id: received.message_id.clone(),
        tenant_id: letter.tenant.id(),
        channel: letter.channel,
        to: letter.to,
        subject: letter.subject,
        body: letter.body,
        html: letter.html,
        locale: letter.locale,
        attempt: letter.attempt,
        idempotency_key: letter.idempotency_key,
        sent_at: letter.sent_at,
        public_id: letter.public_id.map(|id| id.to_string()),
        survey_url: letter.survey_url,
        outcome: received.outcome.word(),
        duplicate_of: received.duplicate_of.clone(),
    }
}
