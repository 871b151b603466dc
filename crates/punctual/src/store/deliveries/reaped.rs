//! Deliveries hear of reaped claims.
//!
//! Whoever sends settles deliveries by their own verb ([`super::deliver`]). Only a reaping comes from the
//! queue: tries that may have gone out are written down as unknown, deliveries whose entries have ended do
//! not come again, and those that were never begun wait as before.

use super::super::settle::hooks::{ItemEnding, SettledItems, SettlementHook};
use super::super::tx::{Steps, Tx};
use super::deliver::{give_back, give_up, move_due};
use super::entry_end::note_reaped;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::DeliveryId;
use crate::rules::claim::Item;

/// Writes what a reaping makes of deliveries.
#[derive(Debug)]
pub(in crate::store) struct DeliveryHook;

impl SettlementHook for DeliveryHook {
    fn condition(&self) -> &'static str {
        "c.purpose = 'send'"
    }

    fn before_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t mut SettledItems<'_>) -> Steps<'t, ()> {
        Box::pin(stop_ended(tx, settled))
    }

    fn after_write<'t>(&'t self, tx: &'t mut Tx, settled: &'t SettledItems<'_>) -> Steps<'t, ()> {
        Box::pin(write_reaped(tx, settled))
    }
}

/// Notes lost tries, and lets those whose entries have ended meanwhile not come again.
async fn stop_ended(tx: &mut Tx, settled: &mut SettledItems<'_>) -> Result<()> {
    let comes_back = |ending: &ItemEnding| matches!(ending, ItemEnding::Retry { .. });
    let lost: Vec<Item> =
        settled.items.iter().filter(|(_, ending)| comes_back(ending)).map(|(item, _)| item.clone()).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let over = note_reaped(tx, &lost, settled.now).await?;
    for (item, ending) in &mut settled.items {
        if comes_back(ending) && over.contains(&item.delivery().0) {
            *ending = ItemEnding::Dead("its entry has ended".to_owned());
        }
    }
    Ok(())
}

async fn write_reaped(tx: &mut Tx, settled: &SettledItems<'_>) -> Result<()> {
    let (mut due, mut given_up, mut not_begun): (Vec<(DeliveryId, Timestamp)>, Vec<Item>, Vec<Item>) =
        Default::default();
    for (item, ending) in &settled.items {
        match ending {
            ItemEnding::Retry { due_at, .. } => due.push((item.delivery(), *due_at)),
            ItemEnding::Dead(_) => given_up.push(item.clone()),
            ItemEnding::NotBegun => not_begun.push(item.clone()),
            ItemEnding::Done(_) | ItemEnding::Released => {}
        }
    }
    move_due(tx, &due).await?;
    give_up(tx, &given_up, settled.now).await?;
    give_back(tx, &not_begun, settled.now).await
}
