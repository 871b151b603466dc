//! Subscriptions at work: the subscription of each lane, and the messages that its filter admits.
//!
//! Only lanes of subscriptions are ever looked up, and a cached subscription is valid for a second (on a
//! manual clock not at all): so every process sees a change within that time, and a topic without
//! subscriptions costs nothing. The process that makes a change knows it at once.
//!
//! A message that a filter does not admit is settled as done, without being handed out, and counted.

use crate::base::clock::{Monotonic, monotonic};
use crate::base::error::{Problems, Result};
use crate::base::id::{LaneId, Token};
use crate::base::limits::CONTENT_BYTES_MAX;
use crate::base::random;
use crate::database::store::Store;
use crate::queue::rules::share::LaneQuota;
use crate::queue::rules::subscription::{SubscriptionFilter, SubscriptionTarget};
use crate::queue::run::gauge;
use crate::queue::store::claims::{ClaimRequest, ClaimedBatch, ClaimedItem};
use crate::queue::store::settle::{SettleAction, Settlement};
use crate::queue::store::subscriptions::Subscription;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A cached subscription is valid for this long.
const FRESH: Duration = Duration::from_secs(1);
/// Claims that one request makes at most, when a filter leaves room in the first.
const CLAIM_ROUNDS: usize = 20;

/// A subscription, ready to be served.
#[derive(Debug)]
pub struct LoadedSubscription {
    /// The topic.
    pub topic: String,
    /// Its name.
    pub name: String,
    /// Where to.
    pub target: SubscriptionTarget,
    filter: Option<SubscriptionFilter>,
    filter_text: Option<serde_json::Value>,
}

impl LoadedSubscription {
    /// Nothing when its filter cannot be read: then it is not served, and nothing is lost.
    fn new(of: Subscription, before: Option<&Arc<Self>>) -> Option<Self> {
        let filter = match (&of.filter, before) {
            (None, _) => None,
            (Some(_), Some(before)) if before.filter_text == of.filter => before.filter.clone(),
            (Some(text), _) => {
                let mut problems = Problems::default();
                let Some(filter) = SubscriptionFilter::read(text, "filter", &mut problems) else {
                    tracing::warn!(target: "punctual", topic = of.topic, name = of.name, %problems,
                        "a subscription's filter cannot be read; its work waits");
                    return None;
                };
                Some(filter)
            }
        };
        Some(Self { topic: of.topic, name: of.name, target: of.target, filter, filter_text: of.filter })
    }

    /// Whether an item is wanted.
    #[must_use]
    pub fn admits(&self, claimed: &ClaimedItem) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.admits(&claimed.message))
    }

    /// Whether the subscription has a filter at all.
    #[must_use]
    pub const fn is_picky(&self) -> bool {
        self.filter.is_some()
    }
}

/// The cached subscriptions of this process, by their lanes.
#[derive(Debug)]
pub struct SubscriptionCache {
    fresh: Duration,
    known: Mutex<HashMap<LaneId, CachedSubscriptions>>,
}

#[derive(Clone, Debug)]
struct CachedSubscriptions {
    asked: Monotonic,
    served: Option<Arc<LoadedSubscription>>,
}

impl SubscriptionCache {
    /// An empty one; with `stepped`, for a manual clock, nothing is taken for granted.
    #[must_use]
    pub fn new(stepped: bool) -> Self {
        Self { fresh: if stepped { Duration::ZERO } else { FRESH }, known: Mutex::default() }
    }

    /// Those of these lanes that belong to a subscription.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn of(
        &self,
        store: &Store,
        lanes: &[LaneId],
    ) -> Result<HashMap<LaneId, Arc<LoadedSubscription>>> {
        let stale: Vec<LaneId> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = |lane: &LaneId| known.get(lane).is_some_and(|k| k.asked.elapsed() < self.fresh);
            lanes.iter().filter(|lane| !fresh(lane)).copied().collect()
        };
        if !stale.is_empty() {
            let asked = monotonic();
            let found = store.subscriptions_of(stale.clone()).await?;
            self.learn(&stale, found, asked);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let served = |lane: &LaneId| Some((*lane, known.get(lane)?.served.clone()?));
        Ok(lanes.iter().filter_map(served).collect())
    }

    fn learn(&self, asked_for: &[LaneId], found: Vec<Subscription>, asked: Monotonic) {
        let mut found: HashMap<LaneId, Subscription> = found.into_iter().map(|s| (s.lane, s)).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in asked_for {
            let before = known.get(lane).and_then(|k| k.served.clone());
            let served =
                found.remove(lane).and_then(|s| LoadedSubscription::new(s, before.as_ref())).map(Arc::new);
            known.insert(*lane, CachedSubscriptions { asked, served });
        }
    }

    /// Forgets the cached subscriptions after a change.
    pub fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Claims from a subscription's lane what its filter lets through: again while that leaves room and
/// there is more, a bounded number of times. The earliest end of a lease stands for all.
///
/// # Errors
/// When the database does not answer, or the lease or owner is impossible.
pub async fn claim(
    store: &Store,
    served: &LoadedSubscription,
    wish: ClaimRequest,
    bytes_max: Option<usize>,
) -> Result<ClaimedBatch> {
    let mut all = ClaimedBatch::default();
    let Some(take) = wish.takes.first().copied() else { return Ok(all) };
    for _ in 0..CLAIM_ROUNDS {
        let takes = vec![LaneQuota { quota: take.quota - all.items.len(), ..take }];
        let used: usize = all.items.iter().map(|claimed| claimed.message.bytes()).sum();
        let left = bytes_max.map(|most| most.saturating_sub(used));
        // A claim takes one item however large it is.
        if used > 0 && left.is_some_and(|left| left < CONTENT_BYTES_MAX) {
            all.is_cut = true;
            break;
        }
        let catch = store.claim_within(ClaimRequest { takes, ..wish.clone() }, left).await?;
        let only_followers = catch.items.is_empty() && !catch.taken.is_empty();
        let (wanted, unwanted): (Vec<ClaimedItem>, Vec<ClaimedItem>) =
            catch.items.into_iter().partition(|claimed| served.admits(claimed));
        all.now = all.now.or(catch.now);
        all.lease_until = all.lease_until.or(catch.lease_until);
        all.items.extend(wanted);
        all.is_cut = catch.is_cut;
        let more = !unwanted.is_empty() || only_followers;
        let_go(store, served, take.lane, unwanted).await?;
        if !more || all.items.len() >= take.quota {
            break;
        }
    }
    Ok(all)
}

/// Settles items that the filter does not admit as done. If that fails, they are due again when the lease
/// ends, and so are the items that were claimed with them.
async fn let_go(
    store: &Store,
    served: &LoadedSubscription,
    lane: LaneId,
    items: Vec<ClaimedItem>,
) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    gauge::filtered(&served.topic, &served.name, items.len());
    let mut words: BTreeMap<Token, Vec<_>> = BTreeMap::new();
    for claimed in items {
        words.entry(claimed.token).or_default().push((claimed.message.id, SettleAction::Ack));
    }
    let settlements = words.into_iter().map(|(token, words)| Settlement { token, words }).collect();
    store.settle(settlements, Some(lane), random::seed()).await?;
    Ok(())
}
