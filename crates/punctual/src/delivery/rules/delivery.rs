//! A delivery: one message to one address, as it is planned, and its status.

use crate::base::id::TemplateId;
use crate::flow::rules::event_kind::Recipient;

/// Statuses that are kept as numbers and shown as words. The numbers are never given a new meaning.
macro_rules! statuses {
    ($(#[$doc:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $code:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$meaning])* $variant = $code,)+
        }

        impl $name {
            const ALL: &[(Self, &'static str)] = &[$((Self::$variant, stringify!($variant)),)+];

            /// Its number, as it is kept.
            #[must_use]
            pub const fn code(self) -> i64 {
                self as i64
            }

            /// The status of a number.
            #[must_use]
            pub fn from_code(code: i64) -> Option<Self> {
                Self::ALL.iter().map(|(status, _)| *status).find(|status| status.code() == code)
            }

            /// Its word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// The status of a word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().find(|(_, known)| *known == word).map(|(status, _)| *status)
            }
        }
    };
}

statuses! {
    /// How a delivery stands.
    DeliveryStatus {
        /// The delivery waits, or is being sent.
        Pending = 0,
        /// A provider took it.
        Sent = 1,
        /// The provider reported that it arrived.
        Delivered = 2,
        /// The delivery was given up.
        Failed = 3,
        /// The delivery was not to be sent.
        Skipped = 4,
        /// The outcome of the send is unknown, and its channel does not send twice.
        Uncertain = 5,
    }
}

/// One message to one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedDelivery {
    /// The key by which a delivery is recognised as the same as another.
    pub key: String,
    /// The key of its channel.
    pub channel: String,
    /// Where it goes; `None` if the recipient has no such address.
    pub address: Option<String>,
    /// The number of the send: 1 is the first, n + 1 the nth reminder.
    pub send: u32,
    /// Which of the event's recipients it is for, from 0.
    pub part: usize,
    /// The template; 0 is a text of our own.
    pub template: TemplateId,
    /// Its version.
    pub version: u32,
    /// RecipientIdentity it is for.
    pub recipient: RecipientIdentity,
}

/// A recipient, as the event names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipientIdentity {
    /// Their name.
    pub name: Option<String>,
    /// Their name in another system.
    pub reference: Option<String>,
}

impl RecipientIdentity {
    /// Returns the identity of a recipient.
    #[must_use]
    pub fn of(recipient: &Recipient<'_>) -> Self {
        Self { name: recipient.name.clone(), reference: recipient.reference.clone() }
    }
}
