//! The checker: holds what processes and database wrote down against what is promised.
//!
//! It knows three things: what publishers asked and were told, what workers began, ended and were
//! told, and every step of every claim, written by the database's own triggers in the order in
//! which they happened and with the database's time. It trusts no code of the engine.

use super::deliveries::Received;
use super::history::Event;
use super::jobs::{Jobs, is_run};
use super::leases::Leases;
use super::operation::{DOOMED_ATTEMPTS, End, Operation};
use super::sends::Sends;
use super::tally::Tally;
use punctual::queue::rules::claim;
use punctual::testing::Backend;
use punctual::testing::place::Rows;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// What was acknowledged is done.
    NothingLost,
    /// What was refused, rolled back or never asked is not there, and nothing is there twice.
    NothingMadeUp,
    /// A claim that has ended never changes: no word under a stale token is accepted.
    NoStaleToken,
    /// A message is done once.
    DoneOnce,
    /// Nothing is begun without a committed claim of its own.
    ClaimedFirst,
    /// Nothing is claimed before it is due, by the database's clock.
    NotEarly,
    /// Messages of one key go one after the other, in their order.
    KeyOrder,
    /// What cannot work dies after its attempts, and nothing else dies.
    Attempts,
    /// What a settler is told is what happened.
    Truth,
    /// A timer that was cancelled in time is never handled.
    CancelledInTime,
    /// Each occurrence of a job has one run, and that has one message.
    OneRunEach,
    /// A lease has one holder, and its tokens grow.
    OneHolder,
    /// The log knows of every message that a provider got, a message goes out twice only where the log says
    /// that nobody knows the outcome, and what was not sent says why.
    LoggedSends,
    /// Nothing is claimed for sending after a customer was told that they answered or withdrew.
    NotAfterEnd,
    /// An instance of a survey that nobody answers gets its invitation and all its reminders.
    AllSends,
    /// A busy database is waited for, and no caller hears of it.
    NeverBusy,
    /// After the last trouble everything ends soon.
    EndsInTime,
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub struct Broken {
    pub promise: Promise,
    said: String,
}

impl Broken {
    pub const fn new(promise: Promise, said: String) -> Self {
        Self { promise, said }
    }
}

/// At most so many are told at length.
const SENTENCES: usize = 12;

pub fn sentences(broken: &[Broken]) -> String {
    let mut lines: Vec<String> =
        broken.iter().take(SENTENCES).map(|b| format!("{:?}: {}", b.promise, b.said)).collect();
    if broken.len() > SENTENCES {
        lines.push(format!("and {} more", broken.len() - SENTENCES));
    }
    lines.join("\n")
}

/// What the database is asked for; more is added behind `where`.
pub const MESSAGES: &str = "select id, payload, coalesce(due_at, created_at) from punctual.message";
pub const LOG: &str = "select seq, at, token, fresh, was, became, items, open from chaos_log \
    where purpose = 'dispatch'";
pub const ATTEMPTS: &str = "select message_id, number, outcome, next_due from punctual.attempt";
pub const CANCELLED: &str = "select message_id from punctual.timer_change";
pub const DEAD: &str = "select message_id from punctual.dead_letter";

/// An operation as its publisher knows it.
#[derive(Clone, Debug)]
struct Asked {
    what: Operation,
    answered: Option<i64>,
    /// Whether it may have happened without an answer.
    open: bool,
}

/// One step in a message's life, in the database's order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    seq: i64,
    at: i64,
    token: String,
    attempt: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Claimed,
    Settled,
    Lost,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub op: u64,
    pub due: i64,
    steps: Vec<Step>,
}

impl Message {
    pub const fn new(op: u64, due: i64) -> Self {
        Self { op, due, steps: Vec::new() }
    }
}

/// What a claim holds: message and attempt.
type Open = BTreeMap<i64, u32>;

/// Everything that is known of one round.
#[derive(Default)]
pub struct Ledger {
    pub last_message: i64,
    pub last_seq: i64,
    pub jobs: Jobs,
    pub leases: Leases,
    pub received: Received,
    pub sends: Sends,
    first_op: u64,
    asked: BTreeMap<u64, Asked>,
    messages: BTreeMap<i64, Message>,
    attempts: HashMap<(i64, u32), (String, Option<i64>)>,
    dead: HashSet<i64>,
    cancelled: HashSet<i64>,
    told_cancelled: HashMap<u64, bool>,
    began: BTreeMap<(i64, u32), (u64, usize)>,
    by_hand: Vec<(String, i64, i64)>,
    told: Vec<(String, i64, String)>,
    troubles: Vec<String>,
    stale: Vec<Broken>,
}

impl Ledger {
    /// Forgets the last round.
    pub fn begin(&mut self, first_op: u64) {
        let last = self.messages.keys().next_back().copied();
        let last_message = self.last_message.max(last.unwrap_or(0));
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.begin();
        let (leases, received) = (std::mem::take(&mut self.leases), std::mem::take(&mut self.received));
        let mut sends = std::mem::take(&mut self.sends);
        sends.begin(first_op);
        let last_seq = self.last_seq;
        *self = Self { last_message, last_seq, jobs, leases, received, sends, first_op, ..Self::default() };
    }

    /// Takes in what a process wrote down. What is left of earlier rounds was judged then.
    pub fn hear(&mut self, event: Event) {
        self.sends.hear(&event);
        match event {
            Event::Asked { op, what } if op >= self.first_op && !what.is_sent() => {
                self.asked.entry(op).or_insert(Asked { what, answered: None, open: true });
            }
            Event::Answered { op, message } => self.on(op, |a| a.answered = Some(message)),
            Event::Refused { op, why } => {
                // One that is asked again may have happened before it was refused.
                self.on(op, |a| a.open &= a.what == Operation::Named);
                self.troubles.push(why);
            }
            Event::Unsure { op } => self.on(op, |a| a.open = true),
            Event::Began { op, message, attempt } if op >= self.first_op && message > self.last_message => {
                self.began.entry((message, attempt)).or_insert((op, 0)).1 += 1;
            }
            Event::Claimed { token, message, now, .. } if message > self.last_message => {
                self.by_hand.push((token, message, now));
            }
            Event::Settled { token, message, outcome } if message > self.last_message => {
                self.told.push((token, message, outcome));
            }
            Event::Trouble { why } => self.troubles.push(why),
            Event::Cancelled { op, in_time } => _ = self.told_cancelled.insert(op, in_time),
            Event::Held { .. } | Event::Fenced { .. } => self.leases.hear(event),
            Event::Received { .. } => self.received.hear(event),
            _ => {}
        }
    }

    fn on(&mut self, op: u64, change: impl FnOnce(&mut Asked)) {
        if let Some(asked) = self.asked.get_mut(&op) {
            change(asked);
        }
    }

    /// Takes in what the database wrote down.
    pub fn read(&mut self, messages: &Rows, log: &Rows, attempts: &Rows, dead: &Rows, cancelled: &Rows) {
        for row in messages {
            let (op, due) = (text(row, 1).parse().unwrap(), int(row, 2));
            self.messages.insert(int(row, 0), Message::new(op, due));
        }
        for row in attempts {
            let at = (int(row, 0), u32::try_from(int(row, 1)).unwrap());
            self.attempts.insert(at, (text(row, 2).to_owned(), maybe_int(row, 3)));
        }
        self.dead.extend(dead.iter().map(|row| int(row, 0)));
        self.cancelled.extend(cancelled.iter().map(|row| int(row, 0)));
        let mut open: HashMap<String, Open> = HashMap::new();
        for row in log {
            self.step(row, &mut open);
        }
    }

    /// One change of a claim: what was taken, settled or lost by it.
    fn step(&mut self, row: &[Option<String>], open: &mut HashMap<String, Open>) {
        let (seq, at, token) = (int(row, 0), int(row, 1), text(row, 2).to_owned());
        self.last_seq = self.last_seq.max(seq);
        let now = row[7].as_deref().map(items);
        if int(row, 3) == 1 {
            let taken = items(text(row, 6));
            self.note(&taken, Kind::Claimed, seq, at, &token);
            open.insert(token, taken);
            return;
        }
        if let Some(was) = row[4].as_deref() {
            let became = row[5].as_deref().unwrap_or("open");
            let said = format!("claim {token} was {was}, and became {became} afterwards");
            self.stale.push(Broken::new(Promise::NoStaleToken, said));
        }
        // A claim of an earlier round was judged then.
        let Some(held) = open.get_mut(&token) else { return };
        let left = now.unwrap_or_else(|| held.clone());
        let reaped = row[5].as_deref() == Some("reaped");
        let settled = held.iter().filter(|(m, _)| !left.contains_key(m)).map(|(m, a)| (*m, *a)).collect();
        *held = left.clone();
        self.note(&settled, Kind::Settled, seq, at, &token);
        if reaped {
            self.note(&left, Kind::Lost, seq, at, &token);
        }
    }

    fn note(&mut self, of: &Open, kind: Kind, seq: i64, at: i64, token: &str) {
        for (message, attempt) in of {
            if let Some(message) = self.messages.get_mut(message) {
                message.steps.push(Step { seq, at, token: token.to_owned(), attempt: *attempt, kind });
            }
        }
    }

    /// Every promise that was not kept.
    pub fn judge(&self, backend: Backend) -> Vec<Broken> {
        let mut broken = self.stale.clone();
        self.judge_publishers(&mut broken);
        for (id, message) in &self.messages {
            self.judge_message(*id, message, backend, &mut broken);
        }
        self.judge_workers(&mut broken);
        self.judge_keys(&mut broken);
        self.judge_cancellations(&mut broken);
        self.jobs.judge(&self.messages, &mut broken);
        self.leases.judge(&mut broken);
        self.received.judge(&mut broken);
        self.sends.judge(backend, &mut broken);
        if backend == Backend::Sqlite {
            let busy = |why: &&String| why.contains("locked") || why.contains("busy");
            let heard = self.troubles.iter().filter(busy);
            broken.extend(heard.map(|why| Broken::new(Promise::NeverBusy, format!("a caller heard: {why}"))));
        }
        broken
    }

    fn judge_publishers(&self, broken: &mut Vec<Broken>) {
        let mut of: HashMap<u64, Vec<i64>> = HashMap::new();
        for (id, message) in self.messages.iter().filter(|(_, m)| !is_run(m.op)) {
            of.entry(message.op).or_default().push(*id);
        }
        for (op, asked) in &self.asked {
            let there = of.remove(op).unwrap_or_default();
            let say = |what: &str| format!("{:?} {op} {what}: {there:?}", asked.what);
            if let Some(id) = asked.answered
                && !there.contains(&id)
            {
                broken.push(Broken::new(Promise::NothingLost, say("was acknowledged and is not there")));
            }
            if there.len() > 1 {
                broken.push(Broken::new(Promise::NothingMadeUp, say("is there more than once")));
            }
            let never = asked.what.end() == End::Never || (asked.answered.is_none() && !asked.open);
            if never && !there.is_empty() {
                broken.push(Broken::new(
                    Promise::NothingMadeUp,
                    say("was refused or rolled back, and is there"),
                ));
            }
        }
        for (op, ids) in of {
            broken.push(Broken::new(Promise::NothingMadeUp, format!("nobody asked for {op}: {ids:?}")));
        }
    }

    fn judge_message(&self, id: i64, message: &Message, backend: Backend, broken: &mut Vec<Broken>) {
        let what = self.what(message.op);
        let mut say = |promise, said: String| {
            let said = format!("message {id} ({what:?} {}) {said}", message.op);
            broken.push(Broken::new(promise, said));
        };
        let done = self.done(id, message);
        let is_dead = self.dead.contains(&id);
        let failed = (1..=64).filter(|n| self.attempt(id, *n).is_some_and(|(o, _)| o != "reaped")).count();
        match what.map_or(End::Done, Operation::end) {
            _ if self.cancelled.contains(&id) => {}
            End::Dead if !is_dead || !done.is_empty() => {
                say(Promise::Attempts, "should have died".into());
            }
            End::Dead if failed > DOOMED_ATTEMPTS => {
                say(Promise::Attempts, format!("was tried {failed} times"));
            }
            End::Done if is_dead => say(Promise::Attempts, "died".into()),
            End::Done if done.is_empty() => say(Promise::NothingLost, "was never done".into()),
            _ => {}
        }
        if done.len() > 1 {
            say(Promise::DoneOnce, format!("was done {} times: {done:?}", done.len()));
        }
        let last = message.steps.iter().rfind(|step| step.kind == Kind::Claimed);
        if let (Some(done), Some(last)) = (done.first(), last)
            && last.seq > done.seq
        {
            say(Promise::DoneOnce, format!("was claimed by {} after {} had done it", last.token, done.token));
        }
        let slack = if backend == Backend::Sqlite { MILLISECOND } else { 0 };
        for step in message.steps.iter().filter(|step| step.kind == Kind::Claimed) {
            let due = match step.attempt {
                0 | 1 => Some(message.due),
                n => self.attempt(id, n - 1).and_then(|(_, next)| *next),
            };
            if let Some(due) = due.filter(|due| step.at + slack < *due) {
                say(Promise::NotEarly, format!("was claimed {} us before it was due", due - step.at));
            }
        }
    }

    /// What an operation, or the run of a job, is.
    fn what(&self, op: u64) -> Option<Operation> {
        Operation::of_job(op).or_else(|| self.asked.get(&op).map(|asked| asked.what))
    }

    /// Whoever is told that a timer was cancelled in time never sees it; whoever is not, does.
    fn judge_cancellations(&self, broken: &mut Vec<Broken>) {
        for id in &self.cancelled {
            let begun = self.began.range((*id, 0)..=(*id, u32::MAX)).next().is_some();
            // A settlement says nothing here: a worker that stops gives back what it has not begun, and
            // such a timer can be cancelled before the next claim.
            if begun || self.dead.contains(id) {
                let said = format!("timer {id} was cancelled, and begun ({begun}) or died");
                broken.push(Broken::new(Promise::CancelledInTime, said));
            }
        }
        for (op, in_time) in &self.told_cancelled {
            let timer = self.asked.get(op).and_then(|asked| asked.answered);
            if let Some(id) = timer.filter(|id| self.cancelled.contains(id) != *in_time) {
                let said = format!("timer {id}: its canceller was told {in_time}");
                broken.push(Broken::new(Promise::Truth, said));
            }
        }
    }

    fn attempt(&self, id: i64, number: u32) -> Option<&(String, Option<i64>)> {
        self.attempts.get(&(id, number))
    }

    /// The settlements that were the message's end: not given back, and not a failed attempt.
    fn done<'m>(&self, id: i64, message: &'m Message) -> Vec<&'m Step> {
        let given_back = |step: &Step| {
            let again = |s: &&Step| s.kind == Kind::Claimed && s.attempt == step.attempt && s.seq > step.seq;
            message.steps.iter().any(|s| again(&s) && s.token != step.token)
        };
        let failed = |step: &Step| self.attempt(id, step.attempt).is_some_and(|(o, _)| o != "reaped");
        let ends = message.steps.iter().filter(|step| step.kind == Kind::Settled);
        ends.filter(|step| !failed(step) && !given_back(step)).collect()
    }

    fn judge_workers(&self, broken: &mut Vec<Broken>) {
        let none = Vec::new();
        let steps = |id: &i64| self.messages.get(id).map_or(&none, |message| &message.steps);
        for ((id, attempt), (op, times)) in &self.began {
            if self.what(*op).is_none() || !self.messages.contains_key(id) {
                let said = format!("message {id} (of {op}) was begun, and is not there");
                broken.push(Broken::new(Promise::NothingMadeUp, said));
            }
            let claims =
                steps(id).iter().filter(|s| s.kind == Kind::Claimed && s.attempt == *attempt).count();
            if *times > claims {
                let said = format!("message {id}, attempt {attempt}: begun {times} times, claimed {claims}");
                broken.push(Broken::new(Promise::ClaimedFirst, said));
            }
        }
        let has = |id: &i64, token: &str, kind| steps(id).iter().any(|s| s.kind == kind && s.token == token);
        for (token, id, now) in &self.by_hand {
            if !has(id, token, Kind::Claimed) {
                let said = format!("{token} was handed out with message {id}, and is no claim");
                broken.push(Broken::new(Promise::ClaimedFirst, said));
            }
            if self.messages.get(id).is_some_and(|m| *now < m.due) {
                broken.push(Broken::new(Promise::NotEarly, format!("message {id} by hand at {now}")));
            }
        }
        for (token, id, outcome) in &self.told {
            let true_word = match outcome.as_str() {
                "Done" => has(id, token, Kind::Settled),
                "LostClaim" => has(id, token, Kind::Lost),
                _ => false,
            };
            if !true_word {
                let said = format!("{token} was told {outcome} about message {id}: {:?}", steps(id));
                broken.push(Broken::new(Promise::Truth, said));
            }
        }
    }

    fn judge_keys(&self, broken: &mut Vec<Broken>) {
        let mut keys: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for (op, asked) in &self.asked {
            // One whose answer was lost may have been committed after its successor.
            if let (Some(key), Some(id)) = (asked.what.key(*op), asked.answered) {
                keys.entry(key).or_default().push(id);
            }
        }
        for (key, ids) in keys {
            for pair in ids.windows(2) {
                let (Some(first), Some(next)) = (self.messages.get(&pair[0]), self.messages.get(&pair[1]))
                else {
                    continue;
                };
                let done = self.done(pair[0], first).first().map(|step| step.seq);
                let begun = next.steps.iter().find(|step| step.kind == Kind::Claimed).map(|step| step.seq);
                if let (Some(done), Some(begun)) = (done, begun)
                    && begun < done
                {
                    let said =
                        format!("key {key}: message {} was claimed before {} was done", pair[1], pair[0]);
                    broken.push(Broken::new(Promise::KeyOrder, said));
                }
            }
        }
    }

    /// Adds this round to what is told at the end.
    pub fn count(&self, tally: &mut Tally) {
        tally.rounds += 1;
        tally.asked += self.asked.len() + self.sends.asked();
        tally.done += self.messages.iter().filter(|(id, m)| !self.done(**id, m).is_empty()).count();
        tally.dead += self.dead.len();
        let lost = |m: &Message| m.steps.iter().filter(|step| step.kind == Kind::Lost).count();
        tally.lost += self.messages.values().map(lost).sum::<usize>();
        tally.told_lost += self.told.iter().filter(|(_, _, outcome)| outcome == "LostClaim").count();
        tally.unsure += self.asked.values().filter(|a| a.answered.is_none() && a.open).count();
        tally.unsure += self.sends.unsure();
        self.sends.count(tally);
        let full = |why: &&String| why.contains("is full") || why.contains("No space left");
        tally.full += self.troubles.iter().filter(full).count();
        tally.cancelled += self.cancelled.len();
        tally.runs += self.jobs.count();
        // Leases are counted from the first round on.
        tally.acquired = self.leases.acquired();
        tally.stale = self.leases.refused();
        tally.received += self.received.count();
        tally.late += self.received.refused();
    }

    /// How long messages waited for handlers; workers by hand take their time.
    pub fn lateness(&self) -> Vec<i64> {
        let first = |m: &Message| m.steps.iter().find(|s| s.kind == Kind::Claimed).map(|s| s.at - m.due);
        let by_hand = |m: &&Message| self.asked.get(&m.op).is_some_and(|a| a.what == Operation::Raw);
        self.messages.values().filter(|m| !by_hand(m)).filter_map(first).collect()
    }
}

/// What a trigger of SQLite cannot tell apart, in microseconds.
pub const MILLISECOND: i64 = 1_000;

fn items(text: &str) -> Open {
    claim::read(text).unwrap().iter().map(|item| (item.message().0, item.attempt())).collect()
}

pub fn text(row: &[Option<String>], n: usize) -> &str {
    row[n].as_deref().unwrap()
}

pub fn int(row: &[Option<String>], n: usize) -> i64 {
    text(row, n).parse().unwrap()
}

pub fn maybe_int(row: &[Option<String>], n: usize) -> Option<i64> {
    row[n].as_deref().map(|text| text.parse().unwrap())
}

/// Which promises a set of findings is about.
pub fn promises(broken: &[Broken]) -> BTreeSet<Promise> {
    broken.iter().map(|b| b.promise).collect()
}
