//! Preview for dry runs: the deliveries that a replay would send, and those that keys would stop. Nothing is
//! written.
//!
//! Not promised: that the preview still holds when the replay is made. Keys are looked up once more then.

use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery, delivery_status};
use crate::delivery::store::deliveries::delivery::read_status;
use crate::delivery::store::deliveries::key::key_holders;
use crate::delivery::store::entries::replay::{GivenUpFilter, given_up};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::Entry;

/// A message that a replay would send, or would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedMessage {
    /// The entry, if there is one.
    pub entry: Option<EntryId>,
    /// Its public id, where it is a survey.
    pub public_id: Option<PublicId>,
    /// The delivery, if there is one.
    pub delivery: Option<DeliveryId>,
    /// The key of its channel.
    pub channel: String,
    /// The key by which a delivery is recognised as the same as another.
    pub key: String,
    /// Why it would not be sent; `None` if it would.
    pub stopped: Option<&'static str>,
}

impl Store {
    /// Previews planned deliveries: those whose keys are known are stopped.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn preview_deliveries(
        &self,
        tenant: Tenant,
        planned: Vec<PlannedDelivery>,
    ) -> VerbFuture<'_, Vec<PreviewedMessage>> {
        self.of(tenant)
            .read((tenant, planned), |tx, (tenant, planned)| Box::pin(by_keys(tx, *tenant, planned)))
    }
}

async fn by_keys(tx: &mut Tx, tenant: Tenant, planned: &[PlannedDelivery]) -> Result<Vec<PreviewedMessage>> {
    let keys: Vec<(Tenant, &str)> = planned.iter().map(|one| (tenant, one.key.as_str())).collect();
    let holders = key_holders(tx, &keys, false).await?;
    let foreseen = planned.iter().map(|one| {
        let found = holders.get(&(tenant, one.key.clone()));
        PreviewedMessage {
            entry: found.and_then(|holder| holder.entry).map(EntryId),
            public_id: None,
            delivery: found.map(|holder| holder.id),
            channel: one.channel.clone(),
            key: one.key.clone(),
            stopped: match found {
                Some(holder) => Some(why(holder.status)),
                None => one.address.is_none().then_some("No recipient"),
            },
        }
    });
    Ok(foreseen.collect())
}

/// Why a key that is known lets nothing through.
const fn why(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Pending => "It waits to be sent already",
        DeliveryStatus::Sent | DeliveryStatus::Delivered => SENT,
        DeliveryStatus::Failed => "It was given up; replay its schedule instead",
        DeliveryStatus::Uncertain => "It may have been sent; replay its schedule to send it again",
        DeliveryStatus::Skipped => "It was not to be sent",
    }
}

const SENT: &str = "It was sent before";

/// Returns the deliveries that a replay of these entries would send again, and those that stay because they
/// were sent. For entries that are advanced anew it is the send that they plan; the kind makes its key then.
pub(crate) async fn of_entries(
    tx: &mut Tx,
    which: &GivenUpFilter<'_>,
    anew: &[&Entry],
) -> Result<Vec<PreviewedMessage>> {
    let most = i64::try_from(limits::LIST_ITEMS_MAX).unwrap_or(i64::MAX);
    let rows = tx.query(OF_ENTRIES, &which.values(most)).await?;
    let mut foreseen = Vec::with_capacity(rows.len());
    for row in &rows {
        let sent = matches!(read_status(row.int(3)?)?, DeliveryStatus::Sent | DeliveryStatus::Delivered);
        foreseen.push(PreviewedMessage {
            entry: Some(EntryId(row.int(1)?)),
            public_id: row.maybe_int(5)?.zip(row.maybe_int(6)?).and_then(PublicId::from_halves),
            delivery: Some(DeliveryId(row.int(0)?)),
            channel: row.text(4)?,
            key: row.text(2)?,
            stopped: sent.then_some(SENT),
        });
    }
    foreseen.extend(anew.iter().map(|entry| PreviewedMessage {
        entry: Some(entry.id),
        public_id: entry.public_id,
        delivery: None,
        channel: entry.recipient.as_ref().map(|to| to.channel.clone()).unwrap_or_default(),
        key: entry.send_key(),
        stopped: None,
    }));
    foreseen.truncate(limits::LIST_ITEMS_MAX);
    Ok(foreseen)
}

statements! {
    const OF_ENTRIES = "
        select d.id, d.entry_id, d.idempotency_key, d.status, d.channel, n.public_high, n.public_low
        from punctual.delivery d
        join punctual.entry n on n.id = d.entry_id
        where d.entry_id = any($1::bigint[])
            and (
                d.status in (", delivery_status!(Sent), ", ", delivery_status!(Delivered), ")
                    or ", given_up!(), "
            )
        order by d.entry_id, d.id
        limit $2
    ";
}
