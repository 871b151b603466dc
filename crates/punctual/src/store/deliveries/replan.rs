//! Failed notifications that never had anything to send, because there was no template when their event
//! came: they can be planned anew.

use super::super::Store;
use super::super::messages::{message_columns, read_message};
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::duplicates::end_empty;
use super::new_deliveries::{NewDelivery, insert_deliveries};
use super::{deliver_lane, entity};
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::rules::entry::EntryKind;
use crate::rules::message::{Entity, Message};
use crate::rules::notification::Planned;
use crate::store::tx::VerbFuture;
use std::collections::HashMap;

/// A notification that failed before anything was to be sent.
#[derive(Clone, Debug)]
pub struct Unplanned {
    /// The notification.
    pub id: EntryId,
    /// Its event.
    pub event: Message,
    /// What the event is about.
    pub entity: Option<Entity>,
}

impl Store {
    /// Those of a tenant's failed notifications that have no delivery, and whose events are still there.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn unplanned_notifications(
        &self,
        tenant: Tenant,
        ids: Vec<EntryId>,
    ) -> VerbFuture<'_, Vec<Unplanned>> {
        self.of(tenant).read((tenant, ids), |tx, (tenant, ids)| Box::pin(unplanned(tx, *tenant, ids)))
    }

    /// Gives such a notification its deliveries; answers how many are to be sent, and how many were
    /// before. If it is no such notification any more, or on a dry run, nothing is written.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn plan_notification(
        &self,
        tenant: Tenant,
        id: EntryId,
        deliveries: Vec<Planned>,
        dry_run: bool,
    ) -> VerbFuture<'_, (u64, u64)> {
        self.of(tenant).write((tenant, id, deliveries, dry_run), |tx, (tenant, id, deliveries, dry_run)| {
            Box::pin(plan(tx, *tenant, *id, deliveries, *dry_run))
        })
    }
}

async fn unplanned(tx: &mut Tx, tenant: Tenant, ids: &[EntryId]) -> Result<Vec<Unplanned>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let mut rows = tx.query(UNPLANNED, &[tenant.id().into(), Value::Ints(&ids)]).await?;
    rows.iter_mut()
        .map(|row| {
            let (id, entity) = (EntryId(row.int(0)?), entity(row, 1)?);
            Ok(Unplanned { id, event: read_message(row, 3)?, entity })
        })
        .collect()
}

macro_rules! without_deliveries {
    () => {
        "n.kind = 'notification' and n.status = 6 \
                and not exists (select 1 from punctual.delivery d where d.entry_id = n.id)"
    };
}
const UNPLANNED: &str = concat!(
    "select n.id, n.entity_type, n.entity_id, ",
    message_columns!(),
    " from punctual.entry n join punctual.message m on m.id = n.message_id \
      where n.tenant_id = $1 and n.id = any($2::bigint[]) and ",
    without_deliveries!(),
    " order by n.id"
);

async fn plan(
    tx: &mut Tx,
    tenant: Tenant,
    id: EntryId,
    deliveries: &[Planned],
    dry_run: bool,
) -> Result<(u64, u64)> {
    let reached = deliveries.iter().filter(|planned| planned.address.is_some());
    let keys: Vec<Option<&str>> = reached.map(|planned| Some(planned.key.as_str())).collect();
    let known = tx.first(KNOWN, &[tenant.id().into(), Value::Texts(&keys)]).await?;
    let known = u64::from(known.map_or(Ok(0), |row| row.count(0))?);
    let again = (keys.len() as u64).saturating_sub(known);
    let still = if dry_run { STILL } else { STILL_LOCKED };
    let is_still = tx.first(still, params![tenant.id(), id.0]).await?.is_some();
    if !is_still || again == 0 {
        return Ok((0, if is_still { known } else { 0 }));
    }
    if !dry_run {
        write(tx, tenant, id, deliveries).await?;
    }
    Ok((again, known))
}

const KNOWN: &str = "select count(*) from punctual.delivery \
    where tenant_id = $1 and idempotency_key = any($2::text[]) and keeps_key = 1";
const STILL: &str = concat!(
    "select n.id from punctual.entry n where n.tenant_id = $1 and n.id = $2 and ",
    without_deliveries!()
);
const STILL_LOCKED: &str = concat!(
    "select n.id from punctual.entry n where n.tenant_id = $1 and n.id = $2 and ",
    without_deliveries!(),
    " for update"
);

async fn write(tx: &mut Tx, tenant: Tenant, entry: EntryId, deliveries: &[Planned]) -> Result<()> {
    let now = tx.now().await?;
    let (mut lanes, mut rows) = (HashMap::new(), Vec::with_capacity(deliveries.len()));
    for planned in deliveries {
        let kind = EntryKind::Notification;
        let lane = deliver_lane(tx, tenant, (kind, &planned.channel), &mut lanes).await?;
        rows.push(NewDelivery { entry, kind, tenant, lane, planned });
    }
    let made = insert_deliveries(tx, &rows, now).await?;
    let reached = rows.iter().filter(|row| row.planned.address.is_some());
    let open = reached.filter(|row| made.of(row).is_some()).count();
    tx.execute(REOPEN, params![entry.0, i64::try_from(open).unwrap_or(i64::MAX)]).await?;
    // If all that was new went another way meanwhile, nothing is left to wait for.
    end_empty(tx, &rows, &made, now).await
}

const REOPEN: &str = "update punctual.entry set open = $2, status = 0, reason = null, ended_at = null \
    where id = $1";
