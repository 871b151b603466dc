//! Entries: each moves only as the rules allow, and only by the hand of whoever may move it; an active
//! one has its work in one place; an intent is written for what is active and due, and before any
//! letter; what is answered is told once (TRG-8, TRG-11, TRG-13, TRG-15, TRG-16, TRG-22).
//!
//! All of it is read from the tables after every transaction. What the letters of a channel came to
//! is `letters.rs`; what people do to entries is `people.rs`.

use super::checker::{Hand, Item, Place, Tables};
use super::letters::Letters;
use super::truth::Verdict;
use punctual::rules::duration;
use punctual::rules::entry::{Deed, Status};
use punctual::rules::public_id::PublicId;
use punctual::{Tenant, Timestamp};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What never changes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    pub tenant: i64,
    pub flow: i64,
    pub number: i64,
    pub trigger: String,
    lane: i64,
    pub channel: String,
    pub public: (i64, i64),
    hash: String,
    pub payload: String,
    triggered_at: Timestamp,
    grace: Duration,
    reminders: i64,
}

/// An entry's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub birth: Birth,
    pub status: Status,
    pub next_send_at: Option<Timestamp>,
    last_sent_at: Option<Timestamp>,
    remaining: i64,
    opened_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    pub deleted: bool,
    version: i64,
}

impl Row {
    /// The number of the send that is due next.
    pub fn attempt(&self) -> i64 {
        self.birth.reminders - self.remaining + 1
    }

    pub fn public_id(&self) -> PublicId {
        PublicId::from_halves(self.birth.public).expect("a public id")
    }

    /// Whether it was made by an event with this payload.
    pub fn is_of(&self, tenant: i64, payload: &str) -> bool {
        (self.birth.tenant, self.birth.payload.as_str()) == (tenant, payload)
    }

    /// When it has been quiet for as long as it may.
    fn quiet_until(&self) -> Timestamp {
        self.last_sent_at.unwrap_or(self.birth.triggered_at).plus(self.birth.grace)
    }
}

/// What a published trigger says.
#[derive(Clone, Debug)]
struct Spec {
    delay: Duration,
    reminders: Vec<Duration>,
    grace: Duration,
    channel: String,
}

impl Spec {
    fn of(trigger: &Value) -> Self {
        let length = |value: &Value| duration::parse(value.as_str().unwrap()).unwrap();
        let schedule = &trigger["schedule"];
        Self {
            delay: length(&schedule["initialDelay"]),
            reminders: schedule["reminders"].as_array().unwrap().iter().map(length).collect(),
            grace: length(&trigger["expiry"]),
            channel: trigger["channel"].as_str().unwrap().to_owned(),
        }
    }
}

/// A try of a send: entry, number of the send, number of the try.
pub type Try = (i64, i64, i64);

/// The tables as they were after a transaction.
#[derive(Debug, Default)]
pub struct Seen {
    pub rows: BTreeMap<i64, Row>,
    /// Intents: when each was written.
    pub intents: BTreeMap<(i64, i64), Timestamp>,
    pub outcomes: BTreeMap<Try, String>,
    responses: BTreeSet<i64>,
    /// Which entry has a key, both by their halves.
    keys: BTreeMap<(i64, i64), (i64, i64)>,
}

/// What the tables say of entries, and what is known of them beside the tables.
#[derive(Debug, Default)]
pub struct Entries {
    pub seen: Seen,
    versions: i64,
    /// By survey, version and trigger.
    specs: BTreeMap<(i64, i64, String), Spec>,
    pub letters: Letters,
    /// What people have asked to be done to an entry, the answer heard or not.
    pub asked: BTreeSet<(i64, Wish)>,
    /// Events that stop what others began: tenant and visit.
    pub stops: BTreeSet<(i64, String)>,
    /// Messages for others, by entry and kind.
    told: BTreeMap<(String, String), usize>,
    /// Ids that somebody was told to be new.
    pub created: BTreeSet<(i64, i64)>,
    /// What the tables added up to when they were last looked at.
    sum: Vec<i64>,
}

/// What a person can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    Open,
    Submit,
    Cancel,
    Delete,
}

type Said = Vec<(&'static str, String)>;

impl Entries {
    /// A message for others was written.
    pub fn hear(&mut self, payload: &Value) {
        let field = |name: &str| payload[name].as_str().expect("a text").to_owned();
        *self.told.entry((field("instancePublicId"), field("eventType"))).or_default() += 1;
    }

    pub fn by_public_id(&self, id: PublicId) -> Option<(i64, &Row)> {
        let halves = id.halves();
        self.seen.rows.iter().find(|(_, row)| row.birth.public == halves).map(|(id, row)| (*id, row))
    }

    /// Reads them again; what has changed, if that may be, as words for the trace.
    pub fn look(
        &mut self,
        connection: &Connection,
        (before, tables): (&Tables, &Tables),
        hand: &Hand<'_>,
    ) -> Verdict<Said> {
        let sum = self.sum(connection).map_err(|e| e.to_string())?;
        let same_work = before.items.range(..0).eq(tables.items.range(..0));
        if same_work && sum == self.sum {
            return Ok(Said::new());
        }
        self.sum = sum;
        let is = Seen::read(connection).map_err(|e| e.to_string())?;
        self.read_specs(connection).map_err(|e| e.to_string())?;
        let look = Look { known: self, was: &self.seen, is: &is, before, tables, hand };
        let mut said = Said::new();
        for (id, row) in &is.rows {
            let was = self.seen.rows.get(id);
            let words = || format!("entry {id}: {was:?} -> {row:?}, by {}", hand.actor);
            if was != Some(row) {
                let deed = look.changed(*id, was, row).map_err(|why| format!("{why}: {}", words()))?;
                said.push((deed, format!("entry {id}: {deed}, {} v{}", row.status, row.version)));
            }
            look.work(*id, row).map_err(|why| format!("{why}: {}", words()))?;
            look.told(*id, row)?;
        }
        if let Some(id) = self.seen.rows.keys().find(|id| !is.rows.contains_key(id)) {
            return Err(format!("entry {id} is gone"));
        }
        look.intents()?;
        said.extend(look.outcomes()?);
        look.keys()?;
        if !self.seen.responses.is_subset(&is.responses) {
            return Err("an answer is gone".into());
        }
        self.seen = is;
        Ok(said)
    }

    /// Most transactions have nothing to do with entries: then these are as they were.
    fn sum(&self, connection: &Connection) -> rusqlite::Result<Vec<i64>> {
        let mut statement = connection.prepare_cached(SUM)?;
        let mut sum: Vec<i64> =
            statement.query_row([], |row| (0..SUMS).map(|n| row.get(n)).collect::<Result<_, _>>())?;
        sum.push(i64::try_from(self.told.values().sum::<usize>()).unwrap());
        Ok(sum)
    }

    /// A version never changes, so it is read once.
    fn read_specs(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "select flow_id, number, definition from punctual_flow_version where rowid > ?1 order by rowid",
        )?;
        let versions = statement.query_map([self.versions], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
        for version in versions {
            let (flow, number, definition): (i64, i64, String) = version?;
            self.versions += 1;
            let definition: Value = serde_json::from_str(&definition).expect("a definition");
            for trigger in definition["triggers"].as_array().unwrap() {
                let key = (flow, number, trigger["id"].as_str().unwrap().to_owned());
                self.specs.insert(key, Spec::of(trigger));
            }
        }
        Ok(())
    }

    /// In the end: everything has ended, and what went out is in the log.
    pub fn assert_all_ended(&self) -> Verdict {
        match self.seen.rows.iter().find(|(_, row)| row.status.is_active()) {
            Some((id, row)) => Err(format!("entry {id} is {} in the end", row.status)),
            None => self.letters.assert_all_logged(&self.seen.outcomes),
        }
    }
}

impl Seen {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut is = Self { rows: rows(connection)?, ..Self::default() };
        let mut statement =
            connection.prepare_cached("select entry_id, attempt, created_at from punctual_delivery")?;
        let intents = statement.query_map([], |r| Ok(((r.get(0)?, r.get(1)?), micros(r.get(2)?))))?;
        is.intents = intents.collect::<Result<_, _>>()?;
        let mut statement = connection
            .prepare_cached("select entry_id, attempt, tried, status from punctual_delivery_outcome")?;
        let outcomes = statement.query_map([], |r| Ok(((r.get(0)?, r.get(1)?, r.get(2)?), r.get(3)?)))?;
        is.outcomes = outcomes.collect::<Result<_, _>>()?;
        let mut statement = connection.prepare_cached("select entry_id from punctual_response")?;
        is.responses = statement.query_map([], |r| r.get(0))?.collect::<Result<_, _>>()?;
        let mut statement = connection.prepare_cached(
            "select key_high, key_low, public_high, public_low from punctual_entry where deleted_at is null",
        )?;
        let keys = statement.query_map([], |r| Ok(((r.get(0)?, r.get(1)?), (r.get(2)?, r.get(3)?))))?;
        is.keys = keys.collect::<Result<_, _>>()?;
        Ok(is)
    }
}

const SUMS: usize = 9;
const SUM: &str = "select count(*), coalesce(sum(version), 0), coalesce(sum(status + 8 * remaining), 0), \
        coalesce(sum(next_send_at % 1000003 + coalesce(last_sent_at, 0) % 1000003), 0), \
        count(deleted_at) + 1000 * count(opened_at) + 1000000 * count(completed_at), \
        (select count(*) from punctual_delivery), (select count(*) from punctual_delivery_outcome), \
        (select count(*) from punctual_response), (select count(*) from punctual_entry_key) \
    from punctual_entry";

/// One look at what a transaction did.
struct Look<'a> {
    known: &'a Entries,
    was: &'a Seen,
    is: &'a Seen,
    before: &'a Tables,
    tables: &'a Tables,
    hand: &'a Hand<'a>,
}

impl Look<'_> {
    /// Which deed a change of the row was, if it may have been one.
    fn changed(&self, id: i64, was: Option<&Row>, is: &Row) -> Verdict<&'static str> {
        let Some(was) = was else { return self.made(is).map(|()| "entry made") };
        if was.birth != is.birth {
            return Err("what never changes of it has changed".into());
        }
        let same_version = Row { deleted: is.deleted, ..was.clone() } == *is;
        if is.version < was.version || (is.version == was.version && !same_version) {
            return Err("it changed, and its version did not rise".into());
        }
        if was.deleted && !is.deleted {
            return Err("it was deleted, and is there again".into());
        }
        let (deed, word) = self.deed(id, was, is)?;
        match was.status.after(deed) {
            Ok(status) if status == is.status => Ok(word),
            other => Err(format!("{deed:?} should have made {other:?} of it")),
        }
    }

    fn deed(&self, id: i64, was: &Row, is: &Row) -> Verdict<(Deed, &'static str)> {
        let asked = |deed| match self.known.asked.contains(&(id, deed)) {
            true => Ok(()),
            false => Err(format!("nobody asked to {deed:?} it")),
        };
        if is.last_sent_at != was.last_sent_at {
            return self.sent(id, was, is).map(|word| (Deed::Sent, word));
        }
        if is.status == was.status && is.status.is_active() && is.opened_at == was.opened_at {
            return self.not_sent(id, was, is).map(|word| (Deed::NotSent, word));
        }
        match is.status {
            Status::Failed => {
                self.not_sent(id, was, is)?;
                Ok((Deed::GaveUp, "entry failed"))
            }
            Status::Completed if was.status != is.status => {
                asked(Wish::Submit)?;
                let whole = is.completed_at == Some(self.hand.now) && is.next_send_at.is_none();
                whole.then_some((Deed::Submitted, "entry answered")).ok_or("it is answered by halves".into())
            }
            Status::Opened => {
                asked(Wish::Open)?;
                let same = (was.next_send_at, was.remaining) == (is.next_send_at, is.remaining);
                same.then_some((Deed::Opened, "entry opened")).ok_or("opening moved its sends".into())
            }
            Status::Expired if was.status != is.status => {
                let quiet = was.next_send_at.is_none() && was.quiet_until() < self.hand.now;
                quiet.then_some((Deed::Expired, "entry expired")).ok_or("it was not quiet for long".into())
            }
            _ if is.deleted && !was.deleted => {
                asked(Wish::Delete)?;
                Ok((Deed::Deleted, "entry deleted"))
            }
            Status::Cancelled => {
                let event = (was.birth.tenant, was.birth.payload.clone());
                if !self.known.stops.contains(&event) {
                    asked(Wish::Cancel)?;
                }
                let sends = is.next_send_at.is_some();
                (!sends).then_some((Deed::Cancelled, "entry cancelled")).ok_or("it has a next send".into())
            }
            _ => Err("nothing makes this of an entry".into()),
        }
    }

    fn spec(&self, row: &Row) -> Verdict<&Spec> {
        let key = (row.birth.flow, row.birth.number, row.birth.trigger.clone());
        self.known.specs.get(&key).ok_or_else(|| format!("nobody published {key:?}"))
    }

    fn made(&self, is: &Row) -> Verdict {
        let spec = self.spec(is)?;
        let due = self.hand.now.plus(spec.delay);
        let total = i64::try_from(spec.reminders.len()).unwrap();
        let right = is.status == Status::Pending
            && (is.next_send_at, is.last_sent_at) == (Some(due), None)
            && (is.remaining, is.birth.reminders, is.birth.grace) == (total, total, spec.grace)
            && (is.birth.triggered_at, &is.birth.channel) == (self.hand.now, &spec.channel);
        right.then_some(()).ok_or_else(|| format!("it is not what {spec:?} makes"))
    }

    /// The claim under which an entry's send was, for whoever ended it now.
    fn flight(&self, id: i64) -> Verdict<(&str, i64)> {
        match self.before.items.get(&-id).map(|item| &item.place) {
            Some(Place::Flying { token, owner, until, attempt, .. })
                if owner == self.hand.actor || *until <= self.hand.now =>
            {
                Ok((token, i64::from(*attempt)))
            }
            other => Err(format!("its send was in nobody's hands, or another's: {other:?}")),
        }
    }

    fn sent(&self, id: i64, was: &Row, is: &Row) -> Verdict<&'static str> {
        let (token, tried) = self.flight(id)?;
        self.known.letters.assert_taken((id, was.attempt(), tried), token)?;
        let wait = self.wait(was)?;
        let next = wait.map(|wait| self.hand.now.plus(wait));
        let left = if wait.is_some() { was.remaining - 1 } else { 0 };
        let right = (is.last_sent_at, is.next_send_at, is.remaining) == (Some(self.hand.now), next, left);
        let word = if was.attempt() > 1 { "entry reminded" } else { "entry invited" };
        right.then_some(word).ok_or_else(|| format!("what follows should be due at {next:?}, {left} left"))
    }

    /// The wait for the reminder that follows the send that is due.
    fn wait(&self, was: &Row) -> Verdict<Option<Duration>> {
        let index = usize::try_from(was.birth.reminders - was.remaining).map_err(|e| e.to_string())?;
        Ok(self.spec(was)?.reminders.get(index).copied())
    }

    /// A try that did not go well: the same once more, this send given up, or nothing any more.
    fn not_sent(&self, id: i64, was: &Row, is: &Row) -> Verdict<&'static str> {
        self.flight(id)?;
        if (was.next_send_at, was.remaining) == (is.next_send_at, is.remaining) {
            return Ok("send to be tried again");
        }
        if is.next_send_at.is_none()
            && is.remaining == was.remaining
            && was.birth.channel == super::people::NOBODY
        {
            return Ok("entry without a channel");
        }
        let due = was.next_send_at.ok_or("nothing was due")?;
        let next = self.wait(was)?.map(|wait| match due.plus(wait) {
            passed if passed <= self.hand.now => self.hand.now.plus(wait),
            at => at,
        });
        let left = if next.is_some() { was.remaining - 1 } else { 0 };
        let right = (is.next_send_at, is.remaining) == (next, left);
        right.then_some("send given up").ok_or_else(|| format!("{next:?} should follow, {left} left"))
    }

    /// An active entry has its work in one place, and the place fits; work moves only by its owner.
    fn work(&self, id: i64, row: &Row) -> Verdict {
        let (was, is) = (self.before.items.get(&-id), self.tables.items.get(&-id));
        match is {
            None if row.status.is_active() => return Err("it is active, and has no work".into()),
            Some(item) if row.status.is_active() => self.fits(row, item)?,
            _ => {}
        }
        if was == is {
            return Ok(());
        }
        match (was.map(|item| &item.place), is.map(|item| &item.place)) {
            (None, Some(Place::Waiting { attempts: 0, .. })) if !self.was.rows.contains_key(&id) => Ok(()),
            (Some(Place::Waiting { due, attempts, .. }), Some(Place::Flying { .. })) => {
                self.claimed(id, row, (*due, *attempts), is.expect("an item"))
            }
            // Quiet, but not for long enough; or it has ended.
            (Some(Place::Waiting { due, .. }), _) if *due <= self.hand.now || !row.status.is_active() => {
                Ok(())
            }
            (Some(Place::Flying { token, .. }), Some(Place::Flying { token: same, .. })) if token == same => {
                self.flight(id).map(|_| ())
            }
            (Some(Place::Flying { .. }), to) => self.landed(id, to),
            _ => Err(format!("its work may not move like this: {was:?} -> {is:?}")),
        }
    }

    fn fits(&self, row: &Row, item: &Item) -> Verdict {
        let Place::Waiting { due, .. } = &item.place else {
            let sends = item.lane == row.birth.lane && row.next_send_at.is_some();
            return sends.then_some(()).ok_or_else(|| "what is in flight is no send of it".to_owned());
        };
        let right = match row.next_send_at {
            Some(at) => item.lane == row.birth.lane && *due >= at,
            None => item.lane != row.birth.lane && *due == row.quiet_until().plus(Duration::from_micros(1)),
        };
        right.then_some(()).ok_or_else(|| format!("its work waits in lane {} until {due}", item.lane))
    }

    fn claimed(&self, id: i64, row: &Row, (due, attempts): (Timestamp, u32), item: &Item) -> Verdict {
        let Place::Flying { owner, until, attempt, .. } = &item.place else { return Ok(()) };
        let now = self.hand.now;
        if !row.status.is_active() || row.deleted {
            return Err("it is to be sent, and has ended".into());
        }
        if due > now || row.next_send_at.is_none_or(|at| at > now) {
            return Err("it is to be sent, and is not due".into());
        }
        if *attempt != attempts + 1 || owner != self.hand.actor || *until <= now {
            return Err("the claim has a wrong attempt, owner or lease".into());
        }
        let intent = self.is.intents.contains_key(&(id, row.attempt()));
        intent.then_some(()).ok_or_else(|| "it is claimed without an intent".into())
    }

    /// Out of a claim: lost, never begun, to be tried again, or through.
    fn landed(&self, id: i64, to: Option<&Place>) -> Verdict {
        let (token, tried) = self.flight(id)?;
        let Some(Place::Waiting { attempts, .. }) = to else { return Ok(()) };
        let begun = self.known.letters.is_begun(token, id);
        match i64::from(*attempts) {
            0 => Ok(()),
            n if n == tried => Ok(()),
            n if n == tried - 1 && !begun => Ok(()),
            n => Err(format!("it came back after {n} tries, and was at {tried}; begun: {begun}")),
        }
    }

    /// An intent is written for what is active and due, with its claim, and never changes.
    fn intents(&self) -> Verdict {
        for (intent, at) in &self.is.intents {
            let (id, attempt) = *intent;
            match self.was.intents.get(intent) {
                Some(was) if was == at => continue,
                Some(_) => return Err(format!("the intent {intent:?} was changed")),
                None => {}
            }
            let row = self.is.rows.get(&id).ok_or_else(|| format!("{intent:?} is an intent of no entry"))?;
            let flies = matches!(
                self.tables.items.get(&-id).map(|item| &item.place),
                Some(Place::Flying { owner, .. }) if owner == self.hand.actor
            );
            let due = row.next_send_at.is_some_and(|due| due <= self.hand.now);
            let may = row.status.is_active() && !row.deleted && flies && due;
            if !may || *at != self.hand.now || attempt != row.attempt() {
                return Err(format!("the intent {intent:?} was written for {row:?}; in flight: {flies}"));
            }
        }
        let gone = self.was.intents.keys().find(|intent| !self.is.intents.contains_key(intent));
        gone.map_or(Ok(()), |intent| Err(format!("the intent {intent:?} is gone")))
    }

    /// Outcomes are only ever added, and say what the channel said, or that nobody knows.
    fn outcomes(&self) -> Verdict<Said> {
        let mut said = Said::new();
        for (of, word) in &self.was.outcomes {
            if self.is.outcomes.get(of) != Some(word) {
                return Err(format!(
                    "the outcome of {of:?} was {word}, and is {:?}",
                    self.is.outcomes.get(of)
                ));
            }
        }
        for (of, word) in self.is.outcomes.iter().filter(|(of, _)| !self.was.outcomes.contains_key(of)) {
            if !self.is.intents.contains_key(&(of.0, of.1)) {
                return Err(format!("there is an outcome of {of:?}, which nobody meant to send"));
            }
            let channel = self.is.rows.get(&of.0).map_or("", |row| row.birth.channel.as_str());
            let held = match self.before.items.get(&-of.0).map(|item| &item.place) {
                Some(Place::Flying { token, until, .. }) if *until > self.hand.now => Some(token.as_str()),
                _ => None,
            };
            let deed = self.known.letters.judge(*of, word, channel, held)?;
            said.push((deed, format!("try {of:?}: {word}")));
        }
        Ok(said)
    }

    /// Whoever has not been deleted has its key, and nobody else has the same.
    fn keys(&self) -> Verdict {
        let mut live = BTreeMap::new();
        let owners: BTreeSet<(i64, i64)> = self.is.keys.values().copied().collect();
        for (id, row) in self.is.rows.iter().filter(|(_, row)| !row.deleted) {
            if let Some(other) = live.insert((row.birth.tenant, &row.birth.hash), id) {
                return Err(format!("entries {other} and {id} are the same"));
            }
            if !owners.contains(&row.birth.public) {
                return Err(format!("entry {id} has no key"));
            }
        }
        match owners.len() == live.len() {
            true => Ok(()),
            false => Err(format!("{} keys, and {} entries that are not deleted", owners.len(), live.len())),
        }
    }

    /// What became of an entry, and what others are told of it, commit together.
    fn told(&self, id: i64, row: &Row) -> Verdict {
        let public_id = row.public_id().to_string();
        let heard =
            |kind: &str| self.known.told.get(&(public_id.clone(), kind.to_owned())).copied().unwrap_or(0);
        let delivered = self
            .is
            .outcomes
            .range((id, 0, 0)..(id + 1, 0, 0))
            .filter(|(_, word)| *word == "delivered")
            .count();
        let answered = self.is.responses.contains(&id);
        if answered != (row.status == Status::Completed) {
            return Err(format!("entry {id} is {}, with an answer: {answered}", row.status));
        }
        for (kind, times) in [
            ("response-completed", usize::from(answered)),
            ("instance-sent", delivered),
            ("instance-opened", usize::from(row.opened_at.is_some())),
            ("instance-expired", usize::from(row.status == Status::Expired)),
            ("instance-cancelled", usize::from(row.status == Status::Cancelled)),
        ] {
            if heard(kind) != times {
                return Err(format!(
                    "entry {id} should be told as {kind} {times} times, not {}",
                    heard(kind)
                ));
            }
        }
        Ok(())
    }
}

fn micros(at: i64) -> Timestamp {
    Timestamp::from_micros(at)
}

fn rows(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Row>> {
    let mut statement = connection.prepare_cached(
        "select id, tenant_id, flow_id, number, trigger_id, lane_id, channel, public_high, public_low, \
            unique_hash, payload, triggered_at, grace_us, reminders, status, next_send_at, last_sent_at, \
            remaining, opened_at, completed_at, deleted_at, version from punctual_entry",
    )?;
    let rows = statement.query_map([], |row| {
        let time = |n: usize| row.get::<_, Option<i64>>(n).map(|at| at.map(micros));
        let birth = Birth {
            tenant: row.get(1)?,
            flow: row.get(2)?,
            number: row.get(3)?,
            trigger: row.get(4)?,
            lane: row.get(5)?,
            channel: row.get(6)?,
            public: (row.get(7)?, row.get(8)?),
            hash: row.get(9)?,
            payload: row.get(10)?,
            triggered_at: micros(row.get(11)?),
            grace: Duration::from_micros(row.get::<_, i64>(12)?.unsigned_abs()),
            reminders: row.get(13)?,
        };
        let status = Status::from_code(row.get(14)?).expect("a status");
        let (next_send_at, last_sent_at) = (time(15)?, time(16)?);
        let deleted = time(20)?.is_some();
        let (opened_at, completed_at) = (time(18)?, time(19)?);
        let (remaining, version) = (row.get(17)?, row.get(21)?);
        let row_is = Row {
            birth,
            status,
            next_send_at,
            last_sent_at,
            remaining,
            opened_at,
            completed_at,
            deleted,
            version,
        };
        Ok((row.get(0)?, row_is))
    })?;
    rows.collect()
}

/// The tenant of an entry.
pub fn tenant_of(row: &Row, tenants: &[Tenant]) -> Tenant {
    *tenants.iter().find(|tenant| tenant.id() == row.birth.tenant).expect("a tenant")
}
