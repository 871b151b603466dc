//! What a settlement or a reaping leaves behind: items that come back, attempts that are written down,
//! dead letters, and what was given up.

use super::super::queues::Lane;
use super::super::runs::{Ending, Holder, What};
use super::super::timers::own_due;
use super::super::tx::Tx;
use super::super::value::Value;
use super::Word;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::rules::attempt::{Verdict, kept_error};
use crate::rules::claim::Item;
use crate::rules::purpose::Purpose;
use crate::rules::queue::DeadHead;

/// What a settlement or a reaping leaves behind, gathered and then written as sets.
pub(in super::super) struct Aftermath<'a> {
    purpose: Purpose,
    owner: &'a str,
    claimed_at: Timestamp,
    now: Timestamp,
    /// Whether runs of jobs may be among the items.
    pub(in super::super) has_run: bool,
    endings: Vec<Ending>,
    again: Vec<(Item, Timestamp)>,
    attempts: Vec<Failure>,
    dead: Vec<(Item, i64, String)>,
    out_of_the_way: Vec<Item>,
    untouched: Vec<Item>,
    given_up: Vec<Item>,
    not_begun: Vec<Item>,
}

struct Failure {
    item: Item,
    outcome: &'static str,
    error: String,
    next_due: Option<Timestamp>,
}

impl<'a> Aftermath<'a> {
    pub(in super::super) const fn new(
        purpose: Purpose,
        owner: &'a str,
        claimed_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        Self {
            purpose,
            owner,
            claimed_at,
            now,
            has_run: false,
            endings: Vec::new(),
            again: Vec::new(),
            attempts: Vec::new(),
            dead: Vec::new(),
            out_of_the_way: Vec::new(),
            untouched: Vec::new(),
            given_up: Vec::new(),
            not_begun: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, item: &Item, word: &Word, lane: Option<&Lane>, seed: u64) {
        let seed = seed ^ item.message().0.unsigned_abs();
        match word {
            Word::Ack => self.done(item, None),
            Word::Done { output } => self.done(item, Some(output)),
            Word::Release => self.untouched.push(item.clone()),
            Word::Fail { error } => self.end(item, lane, "failed", error, Verdict::Dead),
            Word::Abandon { error, retry } => {
                let patience = lane.map(|l| l.settings.patience()).unwrap_or_default();
                let verdict = patience.after_abandon(item, *retry, seed);
                self.end(item, lane, "abandoned", error, verdict);
            }
        }
    }

    fn done(&mut self, item: &Item, output: Option<&String>) {
        self.out_of_the_way.push(item.clone());
        self.ending(item, || What::Done(output.cloned()));
    }

    fn ending(&mut self, item: &Item, what: impl FnOnce() -> What) {
        if self.has_run {
            let (message, lane, attempt) = (item.message(), item.lane(), item.attempt());
            self.endings.push(Ending { message, lane, attempt, what: what() });
        }
    }

    /// A delivery that was claimed and not begun waits again, as if it had not been claimed.
    pub(in super::super) fn give_back(&mut self, item: &Item) {
        self.not_begun.push(item.clone());
    }

    /// An attempt did not end well: it is written down, and the item comes back or dies.
    pub(in super::super) fn end(
        &mut self,
        item: &Item,
        lane: Option<&Lane>,
        outcome: &'static str,
        error: &str,
        verdict: Verdict,
    ) {
        let error = kept_error(error);
        let next_due = match verdict {
            Verdict::Again(wait) => Some(self.now.plus(wait)),
            Verdict::Dead => None,
        };
        if let Some(due) = next_due {
            self.ending(item, || What::Again(error.clone()));
            self.again.push((item.clone(), due));
        } else if self.purpose != Purpose::Dispatch {
            self.given_up.push(item.clone());
        } else {
            self.ending(item, || What::Dead(error.clone()));
            self.dead.push((item.clone(), lane.map_or(1, |l| l.tenant.id()), error.clone()));
            if lane.is_some_and(|l| l.settings.dead_head == DeadHead::Pass) {
                self.out_of_the_way.push(item.clone());
            }
        }
        // The tries of a delivery have a log of their own.
        if self.purpose == Purpose::Dispatch {
            self.attempts.push(Failure { item: item.clone(), outcome, error, next_due });
        }
    }

    pub(in super::super) async fn write(mut self, tx: &mut Tx) -> Result<()> {
        if self.purpose == Purpose::Send {
            self.give_up_ended(tx).await?;
        }
        let again: Vec<Vec<Value<'_>>> = self.again.iter().map(|(i, due)| work_row(i, *due)).collect();
        tx.each(super::super::sequences::WORK_AGAIN, &again).await?;
        if self.purpose == Purpose::Send {
            let due = self.again.iter().map(|(item, due)| (item.delivery(), *due)).collect::<Vec<_>>();
            super::super::deliveries::deliver::move_due(tx, &due).await?;
        }
        let untouched: Vec<Vec<Value<'_>>> = self.untouched.iter().map(untouched_row).collect();
        tx.each(WORK_UNTOUCHED, &untouched).await?;
        let attempts: Vec<Vec<Value<'_>>> =
            self.attempts.iter().map(|f| f.row(self.owner, self.now)).collect();
        tx.each(ADD_ATTEMPT, &attempts).await?;
        let dead: Vec<Vec<Value<'_>>> =
            self.dead.iter().map(|(i, tenant, error)| dead_row(i, *tenant, error, self.now)).collect();
        tx.each(ADD_DEAD, &dead).await?;
        let done: Vec<(LaneId, &str, MessageId)> =
            self.out_of_the_way.iter().filter_map(|i| Some((i.lane(), i.key()?, i.message()))).collect();
        super::super::sequences::release(tx, &done).await?;
        match self.purpose {
            Purpose::Send => {
                super::super::deliveries::deliver::give_up(tx, &self.given_up, self.now).await?;
                super::super::deliveries::deliver::give_back(tx, &self.not_begun, self.now).await?;
            }
            Purpose::Dispatch | Purpose::Advance | Purpose::Expire => {}
        }
        if self.endings.is_empty() {
            return Ok(());
        }
        let holder = Holder { owner: self.owner, claimed_at: self.claimed_at };
        super::super::runs::note(tx, holder, &self.endings, self.now).await
    }

    /// Lost deliveries are noted as such, and those whose entries have ended meanwhile do not come again.
    async fn give_up_ended(&mut self, tx: &mut Tx) -> Result<()> {
        let lost: Vec<Item> = self.again.iter().map(|(item, _)| item.clone()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let over = super::super::deliveries::entry_end::note_reaped(tx, &lost, self.now).await?;
        self.again.retain(|(item, _)| !over.contains(&item.delivery().0));
        let ended = lost.into_iter().filter(|item| over.contains(&item.delivery().0));
        self.given_up.extend(ended);
        Ok(())
    }
}

fn work_row(item: &Item, due: Timestamp) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()), i64::from(item.unstarted()));
    vec![
        item.message().0.into(),
        item.lane().0.into(),
        due.into(),
        attempts.into(),
        unstarted.into(),
        item.key().into(),
    ]
}

/// As if it had not been claimed: one attempt fewer, and back at its old place.
fn untouched_row(item: &Item) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
    vec![item.message().0.into(), item.lane().0.into(), attempts.into(), unstarted.into(), item.key().into()]
}

impl Failure {
    fn row<'a>(&'a self, owner: &'a str, now: Timestamp) -> Vec<Value<'a>> {
        vec![
            self.item.message().0.into(),
            self.item.lane().0.into(),
            i64::from(self.item.attempt()).into(),
            now.into(),
            owner.into(),
            self.outcome.into(),
            self.error.as_str().into(),
            self.next_due.map(Timestamp::as_micros).into(),
        ]
    }
}

fn dead_row<'a>(item: &'a Item, tenant: i64, error: &'a str, now: Timestamp) -> Vec<Value<'a>> {
    vec![
        tenant.into(),
        item.lane().0.into(),
        item.message().0.into(),
        item.key().into(),
        i64::from(item.attempt()).into(),
        now.into(),
        error.into(),
    ]
}

/// A work row stands at the time its last attempt named, or at the message's own.
const WORK_UNTOUCHED: &str = concat!(
    "insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted, key) \
    select m.id, $2, coalesce((select a.next_due from punctual.attempt a \
            where a.message_id = $1 and a.lane_id = $2 order by a.id desc limit 1), ",
    own_due!(),
    "), $3, $4, $5 from punctual.message m where m.id = $1"
);
const ADD_ATTEMPT: &str = "insert into punctual.attempt \
        (message_id, lane_id, number, at, owner, outcome, error, next_due) \
    values ($1, $2, $3, $4, $5, $6, $7, $8)";
const ADD_DEAD: &str = "insert into punctual.dead_letter \
        (tenant_id, lane_id, message_id, key, attempts, died_at, error) \
    values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing";
