//! What was quiet for too long ends.
//!
//! Whoever leaves an active entry without a next send writes work that is due when it will have been
//! quiet for longer than its grace. One transaction takes such work, looks at the entries under
//! their locks and ends those that are quiet. One that was sent again since, or whose grace is longer
//! by now, gets new work. Nothing outside is called, so there is no claim; a crash undoes it all.
//!
//! A held entry does not expire. Its work is dropped; the release writes it again, and an entry whose grace
//! is over by then expires at once.

use super::super::Store;
use super::super::claims::{self, Taken};
use super::super::deliveries::entry_end::skip_waiting;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::tell::{self, Moment, News};
use super::{ADD_WORK, Entry, expire_lane, lock, there};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::rules::entry::Deed;
use crate::rules::purpose::Purpose;
use crate::rules::share::LaneQuota;
use crate::store::tx::VerbFuture;
use std::collections::HashSet;

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quieted {
    /// Entries that expired.
    pub expired: usize,
    /// Work that was looked at.
    pub seen: usize,
}

impl Store {
    /// Ends what is quiet, among the due work of these lanes.
    pub fn expire_entries(&self, takes: Vec<LaneQuota>) -> VerbFuture<'_, Quieted> {
        VerbFuture::new(async move {
            if takes.is_empty() {
                return Ok(Quieted::default());
            }
            self.write(takes, |tx, takes| Box::pin(expire(tx, takes))).await
        })
    }
}

/// Writes the work of an entry's expiry, if it can expire as it stands.
pub(in crate::store) async fn await_expiry(tx: &mut Tx, entry: &Entry) -> Result<()> {
    let Some(at) = entry.standing.expires_at(entry.grace) else { return Ok(()) };
    let lane = expire_lane(tx, entry.tenant).await?;
    // The row of before the hold may be there still, at the same place.
    tx.execute(DROP_WORK, params![lane, at, entry.work_id()]).await?;
    tx.execute(ADD_WORK, params![entry.work_id(), lane, at]).await?;
    Ok(())
}

const DROP_WORK: &str = "delete from punctual.work where lane_id = $1 and due_at = $2 and message_id = $3";

async fn expire(tx: &mut Tx, takes: &[LaneQuota]) -> Result<Quieted> {
    let (now, taken) = claims::take(tx, Purpose::Expire, takes).await?;
    let Some(now) = now else { return Ok(Quieted::default()) };
    let mut quieted = Quieted { expired: 0, seen: taken.len() };
    let ids: Vec<i64> = taken.iter().map(|t| t.item.entry().0).collect();
    let found = lock(tx, &ids).await?;
    put_back_locked(tx, &taken, &found).await?;
    let mut ended = Vec::new();
    for entry in found {
        if entry.deleted || entry.held {
            continue;
        }
        if entry.standing.is_quiet(now, entry.grace) {
            ended.push(entry);
        } else if let Some(at) = entry.standing.expires_at(entry.grace) {
            let lane = taken.iter().find(|t| t.item.entry() == entry.id).map(|t| t.item.lane().0);
            tx.execute(ADD_WORK, params![entry.work_id(), lane.unwrap_or_default(), at]).await?;
        }
    }
    quieted.expired = ended.len();
    write(tx, &ended, now).await?;
    Ok(quieted)
}

/// What somebody has locked at this moment goes back, and is looked at again.
async fn put_back_locked(tx: &mut Tx, taken: &[Taken], found: &[Entry]) -> Result<()> {
    let seen: HashSet<i64> = found.iter().map(|entry| entry.id.0).collect();
    let ids = taken.iter().map(|t| t.item.entry().0);
    let missing: Vec<i64> = ids.filter(|id| !seen.contains(id)).collect();
    let busy = there(tx, &missing).await?;
    for t in taken.iter().filter(|t| busy.contains(&t.item.entry().0)) {
        tx.execute(ADD_WORK, params![t.item.message().0, t.item.lane().0, t.due_at]).await?;
    }
    Ok(())
}

async fn write(tx: &mut Tx, ended: &[Entry], now: Timestamp) -> Result<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::with_capacity(ended.len());
    for entry in ended {
        let Ok(standing) = entry.standing.after(Deed::Expired) else { continue };
        rows.push(vec![Value::Int(entry.id.0), standing.status.code().into()]);
    }
    tx.each(EXPIRED, &rows).await?;
    let all: Vec<EntryId> = ended.iter().map(|entry| entry.id).collect();
    skip_waiting(tx, &all, "its entry has expired").await?;
    let ids: Vec<i64> = ended.iter().map(|entry| entry.id.0).collect();
    tx.execute("delete from punctual.progress where entry_id = any($1::bigint[])", &[Value::Ints(&ids)])
        .await?;
    let news: Vec<News<'_>> =
        ended.iter().map(|entry| News { entry, moment: Moment::Expired(now) }).collect();
    tell::tell_all(tx, &news).await
}

const EXPIRED: &str =
    "update punctual.entry set status = $2, due_at = null, version = version + 1 where id = $1";
