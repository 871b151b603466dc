//! Failed notifications again: what was given up of them, or is uncertain, waits once more.
//!
//! A delivery keeps its row and its key, so what was sent cannot be sent a second time by a replay: only
//! rows that say they were not sent are put back, and the statement that does it looks once more. Tries count
//! from 0 again, and the history stays. What another channel took over is that one's matter.
//!
//! Not promised: that an uncertain message did not go out the first time. Who replays it has decided that.

use super::super::Store;
use super::super::columns::Column;
use super::super::tx::Tx;
use super::super::value::{Row, Value, params};
use super::foresee::{self, Foreseen};
use super::new_deliveries::{WORK, WORK_AT_ONCE};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::notification::{DeliveryStatus, NotificationStatus};
use crate::store::tx::VerbFuture;
use std::collections::BTreeMap;

/// Which failed notifications.
#[derive(Clone, Debug, Default)]
pub struct NotificationSelection {
    /// Only these; all if `None`.
    pub ids: Option<Vec<EntryId>>,
    /// Only about an entity of this type, in any case of its letters.
    pub entity_type: Option<String>,
    /// Only about the entity of this id.
    pub entity_id: Option<String>,
    /// Only of events of this kind.
    pub kind: Option<String>,
    /// Only those above this id.
    pub after: i64,
}

/// What a replay did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The notifications of which something is sent again.
    pub ids: Vec<EntryId>,
    /// Deliveries that are sent again.
    pub again: u64,
    /// Deliveries of failed notifications that stay: they were sent, and their keys stop a second time.
    pub stopped: u64,
    /// Failed notifications without any delivery: they had no template. See [`super::replan`].
    pub unplanned: Vec<EntryId>,
    /// What is sent again and what stays, one by one, a bounded number of them; by a dry run only.
    pub told: Vec<Foreseen>,
    /// Where the next step begins, if there may be more.
    pub next: Option<i64>,
}

impl Store {
    /// Puts what failed of notifications back to work, a bounded number at a time; a dry run writes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many ids.
    pub fn replay_notifications(
        &self,
        tenant: Tenant,
        which: NotificationSelection,
        dry_run: bool,
    ) -> VerbFuture<'_, Replayed> {
        VerbFuture::new(async move {
            let named = which.ids.as_ref().map_or(0, Vec::len);
            if named > limits::BATCH_ITEMS_MAX {
                let said = format!("{named} ids, at most {} are allowed", limits::BATCH_ITEMS_MAX);
                return Err(Error::invalid("ids", said));
            }
            self.of(tenant)
                .write((tenant, which, dry_run), |tx, (tenant, which, dry)| {
                    Box::pin(replay(tx, *tenant, which, *dry))
                })
                .await
        })
    }
}

/// Notifications looked at by one transaction.
const STEP_MAX: usize = 500;

async fn replay(
    tx: &mut Tx,
    tenant: Tenant,
    which: &NotificationSelection,
    dry_run: bool,
) -> Result<Replayed> {
    let notifications = failed(tx, tenant, which).await?;
    let next = notifications.last().copied().filter(|_| notifications.len() == STEP_MAX);
    let mut replayed = Replayed { next, ..Replayed::default() };
    if notifications.is_empty() {
        return Ok(replayed);
    }
    let unplanned = tx.query(UNPLANNED, &[Value::Ints(&notifications)]).await?;
    replayed.unplanned = unplanned.iter().map(|row| Ok(EntryId(row.int(0)?))).collect::<Result<_>>()?;
    let sent = tx.first(SENT, &[Value::Ints(&notifications)]).await?;
    replayed.stopped = u64::from(sent.map_or(Ok(0), |row| row.count(0))?);
    let given_up = tx.query(if dry_run { GIVEN_UP } else { LOCKED }, &[Value::Ints(&notifications)]).await?;
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for row in &given_up {
        *counts.entry(row.int(1)?).or_default() += 1;
    }
    if dry_run {
        replayed.told = foresee::of_notifications(tx, &notifications).await?;
    } else if !given_up.is_empty() {
        let now = tx.now().await?;
        put_back(tx, &given_up, now).await?;
        reopen(tx, &counts).await?;
    }
    replayed.ids = counts.keys().copied().map(EntryId).collect();
    replayed.again = given_up.len() as u64;
    Ok(replayed)
}

async fn failed(tx: &mut Tx, tenant: Tenant, which: &NotificationSelection) -> Result<Vec<i64>> {
    let ids: Vec<i64> = which.ids.iter().flatten().map(|id| id.0).collect();
    let row = [
        tenant.id().into(),
        which.after.into(),
        i64::try_from(STEP_MAX).unwrap_or(i64::MAX).into(),
        NotificationStatus::Failed.code().into(),
        which.ids.is_none().into(),
        Value::Ints(&ids),
        which.entity_type.as_deref().into(),
        which.entity_id.as_deref().into(),
        which.kind.as_deref().into(),
    ];
    tx.query(FAILED, &row).await?.iter().map(|row| row.int(0)).collect()
}

const FAILED: &str = "select n.id from punctual.entry n \
    where n.tenant_id = $1 and n.id > $2 and n.kind = 'notification' and n.status = $4 \
            and ($5 = 1 or n.id = any($6::bigint[])) \
        and ($7::text is null or lower(n.entity_type) = lower($7)) \
        and ($8::text is null or n.entity_id = $8) and ($9::text is null or n.event_kind = $9) \
    order by n.id limit $3";
const UNPLANNED: &str = "select n.id from punctual.entry n where n.id = any($1::bigint[]) \
    and not exists (select 1 from punctual.delivery d where d.entry_id = n.id) order by n.id";
const SENT: &str = "select count(*) from punctual.delivery \
    where entry_id = any($1::bigint[]) and status in (1, 2)";
const _: () = assert!(DeliveryStatus::Sent as i64 == 1 && DeliveryStatus::Delivered as i64 == 2);

macro_rules! given_up {
    ($lock:literal) => {
        concat!(
            "select d.id, d.entry_id, d.lane_id from punctual.delivery d \
             where d.entry_id = any($1::bigint[]) and d.status in (3, 5) and d.replaced_by is null \
             order by d.id",
            $lock
        )
    };
}
const GIVEN_UP: &str = given_up!("");
/// In one order, so that two replays never wait for each other in a circle; the second finds nothing left.
const LOCKED: &str = given_up!(" for update");
const _: () = assert!(DeliveryStatus::Failed as i64 == 3 && DeliveryStatus::Uncertain as i64 == 5);

pub(in crate::store) async fn put_back(tx: &mut Tx, given_up: &[Row], now: Timestamp) -> Result<()> {
    let ids = given_up.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    let lanes = given_up.iter().map(|row| row.int(2)).collect::<Result<Vec<_>>>()?;
    tx.execute(WAIT, &[now.into(), Value::Ints(&ids)]).await?;
    let work = ids.clone();
    tx.in_columns((WORK_AT_ONCE, WORK), params![now], &[Column::Ints(work), Column::Ints(lanes)]).await?;
    Ok(())
}

const WAIT: &str = "update punctual.delivery set status = 0, due_at = $1, \
        tried_before = tried_before + tries, tries = 0, version = version + 1 \
    where id = any($2::bigint[]) and status in (3, 5)";

/// The notifications wait for them again. What was said of how they ended stays until they end once more.
async fn reopen(tx: &mut Tx, counts: &BTreeMap<i64, i64>) -> Result<()> {
    let rows: Vec<Vec<Value<'_>>> = counts.iter().map(|(id, n)| vec![(*id).into(), (*n).into()]).collect();
    tx.each(REOPEN, &rows).await?;
    Ok(())
}

const REOPEN: &str = "update punctual.entry set open = open + $2, \
        failed = case when failed > $2 then failed - $2 else 0 end, status = 0, reason = null, \
        ended_at = null \
    where id = $1 returning id";
