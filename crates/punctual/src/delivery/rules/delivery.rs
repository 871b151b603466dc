//! A delivery: one message to one address, as it is planned, and its status.

use crate::base::id::TemplateId;
use crate::flow::rules::event_kind::Recipient;

/// The number of a status as a literal, by which statements name it.
macro_rules! delivery_status {
    (Pending) => {
        0
    };
    (Sent) => {
        1
    };
    (Delivered) => {
        2
    };
    (Failed) => {
        3
    };
    (Skipped) => {
        4
    };
    (Uncertain) => {
        5
    };
}
pub(crate) use delivery_status;

/// Statuses that are kept as numbers and shown as words. The numbers are never given a new meaning.
macro_rules! statuses {
    ($(#[$doc:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $code:expr,)+ }) => {
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
        Pending = delivery_status!(Pending),
        /// A provider took it.
        Sent = delivery_status!(Sent),
        /// The provider reported that it arrived.
        Delivered = delivery_status!(Delivered),
        /// The delivery was given up.
        Failed = delivery_status!(Failed),
        /// The delivery was not to be sent.
        Skipped = delivery_status!(Skipped),
        /// The outcome of the send is unknown, and its channel does not send twice.
        Uncertain = delivery_status!(Uncertain),
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
