//! Deliveries that are in a claim now.

use crate::base::error::Result;
use crate::database::planted::Bug;
use crate::database::tx::Tx;
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::claims::open_items;

/// The numbers of deliveries that are in an open claim, in order; never more than all senders have in hand.
pub(crate) async fn deliveries_in_flight(tx: &mut Tx) -> Result<Vec<i64>> {
    // A planted bug: message 500 in a handler's claim is taken for delivery 500.
    let purpose = if tx.has(Bug::LookUpWithoutPurpose) { None } else { Some(Purpose::Send) };
    let mut flying: Vec<i64> = open_items(tx, purpose).await?.iter().map(|item| item.delivery().0).collect();
    flying.sort_unstable();
    Ok(flying)
}
