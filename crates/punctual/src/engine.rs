//! The engine: everything put together, and the verbs that users call.
//!
//! An [`Engine`] is a handle: cheap to clone, any number per process, no globals. It can be
//! built without any loop (only to enqueue), with handlers, or with a worker loop of the
//! host's own ([`Engine::claim`]).

mod build;
mod claims;
mod event_kinds;
mod explain;
mod health;
mod ingest;
mod jobs;
mod preview;
mod receipts;
mod replay;
mod resend;
mod results;
mod subscriptions;
mod timers;
mod travel;
mod visit;

pub use crate::run::event_kinds::KindSet;
pub use crate::run::ingest::{Chosen, Ingested, Instance, Outcome};
pub use build::Builder;
pub use claims::{ClaimOptions, ItemSettlement};
pub use explain::{Explained, ExplainedSend, ExplainedTrigger};
pub use health::Health;
pub use ingest::Ingest;
pub use preview::{Trial, Tried};
pub use replay::Outlook;
pub use resend::{NotResent, Resend, Resent};
pub use results::{After, Comment, FROM_THE_START, SurveyResults};
pub use subscriptions::DeletedSubscription;
pub use timers::{Changed, Move};
pub use travel::{Stepped, Ticked};
pub use visit::{Submitted, Visit};

use crate::base::error::{Error, Result};
use crate::base::id::MessageId;
use crate::base::limits::CLAIM_ITEMS_MAX;
use crate::base::tenant::Tenant;
use crate::rules::message::NewMessage;
use crate::run::batch::Batch;
use crate::run::channel::Channels;
use crate::run::dispatch::{Dispatcher, Duty, Rest, Shop, Station};
use crate::run::inbox::{InboxKeeper, InboxSettings};
use crate::run::lease::Candidate;
use crate::run::plan::Planner;
use crate::run::prune::Pruner;
use crate::run::pulse::{Pulse, Ticks, drive};
use crate::run::reap::Reaper;
use crate::run::receipts::EarlyReceipts;
use crate::run::sandbox::Sandbox;
use crate::run::send::{DeliveryContext, Sender};
use crate::run::stop::{self, Phase, Stop, Stopper};
use crate::run::templates::Templates;
use crate::run::wake::{Hearer, Teller, Wake};
use crate::store::Store;
use crate::store::clock::ClockMode;
use crate::store::messages::{Enqueued, check};
use crate::store::tx::VerbFuture;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a stop that has given up waits for the last settlements.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The engine.
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
    shop: Arc<Shop>,
    post: Arc<DeliveryContext>,
    clock: ClockMode,
    retention: Duration,
    log_retention: Duration,
    inbox: InboxSettings,
    loops: Mutex<Loops>,
    stepping: tokio::sync::Mutex<()>,
    /// The words of what is sent.
    /// Topics known to have a lane; only ever saves a question.
    routed: Mutex<HashMap<Tenant, HashSet<String>>>,
    sandbox: Option<Sandbox>,
}

#[derive(Debug, Default)]
struct Loops {
    stopper: Option<Stopper>,
    pulses: Vec<Pulse>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Engine {
    /// Begins to build an engine on `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.
    #[must_use]
    pub fn builder(database: impl Into<String>) -> Builder {
        Builder::new(database.into())
    }

    /// The raw verbs: claim, settle, extend, and all others.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.shop.store
    }

    /// The message templates that this process keeps ready.
    #[must_use]
    pub fn templates(&self) -> &Templates {
        &self.inner.post.templates
    }

    /// Whose hand moves time.
    #[must_use]
    pub fn clock(&self) -> ClockMode {
        self.inner.clock
    }

    /// The topics that have a handler here.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        let topic = |station: &Station| match &station.duty {
            Duty::Topic(topic) => Some(topic.clone()),
            Duty::Subscriber(_) => None,
        };
        self.inner.shop.stations.iter().filter_map(topic).collect()
    }

    /// The channels of this process.
    #[must_use]
    pub fn channels(&self) -> &Channels {
        &self.inner.post.channels
    }

    /// The sandbox, if there is one: always on a manual clock.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.inner.sandbox.as_ref()
    }

    /// Writes messages, whole or not at all, and wakes whoever may handle them.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem; nothing is written then.
    pub fn enqueue(&self, tenant: Tenant, messages: Vec<NewMessage>) -> VerbFuture<'_, Vec<Enqueued>> {
        VerbFuture::new(async move {
            check(&messages)?;
            self.route(tenant, &messages).await?;
            let enqueued = self.store().enqueue_checked(tenant, messages).await?;
            crate::run::gauge::enqueued(enqueued.len());
            self.tell().await;
            Ok(enqueued)
        })
    }

    /// Wakes everybody who may have something to do now.
    async fn tell(&self) {
        self.wake();
        if self.inner.post.tells.load(Ordering::Relaxed) {
            self.inner.shop.wake.entries();
        }
        self.tell_others().await;
    }

    /// Tells other processes, where no loop does.
    async fn tell_others(&self) {
        if self.is_silent() {
            // A lost word delays the work and loses none.
            self.store().notify().await.ok();
        }
    }

    /// Whether no loop is there to tell other processes of new work.
    fn is_silent(&self) -> bool {
        let loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.clock == ClockMode::System && loops.stopper.is_none()
    }

    /// Topics that this process has not seen yet get their lanes first, so that their
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
            enqueued.first().and_then(Enqueued::id).ok_or_else(gone)
        })
    }

    /// A candidate for the lease of this name: one holder at a time, across processes. Needs
    /// no loops.
    #[must_use]
    pub fn lease(&self, tenant: Tenant, name: impl Into<String>) -> Candidate {
        Candidate::new(self.store().clone(), tenant, name, self.inner.shop.owner.as_str())
    }

    /// Tells the engine that work was written by other means, such as a transaction of the
    /// host's own. Without it the work is found by the next look, which is only later.
    pub fn wake(&self) {
        self.inner.shop.wake.all();
    }

    /// Waits for the next wake-up, for those who claim by themselves.
    pub async fn woken(&self) {
        self.inner.shop.wake.heard_by_all().await;
    }

    /// Starts only what a process needs that hands out work to remote workers or publishes,
    /// but handles nothing itself: telling and hearing wake-ups.
    pub fn start_listening(&self) {
        let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.clock == ClockMode::Manual || loops.stopper.is_some() {
            return;
        }
        loops.begin(self.store(), &self.inner.shop.wake);
    }

    /// Starts the loops. On a manual clock nothing runs by itself, so this does nothing;
    /// see [`Engine::step`]. A second start while running does nothing either.
    pub fn start(&self) {
        let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.clock == ClockMode::Manual || loops.stopper.is_some() {
            return;
        }
        let (store, wake) = (self.store().clone(), self.inner.shop.wake.clone());
        let stop = loops.begin(&store, &wake);
        loops.run("plan", Planner::new(store.clone(), wake.clone(), self.inner.shop.poll_max), &stop);
        loops.run("reap", Reaper::new(store.clone(), wake), &stop);
        loops.run("prune", Pruner::new(store.clone(), self.inner.retention, self.inner.log_retention), &stop);
        loops.run("inbox", InboxKeeper::new(store, self.inner.inbox), &stop);
        let sender = Sender::new(Arc::clone(&self.inner.post), CLAIM_ITEMS_MAX, self.inner.shop.poll_max);
        loops.run("send", sender.stopped_by(&stop), &stop);
        let early = EarlyReceipts::new(Arc::clone(&self.inner.post), self.inner.shop.poll_max);
        loops.run("receipts", early, &stop);
        if !self.inner.shop.stations.is_empty() {
            loops.run("dispatch", DispatchLoop::new(&self.inner.shop, &stop, false), &stop);
            loops.run("help", DispatchLoop::new(&self.inner.shop, &stop, true), &stop);
        }
    }

    /// Stops: begins nothing new, hands back what was not begun, waits up to `limit` for
    /// what runs, and gives up the rest (it comes back when its lease ends). Nothing is lost.
    pub async fn stop(&self, limit: Duration) {
        let (stopper, tasks) = {
            let mut loops = self.inner.loops.lock().unwrap_or_else(PoisonError::into_inner);
            (loops.stopper.take(), std::mem::take(&mut loops.tasks))
        };
        let Some(stopper) = stopper else { return };
        stopper.say(Phase::Finishing);
        for task in tasks {
            task.await.ok();
        }
        let shop = &self.inner.shop;
        let finished = || async {
            let post = &self.inner.post.postings;
            while shop.batches.load(Ordering::Relaxed) + post.load(Ordering::Relaxed) > 0 {
                // A short look again: the last batch may have ended between the two lines.
                let _ = tokio::time::timeout(Duration::from_millis(20), shop.room.notified()).await;
            }
        };
        if tokio::time::timeout(limit, finished()).await.is_err() {
            stopper.say(Phase::Over);
            // Batches that are cut short still write down what they know.
            let _ = tokio::time::timeout(LAST_WORDS, finished()).await;
        }
    }
}

impl Loops {
    /// The loops that every process has.
    fn begin(&mut self, store: &Store, wake: &Wake) -> Stop {
        let (stopper, stop) = stop::channel();
        self.stopper = Some(stopper);
        self.pulses.clear();
        self.run("tell", Teller { store: store.clone(), wake: wake.clone() }, &stop);
        self.run("listen", Hearer { store: store.clone(), wake: wake.clone(), ear: None }, &stop);
        stop
    }

    fn run(&mut self, name: &'static str, ticks: impl Ticks + 'static, stop: &Stop) {
        let pulse = Pulse::new(name);
        self.pulses.push(pulse.clone());
        self.tasks.push(tokio::spawn(drive(ticks, pulse, stop.clone())));
    }
}

/// The dispatcher as a free-running loop: its batches run beside it. A second one helps
/// while there is more than one can bring, and costs nothing otherwise.
struct DispatchLoop {
    dispatcher: Dispatcher,
    rest: Rest,
    stop: Stop,
    helper: bool,
}

impl DispatchLoop {
    fn new(shop: &Arc<Shop>, stop: &Stop, helper: bool) -> Self {
        let dispatcher = Dispatcher::new(Arc::clone(shop));
        Self { dispatcher, rest: Rest::None, stop: stop.clone(), helper }
    }
}

impl Ticks for DispatchLoop {
    async fn tick(&mut self) -> Result<()> {
        let (batches, rest) = self.dispatcher.tick().await?;
        self.rest = rest;
        for batch in batches {
            tokio::spawn(batch.run(self.stop.clone()));
        }
        Ok(())
    }

    async fn wait(&mut self) {
        if self.helper {
            self.dispatcher.wait_for_call(self.rest).await;
        } else {
            self.dispatcher.wait(self.rest).await;
        }
    }
}

fn gone() -> Error {
    Error::Conflict("this id was admitted before, and its message is gone by now".into())
}

/// Runs batches to their end, side by side; answers what became of them.
async fn run_all(batches: Vec<Batch>) -> (usize, usize) {
    let (_stopper, stop) = stop::channel();
    let running: Vec<_> = batches.into_iter().map(|b| tokio::spawn(b.run(stop.clone()))).collect();
    let (mut done, mut failed) = (0, 0);
    for task in running {
        if let Ok(tally) = task.await {
            done += tally.done;
            failed += tally.failed;
        }
    }
    (done, failed)
}
