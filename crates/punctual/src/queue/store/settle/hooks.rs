//! Settlement hooks: further writes that commit when items of a claim are settled or reaped.
//!
//! The queue knows messages, lanes and attempts. A part that builds on it (runs of jobs, deliveries)
//! registers a hook with the store, which is called inside every settlement and every reaping, in every
//! process. A hook has a condition on the claim's row under which it is called, and the statement that locks
//! the row evaluates the condition: a claim that no hook wants costs no statement. A hook whose component the
//! database does not have is left out, and its condition with it. Whether the database has it is asked in the
//! transaction that settles: another process may have added jobs since the last settlement, and their first
//! run may be in this one.

use crate::base::clock::Timestamp;
use crate::base::component::{Component, Components};
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::database::store::Store;
use crate::database::tx::{Tx, TxFuture};
use crate::database::value::Row;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::message::Message;
use crate::queue::rules::purpose::Purpose;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of one item of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemEnding {
    /// The item is done, with this output.
    Done(Option<String>),
    /// The item is due again.
    Retry {
        /// When.
        due_at: Timestamp,
        /// Why, for the history.
        error: String,
    },
    /// The item ran out of attempts, or no attempt can succeed.
    Dead(String),
    /// The item was not begun, and waits as before: the queue has written its work.
    Released,
    /// The claim was reaped before the item was begun: the owner of the item writes its work.
    NotBegun,
}

/// Items of one claim with their results, as part of one transaction.
#[derive(Debug)]
pub(crate) struct SettledItems<'a> {
    /// The kind of the items.
    pub(crate) purpose: Purpose,
    /// The claimer.
    pub(crate) owner: &'a str,
    /// Since when.
    pub(crate) claimed_at: Timestamp,
    /// The lanes whose provider sends a repeated message once; only of a reaped claim of deliveries.
    pub(crate) keyed_lanes: HashSet<LaneId>,
    /// The transaction's time.
    pub(crate) now: Timestamp,
    /// The items, in the order of the claim or of the settlement.
    pub(crate) items: Vec<(ClaimItem, ItemEnding)>,
}

/// Something that commits with settlements.
pub(crate) trait SettlementHook: Debug + Send + Sync {
    /// The component whose tables it needs.
    fn component(&self) -> Component;

    /// The condition, on a claim's row called `c`, under which the hook is called.
    fn condition(&self) -> &'static str;

    /// Whether the hook may want a claim of this message, so that its items cannot be acked by the claim
    /// row alone.
    fn wants_message(&self, message: &Message) -> bool {
        let _ = message;
        false
    }

    /// Called with the items of all claims that one transaction reaps, before anything is written: locks, in
    /// one order, the rows that the other calls need.
    fn lock<'t>(&'t self, tx: &'t mut Tx, items: &'t [&'t ClaimItem]) -> TxFuture<'t, ()> {
        let _ = (tx, items);
        Box::pin(async { Ok(()) })
    }

    /// Called before the queue writes what comes back; may change how items end.
    fn before_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t mut SettledItems<'_>) -> TxFuture<'t, ()> {
        let _ = (tx, settled);
        Box::pin(async { Ok(()) })
    }

    /// Called when dead letters of these messages were put back.
    fn after_replay<'t>(&'t self, tx: &'t mut Tx, messages: &'t [MessageId]) -> TxFuture<'t, ()> {
        let _ = (tx, messages);
        Box::pin(async { Ok(()) })
    }

    /// Called when work of these messages was dropped with its lane.
    fn after_drop<'t>(&'t self, tx: &'t mut Tx, lane: LaneId, messages: &'t [MessageId]) -> TxFuture<'t, ()> {
        let _ = (tx, lane, messages);
        Box::pin(async { Ok(()) })
    }

    /// Called when the queue has written what comes back.
    fn after_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t SettledItems<'_>) -> TxFuture<'t, ()>;
}

/// The hooks that a store was opened with, as far as the database has their tables.
#[derive(Clone, Debug)]
pub(crate) struct SettlementHooks {
    registered: Arc<RegisteredHooks>,
    present: Components,
}

#[derive(Debug)]
struct RegisteredHooks {
    hooks: Vec<Box<dyn SettlementHook>>,
    /// What they need.
    components: Components,
    /// The statements that ask for them, by the components that are there.
    statements: HashMap<u8, Statements>,
}

#[derive(Clone, Copy, Debug)]
struct Statements {
    /// Locks a claim by its token.
    take_claim: &'static str,
    /// Lists and locks claims whose lease has ended.
    expired: &'static str,
    /// The same without a lock.
    expired_unlocked: &'static str,
}

/// Which hooks want a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedHooks(Vec<usize>);

impl Default for SettlementHooks {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Store {
    /// Returns the hooks that the store was opened with.
    pub(crate) fn settlement_hooks(&self) -> SettlementHooks {
        SettlementHooks::clone(&self.part())
    }
}

impl Tx {
    /// Returns the hooks that the store was opened with, without those whose tables are not there.
    pub(crate) async fn settlement_hooks(&mut self) -> Result<SettlementHooks> {
        let hooks = SettlementHooks::clone(&self.part());
        let there = self.components_beside(hooks.registered.components).await?;
        Ok(SettlementHooks { present: hooks.registered.components.both(there), ..hooks })
    }
}

impl SettlementHooks {
    /// Registers hooks; they are called in this order.
    pub(crate) fn new(hooks: Vec<Box<dyn SettlementHook>>) -> Self {
        let each = hooks.iter().map(|hook| hook.component());
        let components = each.fold(Components::NONE, Components::with);
        let sets = (0..=components.bits()).map(Components::from_bits).filter(|set| components.covers(*set));
        let statements = sets.map(|present| (present.bits(), Statements::new(&hooks, present))).collect();
        Self { registered: Arc::new(RegisteredHooks { hooks, components, statements }), present: components }
    }

    fn statements(&self) -> &Statements {
        &self.registered.statements[&self.present.bits()]
    }

    /// The hooks whose tables are there, with their numbers.
    fn present(&self) -> impl Iterator<Item = (usize, &dyn SettlementHook)> {
        let hooks = self.registered.hooks.iter().map(AsRef::as_ref).enumerate();
        hooks.filter(|(_, hook)| self.present.has(hook.component()))
    }

    pub(crate) fn take_claim(&self) -> &'static str {
        self.statements().take_claim
    }

    pub(crate) fn expired(&self) -> &'static str {
        self.statements().expired
    }

    pub(crate) fn expired_unlocked(&self) -> &'static str {
        self.statements().expired_unlocked
    }

    /// All texts that are composed for these hooks, whichever of their components are there.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'static str> {
        let sets = self.registered.statements.values();
        sets.flat_map(|set| [set.take_claim, set.expired, set.expired_unlocked])
    }

    /// Reads which hooks want a claim from the columns of its row that begin at `first`.
    pub(crate) fn read_wanted(&self, row: &Row, first: usize) -> Result<WantedHooks> {
        let mut wanted = Vec::new();
        for n in 0..self.registered.hooks.len() {
            if row.flag(first + n)? {
                wanted.push(n);
            }
        }
        Ok(WantedHooks(wanted))
    }

    /// Whether a hook may want a claim of this message.
    pub(crate) fn want_message(&self, message: &Message) -> bool {
        self.registered.hooks.iter().any(|hook| hook.wants_message(message))
    }

    pub(crate) async fn after_replay(&self, tx: &mut Tx, messages: &[MessageId]) -> Result<()> {
        for (_, hook) in self.present() {
            hook.after_replay(tx, messages).await?;
        }
        Ok(())
    }

    pub(crate) async fn after_drop(&self, tx: &mut Tx, lane: LaneId, messages: &[MessageId]) -> Result<()> {
        for (_, hook) in self.present() {
            hook.after_drop(tx, lane, messages).await?;
        }
        Ok(())
    }

    /// Lets hooks lock the rows of the claims that each of them wants.
    pub(crate) async fn lock<'i>(
        &self,
        tx: &mut Tx,
        claims: impl Iterator<Item = (&'i WantedHooks, &'i [ClaimItem])> + Clone,
    ) -> Result<()> {
        for (n, hook) in self.present() {
            let wanted = claims.clone().filter(|(wanted, _)| wanted.0.contains(&n));
            let items: Vec<&ClaimItem> = wanted.flat_map(|(_, items)| items).collect();
            if !items.is_empty() {
                hook.lock(tx, &items).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn before_write(
        &self,
        tx: &mut Tx,
        wanted: &WantedHooks,
        settled: &mut SettledItems<'_>,
    ) -> Result<()> {
        for n in &wanted.0 {
            self.registered.hooks[*n].before_write(tx, settled).await?;
        }
        Ok(())
    }

    pub(crate) async fn after_write(
        &self,
        tx: &mut Tx,
        wanted: &WantedHooks,
        settled: &SettledItems<'_>,
    ) -> Result<()> {
        for n in &wanted.0 {
            self.registered.hooks[*n].after_write(tx, settled).await?;
        }
        Ok(())
    }
}

/// `flags` says of each hook whether it wants the claim.
macro_rules! take_claim {
    () => {
        "
        select owner, items, open, ending, claimed_at, purpose{flags}
        from punctual.claim c
        where token = $1
        for update
        "
    };
}
macro_rules! expired_claims {
    () => {
        "
        select token, owner, items, open, started, claimed_at, purpose, mark, keyed_lanes{flags}
        from punctual.claim c
        where finished_at is null and lease_until <= $1
        order by lease_until
        limit $2
        "
    };
}

impl Statements {
    /// A hook whose table is not there wants no claim.
    fn new(hooks: &[Box<dyn SettlementHook>], present: Components) -> Self {
        let flag = |hook: &dyn SettlementHook| match present.has(hook.component()) {
            true => format!(", case when {} then 1 else 0 end", hook.condition()),
            false => ", 0".to_owned(),
        };
        let flags: String = hooks.iter().map(|hook| flag(&**hook)).collect();
        let expired = format!(expired_claims!(), flags = flags);
        Self {
            take_claim: interned(format!(take_claim!(), flags = flags)),
            expired: interned(format!("{expired} for update skip locked")),
            expired_unlocked: interned(expired),
        }
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
