//! The engine: it assembles all parts and has the verbs that users call.
//!
//! An [`Engine`] is a handle: cheap to clone, any number per process, no globals. It can be
//! built without any loop (only to enqueue), with handlers, or with a worker loop of the
//! host's own ([`Engine::claim`]).

mod build;
mod claims;
mod comments;
mod event_kinds;
mod explain;
mod health;
mod ingest;
mod jobs;
mod open;
mod preview;
mod receipts;
mod replay;
mod resend;
mod results;
mod subscriptions;
mod timers;
mod travel;
mod visit;

pub use crate::engine::build::Builder;
pub use crate::engine::claims::{ClaimOptions, ItemSettlement};
pub use crate::engine::comments::{Comment, CommentCursor, CommentFilter, CommentPage};
pub use crate::engine::explain::events::EventToExplain;
pub use crate::engine::explain::notification::{
    DeliveryExplanation, DeliveryForecast, NotificationExplanation, NotificationOutcome, TemplateExplanation,
};
pub use crate::engine::explain::{EventExplanation, SendExplanation, TriggerExplanation};
pub use crate::engine::health::Health;
pub use crate::engine::ingest::IngestRequest;
pub use crate::engine::preview::{PreviewRequest, TemplatePreview};
pub use crate::engine::replay::ReplayPreview;
pub use crate::engine::resend::{ResendOutcome, ResendRefusal, ResendRequest};
pub use crate::engine::results::{FROM_THE_START, ResponseCursor, SurveyResults};
pub use crate::engine::subscriptions::DeletedSubscription;
pub use crate::engine::timers::{TimerChangeOutcome, TimerMove};
pub use crate::engine::travel::{StepCounts, TickCounts};
pub use crate::engine::visit::{SubmitOutcome, Visit};
pub use crate::flow::run::event_kinds::EventKindSet;
pub use crate::survey::run::ingest::{ChosenTrigger, IngestOutcome, IngestReport, IngestedInstance};

use crate::base::clock::Monotonic;
use crate::base::component::{Component, Components};
use crate::base::error::{Error, Result};
use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::clock::ClockMode;
use crate::database::store::Store;
use crate::database::tx::VerbFuture;
use crate::delivery::run::channel::Channels;
use crate::delivery::run::channel_shares::ShareRenewal;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::receipts::EarlyReceipts;
use crate::delivery::run::sandbox::Sandbox;
use crate::delivery::run::templates::TemplateCache;
use crate::jobs::run::lease::LeaseCandidate;
use crate::jobs::run::plan::JobPlanner;
use crate::operate::run::prune::{Pruner, RetentionSettings};
use crate::operate::store::storage::StorageStatus;
use crate::queue::rules::message::NewMessage;
use crate::queue::run::context::WorkerContext;
use crate::queue::run::executor::Executor;
use crate::queue::run::handlers::{HandlerKey, HandlerSlot, Handlers};
use crate::queue::run::inbox::{InboxPruner, InboxSettings};
use crate::queue::run::loop_health::{LoopBody, LoopHealth, drive};
use crate::queue::run::reap::Reaper;
use crate::queue::run::stop;
use crate::queue::run::stop::{StopPhase, StopSender, StopSignal};
use crate::queue::run::wake::{WakeListener, WakeNotifier};
use crate::queue::run::worker::WorkerLoop;
use crate::queue::store::messages::{EnqueueOutcome, check};
use crate::survey::run::kind::SurveyKind;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time that an overdue stop waits for the last settlements.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A handle of the engine: cheap to clone, with all verbs.
///
/// ```no_run
/// # async fn example() -> Result<(), punctual::Error> {
/// use punctual::{Engine, NewMessage, Tenant, Work};
///
/// let engine = Engine::builder("sqlite:shop.db")
///     .handler("orders", |work: Work| async move {
///         println!("{} {}", work.message.kind, work.message.payload);
///         Ok(())
///     })
///     .open()
///     .await?;
/// engine.start();
/// engine.enqueue_one(Tenant::DEFAULT, NewMessage::new("orders", "order.placed", "{}")).await?;
/// engine.stop(std::time::Duration::from_secs(10)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    worker: Arc<WorkerContext>,
    handlers: Arc<Handlers>,
    /// The executor of the handlers alone, for the second worker loop that helps the first.
    handle: Arc<dyn Executor>,
    executors: Vec<Arc<dyn Executor>>,
    delivery: Arc<DeliveryContext>,
    surveys: Arc<SurveyKind>,
    /// The components that its loops serve.
    components: Components,
    clock: ClockMode,
    retention: RetentionSettings,
    inbox: InboxSettings,
    loops: Mutex<Loops>,
    stepping: tokio::sync::Mutex<()>,
    /// Topics known to have a lane; only saves look-ups.
    routed: Mutex<HashMap<Tenant, HashSet<String>>>,
    sandbox: Option<Sandbox>,
}

#[derive(Debug)]
struct Loops {
    /// The time after which a tick counts as hung.
    hung_after: Duration,
    stopper: Option<StopSender>,
    health: Vec<LoopHealth>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    /// When the database last took a write for health, and what else was found then.
    storage: Option<(Monotonic, StorageStatus)>,
}

impl Engine {
    /// Begins to build an engine on `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.
    #[must_use]
    pub fn builder(database: impl Into<String>) -> Builder {
        Builder::new(database.into())
    }

    /// Returns the store with the raw verbs: claim, settle, extend, and all others.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.worker.store
    }

    /// Returns the message templates that this process caches.
    #[must_use]
    pub fn templates(&self) -> &TemplateCache {
        &self.inner.delivery.templates
    }

    /// Returns the components that this engine was built of.
    #[must_use]
    pub fn components(&self) -> Components {
        self.inner.components
    }

    /// Returns the clock source.
    #[must_use]
    pub fn clock(&self) -> ClockMode {
        self.inner.clock
    }

    /// Returns the topics that have a handler in this process.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        let topic = |slot: &HandlerSlot| match &slot.key {
            HandlerKey::Topic(topic) => Some(topic.clone()),
            HandlerKey::Subscriber(_) => None,
        };
        self.inner.handlers.slots.iter().filter_map(topic).collect()
    }

    /// Returns the channels of this process.
    #[must_use]
    pub fn channels(&self) -> &Channels {
        &self.inner.delivery.channels
    }

    /// Returns the sandbox, if there is one: always on a manual clock.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.inner.sandbox.as_ref()
    }

    /// Writes all messages or none, and wakes the workers that may handle them.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub fn enqueue(&self, tenant: Tenant, messages: Vec<NewMessage>) -> VerbFuture<'_, Vec<EnqueueOutcome>> {
        VerbFuture::new(async move {
            check(&messages)?;
            self.route(tenant, &messages).await?;
            let enqueued = self.store().enqueue_checked(tenant, messages).await?;
            crate::queue::run::gauge::enqueued(enqueued.len());
            self.wake_all().await;
            Ok(enqueued)
        })
    }

    /// Wakes this process and, if no loop does so, the others.
    async fn wake_all(&self) {
        self.wake();
        self.notify_others().await;
    }

    /// Notifies other processes, if no loop does so.
    async fn notify_others(&self) {
        if self.is_silent() {
            // A lost notification delays the work and loses none.
            self.store().notify().await.ok();
        }
    }

    /// Returns whether this process has no loop that notifies other processes of new work.
    fn is_silent(&self) -> bool {
        let loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.clock == ClockMode::System && loops.stopper.is_none()
    }

    /// Makes the lanes of topics that are new to this process, so that their
    /// messages need not be moved afterwards.
    async fn route(&self, tenant: Tenant, messages: &[NewMessage]) -> Result<()> {
        let unknown: Vec<String> = {
            let routed = self.inner.routed.lock().unwrap_or_else(PoisonError::into_inner);
            let known = |topic: &str| routed.get(&tenant).is_some_and(|topics| topics.contains(topic));
            let runs = messages.chunk_by(|a, b| a.topic == b.topic).filter_map(|run| run.first());
            let mut unknown: Vec<&str> =
                runs.map(|m| m.topic.as_str()).filter(|topic| !known(topic)).collect();
            unknown.sort_unstable();
            unknown.dedup();
            unknown.into_iter().map(str::to_owned).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        self.store().ensure_routes(tenant, unknown.clone()).await?;
        let mut routed = self.inner.routed.lock().unwrap_or_else(PoisonError::into_inner);
        routed.entry(tenant).or_default().extend(unknown);
        Ok(())
    }

    /// Writes one message.
    ///
    /// # Errors
    /// As [`Engine::enqueue`].
    pub fn enqueue_one(&self, tenant: Tenant, message: NewMessage) -> VerbFuture<'_, MessageId> {
        VerbFuture::new(async move {
            let enqueued = self.enqueue(tenant, vec![message]).await?;
            enqueued.first().and_then(EnqueueOutcome::id).ok_or_else(gone)
        })
    }

    /// Returns a candidate for the lease of this name: one holder at a time, across processes. Needs
    /// no loops.
    #[must_use]
    pub fn lease(&self, tenant: Tenant, name: impl Into<String>) -> LeaseCandidate {
        LeaseCandidate::new(self.store().clone(), tenant, name, self.inner.worker.owner.as_str())
    }

    /// Wakes the engine after work was written by other means, such as a transaction of the host's own.
    /// Without this call a loop finds the work at its next look.
    pub fn wake(&self) {
        self.inner.worker.wake.all();
    }

    /// Waits for the next wake-up, for a worker loop of the host's own.
    pub async fn woken(&self) {
        self.inner.worker.wake.wait_shared().await;
    }

    /// Starts only the loops of a process without handlers, which publishes or serves remote workers:
    /// sending and receiving wake-ups.
    pub fn start_listening(&self) {
        let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.clock == ClockMode::Manual || loops.stopper.is_some() {
            return;
        }
        loops.begin(&self.inner);
    }

    /// Starts the loops. On a manual clock no loop runs, so this does nothing;
    /// see [`Engine::step`]. A second start while running does nothing either.
    pub fn start(&self) {
        let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.clock == ClockMode::Manual || loops.stopper.is_some() {
            return;
        }
        let stop = loops.begin(&self.inner);
        loops.run_maintenance(&self.inner, &stop);
        loops.run_workers(&self.inner, &stop);
    }

    /// Stops the engine: begins nothing new, hands back work that was not begun, waits up to `limit` for
    /// running work and for its own loops, and gives up the rest (it is due again when its lease ends).
    /// No work is lost. Storing the known outcomes takes up to two seconds more, and less where the
    /// database answers.
    pub async fn stop(&self, limit: Duration) {
        let (stopper, mut tasks) = {
            let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
            (loops.stopper.take(), std::mem::take(&mut loops.tasks))
        };
        let Some(stopper) = stopper else { return };
        stopper.signal(StopPhase::Finishing);
        if tokio::time::timeout(limit, self.finished(&mut tasks)).await.is_err() {
            stopper.signal(StopPhase::Over);
            // Batches that are cut short still write down what they know.
            let _ = tokio::time::timeout(LAST_WORDS, self.finished(&mut tasks)).await;
            // The tick of a loop that hangs, or waits for a database that is gone.
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
        }
        let _ = tokio::time::timeout(LAST_WORDS, self.inner.delivery.release_shares()).await;
    }

    /// Waits for the loops, and then for the batches that they began. The wait may be cut short and repeated.
    async fn finished(&self, loops: &mut Vec<tokio::task::JoinHandle<()>>) {
        while let Some(task) = loops.last_mut() {
            task.await.ok();
            loops.pop();
        }
        let worker = &self.inner.worker;
        while worker.batches.load(Ordering::Relaxed) > 0 {
            // Sends in flight keep their shares of limits.
            self.inner.delivery.renew_shares().await;
            // A short look again: the last batch may have ended between the two lines.
            let _ = tokio::time::timeout(Duration::from_millis(20), worker.room.notified()).await;
        }
    }
}

impl Loops {
    const fn new(hung_after: Duration) -> Self {
        Self { hung_after, stopper: None, health: Vec::new(), tasks: Vec::new(), storage: None }
    }

    /// Runs the loops of every process that has work: sending and receiving wake-ups.
    fn begin(&mut self, inner: &Inner) -> StopSignal {
        let (stopper, stop) = stop::channel();
        self.stopper = Some(stopper);
        self.health.clear();
        if !inner.components.has(Component::Outbox) {
            return stop;
        }
        let (store, wake) = (inner.worker.store.clone(), inner.worker.wake.clone());
        let notifier = {
            let (store, wake) = (store.clone(), wake.clone());
            move || WakeNotifier { store: store.clone(), wake: wake.clone() }
        };
        self.run("wake notifier", notifier, &stop);
        let listener = move || WakeListener { store: store.clone(), wake: wake.clone(), ear: None };
        self.run("wake listener", listener, &stop);
        stop
    }

    /// Runs the loops that plan jobs, reap lost claims and delete old history, for the components that the
    /// engine was built of.
    fn run_maintenance(&mut self, inner: &Inner, stop: &StopSignal) {
        let (store, wake) = (inner.worker.store.clone(), inner.worker.wake.clone());
        let (poll_max, retention) = (inner.worker.poll_max, inner.retention);
        let components = inner.components;
        if components.has(Component::Jobs) {
            let (store, wake) = (store.clone(), wake.clone());
            let planner = move || JobPlanner::new(store.clone(), wake.clone(), poll_max);
            self.run("job planner", planner, stop);
        }
        if components.has(Component::Outbox) {
            let store = store.clone();
            self.run("reaper", move || Reaper::new(store.clone(), wake.clone()), stop);
        }
        let pruner = {
            let store = store.clone();
            move || Pruner::new(store.clone(), retention).only(components)
        };
        self.run("retention", pruner, stop);
        if components.has(Component::Inbox) {
            let inbox = inner.inbox;
            let keeper = move || InboxPruner::new(store.clone(), inbox, retention.messages);
            self.run("inbox maintenance", keeper, stop);
        }
        if components.has(Component::Flows) {
            let delivery = Arc::clone(&inner.delivery);
            self.run("early receipts", move || EarlyReceipts::new(Arc::clone(&delivery), poll_max), stop);
        }
    }

    fn run_workers(&mut self, inner: &Inner, stop: &StopSignal) {
        if !inner.components.has(Component::Outbox) {
            return;
        }
        let worker = {
            let (worker, executors, stop) =
                (Arc::clone(&inner.worker), inner.executors.clone(), stop.clone());
            move || WorkerLoop::new(Arc::clone(&worker), executors.clone(), &stop)
        };
        self.run("worker", worker, stop);
        if inner.components.has(Component::Flows) && inner.delivery.limiters.has_shares() {
            let delivery = Arc::clone(&inner.delivery);
            self.run("channel shares", move || ShareRenewal::new(Arc::clone(&delivery)), stop);
        }
        if inner.handlers.slots.is_empty() {
            return;
        }
        let helper = {
            let (worker, handle, stop) = (Arc::clone(&inner.worker), Arc::clone(&inner.handle), stop.clone());
            move || WorkerLoop::new(Arc::clone(&worker), vec![Arc::clone(&handle)], &stop).helping()
        };
        self.run("worker helper", helper, stop);
    }

    fn run<T: LoopBody + 'static>(
        &mut self,
        name: &'static str,
        make: impl Fn() -> T + Send + 'static,
        stop: &StopSignal,
    ) {
        let health = LoopHealth::new(name, self.hung_after);
        self.health.push(health.clone());
        self.tasks.push(tokio::spawn(drive(make, health, stop.clone())));
    }
}

fn gone() -> Error {
    Error::Conflict("this id was admitted before, and its message is gone by now".into())
}
