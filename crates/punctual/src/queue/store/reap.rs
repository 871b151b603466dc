//! Reaping: a crash loses nothing.
//!
//! A claim whose lease ran out (by the authority's clock) is closed under its row's lock,
//! and its open items come back, with backoff. A claim that is being settled or extended
//! at this moment is skipped. Items that are not known to have started count against a
//! separate, higher limit, and from then on are claimed alone.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{LaneId, MessageId};
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, params};
use crate::queue::rules::attempt::RetryDecision;
use crate::queue::rules::claim;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::queues;
use crate::queue::store::settle::hooks::{SettlementHooks, WantedHooks};
use crate::queue::store::settle::{Aftermath, FailedAttempt, fetch_snoozes, read_items, read_purpose};
use std::collections::HashSet;

/// Claims that one transaction reaps.
const REAP_CLAIMS: i64 = 20;

/// The result of a reaping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapOutcome {
    /// Claims that were closed.
    pub claims: usize,
    /// Items that came back.
    pub returned: usize,
    /// Items that had run out of attempts.
    pub dead: usize,
    /// When the next lease ends, if nothing happens before.
    pub next: Option<Timestamp>,
}

/// The leases of what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseDeadline {
    /// The authority's time.
    pub now: Timestamp,
    /// When the first of them ends.
    pub next: Option<Timestamp>,
}

impl Store {
    /// Whether a lease has run out, and when the next one ends: one cheap question.
    pub fn peek_leases(&self) -> VerbFuture<'_, LeaseDeadline> {
        self.read((), |tx, ()| {
            Box::pin(async move {
                let now = tx.now().await?;
                let next = tx.first(NEXT_END, &[]).await?.map_or(Ok(None), |row| row.maybe_time(0))?;
                Ok(LeaseDeadline { now, next })
            })
        })
    }

    /// Closes claims whose lease ran out, a bounded number at a time.
    pub fn reap(&self, seed: u64) -> VerbFuture<'_, ReapOutcome> {
        VerbFuture::new(async move {
            let hooks = self.settlement_hooks();
            if self.has(PlantedBug::ReapByIdOnly) {
                // A planted bug: nothing is locked, so a claim that is closed may have been settled
                // meanwhile.
                let sql = hooks.expired_unlocked();
                let found = self.read(sql, |tx, sql| Box::pin(expired(tx, sql))).await?;
                reach(CrashPoint::ReapingChosen);
                let request = (found, seed);
                let closed =
                    self.write(request, |tx, (found, seed)| Box::pin(close(tx, found, *seed))).await?;
                return Ok(closed.0);
            }
            let reaping = self.write(seed, |tx, seed| Box::pin(reap(tx, *seed)));
            let (reaped, failed) = reaping.await?;
            failed.iter().for_each(FailedAttempt::log);
            Ok(reaped)
        })
    }
}

async fn reap(tx: &mut Tx, seed: u64) -> Result<(ReapOutcome, Vec<FailedAttempt>)> {
    let sql = tx.settlement_hooks().await?.expired();
    let found = expired(tx, sql).await?;
    reach(CrashPoint::ReapingChosen);
    close(tx, &found, seed).await
}

async fn expired(tx: &mut Tx, sql: &'static str) -> Result<Vec<Row>> {
    let now = tx.now().await?;
    tx.query(sql, params![now, REAP_CLAIMS]).await
}

async fn close(tx: &mut Tx, expired: &[Row], seed: u64) -> Result<(ReapOutcome, Vec<FailedAttempt>)> {
    let (now, hooks) = (tx.now().await?, tx.settlement_hooks().await?);
    let (mut reaped, mut failed) = (ReapOutcome::default(), Vec::new());
    let forgotten = tx.has(PlantedBug::LostSendsAreForgotten);
    let lost =
        expired.iter().map(|row| ExpiredClaim::read(row, &hooks, forgotten)).collect::<Result<Vec<_>>>()?;
    // For all claims before the first is closed: two transactions that need the same rows take them in one
    // order.
    hooks.lock(tx, lost.iter().map(|lost| (&lost.wanted, lost.items.as_slice()))).await?;
    for lost in lost {
        let text = claim::write(&lost.items);
        tx.execute(CLOSE, params![lost.token.as_str(), now, &text]).await?;
        failed.extend(lost.bring_back(tx, now, (seed, &hooks), &mut reaped).await?);
        reaped.claims += 1;
    }
    let next = tx.first(NEXT_END, &[]).await?;
    reaped.next = next.map_or(Ok(None), |row| row.maybe_time(0))?;
    reach(CrashPoint::ReapedBeforeCommit);
    Ok((reaped, failed))
}

/// The items of a claim of deliveries up to its mark.
fn begun(row: &Row, forgotten: bool) -> Result<Option<HashSet<MessageId>>> {
    if read_purpose(&row.text(6)?)? != Purpose::Send {
        return Ok(None);
    }
    let mark = if forgotten { Some(0) } else { row.maybe_int(7)? };
    let Some(mark) = mark.map(|mark| usize::try_from(mark).unwrap_or_default()) else { return Ok(None) };
    let items = read_items(&row.text(2)?)?;
    Ok(Some(items.iter().take(mark).map(ClaimItem::message).collect()))
}

/// The lanes of a claim of deliveries whose provider sends a repeated message once.
fn keyed_lanes(row: &Row) -> Result<HashSet<LaneId>> {
    let Some(text) = row.maybe_text(8)? else { return Ok(HashSet::new()) };
    let corrupt = |_| Error::Database(format!("corrupt claim row: keyed lanes `{text}`").into());
    let lanes: Vec<i64> = serde_json::from_str(&text).map_err(corrupt)?;
    Ok(lanes.into_iter().map(LaneId).collect())
}

struct ExpiredClaim {
    token: String,
    owner: String,
    started: bool,
    claimed_at: Timestamp,
    wanted: WantedHooks,
    purpose: Purpose,
    keyed_lanes: HashSet<LaneId>,
    /// The items that may have been begun; all if `None`.
    begun: Option<HashSet<MessageId>>,
    items: Vec<ClaimItem>,
}

impl ExpiredClaim {
    fn read(row: &Row, hooks: &SettlementHooks, forgotten: bool) -> Result<Self> {
        Ok(Self {
            token: row.text(0)?,
            owner: row.text(1)?,
            started: row.flag(4)?,
            claimed_at: row.time(5)?,
            wanted: hooks.read_wanted(row, 9)?,
            purpose: read_purpose(&row.text(6)?)?,
            keyed_lanes: keyed_lanes(row)?,
            begun: begun(row, forgotten)?,
            items: match row.maybe_text(3)? {
                Some(open) => read_items(&open)?,
                None => read_items(&row.text(2)?)?,
            },
        })
    }

    async fn bring_back(
        self,
        tx: &mut Tx,
        now: Timestamp,
        (seed, hooks): (u64, &SettlementHooks),
        reaped: &mut ReapOutcome,
    ) -> Result<Vec<FailedAttempt>> {
        let ids: HashSet<LaneId> = self.items.iter().map(ClaimItem::lane).collect();
        let lanes = queues::lanes(tx, &ids).await?;
        let counted = self.items.iter().filter(|_| self.started && self.purpose == Purpose::Dispatch);
        let snoozes = fetch_snoozes(tx, counted).await?;
        let error = format!("the lease of {} ran out", self.owner);
        let (hooks, held) = ((hooks, &self.wanted), (self.owner.as_str(), self.claimed_at));
        let mut aftermath = Aftermath::new(hooks, self.purpose, held, now).with_keyed_lanes(self.keyed_lanes);
        for item in &self.items {
            if self.begun.as_ref().is_some_and(|begun| !begun.contains(&item.message())) {
                aftermath.give_back(item);
                reaped.returned += 1;
                continue;
            }
            let lane = lanes.get(&item.lane());
            let patience = lane.map(|l| l.settings.patience()).unwrap_or_default();
            let snoozes = snoozes.get(&(item.message(), item.lane())).copied().unwrap_or_default();
            let seed = seed ^ item.message().0.unsigned_abs();
            let verdict = patience.after_reap(item, snoozes, self.started, seed);
            let unstarted = item.unstarted() + u32::from(!self.started);
            let back = ClaimItem(item.0, item.1, item.2, unstarted, item.4.clone());
            match verdict {
                RetryDecision::Again(_) => reaped.returned += 1,
                RetryDecision::Dead => reaped.dead += 1,
            }
            aftermath.end(&back, lane, "reaped", &error, verdict);
        }
        aftermath.write(tx).await
    }
}

statements! {
    const CLOSE = "
        update punctual.claim
        set finished_at = $2, ending = 'reaped', open = $3
        where token = $1
    ";

    const NEXT_END = "
        select min(lease_until)
        from punctual.claim
        where finished_at is null
    ";
}
