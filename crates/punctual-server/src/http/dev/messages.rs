//! The sandbox's inbox: what the `memory:` channels of this process were given.

use super::sandbox;
use crate::app::App;
use crate::auth::{Caller, TENANT};
use crate::http::error::{Answer, Failure};
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::delivery::run::sandbox::{Received, Wanted};
use punctual::{Error, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

/// The inbox, or the part of it that was asked for.
#[derive(Debug, Serialize)]
pub struct Inbox {
    #[serde(flatten)]
    list: List<Shown>,
    /// How many there are in all parts.
    total: usize,
    /// How many had to go for newer ones.
    dropped: u64,
}

/// A letter as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    #[serde(skip)]
    number: u64,
    message_id: String,
    tenant_id: i64,
    channel: String,
    to: String,
    subject: Option<String>,
    body: String,
    html: Option<String>,
    locale: String,
    attempt: u32,
    idempotency_key: String,
    sent_at: Timestamp,
    public_id: Option<String>,
    survey_url: Option<String>,
    outcome: &'static str,
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
    let wanted = Wanted { after: after(&page)?, ..all.clone() };
    let letters = sandbox.messages(&wanted, page.limit + 1);
    let shown = letters.iter().map(|received| shown(received)).collect();
    Ok(Json(Inbox {
        list: page.list(shown, |one: &Shown| one.number.to_string()),
        total: sandbox.count(&all),
        dropped: sandbox.dropped(),
    }))
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
) -> Answer<Json<Value>> {
    let deleted = sandbox(&app)?.clear(&wanted(&caller, &headers, &page));
    Ok(Json(json!({ "deleted": deleted })))
}

/// Like the clock, the sandbox is one for all tenants; a header that names one is a filter.
fn wanted(caller: &Caller, headers: &HeaderMap, page: &Page) -> Wanted {
    Wanted {
        tenant: headers.contains_key(TENANT).then_some(caller.tenant),
        channel: page.filter("channel").map(str::to_owned),
        to: page.filter("to").map(str::to_owned),
        ..Wanted::default()
    }
}

fn after(page: &Page) -> Answer<u64> {
    let wrong =
        |_| -> Failure { Error::invalid("cursor", "is not a cursor that this list handed out").into() };
    page.after().map_or(Ok(0), |text| text.parse().map_err(wrong))
}

fn shown(received: &Received) -> Shown {
    let letter = received.message.clone();
    Shown {
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
