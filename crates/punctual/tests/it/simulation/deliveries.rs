//! Deliveries: one for each send of an entry, written while that is active and due; pending it is in one
//! place, waiting or in flight; it moves only by the hand of its claim's owner, or by whoever ends its
//! entry; and what became of its tries is written with it (TRG-11, TRG-15, TRG-16).
//!
//! All of it is read from the tables after every transaction. What channels said is `letters.rs`.

use super::checker::{Place, delivery_row};
use super::entries::{Look, Row, Said};
use super::truth::Verdict;
use punctual::Timestamp;
use punctual::base::limits;
use punctual::rules::notification::DeliveryStatus;
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
    keeps_key: bool,
    version: i64,
}

/// What never changes of a delivery here, where no channel has a fallback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    pub entry: i64,
    pub send: i64,
    pub key: String,
    lane: i64,
    channel: String,
    created_at: Timestamp,
}

/// The claim under which a delivery was until now.
struct Flight<'a> {
    token: &'a str,
    owner: &'a str,
    until: Timestamp,
    attempt: i64,
    unstarted: i64,
}

pub fn read_deliveries(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Delivery>> {
    let mut statement = connection.prepare_cached(
        "select id, entry_id, send, idempotency_key, lane_id, channel, created_at, status, tries, \
                tried_before, \
            due_at, sent_at, keeps_key, version from punctual_delivery",
    )?;
    let rows = statement.query_map([], |row| {
        let time = |n: usize| row.get::<_, Option<i64>>(n).map(|at| at.map(Timestamp::from_micros));
        let birth = Birth {
            entry: row.get(1)?,
            send: row.get(2)?,
            key: row.get(3)?,
            lane: row.get(4)?,
            channel: row.get(5)?,
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
        }
        if let Some(id) = self.was.deliveries.keys().find(|id| !self.is.deliveries.contains_key(id)) {
            return Err(format!("delivery {id} is gone"));
        }
        Ok(said)
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
            return Err("it had ended, and was changed".into());
        }
        if self.is_lost(id) && is.status == DeliveryStatus::Pending {
            return self.lost(id, was, is);
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

    /// The entry of a delivery, if it is to be sent now.
    fn wanted(&self, is: &Delivery) -> Verdict<&Row> {
        let row = self.is.rows.get(&is.birth.entry).ok_or("it is of no entry")?;
        if !row.status.is_active() || row.deleted || is.status != DeliveryStatus::Pending {
            return Err(format!("it is to be sent, and has ended: {row:?}"));
        }
        if row.due_at.is_none_or(|at| at > self.hand.now) || row.attempt() != is.birth.send {
            return Err(format!("it is to be sent, and is not due: {row:?}"));
        }
        Ok(row)
    }

    /// A delivery is written for what is active and due, in the place of its entry's own work, once.
    fn written(&self, id: i64, is: &Delivery) -> Verdict<&'static str> {
        let row = self.wanted(is)?;
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
        let right = (&birth.key, &birth.channel, birth.created_at) == (&key, &row.birth.channel, now)
            && (is.tries, is.tried_before, is.keeps_key) == (0, 0, true)
            && (is.due_at, is.sent_at) == (Some(now), None);
        if !right {
            return Err(format!("it is not the delivery of {row:?}"));
        }
        match self.place_now(id) {
            Some(Place::Waiting { due, attempts: 0, .. }) if *due == now => Ok("delivery put in its queue"),
            Some(Place::Flying { owner, until, attempt: 1, unstarted: 0, .. })
                if owner == self.hand.actor && *until > now =>
            {
                Ok("delivery begun as it was written")
            }
            _ => Err("it was written, and is neither waiting nor in its writer's hands".into()),
        }
    }

    /// The claim under which a delivery was until now.
    fn flight(&self, id: i64) -> Verdict<Flight<'_>> {
        match self.place_before(id) {
            Some(Place::Flying { token, owner, until, attempt, unstarted }) => {
                let (attempt, unstarted) = (i64::from(*attempt), i64::from(*unstarted));
                Ok(Flight { token, owner, until: *until, attempt, unstarted })
            }
            other => Err(format!("it was in nobody's hands: {other:?}")),
        }
    }

    /// The same for who settles it: its owner, while nobody has reaped it.
    fn settled(&self, id: i64) -> Verdict<Flight<'_>> {
        let flight = self.flight(id)?;
        if self.tables.is_reaped(flight.token) || flight.owner != self.hand.actor {
            return Err(format!("it was settled under the claim of {}", flight.owner));
        }
        Ok(flight)
    }

    /// The outcome that was written now of the try under a claim.
    fn outcome(&self, id: i64, was: &Delivery, flight: &Flight<'_>) -> Option<&str> {
        let of = (id, was.tried_before + flight.attempt);
        let new = self.is.attempts.get(&of).filter(|_| !self.was.attempts.contains_key(&of));
        new.map(String::as_str)
    }

    /// Whether the claim under which it was has been reaped.
    fn is_lost(&self, id: i64) -> bool {
        self.flight(id).is_ok_and(|flight| self.tables.is_reaped(flight.token))
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
        self.known.letters.assert_taken((id, was.tried_before + flight.attempt), flight.token)?;
        let right = (is.sent_at, is.due_at, is.tries, is.keeps_key)
            == (Some(self.hand.now), None, flight.attempt, true)
            && self.outcome(id, was, &flight) == Some("sent");
        right.then_some("delivery sent").ok_or_else(|| "it is sent by halves".into())
    }

    fn given_up(&self, id: i64, was: &Delivery, is: &Delivery) -> Verdict<&'static str> {
        let flight = self.settled(id)?;
        let right = (is.due_at, is.sent_at, is.keeps_key) == (None, None, true);
        match self.outcome(id, was, &flight) {
            Some("transient" | "permanent" | "no-channel") if right => Ok("delivery failed"),
            other => Err(format!("it failed by {other:?}")),
        }
    }

    /// One of its tries may have gone out; lost claims count, too.
    fn uncertain(&self, id: i64, is: &Delivery) -> Verdict<&'static str> {
        let word = match self.flight(id) {
            Ok(flight) if self.tables.is_reaped(flight.token) => {
                self.out_of_attempts(is, &flight)?;
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
        match self.known.letters.has_open(id, &self.is.attempts) {
            true => Err("it has ended, and what became of a try is not in the log".into()),
            false => Ok(()),
        }
    }

    fn has_ended(&self, is: &Delivery) -> bool {
        self.is.rows.get(&is.birth.entry).is_some_and(|row| !row.status.is_active())
    }

    fn is_unsure(&self, id: i64) -> bool {
        let mut tries = self.is.attempts.range((id, 1)..(id + 1, -1));
        tries.any(|(_, outcome)| matches!(outcome.as_str(), "unknown" | "timeout"))
    }

    /// It was lost so often that it is given up, or nobody wants it any more.
    fn out_of_attempts(&self, is: &Delivery, flight: &Flight<'_>) -> Verdict {
        let most = i64::from(self.known.tries);
        let started = flight.attempt - flight.unstarted >= most;
        let lost = flight.unstarted + 1 >= most * i64::from(limits::UNSTARTED_FACTOR);
        let may = (started || lost || self.has_ended(is)) && flight.until <= self.hand.now;
        may.then_some(()).ok_or_else(|| "it was given up too early".into())
    }

    /// What waits is skipped by whoever ends its entry, what was not begun by its owner after that.
    fn skipped(&self, id: i64, is: &Delivery) -> Verdict<&'static str> {
        if !self.has_ended(is) {
            return Err("it was skipped, and its entry has not ended".into());
        }
        self.assert_logged(id)?;
        if (is.due_at, is.keeps_key) != (None, self.is_unsure(id)) {
            return Err("it keeps its key if a try may have gone out, and only then".into());
        }
        if matches!(self.place_before(id), Some(Place::Waiting { .. })) || self.is_lost(id) {
            return Ok("delivery skipped");
        }
        let flight = self.settled(id)?;
        let begun = self.known.letters.is_begun(flight.token, id);
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
        if self.is.rows.get(&is.birth.entry).is_none_or(|row| !row.status.is_active()) {
            return Err("it comes again, and its entry has ended".into());
        }
        let begun = self.known.letters.is_begun(flight.token, id);
        let outcome = self.outcome(id, was, &flight);
        let probes = is.tried_before - was.tried_before;
        if !begun {
            let same = outcome.is_none() && probes == 0 && is.tries == flight.attempt - 1;
            return same.then_some("delivery put back").ok_or_else(|| "nobody tried it".into());
        }
        let counted = (probes, is.tries) == (0, flight.attempt) && is.tries < i64::from(self.known.tries);
        let probed = (probes, is.tries) == (1, flight.attempt - 1);
        if !(counted || probed) || !matches!(outcome, Some("transient" | "unknown" | "timeout")) {
            return Err(format!("it is tried again after {outcome:?}, {} times", is.tries));
        }
        self.known.letters.assert_waits(flight.token, id, *due)?;
        Ok("send to be tried again")
    }

    /// From place to place.
    fn moved(&self, id: i64, was: Option<&Delivery>, is: &Delivery) -> Verdict {
        let (from, to) = (self.place_before(id), self.place_now(id));
        match (from, to) {
            _ if from == to => Ok(()),
            (None, Some(_)) if was.is_none() => Ok(()),
            (Some(Place::Waiting { due, attempts, .. }), Some(Place::Flying { .. })) => {
                self.claimed(is, (*due, *attempts), to.expect("a place"))
            }
            // Its work may be left behind.
            (Some(Place::Waiting { .. }), None | Some(Place::Waiting { .. }))
                if is.status != DeliveryStatus::Pending =>
            {
                Ok(())
            }
            (Some(Place::Flying { token, owner, .. }), Some(Place::Flying { token: same, .. }))
                if token == same && owner == self.hand.actor =>
            {
                Ok(())
            }
            (Some(Place::Flying { .. }), Some(Place::Waiting { attempts, .. })) if self.is_lost(id) => {
                self.reaped(id, i64::from(*attempts))
            }
            (Some(Place::Flying { .. }), Some(Place::Waiting { .. })) if was != Some(is) => Ok(()),
            (Some(Place::Flying { .. }), None) if is.status != DeliveryStatus::Pending => Ok(()),
            _ => Err("nothing may move like this".into()),
        }
    }

    /// Lost, and to be sent again. What is known not to have begun comes back as it was.
    fn reaped(&self, id: i64, attempts: i64) -> Verdict {
        let flight = self.flight(id)?;
        if flight.until > self.hand.now {
            return Err(format!("it is {}'s until {}, and was taken away", flight.owner, flight.until));
        }
        let begun = self.known.letters.is_begun(flight.token, id);
        let same = attempts == flight.attempt || (!begun && attempts == flight.attempt - 1);
        same.then_some(()).ok_or_else(|| format!("it came back after {attempts} attempts; begun: {begun}"))
    }

    fn claimed(&self, is: &Delivery, (due, attempts): (Timestamp, u32), to: &Place) -> Verdict {
        let Place::Flying { owner, until, attempt, .. } = to else { return Ok(()) };
        self.wanted(is)?;
        if due > self.hand.now {
            return Err("it is to be sent, and waits for later".into());
        }
        if *attempt != attempts + 1 || owner != self.hand.actor || *until <= self.hand.now {
            return Err("the claim has a wrong attempt, owner or lease".into());
        }
        let most = self.known.tries * (1 + limits::UNSTARTED_FACTOR);
        (*attempt <= most).then_some(()).ok_or_else(|| format!("{most} claims are the limit"))
    }

    /// What is pending waits or is in flight, and what is in flight is pending.
    fn stands(&self, id: i64, is: &Delivery) -> Verdict {
        let item = self.tables.items.get(&delivery_row(id));
        let pending = is.status == DeliveryStatus::Pending;
        match item.map(|item| &item.place) {
            None if pending => Err("it is to be sent, and is in no place".into()),
            Some(Place::Flying { .. }) if !pending => Err("it is in flight, and has ended".into()),
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
            let held = match self.place_before(of.0) {
                Some(Place::Flying { token, until, .. }) if *until > self.hand.now => Some(token.as_str()),
                _ => None,
            };
            let deed = self.known.letters.judge(*of, word, &delivery.birth.channel, held)?;
            said.push((deed, format!("try {of:?}: {word}")));
        }
        Ok(said)
    }
}
