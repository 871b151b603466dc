//! The delivery log of an entry: one line for each try, as the API shows it.
//!
//! Lines are facts: they are appended in the order of their tries and never changed. A line has the outcome
//! of a try; its existence does not mean that a message was sent.

use crate::base::clock::Timestamp;
use crate::queue::rules::attempt::kept_error;
use serde::{Deserialize, Serialize};

/// The outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// The channel took it.
    Delivered,
    /// The channel did not take it.
    Failed,
    /// There was no answer in time: the message may have gone out.
    Unknown,
    /// There is no channel of that name.
    NoChannel,
}

impl AttemptOutcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Failed, Self::Unknown, Self::NoChannel];

    /// Its word, as the log has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::NoChannel => "no-channel",
        }
    }

    /// Returns the word for the outcome of a delivery's attempt in the log of an instance.
    #[must_use]
    pub fn of_attempt(word: &str) -> Option<Self> {
        Some(match word {
            "sent" => Self::Delivered,
            "transient" | "permanent" | "skipped" => Self::Failed,
            "timeout" | "unknown" => Self::Unknown,
            "no-channel" => Self::NoChannel,
            _ => return None,
        })
    }

    /// The outcome of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.word() == word)
    }
}

/// One try of one send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryLine {
    /// The number of the send: 1 is the invitation, 2 the first reminder. Tries of one send have
    /// the same number.
    pub attempt: u32,
    /// When it was tried.
    pub sent_at: Timestamp,
    /// The outcome of the try.
    pub status: AttemptOutcome,
    /// The provider's id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The word for why it was not even tried, such as `stop` or `opted-out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl DeliveryLine {
    /// The channel took it, and gave it this id, if it gives any.
    #[must_use]
    pub const fn delivered(attempt: u32, sent_at: Timestamp, message_id: Option<String>) -> Self {
        Self { attempt, sent_at, status: AttemptOutcome::Delivered, message_id, error: None, reason: None }
    }

    /// The channel did not take it.
    #[must_use]
    pub fn failed(attempt: u32, sent_at: Timestamp, error: &str) -> Self {
        Self::wrong(attempt, sent_at, AttemptOutcome::Failed, error)
    }

    /// There was no answer in time.
    #[must_use]
    pub fn unknown(attempt: u32, sent_at: Timestamp, error: &str) -> Self {
        Self::wrong(attempt, sent_at, AttemptOutcome::Unknown, error)
    }

    /// There is no channel of that name.
    #[must_use]
    pub fn no_channel(attempt: u32, sent_at: Timestamp, channel: &str) -> Self {
        let error =
            format!("there is no channel `{channel}`: add it to the configuration, or name another one");
        Self::wrong(attempt, sent_at, AttemptOutcome::NoChannel, &error)
    }

    fn wrong(attempt: u32, sent_at: Timestamp, status: AttemptOutcome, error: &str) -> Self {
        Self { attempt, sent_at, status, message_id: None, error: Some(kept_error(error)), reason: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits;
    use serde_json::json;

    const AT: Timestamp = Timestamp::from_micros(1_778_735_580_000_000);

    /// TRG-15: attempt, time, status, the provider's id and the error, by their outside names.
    #[test]
    fn trg_15_a_line_has_the_names_of_the_api() {
        let at = "2026-05-14T05:13:00Z";
        let table = [
            (
                DeliveryLine::delivered(1, AT, Some("mem-abc123".into())),
                json!({"attempt": 1, "sentAt": at, "status": "delivered", "messageId": "mem-abc123"}),
            ),
            (
                DeliveryLine::delivered(2, AT, None),
                json!({"attempt": 2, "sentAt": at, "status": "delivered"}),
            ),
            (
                DeliveryLine::failed(2, AT, "503"),
                json!({"attempt": 2, "sentAt": at, "status": "failed", "error": "503"}),
            ),
            (
                DeliveryLine::unknown(3, AT, "no answer in 10 s"),
                json!({"attempt": 3, "sentAt": at, "status": "unknown", "error": "no answer in 10 s"}),
            ),
        ];
        for (line, wanted) in table {
            assert_eq!(serde_json::to_value(&line).unwrap(), wanted);
            assert_eq!(serde_json::from_value::<DeliveryLine>(wanted).unwrap(), line);
        }
        let lost = serde_json::to_value(DeliveryLine::no_channel(1, AT, "sms:nobody")).unwrap();
        assert_eq!(lost["status"], "no-channel");
        assert!(lost["error"].as_str().unwrap().contains("`sms:nobody`"), "{lost}");
    }

    #[test]
    fn a_provider_cannot_fill_the_log() {
        let line = DeliveryLine::failed(1, AT, &"x\0é".repeat(5_000));
        let error = line.error.unwrap();
        assert_eq!(error.chars().count(), limits::ERROR_CHARS_MAX);
        assert!(!error.contains('\0'));
    }
}
