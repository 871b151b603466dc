//! Due entries get the delivery of their next send.
//!
//! [`Store::peek_entries`] reads what is due and takes nothing, so that definitions can be loaded and
//! sends planned outside of any transaction. [`Store::advance_entries`] then takes exactly these work
//! rows, looks at each entry
//! **under its lock** in the version that the send was planned for, and writes the delivery: as work of
//! its channel's lane, or together with the claim under which it is sent at once. An entry that has ended
//! by then gets none. One that has changed, or that another transaction has locked at this moment, goes
//! back and is planned anew.
//!
//! A delivery of that send may be there already, because a reaped claim could not say what follows: its
//! outcome moves the entry then.
//!
//! Not promised: that a recipient gets no message after they answered. One that left just before may
//! arrive just after.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::database::columns::Column;
use crate::database::crash_points::{CrashPoint, reach};
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::params;
use crate::delivery::rules::delivery::{DeliveryStatus, PlannedDelivery};
use crate::delivery::store::deliveries::begin::{self, BeginRequest};
use crate::delivery::store::deliveries::delivery::{ClaimedDeliveries, read_status};
use crate::delivery::store::deliveries::new_deliveries::{
    NewDelivery, SendLanes, insert_deliveries, send_lane,
};
use crate::delivery::store::entries::step::{EntryContext, EntryStep, SendResult, write_steps};
use crate::flow::store::entries::trace::{NewTrace, add_traces};
use crate::flow::store::entries::{Entry, entries_by_id};
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::waiting_work::let_wait;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where the work of a due entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWork {
    /// The entry.
    pub id: i64,
    /// The lane.
    pub lane: LaneId,
    /// When it was due.
    pub due_at: Timestamp,
}

/// A stretch of a lane's work, in its order: by due time, then by entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRange {
    /// The due time and the entry of the first.
    pub first: (Timestamp, i64),
    /// The due time and the entry of the last.
    pub last: (Timestamp, i64),
}

impl WorkRange {
    /// Contains nothing.
    pub const EMPTY: Self = Self { first: (Timestamp::MIN, i64::MIN), last: (Timestamp::MIN, i64::MIN) };
}

/// How much of a lane is to be read.
#[derive(Clone, Copy, Debug)]
pub struct PeekQuota {
    /// The lane, and how much of it.
    pub take: LaneQuota,
    /// Work that this process is just advancing: it is left out.
    pub beside: WorkRange,
}

impl From<LaneQuota> for PeekQuota {
    /// All work of the lane.
    fn from(take: LaneQuota) -> Self {
        Self { take, beside: WorkRange::EMPTY }
    }
}

/// The due work, as it was read.
#[derive(Clone, Debug, Default)]
pub struct PeekedEntries {
    /// Due entries, in their order.
    pub due: Vec<(DueWork, Arc<Entry>)>,
    /// Work whose entry is gone.
    pub gone: Vec<DueWork>,
}

/// A send that was planned for a due entry.
#[derive(Clone, Debug)]
pub struct PlannedSend {
    /// Its work.
    pub work: DueWork,
    /// The entry as it was seen, and its timetable.
    pub context: EntryContext,
    /// The delivery.
    pub planned: PlannedDelivery,
    /// The data that was loaded for the send and that its delivery does not say, as JSON.
    pub trace: Option<String>,
}

/// The result of an advance.
#[derive(Debug, Default)]
pub struct AdvanceOutcome {
    /// Claims of deliveries that are to be sent now.
    pub begun: Vec<(ClaimedDeliveries, Vec<EntryContext>)>,
    /// Work rows that were taken.
    pub taken: usize,
}

struct Request {
    sends: Vec<PlannedSend>,
    gone: Vec<DueWork>,
    start: Option<BeginRequest>,
}

impl Store {
    /// Reads the due entries of these lanes.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn peek_entries(&self, takes: Vec<PeekQuota>) -> VerbFuture<'_, PeekedEntries> {
        self.read(takes, |tx, takes| Box::pin(peek(tx, takes, DUE_WORK)))
    }

    /// Reads the due entries of these lanes, on PostgreSQL but for those that another process is just taking.
    /// For that it locks what it reads, which writes to every row.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn peek_entries_beside_others(&self, takes: Vec<PeekQuota>) -> VerbFuture<'_, PeekedEntries> {
        self.read_locked(takes, |tx, takes| Box::pin(peek(tx, takes, DUE_WORK_BESIDE_OTHERS)))
    }

    /// Writes the planned deliveries of due entries; with `start`, begins those that nothing waits before.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn advance_entries(
        &self,
        sends: Vec<PlannedSend>,
        gone: Vec<DueWork>,
        start: Option<BeginRequest>,
    ) -> VerbFuture<'_, AdvanceOutcome> {
        VerbFuture::new(async move {
            let request = Request { sends, gone, start };
            let advanced = self.write(request, |tx, request| Box::pin(advance(tx, request))).await?;
            if !advanced.begun.is_empty() {
                reach(CrashPoint::ClaimedBeforeAnswer);
            }
            Ok(advanced)
        })
    }
}

async fn peek(tx: &mut Tx, takes: &[PeekQuota], due_work: &'static str) -> Result<PeekedEntries> {
    let now = tx.now().await?;
    let mut work = Vec::new();
    for PeekQuota { take, beside } in takes {
        let quota = i64::try_from(take.quota).unwrap_or(i64::MAX);
        let (word, (first, last)) = (Purpose::Advance.word(), (beside.first, beside.last));
        let row = params![take.lane.0, take.since, now, quota, word, first.0, first.1, last.0, last.1];
        for row in tx.query(due_work, row).await? {
            work.push(DueWork { id: row.int(0)?, lane: take.lane, due_at: row.time(1)? });
        }
    }
    let ids: Vec<i64> = work.iter().map(|work| work.id).collect();
    let mut entries = HashMap::with_capacity(ids.len());
    if !ids.is_empty() {
        for entry in entries_by_id(tx, &ids).await? {
            entries.insert(entry.id.0, Arc::new(entry));
        }
    }
    let mut peeked = PeekedEntries::default();
    for work in work {
        match entries.get(&work.id) {
            Some(entry) => peeked.due.push((work, Arc::clone(entry))),
            None => peeked.gone.push(work),
        }
    }
    Ok(peeked)
}

macro_rules! due_work {
    ($locks:literal) => {
        concat! {"
            select message_id, due_at
            from punctual.work
            where lane_id = $1
                and due_at >= $2
                and due_at <= $3
                and ((due_at, message_id) < ($6, $7) or (due_at, message_id) > ($8, $9))
                and exists (
                    select 1
                    from punctual.lane l
                    where l.id = $1 and l.paused = 0 and l.purpose = $5
                )
            order by due_at, message_id
            limit $4 ", $locks}
    };
}

statements! {
    const DUE_WORK = due_work!("");

    const DUE_WORK_BESIDE_OTHERS = due_work!(" for update skip locked");
}

async fn advance(tx: &mut Tx, request: &Request) -> Result<AdvanceOutcome> {
    let now = tx.now().await?;
    let work = request.sends.iter().map(|send| &send.work).chain(&request.gone);
    let taken = take(tx, &work.collect::<Vec<_>>()).await?;
    let sends: Vec<&PlannedSend> =
        request.sends.iter().filter(|send| taken.contains_key(&send.work.id)).collect();
    let due = last_look(tx, sends, &taken, now).await?;
    let mut advanced = AdvanceOutcome { begun: Vec::new(), taken: taken.len() };
    if due.is_empty() {
        return Ok(advanced);
    }
    let traces = due.iter().filter_map(|send| {
        let (entry, detail) = (&send.context.entry, send.trace.as_deref()?);
        Some(NewTrace { tenant: entry.tenant, entry: entry.id, step: "advanced", detail })
    });
    add_traces(tx, &traces.collect::<Vec<_>>(), now).await?;
    let rows = new_deliveries(tx, &due).await?;
    let (begun, waiting) = begin::choose(tx, request.start.as_ref(), rows, now).await?;
    let written = begin::insert(tx, &begun, now).await?;
    let made = insert_deliveries(tx, &waiting, now).await?;
    let there: HashSet<i64> = written
        .iter()
        .map(|due| due.delivery.entry.0)
        .chain(waiting.iter().filter(|row| made.of(row).is_some()).map(|row| row.entry.0))
        .collect();
    let known: Vec<&PlannedSend> =
        due.iter().filter(|send| !there.contains(&send.work.id)).copied().collect();
    go_on(tx, &known, now).await?;
    if let Some(start) = request.start.as_ref().filter(|_| !written.is_empty()) {
        advanced.begun = with_contexts(begin::hold(tx, start, written, now).await?, &due);
    }
    Ok(advanced)
}

/// Each claim with the contexts of its deliveries, in their order.
fn with_contexts(
    begun: Vec<ClaimedDeliveries>,
    due: &[&PlannedSend],
) -> Vec<(ClaimedDeliveries, Vec<EntryContext>)> {
    let contexts: HashMap<i64, &EntryContext> =
        due.iter().map(|send| (send.work.id, &send.context)).collect();
    let of = |outgoing: &ClaimedDeliveries| {
        let deliveries = outgoing.due.iter();
        deliveries.filter_map(|due| contexts.get(&due.delivery.entry.0).copied().cloned()).collect()
    };
    begun.into_iter().map(|outgoing| (of(&outgoing), outgoing)).map(|(a, b)| (b, a)).collect()
}

/// Takes those of these work rows that no transaction has locked and whose lanes were not paused since they
/// were read, and locks their entries. Returns the version of each entry, `None` for one that another
/// transaction has locked at this moment.
async fn take(tx: &mut Tx, work: &[&DueWork]) -> Result<HashMap<i64, Option<i64>>> {
    let columns = [
        Column::Ints(work.iter().map(|work| work.lane.0).collect()),
        Column::Ints(work.iter().map(|work| work.due_at.as_micros()).collect()),
        Column::Ints(work.iter().map(|work| work.id).collect()),
    ];
    let at_once = if tx.has(PlantedBug::IntentWithoutLock) { TAKE_WITHOUT_LOCK } else { TAKE_AT_ONCE };
    let rows = tx.in_columns((at_once, TAKE), &[], &columns).await?;
    let versions = tx.listed(&rows, 1)?.into_iter().map(|version| (version != NO_VERSION).then_some(version));
    Ok(tx.listed(&rows, 0)?.into_iter().zip(versions).collect())
}

/// An entry that could not be locked, as [`take`] reads it.
const NO_VERSION: i64 = 0;

macro_rules! take_at_once {
    ($locks:literal) => {
        concat! {"
            with picked as materialized (
                select w.ctid as place
                from unnest($1::int[], $2::bigint[], $3::bigint[]) x (lane_id, due_at, id)
                join punctual.lane l on l.id = x.lane_id and l.paused = 0
                join punctual.work w on w.lane_id = x.lane_id
                    and w.due_at = x.due_at
                    and w.message_id = x.id
                for update of w skip locked
            ),
            taken as (
                delete from punctual.work
                where ctid = any(array(select place from picked))
                returning message_id
            )
            select array_agg(taken.message_id), array_agg(coalesce(e.version, 0)::bigint)
            from taken
            left join lateral (
                select version
                from punctual.entry
                where id = taken.message_id ", $locks, "
            ) e on true
        "}
    };
}

statements! {
    const TAKE_AT_ONCE for Postgres = take_at_once!(" for update skip locked");

    /// A planted bug: an entry that another transaction is just changing is taken for what it was.
    const TAKE_WITHOUT_LOCK for Postgres = take_at_once!("");

    /// SQLite's writer is alone: what it reads is locked.
    const TAKE = "
        delete from punctual.work
        where lane_id = $1
            and due_at = $2
            and message_id = $3
            and exists (select 1 from punctual.lane l where l.id = $1 and l.paused = 0)
        returning message_id,
            coalesce((select e.version from punctual.entry e where e.id = punctual.work.message_id), 0)
    ";
}

/// Returns the planned sends that are still valid, each under its entry's lock. A send whose entry has
/// changed since it was planned, or is locked by another transaction at this moment, goes back as it was.
async fn last_look<'a>(
    tx: &mut Tx,
    sends: Vec<&'a PlannedSend>,
    versions: &HashMap<i64, Option<i64>>,
    now: Timestamp,
) -> Result<Vec<&'a PlannedSend>> {
    let whatever = tx.has(PlantedBug::SendAfterTheEnd);
    let (mut due, mut back) = (Vec::with_capacity(sends.len()), Vec::new());
    for send in sends {
        let entry = &send.context.entry;
        let is_unchanged = versions.get(&send.work.id) == Some(&Some(entry.version));
        match is_unchanged {
            _ if whatever => due.push(send),
            true => {
                if entry.state.is_due(now) && !entry.deleted && entry.hold.is_none() {
                    due.push(send);
                }
            }
            false => back.push(send),
        }
    }
    for send in back {
        let_wait(tx, send.work.id, send.work.lane.0, send.work.due_at).await?;
    }
    Ok(due)
}

async fn new_deliveries<'a>(tx: &mut Tx, due: &[&'a PlannedSend]) -> Result<Vec<NewDelivery<'a>>> {
    let (mut rows, mut lanes) = (Vec::with_capacity(due.len()), SendLanes::new());
    for send in due {
        let entry = &send.context.entry;
        let (tenant, kind, planned) = (entry.tenant, entry.kind, &send.planned);
        let lane = send_lane(tx, tenant, (kind, &planned.channel), &mut lanes).await?;
        rows.push(NewDelivery { entry: entry.id, kind, tenant, lane, held: false, planned });
    }
    Ok(rows)
}

/// Moves entries whose send has a delivery already, by the outcome of that delivery.
async fn go_on(tx: &mut Tx, known: &[&PlannedSend], now: Timestamp) -> Result<()> {
    let mut steps = Vec::new();
    for send in known {
        let entry = &send.context.entry;
        let row = tx.first(LATEST, params![entry.id.0, i64::from(send.planned.send)]).await?;
        let Some(row) = row else { continue };
        let result = match read_status(row.int(0)?)? {
            DeliveryStatus::Pending => continue,
            DeliveryStatus::Sent | DeliveryStatus::Delivered => SendResult::Sent,
            DeliveryStatus::Failed | DeliveryStatus::Uncertain | DeliveryStatus::Skipped => {
                SendResult::GivenUp
            }
        };
        steps.extend(EntryStep::after(&send.context, entry, result, row.maybe_time(1)?.unwrap_or(now)));
    }
    write_steps(tx, &steps, now).await?;
    Ok(())
}

statements! {
    const LATEST = "
        select status, sent_at
        from punctual.delivery
        where entry_id = $1 and send = $2
        order by id desc
        limit 1
    ";
}
