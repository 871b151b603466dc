//! Expiry: an entry that was quiet for too long ends.
//!
//! A transaction that leaves an active entry without a next send writes work that is due when the entry will
//! have been quiet for longer than its grace. One transaction takes such work, looks at the entries under
//! their locks and ends those that are quiet. One that was sent again since, or whose grace is longer by now,
//! gets new work. Nothing outside is called, so there is no claim; a crash undoes it all.
//!
//! A held entry does not expire. Its work is dropped; the release writes it again, and an entry whose grace
//! is over by then expires at once.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::delivery::store::entries::end::{EntryEnd, write_ends};
use crate::delivery::store::entries::hooks::{ChangedEntry, EntryEvent, tell_kinds};
use crate::flow::rules::entry::Transition;
use crate::flow::store::entries::history::{ENGINE, NewChange, add_changes};
use crate::flow::store::entries::{Entry, existing, expire_lane, lock_entries};
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::claims::{self, TakenWork};
use crate::queue::store::waiting_work::{let_wait, take_out};
use std::collections::HashSet;

/// The result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredEntries {
    /// Entries that expired.
    pub expired: usize,
    /// Work that was looked at.
    pub seen: usize,
}

impl Store {
    /// Ends what is quiet, among the due work of these lanes.
    pub fn expire_entries(&self, takes: Vec<LaneQuota>) -> VerbFuture<'_, ExpiredEntries> {
        VerbFuture::new(async move {
            if takes.is_empty() {
                return Ok(ExpiredEntries::default());
            }
            self.write(takes, |tx, takes| Box::pin(expire(tx, takes))).await
        })
    }
}

/// Writes the work of an entry's expiry, if it can expire as it stands.
pub(crate) async fn await_expiry(tx: &mut Tx, entry: &Entry) -> Result<()> {
    let Some(at) = entry.expires_at() else { return Ok(()) };
    let lane = expire_lane(tx, entry.tenant).await?;
    // The row of before a hold may be there still, at the same place.
    take_out(tx, entry.id.0, lane, at).await?;
    let_wait(tx, entry.id.0, lane, at).await
}

async fn expire(tx: &mut Tx, takes: &[LaneQuota]) -> Result<ExpiredEntries> {
    let (now, taken) = claims::take(tx, Purpose::Expire, takes).await?;
    let Some(now) = now else { return Ok(ExpiredEntries::default()) };
    let ids: Vec<i64> = taken.iter().map(|t| t.item.entry().0).collect();
    let found = lock_entries(tx, &ids).await?;
    put_back_locked(tx, &taken, &found).await?;
    let mut ended = Vec::new();
    for entry in found {
        if entry.deleted || entry.hold.is_some() {
            continue;
        }
        match entry.expires_at() {
            Some(at) if at <= now => ended.push(entry),
            Some(at) => {
                let lane = taken.iter().find(|t| t.item.entry() == entry.id).map(|t| t.item.lane().0);
                let_wait(tx, entry.id.0, lane.unwrap_or_default(), at).await?;
            }
            None => {}
        }
    }
    write(tx, &ended, now).await?;
    Ok(ExpiredEntries { expired: ended.len(), seen: taken.len() })
}

/// Entries that another transaction has locked at this moment go back, and are looked at again.
async fn put_back_locked(tx: &mut Tx, taken: &[TakenWork], found: &[Entry]) -> Result<()> {
    let seen: HashSet<i64> = found.iter().map(|entry| entry.id.0).collect();
    let ids = taken.iter().map(|t| t.item.entry().0);
    let missing: Vec<i64> = ids.filter(|id| !seen.contains(id)).collect();
    let locked = existing(tx, &missing).await?;
    for t in taken.iter().filter(|t| locked.contains(&t.item.entry().0)) {
        let_wait(tx, t.item.entry().0, t.item.lane().0, t.due_at).await?;
    }
    Ok(())
}

async fn write(tx: &mut Tx, ended: &[Entry], now: Timestamp) -> Result<()> {
    let expired = |entry: &Entry| entry.state.after(Transition::Expired).ok();
    let ends: Vec<EntryEnd<'_>> = ended
        .iter()
        .filter_map(|entry| Some(EntryEnd { entry, state: expired(entry)?, reason: None, said: QUIET }))
        .collect();
    write_ends(tx, &ends, now).await?;
    let changes = ends.iter().map(|end| NewChange {
        tenant: end.entry.tenant,
        entry: end.entry.id,
        action: "expired",
        from: end.entry.state.status.word(),
        to: end.state.status.word(),
        actor: ENGINE,
        reason: QUIET,
        cause: None,
    });
    add_changes(tx, &changes.collect::<Vec<_>>(), now).await?;
    let news = ends.iter().map(|end| ChangedEntry { entry: end.entry, moment: EntryEvent::Expired(now) });
    tell_kinds(tx, &news.collect::<Vec<_>>()).await
}

/// Why an entry has expired.
const QUIET: &str = "its entry was quiet for longer than its grace period";
