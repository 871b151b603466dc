//! Channels: the code that takes a message to a person's phone or mailbox.
//!
//! A channel is known by its key (`whatsapp:default`, `memory:default`). It is called outside of any
//! transaction, after the intent to send was committed. It may be called again with the same
//! [`RenderedMessage::idempotency_key`], after a crash, a lost lease or a failure: a channel that passes the
//! key to its provider does not send twice.

use crate::base::clock::Timestamp;
use crate::base::tenant::Tenant;
use crate::delivery::rules::channel::MEMORY;
use crate::delivery::rules::template::MessageTemplate;
use crate::delivery::rules::template::choose::is_named;
use crate::delivery::rules::template::choose::kind_of;
use crate::flow::rules::public_id::PublicId;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A message as a channel sends it to a recipient.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedMessage {
    /// The tenant of the message.
    pub tenant: Tenant,
    /// The key of the channel.
    pub channel: String,
    /// The address as it was given: a phone number, a mailbox.
    pub to: String,
    /// The locale of its text.
    pub locale: String,
    /// The number of the send: 1 is the invitation, 2 the first reminder.
    pub attempt: u32,
    /// The entry it is for.
    pub public_id: Option<PublicId>,
    /// The link to the survey, if there is one.
    pub survey_url: Option<String>,
    /// The subject, for channels that have one.
    pub subject: Option<String>,
    /// The text.
    pub body: String,
    /// The text with markup, for channels that can show it.
    pub html: Option<String>,
    /// The link that unsubscribes from such messages with one click, for channels that have a place for it.
    pub unsubscribe_url: Option<String>,
    /// The provider's own template, `{key, params?, language?, entityId?}`, with its params rendered.
    pub provider_template: Option<Arc<serde_json::Value>>,
    /// The event's payload, for channels that look at more than the text.
    pub payload: Arc<serde_json::Value>,
    /// The same for every try of this send, and for no other.
    pub idempotency_key: String,
    /// When the send began, by the database's clock.
    pub sent_at: Timestamp,
}

/// A provider took it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedMessage {
    /// The provider's id of the message, if it gives any.
    pub message_id: Option<String>,
    /// The provider's answer, for the log: in part, without secrets and addresses.
    pub answer: Option<String>,
}

impl AcceptedMessage {
    /// The same without zero characters, which PostgreSQL does not take: one strange answer must not prevent
    /// the outcomes of its neighbours from being stored.
    #[must_use]
    pub(crate) fn sanitize(self) -> Self {
        let clean = |text: String| if text.contains('\0') { text.replace('\0', "") } else { text };
        Self { message_id: self.message_id.map(clean), answer: self.answer.map(clean) }
    }
}

/// A provider did not take it, or did not say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The send failed, and a later try may succeed.
    Transient {
        /// The error.
        error: String,
        /// How long the provider wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The send failed for good.
    Permanent {
        /// The error.
        error: String,
    },
    /// There was no answer, or none in time: the message may have gone out.
    NoAnswer {
        /// The error, as far as it is known.
        error: String,
    },
    /// The answer does not say whether the message went out.
    Unknown {
        /// The error, as far as it is known.
        error: String,
    },
}

/// The answer of a channel.
pub type ChannelResult = Result<AcceptedMessage, SendError>;

/// A send in flight.
pub type SendFuture = Pin<Box<dyn Future<Output = ChannelResult> + Send>>;

/// A way to reach people. Async closures are channels:
/// `|message: Arc<RenderedMessage>| async move { Ok(AcceptedMessage::default()) }`.
pub trait Channel: Send + Sync + 'static {
    /// Sends one message. It may be called again with the same idempotency key: see
    /// [`Channel::takes_idempotency_key`].
    fn send(&self, message: Arc<RenderedMessage>) -> SendFuture;

    /// The name of the provider behind it, for the log; none if it is code of the host's own.
    fn provider(&self) -> Option<&str> {
        None
    }

    /// Whether the provider recognises a repeated [`RenderedMessage::idempotency_key`] and sends its message
    /// once. A message that may have gone out is then sent again under its key, whatever the channel's policy
    /// for unknown outcomes says, and never ends as uncertain.
    fn takes_idempotency_key(&self) -> bool {
        false
    }
}

impl<F, Fut> Channel for F
where
    F: Fn(Arc<RenderedMessage>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ChannelResult> + Send + 'static,
{
    fn send(&self, message: Arc<RenderedMessage>) -> SendFuture {
        Box::pin(self(message))
    }
}

/// The channels of this process, by key.
#[derive(Clone, Default)]
pub struct Channels {
    by_key: HashMap<String, Arc<dyn Channel>>,
    /// Takes every key that begins with `memory:`.
    memory: Option<Arc<dyn Channel>>,
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_key.keys()).finish()
    }
}

impl Channels {
    /// Adds a channel, or replaces it.
    pub fn add(&mut self, key: impl Into<String>, channel: Arc<dyn Channel>) {
        self.by_key.insert(key.into(), channel);
    }

    /// Lets one channel take every `memory:` key that has no channel of its own.
    pub fn add_memory(&mut self, channel: Arc<dyn Channel>) {
        self.memory = Some(channel);
    }

    /// The key of the channel that serves what a template names: a key, or a kind of channels. Of several of
    /// a kind `{kind}:default` goes first, then the first by name; without any, the sandbox takes it.
    #[must_use]
    pub fn reach(&self, named: &str) -> String {
        if named.contains(':') {
            return named.to_owned();
        }
        let kind = named.to_ascii_lowercase();
        let usual = format!("{kind}:default");
        if self.by_key.contains_key(&usual) {
            return usual;
        }
        let of_kind = |key: &&String| !key.starts_with(MEMORY) && kind_of(key).eq_ignore_ascii_case(named);
        match self.by_key.keys().filter(of_kind).min() {
            Some(key) => key.clone(),
            None if self.memory.is_some() => format!("{MEMORY}{kind}"),
            None => usual,
        }
    }

    /// The name of the provider behind a channel; for code of the host's own, and for a channel that this
    /// process does not have, its key.
    #[must_use]
    pub fn provider_of<'a>(&'a self, key: &'a str) -> &'a str {
        let known = self.get(key).and_then(|channel| channel.provider());
        known.unwrap_or_else(|| if key.starts_with(MEMORY) { MEMORY.trim_end_matches(':') } else { key })
    }

    /// Whether the provider behind a channel sends a message once however often it gets it under one key.
    #[must_use]
    pub fn takes_idempotency_key(&self, key: &str) -> bool {
        self.get(key).is_some_and(|channel| channel.takes_idempotency_key())
    }

    /// The channel of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<dyn Channel>> {
        let memory = || self.memory.as_ref().filter(|_| key.starts_with(MEMORY));
        self.by_key.get(key).or_else(memory)
    }
}

/// Whether a template is meant for this channel, and not only lends it its words.
pub(crate) fn is_worded_for(channels: &Channels, template: &MessageTemplate, channel: &str) -> bool {
    let named = &template.definition.channel;
    is_named(channel, named) || channels.reach(named) == channel
}
