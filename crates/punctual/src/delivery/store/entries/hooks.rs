//! Entry hooks: a kind hears of what happens to its entries, inside the transaction in which it happens.
//!
//! The pipeline moves entries of every kind. What a kind adds to that (messages that tell others, its own
//! tables) it writes in a hook, which is registered when the store is opened.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::database::tx::{Steps, Tx};
use crate::flow::rules::entry::EntryKind;
use crate::flow::store::entries::Entry;
use std::fmt::Debug;
use std::sync::Arc;

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryMoment {
    /// A send of this number went out.
    Sent {
        /// When.
        at: Timestamp,
        /// The number of the send.
        send: u32,
    },
    /// It was quiet for too long.
    Expired(Timestamp),
    /// Somebody withdrew it, or its entity made it pointless.
    Cancelled(Timestamp),
}

/// An entry with what happened to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryNews<'e> {
    /// The entry, as it was before.
    pub entry: &'e Entry,
    /// What happened.
    pub moment: EntryMoment,
}

/// What a kind writes when something happens to its entries.
pub(crate) trait EntryHook: Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> EntryKind;

    /// Called with what happened to entries of the kind.
    fn after_change<'t>(&'t self, tx: &'t mut Tx, news: &'t [EntryNews<'t>]) -> Steps<'t, ()>;
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

/// Lets the kinds of entries hear what happened to them.
pub(crate) async fn tell_kinds(tx: &mut Tx, news: &[EntryNews<'_>]) -> Result<()> {
    if news.is_empty() {
        return Ok(());
    }
    let hooks = tx.part::<EntryHooks>();
    for hook in hooks.0.iter() {
        let of_kind: Vec<EntryNews<'_>> =
            news.iter().filter(|one| one.entry.kind == hook.kind()).copied().collect();
        if !of_kind.is_empty() {
            hook.after_change(tx, &of_kind).await?;
        }
    }
    Ok(())
}
