//! The context that all sends of a process share.

use crate::base::limits::SEND_WINDOW;
use crate::database::store::Store;
use crate::delivery::rules::channel::ChannelPolicy;
use crate::delivery::rules::send_terms::SendTerms;
use crate::delivery::run::channel::Channels;
use crate::delivery::run::channel_limiter::ChannelLimiters;
use crate::delivery::run::channel_shares::ShareHolder;
use crate::delivery::run::kinds::EntryKinds;
use crate::delivery::run::templates::TemplateCache;
use crate::flow::run::event_kinds::EventKinds;
use crate::queue::run::context::{BatchGuard, WorkerContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Claims of events and deliveries that may be out when another is begun.
const CLAIMS_OUT_MAX: usize = 3;

/// The state that planning, advancing and sending share.
#[derive(Debug)]
pub struct DeliveryContext {
    /// The worker of this process.
    pub worker: Arc<WorkerContext>,
    /// The channels.
    pub channels: Channels,
    /// The kinds of entries.
    pub kinds: EntryKinds,
    /// The message templates.
    pub templates: TemplateCache,
    /// The kinds of events.
    pub event_kinds: EventKinds,
    /// How often each channel may be used, and whether it works.
    pub limiters: ChannelLimiters,
    /// The name under which this process holds shares of limits.
    pub share_holder: ShareHolder,
    /// The policies of channels that have their own.
    pub policies: BTreeMap<String, ChannelPolicy>,
    /// The policy of all others.
    pub default_policy: ChannelPolicy,
    /// The link that ends messages of a kind, with `{token}` in it; none if nothing serves such links.
    pub unsubscribe_url: Option<String>,
    /// Claims of events and deliveries that are out.
    pub claims_out: AtomicUsize,
}

impl DeliveryContext {
    /// The database.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.worker.store
    }

    /// The policy of a channel.
    #[must_use]
    pub fn policy(&self, channel: &str) -> &ChannelPolicy {
        self.policies.get(channel).unwrap_or(&self.default_policy)
    }

    /// The terms of a claim of deliveries by these channels. Channels that answer at once need no window.
    pub(crate) fn send_terms<'c>(&self, channels: impl Iterator<Item = &'c String> + Clone) -> SendTerms {
        let at_once = channels.clone().all(|key| self.limiters.of(key).answers_at_once());
        let keyed = channels.filter(|key| self.channels.takes_idempotency_key(key));
        SendTerms { window: (!at_once).then_some(SEND_WINDOW), keyed_channels: keyed.cloned().collect() }
    }

    /// How many items may be claimed now: none while enough claims are out.
    pub(crate) fn room(&self, batch: usize) -> usize {
        if self.claims_out.load(Ordering::Relaxed) < CLAIMS_OUT_MAX { batch } else { 0 }
    }
}

/// Counts a claim as out until it is dropped.
#[derive(Debug)]
pub struct ClaimGuard {
    context: Arc<DeliveryContext>,
    // After the count above has gone down: its drop makes the room known.
    _batch: BatchGuard,
}

impl ClaimGuard {
    /// Counts one more.
    #[must_use]
    pub fn new(context: &Arc<DeliveryContext>) -> Self {
        context.claims_out.fetch_add(1, Ordering::Relaxed);
        Self { context: Arc::clone(context), _batch: BatchGuard::new(&context.worker) }
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.context.claims_out.fetch_sub(1, Ordering::Relaxed);
    }
}
