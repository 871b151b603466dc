//! Failed entries of every kind again: what was given up of them, or is uncertain, waits once more.
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
use super::deliver::read_kind;
use super::new_deliveries::{WORK, WORK_AT_ONCE};
use super::preview::{self, Foreseen};
use super::queries::channels_named;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::entry::{EntryKind, Status};
use crate::rules::notification::{DeliveryStatus, NotificationStatus};
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;
use std::collections::BTreeMap;

/// Which failed entries, of every kind. What is `None` does not count.
#[derive(Clone, Debug, Default)]
pub struct ReplaySelection {
    /// Only these and those of `public_ids`.
    pub ids: Option<Vec<EntryId>>,
    /// Only these surveys and those of `ids`.
    pub public_ids: Option<Vec<PublicId>>,
    /// Only about an entity of this type, in any case of its letters.
    pub entity_type: Option<String>,
    /// Only about the entity of this id.
    pub entity_id: Option<String>,
    /// Only of events of this kind.
    pub kind: Option<String>,
    /// Only deliveries that stand so: failed or uncertain.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries by the channel of this key, or by any of this kind.
    pub channel: Option<String>,
    /// Only entries made at this moment or later.
    pub from: Option<Timestamp>,
    /// Only entries made before this moment.
    pub to: Option<Timestamp>,
    /// Only those above this id.
    pub after: i64,
}

impl ReplaySelection {
    fn named(&self) -> usize {
        self.ids.as_ref().map_or(0, Vec::len) + self.public_ids.as_ref().map_or(0, Vec::len)
    }

    /// Whether it asks for deliveries, which entries without any do not have.
    const fn asks_for_deliveries(&self) -> bool {
        self.status.is_some() || self.channel.is_some()
    }
}

/// What a replay did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The notifications of which something is sent again.
    pub ids: Vec<EntryId>,
    /// The surveys of which something is sent again.
    pub instances: Vec<PublicId>,
    /// Messages that are sent again.
    pub again: u64,
    /// Deliveries of failed entries that stay: they were sent, and their keys stop a second time.
    pub stopped: u64,
    /// Failed notifications without any delivery: they had no template. See [`super::replan`].
    pub unplanned: Vec<EntryId>,
    /// What is sent again and what stays, one by one, a bounded number of them; by a dry run only.
    pub told: Vec<Foreseen>,
    /// Where the next step begins, if there may be more.
    pub next: Option<i64>,
}

impl Store {
    /// Puts what failed of entries back to work, a bounded number at a time; a dry run writes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many ids.
    pub fn replay_failed(
        &self,
        tenant: Tenant,
        which: ReplaySelection,
        dry_run: bool,
    ) -> VerbFuture<'_, Replayed> {
        VerbFuture::new(async move {
            let named = which.named();
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

/// Entries looked at by one transaction.
const STEP_MAX: usize = 500;

/// Which deliveries of failed entries are put back.
pub(super) struct GivenUpFilter<'a> {
    entries: Vec<i64>,
    channels: Option<Vec<Option<&'a str>>>,
    status: Option<i64>,
}

impl GivenUpFilter<'_> {
    /// The parameters of statements that say [`given_up`].
    pub(super) fn values(&self, limit: i64) -> [Value<'_>; 5] {
        [
            Value::Ints(&self.entries),
            limit.into(),
            self.channels.is_none().into(),
            Value::Texts(self.channels.as_deref().unwrap_or_default()),
            self.status.into(),
        ]
    }
}

async fn replay(tx: &mut Tx, tenant: Tenant, which: &ReplaySelection, dry_run: bool) -> Result<Replayed> {
    let (entries, surveys) = failed(tx, tenant, which, dry_run).await?;
    let next = entries.last().copied().filter(|_| entries.len() == STEP_MAX);
    let mut replayed = Replayed { next, ..Replayed::default() };
    if entries.is_empty() {
        return Ok(replayed);
    }
    let named = match &which.channel {
        Some(named) => Some(channels_named(tx, tenant, named).await?),
        None => None,
    };
    let channels = named.as_ref().map(|keys| keys.iter().map(|key| Some(key.as_str())).collect());
    let filter = GivenUpFilter { entries, channels, status: which.status.map(DeliveryStatus::code) };
    if !which.asks_for_deliveries() {
        let unplanned = tx.query(UNPLANNED, &[Value::Ints(&filter.entries)]).await?;
        replayed.unplanned = unplanned.iter().map(|row| Ok(EntryId(row.int(0)?))).collect::<Result<_>>()?;
    }
    let sent = tx.first(SENT, &[Value::Ints(&filter.entries)]).await?;
    replayed.stopped = u64::from(sent.map_or(Ok(0), |row| row.count(0))?);
    let given_up = tx.query(if dry_run { GIVEN_UP } else { LOCKED }, &filter.values(i64::MAX)).await?;
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for row in &given_up {
        *counts.entry(row.int(1)?).or_default() += 1;
    }
    let now = tx.now().await?;
    let mut surveys = surveys;
    surveys.retain(|id| !which.asks_for_deliveries() || counts.contains_key(id));
    let reopened = super::super::entries::replay::reopen(tx, &surveys, &counts, now, dry_run).await?;
    let anew = reopened.iter().filter(|one| one.planned_key.is_some()).count();
    if dry_run {
        replayed.told = preview::of_entries(tx, &filter, &reopened).await?;
    } else if !given_up.is_empty() {
        put_back(tx, &given_up, now).await?;
    }
    counts.retain(|id, _| !surveys.contains(id));
    if !dry_run {
        reopen(tx, &counts).await?;
    }
    replayed.ids = counts.keys().copied().map(EntryId).collect();
    replayed.instances = reopened.into_iter().map(|one| one.public_id).collect();
    replayed.again = (given_up.len() + anew) as u64;
    Ok(replayed)
}

/// The ids of failed entries that are asked for, in order, and of the surveys among them. They are locked,
/// unless it is a dry run: whoever needs an entry and its deliveries locks the entry first.
async fn failed(
    tx: &mut Tx,
    tenant: Tenant,
    which: &ReplaySelection,
    dry_run: bool,
) -> Result<(Vec<i64>, Vec<i64>)> {
    let mut ids: Vec<i64> = which.ids.iter().flatten().map(|id| id.0).collect();
    ids.extend(ids_of(tx, tenant, which.public_ids.as_deref().unwrap_or_default()).await?);
    let row = [
        tenant.id().into(),
        which.after.into(),
        i64::try_from(STEP_MAX).unwrap_or(i64::MAX).into(),
        NotificationStatus::Failed.code().into(),
        (which.ids.is_none() && which.public_ids.is_none()).into(),
        Value::Ints(&ids),
        which.entity_type.as_deref().into(),
        which.entity_id.as_deref().into(),
        which.kind.as_deref().into(),
        which.from.map(Timestamp::as_micros).into(),
        which.to.map(Timestamp::as_micros).into(),
    ];
    let (mut entries, mut surveys) = (Vec::new(), Vec::new());
    for row in tx.query(if dry_run { FAILED } else { FAILED_LOCKED }, &row).await? {
        let id = row.int(0)?;
        entries.push(id);
        if read_kind(&row.text(1)?)? == EntryKind::Survey {
            surveys.push(id);
        }
    }
    Ok((entries, surveys))
}

/// The numbers of surveys by their public ids.
async fn ids_of(tx: &mut Tx, tenant: Tenant, public_ids: &[PublicId]) -> Result<Vec<i64>> {
    if public_ids.is_empty() {
        return Ok(Vec::new());
    }
    let halves: Vec<(i64, i64)> = public_ids.iter().map(|id| id.halves()).collect();
    let high: Vec<i64> = halves.iter().map(|(high, _)| *high).collect();
    let mut ids = Vec::with_capacity(public_ids.len());
    for row in tx.query(BY_PUBLIC_IDS, &[tenant.id().into(), Value::Ints(&high)]).await? {
        if halves.contains(&(row.int(1)?, row.int(2)?)) {
            ids.push(row.int(0)?);
        }
    }
    Ok(ids)
}

const BY_PUBLIC_IDS: &str = "select id, public_high, public_low from punctual.entry \
    where public_high = any($2::bigint[]) and tenant_id = $1 and kind = 'survey'";

macro_rules! failed {
    ($lock:literal) => {
        concat!(
            "select n.id, n.kind from punctual.entry n \
             where n.tenant_id = $1 and n.id > $2 and n.status = $4 and n.deleted_at is null \
                and ($5 = 1 or n.id = any($6::bigint[])) \
                and ($7::text is null or lower(n.entity_type) = lower($7)) \
                and ($8::text is null or n.entity_id = $8) and ($9::text is null or n.event_kind = $9) \
                and ($10::bigint is null or n.created_at >= $10) \
                and ($11::bigint is null or n.created_at < $11) \
             order by n.id limit $3",
            $lock
        )
    };
}
const FAILED: &str = failed!("");
const FAILED_LOCKED: &str = failed!(" for update");
/// The number of `Failed` is the same for every kind.
const _: () = assert!(NotificationStatus::Failed as i64 == Status::Failed.code());
const UNPLANNED: &str = "select n.id from punctual.entry n where n.id = any($1::bigint[]) \
    and n.kind = 'notification' \
    and not exists (select 1 from punctual.delivery d where d.entry_id = n.id) order by n.id";
const SENT: &str = "select count(*) from punctual.delivery \
    where entry_id = any($1::bigint[]) and status in (1, 2)";
const _: () = assert!(DeliveryStatus::Sent as i64 == 1 && DeliveryStatus::Delivered as i64 == 2);

/// Which deliveries of failed entries are sent again: what was given up and nothing took the place of; of a
/// survey only its last send.
macro_rules! given_up {
    () => {
        "(d.status in (3, 5) and d.replaced_by is null \
            and (n.kind <> 'survey' or d.send = n.reminders - n.remaining + 1) \
            and ($3 = 1 or d.channel = any($4::text[])) and ($5::bigint is null or d.status = $5))"
    };
}
pub(super) use given_up;

macro_rules! select_given_up {
    ($lock:literal) => {
        concat!(
            "select d.id, d.entry_id, d.lane_id \
             from punctual.delivery d join punctual.entry n on n.id = d.entry_id \
             where d.entry_id = any($1::bigint[]) and ",
            given_up!(),
            " order by d.id limit $2",
            $lock
        )
    };
}
const GIVEN_UP: &str = select_given_up!("");
/// In one order, so that two replays never wait for each other in a circle; the second finds nothing left.
const LOCKED: &str = select_given_up!(" for update of d");
const _: () = assert!(DeliveryStatus::Failed as i64 == 3 && DeliveryStatus::Uncertain as i64 == 5);

async fn put_back(tx: &mut Tx, given_up: &[Row], now: Timestamp) -> Result<()> {
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
