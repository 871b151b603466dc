//! `Idempotency-Key` on any POST of the JSON API: the same request again gets the first answer again.
//!
//! A key belongs to the caller's tenant, or to the link of a survey where the caller needs no API key
//! ([`KeyScope`]). An answer that shows a secret says what to keep instead
//! ([`StoredBody`]), because a secret is shown once. What failed on our side is not kept.
//!
//! The answer is not kept in the transaction that carries the request out. If that transaction's outcome is
//! unknown, or the process ends between the two, the same request is carried out again; messages and timers
//! get ids from the token of the reservation ([`RequestToken`]), so they are written once all the same. Other
//! requests have no such guard.

use super::body_room::chew;
use super::error::{Answer, ApiFailure, OutcomeUnknown, PROBLEM_JSON};
use super::public::visitor::SurveyVisitor;
use super::{Route, input};
use crate::app::App;
use crate::auth::{Caller, Need};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual::access::store::idempotency::IdempotencyStatus;
use punctual::base::digest;
use punctual::{NewMessage, Tenant};

/// The header.
const KEY: &str = "idempotency-key";
/// Its longest value.
const KEY_CHARS_MAX: usize = 255;
/// An answer larger than this is not kept: the request may then be repeated in earnest.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a client waits before it asks again for a request that is running.
const RUNNING_SECONDS: u32 = 1;

/// The role of a caller who has the link of a survey, and needs no API key.
const LINK: &str = "link";

/// What is kept in place of the body that the first caller saw.
#[derive(Clone, Debug)]
pub struct StoredBody(pub String);

/// The owner of the Idempotency-Keys of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// The caller's tenant.
    Tenant,
    /// The link of a survey instance, which the path names.
    Link,
}

impl KeyScope {
    /// The scope of a route; `None` for a route that takes no such key. Forms of browsers and callbacks of
    /// providers have none: neither sends this header.
    #[must_use]
    pub fn of(route: &Route) -> Option<Self> {
        match (route.method_and_path(), route.need) {
            (("POST", path), Need::Nothing) => path.starts_with("/api/").then_some(Self::Link),
            (("POST", _), _) => Some(Self::Tenant),
            _ => None,
        }
    }
}

/// A request with an Idempotency-Key: where the key is kept, and the role that the answer is for.
struct KeyedRequest {
    tenant: Tenant,
    key: String,
    role: &'static str,
}

/// Answers a repeated request of a tenant from what was kept; carries out any other.
///
/// # Errors
/// 409 for another request under the same key, or while the first one runs.
pub async fn once(State(app): State<App>, caller: Caller, request: Request, next: Next) -> Answer<Response> {
    match key_of(request.headers())? {
        None => Ok(next.run(request).await),
        Some(key) => {
            let keyed = KeyedRequest { tenant: caller.tenant, key, role: caller.role.word() };
            carry_out(&app, keyed, request, next).await
        }
    }
}

/// Answers a repeated request to the link of a survey from what was kept; carries out any other.
///
/// # Errors
/// As [`once`], and 429 for requests that come too often.
pub async fn once_for_link(State(app): State<App>, request: Request, next: Next) -> Answer<Response> {
    let Some(key) = key_of(request.headers())? else {
        return Ok(next.run(request).await);
    };
    let (mut parts, body) = request.into_parts();
    // Counted here, before anything is written; the handler finds the visitor and does not count again.
    let visitor = match SurveyVisitor::from_request_parts(&mut parts, &app).await {
        Ok(visitor) => visitor,
        Err(too_often) => return Ok(too_often.into_response()),
    };
    parts.extensions.insert(visitor);
    let request = Request::from_parts(parts, body);
    let Some(link) = visitor.link else { return Ok(next.run(request).await) };
    match app.engine.store().entry_of_link(link).await? {
        None => Ok(next.run(request).await),
        Some((entry, _)) => {
            // No header has a line break, so no key of the tenant's own is the same.
            let keyed = KeyedRequest { tenant: entry.tenant, key: format!("{link}\n{key}"), role: LINK };
            carry_out(&app, keyed, request, next).await
        }
    }
}

async fn carry_out(app: &App, keyed: KeyedRequest, request: Request, next: Next) -> Answer<Response> {
    let (parts, body) = request.into_parts();
    let read = input::read_of(&parts.extensions, body).await?;
    let digest = chew(read.bytes.len(), || digest_of(keyed.role, &parts, &read.bytes));
    let store = app.engine.store();
    let token = match store.reserve_answer(keyed.tenant, &keyed.key, &digest).await? {
        IdempotencyStatus::First { token } => token,
        IdempotencyStatus::Answered { status, body } => return Ok(again(status, body)),
        IdempotencyStatus::Running => {
            let said = "the first request with this Idempotency-Key is still being carried out";
            return Err(ApiFailure::conflict(said).retry_after(RUNNING_SECONDS));
        }
        IdempotencyStatus::Other => {
            return Err(ApiFailure::conflict("this Idempotency-Key was used for another request"));
        }
    };
    let mut request = Request::from_parts(parts, Body::from(read.bytes.clone()));
    request.extensions_mut().insert(read);
    request.extensions_mut().insert(RequestToken(Some(token)));
    let response = next.run(request).await;
    keep(app, &keyed, response).await
}

/// Names a request with an Idempotency-Key in the ids of what it writes; empty for other requests.
#[derive(Clone, Debug, Default)]
pub struct RequestToken(Option<String>);

impl RequestToken {
    /// Gives an id to every message that has none, so that the request writes it once. Returns whether each
    /// got one.
    pub fn identify<'m>(
        &self,
        publisher: &str,
        messages: impl IntoIterator<Item = &'m mut NewMessage>,
    ) -> Vec<bool> {
        let mut identify = |(n, message): (usize, &mut NewMessage)| {
            let Some(token) = self.0.as_ref().filter(|_| message.id.is_none()) else { return false };
            message.id = Some(format!("idempotency-key:{token}:{n}"));
            message.source.get_or_insert_with(|| publisher.to_owned());
            true
        };
        messages.into_iter().enumerate().map(&mut identify).collect()
    }
}

impl<S: Sync> FromRequestParts<S> for RequestToken {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

fn key_of(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get(KEY) else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|t| (1..=KEY_CHARS_MAX).contains(&t.len()));
    text.map(|t| Some(t.to_owned())).ok_or_else(|| {
        let said = format!("must have between 1 and {KEY_CHARS_MAX} visible ASCII characters");
        punctual::Error::invalid("Idempotency-Key", said).into()
    })
}

/// Tells requests apart. The role counts: the same request shows a viewer less than it shows others.
fn digest_of(role: &str, parts: &Parts, body: &Bytes) -> String {
    let path = parts.uri.path_and_query().map_or("", |p| p.as_str());
    digest::of([role.as_bytes(), parts.method.as_str().as_bytes(), path.as_bytes(), body])
}

fn again(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let kind = if status.is_client_error() { PROBLEM_JSON } else { "application/json" };
    let mut response = (status, [(CONTENT_TYPE, kind)], body).into_response();
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}

async fn keep(app: &App, keyed: &KeyedRequest, response: Response) -> Answer<Response> {
    let (store, KeyedRequest { tenant, key, .. }) = (app.engine.store(), keyed);
    let (parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Err(ApiFailure::internal());
    };
    let passing = parts.status.is_server_error() || parts.status == StatusCode::TOO_MANY_REQUESTS;
    let text = match parts.extensions.get::<StoredBody>() {
        Some(StoredBody(text)) => Some(text.as_str()),
        None => std::str::from_utf8(&bytes).ok(),
    };
    let kept = match text.filter(|text| !passing && text.len() <= KEPT_BYTES_MAX) {
        Some(text) => {
            let status = parts.status.as_u16();
            store.keep_answer(*tenant, key, status, text).await
        }
        None if parts.extensions.get::<OutcomeUnknown>().is_some() => {
            store.suspend_answer(*tenant, key).await
        }
        None => store.free_answer(*tenant, key).await,
    };
    if let Err(error) = kept {
        // The request was carried out: its answer counts, though it cannot be repeated.
        tracing::warn!(%error, "an answer could not be kept for its Idempotency-Key");
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
