//! The sender: looks for due sends and expiries, claims them in fair shares, and posts them.
//!
//! Any number of processes run it at the same time; what is claimed by one is nobody else's. It looks
//! when entries were written in this process, when another process has written anything at all, when
//! the next known due time comes, and now and then in any case.

use super::channel::Channels;
use super::posting::{Posted, Posting};
use super::pulse::Ticks;
use super::shelf::Shelf;
use super::stop::{self, Stop};
use super::templates::Templates;
use super::wake::Wake;
use crate::base::clock::monotonic;
use crate::base::error::Result;
use crate::base::limits::{CLAIM_ITEMS_MAX, POLL_MIN};
use crate::rules::share::{self, Offer, Take};
use crate::store::Store;
use crate::store::claims::Wish;
use crate::store::entries::look_due::{EntryLane, Purpose};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Claims that are out at once.
const POSTINGS_MAX: usize = 3;
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
    /// The link to a survey, with `{publicId}` in it.
    pub survey_url: String,
    /// The name under which this process claims.
    pub owner: String,
    /// How long a claim is held before it must be renewed.
    pub lease: Duration,
    /// Wake-ups.
    pub wake: Wake,
    /// Claims that are going on.
    pub postings: AtomicUsize,
    /// Told when one is through.
    pub room: Notify,
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
            let (postings, expired, seen) = self.look().await?;
            all.expired += expired;
            all.seen += seen;
            let (_stopper, stop) = stop::channel();
            for posting in postings {
                let Posted { sent, failed } = posting.run(stop.clone()).await;
                all.sent += sent;
                all.failed += failed;
            }
            if seen == 0 {
                return Ok(all);
            }
        }
    }

    /// One look: what was claimed, how many entries expired, and how much work was seen.
    async fn look(&mut self) -> Result<(Vec<Posting>, usize, usize)> {
        let view = self.post.store.due_entries().await?;
        self.next = view.next.map(|next| next.since(view.now));
        let expiring = self.takes(&view.lanes, Purpose::Expire);
        let quieted = self.post.store.expire_entries(expiring).await?;
        let takes = self.takes(&view.lanes, Purpose::Send);
        if takes.is_empty() {
            return Ok((Vec::new(), quieted.expired, quieted.seen));
        }
        let (owner, lease) = (self.post.owner.clone(), self.post.lease);
        let asked = monotonic();
        let outgoing = self.post.store.begin_sends(Wish { owner, lease, takes }).await?;
        let seen: usize = outgoing.taken.values().sum();
        let posting = Posting::new(&self.post, outgoing, asked);
        Ok((posting.into_iter().collect(), quieted.expired, quieted.seen + seen))
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
        if self.post.postings.load(Ordering::Relaxed) >= POSTINGS_MAX {
            self.next = None;
            return Ok(());
        }
        let (postings, _, seen) = self.look().await?;
        let Some(stop) = self.stop.clone() else { return Ok(()) };
        for posting in postings {
            tokio::spawn(posting.run(stop.clone()));
        }
        self.poll = if seen > 0 { Duration::ZERO } else { (self.poll * 2).clamp(POLL_MIN, self.poll_max) };
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
