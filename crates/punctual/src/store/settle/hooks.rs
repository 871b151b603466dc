//! Settlement hooks: what else commits when items of a claim are settled or reaped.
//!
//! The queue knows messages, lanes and attempts. What stands on it (runs of jobs, deliveries) registers a
//! hook with the store, and is called inside every settlement and every reaping, in whichever process that
//! happens. A hook says by a condition on the claim's row whether it wants to be called, and the statement
//! that locks the row evaluates the condition: a claim that no hook wants costs no statement.

use super::super::tx::{Steps, Tx};
use super::super::value::Row;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::rules::claim::Item;
use crate::rules::message::Message;
use crate::rules::purpose::Purpose;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// What became of one item of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum ItemEnding {
    /// It is done, and handed this in.
    Done(Option<String>),
    /// It comes back.
    Retry {
        /// When.
        due_at: Timestamp,
        /// Why, for the history.
        error: String,
    },
    /// It ran out of attempts, or will never work out.
    Dead(String),
    /// It was not begun, and waits as before: the queue has written its work.
    Released,
    /// Its claim was reaped before it could be begun: whoever owns the item writes its work.
    NotBegun,
}

/// Items of one claim with what became of them, as part of one transaction.
#[derive(Debug)]
pub(in crate::store) struct SettledItems<'a> {
    /// What the items are.
    pub(in crate::store) purpose: Purpose,
    /// Who held the claim.
    pub(in crate::store) owner: &'a str,
    /// Since when.
    pub(in crate::store) claimed_at: Timestamp,
    /// The transaction's time.
    pub(in crate::store) now: Timestamp,
    /// The items, in the order of the claim or of the settlement.
    pub(in crate::store) items: Vec<(Item, ItemEnding)>,
}

/// Something that commits with settlements.
pub(in crate::store) trait SettlementHook: Debug + Send + Sync {
    /// The condition, on a claim's row called `c`, under which the hook is called.
    fn condition(&self) -> &'static str;

    /// Whether the hook may want a claim of this message, so that its items cannot be acked by the claim
    /// row alone.
    fn wants_message(&self, message: &Message) -> bool {
        let _ = message;
        false
    }

    /// Called before the queue writes what comes back; may change how items end.
    fn before_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t mut SettledItems<'_>) -> Steps<'t, ()> {
        let _ = (tx, settled);
        Box::pin(async { Ok(()) })
    }

    /// Called when the queue has written what comes back.
    fn after_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t SettledItems<'_>) -> Steps<'t, ()>;
}

/// The hooks that a store was opened with, and the statements that ask for them.
#[derive(Clone, Debug)]
pub(in crate::store) struct SettlementHooks(Arc<Registered>);

#[derive(Debug)]
struct Registered {
    hooks: Vec<Box<dyn SettlementHook>>,
    /// Locks a claim by its token.
    take_claim: &'static str,
    /// Lists and locks claims whose lease has ended.
    expired: &'static str,
    /// The same without a lock.
    expired_unlocked: &'static str,
}

/// Which hooks want a claim.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct WantedHooks(Vec<usize>);

impl SettlementHooks {
    /// Registers hooks; they are called in this order.
    pub(in crate::store) fn new(hooks: Vec<Box<dyn SettlementHook>>) -> Self {
        let flags: String =
            hooks.iter().map(|hook| format!(", case when {} then 1 else 0 end", hook.condition())).collect();
        let expired = format!(
            "select token, owner, items, open, started, claimed_at, purpose, mark{flags} \
             from punctual.claim c where finished_at is null and lease_until <= $1 \
             order by lease_until limit $2"
        );
        Self(Arc::new(Registered {
            hooks,
            take_claim: interned(format!(
                "select owner, items, open, ending, claimed_at, purpose{flags} \
                 from punctual.claim c where token = $1 for update"
            )),
            expired: interned(format!("{expired} for update skip locked")),
            expired_unlocked: interned(expired),
        }))
    }

    pub(super) fn take_claim(&self) -> &'static str {
        self.0.take_claim
    }

    pub(in crate::store) fn expired(&self) -> &'static str {
        self.0.expired
    }

    pub(in crate::store) fn expired_unlocked(&self) -> &'static str {
        self.0.expired_unlocked
    }

    /// Reads which hooks want a claim from the columns of its row that begin at `first`.
    pub(in crate::store) fn read_wanted(&self, row: &Row, first: usize) -> Result<WantedHooks> {
        let mut wanted = Vec::new();
        for n in 0..self.0.hooks.len() {
            if row.flag(first + n)? {
                wanted.push(n);
            }
        }
        Ok(WantedHooks(wanted))
    }

    /// Whether a hook may want a claim of this message.
    pub(in crate::store) fn want_message(&self, message: &Message) -> bool {
        self.0.hooks.iter().any(|hook| hook.wants_message(message))
    }

    pub(super) async fn before_write(
        &self,
        tx: &mut Tx,
        wanted: &WantedHooks,
        settled: &mut SettledItems<'_>,
    ) -> Result<()> {
        for n in &wanted.0 {
            self.0.hooks[*n].before_write(tx, settled).await?;
        }
        Ok(())
    }

    pub(super) async fn after_write(
        &self,
        tx: &mut Tx,
        wanted: &WantedHooks,
        settled: &SettledItems<'_>,
    ) -> Result<()> {
        for n in &wanted.0 {
            self.0.hooks[*n].after_write(tx, settled).await?;
        }
        Ok(())
    }
}

/// The same text for the life of the process: drivers keep prepared statements by their text, and a store
/// may be opened many times with the same hooks.
fn interned(text: String) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text.as_str()) {
        return known;
    }
    let new: &'static str = text.leak();
    texts.insert(new);
    new
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;
