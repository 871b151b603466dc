//! Entries: each moves only as the rules allow, and only by the hand of whoever may move it; an active
//! survey waits for its next send or its end, has one delivery that is pending, or is on hold; what is
//! answered is told once (TRG-8, TRG-11, TRG-13, TRG-15, TRG-16, TRG-22, RMD-20).
//!
//! All of it is read from the tables after every transaction. Notifications are `notifications.rs`, the
//! deliveries of both kinds `deliveries.rs`, what the provider said `provider.rs`, and what people do to
//! entries `people.rs` and `guests.rs`.

use super::checker::{Hand, Item, Place, Tables, event_row};
use super::deliveries::{Delivery, Try, read_attempts, read_deliveries};
use super::notifications::{Events, Notification, Silence, read_notifications};
use super::provider::Provider;
use super::truth::Verdict;
use punctual::base::duration;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::flow::rules::entry::{EntryStatus, Transition};
use punctual::flow::rules::public_id::PublicId;
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
    /// The message of the item or event that it comes from.
    message: i64,
    pub payload: String,
    created_at: Timestamp,
    grace: Duration,
    reminders: i64,
}

/// An entry's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub birth: Birth,
    pub status: EntryStatus,
    pub due_at: Option<Timestamp>,
    last_sent_at: Option<Timestamp>,
    remaining: i64,
    opened_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    pub deleted: bool,
    pub held: bool,
    /// Sends that moved it: those that went out, and those that were given up.
    counts: (i64, i64),
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

    /// Where it waits for its sends.
    pub const fn lane(&self) -> i64 {
        self.birth.lane
    }

    /// When it has been quiet for as long as it may.
    fn quiet_until(&self) -> Timestamp {
        self.last_sent_at.unwrap_or(self.birth.created_at).plus(self.birth.grace)
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

/// The tables as they were after a transaction.
#[derive(Debug, Default)]
pub struct Seen {
    /// Surveys.
    pub rows: BTreeMap<i64, Row>,
    pub notifications: BTreeMap<i64, Notification>,
    pub deliveries: BTreeMap<i64, Delivery>,
    pub attempts: BTreeMap<Try, String>,
    responses: BTreeSet<i64>,
    /// Which entry has a key, both by their halves.
    keys: BTreeMap<(i64, i64), (i64, i64)>,
}

/// What a delivery has to know of its entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryState {
    pub active: bool,
    pub held: bool,
}

/// What the tables say of entries, and what is known of them beside the tables.
#[derive(Debug, Default)]
pub struct Entries {
    pub seen: Seen,
    versions: i64,
    /// By survey, version and trigger.
    specs: BTreeMap<(i64, i64, String), Spec>,
    pub provider: Provider,
    pub events: Events,
    pub silence: Silence,
    /// How often a channel of this world is asked to take a message.
    pub tries: u32,
    /// What people have asked to be done to an entry, the answer heard or not.
    pub asked: BTreeSet<(i64, PersonRequest)>,
    /// Events that stop what others began: tenant and visit.
    pub stops: BTreeSet<(i64, String)>,
    /// Messages of items that were handed in.
    pub handed_in: BTreeSet<i64>,
    /// Messages for others, by entry and kind.
    told: BTreeMap<(String, String), usize>,
    /// Ids that somebody was told to be new.
    pub created: BTreeSet<(i64, i64)>,
    /// What the tables added up to when they were last looked at.
    sum: Vec<i64>,
}

/// What a person can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PersonRequest {
    Open,
    Submit,
    Cancel,
    Delete,
    Hold,
    Release,
    Retry,
}

/// Deeds, with words for the trace.
pub type Said = Vec<(&'static str, String)>;

impl Entries {
    /// Of a world whose channels are asked so often, and may not send again what may have gone out.
    pub fn new(tries: u32, holds: bool) -> Self {
        let mut entries = Self { tries, ..Self::default() };
        entries.provider.holds = holds;
        entries
    }

    /// A message for others was written.
    pub fn hear(&mut self, payload: &Value) {
        let field = |name: &str| payload[name].as_str().expect("a text").to_owned();
        *self.told.entry((field("instancePublicId"), field("eventType"))).or_default() += 1;
    }

    pub fn by_public_id(&self, id: PublicId) -> Option<(i64, &Row)> {
        let halves = id.to_halves();
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
        said.extend(look.notifications()?);
        look.items()?;
        look.events()?;
        said.extend(look.deliveries()?);
        said.extend(look.attempts()?);
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
            None => self.assert_all_notified().and(self.assert_all_delivered()),
        }
    }
}

impl Entries {
    fn assert_all_delivered(&self) -> Verdict {
        let pending = |of: &&Delivery| of.status == DeliveryStatus::Pending;
        match self.seen.deliveries.values().find(pending) {
            Some(delivery) => Err(format!("a delivery is pending in the end: {delivery:?}")),
            None => self.provider.assert_all_logged(self),
        }
    }
}

impl Look<'_> {
    /// An item leaves a message if it led to an entry, and not otherwise.
    fn items(&self) -> Verdict {
        let led: BTreeSet<i64> = self.is.rows.values().map(|row| row.birth.message).collect();
        match self.known.handed_in.iter().find(|message| !led.contains(message)) {
            Some(message) => Err(format!("message {message} of an item led to no entry")),
            None => Ok(()),
        }
    }
}

impl Seen {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let notifications = read_notifications(connection)?;
        let mut is = Self { rows: rows(connection)?, notifications, ..Self::default() };
        (is.deliveries, is.attempts) = (read_deliveries(connection)?, read_attempts(connection)?);
        let mut statement = connection.prepare_cached("select entry_id from punctual_response")?;
        is.responses = statement.query_map([], |r| r.get(0))?.collect::<Result<_, _>>()?;
        let mut statement = connection.prepare_cached(
            "select k.key_high, k.key_low, k.public_high, k.public_low from punctual_entry_key k \
             join punctual_entry e on e.id = k.entry_id where e.kind = 'survey'",
        )?;
        let keys = statement.query_map([], |r| Ok(((r.get(0)?, r.get(1)?), (r.get(2)?, r.get(3)?))))?;
        is.keys = keys.collect::<Result<_, _>>()?;
        Ok(is)
    }

    pub fn state_of(&self, entry: i64) -> Option<EntryState> {
        match self.rows.get(&entry) {
            Some(row) => Some(EntryState { active: row.status.is_active(), held: row.held }),
            None => self.notifications.get(&entry).map(Notification::state),
        }
    }

    pub fn is_held(&self, entry: i64) -> bool {
        self.state_of(entry).is_some_and(|state| state.held)
    }

    /// Whether a delivery of an entry waits for its next try.
    pub fn waits_for_later(&self, entry: i64, now: Timestamp) -> bool {
        self.deliveries.values().any(|of| of.birth.entry == entry && of.is_due_after(now))
    }

    /// The number of the tenant that an entry is of.
    pub fn tenant_of(&self, entry: i64) -> Option<i64> {
        let survey = self.rows.get(&entry).map(|row| row.birth.tenant);
        survey.or_else(|| Some(self.notifications.get(&entry)?.tenant))
    }
}

const SUMS: usize = 11;
const SUM: &str = "select count(*), coalesce(sum(version), 0), \
        coalesce(sum(status + 8 * remaining + 100 * open + 10000 * sent + 1000000 * failed), 0), \
        coalesce(sum(due_at % 1000003 + coalesce(last_sent_at, 0) % 1000003), 0), \
        count(deleted_at) + 1000 * count(opened_at) + 1000000 * count(completed_at), \
        (select count(*) from punctual_delivery), (select coalesce(sum(version), 0) from punctual_delivery), \
        (select coalesce(sum(status + 8 * tries), 0) from punctual_delivery), \
        (select count(*) from punctual_delivery_attempt), \
        (select count(*) from punctual_response), (select count(*) from punctual_entry_key) \
    from punctual_entry";

/// One look at what a transaction did.
pub struct Look<'a> {
    pub known: &'a Entries,
    pub was: &'a Seen,
    pub is: &'a Seen,
    pub before: &'a Tables,
    pub tables: &'a Tables,
    pub hand: &'a Hand<'a>,
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
        if let Some(word) = self.held_or_released(id, was, is)? {
            return Ok(word);
        }
        if let Some(word) = self.counted_late(id, was, is)? {
            return Ok(word);
        }
        if self.set_going(id, was, is) {
            return Ok("entry set going");
        }
        let (transition, word) = self.transition(id, was, is)?;
        let (sent, failed) = match word {
            "entry invited" | "entry reminded" => (1, 0),
            "send given up" | "entry failed" | "entry without a channel" => (0, 1),
            _ => (0, 0),
        };
        if is.counts != (was.counts.0 + sent, was.counts.1 + failed) {
            return Err(format!("{word}, and its counts say something else"));
        }
        match was.status.after(transition) {
            Ok(status) if status == is.status => Ok(word),
            other => Err(format!("{transition:?} should have made {other:?} of it")),
        }
    }

    /// Whether a person has put it on hold, or released it: an entry that was due in the past is due now.
    fn held_or_released(&self, id: i64, was: &Row, is: &Row) -> Verdict<Option<&'static str>> {
        let due_at = is.due_at;
        if (Row { version: was.version + 1, held: is.held, due_at, ..was.clone() }) != *is {
            return Ok(None);
        }
        let (wish, word) = match is.held {
            true => (PersonRequest::Hold, "entry held"),
            false => (PersonRequest::Release, "entry released"),
        };
        let moved = was.due_at.is_some_and(|at| at < self.hand.now) && due_at == Some(self.hand.now);
        let right = was.due_at == due_at || (wish == PersonRequest::Release && moved);
        match self.known.asked.contains(&(id, wish)) && right {
            true => Ok(Some(word)),
            false => Err(format!("nobody asked to {wish:?} it like this")),
        }
    }

    /// Whether a person has had its last send repeated, which was given up and had nothing behind it.
    fn set_going(&self, id: i64, was: &Row, is: &Row) -> bool {
        let counts = (was.counts.0, was.counts.1 - 1);
        let again = Row { due_at: Some(self.hand.now), counts, version: was.version + 1, ..was.clone() };
        let repeats = |(of, delivery): (&i64, &Delivery)| {
            let before = self.was.deliveries.get(of);
            (delivery.birth.entry, delivery.birth.send) == (id, was.attempt())
                && before.is_some_and(|before| self.repeated(*of, before, delivery))
        };
        was.due_at.is_none() && *is == again && self.is.deliveries.iter().any(repeats)
    }

    /// Whether a send has ended that the entry waits for no more.
    fn counted_late(&self, id: i64, was: &Row, is: &Row) -> Verdict<Option<&'static str>> {
        let same = Row { version: was.version + 1, counts: is.counts, ..was.clone() } == *is;
        if !same || was.counts == is.counts {
            return Ok(None);
        }
        let ended_as = |wanted: &[DeliveryStatus]| {
            let all = self.is.deliveries.iter().filter(|(of, delivery)| {
                let before = self.was.deliveries.get(of).map(|was| was.status);
                delivery.birth.entry == id
                    && before == Some(DeliveryStatus::Pending)
                    && wanted.contains(&delivery.status)
            });
            i64::try_from(all.count()).unwrap()
        };
        let sent = ended_as(&[DeliveryStatus::Sent]);
        let failed = ended_as(&[DeliveryStatus::Failed, DeliveryStatus::Uncertain]);
        match is.counts == (was.counts.0 + sent, was.counts.1 + failed) && !was.status.is_active() {
            true => Ok(Some("late send counted")),
            false => Err(format!("{sent} sends went out late, {failed} failed, and it counts otherwise")),
        }
    }

    fn transition(&self, id: i64, was: &Row, is: &Row) -> Verdict<(Transition, &'static str)> {
        let asked = |transition| match self.known.asked.contains(&(id, transition)) {
            true => Ok(()),
            false => Err(format!("nobody asked to {transition:?} it")),
        };
        if is.last_sent_at != was.last_sent_at {
            return self.sent(id, was, is).map(|word| (Transition::Sent, word));
        }
        if is.status == was.status && is.status.is_active() && is.opened_at == was.opened_at {
            return self.not_sent(id, was, is).map(|word| (Transition::NotSent, word));
        }
        match is.status {
            EntryStatus::Failed => {
                self.not_sent(id, was, is)?;
                Ok((Transition::GaveUp, "entry failed"))
            }
            EntryStatus::Completed if was.status != is.status => {
                asked(PersonRequest::Submit)?;
                let whole = is.completed_at == Some(self.hand.now) && is.due_at.is_none();
                whole
                    .then_some((Transition::Submitted, "entry answered"))
                    .ok_or("it is answered by halves".into())
            }
            EntryStatus::Opened => {
                asked(PersonRequest::Open)?;
                let same = (was.due_at, was.remaining) == (is.due_at, is.remaining);
                same.then_some((Transition::Opened, "entry opened")).ok_or("opening moved its sends".into())
            }
            EntryStatus::Expired if was.status != is.status => {
                let quiet = was.due_at.is_none() && was.quiet_until() < self.hand.now;
                quiet
                    .then_some((Transition::Expired, "entry expired"))
                    .ok_or("it was not quiet for long".into())
            }
            _ if is.deleted && !was.deleted => {
                asked(PersonRequest::Delete)?;
                Ok((Transition::Deleted, "entry deleted"))
            }
            EntryStatus::Cancelled => {
                let event = (was.birth.tenant, was.birth.payload.clone());
                if !self.known.stops.contains(&event) {
                    asked(PersonRequest::Cancel)?;
                }
                let sends = is.due_at.is_some();
                (!sends)
                    .then_some((Transition::Cancelled, "entry cancelled"))
                    .ok_or("it has a next send".into())
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
        let right = is.status == EntryStatus::Pending
            && (is.due_at, is.last_sent_at) == (Some(due), None)
            && (is.remaining, is.birth.reminders, is.birth.grace) == (total, total, spec.grace)
            && (is.birth.created_at, &is.birth.channel) == (self.hand.now, &spec.channel);
        right.then_some(()).ok_or_else(|| format!("it is not what {spec:?} makes"))
    }

    /// The delivery of a send, and what it was before.
    fn delivery_of(&self, id: i64, send: i64) -> Verdict<(i64, &Delivery, Option<DeliveryStatus>)> {
        let mut all = self.is.deliveries.iter();
        let found = all.find(|(_, of)| (of.birth.entry, of.birth.send) == (id, send));
        let (of, is) = found.ok_or_else(|| format!("send {send} has no delivery"))?;
        Ok((*of, is, self.was.deliveries.get(of).map(|was| was.status)))
    }

    fn sent(&self, id: i64, was: &Row, is: &Row) -> Verdict<&'static str> {
        match self.delivery_of(id, was.attempt())? {
            (_, is, Some(DeliveryStatus::Pending)) if is.status == DeliveryStatus::Sent => {}
            (_, is, was) => return Err(format!("nothing of it was sent now: {was:?} -> {is:?}")),
        }
        let wait = self.wait(was)?;
        let next = wait.map(|wait| self.hand.now.plus(wait));
        let left = if wait.is_some() { was.remaining - 1 } else { 0 };
        let right = (is.last_sent_at, is.due_at, is.remaining) == (Some(self.hand.now), next, left);
        let word = if was.attempt() > 1 { "entry reminded" } else { "entry invited" };
        right.then_some(word).ok_or_else(|| format!("what follows should be due at {next:?}, {left} left"))
    }

    /// The wait for the reminder that follows the send that is due.
    fn wait(&self, was: &Row) -> Verdict<Option<Duration>> {
        let index = usize::try_from(was.birth.reminders - was.remaining).map_err(|e| e.to_string())?;
        Ok(self.spec(was)?.reminders.get(index).copied())
    }

    /// A send that did not go well: it was given up now, or is known to have been by whoever took the
    /// entry's work.
    fn not_sent(&self, id: i64, was: &Row, is: &Row) -> Verdict<&'static str> {
        let (of, delivery, before) = self.delivery_of(id, was.attempt())?;
        let waited = self.before.items.get(&-id).is_some_and(|item| {
            item.lane == was.birth.lane
                && matches!(item.place, Place::Waiting { due, .. } if due <= self.hand.now)
        });
        match (before, delivery.status) {
            (Some(DeliveryStatus::Pending), DeliveryStatus::Failed | DeliveryStatus::Uncertain) => {}
            (Some(DeliveryStatus::Uncertain), DeliveryStatus::Uncertain) if waited => {}
            _ => return Err(format!("its send was not given up: {before:?} -> {delivery:?}")),
        }
        let tries = self.is.attempts.range((of, 1)..(of + 1, -1));
        if tries.last().is_some_and(|(_, outcome)| outcome == "no-channel") {
            let halted = is.due_at.is_none() && is.remaining == was.remaining;
            return halted.then_some("entry without a channel").ok_or_else(|| "it was not halted".into());
        }
        let due = was.due_at.ok_or("nothing was due")?;
        let next = self.wait(was)?.map(|wait| match due.plus(wait) {
            passed if passed <= self.hand.now => self.hand.now.plus(wait),
            at => at,
        });
        let left = if next.is_some() { was.remaining - 1 } else { 0 };
        let right = (is.due_at, is.remaining) == (next, left);
        right.then_some("send given up").ok_or_else(|| format!("{next:?} should follow, {left} left"))
    }

    /// An active entry waits for its next send or its end, unless a delivery of it is pending; work moves
    /// when it is due, or when what it waits for has changed.
    fn work(&self, id: i64, row: &Row) -> Verdict {
        let (was, is) = (self.before.items.get(&-id), self.tables.items.get(&-id));
        let pending = |of: &&Delivery| of.birth.entry == id && of.status == DeliveryStatus::Pending;
        let pending: Vec<&Delivery> = self.is.deliveries.values().filter(pending).collect();
        if row.status.is_active() && row.held {
            (pending.len() < 2).then_some(()).ok_or("two deliveries of it are pending")?;
        } else if row.status.is_active() {
            self.fits(row, is, &pending)?;
        } else {
            self.leaves_nothing(id, &pending)?;
        }
        match (was.map(|item| &item.place), is.map(|item| &item.place)) {
            _ if was == is => Ok(()),
            (None, Some(Place::Waiting { attempts: 0, .. })) if self.was.rows.get(&id) != Some(row) => Ok(()),
            (None, Some(Place::Waiting { due, attempts: 0, .. })) if *due <= self.hand.now => {
                self.lost_its_delivery(id, row)
            }
            // Quiet, but not for long enough; or it has ended, or is held or released.
            (Some(Place::Waiting { due, .. }), _) if *due <= self.hand.now || !row.status.is_active() => {
                Ok(())
            }
            (Some(Place::Waiting { .. }), None) if row.held => Ok(()),
            // It waited for its end.
            (Some(Place::Waiting { .. }), None)
                if self.was.rows.get(&id).is_some_and(|was| self.set_going(id, was, row)) =>
            {
                Ok(())
            }
            _ => Err(format!("its work may not move like this: {was:?} -> {is:?}")),
        }
    }

    /// Whoever ends an entry ends what of it waits. One delivery may be in flight, or come back from there.
    fn leaves_nothing(&self, id: i64, pending: &[&Delivery]) -> Verdict {
        if pending.len() > 1 {
            return Err("two deliveries of it are pending".into());
        }
        let ends = self.was.rows.get(&id).is_some_and(|was| was.status.is_active());
        let waits = |(of, is): (&i64, &Delivery)| {
            is.birth.entry == id
                && is.status == DeliveryStatus::Pending
                && matches!(self.place_now(*of), Some(Place::Waiting { .. }))
        };
        match self.is.deliveries.iter().find(|of| ends && waits(*of)) {
            Some((of, _)) => Err(self.left_waiting(*of)),
            None => Ok(()),
        }
    }

    /// Says that an entry has ended and left this delivery waiting; and whether a message of the same number
    /// is in flight, for which it may have been taken.
    pub fn left_waiting(&self, of: i64) -> String {
        let flies =
            |row: i64| matches!(self.before.items.get(&row).map(|item| &item.place), Some(Place::Flying(_)));
        let namesake = flies(of) || flies(event_row(of));
        let namesake = if namesake { format!(", and message {of} is in flight") } else { String::new() };
        format!("it has ended, and a delivery of it waits{namesake}")
    }

    fn fits(&self, row: &Row, item: Option<&Item>, pending: &[&Delivery]) -> Verdict {
        let place = item.map(|item| (&item.place, item.lane == row.birth.lane));
        match (row.due_at, pending, place) {
            (Some(at), [delivery], None) if delivery.birth.send == row.attempt() && at <= self.hand.now => {
                Ok(())
            }
            (Some(at), [], Some((Place::Waiting { due, .. }, true))) if *due == at => Ok(()),
            (None, [], Some((Place::Waiting { due, .. }, false)))
                if *due == row.quiet_until().plus(Duration::from_micros(1)) =>
            {
                Ok(())
            }
            _ => Err(format!("it is active, with work {item:?} and the deliveries {pending:?}")),
        }
    }

    /// Whoever reaps the claim of a delivery cannot say what follows, and queues the entry for who can.
    fn lost_its_delivery(&self, id: i64, row: &Row) -> Verdict {
        match self.delivery_of(id, row.attempt())? {
            (_, is, Some(DeliveryStatus::Pending)) if is.status == DeliveryStatus::Uncertain => Ok(()),
            (_, is, was) => Err(format!("it was queued, and its send went on: {was:?} -> {is:?}")),
        }
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
        let of_it = |of: &Try| self.is.deliveries.get(&of.0).is_some_and(|d| d.birth.entry == id);
        let sent = self.is.attempts.iter().filter(|(of, word)| *word == "sent" && of_it(of)).count();
        let answered = self.is.responses.contains(&id);
        if answered != (row.status == EntryStatus::Completed) {
            return Err(format!("entry {id} is {}, with an answer: {answered}", row.status));
        }
        for (kind, times) in [
            ("response-completed", usize::from(answered)),
            ("instance-sent", sent),
            ("instance-opened", usize::from(row.opened_at.is_some())),
            ("instance-expired", usize::from(row.status == EntryStatus::Expired)),
            ("instance-cancelled", usize::from(row.status == EntryStatus::Cancelled)),
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
            key, message_id, created_at, grace_us, reminders, status, due_at, last_sent_at, \
            remaining, opened_at, completed_at, deleted_at, version, sent, failed, held_at, \
            (select m.payload from punctual_message m where m.id = message_id) \
         from punctual_entry where kind = 'survey'",
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
            message: row.get(10)?,
            payload: row.get(25)?,
            created_at: micros(row.get(11)?),
            grace: Duration::from_micros(row.get::<_, i64>(12)?.unsigned_abs()),
            reminders: row.get(13)?,
        };
        let status = EntryStatus::from_code(row.get(14)?).expect("a status");
        let (due_at, last_sent_at) = (time(15)?, time(16)?);
        let deleted = time(20)?.is_some();
        let (opened_at, completed_at) = (time(18)?, time(19)?);
        let (remaining, version) = (row.get(17)?, row.get(21)?);
        let row_is = Row {
            birth,
            status,
            due_at,
            last_sent_at,
            remaining,
            opened_at,
            completed_at,
            deleted,
            held: time(24)?.is_some(),
            counts: (row.get(22)?, row.get(23)?),
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
