//! What goes wrong: the link between one user and the database, with everything that can
//! happen on it.

use super::world::World;
use punctual::database::sqlite::simulated::{
    CallSite, CommitFailure, LinkFuture, SimulatedLink, SimulatedReply, SimulatedRequest,
};
use punctual::{Error, Result, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The request never reaches the database.
    Refused,
    /// The request hangs for long, and then fails.
    RequestHung,
    /// A statement in the middle fails.
    StatementFailed,
    /// The commit fails, which is known,
    CommitRefused,
    /// or is not: nothing was committed, and nobody can tell.
    CommitUnknown,
    /// The engine is gone before its request is out.
    CrashedBefore,
    /// The engine is gone after its commit, before it hears of it.
    CrashedAfter,
    /// The commit stands, and the answer is lost.
    AnswerLost,
    /// The commit stands, and the answer hangs for long before it is lost.
    AnswerHung,
    /// A request or an answer takes seconds.
    Slow,
    /// The database is away, for everybody.
    Outage,
    /// An engine stands still for longer than its leases, and then goes on.
    Frozen,
    /// An engine is gone, whatever it was doing.
    Killed,
    /// A handler takes its engine down.
    Poisoned,
    /// An engine is asked to stop in the middle of everything.
    Stopped,
    /// A wake-up is lost,
    WakeUpLost,
    /// or comes late,
    WakeUpLate,
    /// or twice.
    WakeUpTwice,
    /// The subscription to wake-ups breaks.
    EarBroken,
    /// A remote worker never comes back.
    WorkerVanished,
    /// A remote worker settles long after its lease.
    SettledLate,
    /// The host's clock is read, and lies by hours.
    ClockLied,
    /// A host's transaction is rolled back.
    RolledBack,
    /// A queue is paused.
    Paused,
}

impl Kind {
    pub const ALL: [Self; 24] = [
        Self::Refused,
        Self::RequestHung,
        Self::StatementFailed,
        Self::CommitRefused,
        Self::CommitUnknown,
        Self::CrashedBefore,
        Self::CrashedAfter,
        Self::AnswerLost,
        Self::AnswerHung,
        Self::Slow,
        Self::Outage,
        Self::Frozen,
        Self::Killed,
        Self::Poisoned,
        Self::Stopped,
        Self::WakeUpLost,
        Self::WakeUpLate,
        Self::WakeUpTwice,
        Self::EarBroken,
        Self::WorkerVanished,
        Self::SettledLate,
        Self::ClockLied,
        Self::RolledBack,
        Self::Paused,
    ];

    /// Those that meet a call on its way to the database,
    const ON_REQUEST: [Self; 7] = [
        Self::Refused,
        Self::RequestHung,
        Self::StatementFailed,
        Self::CrashedBefore,
        Self::Slow,
        Self::CommitRefused,
        Self::CommitUnknown,
    ];
    /// and those that meet its answer.
    const ON_ANSWER: [Self; 4] = [Self::CrashedAfter, Self::AnswerLost, Self::AnswerHung, Self::Slow];
    /// Those that every verb of the loops must have met.
    pub const ON_EVERY_VERB: [Self; 7] = [
        Self::Refused,
        Self::StatementFailed,
        Self::CommitRefused,
        Self::CommitUnknown,
        Self::CrashedBefore,
        Self::CrashedAfter,
        Self::AnswerLost,
    ];
}

/// How often each fault was injected, and where.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub by_kind: BTreeMap<Kind, usize>,
    pub by_verb: BTreeMap<(String, Kind), usize>,
    pub calls: BTreeMap<String, usize>,
    /// What was done and told, beside messages.
    pub deeds: BTreeMap<&'static str, usize>,
}

impl Counts {
    pub fn add(&mut self, kind: Kind) {
        *self.by_kind.entry(kind).or_default() += 1;
    }

    pub fn add_at(&mut self, kind: Kind, verb: CallSite) {
        self.add(kind);
        *self.by_verb.entry((place(verb), kind)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        other.by_kind.iter().for_each(|(kind, n)| *self.by_kind.entry(*kind).or_default() += n);
        other.by_verb.iter().for_each(|(at, n)| *self.by_verb.entry(at.clone()).or_default() += n);
        other.deeds.iter().for_each(|(deed, n)| *self.deeds.entry(deed).or_default() += n);
        other.calls.iter().for_each(|(verb, n)| *self.calls.entry(verb.clone()).or_default() += n);
    }

    /// What a run over many seeds must have seen, or it shows nothing.
    pub const DEEDS: [&str; 52] = [
        "timer cancelled",
        "timer moved",
        "timer changed too late",
        "run planned",
        "run queued",
        "run skipped",
        "run triggered",
        "lease acquired",
        "lease renewed",
        "lease released",
        "lease held by another",
        "lease lost by its guard",
        "inbox begun",
        "inbox taken over",
        "inbox processed",
        "inbox failed",
        "inbox dead",
        "inbox dead by a lost lease",
        "inbox replayed",
        "inbox completion refused",
        "timer change not answered",
        "entry made",
        "entry invited",
        "entry reminded",
        "entry opened",
        "entry answered",
        "entry expired",
        "entry cancelled",
        "entry deleted",
        "entry failed",
        "entry without a channel",
        "send to be tried again",
        "send given up",
        "send accepted",
        "send failed",
        "send not answered",
        "send unknown",
        "send lost",
        "send without a channel",
        "notification made",
        "notification ended",
        "notification cancelled",
        "booking cancelled",
        "guest unsubscribed",
        "entry held",
        "entry released",
        "delivery retried at once",
        "delivery beyond the mark put back",
        "event began an entry",
        "event was a duplicate",
        "event stopped an entry",
        "answer refused",
    ];

    /// Those that a few seeds need not show.
    pub const RARE_DEEDS: [&str; 6] = [
        "inbox completion refused",
        "answer refused",
        "entry failed",
        "notification cancelled",
        "delivery retried at once",
        "delivery beyond the mark put back",
    ];

    pub fn total(&self) -> usize {
        self.by_kind.values().sum()
    }
}

/// A verb by its place in the store.
pub fn place(verb: CallSite) -> String {
    let file = verb.file().rsplit('/').next().unwrap_or_default();
    format!("{file}:{}", verb.line())
}

/// How likely what is, in this run: chances in a thousand.
#[derive(Clone, Debug)]
pub struct Odds {
    pub on_request: [u64; 7],
    pub on_answer: [u64; 4],
    pub wake_up_lost: u64,
    pub wake_up_late: u64,
    pub wake_up_twice: u64,
    pub ear_broken: u64,
    /// Milliseconds that a request takes at most when all is well.
    pub latency: u64,
}

/// The link of one user: an incarnation of an engine, a remote worker, or the operator.
pub struct Wire {
    pub world: Arc<World>,
    pub name: String,
    /// Whether anything goes wrong on it.
    pub exposed: bool,
    /// Whether its user can be killed by it.
    pub mortal: bool,
    dead: AtomicBool,
    died: Notify,
    ear: Notify,
    frozen_until: Mutex<Timestamp>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wire").field(&self.name).finish()
    }
}

impl Wire {
    pub fn new(world: &Arc<World>, name: String, exposed: bool, mortal: bool) -> Arc<Self> {
        let wire = Arc::new(Self {
            world: Arc::clone(world),
            name,
            exposed,
            mortal,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            ear: Notify::new(),
            frozen_until: Mutex::new(Timestamp::MIN),
        });
        world.state().wires.push(Arc::clone(&wire));
        wire
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// The user is gone: what it waits for never comes, and what it holds stays as it is.
    pub fn die(&self, why: Kind) {
        if !self.dead.swap(true, Ordering::Relaxed) {
            self.world.say(&self.name, &format!("dies: {why:?}"));
            self.world.state().truth.end_runs_of(&self.name);
            self.died.notify_waiters();
        }
    }

    /// Waits until the user is gone.
    pub async fn died(&self) {
        let mut died = std::pin::pin!(self.died.notified());
        died.as_mut().enable();
        if !self.is_dead() {
            died.await;
        }
    }

    pub fn freeze(&self, time: Duration) {
        *self.frozen_until.lock().unwrap() = self.world.now().plus(time);
    }

    /// Goes on only with the living, and not while it is frozen.
    pub async fn gate(&self) {
        loop {
            if self.is_dead() {
                std::future::pending::<()>().await;
            }
            let left = self.frozen_until.lock().unwrap().since(self.world.now());
            if left.is_zero() || self.world.is_healed() {
                return;
            }
            tokio::time::sleep(left.min(Duration::from_millis(500))).await;
        }
    }

    /// Waits as something that this user does.
    pub async fn rest(&self, time: Duration) {
        if time.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(time).await;
        }
        self.gate().await;
    }

    pub fn wake(&self) {
        self.ear.notify_one();
    }

    fn draw<const N: usize>(&self, kinds: &[Kind; N], odds: fn(&Odds) -> &[u64; N]) -> Option<Kind> {
        let mut state = self.world.state();
        if !self.exposed || state.healed {
            return None;
        }
        let mut drawn = state.dice.from(0..=999);
        for (kind, chance) in kinds.iter().zip(*odds(&state.plan.odds)) {
            let fatal = matches!(kind, Kind::CrashedBefore | Kind::CrashedAfter);
            if drawn < chance {
                return Some(*kind).filter(|_| self.mortal || !fatal);
            }
            drawn -= chance;
        }
        None
    }

    fn is_away(&self, verb: CallSite) -> bool {
        let now = self.world.now();
        let mut state = self.world.state();
        let away = self.exposed && !state.healed && now < state.outage_until;
        if away {
            state.counts.add_at(Kind::Outage, verb);
        }
        away
    }

    fn latency(&self) -> Duration {
        let mut state = self.world.state();
        let most = state.plan.odds.latency;
        state.dice.millis(0..=most)
    }

    fn long(&self) -> Duration {
        self.world.state().dice.millis(5_000..=40_000)
    }

    async fn send(&self, verb: CallSite) -> Result<SimulatedRequest> {
        self.gate().await;
        self.rest(self.latency()).await;
        if self.is_away(verb) {
            return Err(unavailable("the database is away"));
        }
        let Some(kind) = self.draw(&Kind::ON_REQUEST, |odds| &odds.on_request) else {
            return Ok(SimulatedRequest::default());
        };
        if !matches!(kind, Kind::StatementFailed | Kind::CommitRefused | Kind::CommitUnknown) {
            self.note(kind, verb);
        }
        match kind {
            Kind::Refused => return Err(unavailable("refused")),
            Kind::RequestHung => {
                self.rest(self.long()).await;
                return Err(unavailable("hung"));
            }
            Kind::CrashedBefore => {
                self.die(kind);
                self.gate().await;
            }
            Kind::StatementFailed => {
                let n = self.world.state().dice.count(1..=6);
                return Ok(SimulatedRequest { fails_at: Some(n), commit_fails: None });
            }
            Kind::CommitRefused => return Ok(failing(CommitFailure::Refused)),
            Kind::CommitUnknown => return Ok(failing(CommitFailure::Unknown)),
            _ => self.rest(self.long() / 10).await,
        }
        Ok(SimulatedRequest::default())
    }

    async fn receive(&self, verb: CallSite, answer: SimulatedReply) -> Result<()> {
        if answer.request.fails_at.is_some() && !answer.committed {
            self.note(Kind::StatementFailed, verb);
        }
        if let Some(failed) = answer.request.commit_fails {
            let refused = failed == CommitFailure::Refused;
            self.note(if refused { Kind::CommitRefused } else { Kind::CommitUnknown }, verb);
        }
        if let Some(kind) = self.draw(&Kind::ON_ANSWER, |odds| &odds.on_answer) {
            self.note(kind, verb);
            match kind {
                Kind::CrashedAfter => self.die(kind),
                Kind::AnswerLost => return Err(lost(answer)),
                Kind::AnswerHung => {
                    self.rest(self.long()).await;
                    return Err(lost(answer));
                }
                _ => self.rest(self.long() / 10).await,
            }
        }
        self.rest(self.latency()).await;
        Ok(())
    }

    fn note(&self, kind: Kind, verb: CallSite) {
        self.world.state().counts.add_at(kind, verb);
        self.world.say(&self.name, &format!("{} meets {kind:?}", place(verb)));
    }

    /// How a wake-up gets to this one: not at all, late, or twice.
    pub fn delays(&self) -> Vec<Duration> {
        let mut state = self.world.state();
        let odds = state.plan.odds.clone();
        if state.healed {
            return vec![Duration::ZERO];
        }
        let mut delays = vec![Duration::ZERO];
        if state.dice.chance(odds.wake_up_lost) {
            state.counts.add(Kind::WakeUpLost);
            return Vec::new();
        }
        if state.dice.chance(odds.wake_up_late) {
            state.counts.add(Kind::WakeUpLate);
            delays[0] = state.dice.millis(100..=5_000);
        }
        if state.dice.chance(odds.wake_up_twice) {
            state.counts.add(Kind::WakeUpTwice);
            delays.push(state.dice.millis(0..=2_000));
        }
        delays
    }

    async fn listen(&self) -> Result<()> {
        self.gate().await;
        let breaks = {
            let mut state = self.world.state();
            let chance = state.plan.odds.ear_broken;
            (!state.healed && state.dice.chance(chance)).then(|| state.dice.millis(0..=10_000))
        };
        let Some(after) = breaks else {
            self.ear.notified().await;
            self.gate().await;
            return Ok(());
        };
        tokio::select! {
            biased;
            () = self.ear.notified() => Ok(()),
            () = tokio::time::sleep(after) => {
                self.gate().await;
                self.world.state().counts.add(Kind::EarBroken);
                Err(unavailable("the subscription broke"))
            }
        }
    }
}

const fn failing(commit: CommitFailure) -> SimulatedRequest {
    SimulatedRequest { fails_at: None, commit_fails: Some(commit) }
}

fn unavailable(why: &'static str) -> Error {
    Error::Unavailable(why.into())
}

/// A caller cannot know whether a commit whose answer it does not hear has happened.
fn lost(answer: SimulatedReply) -> Error {
    match answer.committed && answer.wrote {
        true => Error::Unknown("the answer was lost".into()),
        false => unavailable("the answer was lost"),
    }
}

impl SimulatedLink for Wire {
    fn now(&self) -> Timestamp {
        self.world.now()
    }

    fn request(&self, verb: CallSite) -> LinkFuture<'_, Result<SimulatedRequest>> {
        Box::pin(self.send(verb))
    }

    fn answer(&self, verb: CallSite, answer: SimulatedReply) -> LinkFuture<'_, Result<()>> {
        self.world.committed(self, verb, answer);
        Box::pin(self.receive(verb, answer))
    }

    fn notify(&self) -> LinkFuture<'_, Result<()>> {
        Box::pin(async {
            self.gate().await;
            self.world.notify();
            Ok(())
        })
    }

    fn wait_for_wake(&self) -> LinkFuture<'_, Result<()>> {
        Box::pin(self.listen())
    }
}
