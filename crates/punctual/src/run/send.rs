//! The loop of the pipeline: looks for ready lanes of entries, deliveries and events, shares its room among
//! them, and lets each lane's executor (`run/executor.rs`) claim and work.
//!
//! Any number of processes run it at the same time; what is claimed by one is nobody else's. It looks
//! when entries were written in this process, when another process has written anything at all, when
//! the next known due time comes, and now and then in any case.

use super::channel::Channels;
use super::channel_limiter::ChannelLimiters;
use super::database_clock::DatabaseClock;
use super::definition_cache::DefinitionCache;
use super::delivery_batch::{BatchCounts, DeliveryBatch};
use super::event_kinds::EventKinds;
use super::executor::{Executor, WorkRound};
use super::executors;
use super::kinds::Kinds;
use super::pulse::Ticks;
use super::stop::{self, Stop};
use super::templates::Templates;
use super::wake::Wake;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::limits::{CLAIM_ITEMS_MAX, POLL_MIN, SEND_WINDOW};
use crate::rules::channel::ChannelPolicy;
use crate::rules::share::{self, LaneQuota, Offer};
use crate::store::Store;
use crate::store::entries::ready_lanes::{DueEntries, EntryLane};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Claims that are out at once when another is begun.
const POSTINGS_MAX: usize = 3;
/// Wake-ups make it look at most this often.
const LOOK_MIN: Duration = Duration::from_millis(20);

/// What all postings of a process share.
#[derive(Debug)]
pub struct DeliveryContext {
    /// The database.
    pub store: Store,
    /// The channels.
    pub channels: Channels,
    /// The kinds of entries.
    pub kinds: Kinds,
    /// The surveys.
    pub shelf: Arc<DefinitionCache>,
    /// The message templates.
    pub templates: Templates,
    /// The kinds of events.
    pub event_kinds: Arc<EventKinds>,
    /// How often each channel may be used, and whether it works.
    pub gates: ChannelLimiters,
    /// How some channels are used.
    pub policies: BTreeMap<String, ChannelPolicy>,
    /// How all others are.
    pub usual: ChannelPolicy,
    /// The link to a survey, with `{publicId}` in it.
    pub survey_url: String,
    /// The link that ends letters of a kind, with `{token}` in it; none if nobody serves such links.
    pub unsubscribe_url: Option<String>,
    /// The name under which this process claims.
    pub owner: String,
    /// How long a claim is held before it must be renewed.
    pub lease: Duration,
    /// Wake-ups.
    pub wake: Wake,
    /// Whether anybody tells people of events, so that a new one is worth a look.
    pub tells: AtomicBool,
    /// When a channel opens that held something back.
    pub held: Mutex<Option<Timestamp>>,
    /// What went wrong beside the loop since its last look.
    pub trouble: Mutex<Option<Error>>,
    /// Whether the database's clock is moved by hand.
    pub by_hand: bool,
    /// Claims that are going on.
    pub postings: AtomicUsize,
    /// Told when one is through.
    pub room: Notify,
}

impl DeliveryContext {
    /// When the first channel opens that held something back at the last look; for a clock that is moved by
    /// hand.
    #[must_use]
    pub fn held_until(&self) -> Option<Timestamp> {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sends of a claim by these channels may be begun before its mark is moved; all if `None`.
    pub(super) fn window<'c>(&self, mut channels: impl Iterator<Item = &'c String>) -> Option<usize> {
        let at_once = channels.all(|key| self.gates.of(key).answers_at_once());
        (!at_once).then_some(SEND_WINDOW)
    }

    fn note_held(&self, at: Timestamp) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(held.map_or(at, |known| known.min(at)));
    }

    /// Remembers what went wrong beside the loop.
    pub(super) fn note_trouble(&self, error: Error) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take_trouble(&self) -> Result<()> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        trouble.map_or(Ok(()), Err)
    }

    fn forget_held(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A claim that is going on: the loop takes no more than so many.
#[derive(Debug)]
pub struct InFlightGuard(Arc<DeliveryContext>);

impl InFlightGuard {
    /// One more.
    #[must_use]
    pub fn new(post: &Arc<DeliveryContext>) -> Self {
        post.postings.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(post))
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.postings.fetch_sub(1, Ordering::Relaxed);
        self.0.room.notify_waiters();
    }
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Letters that a channel took.
    pub sent: usize,
    /// Tries that did not go well.
    pub failed: usize,
    /// Entries that expired.
    pub expired: usize,
    /// Work that was looked at, whatever came of it.
    pub seen: usize,
}

impl Round {
    /// Adds what another one did.
    pub const fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.failed += other.failed;
        self.expired += other.expired;
        self.seen += other.seen;
    }
}

/// What one look brought.
struct Look {
    postings: Vec<DeliveryBatch>,
    expired: usize,
    seen: usize,
}

/// The loop that sends.
#[derive(Debug)]
pub struct Sender {
    post: Arc<DeliveryContext>,
    executors: Arc<[Box<dyn Executor>]>,
    batch: usize,
    turn: usize,
    poll_max: Duration,
    poll: Duration,
    next: Option<Duration>,
    stop: Option<Stop>,
}

impl Sender {
    /// A sender that claims up to `batch` letters at once.
    #[must_use]
    pub fn new(post: Arc<DeliveryContext>, batch: usize, poll_max: Duration) -> Self {
        let batch = batch.clamp(1, CLAIM_ITEMS_MAX);
        let executors = executors::of(&post.kinds).into();
        Self { post, executors, batch, turn: 0, poll_max, poll: POLL_MIN, next: None, stop: None }
    }

    /// One that posts beside its own loop, until this stop.
    #[must_use]
    pub fn stopped_by(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Does everything that is due by now, and waits for it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn run_due(&mut self) -> Result<Round> {
        let mut all = Round::default();
        loop {
            let look = self.look().await?;
            all.expired += look.expired;
            all.seen += look.seen;
            let (_stopper, stop) = stop::channel();
            let mut trouble = Ok(());
            for posting in look.postings {
                match posting.run(stop.clone()).await {
                    Ok(BatchCounts { sent, failed }) => {
                        all.sent += sent;
                        all.failed += failed;
                    }
                    // What else was claimed is posted all the same.
                    Err(error) => trouble = Err(error),
                }
            }
            trouble?;
            if look.seen == 0 {
                return Ok(all);
            }
        }
    }

    /// One look: every executor claims of what is ready, and does or begins it.
    async fn look(&mut self) -> Result<Look> {
        let mut view = self.post.store.due_entries().await?;
        if view.unrouted {
            // There may be no handler in this process, and so nobody else who would.
            while self.post.store.route_waiting().await? > 0 {}
            view = self.post.store.due_entries().await?;
        }
        self.next = view.next.map(|next| next.since(view.now));
        self.post.tells.store(view.tells, Ordering::Relaxed);
        self.post.forget_held();
        let (post, stop) = (Arc::clone(&self.post), self.stop.clone());
        let mut round = WorkRound {
            post: &post,
            ready: &view,
            present: DatabaseClock::new(view.now, post.by_hand),
            batch: self.batch,
            stop: stop.as_ref(),
            postings: Vec::new(),
            expired: 0,
            seen: 0,
        };
        match self.run_executors(&mut round).await {
            Err(error) if round.postings.is_empty() => return Err(error),
            // What was claimed is posted all the same.
            Err(error) => tracing::warn!(target: "punctual", %error, "a look for letters broke off"),
            Ok(()) => {}
        }
        let WorkRound { postings, expired, seen, .. } = round;
        Ok(Look { postings, expired, seen })
    }

    async fn run_executors(&mut self, round: &mut WorkRound<'_>) -> Result<()> {
        for executor in Arc::clone(&self.executors).iter() {
            if round.is_full() {
                break;
            }
            let quotas = self.quotas(executor.as_ref(), round.ready, round.present.now());
            if !quotas.is_empty() {
                executor.run(round, quotas).await?;
            }
        }
        Ok(())
    }

    /// Fair shares of an executor's lanes, of no more than each has room for. It is remembered when the
    /// first of those opens that have none.
    fn quotas(&mut self, executor: &dyn Executor, ready: &DueEntries, now: Timestamp) -> Vec<LaneQuota> {
        let lanes: Vec<&EntryLane> = ready.lanes.iter().filter(|lane| executor.serves(lane)).collect();
        let mut quotas = self.shares(&lanes);
        for quota in &mut quotas {
            let Some(lane) = lanes.iter().find(|lane| lane.lane == quota.lane) else { continue };
            let room = executor.room(&self.post, lane, now);
            quota.quota = quota.quota.min(room.items);
            if let Some(at) = room.opens_at.filter(|_| quota.quota == 0) {
                self.held_back(at, now);
            }
        }
        quotas.retain(|quota| quota.quota > 0);
        quotas
    }

    fn held_back(&mut self, at: Timestamp, now: Timestamp) {
        let wait = at.since(now);
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
        self.post.note_held(at);
    }

    fn shares(&mut self, lanes: &[&EntryLane]) -> Vec<LaneQuota> {
        let offer = |lane: &&EntryLane| Offer { lane: lane.lane, handler: 0, since: lane.first_due };
        let offers: Vec<Offer> = lanes.iter().map(offer).collect();
        let takes = share::plan(&offers, &[self.batch], self.turn);
        self.turn = self.turn.wrapping_add(takes.len());
        takes
    }
}

impl Ticks for Sender {
    async fn tick(&mut self) -> Result<()> {
        // What went wrong beside this loop is its trouble: it waits a while, and health says so.
        self.post.take_trouble()?;
        if self.post.postings.load(Ordering::Relaxed) >= POSTINGS_MAX {
            self.next = None;
            return Ok(());
        }
        let look = self.look().await?;
        let Some(stop) = self.stop.clone() else { return Ok(()) };
        for posting in look.postings {
            tokio::spawn(posting.run_beside(stop.clone()));
        }
        self.poll =
            if look.seen > 0 { Duration::ZERO } else { (self.poll * 2).clamp(POLL_MIN, self.poll_max) };
        Ok(())
    }

    async fn wait(&mut self) {
        if self.post.postings.load(Ordering::Relaxed) >= POSTINGS_MAX {
            // A short look again: the last one may have ended between the two lines.
            let _ = tokio::time::timeout(LOOK_MIN, self.post.room.notified()).await;
            return;
        }
        let pause = self.next.map_or(self.poll, |next| next.min(self.poll));
        let woken = async {
            // A look that just was is soon enough; the wake-up itself is not lost meanwhile.
            tokio::time::sleep(LOOK_MIN).await;
            self.post.wake.entries_changed().await;
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = woken => self.poll = POLL_MIN,
        }
    }
}
