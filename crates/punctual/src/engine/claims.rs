//! Claims for workers outside the engine: a host's own loop, or a remote worker over HTTP.
//!
//! A worker finds its lane, claims from it, and settles each item under the token it was claimed with. An
//! item that is not settled before its lease ends comes back with one attempt more.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{LaneId, MessageId, Token};
use crate::base::limits;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::queue::rules::attempt::Retry;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::subscription;
use crate::queue::store::claims::{ClaimRequest, ClaimedBatch, ClaimedItem};
use crate::queue::store::queues::Lane;
use crate::queue::store::ready_lanes::ReadyLanes;
use crate::queue::store::settle::{SettleAction, SettleOutcome, Settlement};
use std::collections::BTreeMap;
use std::time::Duration;

/// The size, owner and lease of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOptions {
    /// The worker's name, for people who look at stuck work.
    pub owner: String,
    /// The length of the lease.
    pub lease: Duration,
    /// The most items that one claim returns.
    pub limit: usize,
    /// The most bytes of payloads and headers that one claim returns; but one item always.
    pub bytes: Option<usize>,
}

impl ClaimOptions {
    /// Claims under this name with the default lease and limit.
    #[must_use]
    pub fn new(owner: impl Into<String>) -> Self {
        let (lease, limit) = (limits::LEASE_DEFAULT, limits::CLAIM_ITEMS_DEFAULT);
        Self { owner: owner.into(), lease, limit, bytes: None }
    }

    /// Sets the length of the lease.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the most items that one claim returns.
    #[must_use]
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the most bytes of payloads and headers that one claim returns. A single item is returned however
    /// large it is; what does not fit waits on as if it had not been looked at.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }
}

/// One claimed item and its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemSettlement {
    /// The token that the item was claimed with.
    pub token: Token,
    /// The item's message.
    pub message: MessageId,
    /// The action for the item.
    pub word: SettleAction,
}

impl ItemSettlement {
    /// Settles a claimed item.
    #[must_use]
    pub fn new(claimed: &ClaimedItem, word: SettleAction) -> Self {
        Self { token: claimed.token.clone(), message: claimed.message.id, word }
    }
}

impl Engine {
    /// Finds the lane of a topic's own queue (an empty `subscription`) or of a subscription.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn lane<'a>(&'a self, tenant: Tenant, topic: &'a str, subscription: &'a str) -> VerbFuture<'a, Lane> {
        VerbFuture::new(async move {
            let lane = self.store().lane(tenant, topic, subscription).await?;
            lane.ok_or_else(|| no_queue(topic, subscription))
        })
    }

    /// Finds a lane that workers may claim from. A topic's own queue (an empty `subscription`) is declared
    /// if need be, so that messages of the topic are kept for it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown subscription, [`Error::Conflict`] for one whose target is not a
    /// queue, [`Error::Invalid`] when the topic is not a name.
    pub fn claimable_lane<'a>(
        &'a self,
        tenant: Tenant,
        topic: &'a str,
        subscription: &'a str,
    ) -> VerbFuture<'a, Lane> {
        VerbFuture::new(async move {
            if !subscription.is_empty() {
                let lane = self.lane(tenant, topic, subscription).await?;
                self.claimable(&lane).await?;
                return Ok(lane);
            }
            match self.store().lane(tenant, topic, "").await? {
                Some(lane) if lane.declared => Ok(lane),
                _ => self.store().declare_queue(tenant, topic).await,
            }
        })
    }

    /// Claims due items of a lane. An empty batch means that nothing is due now; [`Engine::woken`] waits
    /// for more. From the lane of a subscription only what its filter admits is returned.
    ///
    /// ```no_run
    /// # async fn example(engine: punctual::Engine) -> Result<(), punctual::Error> {
    /// use punctual::Tenant;
    /// use punctual::engine::ClaimOptions;
    /// use punctual::queue::rules::attempt::Retry;
    ///
    /// let lane = engine.claimable_lane(Tenant::DEFAULT, "orders", "").await?;
    /// let batch = engine.claim(&lane, &ClaimOptions::new("importer-1").limit(50)).await?;
    /// let (good, bad): (Vec<_>, Vec<_>) =
    ///     batch.items.into_iter().partition(|item| item.message.kind == "order.placed");
    /// engine.ack(&lane, &good).await?;
    /// engine.abandon(&lane, &bad, "not an order", Retry::Policy).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::claimable_lane`], and [`Error::Invalid`] for an impossible lease or owner.
    pub fn claim<'a>(&'a self, lane: &'a Lane, options: &'a ClaimOptions) -> VerbFuture<'a, ClaimedBatch> {
        VerbFuture::new(async move {
            loop {
                let catch = self.claim_once(lane, options).await?;
                // Followers of a busy key leave the queue without being returned: look behind them.
                let only_followers = catch.items.is_empty() && !catch.taken.is_empty();
                if only_followers || (catch.items.is_empty() && self.route_waiting().await? > 0) {
                    continue;
                }
                return Ok(catch);
            }
        })
    }

    async fn claim_once(&self, lane: &Lane, options: &ClaimOptions) -> Result<ClaimedBatch> {
        let wish = ClaimRequest {
            owner: options.owner.clone(),
            lease: options.lease,
            takes: vec![LaneQuota { lane: lane.id, since: Timestamp::MIN, quota: options.limit }],
        };
        if lane.subscription.is_empty() {
            return self.store().claim_within(wish, options.bytes).await;
        }
        let served = self.claimable(lane).await?;
        subscription::claim(self.store(), &served, wish, options.bytes).await
    }

    /// Settles claimed items of a lane; answers in the order given. Items of other lanes are not found.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more items than one call may name; nothing is settled then.
    pub fn settle<'a>(
        &'a self,
        lane: &'a Lane,
        items: Vec<ItemSettlement>,
    ) -> VerbFuture<'a, Vec<SettleOutcome>> {
        VerbFuture::new(async move {
            let (settlements, places) = group_by_token(items);
            let outcomes = self.store().settle(settlements, Some(lane.id), random::seed()).await?;
            // A retry or the next item of a sequence may be due at once.
            self.wake();
            let outcome = |(claim, item): (usize, usize)| {
                outcomes.get(claim).and_then(|of| of.get(item)).copied().unwrap_or(SettleOutcome::NotFound)
            };
            Ok(places.into_iter().map(outcome).collect())
        })
    }

    /// Settles items that are done.
    ///
    /// # Errors
    /// As [`Engine::settle`].
    pub fn ack<'a>(&'a self, lane: &'a Lane, items: &'a [ClaimedItem]) -> VerbFuture<'a, Vec<SettleOutcome>> {
        self.settle_alike(lane, items, SettleAction::Ack)
    }

    /// Settles items that did not work out and are tried again.
    ///
    /// # Errors
    /// As [`Engine::settle`].
    pub fn abandon<'a>(
        &'a self,
        lane: &'a Lane,
        items: &'a [ClaimedItem],
        error: impl Into<String>,
        retry: Retry,
    ) -> VerbFuture<'a, Vec<SettleOutcome>> {
        self.settle_alike(lane, items, SettleAction::Abandon { error: error.into(), retry })
    }

    /// Settles items that will never work out: they are dead until they are replayed.
    ///
    /// # Errors
    /// As [`Engine::settle`].
    pub fn fail<'a>(
        &'a self,
        lane: &'a Lane,
        items: &'a [ClaimedItem],
        error: impl Into<String>,
    ) -> VerbFuture<'a, Vec<SettleOutcome>> {
        self.settle_alike(lane, items, SettleAction::Fail { error: error.into() })
    }

    fn settle_alike<'a>(
        &'a self,
        lane: &'a Lane,
        items: &[ClaimedItem],
        word: SettleAction,
    ) -> VerbFuture<'a, Vec<SettleOutcome>> {
        self.settle(lane, items.iter().map(|claimed| ItemSettlement::new(claimed, word.clone())).collect())
    }

    /// Moves the end of the leases of claims that hold these items; answers in the order given.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible lease.
    pub fn extend<'a>(
        &'a self,
        lane: &'a Lane,
        items: Vec<(Token, MessageId)>,
        lease: Duration,
    ) -> VerbFuture<'a, Vec<SettleOutcome>> {
        self.store().extend_within(items, lease, lane.id)
    }

    /// Moves messages that were written before their topic had a lane to the lanes that want them; answers
    /// how many work items were written for them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn route_waiting(&self) -> VerbFuture<'_, usize> {
        VerbFuture::new(async move {
            let mut moved = 0;
            loop {
                // A look is cheap; only work that is really there is worth a transaction.
                let view = self.store().ready_lanes(LaneId(-1), 1).await?;
                if view.lanes.first().is_none_or(|seen| seen.lane != LaneId::UNROUTED) {
                    return Ok(moved);
                }
                match self.store().route_waiting().await? {
                    0 => return Ok(moved),
                    more => moved += more,
                }
            }
        })
    }

    /// Lists lanes that have work, by id, above the given one: for those who wait for work of many lanes.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn ready_lanes(&self, after: LaneId, limit: usize) -> VerbFuture<'_, ReadyLanes> {
        self.store().ready_lanes(after, limit)
    }
}

fn no_queue(topic: &str, subscription: &str) -> Error {
    let name = if subscription.is_empty() { topic.to_owned() } else { format!("{topic}/{subscription}") };
    Error::NotFound(format!("there is no queue `{name}`"))
}

/// Groups items by their claims; answers also where each item went.
fn group_by_token(items: Vec<ItemSettlement>) -> (Vec<Settlement>, Vec<(usize, usize)>) {
    let mut settlements: Vec<Settlement> = Vec::new();
    let mut claims: BTreeMap<Token, usize> = BTreeMap::new();
    let mut places = Vec::with_capacity(items.len());
    for ItemSettlement { token, message, word } in items {
        let claim = *claims.entry(token).or_insert_with_key(|token| {
            settlements.push(Settlement { token: token.clone(), words: Vec::new() });
            settlements.len() - 1
        });
        places.push((claim, settlements[claim].words.len()));
        settlements[claim].words.push((message, word));
    }
    (settlements, places)
}
