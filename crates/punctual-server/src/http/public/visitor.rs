//! Somebody without a key who follows a link: which link, and whether they ask too often.
//!
//! Every request for a link is counted by the address it comes from, and whatever may change something by its
//! link besides, before anything of it is read. A text that is no public id is a link that nobody
//! has, and is answered alike.
//!
//! The address is that of the connection. `X-Forwarded-For` can be written by anybody, so it counts only
//! if the settings say that a proxy of ours writes it; then its last entry does.

use crate::app::App;
use crate::http::error::ApiFailure;
use crate::rate_limit::{Limiter, Rate};
use axum::extract::{ConnectInfo, FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual::flow::rules::public_id::PublicId;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Public requests from one address when nobody says. Many people may share one.
pub const REQUESTS_PER_MINUTE_DEFAULT: u32 = 600;
/// What may be posted to one link: a person who types is kept about forty times a minute.
const POSTS_PER_LINK_PER_MINUTE: u32 = 120;

/// Settings of what needs no key.
#[derive(Debug)]
pub struct PublicAccess {
    /// Whether a proxy of ours writes `X-Forwarded-For`.
    pub trust_forwarded_for: bool,
    addresses: Limiter,
    links: Limiter,
}

impl Default for PublicAccess {
    fn default() -> Self {
        Self::new(REQUESTS_PER_MINUTE_DEFAULT, false)
    }
}

impl PublicAccess {
    /// With so many requests a minute from one address.
    #[must_use]
    pub fn new(requests_per_minute: u32, trust_forwarded_for: bool) -> Self {
        Self {
            trust_forwarded_for,
            addresses: Limiter::new(Rate::per_minute(requests_per_minute)),
            links: Limiter::new(Rate::per_minute(POSTS_PER_LINK_PER_MINUTE)),
        }
    }

    /// Counts a request by where it comes from.
    fn count(&self, parts: &Parts) -> Result<(), TooManyRequests> {
        Ok(self.addresses.ask(address(parts, self.trust_forwarded_for))?)
    }
}

/// Somebody who follows a link, and does not ask too often.
#[derive(Clone, Copy, Debug)]
pub struct SurveyVisitor {
    /// The link's id; none if the text is none.
    pub link: Option<PublicId>,
}

/// 429: too much was asked in too short a time.
#[derive(Clone, Copy, Debug)]
pub struct TooManyRequests {
    /// How long to wait.
    pub seconds: u32,
}

impl From<Duration> for TooManyRequests {
    fn from(wait: Duration) -> Self {
        // Rounded up, so that whoever waits as told is let in.
        Self { seconds: u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX) }
    }
}

impl IntoResponse for TooManyRequests {
    fn into_response(self) -> Response {
        let said = "there were too many requests from this address or for this link; wait, then try again";
        let failure = ApiFailure::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", said);
        failure.retry_after(self.seconds).into_response()
    }
}

impl FromRequestParts<App> for SurveyVisitor {
    type Rejection = TooManyRequests;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, TooManyRequests> {
        if let Some(counted) = parts.extensions.get::<Self>() {
            return Ok(*counted);
        }
        app.settings.public.count(parts)?;
        let text = path_part(parts, app, "publicId").await;
        let link = text.as_deref().and_then(PublicId::parse);
        if let (Some(link), &Method::POST) = (link, &parts.method) {
            app.settings.public.links.ask(link)?;
        }
        Ok(Self { link })
    }
}

/// A program that says it is a provider: counted only when it turns out not to be one.
#[derive(Clone, Debug)]
pub struct WebhookCaller {
    /// The provider that it says it is; empty if the path has no name in it.
    pub provider: String,
    address: IpAddr,
}

impl WebhookCaller {
    /// Counts that it could not prove who it is.
    ///
    /// # Errors
    /// When that was once too often.
    pub fn refused(&self, public: &PublicAccess) -> Result<(), TooManyRequests> {
        Ok(public.addresses.ask(self.address)?)
    }
}

impl FromRequestParts<App> for WebhookCaller {
    type Rejection = TooManyRequests;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, TooManyRequests> {
        let public = &app.settings.public;
        let address = address(parts, public.trust_forwarded_for);
        public.addresses.look(address)?;
        Ok(Self { provider: path_part(parts, app, "provider").await.unwrap_or_default(), address })
    }
}

/// Somebody who follows an unsubscribe link, and does not ask too often.
#[derive(Clone, Debug)]
pub struct UnsubscribeVisitor {
    /// The link's token, as it was written.
    pub token: String,
}

impl FromRequestParts<App> for UnsubscribeVisitor {
    type Rejection = TooManyRequests;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, TooManyRequests> {
        app.settings.public.count(parts)?;
        let token = path_part(parts, app, "token").await.unwrap_or_default();
        if parts.method == Method::POST {
            app.settings.public.links.ask(&token)?;
        }
        Ok(Self { token })
    }
}

async fn path_part(parts: &mut Parts, app: &App, wanted: &str) -> Option<String> {
    let names = RawPathParams::from_request_parts(parts, app).await.ok()?;
    names.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.to_owned())
}

/// Where a request comes from, as far as it is counted.
fn address(parts: &Parts, trust_forwarded_for: bool) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let told = if trust_forwarded_for { forwarded(&parts.headers) } else { None };
    counted(told.or(peer).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
}

/// The last entry of the last `X-Forwarded-For`: the one that the nearest proxy wrote.
fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let entry = last.rsplit(',').next()?.trim();
    let with_port = || entry.parse::<SocketAddr>().ok().map(|address| address.ip());
    entry.parse().ok().or_else(with_port)
}

/// One customer has a whole network of IPv6 addresses: all of a /64 count as one.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(peer: &str, forwarded: &[&str]) -> Parts {
        let mut request = Request::builder();
        for entry in forwarded {
            request = request.header("x-forwarded-for", *entry);
        }
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 9)));
        request.into_parts().0
    }

    /// TRG-23: nobody gets a new limit by writing another address into a header.
    #[test]
    fn trg_23_the_address_is_the_connections_unless_a_proxy_is_trusted() {
        type Case<'a> = (&'a str, &'a [&'a str], bool, &'a str);
        let table: [Case<'_>; 9] = [
            ("10.0.0.1", &["1.2.3.4"], false, "10.0.0.1"),
            ("10.0.0.1", &["1.2.3.4"], true, "1.2.3.4"),
            ("10.0.0.1", &["6.6.6.6, 1.2.3.4"], true, "1.2.3.4"),
            ("10.0.0.1", &["6.6.6.6", "7.7.7.7,1.2.3.4:5000"], true, "1.2.3.4"),
            ("10.0.0.1", &["nonsense"], true, "10.0.0.1"),
            ("10.0.0.1", &[], true, "10.0.0.1"),
            ("::ffff:10.0.0.1", &[], false, "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", &[], false, "2001:db8:1:2::"),
            ("10.0.0.1", &["2001:db8:1:2::9"], true, "2001:db8:1:2::"),
        ];
        for (peer, header, trust, want) in table {
            assert_eq!(address(&parts(peer, header), trust).to_string(), want, "{peer} {header:?} {trust}");
        }
    }

    #[test]
    fn whoever_waits_as_told_is_let_in() {
        for (millis, seconds) in [(0, 1), (1, 1), (999, 1), (1_000, 2), (59_500, 60)] {
            assert_eq!(TooManyRequests::from(Duration::from_millis(millis)).seconds, seconds, "{millis}");
        }
    }
}
