//! Deliveries of reaped claims.
//!
//! The process that sends settles deliveries by their own verb ([`super::settle`]). Only a reaping comes from
//! the queue: tries that may have gone out are written down as unknown, deliveries whose entries have ended
//! do not come again, and those that were never begun wait as before.

use crate::base::clock::Timestamp;
use crate::base::component::Component;
use crate::base::error::Result;
use crate::base::id::DeliveryId;
use crate::base::reason_class::reason_class;
use crate::database::statement::statements;
use crate::database::tx::{Tx, TxFuture};
use crate::database::value::{Value, params};
use crate::delivery::store::deliveries::claim::{LOST, give_back, lock_waiting, move_due};
use crate::delivery::store::deliveries::delivery::{DueDelivery, SettledDelivery};
use crate::delivery::store::deliveries::settle::write_outcomes;
use crate::delivery::store::entries::end::{lock_entries_of, skip_not_begun};
use crate::flow::rules::entry::entry_status;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::store::settle::hooks::{ItemEnding, SettledItems, SettlementHook};
use crate::queue::store::waiting_work::add_work;

/// Writes what a reaping makes of deliveries.
#[derive(Debug)]
pub(crate) struct DeliveryHook;

impl SettlementHook for DeliveryHook {
    fn component(&self) -> Component {
        Component::Flows
    }

    fn condition(&self) -> &'static str {
        "c.purpose = 'send'"
    }

    /// The entries, as everywhere, before their deliveries.
    fn lock<'t>(&'t self, tx: &'t mut Tx, items: &'t [&'t ClaimItem]) -> TxFuture<'t, ()> {
        Box::pin(async move { lock_entries_of(tx, items).await.map(|_| ()) })
    }

    fn before_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t mut SettledItems<'_>) -> TxFuture<'t, ()> {
        Box::pin(stop_ended(tx, settled))
    }

    fn after_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t SettledItems<'_>) -> TxFuture<'t, ()> {
        Box::pin(write_reaped(tx, settled))
    }
}

/// Notes lost tries, and stops deliveries whose entries have ended meanwhile.
async fn stop_ended(tx: &mut Tx, settled: &mut SettledItems<'_>) -> Result<()> {
    let items: Vec<&ClaimItem> = settled.items.iter().map(|(item, _)| item).collect();
    let over = lock_entries_of(tx, &items).await?;
    let is_over = |item: &ClaimItem| over.contains(&item.delivery().0);
    let lost = settled.items.iter().filter(|(item, ending)| comes_back(ending) && !is_over(item));
    let lost: Vec<&ClaimItem> = lost.map(|(item, _)| item).collect();
    note_lost(tx, &lost, settled.now).await?;
    let not_begun = settled.items.iter().filter(|(_, ending)| *ending == ItemEnding::NotBegun);
    let not_begun: Vec<&ClaimItem> = not_begun.map(|(item, _)| item).filter(|item| is_over(item)).collect();
    skip_not_begun(tx, &not_begun).await?;
    for (item, ending) in &mut settled.items {
        if !is_over(item) {
            if let ItemEnding::Dead(said) = ending {
                LOST_TOO_OFTEN.clone_into(said);
            }
            continue;
        }
        if comes_back(ending) {
            *ending = ItemEnding::Dead(LOST_AT_THE_END.to_owned());
        } else if *ending == ItemEnding::NotBegun {
            *ending = ItemEnding::Done(None);
        }
    }
    Ok(())
}

const fn comes_back(ending: &ItemEnding) -> bool {
    matches!(ending, ItemEnding::Retry { .. })
}

/// Notes that tries of a reaped claim were lost, so that the log knows of them whatever happens next.
async fn note_lost(tx: &mut Tx, items: &[&ClaimItem], now: Timestamp) -> Result<()> {
    let class = reason_class(LOST);
    let rows: Vec<Vec<Value<'_>>> = items
        .iter()
        .map(|item| params![item.delivery().0, i64::from(item.attempt()), now, LOST, class.as_str()].to_vec())
        .collect();
    tx.each(NOTE_LOST, &rows).await?;
    Ok(())
}

statements! {
    const NOTE_LOST = "
        insert into punctual.delivery_attempt (delivery_id, tried, at, outcome, error, reason_class)
        select d.id, d.tried_before + $2, $3, 'unknown', $4, $5
        from punctual.delivery d
        where d.id = $1
        on conflict do nothing
    ";
}

async fn write_reaped(tx: &mut Tx, settled: &SettledItems<'_>) -> Result<()> {
    let (mut due, mut not_begun): (Vec<(DeliveryId, Timestamp)>, Vec<ClaimItem>) = Default::default();
    let mut given_up = Vec::new();
    for (item, ending) in &settled.items {
        match ending {
            ItemEnding::Retry { due_at, .. } => due.push((item.delivery(), *due_at)),
            ItemEnding::Dead(said) => given_up.push((item, said.as_str())),
            ItemEnding::NotBegun => not_begun.push(item.clone()),
            ItemEnding::Done(_) | ItemEnding::Released => {}
        }
    }
    move_due(tx, &due).await?;
    give_up(tx, &given_up, settled).await?;
    give_back(tx, &not_begun, settled.now).await
}

/// Why a delivery is given up by a reaping.
const LOST_TOO_OFTEN: &str = "its sends were lost too often; it may have gone out";
const LOST_AT_THE_END: &str = "its send was lost, and its entry has ended; it may have gone out";

/// Gives deliveries up whose sends were lost too often, or whose entries have ended. Their entries are
/// locked. This process may not have their channels: whether a replay is safe is what the claim says of its
/// lanes.
async fn give_up(tx: &mut Tx, items: &[(&ClaimItem, &str)], settled: &SettledItems<'_>) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = items.iter().map(|(item, _)| item.delivery().0).collect();
    let deliveries = lock_waiting(tx, &ids).await?;
    let ended: Vec<SettledDelivery> = deliveries
        .into_iter()
        .filter_map(|delivery| {
            let (item, said) = items.iter().find(|(item, _)| item.delivery() == delivery.id)?;
            let mut due = DueDelivery::new((*item).clone(), delivery);
            due.takes_key = settled.keyed_lanes.contains(&item.lane());
            let outcome = due.given_up_in_doubt(Some("unknown"), (*said).to_owned());
            Some(SettledDelivery { due, outcome, entry: None })
        })
        .collect();
    write_outcomes(tx, &ended, settled.now).await?;
    // The next step is said by a definition that is not at hand here: the entry is advanced anew.
    let entries: Vec<i64> = ended.iter().map(|one| one.due.delivery.entry.0).collect();
    tx.execute(ADVANCE, &[Value::Ints(&entries)]).await?;
    Ok(())
}

statements! {
    /// At the time of the send that was lost: a transaction that holds or ends the entry finds its work by
    /// that.
    const ADVANCE = add_work!(), "
        select e.id, e.lane_id, e.due_at
        from punctual.entry e
        where e.id = any($1::bigint[])
            and e.status < ", entry_status!(Completed), "
            and e.due_at is not null
            and e.lane_id is not null
    ";
}
