//! The checker: reads the tables after every transaction that wrote, and holds each change
//! against what may happen at all.
//!
//! A message is in one place: waiting, behind its key, in flight, dead, or gone. It moves only
//! along the arrows below, and only by the hand of whoever may move it: out of a claim by the
//! claim's owner, or by anybody once its lease is over by the database's clock.

use super::truth::{End, Flight, Truth, Verdict};
use punctual::Timestamp;
use punctual::base::limits;
use punctual::queue::rules::claim;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Where a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Waiting { due: Timestamp, attempts: u32, unstarted: u32 },
    Following { due: Timestamp, attempts: u32, unstarted: u32 },
    Flying(Flying),
    Dead { attempts: u32 },
}

/// An item under a claim that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flying {
    pub token: String,
    pub owner: String,
    pub claimed_at: Timestamp,
    pub until: Timestamp,
    pub attempt: u32,
    pub unstarted: u32,
    /// Whether it may be begun: it stands before the claim's mark.
    pub may_begin: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { due, attempts, .. } => write!(f, "waiting until {due} after {attempts}"),
            Self::Following { attempts, .. } => write!(f, "behind its key after {attempts}"),
            Self::Flying(Flying { token, owner, until, attempt, .. }) => {
                write!(f, "attempt {attempt} of {owner} under {} until {until}", &token[..6])
            }
            Self::Dead { attempts } => write!(f, "dead after {attempts}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub lane: i64,
    pub place: Place,
}

#[derive(Clone, Debug)]
pub struct Lane {
    paused: bool,
    /// Whether a dead head holds its key up.
    blocks: bool,
    max_attempts: u32,
}

/// The tables as they were after a transaction.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub items: BTreeMap<i64, Item>,
    pub lanes: BTreeMap<i64, Lane>,
    /// How claims ended that did.
    endings: BTreeMap<String, String>,
    last_message: i64,
    /// Messages that notifications are made of, and no handler has.
    events: BTreeSet<i64>,
}

/// A message row that was not there before.
pub struct FreshMessage {
    pub id: i64,
    pub topic: String,
    pub payload: String,
    /// Its time in the order of its key.
    pub order: Timestamp,
}

type Fresh = Vec<FreshMessage>;

/// Who wrote, when.
pub struct Hand<'a> {
    pub actor: &'a str,
    pub now: Timestamp,
}

/// The user that looks after things, and alone replays dead letters.
pub const OPERATOR: &str = "operator";

impl Tables {
    /// Reads them, and says what is wrong in them as they stand.
    pub fn read(connection: &Connection, before: &Self) -> rusqlite::Result<(Verdict<Self>, Fresh)> {
        let fresh = fresh_messages(connection, before.last_message)?;
        let last_message = fresh.last().map_or(before.last_message, |row| row.id);
        let mut tables = Self { last_message, lanes: lanes(connection)?, ..Self::default() };
        tables.events.clone_from(&before.events);
        tables.events.extend(fresh.iter().filter(|row| is_event(&row.payload)).map(|row| row.id));
        let mut all = waiting(connection)?;
        all.extend(dead(connection)?);
        all.extend(tables.claims(connection)?);
        for (row, item) in all {
            let row = if tables.events.contains(&row) { event_row(row) } else { row };
            let words = item.place.to_string();
            if let Some(other) = tables.items.insert(row, item) {
                let name = if row > 0 { format!("row {row}") } else { name_of(row) };
                let said = format!("{name} is in two places: {}, and {words}", other.place);
                return Ok((Err(said), fresh));
            }
        }
        let verdict = tables.assert_followers_have_heads(connection)?;
        Ok((verdict.map(|()| tables), fresh))
    }

    /// Claims: notes how they ended, and gives the items of those that are open.
    fn claims(&mut self, connection: &Connection) -> rusqlite::Result<Vec<(i64, Item)>> {
        let mut statement = connection.prepare_cached(
            "select token, owner, lease_until, ending, \
                case when finished_at is null then coalesce(open, items) end, purpose, claimed_at, \
                case when finished_at is null then items end, mark from punctual_claim",
        )?;
        let mut rows = statement.query([])?;
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            let token: String = row.get(0)?;
            if let Some(ending) = row.get::<_, Option<String>>(3)? {
                self.endings.insert(token, ending);
                continue;
            }
            let purpose: String = row.get(5)?;
            let (owner, until): (String, _) = (row.get(1)?, Timestamp::from_micros(row.get(2)?));
            let claimed_at = Timestamp::from_micros(row.get(6)?);
            let all = claim::read(&row.get::<_, String>(7)?).expect("items");
            let mark: Option<u32> = row.get(8)?;
            let mark = mark.map_or(all.len(), |mark| usize::try_from(mark).unwrap());
            for item in claim::read(&row.get::<_, String>(4)?).expect("items") {
                let place = Place::Flying(Flying {
                    token: token.clone(),
                    owner: owner.clone(),
                    claimed_at,
                    until,
                    attempt: item.attempt(),
                    unstarted: item.unstarted(),
                    may_begin: all.iter().take(mark).any(|one| one.message() == item.message()),
                });
                items.push((row_of(&purpose, item.message().0), Item { lane: item.lane().0, place }));
            }
        }
        Ok(items)
    }

    fn assert_followers_have_heads(&self, connection: &Connection) -> rusqlite::Result<Verdict> {
        let mut statement = connection.prepare_cached(
            "select f.message_id, s.head from punctual_follower f \
                left join punctual_sequence s on s.lane_id = f.lane_id and s.key = f.key",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (follower, head): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            if !head.is_some_and(|head| self.items.contains_key(&head)) {
                return Ok(Err(format!("row {follower} waits behind {head:?}, which is gone")));
            }
        }
        Ok(Ok(()))
    }

    /// What can still be worked off by itself: not what is dead, nor what a dead head holds up.
    pub fn alive<'a>(&'a self, truth: &'a Truth) -> impl Iterator<Item = (&'a i64, &'a Item)> {
        self.items.iter().filter(|(row, item)| match item.place {
            Place::Dead { .. } => false,
            Place::Following { .. } => !self.is_held_up(**row, truth),
            _ => true,
        })
    }

    fn is_held_up(&self, row: i64, truth: &Truth) -> bool {
        let Ok(entry) = truth.number(row).map(|n| truth.entry(n)) else { return false };
        self.items.iter().any(|(other, item)| {
            let same_key = truth.number(*other).is_ok_and(|n| truth.entry(n).is_behind(entry));
            same_key
                && matches!(item.place, Place::Dead { .. })
                && self.lane(item).is_ok_and(|lane| lane.blocks)
        })
    }

    fn lane(&self, item: &Item) -> Verdict<&Lane> {
        self.lanes.get(&item.lane).ok_or_else(|| format!("lane {} is not there", item.lane))
    }

    /// Whether this claim was lost.
    pub fn is_reaped(&self, token: &str) -> bool {
        self.endings.get(token).is_some_and(|ending| ending == "reaped")
    }

    /// What has changed since, if that may be; as words for the trace.
    pub fn compare(&self, before: &Self, truth: &mut Truth, hand: &Hand<'_>) -> Verdict<Vec<String>> {
        for (token, ending) in &before.endings {
            match self.endings.get(token) {
                Some(now) if now == ending => {}
                None if self.items.values().all(|item| !item.is_under(token)) => {}
                other => return Err(format!("the claim {token} was {ending}, and is now {other:?}")),
            }
        }
        let mut said = Vec::new();
        let rows: BTreeSet<_> = before.items.keys().chain(self.items.keys()).collect();
        // Work of entries, events and deliveries has a number below zero, and checks of its own.
        for row in rows.into_iter().filter(|row| **row > 0) {
            let (was, is) = (before.items.get(row), self.items.get(row));
            if was == is {
                continue;
            }
            let n = truth.number(*row)?;
            let words =
                |item: Option<&Item>| item.map_or_else(|| "not there".into(), |i| i.place.to_string());
            let moved = format!("message {n}: {} -> {}", words(was), words(is));
            let step = Step { n, tables: self, hand };
            step.check(truth, was, is).map_err(|why| format!("{why}\n    {moved}, by {}", hand.actor))?;
            said.push(moved);
        }
        Ok(said)
    }
}

impl Item {
    fn is_under(&self, claim: &str) -> bool {
        matches!(&self.place, Place::Flying(Flying { token, .. }) if token == claim)
    }
}

/// One message's way from one place to another.
struct Step<'a> {
    n: u64,
    tables: &'a Tables,
    hand: &'a Hand<'a>,
}

impl Step<'_> {
    fn check(&self, truth: &mut Truth, was: Option<&Item>, is: Option<&Item>) -> Verdict {
        use Place::{Dead, Following, Waiting};
        let (from, to) = (was.map(|i| &i.place), is.map(|i| &i.place));
        if let Some(verdict) = truth.entry_mut(self.n).changed(self.hand, from, to) {
            return verdict;
        }
        match (from, to) {
            (None, Some(Waiting { .. })) if truth.entry(self.n).is_open() => Ok(()),
            (Some(Waiting { .. }), Some(Waiting { .. }))
                if from == to && was.is_some_and(|i| i.lane == 0) =>
            {
                Ok(())
            }
            (
                Some(Waiting { due: a, attempts: b, unstarted: c }),
                Some(Following { due, attempts, unstarted }),
            )
            | (
                Some(Following { due: a, attempts: b, unstarted: c }),
                Some(Waiting { due, attempts, unstarted }),
            ) if (a, b, c) == (due, attempts, unstarted) => Ok(()),
            (Some(Waiting { due, attempts, .. }), Some(Place::Flying(_))) => {
                self.claimed(truth, *due, *attempts, is.expect("an item"))
            }
            (Some(Place::Flying(a)), Some(Place::Flying(b)))
                if (&a.token, a.attempt) == (&b.token, b.attempt) =>
            {
                let mine = a.owner == self.hand.actor;
                mine.then_some(()).ok_or_else(|| "a lease was moved by somebody else".to_owned())
            }
            (Some(Place::Flying(_)), _) => self.landed(truth, was.expect("an item"), is),
            (Some(Dead { .. }), Some(Waiting { attempts: 0, .. })) if self.hand.actor == OPERATOR => {
                truth.entry_mut(self.n).generation += 1;
                Ok(())
            }
            _ => Err("nothing may move like this".into()),
        }
    }

    fn claimed(&self, truth: &mut Truth, due: Timestamp, attempts: u32, item: &Item) -> Verdict {
        let Place::Flying(Flying { token, owner, until, attempt, .. }) = &item.place else { return Ok(()) };
        let lane = self.tables.lane(item)?;
        let now = self.hand.now;
        if due > now {
            return Err(format!("it was claimed at {now}, before it is due"));
        }
        if lane.paused {
            return Err("it was claimed from a queue that is paused".into());
        }
        if *attempt != attempts + 1 || owner != self.hand.actor || *until <= now {
            return Err("the claim has a wrong attempt, owner or lease".into());
        }
        self.assert_order(truth, lane)?;
        let entry = truth.entry_mut(self.n);
        let generation = entry.generation;
        let before = entry.flights.iter().filter(|f| f.generation == generation).count();
        let most = lane.max_attempts * (1 + limits::UNSTARTED_FACTOR);
        if before >= usize::try_from(most).unwrap() {
            return Err(format!("it was claimed {before} times before, and {most} is the limit"));
        }
        entry.flights.push(Flight {
            generation,
            attempt: *attempt,
            owner: owner.clone(),
            token: token.clone(),
            begun: false,
            going: false,
            effect: false,
            failed: None,
            end: None,
        });
        Ok(())
    }

    /// One at a time of a key; and what was never in flight waits for all before it, except for
    /// one that died, was passed, and came back by a replay: that has lost its place.
    fn assert_order(&self, truth: &Truth, lane: &Lane) -> Verdict {
        let entry = truth.entry(self.n);
        let order = |e: &super::truth::Entry| e.row.map(|(row, due)| (due, row));
        for other in truth.entries.values().filter(|other| other.is_behind(entry)) {
            let place = other.row.and_then(|(row, _)| self.tables.items.get(&row)).map(|i| &i.place);
            let m = other.n;
            match place {
                Some(Place::Flying(_)) => return Err(format!("message {m} of its key is in flight")),
                Some(Place::Dead { .. }) if !lane.blocks => {}
                Some(_) if other.generation > 1 && !lane.blocks => {}
                // Moving one changes its place among those that wait, but not who is first already.
                Some(_) if entry.moved || other.moved => {}
                Some(_) if entry.flights.is_empty() && order(other) < order(entry) => {
                    return Err(format!("message {m} of its key comes first"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Out of a claim: reaped by anybody once its lease is over, or settled by its owner.
    fn landed(&self, truth: &mut Truth, was: &Item, is: Option<&Item>) -> Verdict {
        let Place::Flying(Flying { token, owner, until, attempt, unstarted, .. }) = &was.place else {
            return Ok(());
        };
        let reaped = self.tables.is_reaped(token);
        if reaped && *until > self.hand.now {
            return Err(format!("it was reaped, but the lease of {owner} holds until {until}"));
        }
        if !reaped && owner != self.hand.actor {
            return Err(format!("it is {owner}'s, and was settled by somebody else"));
        }
        let max_attempts = self.tables.lane(was)?.max_attempts;
        let entry = truth.entry_mut(self.n);
        let snoozes = entry.snoozes();
        let flight = entry.flight(token)?;
        let place = is.map(|i| &i.place);
        let end = match place {
            _ if reaped => after_reaping(place, *attempt - snoozes, *unstarted, snoozes, max_attempts)?,
            None if flight.effect => End::Acked,
            None => return Err("it is gone without having been handled under this claim".into()),
            Some(Place::Waiting { attempts, .. }) if attempts + 1 == *attempt && !flight.begun => {
                End::GivenBack
            }
            Some(Place::Waiting { due, attempts, .. }) if attempts == attempt => match flight.failed {
                Some(wait) if self.hand.now.plus(wait) <= *due => End::GivenBack,
                Some(wait) => {
                    return Err(format!("its handler asked for {wait:?}, and it is due before that"));
                }
                None => return Err("it was given back though its handler had not failed".into()),
            },
            Some(Place::Dead { .. }) if flight.failed.is_some() => End::Dead,
            _ => return Err("no claim ends like this".into()),
        };
        flight.end = Some(end);
        let generation = flight.generation;
        entry.done |= end == End::Acked;
        let tried =
            |f: &&Flight| f.generation == generation && matches!(f.end, Some(End::GivenBack | End::Dead));
        let failures =
            entry.flights.iter().filter(tried).filter(|f| f.failed == Some(Duration::ZERO)).count();
        if failures > usize::try_from(max_attempts).unwrap() {
            return Err(format!("it failed {failures} times, and {max_attempts} is the limit"));
        }
        Ok(())
    }
}

/// A reaped item comes back with its attempt counted, snoozes left out; one that is not known to have begun
/// has a limit of its own.
fn after_reaping(
    place: Option<&Place>,
    attempt: u32,
    lost: u32,
    snoozes: u32,
    max_attempts: u32,
) -> Verdict<End> {
    match place {
        Some(Place::Waiting { attempts, unstarted, .. }) if *attempts == attempt + snoozes => {
            let most = max_attempts * limits::UNSTARTED_FACTOR;
            if attempt - unstarted < max_attempts && *unstarted < most {
                Ok(End::Reaped)
            } else {
                Err(format!("it came back after {attempt} attempts, {unstarted} of them not begun"))
            }
        }
        Some(Place::Dead { .. }) if attempt - lost >= max_attempts => Ok(End::Reaped),
        Some(Place::Dead { .. }) if lost + 1 >= max_attempts * limits::UNSTARTED_FACTOR => Ok(End::Reaped),
        _ => Err("no reaping ends like this".into()),
    }
}

fn fresh_messages(connection: &Connection, after: i64) -> rusqlite::Result<Fresh> {
    let mut statement = connection.prepare_cached(
        "select id, topic, payload, coalesce(due_at, created_at) from punctual_message where id > ?1 \
            order by id",
    )?;
    let rows = statement.query_map([after], |row| {
        let (id, topic, payload) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(FreshMessage { id, topic, payload, order: Timestamp::from_micros(row.get(3)?) })
    })?;
    rows.collect()
}

fn lanes(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Lane>> {
    let mut statement = connection
        .prepare_cached("select id, paused, dead_head = 'block', max_attempts from punctual_lane")?;
    let rows = statement.query_map([], |row| {
        let max_attempts = row.get::<_, Option<u32>>(3)?.unwrap_or(limits::ATTEMPTS_DEFAULT);
        Ok((row.get(0)?, Lane { paused: row.get(1)?, blocks: row.get(2)?, max_attempts }))
    })?;
    rows.collect()
}

fn waiting(connection: &Connection) -> rusqlite::Result<Vec<(i64, Item)>> {
    let mut statement = connection.prepare_cached(
        "select w.message_id, lane_id, due_at, attempts, unstarted, 0, coalesce(l.purpose, 'dispatch') \
            from punctual_work w left join punctual_lane l on l.id = w.lane_id \
         union all select message_id, lane_id, due_at, attempts, unstarted, 1, 'dispatch' \
            from punctual_follower",
    )?;
    let rows = statement.query_map([], |row| {
        let (due, attempts, unstarted) = (Timestamp::from_micros(row.get(2)?), row.get(3)?, row.get(4)?);
        let place = match row.get(5)? {
            0 => Place::Waiting { due, attempts, unstarted },
            _ => Place::Following { due, attempts, unstarted },
        };
        let row_id = row_of(&row.get::<_, String>(6)?, row.get(0)?);
        Ok((row_id, Item { lane: row.get(1)?, place }))
    })?;
    rows.collect()
}

/// One number for an item of any purpose: entries are below zero, events and deliveries far below.
fn row_of(purpose: &str, id: i64) -> i64 {
    match purpose {
        "dispatch" => id,
        "send" => delivery_row(id),
        _ => -id,
    }
}

/// The number of a delivery's item.
pub const fn delivery_row(id: i64) -> i64 {
    id - (1 << 62)
}

/// The number of the item of an event that notifications are made of.
pub const fn event_row(id: i64) -> i64 {
    id - (1 << 60)
}

/// Whether a message with this payload is such an event.
pub fn is_event(payload: &str) -> bool {
    payload.contains("bookingId")
}

/// What has the number of an item that no handler has.
pub fn name_of(row: i64) -> String {
    if row < -(1 << 61) {
        format!("delivery {}", row + (1 << 62))
    } else if row < -(1 << 59) {
        format!("event {}", row + (1 << 60))
    } else {
        format!("entry {}", -row)
    }
}

fn dead(connection: &Connection) -> rusqlite::Result<Vec<(i64, Item)>> {
    let mut statement =
        connection.prepare_cached("select message_id, lane_id, attempts from punctual_dead_letter")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, Item { lane: row.get(1)?, place: Place::Dead { attempts: row.get(2)? } }))
    })?;
    rows.collect()
}
