//! The truth: what was published and what its publishers were told, who had each message in
//! hand under which claim, and what came of it. Kept beside the database, and never read from it.

use super::checker::{FreshMessage, is_event};
use super::dice::Dice;
use super::entries::Entries;
use super::jobs::Known;
use super::people::TOLD;
use super::timers::Change;
use super::workload::draw_fate;
use punctual::queue::store::messages::EnqueueOutcome;
use punctual::survey::store::admit::INGEST_TOPIC;
use punctual::{Error, NewMessage, Result as Answered, Tenant, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a check says when something must not be.
pub type Verdict<T = ()> = Result<T, String>;

/// What a message's handler does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All is well, at once.
    Fine,
    /// All is well, after a while.
    Slow(Duration),
    /// Fails so many times first.
    Retry(u32),
    /// Fails so many times first, and asks for time.
    RetryAfter(u32, Duration),
    /// Panics so many times first.
    Panic(u32),
    /// Takes its engine down so many times first.
    Poison(u32),
    /// Is refused for good.
    Fail,
    /// Fails for ever.
    Forever,
}

/// A message as its publisher knows it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub n: u64,
    pub tenant: Tenant,
    pub message: NewMessage,
    pub fate: Fate,
    /// Not handled before.
    pub due: Timestamp,
    /// Calls that published it and have not been answered.
    asked: usize,
    /// A publisher was told that it is there.
    accepted: bool,
    /// One of them was told that it is new.
    new: bool,
    /// A publisher was told that nobody knows.
    doubt: bool,
    /// Its row, once it was seen, and its place in the order of its key.
    pub row: Option<(i64, Timestamp)>,
    pub generation: u32,
    pub flights: Vec<Flight>,
    pub effects: usize,
    /// It was settled for good.
    pub done: bool,
    /// The job of which it is a run.
    pub job: Option<String>,
    /// Changes that were asked for, if it is a timer, and what came of them.
    pub changes: Vec<Change>,
    pub moved: bool,
    pub cancelled: bool,
}

/// A claim of one message.
#[derive(Clone, Debug)]
pub struct Flight {
    pub generation: u32,
    pub attempt: u32,
    pub owner: String,
    pub token: String,
    /// Whether its handler was called, and whether that is still going on.
    pub begun: bool,
    pub going: bool,
    pub effect: bool,
    /// The handler said that it did not work out, and how long it wants to wait at least.
    pub failed: Option<Duration>,
    /// What became of the claim.
    pub end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Acked,
    GivenBack,
    Reaped,
    Dead,
}

/// A call of a handler: which message, which flight.
pub type Run = (u64, usize);

#[derive(Debug, Default)]
pub struct Truth {
    pub entries: BTreeMap<u64, Entry>,
    by_row: BTreeMap<i64, u64>,
    stopped: BTreeSet<String>,
    pub jobs: BTreeMap<String, Known>,
    /// From now on every handler succeeds.
    pub mended: bool,
}

impl Truth {
    /// A new message, numbered.
    pub fn write(&mut self, tenant: Tenant, fate: Fate, due: Timestamp, message: NewMessage) -> u64 {
        let n = self.entries.len() as u64 + 1;
        let message = NewMessage { payload: format!("{{\"n\":{n}}}"), ..message };
        let entry = Entry {
            n,
            tenant,
            message,
            fate,
            due,
            asked: 0,
            accepted: false,
            new: false,
            doubt: false,
            row: None,
            generation: 1,
            flights: Vec::new(),
            effects: 0,
            done: false,
            job: None,
            changes: Vec::new(),
            moved: false,
            cancelled: false,
        };
        self.entries.insert(n, entry);
        n
    }

    pub fn entry(&self, n: u64) -> &Entry {
        &self.entries[&n]
    }

    pub fn entry_mut(&mut self, n: u64) -> &mut Entry {
        self.entries.get_mut(&n).expect("an entry of this number")
    }

    /// The number of the message in this row.
    pub fn number(&self, row: i64) -> Verdict<u64> {
        self.by_row.get(&row).copied().ok_or_else(|| format!("row {row} is no message that was published"))
    }

    /// These are on their way to the database.
    pub fn ask(&mut self, all: &[u64]) {
        all.iter().for_each(|n| self.entry_mut(*n).asked += 1);
    }

    /// What their publisher hears; `None`: it never heard.
    pub fn answered(&mut self, all: &[u64], answer: Option<&Answered<Vec<EnqueueOutcome>>>) -> Verdict {
        for (at, n) in all.iter().enumerate() {
            let entry = self.entry_mut(*n);
            entry.asked -= 1;
            match answer {
                None | Some(Err(Error::Unknown(_))) => entry.doubt = true,
                Some(Err(_)) => entry.refused()?,
                Some(Ok(each)) => entry.told(&each[at])?,
            }
        }
        Ok(())
    }

    /// A row of the message table that was not there before.
    pub fn appeared(&mut self, fresh: &FreshMessage, entries: &mut Entries) -> Verdict {
        let (row, payload, order) = (fresh.id, fresh.payload.as_str(), fresh.order);
        if fresh.topic == INGEST_TOPIC {
            entries.handed_in.insert(row);
            return Ok(());
        }
        if is_event(payload) {
            return entries.events.appeared(row, payload);
        }
        if payload.contains("instancePublicId") {
            entries.hear(&serde_json::from_str(payload).expect("a payload"));
            self.made_appeared(row, NewMessage::new(TOLD, "moment", ""), Tenant::DEFAULT, order);
            return Ok(());
        }
        if let Some(job) = payload.strip_prefix("{\"job\":\"") {
            return self.run_appeared(row, job.trim_end_matches("\"}"), order);
        }
        let n: u64 = payload.trim_start_matches("{\"n\":").trim_end_matches('}').parse().expect("a number");
        let entry = self.entry_mut(n);
        if let Some((first, _)) = entry.row.replace((row, order)) {
            return Err(format!("message {n} was admitted twice, as rows {first} and {row}"));
        }
        if !entry.may_exist() {
            return Err(format!("message {n} was refused or rolled back, and is there all the same"));
        }
        self.by_row.insert(row, n);
        Ok(())
    }

    /// A message that an engine has written for a run.
    fn run_appeared(&mut self, row: i64, job: &str, scheduled: Timestamp) -> Verdict {
        let known = self.jobs.get(job).ok_or_else(|| format!("row {row} is of an unknown job {job}"))?;
        let message = NewMessage::new(&known.topic, "job-run", "").due_at(scheduled);
        let tenant = known.tenant;
        let n = self.made_appeared(row, message, tenant, scheduled);
        self.entry_mut(n).job = Some(job.to_owned());
        Ok(())
    }

    /// A message that an engine has written by itself. What becomes of it follows from its number.
    fn made_appeared(&mut self, row: i64, message: NewMessage, tenant: Tenant, order: Timestamp) -> u64 {
        let fate = draw_fate(&mut Dice::new(row.unsigned_abs()), Duration::from_secs(4));
        let n = self.write(tenant, fate, order, message);
        let entry = self.entry_mut(n);
        (entry.row, entry.accepted) = (Some((row, order)), true);
        self.by_row.insert(row, n);
        n
    }

    /// Whether one of the two must not begin while the other goes: they are of one key, or of one
    /// job that does not overlap. A run that was replayed comes back whatever goes on.
    fn exclude(&self, a: &Entry, b: &Entry) -> bool {
        let exclusive = |job: &String| self.jobs.get(job).is_some_and(Known::is_exclusive);
        let runs = a.n != b.n && a.job == b.job && a.generation + b.generation == 2;
        a.is_behind(b) || (runs && a.job.as_ref().is_some_and(exclusive))
    }

    /// A handler is called.
    pub fn begin(&mut self, actor: &str, row: i64, attempt: u32, now: Timestamp) -> Verdict<Run> {
        let n = self.number(row)?;
        if self.stopped.contains(actor) {
            return Err(format!("{actor} began message {n} after it had stopped"));
        }
        self.assert_alone(n)?;
        let entry = self.entry_mut(n);
        if entry.cancelled {
            return Err(format!("message {n} was begun after it was cancelled"));
        }
        if now < entry.due {
            return Err(format!("message {n} was begun at {now}, before it is due at {}", entry.due));
        }
        let mine = |f: &Flight| f.owner == actor && f.attempt == attempt && !f.begun;
        let Some(at) = entry.flights.iter().rposition(mine) else {
            return Err(format!("{actor} began attempt {attempt} of message {n} twice, or without a claim"));
        };
        let flight = &mut entry.flights[at];
        if let Some(end) = flight.end {
            return Err(format!("{actor} began message {n} under a claim that had ended: {end:?}"));
        }
        (flight.begun, flight.going) = (true, true);
        Ok((n, at))
    }

    /// Nobody else has this message, or another that excludes it, in hand under a claim that stands.
    fn assert_alone(&self, n: u64) -> Verdict {
        let entry = self.entry(n);
        for other in self.entries.values().filter(|other| other.n == n || self.exclude(other, entry)) {
            if let Some(flight) = other.flights.iter().find(|f| f.going && f.end.is_none()) {
                let (m, owner) = (other.n, &flight.owner);
                return Err(format!(
                    "message {n} was begun while {owner} is at message {m}, whose claim holds"
                ));
            }
        }
        Ok(())
    }

    /// A handler has ended: well, or not (and asks for so much time).
    pub fn end(&mut self, (n, at): Run, failed: Option<Duration>) {
        let entry = self.entry_mut(n);
        entry.effects += usize::from(failed.is_none());
        let flight = &mut entry.flights[at];
        (flight.going, flight.effect, flight.failed) = (false, failed.is_none(), failed);
    }

    /// A handler was cut short.
    pub fn cut(&mut self, (n, at): Run) {
        self.entry_mut(n).flights[at].going = false;
    }

    /// Everything that one actor does ends here and now.
    pub fn end_runs_of(&mut self, actor: &str) {
        let flights = self.entries.values_mut().flat_map(|entry| &mut entry.flights);
        flights.filter(|f| f.owner == actor).for_each(|f| f.going = false);
    }

    /// An engine has stopped, and said so.
    pub fn stopped(&mut self, actor: &str) {
        self.stopped.insert(actor.to_owned());
    }

    /// How often this message's handler has failed so far, and what it does now.
    pub fn fate(&self, n: u64) -> (u32, Fate) {
        let entry = self.entry(n);
        let begun = entry.flights.iter().filter(|f| f.begun && !f.going && !f.effect).count();
        (u32::try_from(begun).unwrap(), if self.mended { Fate::Fine } else { entry.fate })
    }

    /// In the end: what was accepted was handled, and nothing is left of anything.
    pub fn assert_all_done(&self) -> Verdict {
        for entry in self.entries.values() {
            let n = entry.n;
            match entry.row {
                None if entry.accepted => return Err(format!("message {n} was accepted, and is not there")),
                Some(_) if entry.cancelled && entry.effects == 0 => {}
                Some(_) if !entry.done => return Err(format!("message {n} is not done in the end")),
                Some(_) if entry.effects == 0 => {
                    return Err(format!("message {n} is done without an effect"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Entry {
    /// Waits that its handler asked for and got since it was enqueued or replayed.
    pub fn snoozes(&self) -> u32 {
        let snoozed = |f: &&Flight| {
            let waited = f.failed.is_some_and(|wait| wait > Duration::ZERO);
            f.generation == self.generation && waited && f.end == Some(End::GivenBack)
        };
        u32::try_from(self.flights.iter().filter(snoozed).count()).unwrap()
    }

    /// Whether it is still to be handled.
    pub const fn is_open(&self) -> bool {
        !self.done && !self.cancelled
    }

    const fn may_exist(&self) -> bool {
        self.asked > 0 || self.accepted || self.doubt
    }

    fn refused(&self) -> Verdict {
        match self.row {
            Some(_) if !self.may_exist() => Err(format!(
                "the publisher of message {} was told that nothing was written, but it is there",
                self.n
            )),
            _ => Ok(()),
        }
    }

    fn told(&mut self, answer: &EnqueueOutcome) -> Verdict {
        let n = self.n;
        self.accepted = true;
        let first = !self.new;
        self.new |= matches!(answer, EnqueueOutcome::New(_));
        let named = self.message.id.is_some();
        match (answer, self.row) {
            (_, None) => Err(format!("message {n} was accepted, and is not there")),
            (EnqueueOutcome::New(id), Some((row, _))) if id.0 == row && first => Ok(()),
            (EnqueueOutcome::Duplicate { of, same: true }, Some((row, _))) if named => match of {
                Some(of) if of.0 != row => Err(format!("message {n} is row {row}, and no duplicate of {of}")),
                _ => Ok(()),
            },
            _ => Err(format!("the publisher of message {n} was told {answer:?}")),
        }
    }

    /// Whether the two are of one key.
    pub fn is_behind(&self, other: &Self) -> bool {
        self.n != other.n
            && self.message.key.is_some()
            && (self.tenant, &self.message.topic, &self.message.key)
                == (other.tenant, &other.message.topic, &other.message.key)
    }

    /// The flight under this claim.
    pub fn flight(&mut self, token: &str) -> Verdict<&mut Flight> {
        let n = self.n;
        let flight = self.flights.iter_mut().find(|f| f.token == token);
        flight.ok_or_else(|| format!("message {n} was never under the claim {token}"))
    }
}
