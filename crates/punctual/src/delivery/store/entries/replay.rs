//! Failed entries of every kind again: deliveries that were given up or are uncertain wait once more.
//!
//! A delivery keeps its row and its key, so a replay cannot send a message a second time: only deliveries
//! that were not sent are put back, and the statement that does it looks once more. Tries count from 0 again,
//! and the history stays. A delivery that another channel took over stays as it is.
//!
//! An entry with a timetable whose last send has no delivery to put back, because that was skipped, is
//! advanced anew, and the reminders that were left after it follow.
//!
//! Not promised: that an uncertain message did not go out the first time. The person who replays it has
//! decided that.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::{Row, Value, params};
use crate::delivery::rules::delivery::{DeliveryStatus, delivery_status};
use crate::delivery::store::deliveries::log::channels_named;
use crate::delivery::store::entries::actions::EntryAction;
use crate::delivery::store::entries::preview::{self, PreviewedMessage};
use crate::flow::rules::entry::{EntryStatus, entry_status};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::history::{ChangeAuthor, NewChange, add_changes};
use crate::flow::store::entries::{Entry, entries_by_id, wait_for_entries};
use crate::queue::store::waiting_work::{ADD_WORK_ROW, add_work, let_wait};
use std::collections::BTreeMap;

/// Selects failed entries, of every kind. A field that is `None` matches every entry.
#[derive(Clone, Debug, Default)]
pub struct ReplaySelection {
    /// Only these and those of `public_ids`.
    pub ids: Option<Vec<EntryId>>,
    /// Only these surveys and those of `ids`.
    pub public_ids: Option<Vec<PublicId>>,
    /// Only about an entity of this type, in upper or lower case.
    pub entity_type: Option<String>,
    /// Only about the entity of this id.
    pub entity_id: Option<String>,
    /// Only of events of this kind.
    pub kind: Option<String>,
    /// Only deliveries with this status: failed or uncertain.
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

    /// Whether a condition is on deliveries, so that entries without any do not match.
    const fn asks_for_deliveries(&self) -> bool {
        self.status.is_some() || self.channel.is_some()
    }
}

/// Whether a replay is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayMode {
    /// The replay reports what it would do, and writes nothing.
    DryRun,
    /// The replay is carried out, for this author.
    Real(ChangeAuthor),
}

impl ReplayMode {
    /// The mode of a request that says whether it is a dry run.
    #[must_use]
    pub fn of(dry_run: bool, author: ChangeAuthor) -> Self {
        if dry_run { Self::DryRun } else { Self::Real(author) }
    }
}

/// The result of a replay, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// The entries of which something is sent again; those with a public id are in `instances`.
    pub ids: Vec<EntryId>,
    /// The same, by their public ids.
    pub instances: Vec<PublicId>,
    /// Messages that are sent again.
    pub again: u64,
    /// Deliveries of failed entries that stay: they were sent, and their keys stop a second time.
    pub stopped: u64,
    /// Failed notifications without any delivery: they had no template. See [`super::replan`].
    pub unplanned: Vec<EntryId>,
    /// The deliveries that are sent again and those that stay, one by one, up to a limit; by a dry run only.
    pub told: Vec<PreviewedMessage>,
    /// Where the next step begins, if there may be more.
    pub next: Option<i64>,
}

impl Store {
    /// Puts what failed of entries back to work, a bounded number at a time, each with a line of history; a
    /// dry run writes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many ids.
    pub fn replay_failed(
        &self,
        tenant: Tenant,
        which: ReplaySelection,
        mode: ReplayMode,
    ) -> VerbFuture<'_, ReplayOutcome> {
        VerbFuture::new(async move {
            let named = which.named();
            if named > limits::BATCH_ITEMS_MAX {
                let said = format!("{named} ids, at most {} are allowed", limits::BATCH_ITEMS_MAX);
                return Err(Error::invalid("ids", said));
            }
            self.of(tenant)
                .write((tenant, which, mode), |tx, (tenant, which, mode)| {
                    Box::pin(replay(tx, *tenant, which, mode))
                })
                .await
        })
    }
}

/// Entries looked at by one transaction.
const STEP_MAX: usize = 500;

/// Which deliveries of failed entries are put back.
pub(crate) struct GivenUpFilter<'a> {
    entries: Vec<i64>,
    channels: Option<Vec<Option<&'a str>>>,
    status: Option<i64>,
}

impl GivenUpFilter<'_> {
    /// The parameters of statements that say [`given_up`].
    pub(crate) fn values(&self, limit: i64) -> [Value<'_>; 5] {
        [
            Value::Ints(&self.entries),
            limit.into(),
            self.channels.is_none().into(),
            Value::Texts(self.channels.as_deref().unwrap_or_default()),
            self.status.into(),
        ]
    }
}

async fn replay(
    tx: &mut Tx,
    tenant: Tenant,
    which: &ReplaySelection,
    mode: &ReplayMode,
) -> Result<ReplayOutcome> {
    let dry_run = *mode == ReplayMode::DryRun;
    let ids = failed(tx, tenant, which).await?;
    let next = ids.last().copied().filter(|_| ids.len() == STEP_MAX);
    let mut replayed = ReplayOutcome { next, ..ReplayOutcome::default() };
    // A transaction that needs an entry and its deliveries locks the entry first.
    let mut entries =
        if dry_run { entries_by_id(tx, &ids).await? } else { wait_for_entries(tx, &ids).await? };
    entries.retain(|entry| entry.state.status == EntryStatus::Failed && !entry.deleted);
    entries.sort_by_key(|entry| entry.id);
    if entries.is_empty() {
        return Ok(replayed);
    }
    let named = match &which.channel {
        Some(named) => Some(channels_named(tx, tenant, named).await?),
        None => None,
    };
    let channels = named.as_ref().map(|keys| keys.iter().map(|key| Some(key.as_str())).collect());
    let ids = entries.iter().map(|entry| entry.id.0).collect();
    let filter = GivenUpFilter { entries: ids, channels, status: which.status.map(DeliveryStatus::code) };
    let sent = tx.first(SENT, &[Value::Ints(&filter.entries)]).await?;
    replayed.stopped = u64::from(sent.map_or(Ok(0), |row| row.count(0))?);
    let given_up = tx.query(if dry_run { GIVEN_UP } else { LOCKED }, &filter.values(i64::MAX)).await?;
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for row in &given_up {
        *counts.entry(row.int(1)?).or_default() += 1;
    }
    let (again, without): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| counts.contains_key(&entry.id.0));
    let has_none = if which.asks_for_deliveries() { Vec::new() } else { without };
    let (anew, unplanned): (Vec<&Entry>, Vec<&Entry>) =
        has_none.into_iter().partition(|entry| entry.kind.has_timetable());
    replayed.unplanned = without_deliveries(tx, &unplanned).await?;
    let now = tx.now().await?;
    match mode {
        ReplayMode::DryRun => replayed.told = preview::of_entries(tx, &filter, &anew).await?,
        ReplayMode::Real(author) => {
            put_back(tx, &given_up, now).await?;
            reopen(tx, &again, &counts, now).await?;
            advance_anew(tx, &anew, now).await?;
            add_replays(tx, again.iter().chain(&anew).copied(), author, now).await?;
        }
    }
    replayed.again = (given_up.len() + anew.len()) as u64;
    for entry in again.iter().chain(&anew) {
        match entry.public_id {
            Some(id) => replayed.instances.push(id),
            None => replayed.ids.push(entry.id),
        }
    }
    Ok(replayed)
}

/// The ids of failed entries that are asked for, in order.
async fn failed(tx: &mut Tx, tenant: Tenant, which: &ReplaySelection) -> Result<Vec<i64>> {
    let mut ids: Vec<i64> = which.ids.iter().flatten().map(|id| id.0).collect();
    ids.extend(ids_of(tx, tenant, which.public_ids.as_deref().unwrap_or_default()).await?);
    let all = which.ids.is_none() && which.public_ids.is_none();
    let row = [
        tenant.id().into(),
        which.after.into(),
        i64::try_from(STEP_MAX).unwrap_or(i64::MAX).into(),
        EntryStatus::Failed.code().into(),
        which.entity_type.as_deref().into(),
        which.entity_id.as_deref().into(),
        which.kind.as_deref().into(),
        which.from.into(),
        which.to.into(),
        Value::Ints(&ids),
    ];
    let rows = match all {
        true => tx.query(FAILED, &row[..9]).await?,
        false => tx.query(FAILED_NAMED, &row).await?,
    };
    rows.iter().map(|row| row.int(0)).collect()
}

/// The numbers of entries by their public ids.
async fn ids_of(tx: &mut Tx, tenant: Tenant, public_ids: &[PublicId]) -> Result<Vec<i64>> {
    if public_ids.is_empty() {
        return Ok(Vec::new());
    }
    let halves: Vec<(i64, i64)> = public_ids.iter().map(|id| id.to_halves()).collect();
    let high: Vec<i64> = halves.iter().map(|(high, _)| *high).collect();
    let mut ids = Vec::with_capacity(public_ids.len());
    for row in tx.query(BY_PUBLIC_IDS, &[tenant.id().into(), Value::Ints(&high)]).await? {
        if halves.contains(&(row.int(1)?, row.int(2)?)) {
            ids.push(row.int(0)?);
        }
    }
    Ok(ids)
}

statements! {
    const BY_PUBLIC_IDS = "
        select id, public_high, public_low
        from punctual.entry
        where public_high = any($2::bigint[]) and tenant_id = $1
    ";
}

macro_rules! failed {
    ($condition:literal) => {
        concat! {"
            select n.id
            from punctual.entry n
            where n.tenant_id = $1
                and n.id > $2
                and n.status = $4
                and n.deleted_at is null ", $condition, "
                and ($5::text is null or lower(n.entity_type) = lower($5))
                and ($6::text is null or n.entity_id = $6)
                and ($7::text is null or n.event_kind = $7)
                and ($8::bigint is null or n.created_at >= $8)
                and ($9::bigint is null or n.created_at < $9)
            order by n.id
            limit $3
        "}
    };
}

statements! {
    const FAILED = failed!("");

    const FAILED_NAMED = failed!(" and n.id = any($10::bigint[])");

    const SENT = "
        select count(*)
        from punctual.delivery
        where entry_id = any($1::bigint[])
            and status in (", delivery_status!(Sent), ", ", delivery_status!(Delivered), ")
    ";
}

/// Those of these entries that never had a delivery.
async fn without_deliveries(tx: &mut Tx, entries: &[&Entry]) -> Result<Vec<EntryId>> {
    let ids: Vec<i64> = entries.iter().map(|entry| entry.id.0).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = tx.query(UNPLANNED, &[Value::Ints(&ids)]).await?;
    rows.iter().map(|row| row.int(0).map(EntryId)).collect()
}

statements! {
    const UNPLANNED = "
        select n.id
        from punctual.entry n
        where n.id = any($1::bigint[])
            and not exists (select 1 from punctual.delivery d where d.entry_id = n.id)
        order by n.id
    ";
}

/// Which deliveries of failed entries are sent again: those of the last send that were given up and that
/// nothing took the place of.
macro_rules! given_up {
    () => {
        concat! {"
        (
            d.status in (", delivery_status!(Failed), ", ", delivery_status!(Uncertain), ")
                and d.replaced_by is null
                and d.send = n.reminders - n.remaining + 1
                and ($3 = 1 or d.channel = any($4::text[]))
                and ($5::bigint is null or d.status = $5)
        )
        "}
    };
}
pub(crate) use given_up;

macro_rules! select_given_up {
    ($lock:literal) => {
        concat! {"
            select d.id, d.entry_id, d.lane_id
            from punctual.delivery d
            join punctual.entry n on n.id = d.entry_id
            where d.entry_id = any($1::bigint[]) and ", given_up!(), "
            order by d.id
            limit $2 ", $lock}
    };
}

statements! {
    const GIVEN_UP = select_given_up!("");

    /// In one order, so that two replays never wait for each other in a circle; the second finds nothing
    /// left.
    const LOCKED = select_given_up!(" for update of d");
}

/// Lets the deliveries of an entry's last send wait again that were given up; returns how many. The entry
/// must be locked.
pub(crate) async fn put_back_given_up(tx: &mut Tx, entry: EntryId, now: Timestamp) -> Result<i64> {
    let filter = GivenUpFilter { entries: vec![entry.0], channels: None, status: None };
    let given_up = tx.query(LOCKED, &filter.values(i64::MAX)).await?;
    put_back(tx, &given_up, now).await?;
    Ok(i64::try_from(given_up.len()).unwrap_or(i64::MAX))
}

async fn put_back(tx: &mut Tx, given_up: &[Row], now: Timestamp) -> Result<()> {
    let ids = given_up.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    let lanes = given_up.iter().map(|row| row.int(2)).collect::<Result<Vec<_>>>()?;
    if ids.is_empty() {
        return Ok(());
    }
    tx.execute(WAIT, &[now.into(), Value::Ints(&ids)]).await?;
    let due = vec![now.as_micros(); ids.len()];
    let work = [Column::Ints(ids), Column::Ints(lanes), Column::Ints(due)];
    tx.in_columns((WORK_AT_ONCE, ADD_WORK_ROW), &[], &work).await?;
    Ok(())
}

statements! {
    const WAIT = "
        update punctual.delivery
        set status = ", delivery_status!(Pending), ", held = 0, due_at = $1,
            tried_before = tried_before + tries, tries = 0,
            version = version + 1
        where id = any($2::bigint[])
            and status in (", delivery_status!(Failed), ", ", delivery_status!(Uncertain), ")
    ";

    const WORK_AT_ONCE for Postgres = add_work!(), "
        select unnest($1::bigint[]), unnest($2::int[]), unnest($3::bigint[])
    ";
}

/// Entries wait for their deliveries again. The reason of their end stays until they end once more.
async fn reopen(tx: &mut Tx, entries: &[&Entry], counts: &BTreeMap<i64, i64>, now: Timestamp) -> Result<()> {
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let count = counts.get(&entry.id.0).copied().unwrap_or_default();
        let due = entry.kind.has_timetable().then_some(now);
        rows.push(params![entry.id.0, count, due].to_vec());
    }
    tx.each(REOPEN, &rows).await?;
    Ok(())
}

statements! {
    const REOPEN = "
        update punctual.entry
        set open = open + $2, failed = case when failed > $2 then failed - $2 else 0 end,
            status = ", entry_status!(Pending), ",
            reason = null, error = null, ended_at = null, due_at = $3, version = version + 1
        where id = $1
    ";
}

/// Writes into the history that entries were replayed.
pub(crate) async fn add_replays(
    tx: &mut Tx,
    entries: impl Iterator<Item = &Entry>,
    author: &ChangeAuthor,
    now: Timestamp,
) -> Result<()> {
    let changes = entries.map(|entry| NewChange {
        tenant: entry.tenant,
        entry: entry.id,
        action: EntryAction::Retry.word(),
        from: entry.state.status.word(),
        to: EntryStatus::Pending.word(),
        actor: &author.actor,
        reason: &author.reason,
        cause: None,
    });
    add_changes(tx, &changes.collect::<Vec<_>>(), now).await
}

/// Entries with a timetable plan their last send anew.
async fn advance_anew(tx: &mut Tx, entries: &[&Entry], now: Timestamp) -> Result<()> {
    for entry in entries {
        let Some(lane) = entry.lane else { continue };
        tx.execute(REOPEN, params![entry.id.0, 1, now]).await?;
        let_wait(tx, entry.id.0, lane.0, now).await?;
    }
    Ok(())
}
