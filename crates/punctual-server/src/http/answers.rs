//! `Idempotency-Key` on any POST: the same request again gets the first answer again.
//!
//! Answers are kept per tenant. An answer that shows a secret says what to keep instead
//! ([`Keep`]), because a secret is shown once. What failed on our side is not kept.

use super::error::{Answer, Failure, PROBLEM_JSON};
use super::input;
use crate::app::App;
use crate::auth::Caller;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual::rules::digest;
use punctual::store::answers::Asked;

/// The header.
const KEY: &str = "idempotency-key";
/// Its longest value.
const KEY_CHARS_MAX: usize = 255;
/// An answer larger than this is not kept: the request may then be repeated in earnest.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a client waits before it asks again for a request that is running.
const RUNNING_SECONDS: u32 = 1;

/// What is kept in place of the body that the first caller saw.
#[derive(Clone, Debug)]
pub struct Keep(pub String);

/// Answers a repeated request from what was kept; carries out any other.
///
/// # Errors
/// 409 for another request under the same key, or while the first one runs.
pub async fn once(State(app): State<App>, caller: Caller, request: Request, next: Next) -> Answer<Response> {
    let Some(key) = key_of(request.headers())? else {
        return Ok(next.run(request).await);
    };
    let (parts, body) = request.into_parts();
    let bytes = input::read(body).await?;
    let store = app.engine.store();
    match store.reserve_answer(caller.tenant, &key, &digest_of(&parts, &bytes)).await? {
        Asked::First => {}
        Asked::Answered { status, body } => return Ok(again(status, body)),
        Asked::Running => {
            let said = "the first request with this Idempotency-Key is still being carried out";
            return Err(Failure::conflict(said).retry_after(RUNNING_SECONDS));
        }
        Asked::Other => {
            return Err(Failure::conflict("this Idempotency-Key was used for another request"));
        }
    }
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    keep(&app, &caller, &key, response).await
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

fn digest_of(parts: &Parts, body: &Bytes) -> String {
    let path = parts.uri.path_and_query().map_or("", |p| p.as_str());
    digest::of([parts.method.as_str().as_bytes(), path.as_bytes(), body])
}

fn again(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let kind = if status.is_client_error() { PROBLEM_JSON } else { "application/json" };
    let mut response = (status, [(CONTENT_TYPE, kind)], body).into_response();
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}

async fn keep(app: &App, caller: &Caller, key: &str, response: Response) -> Answer<Response> {
    let store = app.engine.store();
    let (parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Err(Failure::internal());
    };
    let passing = parts.status.is_server_error() || parts.status == StatusCode::TOO_MANY_REQUESTS;
    let text = match parts.extensions.get::<Keep>() {
        Some(Keep(text)) => Some(text.as_str()),
        None => std::str::from_utf8(&bytes).ok(),
    };
    let kept = match text.filter(|text| !passing && text.len() <= KEPT_BYTES_MAX) {
        Some(text) => {
            let status = parts.status.as_u16();
            store.keep_answer(caller.tenant, key, status, text).await
        }
        None => store.free_answer(caller.tenant, key).await,
    };
    if let Err(error) = kept {
        // The request was carried out: its answer counts, though it cannot be repeated.
        tracing::warn!(%error, "an answer could not be kept for its Idempotency-Key");
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
