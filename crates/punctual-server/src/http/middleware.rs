//! The middleware of every request: an id, a task of its own, safe headers, a count.
//!
//! A request runs in a task of its own, so that a write once begun is finished even if the
//! client hangs up, and a panic becomes an answer. A handler that only waits listens to [`Hangup`].

use super::error::ApiFailure;
use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual::base::clock::monotonic;
use punctual::base::random;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::Instrument;

/// Ties a request to its lines in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer request id of a client's is replaced by our own.
const REQUEST_ID_CHARS_MAX: usize = 128;

/// Headers of every response, unless its handler chose otherwise.
const HEADERS: [(HeaderName, &str); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
];

/// Runs a request.
pub async fn handle(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let path = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_owned());
    let (route, method) = (path.unwrap_or_else(|| "none".into()), request.method().to_string());
    let hangup = Hangup::default();
    let _guard = HangupGuard(hangup.clone());
    request.extensions_mut().insert(hangup);
    let span = tracing::info_span!("request", id = %id, %method, %route);
    let started = monotonic();
    let done = tokio::spawn(next.run(request).instrument(span)).await;
    let mut response = as_problem(done.unwrap_or_else(|error| panicked(&error, &id)));
    add_headers(response.headers_mut(), &id);
    record(method, route, &response, started.elapsed());
    response
}

fn panicked(error: &tokio::task::JoinError, id: &str) -> Response {
    metrics::counter!("punctual_http_panics_total").increment(1);
    tracing::error!(request = id, %error, "a request panicked");
    ApiFailure::internal().into_response()
}

/// The router's own refusals are plain text; here they get the form of all others.
fn as_problem(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if !response.status().is_client_error() || !kind.starts_with(b"text/plain") {
        return response;
    }
    let said = "the path or the query cannot be read; write characters beyond ASCII as UTF-8 in percent form";
    ApiFailure::new(response.status(), "malformed", said).into_response()
}

fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|v| v.to_str().ok());
    let fine = |id: &&str| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic())
    };
    given.filter(fine).map_or_else(random::hex::<16>, str::to_owned)
}

fn add_headers(headers: &mut HeaderMap, id: &str) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}

fn record(method: String, route: String, response: &Response, took: Duration) {
    let status = response.status().as_u16();
    tracing::debug!(%method, %route, status, micros = took.as_micros(), "answered");
    let labels = [("method", method), ("route", route), ("status", status.to_string())];
    metrics::counter!("punctual_http_requests_total", &labels).increment(1);
    metrics::histogram!("punctual_http_request_seconds", &labels[1..2]).record(took.as_secs_f64());
}

/// Says when the client is gone, for handlers that only wait.
#[derive(Clone, Debug, Default)]
pub struct Hangup(Arc<Notify>);

impl Hangup {
    /// Waits until the client is gone.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}

/// Notifies the handler when the outer half of the request is dropped.
struct HangupGuard(Hangup);

impl Drop for HangupGuard {
    fn drop(&mut self) {
        self.0.0.notify_one();
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Hangup {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_panic_is_an_answer_and_the_next_request_is_served() {
        let broken = || async {
            if true {
                panic!("a secret slip");
            }
        };
        let router = Router::new().route("/broken", get(broken)).route("/fine", get(|| async { "fine" }));
        let router = router.layer(from_fn(handle));
        for (path, status) in [("/broken", 500), ("/fine", 200)] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{path}");
            assert!(response.headers().contains_key(REQUEST_ID), "{path}");
            let body = to_bytes(response.into_body(), 10_000).await.unwrap();
            assert!(!String::from_utf8_lossy(&body).contains("secret"), "{path}");
        }
    }

    #[test]
    fn a_request_id_is_taken_over_when_it_is_plain() {
        let with = |id: &str| HeaderMap::from_iter([(REQUEST_ID, id.parse().unwrap())]);
        assert_eq!(request_id(&with("abc-1")), "abc-1");
        for wild in ["", "a b", &"x".repeat(129)] {
            assert_eq!(request_id(&with(wild)).len(), 32, "{wild}");
        }
        assert_eq!(request_id(&HeaderMap::new()).len(), 32);
    }
}
