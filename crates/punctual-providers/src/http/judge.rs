//! What an answer, or none, comes to.

use crate::file::ProviderFile;
use crate::file::answer::{Answer, OutcomeClass, RETRY_AFTER_MAX, RuleMatch};
use crate::path;
use crate::settings::Settings;
use jiff::fmt::rfc2822::DateTimeParser;
use punctual::base::clock;
use punctual::delivery::run::channel::ChannelResult;
use punctual::{AcceptedMessage, SendError};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use std::time::Duration;

/// How much of an answer is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How much of an answer is kept, in characters.
const KEPT_CHARS_MAX: usize = 1_000;
/// What a provider says of an error is cut here, in characters.
const SAID_CHARS_MAX: usize = 300;
/// The longest message id that is kept, in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 255;

/// What was heard of a provider.
pub(super) struct ProviderResponse {
    status: u16,
    headers: HeaderMap,
    body: String,
    /// Why the body is not whole, if it is not.
    partial: Option<&'static str>,
}

/// What an answer is judged by.
pub(super) struct Judge<'a> {
    pub(super) file: &'a ProviderFile,
    pub(super) settings: &'a Settings,
    /// Removes secrets and the address from a text. Texts are cleaned before they are cut: half a secret
    /// would not be found.
    pub(super) clean: &'a dyn Fn(&str) -> String,
}

/// What it comes to when there was no answer.
pub(super) fn unanswered(
    error: &reqwest::Error,
    timeout: Duration,
    clean: &dyn Fn(&str) -> String,
) -> SendError {
    let reason = |error| clean(&reason(error));
    if error.is_connect() {
        let error = format!("no connection to the provider: {}", reason(error));
        return SendError::Transient { error, retry_after: None };
    }
    if error.is_builder() {
        return SendError::Permanent { error: format!("the request cannot be made: {}", reason(error)) };
    }
    let error = if error.is_timeout() {
        format!("no answer within {timeout:?}; it may have been sent")
    } else {
        format!("the connection broke before the answer; it may have been sent: {}", reason(error))
    };
    SendError::NoAnswer { error }
}

/// The innermost cause, which says most; addresses are left out, since they may hold secrets.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

impl ProviderResponse {
    pub(super) async fn read(mut answer: reqwest::Response) -> Self {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let (mut bytes, mut partial) = (Vec::new(), None);
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => {
                    partial = Some("broke off");
                    break;
                }
            }
            if bytes.len() > ANSWER_BYTES_MAX {
                partial = Some("is larger than 64 KiB");
                break;
            }
        }
        bytes.truncate(ANSWER_BYTES_MAX);
        Self { status, headers, body: String::from_utf8_lossy(&bytes).into_owned(), partial }
    }

    /// An answer that was read whole, or was too large.
    #[cfg(test)]
    pub(super) fn of(status: u16, headers: HeaderMap, body: &[u8]) -> Self {
        let partial = (body.len() > ANSWER_BYTES_MAX).then_some("is larger than 64 KiB");
        Self { status, headers, body: String::from_utf8_lossy(body).into_owned(), partial }
    }

    pub(super) fn judge(&self, judge: &Judge<'_>) -> ChannelResult {
        let json: Option<Value> = serde_json::from_str(self.body.trim_start_matches('\u{feff}')).ok();
        let answer = Answer {
            status: self.status,
            headers: &self.headers,
            text: &self.body,
            json: json.as_ref(),
            whole: self.partial.is_none(),
        };
        let mut compared = judge.file.rules.iter().map(|rule| (rule, rule.compare(&answer)));
        let decisive = compared.find(|(_, found)| *found != RuleMatch::No);
        if matches!(decisive, Some((_, RuleMatch::Unreadable))) {
            return Err(self.unreadable(judge));
        }
        let rule = decisive.map(|(rule, _)| rule);
        let class = rule.map_or_else(|| OutcomeClass::of_status(self.status), |rule| rule.class);
        let error = || self.error(judge, &answer);
        match class {
            OutcomeClass::Accepted if self.partial.is_some() => Err(self.unreadable(judge)),
            OutcomeClass::Accepted => Ok(self.accepted(judge, &answer)),
            OutcomeClass::Transient => {
                let asked = self.retry_after().or_else(|| rule.and_then(|rule| rule.retry_after));
                let retry_after = asked.map(|wait| wait.min(RETRY_AFTER_MAX));
                Err(SendError::Transient { error: error(), retry_after })
            }
            OutcomeClass::Permanent => Err(SendError::Permanent { error: error() }),
            OutcomeClass::Unknown => Err(SendError::Unknown { error: error() }),
        }
    }

    /// An answer that may say yes or no where it was not read.
    fn unreadable(&self, judge: &Judge<'_>) -> SendError {
        let why = self.partial.unwrap_or("is not JSON that can be read");
        let kept = self.kept(judge);
        let error = format!("the answer (status {}) {why}; it may have been sent: {kept}", self.status);
        SendError::Unknown { error }
    }

    fn accepted(&self, judge: &Judge<'_>, answer: &Answer<'_>) -> AcceptedMessage {
        let mut kept = self.kept(judge);
        let mut message_id = message_id(judge.file, answer);
        if let Some(id) = message_id.take_if(|id| id.len() > MESSAGE_ID_BYTES_MAX) {
            let said = "the provider's message id was not kept, so its receipts cannot be matched";
            kept =
                format!("{said}: it has {} bytes, at most {MESSAGE_ID_BYTES_MAX} are kept; {kept}", id.len());
        }
        // Not masked: some ids have the address in them, and receipts come with the same id.
        let message_id = message_id.map(|id| judge.settings.redacted(&id));
        AcceptedMessage { message_id, answer: Some(kept).filter(|kept| !kept.is_empty()) }
    }

    /// Seconds, or a moment; measured against the provider's own clock, if it shows it.
    fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // More seconds than a number holds are many all the same.
            return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
        }
        let until = moment(text)?;
        let date = self.headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(moment);
        let now = date.unwrap_or_else(|| clock::host_now().as_micros() / 1_000_000);
        Some(Duration::from_secs(u64::try_from(until - now).unwrap_or(0)))
    }

    fn error(&self, judge: &Judge<'_>, answer: &Answer<'_>) -> String {
        let said = judge.file.response.error.as_deref().and_then(|path| answer.at(path));
        let said = said.map(|said| format!(": {}", cut(&(judge.clean)(&said), SAID_CHARS_MAX)));
        let (said, kept) = (said.unwrap_or_default(), self.kept(judge));
        let kept = if kept.is_empty() { String::new() } else { format!("; answer: {kept}") };
        format!("the provider answered {}{said}{kept}", self.status)
    }

    /// The answer as it is kept: in one line, in part.
    fn kept(&self, judge: &Judge<'_>) -> String {
        let clean = (judge.clean)(&self.body);
        cut(&clean.split_whitespace().collect::<Vec<_>>().join(" "), KEPT_CHARS_MAX)
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
    (!found.is_empty()).then_some(found)
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
