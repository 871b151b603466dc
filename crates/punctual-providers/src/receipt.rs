//! Receipts: what a provider tells later about a message.
//!
//! [`Receipts::hear`] verifies a callback before it reads anything of it. One event may come twice or
//! late; [`Receipt::dedup_key`] is the same for both, so that an inbox can tell. Events whose word a
//! file does not name are passed over. Not done here: finding the message, and what follows.

mod verify;

use crate::file::ProviderFile;
use crate::file::receipt::{Challenge, Event, Format, ReceiptForm};
use crate::known::{KnownValues, Text};
use crate::path;
use crate::settings::Settings;
use punctual::Timestamp;
use punctual::base::clock::host_now;
pub use punctual::delivery::rules::receipt::{Receipt, ReceiptStatus};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A longer callback is refused, in bytes.
pub const CALLBACK_BYTES_MAX: usize = 1024 * 1024;
/// Receipts of one callback, at most.
const RECEIPTS_MAX: usize = 10_000;
/// A provider's words are cut here, in characters.
const ERROR_CHARS_MAX: usize = 500;

/// A request that a provider makes of us.
#[derive(Clone, Copy, Debug)]
pub struct Callback<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// The whole address as the provider called it, with its query: some sign it.
    pub url: &'a str,
    /// Headers by name, in any case of messages.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl<'a> Callback<'a> {
    /// A header's value.
    fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// A value of the query.
    fn query(&self, name: &str) -> Option<Cow<'a, str>> {
        let query = self.url.split_once('?')?.1;
        let query = query.split('#').next().unwrap_or_default();
        form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// What came of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// News, perhaps none; answer 200.
    Receipts(Vec<Receipt>),
    /// The provider wants to see this before it sends news; answer 200 with it.
    Answer {
        /// The text of the answer.
        body: String,
        /// Its content type.
        content_type: &'static str,
    },
}

/// Why a callback was not heard. Nothing of it may be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackError {
    /// It does not prove who sent it; answer 401.
    Unproved(String),
    /// It cannot be read; answer 400.
    Unreadable(String),
    /// The channel has no secret to verify it with; answer 404.
    NotSetUp(String),
}

/// Hears the callbacks of one channel.
#[derive(Clone, Debug)]
pub struct Receipts {
    form: ReceiptForm,
    settings: Settings,
}

impl Receipts {
    /// The receipts of a channel, if its provider sends any.
    #[must_use]
    pub fn of(file: &ProviderFile, settings: &Settings) -> Option<Self> {
        file.receipt.clone().map(|form| Self { form, settings: settings.clone() })
    }

    /// Verifies a callback that comes now, and reads it.
    ///
    /// # Errors
    /// Why it is not heard.
    pub fn hear(&self, callback: &Callback<'_>) -> Result<CallbackOutcome, CallbackError> {
        self.hear_at(callback, host_now())
    }

    /// Verifies a callback that came at this time, and reads it.
    ///
    /// # Errors
    /// Why it is not heard.
    pub fn hear_at(
        &self,
        callback: &Callback<'_>,
        came_at: Timestamp,
    ) -> Result<CallbackOutcome, CallbackError> {
        if callback.body.len() > CALLBACK_BYTES_MAX {
            return Err(CallbackError::Unreadable(format!(
                "is larger than {} KiB",
                CALLBACK_BYTES_MAX / 1024
            )));
        }
        if let (Some(Challenge::Query { token, token_query, answer_query }), "GET") =
            (&self.form.challenge, callback.method)
        {
            return self.greet(callback, token, token_query, answer_query);
        }
        let signed_at = self.verify(callback, came_at)?;
        let body = self.body(callback.body)?;
        if let Some(Challenge::Body { path, field }) = &self.form.challenge
            && let Some(code) = path::at(&body, path).and_then(path::text)
        {
            let body = json!({field.as_str(): code}).to_string();
            return Ok(CallbackOutcome::Answer { body, content_type: "application/json" });
        }
        let events = self.form.events.iter();
        Ok(CallbackOutcome::Receipts(
            events.flat_map(|event| self.read(event, &body, signed_at)).take(RECEIPTS_MAX).collect(),
        ))
    }

    fn greet(
        &self,
        callback: &Callback<'_>,
        token: &Text,
        token_query: &str,
        answer_query: &str,
    ) -> Result<CallbackOutcome, CallbackError> {
        let secret = self.secret(token)?;
        let given = callback.query(token_query).unwrap_or_default();
        if !verify::same(given.as_bytes(), secret.as_bytes()) {
            return Err(CallbackError::Unproved(format!("`{token_query}` is not the token of this channel")));
        }
        let body = callback.query(answer_query).unwrap_or_default().into_owned();
        Ok(CallbackOutcome::Answer { body, content_type: "text/plain" })
    }

    /// A secret of the settings; without one nothing can be verified.
    fn secret(&self, text: &Text) -> Result<String, CallbackError> {
        let secret = text.render(&KnownValues::of_settings(&self.settings));
        if secret.is_empty() {
            let names: Vec<&str> = text.names().filter_map(|name| name.strip_prefix("setting.")).collect();
            return Err(CallbackError::NotSetUp(format!(
                "set `{}` to hear this provider",
                names.join("`, `")
            )));
        }
        Ok(secret)
    }

    fn body(&self, bytes: &[u8]) -> Result<Value, CallbackError> {
        match self.form.format {
            Format::Json => serde_json::from_slice(bytes)
                .map_err(|_| CallbackError::Unreadable("the body is not JSON".to_owned())),
            Format::Form => {
                let pairs = form_urlencoded::parse(bytes);
                let fields: Map<String, Value> =
                    pairs.map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
                Ok(Value::Object(fields))
            }
        }
    }

    /// Reads the receipts of one event form in a body. A receipt without a time gets the time of the
    /// signature. Texts are redacted, and ids as they were when the message was accepted.
    fn read(&self, event: &Event, body: &Value, signed_at: Option<Timestamp>) -> Vec<Receipt> {
        let one = |item: &Value| self.read_one(event, item, signed_at);
        path::each(body, &event.list).into_iter().filter_map(one).collect()
    }

    fn read_one(&self, event: &Event, item: &Value, signed_at: Option<Timestamp>) -> Option<Receipt> {
        let text = |place: &Option<String>| {
            place.as_deref().and_then(|place| path::at(item, place)).and_then(path::text)
        };
        let said = path::at(item, &event.status).and_then(path::text)?;
        let word = said.trim().to_lowercase();
        let (_, status) = event.words.iter().find(|(known, _)| *known == word)?;
        let (mut message_id, mut address) = (text(&event.message_id), text(&event.address));
        if let (Some(address), Some(before)) = (&mut address, &event.address_after)
            && let Some(rest) = address.strip_prefix(before.as_str())
        {
            *address = rest.to_owned();
        }
        if let (Some(id), Some(until)) = (&mut message_id, &event.message_id_until)
            && let Some(end) = id.find(until.as_str())
        {
            id.truncate(end);
        }
        let clean = |text: String| self.settings.redacted(&text);
        let cut = |text: String| clean(text).chars().take(ERROR_CHARS_MAX).collect::<String>();
        (message_id.is_some() || address.is_some()).then(|| Receipt {
            message_id: message_id.map(clean),
            address,
            status: *status,
            said: cut(said),
            error: text(&event.error).map(cut),
            event_id: text(&event.event_id).map(clean),
            occurred_at: text(&event.time).as_deref().and_then(time).or(signed_at),
        })
    }
}

/// A time in Unix seconds or milliseconds, or in RFC 3339.
fn time(text: &str) -> Option<Timestamp> {
    let Ok(number) = text.trim().parse::<i64>() else { return Timestamp::parse(text.trim()).ok() };
    // In seconds, this is in the year 5138; in milliseconds, in 1973.
    let micros = if number.abs() < 100_000_000_000 { 1_000_000 } else { 1_000 };
    number.checked_mul(micros).map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests;
