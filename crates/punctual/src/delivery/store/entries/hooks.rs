//! Entry hooks: a kind is notified of changes of its entries, inside the transaction that makes the change.
//!
//! The pipeline moves entries of every kind. A hook, which is registered when the store is opened, writes
//! what a kind adds to that: published messages and its own tables.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::database::tx::{Tx, TxFuture};
use crate::flow::rules::entry::EntryKind;
use crate::flow::store::entries::Entry;
use std::fmt::Debug;
use std::sync::Arc;

/// A change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryEvent {
    /// A send of this number went out.
    Sent {
        /// When.
        at: Timestamp,
        /// The number of the send.
        send: u32,
    },
    /// The entry was quiet for too long.
    Expired(Timestamp),
    /// The entry was cancelled by a request, or because of the state of its entity.
    Cancelled(Timestamp),
}

/// An entry with what happened to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedEntry<'e> {
    /// The entry, as it was before.
    pub entry: &'e Entry,
    /// The change.
    pub moment: EntryEvent,
}

/// The writes of a kind when its entries change.
pub(crate) trait EntryHook: Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> EntryKind;

    /// Called with what happened to entries of the kind.
    fn after_change<'t>(&'t self, tx: &'t mut Tx, news: &'t [ChangedEntry<'t>]) -> TxFuture<'t, ()>;
}

/// The hooks that a store was opened with.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryHooks(Arc<Vec<Box<dyn EntryHook>>>);

impl EntryHooks {
    /// Registers hooks.
    pub(crate) fn new(hooks: Vec<Box<dyn EntryHook>>) -> Self {
        Self(Arc::new(hooks))
    }
}

/// Runs the hooks of the kinds of these entries.
pub(crate) async fn tell_kinds(tx: &mut Tx, news: &[ChangedEntry<'_>]) -> Result<()> {
    if news.is_empty() {
        return Ok(());
    }
    let hooks = tx.part::<EntryHooks>();
    for hook in hooks.0.iter() {
        let of_kind: Vec<ChangedEntry<'_>> =
            news.iter().filter(|one| one.entry.kind == hook.kind()).copied().collect();
        if !of_kind.is_empty() {
            hook.after_change(tx, &of_kind).await?;
        }
    }
    Ok(())
}
