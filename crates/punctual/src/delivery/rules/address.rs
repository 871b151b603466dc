//! Which address of a recipient a channel needs.

use crate::delivery::rules::template::choose::kind_of;
use crate::flow::rules::event_kind::Recipient;

/// The kind of address that a channel needs to reach a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// A phone number.
    Phone,
    /// A mailbox.
    Email,
    /// Whatever there is.
    Any,
}

impl AddressKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Phone, Self::Email, Self::Any];

    /// The way of a channel.
    #[must_use]
    pub fn of(channel: &str) -> Self {
        match kind_of(channel) {
            "WhatsApp" | "SMS" => Self::Phone,
            "Email" => Self::Email,
            _ => Self::Any,
        }
    }

    /// Returns the recipient's address of this kind.
    #[must_use]
    pub fn to(self, who: &Recipient<'_>) -> Option<String> {
        match self {
            Self::Phone => who.phone.clone(),
            Self::Email => who.email.clone(),
            Self::Any => who.phone.clone().or_else(|| who.email.clone()).or_else(|| who.reference.clone()),
        }
    }
}

/// Returns the address at which a channel reaches a recipient: the phone, the mailbox, or the first address
/// that exists.
#[must_use]
pub fn address_for(channel: &str, to: &Recipient<'_>) -> Option<String> {
    AddressKind::of(channel).to(to)
}
