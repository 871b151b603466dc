//! The status page: what waits, what is late, what died, and whether the loops are well.
//!
//! Rendered by maud; a small script fetches it again, and without scripts
//! the browser does. It is open to this machine and in the demo; elsewhere and through a
//! proxy it requires a key of the role `ops`, as a bearer or as the password a browser asks for. Beside it
//! the `inbox` of the sandbox.

mod counters;
pub mod docs;
mod inbox;
mod inbox_view;
mod layout;
mod providers;
mod sign_in;
mod status;
mod status_view;

use super::host::is_direct;
use super::public::survey;
use crate::app::{App, Exposure};
use crate::auth::{Guard, is_private};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use punctual::access::store::keys::Role;
use status_view::StatusView;

/// Only our own style and script, and nobody may put the page into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const STYLE: &str = include_str!("pages/status.css");
const SCRIPT: &str = include_str!("pages/status.js");
const INBOX_STYLE: &str = include_str!("pages/inbox.css");

/// The pages.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/", get(status_page))
        .route("/status.css", get(style))
        .route("/status.js", get(script))
        .route("/dev/inbox", get(inbox::show).post(inbox::act))
        .route("/dev/inbox.css", get(inbox_style))
        .route("/demo/providers", get(providers::show))
        .route("/demo/providers.json", get(providers::list))
        .route("/s/assets/{file}", get(survey::file))
}

async fn status_page(State(app): State<App>, headers: HeaderMap) -> Response {
    if !may_see_status(&app, &headers).await {
        return refused();
    }
    match StatusView::load(&app).await {
        Ok(view) => page(StatusCode::OK, status::render(&view)),
        Err(error) => page(StatusCode::SERVICE_UNAVAILABLE, layout::render_trouble(&error.to_string())),
    }
}

async fn may_see_status(app: &App, headers: &HeaderMap) -> bool {
    is_private(app, headers) || is_ops(app, headers).await
}

/// Whether the caller has a key of the role `ops`, or this is the demo. A demo that was not opened to others
/// is not open to a proxy either.
async fn is_ops(app: &App, headers: &HeaderMap) -> bool {
    if app.settings.demo && (app.settings.exposure != Exposure::Local || is_direct(headers)) {
        return true;
    }
    let headers = sign_in::as_bearer(headers);
    let caller = Guard::new(app.clone()).caller(&headers).await;
    caller.is_ok_and(|caller| caller.role >= Role::Ops)
}

fn refused() -> Response {
    let mut refused = page(StatusCode::UNAUTHORIZED, layout::render_sign_in());
    let ask = HeaderValue::from_static("Basic realm=\"Punctual: any name, the key as password\"");
    refused.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
    refused
}

fn page(status: StatusCode, body: String) -> Response {
    page_with(status, POLICY, body)
}

fn page_with(status: StatusCode, policy: &'static str, body: String) -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, head, body).into_response()
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", STYLE)
}

async fn inbox_style() -> Response {
    asset("text/css; charset=utf-8", INBOX_STYLE)
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let head = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (head, text).into_response()
}
