//! Refusals that the HTTP parser writes by itself, before there is a request.
//!
//! The parser answers a head that it cannot read with a status and no body. Our own refusals always have a
//! body, so such a head is recognised by its status and its length of zero, and is the last that is written
//! on its connection. [`replacement`] is the same refusal as problem details.

use crate::http::error::{ApiFailure, PROBLEM_JSON};
use axum::http::StatusCode;

/// The statuses that the parser answers with, and what each means.
const REFUSALS: [(StatusCode, &str, &str); 3] = [
    (
        StatusCode::BAD_REQUEST,
        "malformed",
        "the request line or a header cannot be read as HTTP/1.1; see RFC 9112",
    ),
    (StatusCode::URI_TOO_LONG, "uri-too-long", "the path and the query are too long; shorten the query"),
    (
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "head-too-large",
        "the head of a request may have at most 64 KiB and 100 header fields",
    ),
];

/// The refusal with a body, if `head` is one that the parser wrote without.
pub fn replacement(head: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(head).ok()?;
    let is_empty = text.ends_with("\r\n\r\n") && text.contains("\r\ncontent-length: 0\r\n");
    let status = text.strip_prefix("HTTP/1.1 ").or_else(|| text.strip_prefix("HTTP/1.0 "))?.get(..3)?;
    let (status, slug, detail) = REFUSALS.iter().find(|(known, ..)| known.as_str() == status)?;
    is_empty.then(|| {
        let body = ApiFailure::new(*status, slug, *detail).to_json();
        let reason = status.canonical_reason().unwrap_or_default();
        format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n{body}",
            status.as_u16(),
            body.len()
        )
        .into_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_without_a_body_is_replaced() {
        let head = |first: &str, length: usize| format!("{first}\r\ncontent-length: {length}\r\n\r\n");
        for status in ["400 Bad Request", "414 URI Too Long", "431 Request Header Fields Too Large"] {
            let new = replacement(head(&format!("HTTP/1.1 {status}"), 0).as_bytes()).unwrap();
            let new = String::from_utf8(new).unwrap();
            assert!(
                new.starts_with(&format!("HTTP/1.1 {status}\r\n")) && new.contains("\"errors\":[]"),
                "{new}"
            );
        }
        for other in [head("HTTP/1.1 400 Bad Request", 9), head("HTTP/1.1 204 No Content", 0), "x".into()] {
            assert_eq!(replacement(other.as_bytes()), None, "{other}");
        }
    }
}
