//! Sends: the claim with its intents, and the settlement with its outcomes.
//!
//! [`Store::begin_sends`] takes due work, looks at each entry for the last time **under its lock**, and
//! writes the claim and an intent for each send, in one transaction. What has ended by then is not
//! sent. Only when that is committed, channels are called. [`Store::end_sends`] writes what
//! became of it: outcomes always, the entry only in the version that was seen, or, if it has changed
//! meanwhile, as the rules say once more. A claim that was lost writes nothing.
//!
//! Not promised: that nobody gets a message after they answered. One that left just before may
//! arrive just after. A try that was lost in a crash is written down as unknown by whoever comes next,
//! and made again under the same idempotency key.

mod settle;
mod step;

pub(in crate::store) use settle::give_up;

use super::super::Store;
use super::super::claims::{self, Taken, Wish};
use super::super::columns::Column;
use super::super::planted::Bug;
use super::super::points::{Point, reach};
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::{Entry, lock, read_entry, there};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, Token};
use crate::rules::attempt::Patience;
use crate::rules::claim::Item;
use crate::rules::entry::failure::Failure;
use crate::rules::entry::log::Outcome;
use crate::rules::entry::schedule::Schedule;
use crate::store::tx::VerbFuture;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A send that is due, and whose intent is written.
#[derive(Clone, Debug)]
pub struct Due {
    /// The item as the claim row has it.
    pub item: Item,
    /// Its entry, as it stood when the intent was written.
    pub entry: Entry,
    /// Whether the try before this one was lost: it may have gone out.
    pub lost: bool,
}

impl Due {
    /// The number of this try of the send, from 1.
    #[must_use]
    pub const fn tried(&self) -> u32 {
        self.item.attempt()
    }
}

/// What a claim of sends brought.
#[derive(Debug)]
pub struct Outgoing<D = Due> {
    /// The token that every later word about these must carry; none when nothing is to be sent.
    pub token: Option<Token>,
    /// The sends.
    pub due: Vec<D>,
    /// How many work rows each lane gave, what was dropped included.
    pub taken: HashMap<LaneId, usize>,
    /// The authority's time of the claim.
    pub now: Option<Timestamp>,
}

impl<D> Default for Outgoing<D> {
    fn default() -> Self {
        Self { token: None, due: Vec::new(), taken: HashMap::new(), now: None }
    }
}

/// What became of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The channel took it.
    Sent {
        /// The provider's id of the message.
        message_id: Option<String>,
    },
    /// It did not, or nobody knows.
    NotSent {
        /// What is written down.
        outcome: Outcome,
        /// What it leads to.
        failure: Failure,
        /// What went wrong.
        error: String,
        /// How it is tried again, if it is.
        again: Again,
    },
    /// The recipient may not or does not want to be written to: nothing more is sent.
    Refused {
        /// The word for why.
        reason: &'static str,
        /// The sentence for it.
        error: String,
    },
    /// It is not to be made before this moment.
    Later(Timestamp),
    /// It was never begun.
    NotBegun,
}

/// How a send is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// How patient its channel is; if `None` as all are. What its lane says goes before.
    pub patience: Option<Patience>,
    /// Whether the channel was known to be down: then the try tells of the channel, and does not count.
    pub probe: bool,
}

/// One send with what became of it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The send.
    pub due: Due,
    /// The timetable of its trigger; an entry without one halts.
    pub schedule: Arc<Schedule>,
    /// What became of it.
    pub tried: Tried,
}

/// What a settlement of sends did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The claim was lost; nothing was written.
    LostClaim,
    /// As told.
    Done,
}

struct Ending {
    token: Token,
    ended: Arc<[Ended]>,
    seed: u64,
}

impl Store {
    /// Takes due sends from the lanes of the wish, and writes the intent to make them.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Invalid`] for an impossible lease or owner.
    pub fn begin_sends(&self, wish: Wish) -> VerbFuture<'_, Outgoing> {
        VerbFuture::new(async move {
            wish.check()?;
            if wish.takes.is_empty() {
                return Ok(Outgoing::default());
            }
            let begun = self.write(wish, |tx, wish| Box::pin(begin(tx, wish))).await;
            reach(Point::ClaimedBeforeAnswer);
            begun
        })
    }

    /// Writes what became of sends of one claim.
    pub fn end_sends(&self, token: Token, ended: Arc<[Ended]>, seed: u64) -> VerbFuture<'_, Settled> {
        VerbFuture::new(async move {
            let ending = Ending { token, ended, seed };
            let settled = self.write(ending, |tx, ending| Box::pin(settle::end(tx, ending))).await;
            reach(Point::SettledBeforeAnswer);
            settled
        })
    }
}

async fn begin(tx: &mut Tx, wish: &Wish) -> Result<Outgoing> {
    let (now, taken) = claims::take(tx, &wish.takes).await?;
    let Some(now) = now else { return Ok(Outgoing::default()) };
    let mut outgoing = Outgoing { now: Some(now), ..Outgoing::default() };
    for t in &taken {
        *outgoing.taken.entry(t.item.lane()).or_default() += 1;
    }
    let dropped;
    (outgoing.due, dropped) = last_look(tx, taken, now).await?;
    let lost = note_lost_tries(tx, outgoing.due.iter().chain(&dropped), now).await?;
    for due in &mut outgoing.due {
        due.lost = lost.contains(&due.entry.id.0);
    }
    if outgoing.due.is_empty() {
        return Ok(outgoing);
    }
    outgoing.token = Some(write_intents(tx, wish, &outgoing.due, now).await?);
    Ok(outgoing)
}

/// Which of the items are really to be sent, and which are dropped because their entry has ended. What
/// somebody has locked at this moment goes back as it was, and comes again.
async fn last_look(tx: &mut Tx, taken: Vec<Taken>, now: Timestamp) -> Result<(Vec<Due>, Vec<Due>)> {
    let ids: Vec<i64> = taken.iter().filter_map(|t| t.item.entry()).map(|id| id.0).collect();
    let mut entries: HashMap<i64, Entry> =
        if tx.has(Bug::IntentWithoutLock) { unlocked(tx, &ids).await? } else { lock(tx, &ids).await? }
            .into_iter()
            .map(|entry| (entry.id.0, entry))
            .collect();
    let missing: Vec<i64> = ids.iter().copied().filter(|id| !entries.contains_key(id)).collect();
    let busy = there(tx, &missing).await?;
    let (mut due, mut dropped, mut back) = (Vec::with_capacity(taken.len()), Vec::new(), Vec::new());
    let whatever = tx.has(Bug::SendAfterTheEnd);
    for t in taken {
        let Some(id) = t.item.entry() else { continue };
        match entries.remove(&id.0) {
            Some(entry) if whatever || (entry.standing.is_due(now) && !entry.deleted) => {
                due.push(Due { item: t.item, entry, lost: false });
            }
            Some(entry) => dropped.push(Due { item: t.item, entry, lost: false }),
            None if busy.contains(&id.0) => back.push(t),
            None => {}
        }
    }
    let back: Vec<Vec<Value<'_>>> = back.iter().map(|t| as_it_was(&t.item, t.due_at)).collect();
    tx.each(super::super::sequences::WORK_AGAIN, &back).await?;
    Ok((due, dropped))
}

/// A work row as if it had not been claimed.
pub(in crate::store) fn as_it_was(item: &Item, due_at: Timestamp) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
    vec![
        item.message().0.into(),
        item.lane().0.into(),
        due_at.into(),
        attempts.into(),
        unstarted.into(),
        Value::Null,
    ]
}

/// A planted bug: the last look locks nothing.
async fn unlocked(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Entry>> {
    let mut rows = tx.query(UNLOCKED, &[Value::Ints(ids)]).await?;
    rows.iter_mut().map(read_entry).collect()
}

const UNLOCKED: &str =
    concat!("select ", super::entry_columns!(), " from punctual.entry e where e.id = any($1::bigint[])");

/// A try before this one that nobody wrote down was lost in a crash: it may have gone out. That is
/// so whether or not there is another one. Answers the entries of those that were lost; a claim that was put
/// back unused may have written it down before.
async fn note_lost_tries(
    tx: &mut Tx,
    seen: impl Iterator<Item = &Due>,
    now: Timestamp,
) -> Result<HashSet<i64>> {
    let again: Vec<&Due> = seen.filter(|d| d.tried() > 1).collect();
    let said = "whoever sent it did not say what came of it; it may have gone out";
    let rows: Vec<Vec<Value<'_>>> = again
        .iter()
        .map(|d| {
            vec![
                d.entry.id.0.into(),
                i64::from(d.entry.attempt()).into(),
                (i64::from(d.tried()) - 1).into(),
                now.into(),
                said.into(),
            ]
        })
        .collect();
    tx.each(NOTE_LOST, &rows).await?;
    let lost: Vec<Vec<Value<'_>>> = rows.iter().map(|row| vec![row[0], row[1], row[2], row[4]]).collect();
    let lost = tx.each(WAS_LOST, &lost).await?;
    lost.iter().flatten().map(|row| row.int(0)).collect()
}

/// Only a try whose intent was written can be lost.
const NOTE_LOST: &str = "insert into punctual.delivery_outcome (entry_id, attempt, tried, at, status, error) \
    select $1, $2, $3, $4, 'unknown', $5 where exists (select 1 from punctual.delivery d \
        where d.entry_id = $1 and d.attempt = $2 and d.part = 0) on conflict do nothing";
const WAS_LOST: &str = "select entry_id from punctual.delivery_outcome \
    where entry_id = $1 and attempt = $2 and tried = $3 and status = 'unknown' and error = $4";

/// The claim row and the intents: the last word of the transaction.
async fn write_intents(tx: &mut Tx, wish: &Wish, due: &[Due], now: Timestamp) -> Result<Token> {
    let columns = [
        Column::Ints(due.iter().map(|d| d.entry.id.0).collect()),
        Column::Ints(due.iter().map(|d| i64::from(d.entry.attempt())).collect()),
        Column::Texts(due.iter().map(|d| Some(d.entry.channel.as_str())).collect()),
        Column::Texts(due.iter().map(|d| Some(d.entry.address.as_str())).collect()),
    ];
    tx.in_columns((INTENTS_AT_ONCE, INTENT), params![now], &columns).await?;
    claims::hold_letters(tx, wish, due.iter().map(|d| &d.item), now).await
}

const INTENTS_AT_ONCE: &str = "\
    insert into punctual.delivery (entry_id, attempt, channel, address, created_at) \
    select entry_id, attempt, channel, address, $1::bigint \
    from (select unnest($2::bigint[]) entry_id, unnest($3::int[]) attempt, unnest($4::text[]) channel, \
        unnest($5::text[]) address) x \
    on conflict do nothing";
const INTENT: &str = "insert into punctual.delivery (entry_id, attempt, channel, address, created_at) \
    values ($2, $3, $4, $5, $1) on conflict do nothing";
