//! Ids are types, so that two of them cannot be mixed up.

use crate::base::random;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id! {
    /// A message: one immutable fact.
    MessageId
}
number_id! {
    /// A lane: the work of one consumer of one topic for one tenant.
    LaneId
}
number_id! {
    /// A dead letter.
    DeadLetterId
}
number_id! {
    /// An API key's row (not the secret).
    KeyId
}
number_id! {
    /// A message in the inbox.
    InboxId
}
number_id! {
    /// The number of one acquisition of a lease: each is greater than the one before it.
    FencingToken
}

number_id! {
    /// A job.
    JobId
}
number_id! {
    /// One run of a job.
    RunId
}

number_id! {
    /// A flow: a definition with its versions. A survey is one.
    FlowId
}
number_id! {
    /// An entry: one occurrence of a trigger, of any kind.
    EntryId
}
number_id! {
    /// A delivery: one message to one address by one channel and template.
    DeliveryId
}
number_id! {
    /// A message template.
    TemplateId
}
number_id! {
    /// A suppression: messages that an address is never sent.
    SuppressionId
}

impl TemplateId {
    /// The text that a survey sends where no template matches. Templates have numbers from 1.
    pub const BUILT_IN: Self = Self(0);
}

impl LaneId {
    /// Work whose topic has no lane yet; the router moves it (see `store::routes`).
    pub const UNROUTED: Self = Self(0);
}

/// The token of one claim. A new one for every claim, never reused, so that the later writes of a claimer can
/// be distinguished from those of any other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(Arc<str>);

impl Token {
    /// A fresh token of 128 random bits.
    #[must_use]
    pub fn fresh() -> Self {
        Self(random::hex::<16>().into())
    }

    /// The token as text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
