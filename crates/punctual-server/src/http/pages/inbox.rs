//! The sandbox's inbox as a page: what people would have got, the newest first, and the hands of a
//! manual clock.
//!
//! It shows words that are meant for somebody and moves time, so it wants a key of the role `ops`
//! also on a private listener; only the demo is open. Its forms work without scripts and are
//! refused when they come from another site.

use super::{inbox_view, is_ops, page_with, refused};
use crate::app::App;
use crate::http::dev;
use crate::http::error::{Answer, ApiFailure};
use crate::http::pagination::Page;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::delivery::run::sandbox::{SandboxFilter, SandboxMessage};
use punctual::{ClockMode, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Forms go back to this server, and nowhere else.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'";
/// Messages on one page.
const SHOWN_MAX: usize = 100;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The data of the page.
#[derive(Debug)]
pub(super) struct InboxView {
    pub messages: Vec<Arc<SandboxMessage>>,
    pub wanted: SandboxFilter,
    pub total: usize,
    pub dropped: u64,
    /// Channels that something came by.
    pub channels: BTreeSet<String>,
    /// The time, if it is moved by hand.
    pub now: Option<Timestamp>,
    /// Whether there is more before the last one shown.
    pub more: bool,
}

/// `GET /dev/inbox`
pub(super) async fn show(State(app): State<App>, headers: HeaderMap, page: Page) -> Answer<Response> {
    if !is_ops(&app, &headers).await {
        return Ok(refused());
    }
    let sandbox = dev::sandbox(&app)?;
    let wanted = wanted(&page);
    let mut messages = sandbox.latest(&wanted, SHOWN_MAX + 1);
    let more = messages.len() > SHOWN_MAX;
    messages.truncate(SHOWN_MAX);
    let now = match app.engine.clock() {
        ClockMode::Manual => Some(app.engine.store().now().await?),
        ClockMode::System => None,
    };
    let view = InboxView {
        messages,
        total: sandbox.count(&SandboxFilter { before: None, ..wanted.clone() }),
        wanted,
        dropped: sandbox.dropped(),
        channels: sandbox.channels(),
        now,
        more,
    };
    let mut shown = page_with(StatusCode::OK, POLICY, inbox_view::render(&view));
    // Without any referrer a browser would not say where a form comes from.
    shown.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    Ok(shown)
}

/// `POST /dev/inbox?do=…`
pub(super) async fn act(State(app): State<App>, headers: HeaderMap, page: Page) -> Answer<Response> {
    if !is_ops(&app, &headers).await {
        return Ok(refused());
    }
    if !is_our_own(&headers) {
        return Err(ApiFailure::forbidden("this form was sent from another site"));
    }
    let sandbox = dev::sandbox(&app)?;
    let wanted = wanted(&page);
    match page.filter("do") {
        Some("hour") => dev::clock::advance(&app, HOUR).await?,
        Some("day") => dev::clock::advance(&app, 24 * HOUR).await?,
        Some("week") => dev::clock::advance(&app, 7 * 24 * HOUR).await?,
        Some("tick") => {
            dev::clock::step(&app).await?;
        }
        Some("clear") => {
            sandbox.clear(&wanted);
        }
        _ => {
            return Err(ApiFailure::not_found(
                "there is no such action; the buttons of /dev/inbox have them all",
            ));
        }
    }
    let back = [(header::LOCATION, inbox_view::address(&wanted, None))];
    Ok((StatusCode::SEE_OTHER, back).into_response())
}

fn wanted(page: &Page) -> SandboxFilter {
    SandboxFilter {
        channel: page.filter("channel").map(str::to_owned),
        to: page.filter("to").map(str::to_owned),
        before: page.filter("before").and_then(|text| text.parse().ok()),
        ..SandboxFilter::default()
    }
}

/// Whether a form comes from a page of this server. Browsers say so; whoever is not a browser cannot
/// be tricked into sending a key.
fn is_our_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = text("origin") else { return true };
    let host = origin.split_once("://").map(|(_, host)| host);
    host.is_some() && host == text("host")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn a_form_of_another_site_is_told_from_our_own() {
        let with = |pairs: &[(&str, &str)]| -> HeaderMap {
            let pair =
                |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            pairs.iter().map(pair).collect()
        };
        let host = ("host", "localhost:8080");
        for (pairs, fine) in [
            (vec![host], true),
            (vec![host, ("origin", "http://localhost:8080")], true),
            (vec![host, ("origin", "https://evil.example")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, ("origin", "null"), ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "cross-site")], false),
            (vec![host, ("origin", "http://localhost:8080"), ("sec-fetch-site", "same-site")], false),
        ] {
            assert_eq!(is_our_own(&with(&pairs)), fine, "{pairs:?}");
        }
    }
}
