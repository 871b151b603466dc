//! What an answer, or none, comes to.

use crate::file::ProviderFile;
use crate::file::answer::{Answer, Class};
use crate::path;
use jiff::fmt::rfc2822::DateTimeParser;
use punctual::NotSent;
use punctual::base::clock;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use std::time::Duration;

/// How much of an answer is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How much of an answer is kept, in characters.
const KEPT_CHARS_MAX: usize = 1_000;
/// What a provider says of an error is cut here, in characters.
const SAID_CHARS_MAX: usize = 300;
/// A provider that wants to be left alone for longer is asked again all the same.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// An id that is longer is no id, in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 255;

/// What was heard of a provider.
pub(super) struct Heard {
    status: u16,
    headers: HeaderMap,
    body: String,
    /// Whether the body ended before its end.
    broken: bool,
}

/// What it comes to.
pub(super) enum Verdict {
    Accepted { message_id: Option<String>, answer: String },
    Transient { error: String, retry_after: Option<Duration> },
    Permanent { error: String },
    Unknown { error: String },
}

/// What it comes to when there was no answer.
pub(super) fn unanswered(error: &reqwest::Error, timeout: Duration) -> NotSent {
    if error.is_connect() {
        let error = format!("no connection to the provider: {}", reason(error));
        return NotSent::Transient { error, retry_after: None };
    }
    if error.is_builder() {
        return NotSent::Permanent { error: format!("the request cannot be made: {}", reason(error)) };
    }
    let error = if error.is_timeout() {
        format!("no answer within {timeout:?}; it may have been sent")
    } else {
        format!("the connection broke before the answer; it may have been sent: {}", reason(error))
    };
    NotSent::NoAnswer { error }
}

/// The innermost cause, which says most; addresses are left out, since they may hold secrets.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

impl Heard {
    pub(super) async fn read(mut answer: reqwest::Response) -> Self {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let (mut bytes, mut broken) = (Vec::new(), false);
        while bytes.len() < ANSWER_BYTES_MAX {
            match answer.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        bytes.truncate(ANSWER_BYTES_MAX);
        Self { status, headers, body: String::from_utf8_lossy(&bytes).into_owned(), broken }
    }

    pub(super) fn verdict(&self, file: &ProviderFile) -> Verdict {
        let json: Option<Value> = serde_json::from_str(&self.body).ok();
        let answer =
            Answer { status: self.status, headers: &self.headers, text: &self.body, json: json.as_ref() };
        let rule = file.rules.iter().find(|rule| rule.fits(&answer));
        let class = rule.map_or_else(|| Class::of_status(self.status), |rule| rule.class);
        match class {
            Class::Accepted if self.broken => {
                let error = format!("the answer (status {}) broke off; it may have been sent", self.status);
                Verdict::Unknown { error }
            }
            Class::Accepted => {
                Verdict::Accepted { message_id: message_id(file, &answer), answer: self.kept() }
            }
            Class::Transient => {
                let asked = self.retry_after().or_else(|| rule.and_then(|rule| rule.retry_after));
                let retry_after = asked.map(|wait| wait.min(RETRY_AFTER_MAX));
                Verdict::Transient { error: self.error(file, &answer), retry_after }
            }
            Class::Permanent => Verdict::Permanent { error: self.error(file, &answer) },
            Class::Unknown => Verdict::Unknown { error: self.error(file, &answer) },
        }
    }

    /// Seconds, or a moment; measured against the provider's own clock, if it shows it.
    fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse::<u64>() {
            return Some(Duration::from_secs(seconds));
        }
        let until = moment(text)?;
        let date = self.headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(moment);
        let now = date.unwrap_or_else(|| clock::host_now().as_micros() / 1_000_000);
        Some(Duration::from_secs(u64::try_from(until - now).unwrap_or(0)))
    }

    fn error(&self, file: &ProviderFile, answer: &Answer<'_>) -> String {
        let said = file.response.error.as_deref().and_then(|path| answer.at(path));
        let said = said.map(|said| format!(": {}", cut(&said, SAID_CHARS_MAX))).unwrap_or_default();
        let kept = self.kept();
        let kept = if kept.is_empty() { String::new() } else { format!("; answer: {kept}") };
        format!("the provider answered {}{said}{kept}", self.status)
    }

    /// The answer as it is kept: in one line, in part.
    fn kept(&self) -> String {
        cut(&self.body.split_whitespace().collect::<Vec<_>>().join(" "), KEPT_CHARS_MAX)
    }
}

fn message_id(file: &ProviderFile, answer: &Answer<'_>) -> Option<String> {
    let response = &file.response;
    let in_header = response.message_id_header.as_deref().and_then(|name| answer.header(name));
    let in_body = || {
        let (json, path) = (answer.json?, response.message_id.as_deref()?);
        path::at(json, path).and_then(path::text)
    };
    let found = in_header.map(str::to_owned).or_else(in_body)?;
    (!found.is_empty() && found.len() <= MESSAGE_ID_BYTES_MAX).then_some(found)
}

/// Seconds since 1970 of an HTTP date.
fn moment(text: &str) -> Option<i64> {
    DateTimeParser::new().parse_timestamp(text).ok().map(|moment| moment.as_second())
}

fn cut(text: &str, chars: usize) -> String {
    let mut shown: String = text.chars().take(chars).collect();
    if text.chars().nth(chars).is_some() {
        shown.push('…');
    }
    shown
}
