//! The sandbox: a channel that sends to no provider and keeps its messages in memory, to be looked at.
//!
//! Promised: the list has, the oldest first, every message that the sandbox answered with success, and every
//! one that its script let time out (a provider that does not answer often delivers all the same). A second
//! delivery under an idempotency key is kept as well and marked, so that a double send can be seen; a real
//! provider would swallow it. A message that a [`Script`] refuses is not in the list.
//!
//! A message is kept when its send begins, and the answer follows after the script's latency: a sender that
//! gives up waiting has sent it all the same.
//!
//! Not promised: any memory beyond this process, and beyond [`limits::SANDBOX_MESSAGES_MAX`] messages and
//! [`limits::SANDBOX_BYTES_MAX`] bytes. The oldest go first, and [`Sandbox::dropped`] counts them. A double
//! of a message that was dropped or cleared is not recognised.

use crate::base::error::{Error, Result};
use crate::base::limits;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::delivery::rules::channel::MEMORY;
use crate::delivery::rules::script::{Script, ScriptStep};
use crate::delivery::run::channel::{AcceptedMessage, Channel, ChannelResult, RenderedMessage, SendError};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The size of a kept message beside its texts, in bytes; roughly.
const MESSAGE_BYTES: usize = 512;

/// Keeps messages in the memory of the process. Clones share them.
///
/// ```
/// # use punctual::delivery::run::sandbox::{Sandbox, SandboxFilter};
/// # use punctual::delivery::rules::script::{Script, ScriptStep};
/// let sandbox = Sandbox::new().also("whatsapp:default");
/// assert!(sandbox.takes("memory:anything") && sandbox.takes("whatsapp:default"));
/// sandbox.script("memory:anything", Script::new([ScriptStep::Permanent { error: None }])).unwrap();
/// assert_eq!(sandbox.count(&SandboxFilter::default()), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Sandbox {
    keys: BTreeSet<String>,
    every_memory: bool,
    room: Arc<Mutex<MessageBuffer>>,
}

/// A message that the sandbox took.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxMessage {
    /// Its place in the list: later ones have higher numbers.
    pub number: u64,
    /// The id that the sandbox returned to the sender, unless the send timed out.
    pub message_id: String,
    /// The message, without its payload.
    pub message: RenderedMessage,
    /// The answer to the sender.
    pub outcome: SandboxOutcome,
    /// The message id of the first message under the same idempotency key, if this is not the first.
    pub duplicate_of: Option<String>,
}

/// The answer to the sender of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxOutcome {
    /// The sandbox took the message.
    Sent,
    /// The sandbox did not answer.
    Timeout,
}

impl SandboxOutcome {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Timeout => "timeout",
        }
    }
}

/// Selects messages; a field that is left open matches all.
#[derive(Clone, Debug, Default)]
pub struct SandboxFilter {
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// By this channel.
    pub channel: Option<String>,
    /// To this address.
    pub to: Option<String>,
    /// With a higher number than this.
    pub after: u64,
    /// With a lower number than this.
    pub before: Option<u64>,
}

impl SandboxFilter {
    fn fits(&self, received: &SandboxMessage) -> bool {
        let message = &received.message;
        self.tenant.is_none_or(|tenant| tenant == message.tenant)
            && self.channel.as_deref().is_none_or(|key| key == message.channel)
            && self.to.as_deref().is_none_or(|to| to == message.to)
            && received.number > self.after
            && self.before.is_none_or(|before| received.number < before)
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// A sandbox for every `memory:` key.
    #[must_use]
    pub fn new() -> Self {
        Self { keys: BTreeSet::new(), every_memory: true, room: Arc::default() }
    }

    /// A sandbox for these keys only.
    #[must_use]
    pub fn of(keys: impl IntoIterator<Item = String>) -> Self {
        Self { keys: keys.into_iter().collect(), every_memory: false, room: Arc::default() }
    }

    /// The same sandbox, which also takes what is sent by this channel.
    #[must_use]
    pub fn also(mut self, key: impl Into<String>) -> Self {
        self.keys.insert(key.into());
        self
    }

    /// Whether the sandbox is the channel of this key.
    #[must_use]
    pub fn takes(&self, key: &str) -> bool {
        self.keys.contains(key) || self.every_memory && key.starts_with(MEMORY)
    }

    /// Whether the sandbox takes every `memory:` key.
    #[must_use]
    pub const fn takes_every_memory(&self) -> bool {
        self.every_memory
    }

    /// Returns the other keys that the sandbox takes, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// Sets the answers to the next sends by a channel, in place of the earlier script.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a channel that is not the sandbox's, [`Error::Conflict`] when very
    /// many have a script.
    pub fn script(&self, key: &str, script: Script) -> Result<()> {
        if !self.takes(key) {
            return Err(Error::NotFound(format!("the sandbox takes nothing for a channel `{key}`")));
        }
        let mut room = self.room();
        room.scripts.remove(key);
        if script.is_over() {
            return Ok(());
        }
        if room.scripts.len() >= limits::SANDBOX_SCRIPTS_MAX {
            let most = limits::SANDBOX_SCRIPTS_MAX;
            return Err(Error::Conflict(format!("{most} channels have a script; end one with {{}}")));
        }
        room.scripts.insert(key.to_owned(), script);
        Ok(())
    }

    /// Returns the rest of the script of a channel.
    #[must_use]
    pub fn scripted(&self, key: &str) -> Script {
        self.room().scripts.get(key).cloned().unwrap_or_default()
    }

    /// Returns messages, the oldest first, at most `limit`.
    #[must_use]
    pub fn messages(&self, wanted: &SandboxFilter, limit: usize) -> Vec<Arc<SandboxMessage>> {
        let room = self.room();
        let from = room.messages.partition_point(|received| received.number <= wanted.after);
        room.messages.range(from..).filter(|received| wanted.fits(received)).take(limit).cloned().collect()
    }

    /// Returns messages, the newest first, at most `limit`.
    #[must_use]
    pub fn latest(&self, wanted: &SandboxFilter, limit: usize) -> Vec<Arc<SandboxMessage>> {
        self.room()
            .messages
            .iter()
            .rev()
            .filter(|received| wanted.fits(received))
            .take(limit)
            .cloned()
            .collect()
    }

    /// Counts messages.
    #[must_use]
    pub fn count(&self, wanted: &SandboxFilter) -> usize {
        self.room().messages.iter().filter(|received| wanted.fits(received)).count()
    }

    /// Returns the channels by which messages came, in order.
    #[must_use]
    pub fn channels(&self) -> BTreeSet<String> {
        self.room().messages.iter().map(|received| received.message.channel.clone()).collect()
    }

    /// Returns how many messages were dropped for newer ones since everything was cleared.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.room().dropped
    }

    /// Removes messages; returns how many.
    pub fn clear(&self, wanted: &SandboxFilter) -> usize {
        self.room().clear(wanted)
    }

    fn room(&self) -> MutexGuard<'_, MessageBuffer> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel for Sandbox {
    fn send(&self, message: Arc<RenderedMessage>) -> Pin<Box<dyn Future<Output = ChannelResult> + Send>> {
        let sandbox = self.clone();
        Box::pin(async move {
            let (latency, sent) = sandbox.room().take(message);
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            sent
        })
    }

    fn provider(&self) -> Option<&str> {
        Some("memory")
    }
}

#[derive(Debug, Default)]
struct MessageBuffer {
    messages: VecDeque<Arc<SandboxMessage>>,
    bytes: usize,
    /// The message id of the first message that is kept under a tenant's idempotency key.
    firsts: HashMap<(Tenant, String), String>,
    scripts: BTreeMap<String, Script>,
    dropped: u64,
    last: u64,
}

impl MessageBuffer {
    fn take(&mut self, message: Arc<RenderedMessage>) -> (Duration, ChannelResult) {
        let (step, latency) = self.next_step(&message.channel);
        let said = |error: Option<String>, usual: &str| error.unwrap_or_else(|| usual.to_owned());
        let sent = match step {
            ScriptStep::Ok => Ok(AcceptedMessage {
                message_id: Some(self.keep(message, SandboxOutcome::Sent)),
                answer: None,
            }),
            ScriptStep::Transient { retry_after, error } => {
                let error = said(error, "the sandbox's script fails this send for now");
                Err(SendError::Transient { error, retry_after })
            }
            ScriptStep::Permanent { error } => {
                Err(SendError::Permanent { error: said(error, "the sandbox's script refuses this message") })
            }
            ScriptStep::Timeout { delivered } => {
                if delivered {
                    self.keep(message, SandboxOutcome::Timeout);
                }
                Err(SendError::NoAnswer { error: "the sandbox's script does not answer".to_owned() })
            }
        };
        (latency, sent)
    }

    fn next_step(&mut self, key: &str) -> (ScriptStep, Duration) {
        let Some(script) = self.scripts.get_mut(key) else {
            return (ScriptStep::Ok, Duration::ZERO);
        };
        let next = script.next_step();
        if script.is_over() {
            self.scripts.remove(key);
        }
        next
    }

    fn keep(&mut self, message: Arc<RenderedMessage>, outcome: SandboxOutcome) -> String {
        let mut message = Arc::unwrap_or_clone(message);
        message.payload = Arc::default();
        self.last += 1;
        let message_id = format!("mem-{}", random::hex::<6>());
        let key = (message.tenant, message.idempotency_key.clone());
        let duplicate_of = self.firsts.get(&key).cloned();
        if duplicate_of.is_none() {
            self.firsts.insert(key, message_id.clone());
        }
        self.bytes += bytes(&message);
        let received = SandboxMessage {
            number: self.last,
            message_id: message_id.clone(),
            message,
            outcome,
            duplicate_of,
        };
        self.messages.push_back(Arc::new(received));
        self.make_room();
        message_id
    }

    fn make_room(&mut self) {
        while self.messages.len() > limits::SANDBOX_MESSAGES_MAX || self.bytes > limits::SANDBOX_BYTES_MAX {
            let Some(oldest) = self.messages.pop_front() else { return };
            self.forget(&oldest);
            self.dropped += 1;
        }
    }

    fn forget(&mut self, gone: &SandboxMessage) {
        self.bytes = self.bytes.saturating_sub(bytes(&gone.message));
        if gone.duplicate_of.is_none() {
            self.firsts.remove(&(gone.message.tenant, gone.message.idempotency_key.clone()));
        }
    }

    fn clear(&mut self, wanted: &SandboxFilter) -> usize {
        let all = std::mem::take(&mut self.messages);
        let (gone, left): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(|one| wanted.fits(one));
        self.messages = left;
        gone.iter().for_each(|received| self.forget(received));
        if self.messages.is_empty() {
            self.dropped = 0;
        }
        gone.len()
    }
}

/// Returns the size of a message, roughly.
fn bytes(message: &RenderedMessage) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let texts = [&message.channel, &message.to, &message.locale, &message.body, &message.idempotency_key];
    let more = [&message.survey_url, &message.subject, &message.html, &message.unsubscribe_url];
    MESSAGE_BYTES
        + texts.iter().map(|text| text.len()).sum::<usize>()
        + more.into_iter().map(optional).sum::<usize>()
}
