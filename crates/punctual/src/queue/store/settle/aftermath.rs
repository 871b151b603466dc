//! The aftermath of a settlement or a reaping: items that are due again, recorded attempts, dead letters, and
//! the writes of hooks.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;
use crate::queue::rules::attempt::{RetryDecision, is_snooze, kept_error};
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::queue::DeadHeadPolicy;
use crate::queue::store::queues::Lane;
use crate::queue::store::settle::hooks::{ItemEnding, SettledItems, SettlementHooks, WantedHooks};
use crate::queue::store::settle::{FailedAttempt, SettleAction, failed_attempt};
use crate::queue::store::timers::own_due;
use std::collections::HashSet;

/// The aftermath of a settlement or a reaping, gathered and then written as sets.
pub(crate) struct Aftermath<'a> {
    hooks: &'a SettlementHooks,
    wanted: &'a WantedHooks,
    settled: SettledItems<'a>,
    attempts: Vec<FailedAttempt>,
    out_of_the_way: Vec<ClaimItem>,
}

impl<'a> Aftermath<'a> {
    pub(crate) fn new(
        (hooks, wanted): (&'a SettlementHooks, &'a WantedHooks),
        purpose: Purpose,
        (owner, claimed_at): (&'a str, Timestamp),
        now: Timestamp,
    ) -> Self {
        let keyed_lanes = HashSet::new();
        let settled = SettledItems { purpose, owner, claimed_at, keyed_lanes, now, items: Vec::new() };
        Self { hooks, wanted, settled, attempts: Vec::new(), out_of_the_way: Vec::new() }
    }

    /// Says which lanes have a provider that sends a repeated message once.
    pub(crate) fn with_keyed_lanes(mut self, lanes: HashSet<LaneId>) -> Self {
        self.settled.keyed_lanes = lanes;
        self
    }

    pub(crate) fn add(
        &mut self,
        item: &ClaimItem,
        word: &SettleAction,
        lane: Option<&Lane>,
        snoozes: u32,
        seed: u64,
    ) {
        let seed = seed ^ item.message().0.unsigned_abs();
        match word {
            SettleAction::Ack => self.done(item, None),
            SettleAction::Done { output } => self.done(item, Some(output)),
            SettleAction::Release => self.ending(item, ItemEnding::Released),
            SettleAction::Fail { error } => self.end(item, lane, "failed", error, RetryDecision::Dead),
            SettleAction::Abandon { error, retry } => {
                let patience = lane.map(|l| l.settings.patience()).unwrap_or_default();
                let verdict = patience.after_abandon(item, snoozes, *retry, seed);
                let outcome = if is_snooze(snoozes, *retry) { "snoozed" } else { "abandoned" };
                self.end(item, lane, outcome, error, verdict);
            }
        }
    }

    fn done(&mut self, item: &ClaimItem, output: Option<&String>) {
        self.out_of_the_way.push(item.clone());
        self.ending(item, ItemEnding::Done(output.cloned()));
    }

    fn ending(&mut self, item: &ClaimItem, ending: ItemEnding) {
        self.settled.items.push((item.clone(), ending));
    }

    /// An item of a reaped claim that was not begun waits again, as if it had not been claimed.
    pub(crate) fn give_back(&mut self, item: &ClaimItem) {
        self.ending(item, ItemEnding::NotBegun);
    }

    /// Records a failed attempt; the item is due again or dies.
    pub(crate) fn end(
        &mut self,
        item: &ClaimItem,
        lane: Option<&Lane>,
        outcome: &'static str,
        error: &str,
        verdict: RetryDecision,
    ) {
        let error = kept_error(error);
        let next_due = match verdict {
            RetryDecision::Again(wait) => Some(self.settled.now.plus(wait)),
            RetryDecision::Dead => None,
        };
        self.ending(
            item,
            match next_due {
                Some(due_at) => ItemEnding::Retry { due_at, error: error.clone() },
                None => ItemEnding::Dead(error.clone()),
            },
        );
        // Entries and deliveries have logs of their own.
        if self.settled.purpose != Purpose::Dispatch {
            return;
        }
        if next_due.is_none() && lane.is_some_and(|l| l.settings.dead_head == DeadHeadPolicy::Pass) {
            self.out_of_the_way.push(item.clone());
        }
        self.attempts.push(FailedAttempt::new(item, lane, outcome, error, next_due));
    }

    /// Writes all of it; answers the attempts that failed, to be logged once it is committed.
    pub(crate) async fn write(mut self, tx: &mut Tx) -> Result<Vec<FailedAttempt>> {
        self.hooks.before_write(tx, self.wanted, &mut self.settled).await?;
        let (mut again, mut untouched) = (Vec::new(), Vec::new());
        for (item, ending) in &self.settled.items {
            match ending {
                ItemEnding::Retry { due_at, .. } => again.push(work_row(item, *due_at)),
                ItemEnding::Released => untouched.push(untouched_row(item)),
                ItemEnding::Done(_) | ItemEnding::Dead(_) | ItemEnding::NotBegun => {}
            }
        }
        tx.each(crate::queue::store::sequences::WORK_AGAIN, &again).await?;
        tx.each(WORK_UNTOUCHED, &untouched).await?;
        let (owner, now) = (self.settled.owner, self.settled.now);
        let attempts: Vec<Vec<Value<'_>>> = self.attempts.iter().map(|f| f.row(owner, now)).collect();
        tx.each(ADD_ATTEMPT, &attempts).await?;
        let dead: Vec<Vec<Value<'_>>> = self.attempts.iter().filter_map(|f| f.dead_row(now)).collect();
        tx.each(ADD_DEAD, &dead).await?;
        let done: Vec<(LaneId, &str, MessageId)> =
            self.out_of_the_way.iter().filter_map(|i| Some((i.lane(), i.key()?, i.message()))).collect();
        crate::queue::store::sequences::release(tx, &done).await?;
        self.hooks.after_write(tx, self.wanted, &self.settled).await?;
        failed_attempt::fetch_kinds(tx, &mut self.attempts).await?;
        Ok(self.attempts)
    }
}

fn work_row(item: &ClaimItem, due: Timestamp) -> Vec<Value<'_>> {
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
fn untouched_row(item: &ClaimItem) -> Vec<Value<'_>> {
    let (attempts, unstarted) = (i64::from(item.attempt()) - 1, i64::from(item.unstarted()));
    vec![item.message().0.into(), item.lane().0.into(), attempts.into(), unstarted.into(), item.key().into()]
}

statements! {
    /// A work row stands at the time its last attempt named, or at the message's own.
    const WORK_UNTOUCHED = "
        insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted, key)
        select m.id, $2,
            coalesce(
                (
                    select a.next_due
                    from punctual.attempt a
                    where a.message_id = $1 and a.lane_id = $2
                    order by a.id desc
                    limit 1
                ),
                ", own_due!(), "
            ),
            $3, $4, $5
        from punctual.message m
        where m.id = $1
    ";

    const ADD_ATTEMPT = "
        insert into punctual.attempt (
            message_id, lane_id, number, at, owner, outcome, error, next_due, reason_class
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ";

    const ADD_DEAD = "
        insert into punctual.dead_letter (
            tenant_id, lane_id, message_id, key, attempts, died_at, error, reason_class
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        on conflict do nothing
    ";
}
