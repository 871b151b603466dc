//! The dispatcher: looks for lanes with due work, shares its handlers' room among them,
//! claims, and hands what it got to [`super::batch`].
//!
//! One tick is: scout if it is time, plan, claim. Between scouts a lane that gave all it
//! was asked for is asked again, from where it left off; one that gave less is done until
//! the next look. While there is work, a scout is due every `SCOUT_PAUSE`, sooner after a
//! wake-up, less often if scouting is dear; so a newcomer waits that long at most, whatever
//! backlog there is.

use super::batch::Batch;
use super::handler::Handler;
use super::line::Line;
use super::subscription::{Roster, Served};
use super::wake::Wake;
use crate::base::clock::{Moment, Timestamp, monotonic};
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::limits::{CLAIM_ITEMS_MAX, POLL_MAX, POLL_MIN};
use crate::rules::pace::Pace;
use crate::rules::purpose::Purpose;
use crate::rules::share::{self, LaneQuota, Offer};
use crate::store::Store;
use crate::store::claims::{ClaimRequest, ClaimedBatch};
use crate::store::planted::Bug;
use crate::store::ready_lanes::{ReadyLane, View};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// Under load, the tables are looked at this often for lanes that have become due …
const SCOUT_PAUSE: Duration = Duration::from_millis(25);
/// … and after a wake-up this soon …
const WOKEN_PAUSE: Duration = Duration::from_millis(5);
/// … leaving out lanes that are known to be deep, but not for longer than this: what became
/// due late there, before where the claims have got to, waits until then.
const WHOLE_SCOUT_PAUSE: Duration = Duration::from_millis(500);
/// Scouting takes at most this share of the time: one part in so many.
const SCOUT_SHARE: u32 = 10;
/// Lanes that one scout statement visits.
const SCOUT_LANES: usize = 512;
/// A claim that brought at least so much says that there is more where it came from.
const DEEP: usize = CLAIM_ITEMS_MAX / 4;

/// What a planted bug waits for: longer than any process lives.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// What a handler is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// The own queue of this topic, in every tenant.
    Topic(String),
    /// Every subscription whose target has this name.
    Subscriber(String),
}

impl Duty {
    /// What is counted under, as a metric's label.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Topic(topic) => topic.clone(),
            Self::Subscriber(name) => format!("handler {name}"),
        }
    }
}

/// A duty with its handler, and how much of it is going on.
pub struct Station {
    /// What it is for.
    pub duty: Duty,
    /// The code.
    pub handler: Arc<dyn Handler>,
    /// How many of its messages run at once.
    pub concurrency: usize,
    pub(super) slots: Arc<Semaphore>,
    pub(super) in_flight: AtomicUsize,
    pub(super) pace: Mutex<Pace>,
    pub(super) lateness: metrics::Histogram,
}

impl std::fmt::Debug for Station {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Station").field("duty", &self.duty).finish_non_exhaustive()
    }
}

impl Station {
    /// A duty whose messages are handled `concurrency` at a time.
    #[must_use]
    pub fn new(duty: Duty, handler: Arc<dyn Handler>, concurrency: usize) -> Self {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            lateness: super::gauge::lateness(&duty.label()),
            duty,
            handler,
            concurrency,
            slots: Arc::new(Semaphore::new(concurrency)),
            in_flight: AtomicUsize::new(0),
            pace: Mutex::new(Pace::default()),
        }
    }

    fn room(&self) -> usize {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.room(self.concurrency).saturating_sub(self.in_flight.load(Ordering::Relaxed))
    }
}

/// What all parts of the worker share.
#[derive(Debug)]
pub struct Shop {
    /// The database.
    pub store: Store,
    /// What is handled here.
    pub stations: Vec<Station>,
    /// What is known of subscriptions.
    pub roster: Roster,
    /// The name under which this process claims.
    pub owner: String,
    /// How long a claim is held before it must be renewed.
    pub lease: Duration,
    /// The longest pause between polls.
    pub poll_max: Duration,
    /// Wake-ups.
    pub wake: Wake,
    /// Told when room has become free.
    pub room: Notify,
    /// Told when there is more than one claimer can bring.
    pub help: Notify,
    /// Where items that were in a crash before wait, to run one at a time.
    pub line: Line,
    /// Batches that are going on.
    pub batches: AtomicUsize,
}

/// Why a dispatcher rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There may be more right now.
    None,
    /// Its handlers are busy.
    Full,
    /// Nothing is due; the next known due time is this far away.
    Idle(Option<Duration>),
}

/// Which station handles a lane, and for which subscription, if it is for one.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) station: usize,
    pub(super) served: Option<Arc<Served>>,
}

/// The looking and claiming half of a worker.
#[derive(Debug)]
pub struct Dispatcher {
    shop: Arc<Shop>,
    topics: HashMap<String, usize>,
    subscribers: HashMap<String, usize>,
    /// Who handles the lanes that were offered.
    seats: HashMap<LaneId, Seat>,
    offers: Vec<Offer>,
    turn: usize,
    /// The first due time beyond the offers, seen from [`Dispatcher::scouted`].
    next_due: Option<Duration>,
    scouted: Option<Moment>,
    scouted_whole: Option<Moment>,
    scout_cost: Duration,
    /// Lanes that gave all they were asked for since the last whole look.
    deep: HashSet<LaneId>,
    poll: Duration,
}

impl Dispatcher {
    /// A dispatcher for all stations of a shop.
    #[must_use]
    pub fn new(shop: Arc<Shop>) -> Self {
        let (mut topics, mut subscribers) = (HashMap::new(), HashMap::new());
        for (n, station) in shop.stations.iter().enumerate() {
            match &station.duty {
                Duty::Topic(topic) => topics.insert(topic.clone(), n),
                Duty::Subscriber(name) => subscribers.insert(name.clone(), n),
            };
        }
        Self {
            shop,
            topics,
            subscribers,
            seats: HashMap::new(),
            offers: Vec::new(),
            turn: 0,
            next_due: None,
            scouted: None,
            scouted_whole: None,
            scout_cost: Duration::ZERO,
            deep: HashSet::new(),
            poll: POLL_MIN,
        }
    }

    /// Forgets what it knows: the next tick looks at the tables.
    pub fn look_again(&mut self) {
        self.scouted = None;
        self.deep.clear();
        self.poll = POLL_MIN;
    }

    /// One round: the batches it claimed, and whether it may rest.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn tick(&mut self) -> Result<(Vec<Batch>, Rest)> {
        if self.must_scout() {
            self.scout().await?;
        }
        let takes = self.plan();
        if takes.is_empty() {
            return Ok((Vec::new(), self.rest()));
        }
        // A message may be owed to a topic's own queue and to its subscriptions. They are not claimed
        // together: words about an item of an own queue name no lane.
        let is_own = |take: &LaneQuota| self.seats.get(&take.lane).is_none_or(|seat| seat.served.is_none());
        let (own, subscribed): (Vec<LaneQuota>, Vec<LaneQuota>) = takes.into_iter().partition(is_own);
        let mut batches = Vec::new();
        for takes in [own, subscribed].into_iter().filter(|takes| !takes.is_empty()) {
            match self.claim_all(&takes).await {
                Ok(claimed) => batches.extend(claimed),
                // What is claimed already is done first; the trouble comes again, or is over.
                Err(_) if !batches.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok((batches, Rest::None))
    }

    async fn claim_all(&mut self, takes: &[LaneQuota]) -> Result<Vec<Batch>> {
        let asked = monotonic();
        let catch = self.claim(takes).await?;
        self.learn(takes, &catch);
        if catch.items.len() >= DEEP {
            self.shop.help.notify_one();
        }
        Ok(Batch::new(&self.shop, &self.seats, catch, asked))
    }

    fn must_scout(&self) -> bool {
        let usual = if self.shop.wake.was_heard() { WOKEN_PAUSE } else { SCOUT_PAUSE };
        let pause = usual.max(self.scout_cost * SCOUT_SHARE);
        self.scouted.is_none_or(|at| self.offers.is_empty() || at.elapsed() >= pause)
    }

    async fn scout(&mut self) -> Result<()> {
        let start = monotonic();
        self.shop.wake.forget();
        let whole = self.scouted_whole.is_none_or(|at| at.elapsed() >= WHOLE_SCOUT_PAUSE);
        if whole || self.deep.is_empty() {
            self.scout_whole().await?;
            self.scouted_whole = Some(monotonic());
        } else {
            self.ready_lanes_beside().await?;
        }
        self.scouted = Some(monotonic());
        self.scout_cost = start.elapsed();
        Ok(())
    }

    /// Looks for lanes beside those that are known to be deep. What has no lane yet is given one,
    /// and looked for again; more than one statement can tell needs a whole look.
    async fn ready_lanes_beside(&mut self) -> Result<()> {
        self.offers.retain(|offer| self.deep.contains(&offer.lane));
        let mut known: Vec<LaneId> = self.deep.iter().copied().collect();
        let mut view = self.shop.store.ready_lanes_beside(known.clone(), SCOUT_LANES).await?;
        if view.lanes.first().is_some_and(|seen| seen.lane == LaneId::UNROUTED) {
            while self.shop.store.route_waiting().await? > 0 {}
            known.push(LaneId::UNROUTED);
            view = self.shop.store.ready_lanes_beside(known, SCOUT_LANES).await?;
        }
        if view.more {
            return self.scout_whole().await;
        }
        self.next_due = None;
        self.consider_all(&view).await
    }

    async fn scout_whole(&mut self) -> Result<()> {
        self.offers.clear();
        self.seats.clear();
        self.deep.clear();
        self.next_due = None;
        let mut after = LaneId(-1);
        loop {
            let view = self.shop.store.ready_lanes(after, SCOUT_LANES).await?;
            let Some(last) = view.lanes.last() else { break };
            after = last.lane;
            if view.lanes[0].lane == LaneId::UNROUTED {
                while self.shop.store.route_waiting().await? > 0 {}
                after = LaneId::UNROUTED;
                continue;
            }
            self.consider_all(&view).await?;
            if !view.more {
                break;
            }
        }
        Ok(())
    }

    async fn consider_all(&mut self, view: &View) -> Result<()> {
        let is_other = |seen: &&ReadyLane| {
            seen.purpose == Purpose::Dispatch && !seen.subscription.is_empty() && !seen.paused
        };
        let served = match &self.subscribers {
            none if none.is_empty() => HashMap::new(),
            _ => {
                let lanes: Vec<LaneId> = view.lanes.iter().filter(is_other).map(|seen| seen.lane).collect();
                self.shop.roster.of(&self.shop.store, &lanes).await?
            }
        };
        for seen in &view.lanes {
            if let Some(seat) = self.seat(seen, served.get(&seen.lane)) {
                self.consider(seen, seat, view.now);
            }
        }
        Ok(())
    }

    /// Who handles a lane here, if anybody does.
    fn seat(&self, seen: &ReadyLane, served: Option<&Arc<Served>>) -> Option<Seat> {
        if seen.purpose != Purpose::Dispatch {
            return None;
        }
        if seen.subscription.is_empty() {
            return Some(Seat { station: *self.topics.get(&seen.topic)?, served: None });
        }
        let station = *self.subscribers.get(served?.target.handler()?)?;
        Some(Seat { station, served: served.cloned() })
    }

    fn consider(&mut self, seen: &ReadyLane, seat: Seat, now: Timestamp) {
        let due = seen.first_due;
        if seen.paused {
            return;
        }
        if due <= now {
            // The scout walked up to its first row; a claim need not walk there again.
            self.offers.push(Offer { lane: seen.lane, handler: seat.station, since: due });
            self.seats.insert(seen.lane, seat);
        } else {
            let away = due.since(now);
            self.next_due = Some(self.next_due.map_or(away, |known| known.min(away)));
        }
    }

    fn plan(&mut self) -> Vec<LaneQuota> {
        // A small claim is a quick one: lanes that are not known to be deep go first.
        let shallow: Vec<Offer> =
            self.offers.iter().filter(|o| !self.deep.contains(&o.lane)).copied().collect();
        let offers = if shallow.is_empty() { &self.offers } else { &shallow };
        // All that is claimed at once fits into one claim row.
        let busy: HashSet<usize> = offers.iter().map(|o| o.handler).collect();
        let most = (CLAIM_ITEMS_MAX / busy.len().max(1)).max(1);
        let room: Vec<usize> = self.shop.stations.iter().map(|s| s.room().min(most)).collect();
        let takes = share::plan(offers, &room, self.turn);
        self.turn = self.turn.wrapping_add(takes.len());
        takes
    }

    async fn claim(&self, takes: &[LaneQuota]) -> Result<ClaimedBatch> {
        let wish =
            ClaimRequest { owner: self.shop.owner.clone(), lease: self.shop.lease, takes: takes.to_vec() };
        self.shop.store.claim(wish).await
    }

    /// A lane that gave all is deep: it is asked again, from where it left off. One that gave
    /// less has nothing more, unless it was asked with that hint: then it is asked once without.
    fn learn(&mut self, takes: &[LaneQuota], catch: &ClaimedBatch) {
        let full = |take: &LaneQuota| catch.taken.get(&take.lane).copied().unwrap_or(0) >= take.quota;
        let mut last_due: HashMap<LaneId, Timestamp> = HashMap::new();
        for claimed in &catch.items {
            let due = last_due.entry(claimed.item.lane()).or_insert(claimed.due_at);
            *due = claimed.due_at.max(*due);
        }
        for take in takes {
            let Some(at) = self.offers.iter().position(|o| o.lane == take.lane) else { continue };
            if full(take) {
                self.deep.insert(take.lane);
                self.offers[at].since = last_due.get(&take.lane).copied().unwrap_or(take.since);
            } else if self.deep.remove(&take.lane) {
                self.offers[at].since = Timestamp::MIN;
            } else {
                self.offers.swap_remove(at);
            }
        }
    }

    fn rest(&mut self) -> Rest {
        if !self.offers.is_empty() {
            return Rest::Full;
        }
        let known = self.next_due.zip(self.scouted);
        Rest::Idle(known.map(|(away, at)| away.saturating_sub(at.elapsed())))
    }

    /// Rests until there may be something to do.
    pub async fn wait(&mut self, rest: Rest) {
        let shop = Arc::clone(&self.shop);
        match rest {
            Rest::None => {}
            Rest::Full => {
                tokio::select! {
                    biased;
                    () = shop.room.notified() => {}
                    () = shop.wake.heard() => self.look_again(),
                    () = tokio::time::sleep(POLL_MIN) => self.look_again(),
                }
            }
            Rest::Idle(due) => {
                let polled = !shop.store.has(Bug::LostWakeUpWithoutPolling);
                let pause =
                    if polled { due.unwrap_or(self.poll).min(self.poll) } else { due.unwrap_or(NEVER) };
                tokio::select! {
                    biased;
                    () = shop.wake.heard() => self.look_again(),
                    () = tokio::time::sleep(pause) => self.slower(),
                }
            }
        }
    }

    /// Rests until it is called for help; a helper never polls.
    pub async fn wait_for_call(&mut self, rest: Rest) {
        match rest {
            Rest::None => {}
            Rest::Full => self.shop.room.notified().await,
            Rest::Idle(_) => {
                self.shop.help.notified().await;
                self.look_again();
            }
        }
    }

    fn slower(&mut self) {
        self.scouted = None;
        self.deep.clear();
        self.poll = (self.poll * 2).min(self.shop.poll_max.min(POLL_MAX));
    }
}
