//! Handlers: the executor that runs the host's code for messages of a topic or of a subscription.

use crate::base::clock::{Timestamp, monotonic};
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::limits::CLAIM_ITEMS_MAX;
use crate::queue::rules::pace::HandlerSpeed;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::run::context::WorkerContext;
use crate::queue::run::executor::{BoxFuture, Executor, LaneClaim, WorkCounts, WorkRound};
use crate::queue::run::handler::Handler;
use crate::queue::run::handler_batch::HandlerBatch;
use crate::queue::run::quarantine::Quarantine;
use crate::queue::run::subscription::{LoadedSubscription, SubscriptionCache};
use crate::queue::store::claims::ClaimedBatch;
use crate::queue::store::ready_lanes::ReadyLane;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// A claim that brought at least so much shows that there is more where it came from.
const DEEP: usize = CLAIM_ITEMS_MAX / 4;

/// The work that a handler is registered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerKey {
    /// The own queue of this topic, in every tenant.
    Topic(String),
    /// Every subscription whose target has this name.
    Subscriber(String),
}

impl HandlerKey {
    /// Returns the label for metrics.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Topic(topic) => topic.clone(),
            Self::Subscriber(name) => format!("handler {name}"),
        }
    }
}

/// A duty with its handler, and how much of it is going on.
pub struct HandlerSlot {
    /// The work that the handler is registered for.
    pub key: HandlerKey,
    /// The code.
    pub handler: Arc<dyn Handler>,
    /// How many of its messages run at once.
    pub concurrency: usize,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) pace: Mutex<HandlerSpeed>,
    pub(crate) lateness: metrics::Histogram,
}

impl std::fmt::Debug for HandlerSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerSlot").field("key", &self.key).finish_non_exhaustive()
    }
}

impl HandlerSlot {
    /// A duty whose messages are handled `concurrency` at a time.
    #[must_use]
    pub fn new(key: HandlerKey, handler: Arc<dyn Handler>, concurrency: usize) -> Self {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            lateness: super::gauge::lateness(&key.label()),
            key,
            handler,
            concurrency,
            slots: Arc::new(Semaphore::new(concurrency)),
            in_flight: AtomicUsize::new(0),
            pace: Mutex::new(HandlerSpeed::default()),
        }
    }

    fn room(&self) -> usize {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.room(self.concurrency).saturating_sub(self.in_flight.load(Ordering::Relaxed))
    }
}

/// The handlers of one process, and their shared state.
#[derive(Debug)]
pub struct Handlers {
    pub(crate) context: Arc<WorkerContext>,
    /// The handlers.
    pub slots: Vec<HandlerSlot>,
    /// The cache of subscriptions.
    pub subscriptions: SubscriptionCache,
    pub(crate) quarantine: Quarantine,
    topics: HashMap<String, usize>,
    subscribers: HashMap<String, usize>,
    /// Which slot handles the lanes that were seen, and for which subscription.
    assignments: Mutex<HashMap<LaneId, Assignment>>,
}

/// The slot that handles a lane, and the subscription that it does so for, if it is for one.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) slot: usize,
    pub(crate) served: Option<Arc<LoadedSubscription>>,
}

impl Handlers {
    /// Puts handlers together.
    #[must_use]
    pub fn new(context: &Arc<WorkerContext>, slots: Vec<HandlerSlot>) -> Self {
        let (mut topics, mut subscribers) = (HashMap::new(), HashMap::new());
        for (n, slot) in slots.iter().enumerate() {
            match &slot.key {
                HandlerKey::Topic(topic) => topics.insert(topic.clone(), n),
                HandlerKey::Subscriber(name) => subscribers.insert(name.clone(), n),
            };
        }
        Self {
            context: Arc::clone(context),
            slots,
            subscriptions: SubscriptionCache::new(context.manual_clock),
            quarantine: Quarantine::default(),
            topics,
            subscribers,
            assignments: Mutex::default(),
        }
    }

    pub(crate) fn assignments(&self) -> HashMap<LaneId, Assignment> {
        self.assignments.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the handler of a lane in this process, if there is one.
    fn assign(&self, lane: &ReadyLane, served: Option<&Arc<LoadedSubscription>>) -> Option<Assignment> {
        if lane.purpose != Purpose::Dispatch {
            return None;
        }
        if lane.subscription.is_empty() {
            return Some(Assignment { slot: *self.topics.get(&lane.topic)?, served: None });
        }
        let slot = *self.subscribers.get(served?.target.handler()?)?;
        Some(Assignment { slot, served: served.cloned() })
    }

    async fn assign_all(&self, lanes: &[ReadyLane]) -> Result<()> {
        let is_subscribed = |lane: &&ReadyLane| {
            lane.purpose == Purpose::Dispatch && !lane.subscription.is_empty() && !lane.paused
        };
        let mut served = HashMap::new();
        if !self.subscribers.is_empty() {
            let lanes: Vec<LaneId> = lanes.iter().filter(is_subscribed).map(|lane| lane.lane).collect();
            served = self.subscriptions.of(&self.context.store, &lanes).await?;
        }
        let mut assignments = self.assignments.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes {
            match self.assign(lane, served.get(&lane.lane)) {
                Some(assignment) => assignments.insert(lane.lane, assignment),
                None => assignments.remove(&lane.lane),
            };
        }
        Ok(())
    }
}

/// The executor of messages that the host's own code handles.
#[derive(Debug)]
pub struct HandlerExecutor(pub Arc<Handlers>);

impl Executor for HandlerExecutor {
    fn prepare<'f>(&'f self, lanes: &'f [ReadyLane], _: Timestamp) -> BoxFuture<'f, Result<()>> {
        Box::pin(self.0.assign_all(lanes))
    }

    fn slot(&self, lane: &ReadyLane) -> Option<usize> {
        let assignments = self.0.assignments.lock().unwrap_or_else(PoisonError::into_inner);
        assignments.get(&lane.lane).map(|assignment| assignment.slot)
    }

    fn room(&self, _: usize) -> Vec<usize> {
        self.0.slots.iter().map(HandlerSlot::room).collect()
    }

    fn run<'f>(&'f self, round: &'f mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> BoxFuture<'f, Result<()>> {
        Box::pin(self.claim(round, quotas))
    }
}

impl HandlerExecutor {
    /// A message may be owed to a topic's own queue and to its subscriptions. They are not claimed together:
    /// a settlement of an item of an own queue names no lane.
    async fn claim(&self, round: &mut WorkRound<'_>, quotas: Vec<LaneQuota>) -> Result<()> {
        let assignments = self.0.assignments();
        let is_own = |quota: &LaneQuota| {
            assignments.get(&quota.lane).is_none_or(|assignment| assignment.served.is_none())
        };
        let (own, subscribed): (Vec<LaneQuota>, Vec<LaneQuota>) = quotas.into_iter().partition(is_own);
        for quotas in [own, subscribed].into_iter().filter(|quotas| !quotas.is_empty()) {
            let context = &self.0.context;
            let (asked, request) = (monotonic(), round.claim_request(context, quotas));
            let claimed = context.store.claim(request).await?;
            note_taken(round, &claimed);
            if claimed.items.len() >= DEEP {
                context.help.notify_one();
            }
            for batch in HandlerBatch::new(&self.0, &assignments, claimed, asked) {
                let stop = round.stop.clone();
                round.begin_side_by_side(async move {
                    let (seen, tally) = (batch.len(), batch.run(stop).await);
                    let (handled, handler_failures) = (tally.done, tally.failed);
                    Ok(WorkCounts { handled, handler_failures, seen, ..WorkCounts::default() })
                });
            }
        }
        Ok(())
    }
}

fn note_taken(round: &mut WorkRound<'_>, claimed: &ClaimedBatch) {
    let mut last_due: HashMap<LaneId, Timestamp> = HashMap::new();
    for one in &claimed.items {
        let due = last_due.entry(one.item.lane()).or_insert(one.due_at);
        *due = one.due_at.max(*due);
    }
    for (lane, items) in &claimed.taken {
        let last_due = last_due.get(lane).copied();
        round.taken.insert(*lane, LaneClaim { items: *items, last_due });
    }
}
