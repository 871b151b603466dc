//! Deliveries leave with their entries, and their tries and receipts with them. Their keys stay for longer.

use crate::base::error::Result;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Value;

/// Drops the deliveries of entries that retention drops.
pub(crate) async fn prune_deliveries(tx: &mut Tx, entries: &[i64]) -> Result<()> {
    for sql in [DROP_RECEIPTS, DROP_ATTEMPTS, DROP_DELIVERIES] {
        tx.execute(sql, &[Value::Ints(entries)]).await?;
    }
    Ok(())
}

statements! {
    const DROP_RECEIPTS = "
        delete from punctual.receipt
        where delivery_id in (select d.id from punctual.delivery d where d.entry_id = any($1::bigint[]))
    ";

    const DROP_ATTEMPTS = "
        delete from punctual.delivery_attempt
        where delivery_id in (select d.id from punctual.delivery d where d.entry_id = any($1::bigint[]))
    ";

    const DROP_DELIVERIES = "
        delete from punctual.delivery
        where entry_id = any($1::bigint[])
    ";
}
