//! The host that a request names, and whether the request came straight from this machine.
//!
//! A listener on the loopback address is private only to programs of this machine. A browser on it can be
//! led there by a foreign page whose name resolves to 127.0.0.1 (DNS rebinding), and a proxy on it passes on
//! requests of strangers. Both show in the headers: the first in `Host`, the second in `X-Forwarded-For` and
//! its kin. Programs without a browser can write any `Host` and gain nothing by leaving it out.

use super::error::{Answer, ApiFailure};
use crate::app::{App, Exposure};
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;

/// Headers that only a proxy writes.
const PROXY_HEADERS: [&str; 5] =
    ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "forwarded"];

/// Refuses requests for a foreign host where the demo or a manual clock is open to this machine.
///
/// # Errors
/// 421 when `Host` is a name other than this machine's own.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Answer<Response> {
    let settings = &app.settings;
    let is_checked = settings.exposure == Exposure::Local && (settings.demo || settings.dev);
    // A request line in absolute form outranks the header.
    let target = request.uri().authority().is_none_or(|named| is_loopback(named.as_str()));
    if is_checked && !(target && names_this_machine(request.headers())) {
        let said = "this server is for programs on its own machine and answers as localhost or 127.0.0.1 \
                    only; set public.url if it is reached under another name";
        return Err(ApiFailure::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", said));
    }
    Ok(next.run(request).await)
}

/// Whether a request came from this machine and through no proxy, as far as its headers show.
pub fn is_direct(headers: &HeaderMap) -> bool {
    names_this_machine(headers) && !PROXY_HEADERS.iter().any(|name| headers.contains_key(*name))
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().all(|host| host.to_str().is_ok_and(is_loopback))
}

/// Whether a host, with or without a port, is this machine's own name for itself.
pub fn is_loopback(authority: &str) -> bool {
    let host = without_port(authority).trim_end_matches('.').to_ascii_lowercase();
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn without_port(authority: &str) -> &str {
    if let Some((inner, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inner;
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.contains(':') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_told_from_others() {
        for own in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "::1", "a.localhost."]
        {
            assert!(is_loopback(own), "{own}");
        }
        for other in
            ["", "x", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:1", "localhost.x"]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
