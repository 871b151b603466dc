//! Receipts: the reports that a provider makes later about a message, and their effect.
//!
//! Receipts come late, twice and out of order. [`after`] says how a delivery stands after one: it never goes
//! back, so the order does not matter, and a repeated receipt changes nothing. [`Receipt::dedup_key`] is the
//! same for the same report. [`next_lookup_delay`] says how long a receipt is kept while its message is
//! unknown: a provider may be faster than the commit that stores its message id.
//!
//! Not decided here: whether a receipt can be believed. The caller has verified it.

use crate::base::clock::Timestamp;
use crate::base::digest;
use crate::base::limits::{RECEIPT_KEPT, RECEIPT_LOOK_MIN};
use crate::base::redaction::mask_address;
use crate::delivery::rules::consent::SuppressionReason;
use crate::delivery::rules::delivery::DeliveryStatus;
use std::time::Duration;

/// The status of a message, as a provider reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiptStatus {
    /// The message is on the phone or in the mailbox.
    Delivered,
    /// The recipient opened the message.
    Read,
    /// The address does not take anything, and never will.
    Bounced,
    /// This message did not arrive.
    Failed,
    /// The owner of the address wants no more messages.
    Stopped,
    /// The owner of the address opted out before, and wants messages again.
    Resumed,
}

impl ReceiptStatus {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Delivered, Self::Read, Self::Bounced, Self::Failed, Self::Stopped, Self::Resumed];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Bounced => "bounced",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Resumed => "resumed",
        }
    }

    /// The status of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Why nothing more may be sent to the address, if that is so.
    #[must_use]
    pub const fn suppresses(self) -> Option<SuppressionReason> {
        match self {
            Self::Bounced => Some(SuppressionReason::HardBounce),
            Self::Stopped => Some(SuppressionReason::Stop),
            Self::Delivered | Self::Read | Self::Failed | Self::Resumed => None,
        }
    }

    /// Whether the status means that the message did not arrive.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Bounced | Self::Failed)
    }
}

/// One report of a provider about a message or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The provider's id of the message, if it names one.
    pub message_id: Option<String>,
    /// The address, if it names one, as the provider writes it.
    pub address: Option<String>,
    /// The reported status.
    pub status: ReceiptStatus,
    /// The provider's own word for that.
    pub said: String,
    /// The error, in the provider's words.
    pub error: Option<String>,
    /// The provider's id of this very news, if it names one.
    pub event_id: Option<String>,
    /// When it happened, if the provider says so.
    pub occurred_at: Option<Timestamp>,
}

impl Receipt {
    /// The same without zero characters, which PostgreSQL does not take, and without the address in what
    /// went wrong: mail servers like to repeat it, and the log shows that text to more people.
    #[must_use]
    pub fn sanitize(self) -> Self {
        let clean = |text: String| if text.contains('\0') { text.replace('\0', "") } else { text };
        let address = self.address.map(clean);
        let mut error = self.error.map(clean);
        if let (Some(address), Some(error)) = (address.as_deref().filter(|a| !a.is_empty()), &mut error) {
            *error = error.replace(address, &mask_address(address));
        }
        Self {
            message_id: self.message_id.map(clean),
            address,
            status: self.status,
            said: clean(self.said),
            error,
            event_id: self.event_id.map(clean),
            occurred_at: self.occurred_at,
        }
    }

    /// Returns when the reported event happened, as far as that is known; never after the receipt was
    /// received.
    #[must_use]
    pub fn occurred_by(&self, heard_at: Timestamp) -> Timestamp {
        self.occurred_at.map_or(heard_at, |at| at.min(heard_at))
    }

    /// Returns the time before which an opt-out must have been reported to be lifted by this receipt; `None`
    /// if the receipt lifts none.
    ///
    /// Only a receipt that says that messages are wanted again lifts opt-outs, and only if a copy of it that
    /// is posted after a newer opt-out can be distinguished from it: by the time at which it happened, or by
    /// an id. Providers report times in whole seconds, so an opt-out of the same second stays. A receipt
    /// without a time lifts the opt-outs reported up to now, when it is received for the first time.
    #[must_use]
    pub fn lifts_before(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.status, self.occurred_at, &self.event_id) {
            (ReceiptStatus::Resumed, Some(at), _) => Some(at.min(now)),
            (ReceiptStatus::Resumed, None, Some(_)) => Some(now.plus(Duration::from_micros(1))),
            _ => None,
        }
    }

    /// Returns the same key for the same report, however often it comes. A report about an address alone that
    /// has no id of its own has no key: a second STOP is not the first one again, and to suppress twice is as
    /// good as once.
    #[must_use]
    pub fn dedup_key(&self) -> Option<String> {
        if self.message_id.is_none() && self.event_id.is_none() {
            return None;
        }
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let (id, address, event) = (part(&self.message_id), part(&self.address), part(&self.event_id));
        let (status, said) = (self.status.word().as_bytes(), self.said.as_bytes());
        Some(digest::of([id.as_bytes(), address.as_bytes(), status, said, event.as_bytes()]))
    }
}

/// Returns the status of a delivery after a receipt; `None` if it is unchanged. No status goes back: a
/// delivery that arrived has arrived, one that was given up stays given up (another channel may take its
/// place), and the outcome of an earlier try does not change a delivery that waits.
#[must_use]
pub const fn after(stands: DeliveryStatus, told: ReceiptStatus) -> Option<DeliveryStatus> {
    use DeliveryStatus::{Delivered, Failed, Sent, Uncertain};
    match (stands, told) {
        (Sent | Uncertain, ReceiptStatus::Delivered | ReceiptStatus::Read) => Some(Delivered),
        (Sent | Uncertain, ReceiptStatus::Failed | ReceiptStatus::Bounced) => Some(Failed),
        _ => None,
    }
}

/// How long to wait before the next look for the message of a receipt of this age; `None` if it is too old,
/// and its message is not ours.
#[must_use]
pub fn next_lookup_delay(age: Duration) -> Option<Duration> {
    (age < RECEIPT_KEPT).then(|| age.max(RECEIPT_LOOK_MIN))
}

#[cfg(test)]
mod tests;
