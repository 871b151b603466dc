//! The world of one run: its database, its clock, everything that is drawn, and the trace.
//!
//! One thread, one runtime with paused time. Time passes only when nobody has anything to do, and
//! tasks take their turns in the order in which they were woken; so whatever a run does follows from
//! its seed.

use super::checker::{Hand, Tables};
use super::dice::Dice;
use super::entries::Entries;
use super::faults::{Counts, Kind, Odds, Wire, place};
use super::inbox::Inbox;
use super::jobs::Jobs;
use super::leases::Leases;
use super::truth::{Truth, Verdict};
use punctual::base::clock;
use punctual::base::clock::Clocks;
use punctual::base::random;
use punctual::database::planted_bugs::PlantedBug;
use punctual::database::sqlite::simulated::{CallSite, SimulatedDatabase, SimulatedReply};
use punctual::testing::TemporaryStore;
use punctual::{Engine, Timestamp};
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a run is like, drawn from its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub bug: Option<PlantedBug>,
    pub nodes: usize,
    pub tenants: usize,
    pub topics: usize,
    pub publishers: usize,
    pub operations: usize,
    pub workers: usize,
    pub jobs: usize,
    pub rivals: usize,
    pub receivers: usize,
    pub people: usize,
    pub troubles: usize,
    pub lease: Duration,
    pub poll_max: Duration,
    pub retention: Duration,
    /// How often a channel is asked to take a message, and whether one that may have gone out is not sent
    /// again.
    pub tries: u32,
    pub holds: bool,
    /// What the provider does follows from this.
    pub provider: u64,
    /// Whether an event is still to come that has more guests than a window of sends.
    pub crowd: bool,
    pub odds: Odds,
}

impl Plan {
    pub fn draw(dice: &mut Dice, bug: Option<PlantedBug>) -> Self {
        // Some worlds are calm, and some are not.
        let rough = *dice.pick(&[0, 1, 1, 2, 4]);
        let odds = Odds {
            on_request: [12, 3, 12, 4, 6, 4, 8].map(|most| dice.from(0..=most) * rough),
            on_answer: [4, 12, 3, 6].map(|most| dice.from(0..=most) * rough),
            wake_up_lost: dice.from(0..=250) * rough,
            wake_up_late: dice.from(0..=100) * rough,
            wake_up_twice: dice.from(0..=100) * rough,
            ear_broken: dice.from(0..=50) * rough,
            latency: *dice.pick(&[0, 2, 10, 50]),
        };
        Self {
            bug,
            nodes: dice.count(2..=4),
            tenants: dice.count(1..=2),
            topics: dice.count(1..=3),
            publishers: dice.count(1..=3),
            operations: dice.count(2..=7),
            workers: dice.count(0..=2),
            jobs: dice.count(0..=2),
            rivals: dice.count(0..=2),
            receivers: dice.count(0..=2),
            people: *dice.pick(&[0, 0, 1, 1, 1]),
            troubles: if rough == 0 { 0 } else { dice.count(1..=6) },
            lease: dice.millis(2_000..=8_000),
            poll_max: *dice.pick(&[Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)]),
            retention: *dice.pick(&[Duration::from_secs(3), Duration::from_secs(86_400)]),
            tries: *dice.pick(&[2, 3]),
            holds: dice.chance(250),
            provider: dice.draw() >> 8,
            crowd: dice.chance(250),
            odds,
        }
    }
}

/// An engine as the others see it: while it runs, and how it is asked to stop.
#[derive(Debug, Default)]
pub struct Node {
    pub running: Option<(Engine, Arc<Wire>)>,
    pub stop: Arc<Notify>,
    /// Held by whoever ticks it by hand.
    pub ticking: Arc<tokio::sync::Mutex<()>>,
}

pub struct State {
    pub dice: Dice,
    pub plan: Plan,
    pub truth: Truth,
    pub tables: Tables,
    pub jobs: Jobs,
    pub leases: Leases,
    pub inbox: Inbox,
    pub entries: Entries,
    pub counts: Counts,
    pub wires: Vec<Arc<Wire>>,
    pub nodes: Vec<Node>,
    pub outage_until: Timestamp,
    /// Nothing goes wrong any more.
    pub healed: bool,
    /// The engines are to stop for good.
    pub over: bool,
    pub trace: Vec<String>,
    pub violation: Option<String>,
}

impl State {
    /// What has changed since the last look, if that may be; as words for the trace.
    fn compare(&mut self, database: &SimulatedDatabase, hand: &Hand<'_>) -> Verdict<Vec<String>> {
        let Self { tables, truth, jobs, leases, inbox, entries, counts, .. } = self;
        let looked = database.directly(|connection| {
            let (read, fresh) = Tables::read(connection, tables)?;
            let messages =
                fresh.iter().try_for_each(|fresh| truth.appeared(fresh, entries)).and(read).and_then(
                    |read| {
                        let said = read.compare(tables, truth, hand)?;
                        Ok((said, std::mem::replace(tables, read)))
                    },
                );
            Ok(messages.and_then(|(mut said, before)| {
                let mut deeds = jobs.look(connection, (&mut *truth, &*tables), hand)?;
                deeds.extend(leases.look(connection, hand)?);
                deeds.extend(inbox.look(connection, hand)?);
                deeds.extend(entries.look(connection, (&before, &*tables), hand)?);
                for (deed, words) in deeds {
                    *counts.deeds.entry(deed).or_default() += 1;
                    said.push(words);
                }
                Ok(said)
            }))
        });
        looked.expect("tables to read")
    }
}

pub struct World {
    pub database: SimulatedDatabase,
    epoch: Instant,
    state: Mutex<State>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub fn new(seed: u64, bug: Option<PlantedBug>) -> Arc<Self> {
        let mut dice = Dice::new(seed);
        let plan = Plan::draw(&mut dice, bug);
        let entries = Entries::new(plan.tries, plan.holds);
        let state = State {
            nodes: (0..plan.nodes).map(|_| Node::default()).collect(),
            trace: vec![format!("{plan:?}")],
            dice,
            plan,
            truth: Truth::default(),
            tables: Tables::default(),
            jobs: Jobs::default(),
            leases: Leases::default(),
            inbox: Inbox::default(),
            entries,
            counts: Counts::default(),
            wires: Vec::new(),
            outage_until: Timestamp::MIN,
            healed: false,
            over: false,
            violation: None,
        };
        let database = SimulatedDatabase::new().expect("a database in memory");
        Arc::new(Self { database, epoch: Instant::now(), state: Mutex::new(state) })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under the lock")
    }

    /// The database's clock, which is the true one.
    pub fn now(&self) -> Timestamp {
        TemporaryStore::START.plus(self.epoch.elapsed())
    }

    pub fn is_healed(&self) -> bool {
        self.state().healed
    }

    pub fn is_broken(&self) -> bool {
        self.state().violation.is_some()
    }

    /// A line of the trace.
    pub fn say(&self, actor: &str, what: &str) {
        let at = self.epoch.elapsed();
        self.state().trace.push(format!("{:>9.3} {actor:<9} {what}", at.as_secs_f64()));
    }

    /// Something that must not be ends the run.
    pub fn judge(&self, verdict: Verdict) {
        if let Err(why) = verdict {
            let at = self.epoch.elapsed().as_secs_f64();
            let mut state = self.state();
            state.violation.get_or_insert_with(|| format!("after {at:.3} s, {why}"));
        }
    }

    /// A transaction has ended: what it did is looked at before anybody else can do anything.
    pub fn committed(&self, wire: &Wire, verb: CallSite, answer: SimulatedReply) {
        let actor = wire.name.as_str();
        if wire.exposed {
            self.count(verb);
        }
        let word = if answer.committed { "done" } else { "failed" };
        self.say(actor, &format!("{} {word}", place(verb)));
        if answer.committed && answer.wrote {
            self.look(actor);
        }
    }

    /// After healing nothing fails any more, and for the operator nothing ever does: such calls show nothing.
    fn count(&self, verb: CallSite) {
        let mut state = self.state();
        if !state.healed {
            *state.counts.calls.entry(place(verb)).or_default() += 1;
        }
    }

    /// Compares the tables with what they were.
    pub fn look(&self, actor: &str) {
        let hand = Hand { actor, now: self.now() };
        let verdict = self.state().compare(&self.database, &hand);
        match verdict {
            Ok(said) => said.iter().for_each(|line| self.say(actor, line)),
            Err(why) => self.judge(Err(why)),
        }
    }

    /// Something was done that a run over many seeds must have seen.
    pub fn did(&self, deed: &'static str) {
        *self.state().counts.deeds.entry(deed).or_default() += 1;
    }

    /// A notification goes to everybody who listens, by ways of its own.
    pub fn notify(&self) {
        let wires: Vec<Arc<Wire>> = self.state().wires.iter().filter(|w| !w.is_dead()).cloned().collect();
        for wire in wires {
            for delay in wire.delays() {
                if delay.is_zero() {
                    wire.wake();
                    continue;
                }
                let wire = Arc::clone(&wire);
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    wire.wake();
                });
            }
        }
    }

    /// Waits until something is so, at most so long; looks often.
    pub async fn until(&self, limit: Duration, is_so: impl Fn(&State) -> bool) -> bool {
        let end = self.epoch.elapsed() + limit;
        loop {
            if is_so(&self.state()) {
                return true;
            }
            if self.is_broken() || self.epoch.elapsed() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// One of the engines that run, if any does.
    pub fn any_node(&self) -> Option<(Engine, Arc<Wire>)> {
        let mut state = self.state();
        let running: Vec<_> = state.nodes.iter().filter_map(|node| node.running.clone()).collect();
        if running.is_empty() { None } else { Some(state.dice.pick(&running).clone()) }
    }

    /// The host's clock: hours off, and never the same.
    fn lie(&self) -> Timestamp {
        let now = self.now();
        let mut state = self.state();
        state.counts.add(Kind::ClockLied);
        let off = state.dice.millis(1..=6 * 3_600_000);
        if state.dice.chance(500) { now.plus(off) } else { now.minus(off) }
    }
}

thread_local! {
    static HERE: RefCell<Option<(Arc<World>, Dice)>> = const { RefCell::new(None) };
    static HONEST: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Puts this thread's clocks and randomness into a world's hands until it is dropped.
pub struct Inside;

impl Inside {
    pub fn of(world: &Arc<World>, seed: u64) -> Self {
        HERE.set(Some((Arc::clone(world), Dice::new(!seed))));
        clock::override_clocks(Some(Clocks { wall, monotonic: || Instant::now().into_std() }));
        random::override_source(Some(fill));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        clock::override_clocks(None);
        random::override_source(None);
        if let Some((world, _)) = HERE.take() {
            // Engines, links and the world hold each other.
            let mut state = world.state();
            let held = (std::mem::take(&mut state.wires), std::mem::take(&mut state.nodes));
            drop(state);
            drop(held);
        }
    }
}

fn wall() -> Timestamp {
    let world = HERE.with_borrow(|here| here.as_ref().map(|(world, _)| Arc::clone(world)));
    let world = world.expect("a world around this thread");
    if HONEST.get() { world.now() } else { world.lie() }
}

fn fill(bytes: &mut [u8]) {
    HERE.with_borrow_mut(|here| here.as_mut().expect("a world around this thread").1.fill(bytes));
}

/// Does something that is right to read the host's clock, because the host is the database.
pub fn honestly<T>(work: impl FnOnce() -> T) -> T {
    HONEST.set(true);
    let done = work();
    HONEST.set(false);
    done
}
