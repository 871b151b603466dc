//! What was quiet for too long ends.
//!
//! Whoever leaves an active entry without a next send writes work that is due when it will have been
//! quiet for longer than its grace. One transaction takes such work, looks at the entries under
//! their locks and ends those that are quiet. One that was sent again since, or whose grace is longer
//! by now, gets new work. Nothing outside is called, so there is no claim; a crash undoes it all.
//!
//! A held entry does not expire. Its work is dropped; the release writes it again, and an entry whose grace
//! is over by then expires at once.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::Value;
use crate::delivery::store::entries::end::skip_waiting;
use crate::delivery::store::entries::hooks::{EntryMoment, EntryNews, tell_kinds};
use crate::flow::rules::entry::Deed;
use crate::flow::store::entries::{Entry, existing, expire_lane, lock_entries};
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::claims::{self, Taken};
use crate::queue::store::waiting::{let_wait, take_out};
use std::collections::HashSet;

/// What a round did.
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
async fn put_back_locked(tx: &mut Tx, taken: &[Taken], found: &[Entry]) -> Result<()> {
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
    if ended.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::with_capacity(ended.len());
    for entry in ended {
        let Ok(state) = entry.state.after(Deed::Expired) else { continue };
        rows.push(vec![Value::Int(entry.id.0), state.status.code().into(), now.into()]);
    }
    tx.each(EXPIRED, &rows).await?;
    let all: Vec<EntryId> = ended.iter().map(|entry| entry.id).collect();
    skip_waiting(tx, &all, "its entry has expired").await?;
    let news: Vec<EntryNews<'_>> =
        ended.iter().map(|entry| EntryNews { entry, moment: EntryMoment::Expired(now) }).collect();
    tell_kinds(tx, &news).await
}

const EXPIRED: &str = "update punctual.entry set status = $2, due_at = null, open = 0, ended_at = $3, \
    version = version + 1 where id = $1";
