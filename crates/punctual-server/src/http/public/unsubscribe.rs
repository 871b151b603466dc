//! Unsubscribe links: a page that asks, and one click that does it (RFC 8058).
//!
//! A GET changes nothing: link previews and mail scanners fetch pages. Any POST unsubscribes, whatever its
//! body, as mail programs send `List-Unsubscribe=One-Click` in more than one form; only our own form can
//! take it back. Neither needs a key, a cookie or a script, and neither leads elsewhere. Again is as good
//! as once.

use super::survey::reader::ReaderPreferences;
use super::unsubscribe_page;
use super::unsubscribe_page::{LinkStatus, LinkSubject};
use super::visitor::{TooManyRequests, UnsubscribeVisitor};
use crate::app::App;
use crate::http::error::ApiFailure;
use crate::http::input;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::delivery::rules::unsubscribe::UnsubscribeLink;
use punctual::delivery::store::consent::LinkConsent;

/// A few words of a form; mail programs send less.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Our own style, a form that comes back here, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// What somebody asks of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkAction {
    Look,
    Unsubscribe,
    Undo,
}

/// `GET /u/{token}`
pub async fn show(
    State(app): State<App>,
    follower: Result<UnsubscribeVisitor, TooManyRequests>,
    reader: ReaderPreferences,
) -> Response {
    answer(&app, follower, &reader, LinkAction::Look).await
}

/// `POST /u/{token}`
pub async fn act(
    State(app): State<App>,
    follower: Result<UnsubscribeVisitor, TooManyRequests>,
    reader: ReaderPreferences,
    body: Body,
) -> Response {
    if let Err(often) = follower {
        return too_often(often, &reader);
    }
    match input::read_within(body, BODY_BYTES_MAX).await {
        Ok(bytes) => answer(&app, follower, &reader, wanted(&bytes)).await,
        Err(failure) => trouble(failure, &reader),
    }
}

/// What a form asks for.
fn wanted(form: &[u8]) -> LinkAction {
    let undo = form_urlencoded::parse(form)
        .any(|(name, value)| name == unsubscribe_page::FIELD && value == unsubscribe_page::UNDO);
    if undo { LinkAction::Undo } else { LinkAction::Unsubscribe }
}

async fn answer(
    app: &App,
    follower: Result<UnsubscribeVisitor, TooManyRequests>,
    reader: &ReaderPreferences,
    action: LinkAction,
) -> Response {
    let follower = match follower {
        Ok(follower) => follower,
        Err(often) => return too_often(often, reader),
    };
    match follow(app, &follower, action).await {
        Ok(Some((link, standing))) => page(StatusCode::OK, rendered(&link, &standing, reader, action)),
        Ok(None) => page(StatusCode::NOT_FOUND, unsubscribe_page::render_unknown(reader.preferred_locale())),
        Err(error) => trouble(error.into(), reader),
    }
}

/// Does it. A token that is none is a link that nobody has.
async fn follow(
    app: &App,
    follower: &UnsubscribeVisitor,
    action: LinkAction,
) -> punctual::Result<Option<(UnsubscribeLink, LinkConsent)>> {
    let store = app.engine.store();
    let Some(link) = store.link_secret().await?.open(&follower.token) else { return Ok(None) };
    let standing = match action {
        LinkAction::Look => store.look_at_link(link.clone()).await?,
        LinkAction::Unsubscribe => store.follow_link(link.clone()).await?,
        LinkAction::Undo => store.undo_link(link.clone()).await?,
    };
    Ok(standing.map(|standing| (link, standing)))
}

fn rendered(
    link: &UnsubscribeLink,
    standing: &LinkConsent,
    reader: &ReaderPreferences,
    action: LinkAction,
) -> String {
    let status = match (standing.suppressed, standing.by_link) {
        (true, by_link) => LinkStatus::Unsubscribed { undo: by_link },
        (false, _) if action == LinkAction::Undo => LinkStatus::Again,
        (false, _) => LinkStatus::Subscribed,
    };
    let locale = standing.locale.as_deref().or(link.locale.as_deref());
    let subject = LinkSubject {
        address: &link.address,
        channel: &link.channel,
        one_kind: link.kind.is_some(),
        tenant: &standing.tenant,
    };
    unsubscribe_page::render(&subject, status, reader.locale_for(locale))
}

fn too_often(often: TooManyRequests, reader: &ReaderPreferences) -> Response {
    let mut response =
        page(StatusCode::TOO_MANY_REQUESTS, unsubscribe_page::render_too_often(reader.preferred_locale()));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(often.seconds));
    response
}

/// A failure as a page. It was logged where it was made.
fn trouble(failure: ApiFailure, reader: &ReaderPreferences) -> Response {
    page(failure.status(), unsubscribe_page::render_trouble(reader.preferred_locale()))
}

fn page(status: StatusCode, body: String) -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (ROBOTS, "noindex"),
    ];
    (status, head, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTF-18: whatever a mail program posts unsubscribes; only our own button takes it back.
    #[test]
    fn ntf_18_any_post_unsubscribes_but_an_undo() {
        let multipart =
            b"--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--";
        let table: [(&[u8], LinkAction); 6] = [
            (b"List-Unsubscribe=One-Click", LinkAction::Unsubscribe),
            (multipart, LinkAction::Unsubscribe),
            (b"", LinkAction::Unsubscribe),
            (b"\xff\xfe{}", LinkAction::Unsubscribe),
            (b"do=unsubscribe", LinkAction::Unsubscribe),
            (b"do=undo", LinkAction::Undo),
        ];
        for (body, want) in table {
            assert_eq!(wanted(body), want, "{}", String::from_utf8_lossy(body));
        }
    }
}
