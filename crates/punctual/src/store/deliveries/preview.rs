//! What a replay would send, and what keys would stop: for dry runs. Nothing is written.
//!
//! Not promised: that it still is so when the replay is made. Keys are looked up once more then.

use super::super::Store;
use super::super::entries::replay::ReopenedEntry;
use super::super::tx::Tx;
use super::super::value::{Row, Value};
use super::replay::{GivenUpFilter, given_up};
use crate::base::error::{Error, Result};
use crate::base::id::{DeliveryId, EntryId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::notification::{DeliveryStatus, Planned};
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;
use std::collections::HashMap;

/// A message that a replay would send, or would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// The entry, if there is one.
    pub entry: Option<EntryId>,
    /// Its public id, where it is a survey.
    pub public_id: Option<PublicId>,
    /// The delivery, if there is one.
    pub delivery: Option<DeliveryId>,
    /// The key of its channel.
    pub channel: String,
    /// What makes it the same as another.
    pub key: String,
    /// Why it would not be sent; `None` if it would.
    pub stopped: Option<&'static str>,
}

impl Store {
    /// What would become of planned deliveries: those whose keys are known are stopped.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn foresee(&self, tenant: Tenant, planned: Vec<Planned>) -> VerbFuture<'_, Vec<Foreseen>> {
        self.of(tenant)
            .read((tenant, planned), |tx, (tenant, planned)| Box::pin(by_keys(tx, *tenant, planned)))
    }
}

async fn by_keys(tx: &mut Tx, tenant: Tenant, planned: &[Planned]) -> Result<Vec<Foreseen>> {
    let keys: Vec<Option<&str>> = planned.iter().map(|one| Some(one.key.as_str())).collect();
    let mut known = HashMap::new();
    for row in tx.query(KNOWN, &[tenant.id().into(), Value::Texts(&keys)]).await? {
        known.insert(row.text(2)?, (EntryId(row.int(1)?), DeliveryId(row.int(0)?), status(&row, 3)?));
    }
    let foreseen = planned.iter().map(|one| {
        let found = known.get(&one.key);
        Foreseen {
            entry: found.map(|found| found.0),
            public_id: None,
            delivery: found.map(|found| found.1),
            channel: one.channel.clone(),
            key: one.key.clone(),
            stopped: match found {
                Some(found) => Some(why(found.2)),
                None => one.address.is_none().then_some("No recipient"),
            },
        }
    });
    Ok(foreseen.collect())
}

const KNOWN: &str = "select d.id, d.entry_id, d.idempotency_key, d.status from punctual.delivery d \
    where d.tenant_id = $1 and d.idempotency_key = any($2::text[]) and d.keeps_key = 1";

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

/// What a replay of these entries would send again, and what stays because it was sent. Of surveys that are
/// reopened without a delivery it is the send that is planned anew.
pub(super) async fn of_entries(
    tx: &mut Tx,
    which: &GivenUpFilter<'_>,
    reopened: &[ReopenedEntry],
) -> Result<Vec<Foreseen>> {
    let most = i64::try_from(limits::LIST_ITEMS_MAX).unwrap_or(i64::MAX);
    let rows = tx.query(OF_ENTRIES, &which.values(most)).await?;
    let planned = reopened.iter().filter_map(|one| {
        Some(Ok(Foreseen {
            entry: Some(one.id),
            public_id: Some(one.public_id),
            delivery: None,
            channel: one.channel.clone(),
            key: one.planned_key.clone()?,
            stopped: None,
        }))
    });
    rows.iter()
        .map(|row| {
            let sent = matches!(status(row, 3)?, DeliveryStatus::Sent | DeliveryStatus::Delivered);
            Ok(Foreseen {
                entry: Some(EntryId(row.int(1)?)),
                public_id: row.maybe_int(5)?.zip(row.maybe_int(6)?).and_then(PublicId::from_halves),
                delivery: Some(DeliveryId(row.int(0)?)),
                channel: row.text(4)?,
                key: row.text(2)?,
                stopped: sent.then_some(SENT),
            })
        })
        .chain(planned)
        .take(limits::LIST_ITEMS_MAX)
        .collect()
}

const OF_ENTRIES: &str = concat!(
    "select d.id, d.entry_id, d.idempotency_key, d.status, d.channel, n.public_high, n.public_low \
    from punctual.delivery d join punctual.entry n on n.id = d.entry_id \
    where d.entry_id = any($1::bigint[]) and (d.status in (1, 2) or ",
    given_up!(),
    ") order by d.entry_id, d.id limit $2"
);

fn status(row: &Row, n: usize) -> Result<DeliveryStatus> {
    let code = row.int(n)?;
    DeliveryStatus::from_code(code).ok_or_else(|| Error::Database(format!("{code} is no status").into()))
}
