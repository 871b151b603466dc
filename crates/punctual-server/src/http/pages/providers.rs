//! What the demo's fake providers were given, as a page and as JSON. Only the demo has it.

use super::layout::{document, message_style};
use super::status::to_the_second;
use super::{is_ops, page, refused};
use crate::app::App;
use crate::demo::fakes::FakeRequest;
use crate::http::error::{Answer, ApiFailure};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::json;

/// Messages on the page.
const SHOWN_MAX: usize = 100;

/// `GET /demo/providers`
pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Answer<Response> {
    if !is_ops(&app, &headers).await {
        return Ok(refused());
    }
    let got = got(&app)?;
    let body = html! {
        header {
            h1 { "Fake providers" }
            p class="about" {
                "What came to the demo's WhatsApp, SMS and mail providers, the newest first, and what they \
                 answered. Nothing reaches anybody. "
                a href="/demo/providers.json" { "As JSON" } ", " a href="/" { "status" } "."
            }
        }
        main {
            p role="status" { (got.len()) " requests." }
            ol class="letters" { @for got in got.iter().take(SHOWN_MAX) { (item(got)) } }
        }
    };
    Ok(page(StatusCode::OK, document("Fake providers - Punctual", message_style(), body)))
}

/// `GET /demo/providers.json`
pub(super) async fn list(State(app): State<App>, headers: HeaderMap) -> Answer<Response> {
    if !is_ops(&app, &headers).await {
        return Ok(refused());
    }
    Ok(Json(json!({"items": got(&app)?})).into_response())
}

fn got(app: &App) -> Answer<Vec<FakeRequest>> {
    let fakes = app.settings.fakes.as_ref();
    fakes.map(crate::demo::fakes::FakeProviders::got).ok_or_else(|| {
        ApiFailure::not_found("only the demo has fake providers: start it with `punctual demo`")
    })
}

fn item(got: &FakeRequest) -> Markup {
    let direction = if got.text.chars().any(is_right_to_left) { "rtl" } else { "ltr" };
    html! {
        li {
            article {
                p class="to" {
                    "To " bdi { (got.to) } " by " (got.provider) ", "
                    time datetime=(got.at) { (to_the_second(got.at)) }
                }
                div class="bubble" dir=(direction) {
                    @if let Some(subject) = &got.subject { h2 { (subject) } }
                    p { (got.text) }
                }
                p class="about" {
                    strong class=[(got.status >= 300).then_some("warn")] { (got.status) } " " (got.said)
                }
            }
        }
    }
}

/// Whether a character is Hebrew or Arabic. A text with some may still begin with a name in Latin.
const fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}')
}
