//! Failed entries that never had anything to send, because there was no template when their event came: they
//! can be planned anew.

use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Value, params};
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::store::deliveries::duplicates::end_empty;
use crate::delivery::store::deliveries::key::key_holders;
use crate::delivery::store::deliveries::new_deliveries::{
    NewDelivery, SendLanes, insert_deliveries, send_lane,
};
use crate::delivery::store::entries::replay::{ReplayMode, add_replays};
use crate::flow::rules::entry::{EntryStatus, entry_status};
use crate::flow::store::entries::history::ChangeAuthor;
use crate::flow::store::entries::{Entry, entries_by_id, wait_for_entry};
use crate::queue::rules::message::{Entity, Message};
use crate::queue::store::messages::{message_columns, read_message};

/// A notification that failed before anything was to be sent.
#[derive(Clone, Debug)]
pub struct UnplannedNotification {
    /// The notification.
    pub id: EntryId,
    /// Its event.
    pub event: Message,
    /// The entity of the event.
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
    ) -> VerbFuture<'_, Vec<UnplannedNotification>> {
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
        deliveries: Vec<PlannedDelivery>,
        mode: ReplayMode,
    ) -> VerbFuture<'_, (u64, u64)> {
        self.of(tenant).write((tenant, id, deliveries, mode), |tx, (tenant, id, deliveries, mode)| {
            Box::pin(plan(tx, *tenant, *id, deliveries, mode))
        })
    }
}

async fn unplanned(tx: &mut Tx, tenant: Tenant, ids: &[EntryId]) -> Result<Vec<UnplannedNotification>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let mut rows = tx.query(UNPLANNED, &[tenant.id().into(), Value::Ints(&ids)]).await?;
    rows.iter_mut()
        .map(|row| {
            let entity = row.maybe_text(1)?.zip(row.maybe_text(2)?).map(|(kind, id)| Entity { kind, id });
            let id = EntryId(row.int(0)?);
            Ok(UnplannedNotification { id, event: read_message(row, 3)?, entity })
        })
        .collect()
}

macro_rules! without_deliveries {
    () => {
        concat! {"
        n.kind = 'notification'
            and n.status = ", entry_status!(Failed), "
            and not exists (select 1 from punctual.delivery d where d.entry_id = n.id)
        "}
    };
}

statements! {
    const UNPLANNED = "
        select n.id, n.entity_type, n.entity_id, ", message_columns!(), "
        from punctual.entry n
        join punctual.message m on m.id = n.message_id
        where n.tenant_id = $1 and n.id = any($2::bigint[]) and ", without_deliveries!(), "
        order by n.id
    ";
}

async fn plan(
    tx: &mut Tx,
    tenant: Tenant,
    id: EntryId,
    deliveries: &[PlannedDelivery],
    mode: &ReplayMode,
) -> Result<(u64, u64)> {
    let reached = deliveries.iter().filter(|planned| planned.address.is_some());
    let keys: Vec<(Tenant, &str)> = reached.map(|planned| (tenant, planned.key.as_str())).collect();
    let known = key_holders(tx, &keys, false).await?.len() as u64;
    let again = (keys.len() as u64).saturating_sub(known);
    let entry = match mode {
        ReplayMode::DryRun => entries_by_id(tx, &[id.0]).await?.pop(),
        ReplayMode::Real(_) => wait_for_entry(tx, id).await?,
    };
    let is_failed = |of: &Entry| of.tenant == tenant && of.state.status == EntryStatus::Failed && !of.deleted;
    let Some(entry) = entry.filter(is_failed) else { return Ok((0, 0)) };
    if tx.first(ANY_DELIVERY, params![id.0]).await?.is_some() {
        return Ok((0, 0));
    }
    if again == 0 {
        return Ok((0, known));
    }
    if let ReplayMode::Real(author) = mode {
        write(tx, &entry, deliveries, author).await?;
    }
    Ok((again, known))
}

statements! {
    const ANY_DELIVERY = "
        select 1
        from punctual.delivery
        where entry_id = $1
        limit 1
    ";
}

async fn write(tx: &mut Tx, of: &Entry, deliveries: &[PlannedDelivery], author: &ChangeAuthor) -> Result<()> {
    let (now, entry, tenant, kind) = (tx.now().await?, of.id, of.tenant, of.kind);
    let (mut lanes, mut rows) = (SendLanes::new(), Vec::with_capacity(deliveries.len()));
    for planned in deliveries {
        let lane = send_lane(tx, tenant, (kind, &planned.channel), &mut lanes).await?;
        rows.push(NewDelivery { entry, kind, tenant, lane, held: false, planned });
    }
    let made = insert_deliveries(tx, &rows, now).await?;
    let reached = rows.iter().filter(|row| row.planned.address.is_some());
    let open = reached.filter(|row| made.of(row).is_some()).count();
    tx.execute(REOPEN, params![entry.0, i64::try_from(open).unwrap_or(i64::MAX)]).await?;
    add_replays(tx, std::iter::once(of), author, now).await?;
    // If all that was new went another way meanwhile, nothing is left to wait for.
    end_empty(tx, &rows, &made, now).await
}

statements! {
    const REOPEN = "
        update punctual.entry
        set open = $2, status = ", entry_status!(Pending), ",
            reason = null, error = null, ended_at = null, version = version + 1
        where id = $1
    ";
}
