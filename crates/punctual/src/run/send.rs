//! The sender: looks for events to tell of, due sends and expiries, claims them in fair shares, and posts
//! them.
//!
//! Any number of processes run it at the same time; what is claimed by one is nobody else's. It looks
//! when entries were written in this process, when another process has written anything at all, when
//! the next known due time comes, and now and then in any case.

mod advance;

use super::channel::Channels;
use super::delivering::Delivering;
use super::event_kinds::EventKinds;
use super::gate::Gates;
use super::inviting::Inviting;
use super::notify::{self, MayBegin};
use super::posting::{Posted, Posting};
use super::present::Present;
use super::pulse::Ticks;
use super::shelf::Shelf;
use super::stop::{self, Stop};
use super::templates::Templates;
use super::wake::Wake;
use crate::base::clock::{Timestamp, monotonic};
use crate::base::error::{Error, Result};
use crate::base::limits::{CLAIM_ITEMS_MAX, POLL_MIN, SEND_WINDOW};
use crate::rules::channel::ChannelPolicy;
use crate::rules::entry::EntryKind;
use crate::rules::purpose::Purpose;
use crate::rules::share::{self, Offer, Take};
use crate::store::Store;
use crate::store::claims::Wish;
use crate::store::entries::look_due::{DueEntries, EntryLane};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Claims that are out at once when another is begun.
const POSTINGS_MAX: usize = 3;
/// Claims of letters that are begun with their notifications, of the events that are told at once.
const BEGUN_MAX: usize = 2;
/// How long letters wait for a process that has their channel before they fail for want of it.
const NO_CHANNEL_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Wake-ups make it look at most this often.
const LOOK_MIN: Duration = Duration::from_millis(20);

/// What all postings of a process share.
#[derive(Debug)]
pub struct Post {
    /// The database.
    pub store: Store,
    /// The channels.
    pub channels: Channels,
    /// The surveys.
    pub shelf: Arc<Shelf>,
    /// The message templates.
    pub templates: Templates,
    /// The kinds of events.
    pub event_kinds: Arc<EventKinds>,
    /// How often each channel may be used, and whether it works.
    pub gates: Gates,
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

impl Post {
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
pub struct Going(Arc<Post>);

impl Going {
    /// One more.
    #[must_use]
    pub fn new(post: &Arc<Post>) -> Self {
        post.postings.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(post))
    }
}

impl Drop for Going {
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
    bags: Vec<Bag>,
    expired: usize,
    seen: usize,
}

/// A claim of letters, whatever they are about.
enum Bag {
    Invitations(Box<Posting<Inviting>>),
    Deliveries(Box<Posting<Delivering>>),
}

impl Bag {
    async fn run(self, stop: Stop) -> Result<Posted> {
        match self {
            Self::Invitations(posting) => posting.run(stop).await,
            Self::Deliveries(posting) => posting.run(stop).await,
        }
    }

    async fn run_beside(self, stop: Stop) {
        match self {
            Self::Invitations(posting) => posting.run_beside(stop).await,
            Self::Deliveries(posting) => posting.run_beside(stop).await,
        }
    }
}

/// The loop that sends.
#[derive(Debug)]
pub struct Sender {
    post: Arc<Post>,
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
    pub fn new(post: Arc<Post>, batch: usize, poll_max: Duration) -> Self {
        let batch = batch.clamp(1, CLAIM_ITEMS_MAX);
        Self { post, batch, turn: 0, poll_max, poll: POLL_MIN, next: None, stop: None }
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
            for posting in look.bags {
                match posting.run(stop.clone()).await {
                    Ok(Posted { sent, failed }) => {
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

    /// One look: what is due is claimed, told or ended.
    async fn look(&mut self) -> Result<Look> {
        let mut view = self.post.store.due_entries().await?;
        if view.unrouted {
            // There may be no handler in this process, and so nobody else who would.
            while self.post.store.route_waiting().await? > 0 {}
            view = self.post.store.due_entries().await?;
        }
        let present = Present::new(view.now, self.post.by_hand);
        self.next = view.next.map(|next| next.since(view.now));
        self.post.tells.store(view.tells, Ordering::Relaxed);
        self.post.forget_held();
        let expiring = self.takes(&view.lanes, Purpose::Expire);
        let quieted = self.post.store.expire_entries(expiring).await?;
        let telling = self.takes(&view.lanes, Purpose::Dispatch);
        let mut look = Look { bags: Vec::new(), expired: quieted.expired, seen: quieted.seen };
        match self.tell_and_begin(telling, &view, present, &mut look).await {
            Err(error) if look.bags.is_empty() => return Err(error),
            // What was claimed is posted all the same.
            Err(error) => tracing::warn!(target: "punctual", %error, "a look for letters broke off"),
            Ok(()) => {}
        }
        Ok(look)
    }

    /// Whoever posts in the look itself does so with one claim after the other: one that waited for its turn
    /// would not be renewed.
    async fn tell_and_begin(
        &mut self,
        telling: Vec<Take>,
        view: &DueEntries,
        present: Present,
        look: &mut Look,
    ) -> Result<()> {
        self.tell(telling, view, present, look).await?;
        if !self.has_enough(look) {
            self.advance(view, present, look).await?;
        }
        for kind in EntryKind::ALL {
            if !self.has_enough(look) {
                self.begin_deliveries(view, kind, present, look).await?;
            }
        }
        Ok(())
    }

    const fn has_enough(&self, look: &Look) -> bool {
        self.stop.is_none() && !look.bags.is_empty()
    }

    /// A few events are told at once, many beside the look.
    async fn tell(
        &mut self,
        takes: Vec<Take>,
        view: &DueEntries,
        present: Present,
        look: &mut Look,
    ) -> Result<()> {
        let may = self.may_begin(view, present);
        let Some(telling) = notify::begin(&self.post, takes, may).await? else { return Ok(()) };
        look.seen += telling.events();
        match &self.stop {
            Some(stop) if telling.events() >= self.batch => {
                drop(tokio::spawn(telling.run_beside(stop.clone())));
                Ok(())
            }
            stop => {
                let mut hand = |posting| look.bags.push(Bag::Deliveries(Box::new(posting)));
                telling.run(stop.as_ref(), &mut hand).await
            }
        }
    }

    /// None by channels for which something waits: that goes first.
    fn may_begin(&self, view: &DueEntries, present: Present) -> MayBegin {
        let waits = view.lanes.iter().filter(|lane| lane.purpose == Purpose::Send);
        MayBegin {
            claims: if self.stop.is_some() { BEGUN_MAX } else { 1 },
            batch: self.batch,
            awaited: waits.map(|lane| lane.channel.clone()).collect(),
            present,
        }
    }

    fn wish(&self, takes: Vec<Take>) -> Wish {
        Wish { owner: self.post.owner.clone(), lease: self.post.lease, takes }
    }

    fn is_stopping(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }

    async fn begin_deliveries(
        &mut self,
        view: &DueEntries,
        kind: EntryKind,
        present: Present,
        look: &mut Look,
    ) -> Result<()> {
        let takes = self.open_takes(view, present.now(), kind);
        if takes.is_empty() {
            return Ok(());
        }
        let asked = monotonic();
        let channels = view.lanes.iter().filter(|lane| takes.iter().any(|take| take.lane == lane.lane));
        let window = self.post.window(channels.map(|lane| &lane.channel));
        let outgoing = self.post.store.begin_deliveries(self.wish(takes), window).await?;
        look.seen += outgoing.taken.values().sum::<usize>();
        let post = &self.post;
        look.bags.extend(match kind {
            EntryKind::Survey => {
                let posting = Posting::new(post, Inviting::default(), outgoing, asked);
                posting.map(Box::new).map(Bag::Invitations)
            }
            EntryKind::Notification => {
                let posting = Posting::new(post, Delivering::default(), outgoing, asked);
                posting.map(Box::new).map(Bag::Deliveries)
            }
        });
        Ok(())
    }

    /// Shares of lanes whose channels are open, of no more than these allow now. It is remembered when the
    /// first of the others opens.
    fn open_takes(&mut self, view: &DueEntries, now: Timestamp, kind: EntryKind) -> Vec<Take> {
        let of_kind = view.lanes.iter().filter(|lane| lane.kind == Some(kind)).cloned();
        let mut takes = self.takes(&of_kind.collect::<Vec<_>>(), Purpose::Send);
        for take in &mut takes {
            let Some(lane) = view.lanes.iter().find(|lane| lane.lane == take.lane) else { continue };
            if let Some(until) = self.is_for_others_until(lane).filter(|until| *until > now) {
                take.quota = 0;
                self.held_back(until, now);
                continue;
            }
            let gate = self.post.gates.of(&lane.channel);
            take.quota = take.quota.min(gate.room(now));
            if take.quota == 0
                && let Some(at) = gate.opens_at(now)
            {
                self.held_back(at, now);
            }
        }
        takes.retain(|take| take.quota > 0);
        takes
    }

    /// Until when a lane of deliveries is left to others that have its channel, such as one that is being
    /// rolled out. What nobody takes for so long is taken here, and fails for want of a channel. (A survey
    /// sends nothing more then, and expires in its time.)
    fn is_for_others_until(&self, lane: &EntryLane) -> Option<Timestamp> {
        let missing = self.post.channels.get(&lane.channel).is_none();
        missing.then(|| lane.first_due.plus(NO_CHANNEL_PATIENCE))
    }

    fn held_back(&mut self, at: Timestamp, now: Timestamp) {
        let wait = at.since(now);
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
        self.post.note_held(at);
    }

    fn takes(&mut self, lanes: &[EntryLane], purpose: Purpose) -> Vec<Take> {
        let offers: Vec<Offer> = lanes
            .iter()
            .filter(|lane| lane.purpose == purpose)
            .map(|lane| Offer { lane: lane.lane, handler: 0, since: lane.first_due })
            .collect();
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
        for posting in look.bags {
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
