//! Notifications: each event comes to one, in the transaction that settles the event; a notification counts
//! what its deliveries are and stands as they do, unless a person has cancelled it (NTF-3, NTF-4, NTF-6,
//! NTF-18, RMD-20).
//!
//! Their deliveries are checked with those of surveys (`deliveries.rs`); what people do is `guests.rs`.

use super::checker::{Item, Place, event_row};
use super::deliveries::Delivery;
use super::entries::{Entries, EntryState, Look, PersonRequest, Said};
use super::truth::Verdict;
use punctual::Timestamp;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::flow::rules::entry::EntryStatus;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// A notification's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub tenant: i64,
    message: i64,
    pub booking: String,
    status: EntryStatus,
    held: bool,
    /// Deliveries that are pending, sent and given up.
    counts: (i64, i64, i64),
    version: i64,
}

impl Notification {
    pub fn state(&self) -> EntryState {
        EntryState { active: self.status == EntryStatus::Pending, held: self.held }
    }
}

pub fn read_notifications(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Notification>> {
    let mut statement = connection.prepare_cached(
        "select id, tenant_id, message_id, entity_id, status, held_at is not null, open, sent, failed, \
            version \
         from punctual_entry where kind = 'notification'",
    )?;
    let rows = statement.query_map([], |row| {
        let of = Notification {
            tenant: row.get(1)?,
            message: row.get(2)?,
            booking: row.get(3)?,
            status: EntryStatus::from_code(row.get(4)?).expect("a status"),
            held: row.get(5)?,
            counts: (row.get(6)?, row.get(7)?, row.get(8)?),
            version: row.get(9)?,
        };
        Ok((row.get(0)?, of))
    })?;
    rows.collect()
}

/// Events as their publishers know them, by their numbers.
#[derive(Debug, Default)]
pub struct Events {
    published: BTreeMap<u64, Published>,
}

#[derive(Debug, Default)]
struct Published {
    /// Its publisher was told that it is there.
    accepted: bool,
    message: Option<i64>,
}

impl Events {
    /// The number of an event that is about to be published.
    pub fn publish(&mut self) -> u64 {
        let n = self.published.len() as u64 + 1;
        self.published.insert(n, Published::default());
        n
    }

    /// Its publisher was told that it is there.
    pub fn accept(&mut self, n: u64) -> Verdict {
        let event = self.published.get_mut(&n).expect("an event");
        event.accepted = true;
        event.message.map(|_| ()).ok_or_else(|| format!("event {n} was accepted, and is not there"))
    }

    /// A message appeared that carries this payload.
    pub fn appeared(&mut self, message: i64, payload: &str) -> Verdict {
        let payload: serde_json::Value = serde_json::from_str(payload).expect("a payload");
        let n = payload["event"].as_u64().expect("a number");
        let event = self.published.get_mut(&n).ok_or_else(|| format!("nobody published event {n}"))?;
        match event.message.replace(message) {
            Some(first) => Err(format!("event {n} is there twice, as messages {first} and {message}")),
            None => Ok(()),
        }
    }
}

/// What nobody is to be told of any more: bookings and addresses, by tenant.
#[derive(Debug, Default)]
pub struct Silence {
    /// Somebody has asked for it, the answer heard or not.
    pub asked: BTreeSet<(i64, String)>,
    /// Somebody was told that it is so.
    pub since: BTreeMap<(i64, String), Timestamp>,
}

impl Entries {
    /// What a delivery of a notification is about, and whom it reaches.
    fn subjects(&self, of: &Delivery) -> Option<[(i64, String); 2]> {
        let notification = self.seen.notifications.get(&of.birth.entry)?;
        let tenant = notification.tenant;
        Some([(tenant, notification.booking.clone()), (tenant, of.birth.address.clone())])
    }

    pub fn may_be_silent(&self, of: &Delivery) -> bool {
        self.subjects(of).is_some_and(|all| all.iter().any(|one| self.silence.asked.contains(one)))
    }

    pub fn silent_since(&self, of: &Delivery) -> Option<Timestamp> {
        self.subjects(of)?.iter().filter_map(|one| self.silence.since.get(one).copied()).min()
    }

    /// In the end: every event has come to a notification, and every notification has ended.
    pub fn assert_all_notified(&self) -> Verdict {
        let mut published = self.events.published.iter();
        if let Some((n, _)) = published.find(|(_, event)| event.accepted && event.message.is_none()) {
            return Err(format!("event {n} was accepted, and is not there"));
        }
        let known: BTreeSet<i64> = self.seen.notifications.values().map(|of| of.message).collect();
        let mut messages = self.events.published.values().filter_map(|event| event.message);
        if let Some(message) = messages.find(|message| !known.contains(message)) {
            return Err(format!("message {message} came to no notification"));
        }
        match self.seen.notifications.iter().find(|(_, of)| of.state().active) {
            Some((id, of)) => Err(format!("entry {id} is pending in the end: {of:?}")),
            None => Ok(()),
        }
    }
}

impl Look<'_> {
    /// Every notification: what changed of it, and whether it stands as its deliveries do.
    pub fn notifications(&self) -> Verdict<Said> {
        let mut said = Said::new();
        let mut counts: BTreeMap<i64, (i64, i64, i64)> = BTreeMap::new();
        for of in self.is.deliveries.values() {
            let (open, sent, failed) = counts.entry(of.birth.entry).or_default();
            match of.status {
                DeliveryStatus::Pending => *open += 1,
                DeliveryStatus::Sent | DeliveryStatus::Delivered => *sent += 1,
                DeliveryStatus::Failed | DeliveryStatus::Uncertain => *failed += 1,
                DeliveryStatus::Skipped => {}
            }
        }
        for (id, is) in &self.is.notifications {
            let was = self.was.notifications.get(id);
            let words = |why: String| format!("{why}: entry {id}: {was:?} -> {is:?}, by {}", self.hand.actor);
            if was != Some(is) {
                let deed = self.notification_changed(*id, was, is).map_err(words)?;
                said.push((deed, format!("entry {id}: {deed}, {}", is.status.word())));
            }
            self.stands_as_its_deliveries(*id, is, counts.get(id).copied().unwrap_or_default())
                .map_err(words)?;
        }
        let gone = self.was.notifications.keys().find(|id| !self.is.notifications.contains_key(id));
        gone.map_or(Ok(said), |id| Err(format!("entry {id} is gone")))
    }

    fn notification_changed(
        &self,
        id: i64,
        was: Option<&Notification>,
        is: &Notification,
    ) -> Verdict<&'static str> {
        let Some(was) = was else { return self.notified(id, is).map(|()| "notification made") };
        if (was.tenant, was.message, &was.booking) != (is.tenant, is.message, &is.booking) {
            return Err("what never changes of it has changed".into());
        }
        if !was.state().active && was.status != is.status {
            return Err("it had ended, and has another status".into());
        }
        if is.version <= was.version {
            return Err("it has changed, and not its version".into());
        }
        let asked = |wish| match self.known.asked.contains(&(id, wish)) {
            true => Ok(()),
            false => Err(format!("nobody asked to {wish:?} it")),
        };
        let has_ended = was.state().active && !is.state().active;
        if is.status == EntryStatus::Cancelled && has_ended && asked(PersonRequest::Cancel).is_ok() {
            return Ok("notification cancelled");
        }
        match (was.held, is.held) {
            (false, true) => asked(PersonRequest::Hold).map(|()| "entry held"),
            (true, false) if !has_ended => asked(PersonRequest::Release).map(|()| "entry released"),
            _ if was.status != is.status => Ok("notification ended"),
            _ if was.counts != is.counts => Ok("notification counted"),
            _ => asked(PersonRequest::Hold).map(|()| "entry held"),
        }
    }

    /// A notification is written by whoever has claimed its event, and settles that.
    fn notified(&self, id: i64, is: &Notification) -> Verdict {
        let same = |(other, of): (&i64, &Notification)| *other != id && of.message == is.message;
        if self.is.notifications.iter().any(same) {
            return Err("its event has another one".into());
        }
        let row = event_row(is.message);
        let before = self.before.items.get(&row).map(|item| &item.place);
        let claimed = matches!(before, Some(Place::Flying(claim)) if claim.owner == self.hand.actor);
        match claimed && !self.tables.items.contains_key(&row) {
            true => Ok(()),
            false => Err(format!("its event was not settled with it: {before:?}")),
        }
    }

    fn stands_as_its_deliveries(&self, id: i64, is: &Notification, counts: (i64, i64, i64)) -> Verdict {
        let wanted = match counts {
            (0, 0, 0) => EntryStatus::Cancelled,
            (0, _, 0) => EntryStatus::Sent,
            (0, ..) => EntryStatus::Failed,
            _ => EntryStatus::Pending,
        };
        let cancelled = is.status == EntryStatus::Cancelled;
        let by_a_person = cancelled && self.known.asked.contains(&(id, PersonRequest::Cancel));
        if is.counts != counts || (is.status != wanted && !by_a_person) {
            return Err(format!("it does not stand as its deliveries do: {counts:?}, {wanted:?}"));
        }
        self.assert_none_waits(id, cancelled)
    }

    /// Whoever cancels it skips what of it waits.
    fn assert_none_waits(&self, id: i64, cancelled: bool) -> Verdict {
        let ends = self.was.notifications.get(&id).is_some_and(|was| was.state().active);
        let waits = |of: i64| matches!(self.place_now(of), Some(Place::Waiting { .. }));
        let mut pending = self.is.deliveries.iter().filter(|(_, of)| of.birth.entry == id);
        match pending.find(|(of, is)| is.status == DeliveryStatus::Pending && waits(**of)) {
            Some((of, _)) if cancelled && ends => Err(self.left_waiting(*of)),
            _ => Ok(()),
        }
    }

    /// Every event: it is settled by its claim's owner, with a notification.
    pub fn events(&self) -> Verdict {
        let range = event_row(0)..event_row(1 << 59);
        let rows = self.before.items.range(range.clone()).chain(self.tables.items.range(range));
        for (row, _) in rows {
            let (was, is) = (self.before.items.get(row), self.tables.items.get(row));
            if was != is {
                let message = row - event_row(0);
                self.event_moved(message, was, is)
                    .map_err(|why| format!("{why}: event {message}: {was:?} -> {is:?}"))?;
            }
        }
        Ok(())
    }

    fn event_moved(&self, message: i64, was: Option<&Item>, is: Option<&Item>) -> Verdict {
        let now = self.hand.now;
        let right = match (was.map(|item| &item.place), is.map(|item| &item.place)) {
            (None, Some(Place::Waiting { attempts: 0, .. })) => true,
            // It was given its route.
            (Some(Place::Waiting { due: a, .. }), Some(Place::Waiting { due: b, .. })) => a == b,
            (Some(Place::Waiting { due, attempts, .. }), Some(Place::Flying(claim))) => {
                *due <= now && claim.attempt == attempts + 1 && claim.owner == self.hand.actor
            }
            (Some(Place::Flying(a)), Some(Place::Flying(b))) => {
                a.token == b.token && a.owner == self.hand.actor
            }
            (Some(Place::Flying(claim)), None) => {
                let notified = self.is.notifications.values().any(|of| of.message == message);
                notified && claim.owner == self.hand.actor && !self.tables.is_reaped(&claim.token)
            }
            (Some(Place::Flying(claim)), Some(_)) => match self.tables.is_reaped(&claim.token) {
                true => claim.until <= now,
                false => claim.owner == self.hand.actor,
            },
            (Some(Place::Dead { .. }), Some(Place::Waiting { attempts: 0, .. })) => true,
            _ => false,
        };
        right.then_some(()).ok_or_else(|| format!("no event moves like this, by {}", self.hand.actor))
    }
}

/// NTF-3, NTF-4, NTF-6, NTF-18: whatever happens to engines and links, no notification is lost or doubled in
/// silence. (Seeds of the one world, behind those that are played anyway.)
#[test]
fn ntf_4_simulated_notifications_keep_their_promises() {
    let first = super::first_seed().unwrap_or(101);
    let made = |seed| super::play_twice(seed).counts.deeds.get("notification made").copied();
    let made: usize = (first..first + 10).filter_map(made).sum();
    assert!(made > 0, "no notification was made, so nothing was shown");
}
