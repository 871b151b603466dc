//! Deliveries that are in a claim now.

use crate::base::error::Result;
use crate::base::id::DeliveryId;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::Value;
use crate::delivery::rules::delivery::delivery_status;
use crate::delivery::store::entries::end::stops_sends;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::claims::open_items;
use std::collections::HashSet;

impl Store {
    /// Which of these claimed deliveries must not be sent any more: their entries have ended or are held.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn stopped_deliveries(&self, ids: Vec<DeliveryId>) -> VerbFuture<'_, HashSet<DeliveryId>> {
        self.read(ids, |tx, ids| Box::pin(stopped(tx, ids)))
    }
}

async fn stopped(tx: &mut Tx, ids: &[DeliveryId]) -> Result<HashSet<DeliveryId>> {
    if tx.has(PlantedBug::SendAfterTheEnd) {
        return Ok(HashSet::new());
    }
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let mut stopped = HashSet::new();
    for row in tx.query(STANDINGS, &[Value::Ints(&ids)]).await? {
        if stops_sends(row.int(1)?, &row.text(2)?, false)? || row.flag(3)? {
            stopped.insert(DeliveryId(row.int(0)?));
        }
    }
    Ok(stopped)
}

statements! {
    const STANDINGS = "
        select d.id, e.status, e.kind,
            case
                when d.status <> ", delivery_status!(Pending), "
                    or e.held_at is not null
                    or e.deleted_at is not null then 1
                else 0
            end
        from punctual.delivery d
        join punctual.entry e on e.id = d.entry_id
        where d.id = any($1::bigint[])
    ";
}

/// The numbers of deliveries that are in an open claim, in order; never more than all senders have in hand.
pub(crate) async fn deliveries_in_flight(tx: &mut Tx) -> Result<Vec<i64>> {
    // A planted bug: message 500 in a handler's claim is taken for delivery 500.
    let purpose = if tx.has(PlantedBug::LookUpWithoutPurpose) { None } else { Some(Purpose::Send) };
    let mut flying: Vec<i64> = open_items(tx, purpose).await?.iter().map(|item| item.delivery().0).collect();
    flying.sort_unstable();
    Ok(flying)
}
