//! What the demo's fake providers were given, as a page and as JSON. Only the demo has it.

use super::html::{escape, frame};
use super::status::to_the_second;
use super::{is_ops, page, refused};
use crate::app::App;
use crate::demo::fakes::FakeRequest;
use crate::http::error::{ApiResult, RequestFailure};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Messages on the page.
const SHOWN_MAX: usize = 100;
const HEAD: &str = "<link rel=\"stylesheet\" href=\"/dev/inbox.css\">";

/// `GET /demo/providers`
pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> ApiResult<Response> {
    if !is_ops(&app, &headers).await {
        return Ok(refused());
    }
    let got = got(&app)?;
    let count = got.len();
    let items: String = got.iter().take(SHOWN_MAX).map(item).collect();
    let main = format!(
        "<header><h1>Fake providers</h1><p class=\"about\">What came to the demo's WhatsApp, SMS and mail \
         providers, the newest first, and what they answered. Nothing reaches anybody. \
         <a href=\"/demo/providers.json\">As JSON</a>, <a href=\"/\">status</a>.</p></header>\n\
         <main><p role=\"status\">{count} requests.</p><ol class=\"letters\">{items}</ol></main>"
    );
    Ok(page(StatusCode::OK, frame("Fake providers - Punctual", &main, HEAD)))
}

/// `GET /demo/providers.json`
pub(super) async fn list(State(app): State<App>, headers: HeaderMap) -> ApiResult<Response> {
    if !is_ops(&app, &headers).await {
        return Ok(refused());
    }
    Ok(Json(json!({"items": got(&app)?})).into_response())
}

fn got(app: &App) -> ApiResult<Vec<FakeRequest>> {
    let fakes = app.settings.fakes.as_ref();
    fakes.map(crate::demo::fakes::Fakes::got).ok_or_else(|| {
        RequestFailure::not_found("only the demo has fake providers: start it with `punctual demo`")
    })
}

fn item(got: &FakeRequest) -> String {
    let subject = got.subject.as_deref().map_or_else(String::new, |s| format!("<h2>{}</h2>", escape(s)));
    let class = if got.status < 300 { "" } else { " class=\"warn\"" };
    format!(
        "<li><article><p class=\"to\">To <bdi>{}</bdi> by {}, <time datetime=\"{}\">{}</time></p>\
         <div class=\"bubble\" dir=\"{}\">{subject}<p>{}</p></div>\
         <p class=\"about\"><strong{class}>{}</strong> {}</p></article></li>\n",
        escape(&got.to),
        got.provider,
        got.at,
        to_the_second(got.at),
        if got.text.chars().any(is_right_to_left) { "rtl" } else { "ltr" },
        escape(&got.text),
        got.status,
        escape(&got.said),
    )
}

/// Whether a letter is Hebrew or Arabic. A text with some may still begin with a name in Latin.
const fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}')
}
