//! The worker loop: looks for ready lanes, shares the room of its executors among them, lets each executor
//! claim, and runs the work that it began.
//!
//! One tick is: look if it is time, then give every executor its turn. Between looks a lane that gave all it
//! was asked for is asked again, from where it left off; a lane that gave less is left alone until the next
//! look. While there is work, a look is due every `LOOK_PAUSE`, sooner after a wake-up, less often if looks
//! are expensive. So a new message waits that long at most, whatever backlog there is.
//!
//! Any number of processes run the loop at the same time: no two processes claim the same work.

use crate::base::clock::{Monotonic, Timestamp, monotonic};
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::limits::{CLAIM_ITEMS_MAX, POLL_MIN};
use crate::database::planted_bugs::PlantedBug;
use crate::queue::rules::share::{self, DueLane, LaneQuota};
use crate::queue::run::context::WorkerContext;
use crate::queue::run::database_clock::DatabaseClock;
use crate::queue::run::executor::{ClaimedWork, Executor, LaneClaim, WorkCounts, WorkRound};
use crate::queue::run::loop_health::LoopBody;
use crate::queue::run::stop::{self, StopSender, StopSignal};
use crate::queue::store::ready_lanes::{ReadyLane, ReadyLanes};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Under load, the tables are looked at this often for lanes that have become due …
const LOOK_PAUSE: Duration = Duration::from_millis(25);
/// … and after a wake-up this soon …
const WOKEN_PAUSE: Duration = Duration::from_millis(5);
/// … leaving out lanes that are known to be deep, but not for longer than this: work that became due late
/// there, before the place that the claims have got to, waits until then.
const WHOLE_LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Looks take at most this share of the time: one part in so many.
const LOOK_SHARE: u32 = 10;
/// Lanes that one statement of a look visits.
const LOOK_LANES: usize = 512;
/// How long a tick in turn waits for executors that are busy with what the loops gave them.
const ROOM_PAUSE: Duration = Duration::from_millis(50);
/// The wait of a planted bug: longer than any process lives.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Why a loop rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestReason {
    /// There may be more right now.
    None,
    /// The executors are busy.
    Full,
    /// Nothing is due; the next known due time is this far away.
    Idle(Option<Duration>),
}

/// The worker loop.
#[derive(Debug)]
pub struct WorkerLoop {
    context: Arc<WorkerContext>,
    executors: Vec<Arc<dyn Executor>>,
    /// The most items that one claim takes.
    batch: usize,
    stop: StopSignal,
    /// Keeps the stop of a loop that nothing else stops.
    _stopper: Option<StopSender>,
    in_turn: bool,
    helper: bool,
    /// Lanes with due work of each executor.
    offers: Vec<Vec<DueLane>>,
    lanes: HashMap<LaneId, ReadyLane>,
    clock: Option<DatabaseClock>,
    /// How far the rotation of lanes has got for each executor.
    turns: Vec<usize>,
    /// The first due time beyond the offers, seen from [`WorkerLoop::looked`].
    next_due: Option<Duration>,
    looked: Option<Monotonic>,
    looked_whole: Option<Monotonic>,
    look_cost: Duration,
    /// Lanes that gave all they were asked for since the last whole look.
    deep: HashSet<LaneId>,
    poll: Duration,
    rest: RestReason,
    /// Whether a lane is closed until something that is in flight ends.
    waits_for_room: bool,
}

impl WorkerLoop {
    /// Makes a loop that runs its work beside itself until it is stopped.
    #[must_use]
    pub fn new(context: Arc<WorkerContext>, executors: Vec<Arc<dyn Executor>>, stop: &StopSignal) -> Self {
        Self {
            offers: vec![Vec::new(); executors.len()],
            turns: vec![0; executors.len()],
            context,
            executors,
            batch: CLAIM_ITEMS_MAX,
            stop: stop.clone(),
            _stopper: None,
            in_turn: false,
            helper: false,
            lanes: HashMap::new(),
            clock: None,
            next_due: None,
            looked: None,
            looked_whole: None,
            look_cost: Duration::ZERO,
            deep: HashSet::new(),
            poll: POLL_MIN,
            rest: RestReason::None,
            waits_for_room: false,
        }
    }

    /// Makes a loop that waits for everything it begins; its claims of entries take up to `batch` items.
    #[must_use]
    pub fn in_turn(context: Arc<WorkerContext>, executors: Vec<Arc<dyn Executor>>, batch: usize) -> Self {
        let (stopper, stop) = stop::channel();
        let batch = batch.clamp(1, CLAIM_ITEMS_MAX);
        Self { batch, in_turn: true, _stopper: Some(stopper), ..Self::new(context, executors, &stop) }
    }

    /// Lets the loop work only while another one calls for help; it never polls.
    #[must_use]
    pub fn helping(mut self) -> Self {
        self.helper = true;
        self
    }

    /// Does everything that is due by now, and waits for it.
    ///
    /// # Errors
    /// When the database does not answer. Work that was claimed before that is done all the same.
    pub async fn run_due(&mut self) -> Result<WorkCounts> {
        let mut total = WorkCounts::default();
        loop {
            self.forget_lanes();
            let counts = self.give_turns().await?;
            total.add(counts);
            match self.rest {
                // The loops of this process are at it, and will make room.
                RestReason::Full if counts.seen == 0 => tokio::time::sleep(ROOM_PAUSE).await,
                _ if counts.seen == 0 => return Ok(total),
                _ => {}
            }
        }
    }

    /// Forgets what it knows: the next tick looks at the tables.
    fn forget_lanes(&mut self) {
        self.looked = None;
        self.deep.clear();
        self.poll = POLL_MIN;
    }

    /// Looks if it is time, and lets every executor claim and begin.
    async fn give_turns(&mut self) -> Result<WorkCounts> {
        if self.must_look() {
            self.find_ready_lanes().await?;
        }
        let (mut counts, mut asked) = (WorkCounts::default(), false);
        for n in 0..self.executors.len() {
            let quotas = self.quotas(n);
            if quotas.is_empty() {
                continue;
            }
            let (begun, claimed) = self.give_turn(n, quotas).await;
            let began = !begun.is_empty();
            self.run(begun, &mut counts).await?;
            match claimed {
                Ok(()) => {}
                // The error comes again, or is over.
                Err(error) if began || asked => {
                    tracing::warn!(target: "punctual", %error, "a round of claims broke off");
                    break;
                }
                Err(error) => return Err(error),
            }
            asked = true;
        }
        self.rest = if asked { RestReason::None } else { self.rest() };
        Ok(counts)
    }

    async fn give_turn(&mut self, n: usize, quotas: Vec<LaneQuota>) -> (Vec<ClaimedWork>, Result<()>) {
        let Some(clock) = self.clock else { return (Vec::new(), Ok(())) };
        let executor = Arc::clone(&self.executors[n]);
        let mut round = WorkRound {
            ready: &self.lanes,
            clock,
            batch: self.batch,
            stop: &self.stop,
            in_turn: self.in_turn,
            taken: HashMap::new(),
            begun: Vec::new(),
        };
        let claimed = executor.run(&mut round, quotas.clone()).await;
        let WorkRound { taken, begun, .. } = round;
        self.learn(n, &quotas, &taken);
        (begun, claimed)
    }

    /// Runs what was begun: beside the loop, or to its end.
    async fn run(&self, begun: Vec<ClaimedWork>, counts: &mut WorkCounts) -> Result<()> {
        if !self.in_turn {
            begun.into_iter().for_each(|work| work.spawn(&self.context));
            return Ok(());
        }
        let (beside, in_turn): (Vec<ClaimedWork>, Vec<ClaimedWork>) =
            begun.into_iter().partition(|work| work.side_by_side);
        let beside: Vec<_> = beside.into_iter().map(|work| tokio::spawn(work.run)).collect();
        let mut result = Ok(());
        for work in in_turn {
            match work.run.await {
                Ok(done) => counts.add(done),
                // The other claimed work is done all the same.
                Err(error) => result = Err(error),
            }
        }
        for work in beside {
            match work.await {
                Ok(Ok(done)) => counts.add(done),
                Ok(Err(error)) => result = Err(error),
                Err(_) => {}
            }
        }
        result
    }

    fn must_look(&self) -> bool {
        let usual = if self.context.wake.has_wake_up() { WOKEN_PAUSE } else { LOOK_PAUSE };
        let pause = usual.max(self.look_cost * LOOK_SHARE);
        let has_offers = self.offers.iter().any(|offers| !offers.is_empty());
        self.looked.is_none_or(|at| !has_offers || at.elapsed() >= pause)
    }

    async fn find_ready_lanes(&mut self) -> Result<()> {
        let start = monotonic();
        self.context.wake.forget();
        self.context.forget_openings();
        let whole = self.looked_whole.is_none_or(|at| at.elapsed() >= WHOLE_LOOK_PAUSE);
        if whole || self.deep.is_empty() {
            self.look_whole().await?;
            self.looked_whole = Some(monotonic());
        } else {
            self.find_other_lanes().await?;
        }
        self.looked = Some(monotonic());
        self.look_cost = start.elapsed();
        Ok(())
    }

    /// Looks for lanes beside those that are known to be deep. Messages that have no lane yet are routed, and
    /// looked for again; more lanes than one statement can visit need a whole look.
    async fn find_other_lanes(&mut self) -> Result<()> {
        let deep = &self.deep;
        self.offers.iter_mut().for_each(|offers| offers.retain(|offer| deep.contains(&offer.lane)));
        let mut known: Vec<LaneId> = deep.iter().copied().collect();
        let mut view = self.context.store.ready_lanes_beside(known.clone(), LOOK_LANES).await?;
        if view.lanes.first().is_some_and(|seen| seen.lane == LaneId::UNROUTED) {
            while self.context.store.route_waiting().await? > 0 {}
            known.push(LaneId::UNROUTED);
            view = self.context.store.ready_lanes_beside(known, LOOK_LANES).await?;
        }
        if view.more {
            return self.look_whole().await;
        }
        self.next_due = None;
        self.consider_all(view).await
    }

    async fn look_whole(&mut self) -> Result<()> {
        self.offers.iter_mut().for_each(Vec::clear);
        self.lanes.clear();
        self.deep.clear();
        self.next_due = None;
        let mut after = LaneId(-1);
        loop {
            let view = self.context.store.ready_lanes(after, LOOK_LANES).await?;
            self.clock = Some(DatabaseClock::new(view.now, self.context.manual_clock));
            let Some(last) = view.lanes.last() else { break };
            after = last.lane;
            if view.lanes[0].lane == LaneId::UNROUTED {
                while self.context.store.route_waiting().await? > 0 {}
                after = LaneId::UNROUTED;
                continue;
            }
            let more = view.more;
            self.consider_all(view).await?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    async fn consider_all(&mut self, view: ReadyLanes) -> Result<()> {
        self.clock = Some(DatabaseClock::new(view.now, self.context.manual_clock));
        for executor in &self.executors {
            executor.prepare(&view.lanes, view.now).await?;
        }
        for lane in view.lanes.into_iter().filter(|lane| !lane.paused) {
            self.consider(lane, view.now);
        }
        Ok(())
    }

    fn consider(&mut self, lane: ReadyLane, now: Timestamp) {
        let served = self.executors.iter().enumerate().find_map(|(n, of)| Some((n, of.slot(&lane)?)));
        let Some((n, slot)) = served else { return };
        let due = lane.first_due;
        if due > now {
            self.note_due(due.since(now));
            return;
        }
        // The look walked up to the lane's first row; a claim need not walk there again.
        self.offers[n].push(DueLane { lane: lane.lane, handler: slot, since: due });
        self.lanes.insert(lane.lane, lane);
    }

    fn note_due(&mut self, away: Duration) {
        self.next_due = Some(self.next_due.map_or(away, |known| known.min(away)));
    }

    /// Returns fair shares of an executor's lanes, of no more than each has room for. A lane that has no
    /// room is left alone until it opens; the others are not kept waiting for it.
    fn quotas(&mut self, n: usize) -> Vec<LaneQuota> {
        let Some(now) = self.clock.map(DatabaseClock::now) else { return Vec::new() };
        loop {
            let room = self.executors[n].room(self.batch);
            let offers = share::claimable(&self.offers[n], &room, &self.deep);
            if offers.is_empty() {
                return Vec::new();
            }
            let mut quotas = self.share(n, &offers, &room);
            let has_closed = self.close_lanes(n, &mut quotas, now);
            if !quotas.is_empty() || !has_closed {
                return quotas;
            }
        }
    }

    /// Shares an executor's room among lanes.
    fn share(&mut self, n: usize, offers: &[DueLane], room: &[usize]) -> Vec<LaneQuota> {
        // All that is claimed at once fits into one claim row.
        let busy: HashSet<usize> = offers.iter().map(|offer| offer.handler).collect();
        let most = (self.batch / busy.len().max(1)).max(1);
        let room: Vec<usize> = room.iter().map(|room| *room.min(&most)).collect();
        let quotas = share::plan(offers, &room, self.turns[n]);
        self.turns[n] = self.turns[n].wrapping_add(quotas.len());
        quotas
    }

    /// Takes the lanes that have no room now out of the quotas and the offers, and notes when they open;
    /// answers whether there were any.
    fn close_lanes(&mut self, n: usize, quotas: &mut Vec<LaneQuota>, now: Timestamp) -> bool {
        let executor = Arc::clone(&self.executors[n]);
        let mut closed = Vec::new();
        for quota in quotas.iter_mut() {
            let Some(lane) = self.lanes.get(&quota.lane) else { continue };
            let room = executor.lane_room(lane, now);
            quota.quota = quota.quota.min(room.items);
            if quota.quota == 0 {
                closed.push((quota.lane, room.opens_at));
            }
        }
        let has_closed = !closed.is_empty();
        for (lane, opens_at) in closed {
            self.offers[n].retain(|offer| offer.lane != lane);
            self.waits_for_room |= opens_at.is_none();
            if let Some(at) = opens_at {
                self.note_due(at.since(now) + self.looked.map_or(Duration::ZERO, |looked| looked.elapsed()));
                self.context.note_opening(at);
            }
        }
        quotas.retain(|quota| quota.quota > 0);
        has_closed
    }

    /// A lane that gave all is deep: the next claim asks it again, from where it left off. A lane that gave
    /// less has nothing more, unless it was asked with that hint: then the next claim asks it once without.
    fn learn(&mut self, n: usize, quotas: &[LaneQuota], taken: &HashMap<LaneId, LaneClaim>) {
        let offers = &mut self.offers[n];
        for quota in quotas {
            let Some(at) = offers.iter().position(|offer| offer.lane == quota.lane) else { continue };
            let gave = taken.get(&quota.lane);
            if gave.is_some_and(|gave| gave.items >= quota.quota) {
                self.deep.insert(quota.lane);
                offers[at].since = gave.and_then(|gave| gave.last_due).unwrap_or(quota.since);
            } else if self.deep.remove(&quota.lane) {
                offers[at].since = Timestamp::MIN;
            } else {
                offers.swap_remove(at);
            }
        }
    }

    fn rest(&self) -> RestReason {
        if self.offers.iter().any(|offers| !offers.is_empty()) {
            return RestReason::Full;
        }
        let known = self.next_due.zip(self.looked);
        RestReason::Idle(known.map(|(away, at)| away.saturating_sub(at.elapsed())))
    }

    fn poll_slower(&mut self) {
        self.looked = None;
        self.deep.clear();
        self.poll = (self.poll * 2).min(self.context.poll_max);
    }

    async fn wait_for_work(&mut self) {
        let context = Arc::clone(&self.context);
        match self.rest {
            RestReason::None => {}
            RestReason::Full => {
                tokio::select! {
                    biased;
                    () = context.room.notified() => {}
                    () = context.wake.wait() => self.forget_lanes(),
                    () = tokio::time::sleep(POLL_MIN) => self.forget_lanes(),
                }
            }
            RestReason::Idle(due) => {
                let polled = !context.store.has(PlantedBug::LostWakeUpWithoutPolling);
                let pause =
                    if polled { due.unwrap_or(self.poll).min(self.poll) } else { due.unwrap_or(NEVER) };
                let waits_for_room = std::mem::take(&mut self.waits_for_room);
                let pause = if waits_for_room { pause.min(POLL_MIN) } else { pause };
                tokio::select! {
                    biased;
                    () = context.wake.wait() => self.forget_lanes(),
                    () = context.room.notified(), if waits_for_room => self.forget_lanes(),
                    () = tokio::time::sleep(pause) => self.poll_slower(),
                }
            }
        }
    }

    /// Waits until another loop calls for help.
    async fn wait_for_call(&mut self) {
        match self.rest {
            RestReason::None => {}
            RestReason::Full => self.context.room.notified().await,
            RestReason::Idle(_) => {
                self.context.help.notified().await;
                self.forget_lanes();
            }
        }
    }
}

impl LoopBody for WorkerLoop {
    async fn tick(&mut self) -> Result<()> {
        // An error of work beside the loop counts as the loop's: the loop pauses, and health reports the
        // error.
        self.context.take_trouble()?;
        self.give_turns().await.map(|_| ())
    }

    async fn wait(&mut self) {
        if self.helper {
            self.wait_for_call().await;
        } else {
            self.wait_for_work().await;
        }
    }
}
