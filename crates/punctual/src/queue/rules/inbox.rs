//! The inbox: the verdict on a delivery of a message, by the stored state of the message.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems};
use crate::base::lease::check_duration;
use crate::base::limits;
use crate::base::name::check_name;
use std::time::Duration;

/// A delivery: which message came, and how it is to be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxDelivery {
    /// The sender; scopes the id.
    pub source: String,
    /// The sender's id of the message.
    pub message_id: String,
    /// A digest of its content, if the receiver wants a conflict reported when it differs.
    pub hash: Option<String>,
    /// How long processing may take before the message is free for another delivery.
    pub lease: Duration,
    /// After so many attempts the message is dead.
    pub max_attempts: u32,
}

impl InboxDelivery {
    /// A delivery with the usual lease and number of attempts.
    #[must_use]
    pub fn new(source: impl Into<String>, message_id: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            message_id: message_id.into(),
            hash: None,
            lease: limits::LEASE_DEFAULT,
            max_attempts: limits::ATTEMPTS_DEFAULT,
        }
    }

    /// With a digest of the content: another one under the same id is a conflict.
    #[must_use]
    pub fn hash(mut self, hash: impl Into<String>) -> Self {
        self.hash = Some(hash.into());
        self
    }

    /// With another lease: longer than processing ever takes.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// With another number of attempts.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Checks it.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem.
    pub fn check(&self) -> Result<(), Error> {
        let mut problems = Problems::default();
        check_name(&self.source, "source", &mut problems);
        check_name(&self.message_id, "messageId", &mut problems);
        if let Some(hash) = &self.hash {
            check_name(hash, "hash", &mut problems);
        }
        check_duration(self.lease, "leaseSeconds", &mut problems);
        if self.max_attempts == 0 || self.max_attempts > limits::ATTEMPTS_MAX {
            problems.push("maxAttempts", format!("must be between 1 and {}", limits::ATTEMPTS_MAX));
        }
        problems.into_result()
    }
}

/// The status of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxStatus {
    /// A receiver processes it, or did so when its lease ended.
    Processing,
    /// The message was processed.
    Processed,
    /// Processing failed; the next delivery tries again.
    Failed,
    /// Every attempt failed; there is no further attempt until it is replayed.
    Dead,
}

impl InboxStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Processing, Self::Processed, Self::Failed, Self::Dead];

    /// Its word in the table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Processed => "processed",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }

    /// The status of a word, whatever its case.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(word))
    }
}

/// The stored state of a message that came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredInboxMessage {
    /// The status of the message.
    pub status: InboxStatus,
    /// The digest of its content, if one was given.
    pub hash: Option<String>,
    /// How often a receiver was told to process it.
    pub attempts: u32,
    /// When the last of them must be through.
    pub lease_until: Timestamp,
}

/// The verdict on a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxDecision {
    /// Process it.
    Process,
    /// The message was processed.
    AlreadyProcessed,
    /// Another receiver processes it.
    InProgress,
    /// The same id came with other content.
    Conflict,
    /// The message is dead.
    Dead,
    /// The last allowed attempt was lost: the message dies now.
    Dies,
}

impl StoredInboxMessage {
    /// Decides about a delivery at `now`. Other content is a conflict in any status of the message; a hash
    /// that only one of the two has says nothing.
    #[must_use]
    pub fn verdict(&self, delivery: &InboxDelivery, now: Timestamp) -> InboxDecision {
        let differs = matches!((&self.hash, &delivery.hash), (Some(a), Some(b)) if a != b);
        match self.status {
            _ if differs => InboxDecision::Conflict,
            InboxStatus::Processed => InboxDecision::AlreadyProcessed,
            InboxStatus::Dead => InboxDecision::Dead,
            InboxStatus::Failed => InboxDecision::Process,
            InboxStatus::Processing if self.lease_until > now => InboxDecision::InProgress,
            InboxStatus::Processing if self.attempts >= delivery.max_attempts => InboxDecision::Dies,
            InboxStatus::Processing => InboxDecision::Process,
        }
    }
}

/// Returns the status of a message after a failed attempt.
#[must_use]
pub const fn after_failure(attempts: u32, max_attempts: u32) -> InboxStatus {
    if attempts >= max_attempts { InboxStatus::Dead } else { InboxStatus::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PLT-16
    #[test]
    fn plt_16_a_delivery_is_told_by_what_is_known() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        let delivery = InboxDelivery::new("shop", "7").hash("a").max_attempts(3);
        let known = |status, hash: Option<&str>, attempts, until| StoredInboxMessage {
            status,
            hash: hash.map(str::to_owned),
            attempts,
            lease_until: at(until),
        };
        let table = [
            (known(InboxStatus::Processed, Some("a"), 1, 0), InboxDecision::AlreadyProcessed),
            (known(InboxStatus::Processed, None, 1, 0), InboxDecision::AlreadyProcessed),
            (known(InboxStatus::Processed, Some("b"), 1, 0), InboxDecision::Conflict),
            (known(InboxStatus::Dead, Some("a"), 3, 0), InboxDecision::Dead),
            (known(InboxStatus::Dead, Some("b"), 3, 0), InboxDecision::Conflict),
            (known(InboxStatus::Failed, Some("a"), 2, 99), InboxDecision::Process),
            (known(InboxStatus::Failed, Some("b"), 2, 99), InboxDecision::Conflict),
            (known(InboxStatus::Processing, Some("a"), 1, 11), InboxDecision::InProgress),
            (known(InboxStatus::Processing, Some("b"), 1, 11), InboxDecision::Conflict),
            (known(InboxStatus::Processing, Some("a"), 2, 10), InboxDecision::Process),
            (known(InboxStatus::Processing, Some("a"), 3, 10), InboxDecision::Dies),
            (known(InboxStatus::Processing, Some("a"), 3, 11), InboxDecision::InProgress),
        ];
        for (known, verdict) in table {
            assert_eq!(known.verdict(&delivery, at(10)), verdict, "{known:?}");
        }
        let hashless = InboxDelivery::new("shop", "7");
        let processed = known(InboxStatus::Processed, Some("b"), 1, 0);
        assert_eq!(processed.verdict(&hashless, at(10)), InboxDecision::AlreadyProcessed);
        assert_eq!(after_failure(2, 3), InboxStatus::Failed);
        assert_eq!(after_failure(3, 3), InboxStatus::Dead);
    }

    /// PLT-29
    #[test]
    fn plt_29_a_wrong_delivery_is_refused_with_every_problem() {
        let wrong = InboxDelivery::new("", "x".repeat(256)).hash("\n").lease(Duration::ZERO).max_attempts(0);
        let said = wrong.check().unwrap_err().to_string();
        for part in ["source: ", "messageId: ", "hash: ", "leaseSeconds: ", "maxAttempts: "] {
            assert!(said.contains(part), "{part} in {said}");
        }
        InboxDelivery::new("shop", "7").check().unwrap();
    }

    #[test]
    fn a_status_reads_its_own_word() {
        for status in InboxStatus::ALL {
            assert_eq!(InboxStatus::parse(status.word()), Some(status));
        }
        assert_eq!((InboxStatus::parse("Dead"), InboxStatus::parse("gone")), (Some(InboxStatus::Dead), None));
    }
}
