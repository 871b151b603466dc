//! Entries of which fewer deliveries were written than planned: a recipient has no address, or a delivery of
//! the same key exists already. An entry that is left with nothing to send has ended, and says why.
//!
//! The holder of a key is looked at only then, so an entry that is new costs no statement. The reason is the
//! holder's status at that moment.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::params;
use crate::delivery::rules::delivery::DeliveryStatus;
use crate::delivery::store::deliveries::NO_RECIPIENT;
use crate::delivery::store::deliveries::key::{KeyHolder, key_holders};
use crate::delivery::store::deliveries::new_deliveries::{NewDelivery, WrittenDeliveries};
use crate::flow::rules::entry::entry_status;
use std::collections::BTreeMap;

/// Why nothing was sent: the same message had been before.
pub const ALREADY_SENT: &str = "AlreadySent";
/// Why nothing was sent: the same message waits, or is tried again.
pub const ALREADY_PENDING: &str = "AlreadyPending";
/// Why nothing was sent: the same message was given up, and that one is to be replayed.
pub const ALREADY_FAILED: &str = "AlreadyFailed";
/// The reason of an entry that sent nothing because the outcome of the same message is unknown.
pub const ALREADY_UNCERTAIN: &str = "AlreadyUncertain";

/// Of several holders, the one that most needs attention gives the reason; of those that need it alike, the
/// newest.
const fn weight(holder: &KeyHolder) -> u8 {
    match holder.status {
        DeliveryStatus::Sent | DeliveryStatus::Delivered => 0,
        DeliveryStatus::Pending => 1,
        DeliveryStatus::Uncertain => 2,
        DeliveryStatus::Failed | DeliveryStatus::Skipped => 3,
    }
}

fn why(holder: &KeyHolder) -> (&'static str, String) {
    let id = holder.id;
    match holder.status {
        DeliveryStatus::Sent | DeliveryStatus::Delivered => (ALREADY_SENT, "It was sent before".to_owned()),
        DeliveryStatus::Pending => (ALREADY_PENDING, "The same message is on its way".to_owned()),
        DeliveryStatus::Uncertain => {
            let said = format!(
                "It is not known whether the same message was sent before (delivery {id}); \
                 replay that one if it did not arrive"
            );
            (ALREADY_UNCERTAIN, said)
        }
        DeliveryStatus::Failed | DeliveryStatus::Skipped => {
            let said = format!("The same message failed before (delivery {id}); replay that one");
            (ALREADY_FAILED, said)
        }
    }
}

/// The word and the sentence for an entry that has nothing to send: its keys have these holders, or nobody
/// can be reached.
pub(crate) fn explain_empty<'h>(
    holders: impl Iterator<Item = &'h KeyHolder>,
    is_unreachable: bool,
) -> (&'static str, String) {
    match holders.max_by_key(|holder| (weight(holder), holder.id)) {
        Some(holder) => why(holder),
        None if is_unreachable => (NO_RECIPIENT, "No recipient".to_owned()),
        None => (ALREADY_SENT, "It was sent before".to_owned()),
    }
}

/// The planned deliveries of an entry that were not written.
#[derive(Default)]
struct UnwrittenDeliveries<'a> {
    open: i64,
    skipped: bool,
    known: Vec<&'a NewDelivery<'a>>,
}

/// Corrects the counts of entries of which fewer deliveries were written than planned; one without any has
/// ended.
pub(crate) async fn end_empty(
    tx: &mut Tx,
    rows: &[NewDelivery<'_>],
    made: &WrittenDeliveries,
    now: Timestamp,
) -> Result<()> {
    let mut entries: BTreeMap<EntryId, UnwrittenDeliveries<'_>> = BTreeMap::new();
    for row in rows {
        let of = entries.entry(row.entry).or_default();
        match (row.status(), made.of(row)) {
            (_, None) => of.known.push(row),
            (DeliveryStatus::Pending, Some(_)) => of.open += 1,
            (_, Some(_)) => of.skipped = true,
        }
    }
    entries.retain(|_, of| of.skipped || !of.known.is_empty());
    let empty = entries.values().filter(|of| of.open == 0).flat_map(|of| &of.known);
    let keys: Vec<(Tenant, &str)> = empty.map(|row| (row.tenant, row.planned.key.as_str())).collect();
    let holders = key_holders(tx, &keys, true).await?;
    for (entry, of) in &entries {
        let held = of.known.iter().filter_map(|row| holders.get(&(row.tenant, row.planned.key.clone())));
        let (reason, said) = explain_empty(held, of.known.is_empty());
        tx.execute(SHORT, params![entry.0, of.open, reason, said.as_str(), now]).await?;
    }
    Ok(())
}

statements! {
    const SHORT = "
        update punctual.entry
        set open = $2, status = case when $2 = 0 then ", entry_status!(Cancelled), " else status end,
            reason = case when $2 = 0 then $3 else reason end,
            error = case when $2 = 0 then $4 else error end,
            ended_at = case when $2 = 0 then $5 else ended_at end
        where id = $1
    ";
}
