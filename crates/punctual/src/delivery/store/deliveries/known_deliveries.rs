//! What an event has led to already: its entry, and the deliveries that have the keys of those it would lead
//! to. Read by forecasts.

use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::delivery::rules::delivery::DeliveryStatus;
use crate::delivery::store::deliveries::duplicates::explain_empty;
use crate::delivery::store::deliveries::key::{KeyHolder, key_holders};
use crate::flow::rules::entry::EntryStatus;
use crate::flow::store::entries::entries_by_id;
use crate::flow::store::entries::lists::named_entries;
use std::collections::HashMap;

/// An entry that exists already.
#[derive(Clone, Debug)]
pub(crate) struct KnownEntry {
    pub(crate) id: EntryId,
    pub(crate) status: EntryStatus,
    /// Why it is on hold, if it is.
    pub(crate) on_hold: Option<String>,
}

/// A delivery that has a key already.
#[derive(Clone, Debug)]
pub(crate) struct KnownDelivery {
    pub(crate) id: DeliveryId,
    pub(crate) status: DeliveryStatus,
    /// Its entry; `None` if retention has dropped the delivery.
    pub(crate) entry: Option<KnownEntry>,
}

/// What is known already of an event and of the deliveries it would lead to.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownDeliveries {
    /// The entry of the event.
    pub(crate) entry: Option<KnownEntry>,
    /// The deliveries that have its keys.
    pub(crate) by_key: HashMap<String, KnownDelivery>,
    holders: Vec<KeyHolder>,
}

impl KnownDeliveries {
    /// The word and the sentence for the end of an entry that has nothing to send.
    pub(crate) fn explain_empty(&self, is_unreachable: bool) -> (&'static str, String) {
        explain_empty(self.holders.iter(), is_unreachable)
    }
}

impl Store {
    /// Reads what is known of an event, if it was published, and of deliveries with these keys.
    pub(crate) fn known_deliveries(
        &self,
        tenant: Tenant,
        event: Option<MessageId>,
        keys: Vec<String>,
    ) -> VerbFuture<'_, KnownDeliveries> {
        self.of(tenant).read((tenant, event, keys), |tx, (tenant, event, keys)| {
            Box::pin(known_deliveries(tx, *tenant, *event, keys))
        })
    }
}

async fn known_deliveries(
    tx: &mut Tx,
    tenant: Tenant,
    event: Option<MessageId>,
    keys: &[String],
) -> Result<KnownDeliveries> {
    let keys: Vec<(Tenant, &str)> = keys.iter().map(|key| (tenant, key.as_str())).collect();
    let holders = key_holders(tx, &keys, true).await?;
    let own = match event {
        Some(event) => named_entries(tx, tenant, &format!("event:{event}")).await?.into_iter().next(),
        None => None,
    };
    let ids: Vec<i64> = holders.values().filter_map(|holder| holder.entry).chain(own).collect();
    let entries = entries_by_id(tx, &ids).await?.into_iter().map(|entry| {
        let on_hold = entry.hold.map(|hold| hold.reason);
        (entry.id.0, KnownEntry { id: entry.id, status: entry.state.status, on_hold })
    });
    let entries: HashMap<i64, KnownEntry> = entries.collect();
    let known = |holder: &KeyHolder| KnownDelivery {
        id: holder.id,
        status: holder.status,
        entry: holder.entry.and_then(|id| entries.get(&id).cloned()),
    };
    Ok(KnownDeliveries {
        entry: own.and_then(|id| entries.get(&id).cloned()),
        by_key: holders.iter().map(|((_, key), holder)| (key.clone(), known(holder))).collect(),
        holders: holders.into_values().collect(),
    })
}
