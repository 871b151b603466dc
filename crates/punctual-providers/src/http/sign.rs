//! How a request says who asks, where that takes more than a text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::fmt::rfc2822::DateTimePrinter;
use punctual::base::clock;
use reqwest::header::{AUTHORIZATION, HeaderName};
use reqwest::{Method, Url};
use ring::{digest, hmac};

/// A name and a password.
pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Azure's access keys: a digest of the body, the time, and a signature over both with path and host.
pub(super) fn azure(
    method: &Method,
    url: &Url,
    body: &[u8],
    key: &str,
) -> Result<Vec<(HeaderName, String)>, String> {
    let key = STANDARD.decode(key).map_err(|_| "the access key is not base64".to_owned())?;
    let seconds = clock::host_now().as_micros() / 1_000_000;
    let now = jiff::Timestamp::from_second(seconds).map_err(|error| error.to_string())?;
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).map_err(|error| error.to_string())?;
    let digest = STANDARD.encode(digest::digest(&digest::SHA256, body));
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let content = format!("{method}\n{}{query}\n{date};{host};{digest}", url.path());
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), content.as_bytes());
    let word = format!(
        "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={}",
        STANDARD.encode(tag)
    );
    Ok(vec![
        (HeaderName::from_static("x-ms-date"), date),
        (HeaderName::from_static("x-ms-content-sha256"), digest),
        (AUTHORIZATION, word),
    ])
}
