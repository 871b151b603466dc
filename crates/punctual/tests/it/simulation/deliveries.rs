//! Deliveries of every kind of entry: written once for each key, while their entry is active; pending they
//! are in one place, waiting or in flight; they move only by the hand of their claim's owner, or of whoever
//! ends, holds, releases or retries their entry; and the outcomes of their tries are written with them
//! (TRG-11, TRG-15, TRG-16, NTF-4, RMD-20).
//!
//! All of it is read from the tables after every transaction. What the provider said is `provider.rs`.

use super::checker::{Flying, Place, delivery_row};
use super::entries::{Look, PersonRequest, Row, Said};
use super::people::CHANNEL;
use super::truth::Verdict;
use punctual::Timestamp;
use punctual::base::limits;
use punctual::delivery::rules::delivery::DeliveryStatus;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// A try of a delivery: which, and the number of the try.
pub type Try = (i64, i64);

/// A delivery's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub birth: Birth,
    pub status: DeliveryStatus,
    tries: i64,
    pub tried_before: i64,
    due_at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    pub keeps_key: bool,
    version: i64,
}

impl Delivery {
    pub fn is_due_after(&self, now: Timestamp) -> bool {
        self.status == DeliveryStatus::Pending && self.due_at.is_some_and(|at| at > now)
    }
}

/// What never changes of a delivery here, where no channel has a fallback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    pub entry: i64,
    pub send: i64,
    pub key: String,
    lane: i64,
    pub channel: String,
    pub address: String,
    created_at: Timestamp,
}

pub fn read_deliveries(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Delivery>> {
    let mut statement = connection.prepare_cached(
        "select id, entry_id, send, idempotency_key, lane_id, channel, created_at, status, tries, \
                tried_before, \
            due_at, sent_at, exists (select 1 from punctual_delivery_key k where k.delivery_id = d.id), \
            version, address from punctual_delivery d",
    )?;
    let rows = statement.query_map([], |row| {
        let time = |n: usize| row.get::<_, Option<i64>>(n).map(|at| at.map(Timestamp::from_micros));
        let birth = Birth {
            entry: row.get(1)?,
            send: row.get(2)?,
            key: row.get(3)?,
            lane: row.get(4)?,
            channel: row.get(5)?,
            address: row.get(14)?,
            created_at: Timestamp::from_micros(row.get(6)?),
        };
        let status = DeliveryStatus::from_code(row.get(7)?).expect("a status");
        let (tries, tried_before) = (row.get(8)?, row.get(9)?);
        let (due_at, sent_at) = (time(10)?, time(11)?);
        let (keeps_key, version) = (row.get(12)?, row.get(13)?);
        let delivery = Delivery { birth, status, tries, tried_before, due_at, sent_at, keeps_key, version };
        Ok((row.get(0)?, delivery))
    })?;
    rows.collect()
}

/// Outcomes of tries. Number -1 says why there never was one.
pub fn read_attempts(connection: &Connection) -> rusqlite::Result<BTreeMap<Try, String>> {
    let mut statement =
        connection.prepare_cached("select delivery_id, tried, outcome from punctual_delivery_attempt")?;
    let attempts = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    attempts.collect()
}

impl Look<'_> {
    /// Every delivery: what changed of it, and where it is.
    pub fn deliveries(&self) -> Verdict<Said> {
        let mut said = Said::new();
        for (id, is) in &self.is.deliveries {
            let was = self.was.deliveries.get(id);
            let (from, to) = (self.place_before(*id), self.place_now(*id));
            let words = |why: String| {
                format!(
                    "{why}: delivery {id}: {was:?} in {from:?} -> {is:?} in {to:?}, by {}",
                    self.hand.actor
                )
            };
            if was != Some(is) {
                let deed = self.delivery_changed(*id, was, is).map_err(words)?;
                said.push((deed, format!("delivery {id} of entry {}: {deed}", is.birth.entry)));
            }
            self.moved(*id, was, is).and_then(|()| self.stands(*id, is)).map_err(words)?;
            if matches!((from, to), (Some(Place::Flying(claim)), Some(Place::Waiting { .. }))
                if !claim.may_begin && self.is_lost(*id))
            {
                said.push(("delivery beyond the mark put back", format!("delivery {id} was not begun")));
            }
        }
        if let Some(id) = self.was.deliveries.keys().find(|id| !self.is.deliveries.contains_key(id)) {
            return Err(format!("delivery {id} is gone"));
        }
        self.assert_keys_differ().map(|()| said)
    }

    /// A key lets one delivery through, unless that gave it back.
    fn assert_keys_differ(&self) -> Verdict {
        let mut known = BTreeMap::new();
        for (id, of) in self.is.deliveries.iter().filter(|(_, of)| of.keeps_key) {
            let key = (self.is.tenant_of(of.birth.entry), &of.birth.key);
            if let Some(other) = known.insert(key, id) {
                return Err(format!("deliveries {other} and {id} have the same key: {of:?}"));
            }
        }
        Ok(())
    }

    fn place_before(&self, id: i64) -> Option<&Place> {
        self.before.items.get(&delivery_row(id)).map(|item| &item.place)
    }

    pub fn place_now(&self, id: i64) -> Option<&Place> {
        self.tables.items.get(&delivery_row(id)).map(|item| &item.place)
    }

    fn delivery_changed(&self, id: i64, was: Option<&Delivery>, is: &Delivery) -> Verdict<&'static str> {
        let Some(was) = was else { return self.written(id, is) };
        if was.birth != is.birth {
            return Err("what never changes of it has changed".into());
        }
        if was.status != DeliveryStatus::Pending {
            let right = self.repeated(id, was, is);
            return right.then_some("send repeated").ok_or_else(|| "it had ended, and was changed".into());
        }
        if self.is_lost(id) && is.status == DeliveryStatus::Pending {
            return self.lost(id, was, is);
        }
        if is.status == DeliveryStatus::Pending && !matches!(self.place_before(id), Some(Place::Flying(_))) {
            return self.retried(id, was, is);
        }
        if is.version <= was.version {
            return Err("it changed, and its version did not rise".into());
        }
        match is.status {
            DeliveryStatus::Pending => self.comes_again(id, was, is),
            DeliveryStatus::Sent => self.sent_by_its_owner(id, was, is),
            DeliveryStatus::Failed => self.given_up(id, was, is),
            DeliveryStatus::Uncertain => self.uncertain(id, is),
            DeliveryStatus::Skipped => self.skipped(id, is),
            DeliveryStatus::Delivered => Err("nobody tells what arrived here".into()),
        }
    }

    /// A delivery may be sent now: its entry is active, not held, and waits for this send.
    fn assert_wanted(&self, is: &Delivery) -> Verdict {
        let state = self.is.state_of(is.birth.entry).ok_or("it is of no entry")?;
        let row = self.is.rows.get(&is.birth.entry);
        if !state.active || row.is_some_and(|row| row.deleted) || is.status != DeliveryStatus::Pending {
            return Err(format!("it is to be sent, and has ended: {row:?}"));
        }
        if state.held {
            return Err("it is to be sent, and its entry is on hold".into());
        }
        let is_due =
            |row: &Row| row.due_at.is_some_and(|at| at <= self.hand.now) && row.attempt() == is.birth.send;
        match row {
            Some(row) if !is_due(row) => Err(format!("it is to be sent, and is not due: {row:?}")),
            _ => Ok(()),
        }
    }

    /// A delivery is written once, for what is active and due.
    fn written(&self, id: i64, is: &Delivery) -> Verdict<&'static str> {
        self.assert_wanted(is)?;
        let (birth, now) = (&is.birth, self.hand.now);
        match self.is.rows.get(&birth.entry) {
            Some(row) => self.written_for_a_survey(row, is)?,
            None => self.written_for_a_notification(is)?,
        }
        let right = (is.tries, is.tried_before, is.keeps_key) == (0, 0, true)
            && (is.due_at, is.sent_at, birth.created_at) == (Some(now), None, now);
        if !right {
            return Err("it is not as new as it should be".into());
        }
        match self.place_now(id) {
            Some(Place::Waiting { due, attempts: 0, .. }) if *due == now => Ok("delivery put in its queue"),
            Some(Place::Flying(claim))
                if claim.owner == self.hand.actor
                    && claim.until > now
                    && (claim.attempt, claim.unstarted) == (1, 0) =>
            {
                Ok("delivery begun as it was written")
            }
            _ => Err("it was written, and is neither waiting nor in its writer's hands".into()),
        }
    }

    /// In the place of its entry's own work.
    fn written_for_a_survey(&self, row: &Row, is: &Delivery) -> Verdict {
        let (birth, now) = (&is.birth, self.hand.now);
        let same = |other: &Delivery| (other.birth.entry, other.birth.send) == (birth.entry, birth.send);
        if self.was.deliveries.values().any(same) {
            return Err("its send has a delivery already".into());
        }
        let waited = self.before.items.get(&-birth.entry).is_some_and(|item| {
            item.lane == row.lane() && matches!(item.place, Place::Waiting { due, .. } if due <= now)
        });
        if !waited {
            return Err("its entry did not wait for it".into());
        }
        let key = format!("survey:{}:{}", row.public_id(), birth.send);
        let right = (&birth.key, &birth.channel) == (&key, &row.birth.channel);
        right.then_some(()).ok_or_else(|| format!("it is not the delivery of {row:?}"))
    }

    /// Together with its entry.
    fn written_for_a_notification(&self, is: &Delivery) -> Verdict {
        let (birth, entry) = (&is.birth, is.birth.entry);
        let of = self.is.notifications.get(&entry).ok_or("it is of no entry")?;
        let front = format!("{}:{}:{CHANNEL}:", of.booking, super::guests::KIND);
        let right = !self.was.notifications.contains_key(&entry)
            && birth.key.starts_with(&front)
            && birth.key.ends_with(&format!(":{}", birth.address))
            && (birth.channel.as_str(), birth.send) == (CHANNEL, 1);
        right.then_some(()).ok_or_else(|| format!("it is not a delivery of {of:?}"))
    }

    /// The claim under which a delivery was until now.
    fn flight(&self, id: i64) -> Verdict<&Flying> {
        match self.place_before(id) {
            Some(Place::Flying(flight)) => Ok(flight),
            other => Err(format!("it was in nobody's hands: {other:?}")),
        }
    }

    /// The same for who settles it: its owner, while nobody has reaped it.
    fn settled(&self, id: i64) -> Verdict<&Flying> {
        let flight = self.flight(id)?;
        if self.tables.is_reaped(&flight.token) || flight.owner != self.hand.actor {
            return Err(format!("it was settled under the claim of {}", flight.owner));
        }
        Ok(flight)
    }

    /// The outcome that was written now of the try under a claim.
    fn outcome(&self, id: i64, was: &Delivery, flight: &Flying) -> Option<&str> {
        let of = (id, was.tried_before + i64::from(flight.attempt));
        let new = self.is.attempts.get(&of).filter(|_| !self.was.attempts.contains_key(&of));
        new.map(String::as_str)
    }

    /// Whether the claim under which it was has been reaped.
    fn is_lost(&self, id: i64) -> bool {
        self.flight(id).is_ok_and(|flight| self.tables.is_reaped(&flight.token))
    }

    /// Whoever reaps its claim says when it comes again, and nothing else.
    fn lost(&self, id: i64, was: &Delivery, is: &Delivery) -> Verdict<&'static str> {
        let Some(Place::Waiting { due, .. }) = self.place_now(id) else {
            return Err("it was lost, and does not wait".into());
        };
        let right = Delivery { due_at: Some(*due), ..was.clone() } == *is;
        right.then_some("delivery to come again").ok_or_else(|| "it does not wait as it says".into())
    }

    fn sent_by_its_owner(&self, id: i64, was: &Delivery, is: &Delivery) -> Verdict<&'static str> {
        let flight = self.settled(id)?;
        let attempt = i64::from(flight.attempt);
        self.known.provider.assert_accepted((id, was.tried_before + attempt), &flight.token)?;
        let right = (is.sent_at, is.due_at, is.tries, is.keeps_key)
            == (Some(self.hand.now), None, attempt, true)
            && self.outcome(id, was, flight) == Some("sent");
        right.then_some("delivery sent").ok_or_else(|| "it is sent by halves".into())
    }

    fn given_up(&self, id: i64, was: &Delivery, is: &Delivery) -> Verdict<&'static str> {
        let flight = self.settled(id)?;
        let right = (is.due_at, is.sent_at, is.keeps_key) == (None, None, true);
        match self.outcome(id, was, flight) {
            Some("transient" | "permanent" | "timeout" | "no-channel") if right => Ok("delivery failed"),
            other => Err(format!("it failed by {other:?}")),
        }
    }

    /// One of its tries may have gone out; lost claims count, too.
    fn uncertain(&self, id: i64, is: &Delivery) -> Verdict<&'static str> {
        let word = match self.flight(id) {
            Ok(flight) if self.tables.is_reaped(&flight.token) => {
                self.out_of_attempts(is, flight)?;
                "delivery lost for good"
            }
            Ok(_) => self.settled(id).map(|_| "delivery uncertain")?,
            // It came back from a lost claim, and nobody wants it any more.
            Err(_) if self.has_ended(is) => "delivery uncertain",
            Err(why) => return Err(why),
        };
        self.assert_logged(id)?;
        if !self.is_unsure(id) || (is.due_at, is.sent_at, is.keeps_key) != (None, None, true) {
            return Err("it is uncertain, and none of its tries was".into());
        }
        Ok(word)
    }

    /// What ends is in the log, with all its tries.
    fn assert_logged(&self, id: i64) -> Verdict {
        match self.known.provider.has_open(id, &self.is.attempts) {
            true => Err("it has ended, and what became of a try is not in the log".into()),
            false => Ok(()),
        }
    }

    fn has_ended(&self, is: &Delivery) -> bool {
        self.is.state_of(is.birth.entry).is_some_and(|state| !state.active)
    }

    /// Whether its entry was ended, and not by what became of its deliveries.
    fn was_ended(&self, is: &Delivery) -> bool {
        let entry = is.birth.entry;
        let by_itself =
            self.is.notifications.contains_key(&entry) && !self.is_asked(entry, PersonRequest::Cancel);
        self.has_ended(is) && !by_itself
    }

    fn is_asked(&self, entry: i64, wish: PersonRequest) -> bool {
        self.known.asked.contains(&(entry, wish))
    }

    fn is_unsure(&self, id: i64) -> bool {
        let mut tries = self.is.attempts.range((id, 1)..(id + 1, -1));
        tries.any(|(_, outcome)| matches!(outcome.as_str(), "unknown" | "timeout"))
    }

    /// It was lost so often that it is given up, or nobody wants it any more.
    fn out_of_attempts(&self, is: &Delivery, flight: &Flying) -> Verdict {
        let most = self.known.tries;
        let started = flight.attempt - flight.unstarted >= most;
        let lost = flight.unstarted + 1 >= most * limits::UNSTARTED_FACTOR;
        let may = (started || lost || self.has_ended(is)) && flight.until <= self.hand.now;
        may.then_some(()).ok_or_else(|| "it was given up too early".into())
    }

    /// What waits is skipped by whoever ends its entry, what was not begun by its owner after that, or
    /// because nobody wants it.
    fn skipped(&self, id: i64, is: &Delivery) -> Verdict<&'static str> {
        if !self.was_ended(is) && !self.known.may_be_silent(is) {
            return Err("it was skipped, and its entry has not ended".into());
        }
        self.assert_logged(id)?;
        if (is.due_at, is.keeps_key) != (None, self.is_unsure(id)) {
            return Err("it keeps its key if a try may have gone out, and only then".into());
        }
        let waited = match self.place_before(id) {
            Some(Place::Waiting { .. }) => true,
            None => self.was.is_held(is.birth.entry),
            Some(_) => self.is_lost(id),
        };
        if waited {
            return Ok("delivery skipped");
        }
        let flight = self.settled(id)?;
        let begun = self.known.provider.is_begun(&flight.token, id);
        let logged = self.is.attempts.contains_key(&(id, -1));
        (!begun && logged).then_some("delivery skipped").ok_or_else(|| "it was begun".into())
    }

    /// Tried again, or never begun; not if its entry has ended.
    fn comes_again(&self, id: i64, was: &Delivery, is: &Delivery) -> Verdict<&'static str> {
        let flight = self.settled(id)?;
        let Some(Place::Waiting { due, attempts, .. }) = self.place_now(id) else {
            return Err("it is to come again, and does not wait".into());
        };
        if is.due_at != Some(*due) || is.tries != i64::from(*attempts) || !is.keeps_key {
            return Err("it does not wait as it says".into());
        }
        if self.has_ended(is) {
            return Err("it comes again, and its entry has ended".into());
        }
        let begun = self.known.provider.is_begun(&flight.token, id);
        let (outcome, attempt) = (self.outcome(id, was, flight), i64::from(flight.attempt));
        let probes = is.tried_before - was.tried_before;
        if !begun {
            let same = outcome.is_none() && probes == 0 && is.tries == attempt - 1;
            return same.then_some("delivery put back").ok_or_else(|| "nobody tried it".into());
        }
        let counted = (probes, is.tries) == (0, attempt) && is.tries < i64::from(self.known.tries);
        let probed = (probes, is.tries) == (1, attempt - 1);
        if !(counted || probed) || !matches!(outcome, Some("transient" | "unknown" | "timeout")) {
            return Err(format!("it is tried again after {outcome:?}, {} times", is.tries));
        }
        self.known.provider.assert_waits(&flight.token, id, *due)?;
        Ok("send to be tried again")
    }

    /// A person does not wait for the next try: it is due now, and has had the tries that it had.
    fn retried(&self, id: i64, was: &Delivery, is: &Delivery) -> Verdict<&'static str> {
        let now = self.hand.now;
        let right = Delivery { due_at: Some(now), version: was.version + 1, ..was.clone() } == *is;
        match (self.place_before(id), self.place_now(id)) {
            (Some(Place::Waiting { attempts: a, .. }), Some(Place::Waiting { due, attempts: b, .. }))
                if right && *due == now && a == b && self.is_asked(is.birth.entry, PersonRequest::Retry) =>
            {
                Ok("delivery retried at once")
            }
            _ => Err("it waits, and was changed".into()),
        }
    }

    /// Whether a person has had a send repeated that was given up: it waits as if it had never been tried.
    pub fn repeated(&self, id: i64, was: &Delivery, is: &Delivery) -> bool {
        let (now, tried_before) = (self.hand.now, was.tried_before + was.tries);
        let (status, version) = (DeliveryStatus::Pending, was.version + 1);
        let again = Delivery { status, tries: 0, tried_before, due_at: Some(now), version, ..was.clone() };
        let waits = Place::Waiting { due: now, attempts: 0, unstarted: 0 };
        matches!(was.status, DeliveryStatus::Failed | DeliveryStatus::Uncertain)
            && *is == again
            && self.place_now(id) == Some(&waits)
            && self.is_asked(is.birth.entry, PersonRequest::Retry)
    }

    /// From place to place.
    fn moved(&self, id: i64, was: Option<&Delivery>, is: &Delivery) -> Verdict {
        let (from, to) = (self.place_before(id), self.place_now(id));
        let entry = is.birth.entry;
        match (from, to) {
            _ if from == to => Ok(()),
            (None, Some(_)) if was.is_none() => Ok(()),
            (None, Some(_)) if was.is_some_and(|was| self.repeated(id, was, is)) => Ok(()),
            (Some(Place::Waiting { due, attempts, .. }), Some(Place::Flying(claim))) => {
                self.claimed(is, (*due, *attempts), claim)
            }
            // Its work may be left behind.
            (Some(Place::Waiting { .. }), None | Some(Place::Waiting { .. }))
                if is.status != DeliveryStatus::Pending =>
            {
                Ok(())
            }
            // Taken out of the queue, or found there by a claim and dropped.
            (Some(Place::Waiting { .. }), None) if self.is.is_held(entry) => Ok(()),
            (None | Some(Place::Waiting { .. }), Some(Place::Waiting { due, attempts, .. }))
                if self.was.is_held(entry) && !self.is.is_held(entry) =>
            {
                self.released(id, is, (*due, *attempts))
            }
            (Some(Place::Waiting { .. }), Some(Place::Waiting { .. })) if was != Some(is) => Ok(()),
            (Some(Place::Flying(a)), Some(Place::Flying(b)))
                if a.token == b.token && a.owner == self.hand.actor =>
            {
                Ok(())
            }
            (Some(Place::Flying(_)), Some(Place::Waiting { attempts, .. })) if self.is_lost(id) => {
                self.reaped(id, *attempts)
            }
            (Some(Place::Flying(_)), Some(Place::Waiting { .. })) if was != Some(is) => Ok(()),
            (Some(Place::Flying(_)), None) if is.status != DeliveryStatus::Pending => Ok(()),
            _ => Err("nothing may move like this".into()),
        }
    }

    /// Whoever releases an entry puts its deliveries back to where they were.
    fn released(&self, id: i64, is: &Delivery, (due, attempts): (Timestamp, u32)) -> Verdict {
        let tried = self.is.attempts.range((id, is.tried_before + 1)..(id + 1, -1)).next_back();
        let tried = tried.map_or(0, |((_, tried), _)| tried - is.tried_before);
        let right = is.due_at == Some(due) && i64::from(attempts) == tried;
        right.then_some(()).ok_or_else(|| format!("it was released after {attempts} tries, not {tried}"))
    }

    /// Lost, and to be sent again. What lies beyond the mark comes back as it was.
    fn reaped(&self, id: i64, attempts: u32) -> Verdict {
        let flight = self.flight(id)?;
        if flight.until > self.hand.now {
            return Err(format!("it is {}'s until {}, and was taken away", flight.owner, flight.until));
        }
        let begun = self.known.provider.is_begun(&flight.token, id);
        let counted = attempts == flight.attempt;
        let untouched = !begun && attempts == flight.attempt - 1;
        let right = if flight.may_begin { counted } else { untouched };
        right.then_some(()).ok_or_else(|| format!("it came back after {attempts} attempts; begun: {begun}"))
    }

    fn claimed(&self, is: &Delivery, (due, attempts): (Timestamp, u32), claim: &Flying) -> Verdict {
        self.assert_wanted(is)?;
        if due > self.hand.now {
            return Err("it is to be sent, and waits for later".into());
        }
        let right = claim.attempt == attempts + 1 && claim.owner == self.hand.actor;
        if !right || claim.until <= self.hand.now {
            return Err("the claim has a wrong attempt, owner or lease".into());
        }
        let most = self.known.tries * (1 + limits::UNSTARTED_FACTOR);
        (claim.attempt <= most).then_some(()).ok_or_else(|| format!("{most} claims are the limit"))
    }

    /// What is pending waits or is in flight, and what is in flight is pending.
    fn stands(&self, id: i64, is: &Delivery) -> Verdict {
        let item = self.tables.items.get(&delivery_row(id));
        let pending = is.status == DeliveryStatus::Pending;
        match item.map(|item| &item.place) {
            None if pending && !self.is.is_held(is.birth.entry) => {
                Err("it is to be sent, and is in no place".into())
            }
            Some(Place::Flying(_)) if !pending => Err("it is in flight, and has ended".into()),
            Some(Place::Dead { .. } | Place::Following { .. }) => Err("it is no message".into()),
            Some(_) if item.is_some_and(|item| item.lane != is.birth.lane) => {
                Err("it is in another lane than its own".into())
            }
            _ => Ok(()),
        }
    }

    /// Outcomes are only ever added, and say what the channel said, or that nobody knows.
    pub fn attempts(&self) -> Verdict<Said> {
        let mut said = Said::new();
        for (of, word) in &self.was.attempts {
            let is = self.is.attempts.get(of);
            if is != Some(word) {
                return Err(format!("the outcome of try {of:?} was {word}, and is {is:?}"));
            }
        }
        for (of, word) in self.is.attempts.iter().filter(|(of, _)| !self.was.attempts.contains_key(of)) {
            let Some(delivery) = self.is.deliveries.get(&of.0) else {
                return Err(format!("there is an outcome of {of:?}, which nobody meant to send"));
            };
            if of.1 < 1 {
                let skipped = word == "skipped" && delivery.status == DeliveryStatus::Skipped && of.1 == -1;
                skipped.then_some(()).ok_or_else(|| format!("{of:?} is no try, and {word}"))?;
                continue;
            }
            let claim = self.flight(of.0).ok();
            if claim.is_some_and(|claim| !claim.may_begin) {
                return Err(format!("try {of:?} is in the log as {word}, and lies beyond the mark"));
            }
            let held = claim.filter(|claim| claim.until > self.hand.now).map(|claim| claim.token.as_str());
            let deed = self.known.provider.judge(*of, word, &delivery.birth.channel, held)?;
            said.push((deed, format!("try {of:?}: {word}")));
        }
        Ok(said)
    }
}
