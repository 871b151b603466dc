//! The step of an entry with a timetable after the outcome of its delivery, and the work that follows,
//! written in the version that was seen.
//!
//! A delivery moves its entry only while the entry waits for that send: a message that another channel sent
//! later in the place of one that bounced, or a send of an entry that has ended, is in the log and moves
//! nothing.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::columns::Column;
use crate::database::dialect::Dialect;
use crate::database::planted_bugs::PlantedBug;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Value, params};
use crate::delivery::store::deliveries::delivery::{DeliveryOutcome, SettledDelivery};
use crate::delivery::store::entries::counts::{CountChange, change_counts};
use crate::delivery::store::entries::end::skip_waiting;
use crate::delivery::store::entries::hooks::{ChangedEntry, EntryEvent, tell_kinds};
use crate::flow::rules::entry::schedule::SendSchedule;
use crate::flow::rules::entry::state::EntryState;
use crate::flow::rules::entry::{Transition, entry_status};
use crate::flow::rules::event_kind::CancelReason;
use crate::flow::store::entries::{Entry, expire_lane, wait_for_entry};
use crate::queue::rules::attempt::kept_error;
use crate::queue::store::waiting_work::{ADD_WORK_ROW, add_work};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The data that the step of an entry needs beside the outcome of its delivery.
#[derive(Clone, Debug)]
pub struct EntryContext {
    /// The entry, as it was when the delivery was claimed.
    pub entry: Arc<Entry>,
    /// The timetable of its trigger; an entry without one has no reminders left.
    pub schedule: Arc<SendSchedule>,
}

/// The result of the send that an entry waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendResult {
    /// A provider took it.
    Sent,
    /// The send was given up.
    GivenUp,
    /// There is no such channel.
    NoChannel,
    /// The recipient may not or does not want to be written to.
    Refused,
    /// The state of its entity makes the send pointless.
    Pointless,
    /// The send waits until this time.
    Shifted(Timestamp),
}

impl SendResult {
    /// Returns the result for the entry; `None` if the send goes on.
    pub(crate) fn of(outcome: &DeliveryOutcome) -> Option<Self> {
        match outcome {
            DeliveryOutcome::Sent { .. } => Some(Self::Sent),
            DeliveryOutcome::Failed { outcome: Some(NO_CHANNEL), .. } => Some(Self::NoChannel),
            DeliveryOutcome::Failed { .. } | DeliveryOutcome::Uncertain { .. } => Some(Self::GivenUp),
            DeliveryOutcome::Skipped { reason, .. } if CancelReason::is_code(reason) => Some(Self::Pointless),
            DeliveryOutcome::Skipped { .. } => Some(Self::Refused),
            DeliveryOutcome::Delayed { until, .. } => Some(Self::Shifted(*until)),
            DeliveryOutcome::Retry { .. }
            | DeliveryOutcome::NotBegun(_)
            | DeliveryOutcome::Redirected { .. } => None,
        }
    }
}

/// The next state of an entry, and the work that follows.
pub(crate) struct EntryStep<'a> {
    pub(crate) context: &'a EntryContext,
    result: SendResult,
    version: i64,
    state: EntryState,
    work: NextWork,
    said: Option<StepReason>,
}

/// Why a send did not go well, as its entry says it.
#[derive(Clone, Debug)]
struct StepReason {
    /// The word for it, where there is one.
    reason: Option<String>,
    /// The sentence.
    error: String,
}

impl StepReason {
    fn of(outcome: &DeliveryOutcome) -> Option<Self> {
        match outcome {
            DeliveryOutcome::Failed { outcome: Some(NO_CHANNEL), error, .. } => {
                Some(Self { reason: Some(NO_CHANNEL.to_owned()), error: kept_error(error) })
            }
            DeliveryOutcome::Failed { error, .. } | DeliveryOutcome::Uncertain { error, .. } => {
                Some(Self { reason: None, error: kept_error(error) })
            }
            DeliveryOutcome::Skipped { reason, said } => {
                Some(Self { reason: Some(reason.clone()), error: said.clone() })
            }
            _ => None,
        }
    }
}

/// The outcome of a send whose channel no process has.
const NO_CHANNEL: &str = "no-channel";

/// The work that follows a send.
#[derive(Clone, Copy, Debug)]
enum NextWork {
    /// The next send.
    Advance(Timestamp),
    /// The end, if the recipient does not answer.
    Expire(Timestamp),
    Nothing,
}

impl<'a> EntryStep<'a> {
    /// Returns the step that the rules give for an entry in its present state; `None` if the entry may not
    /// change any more.
    pub(crate) fn after(
        context: &'a EntryContext,
        entry: &Entry,
        result: SendResult,
        now: Timestamp,
    ) -> Option<Self> {
        let (before, schedule) = (&entry.state, &context.schedule);
        let state = match result {
            SendResult::Sent => before.sent(schedule, now),
            SendResult::GivenUp => before.gave_up(schedule, now),
            SendResult::NoChannel => before.halted(),
            SendResult::Refused => before.refused(),
            SendResult::Pointless => before.after(Transition::Cancelled),
            SendResult::Shifted(at) => before.shifted(at),
        };
        let state = state.ok()?;
        let work = match (result, state.next_send_at) {
            (SendResult::Shifted(_), _) => NextWork::Nothing,
            (_, Some(at)) => NextWork::Advance(at),
            (_, None) => state.expires_at(entry.grace).map_or(NextWork::Nothing, NextWork::Expire),
        };
        Some(Self { context, result, version: entry.version, state, work, said: None })
    }

    /// Says why, where the outcome does.
    fn because(mut self, outcome: &DeliveryOutcome) -> Self {
        self.said = StepReason::of(outcome);
        self
    }

    fn tenant(&self) -> Tenant {
        self.context.entry.tenant
    }

    fn counts(&self) -> (i64, i64) {
        let failed = matches!(self.result, SendResult::GivenUp | SendResult::NoChannel);
        (i64::from(self.result == SendResult::Sent), i64::from(failed))
    }
}

/// Moves the entries whose deliveries have ended, and publishes what was sent. Deliveries without a
/// context are those of other kinds, or of a reaped claim.
pub(crate) async fn after_outcomes(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    replaced: impl Fn(&SettledDelivery) -> bool,
    now: Timestamp,
) -> Result<()> {
    let mut steps = Vec::new();
    for one in ended.iter().filter(|one| !replaced(one)) {
        let (Some(context), Some(result)) = (&one.entry, SendResult::of(&one.outcome)) else { continue };
        if context.entry.waits_for(one.due.delivery.send) || tx.has(PlantedBug::StandingWithoutVersion) {
            let step = EntryStep::after(context, &context.entry, result, now);
            steps.extend(step.map(|step| step.because(&one.outcome)));
        }
    }
    let mut unwritten = HashSet::new();
    for step in write_steps(tx, &steps, now).await? {
        if !write_again(tx, step, now).await? {
            unwritten.insert(step.context.entry.id);
        }
    }
    let written = steps.iter().map(|step| &step.context.entry).filter(|entry| !unwritten.contains(&entry.id));
    let moved: HashSet<(EntryId, u32)> = written.map(|entry| (entry.id, entry.next_send())).collect();
    count_unmoved(tx, ended, &replaced, &moved, now).await?;
    let pointless = steps.iter().filter(|step| step.result == SendResult::Pointless);
    let cancelled: Vec<&Entry> =
        pointless.map(|step| &*step.context.entry).filter(|entry| !unwritten.contains(&entry.id)).collect();
    let ids: Vec<EntryId> = cancelled.iter().map(|entry| entry.id).collect();
    if !ids.is_empty() {
        skip_waiting(tx, &ids, "its entry has ended").await?;
    }
    let sent = ended.iter().filter(|one| matches!(one.outcome, DeliveryOutcome::Sent { .. }));
    let mut news: Vec<ChangedEntry<'_>> = sent
        .filter_map(|one| {
            let entry = &one.entry.as_ref()?.entry;
            Some(ChangedEntry { entry, moment: EntryEvent::Sent { at: now, send: one.due.delivery.send } })
        })
        .collect();
    let cancelled = cancelled.into_iter();
    news.extend(cancelled.map(|entry| ChangedEntry { entry, moment: EntryEvent::Cancelled(now) }));
    tell_kinds(tx, &news).await
}

/// Counts sends that moved no entry: its entry has ended meanwhile, or waits for another send since a receipt
/// said that this one did not arrive.
async fn count_unmoved(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    replaced: impl Fn(&SettledDelivery) -> bool,
    moved: &HashSet<(EntryId, u32)>,
    now: Timestamp,
) -> Result<()> {
    let mut changes: BTreeMap<EntryId, CountChange> = BTreeMap::new();
    for one in ended.iter().filter(|one| !replaced(one)) {
        let delivery = &one.due.delivery;
        // Without a context the entry is advanced anew, which counts the send.
        let is_known = one.entry.is_some() && delivery.kind.has_timetable();
        if !is_known || moved.contains(&(delivery.entry, delivery.send)) {
            continue;
        }
        let (sent, failed) = match SendResult::of(&one.outcome) {
            Some(SendResult::Sent) => (1, 0),
            Some(SendResult::GivenUp | SendResult::NoChannel) => (0, 1),
            _ => continue,
        };
        let change = changes.entry(delivery.entry).or_default();
        (change.sent, change.failed) = (change.sent + sent, change.failed + failed);
    }
    change_counts(tx, &changes, now).await
}

/// An entry that has changed since it was read: the rules are asked once more, under its lock, about how it
/// stands now. Answers whether it was moved.
async fn write_again(tx: &mut Tx, step: &EntryStep<'_>, now: Timestamp) -> Result<bool> {
    let Some(entry) = wait_for_entry(tx, step.context.entry.id).await? else { return Ok(false) };
    if !entry.waits_for(step.context.entry.next_send()) {
        return Ok(false);
    }
    let said = step.said.clone();
    let Some(step) = EntryStep::after(step.context, &entry, step.result, now) else { return Ok(false) };
    Ok(write_steps(tx, &[EntryStep { said, ..step }], now).await?.is_empty())
}

/// Writes steps, each in the version that was seen, with the work that follows; returns the steps of entries
/// that have changed meanwhile.
pub(crate) async fn write_steps<'s, 'a>(
    tx: &mut Tx,
    steps: &'s [EntryStep<'a>],
    now: Timestamp,
) -> Result<Vec<&'s EntryStep<'a>>> {
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let lanes = expire_lanes(tx, steps).await?;
    let work: Vec<WorkRow> = steps.iter().map(|step| WorkRow::of(step, &lanes)).collect();
    let mut columns = step_columns(steps, &work);
    let unversioned = tx.has(PlantedBug::StandingWithoutVersion);
    let (at_once, each) = if unversioned { (UNVERSIONED_AT_ONCE, UNVERSIONED) } else { (AT_ONCE, EACH) };
    let is_sqlite = tx.dialect() == Dialect::Sqlite;
    if is_sqlite {
        columns.truncate(STEP_COLUMNS);
    }
    let written = tx.in_columns((at_once, each), params![now], &columns).await?;
    let written: HashSet<i64> = tx.listed(&written, 0)?.into_iter().collect();
    if is_sqlite {
        let steps = steps.iter().zip(&work).filter(|(step, _)| written.contains(&step.context.entry.id.0));
        let rows: Vec<Vec<Value<'_>>> = steps.filter_map(|(step, row)| row.values(step)).collect();
        tx.each(ADD_WORK_ROW, &rows).await?;
    }
    Ok(steps.iter().filter(|step| !written.contains(&step.context.entry.id.0)).collect())
}

async fn expire_lanes(tx: &mut Tx, steps: &[EntryStep<'_>]) -> Result<BTreeMap<Tenant, i64>> {
    let mut lanes = BTreeMap::new();
    for step in steps.iter().filter(|step| matches!(step.work, NextWork::Expire(_))) {
        let tenant = step.tenant();
        if let std::collections::btree_map::Entry::Vacant(unknown) = lanes.entry(tenant) {
            unknown.insert(expire_lane(tx, tenant).await?);
        }
    }
    Ok(lanes)
}

/// The work row that follows a step, if one does.
#[derive(Clone, Copy, Default)]
struct WorkRow {
    lane: i64,
    due: Option<Timestamp>,
}

impl WorkRow {
    fn of(step: &EntryStep<'_>, lanes: &BTreeMap<Tenant, i64>) -> Self {
        match step.work {
            NextWork::Nothing => Self::default(),
            NextWork::Advance(at) => {
                Self { lane: step.context.entry.lane.map_or(0, |lane| lane.0), due: Some(at) }
            }
            NextWork::Expire(at) => {
                Self { lane: lanes.get(&step.tenant()).copied().unwrap_or_default(), due: Some(at) }
            }
        }
    }

    fn values<'v>(self, step: &EntryStep<'_>) -> Option<Vec<Value<'v>>> {
        let id = step.context.entry.id.0;
        Some(vec![id.into(), self.lane.into(), self.due?.into()])
    }
}

/// Columns that say what an entry becomes; those of its work follow.
const STEP_COLUMNS: usize = 10;

fn step_columns<'s>(steps: &'s [EntryStep<'_>], work: &[WorkRow]) -> Vec<Column<'s>> {
    let ints = |pick: &dyn Fn(&EntryStep<'_>) -> i64| Column::Ints(steps.iter().map(pick).collect());
    let times = |pick: &dyn Fn(&EntryStep<'_>) -> Option<Timestamp>| {
        Column::MaybeInts(steps.iter().map(|s| pick(s).map(Timestamp::as_micros)).collect())
    };
    vec![
        ints(&|s| s.context.entry.id.0),
        ints(&|s| s.version),
        ints(&|s| s.state.status.code()),
        times(&|s| s.state.next_send_at),
        times(&|s| s.state.last_sent_at),
        ints(&|s| s.state.remaining),
        ints(&|s| s.counts().0),
        ints(&|s| s.counts().1),
        Column::Texts(steps.iter().map(|s| s.said.as_ref()?.reason.as_deref()).collect()),
        Column::Texts(steps.iter().map(|s| Some(s.said.as_ref()?.error.as_str())).collect()),
        Column::Ints(work.iter().map(|w| w.lane).collect()),
        Column::MaybeInts(work.iter().map(|w| w.due.map(Timestamp::as_micros)).collect()),
    ]
}

/// Whether nothing is sent of an entry with this status any more.
macro_rules! has_ended {
    ($status:literal) => {
        concat! {$status, " >= ", entry_status!(Completed)}
    };
}
/// An entry that ends is not on hold any more.
macro_rules! stepped {
    (
        $status:literal, $due_at:literal, $last_sent_at:literal,
        $remaining:literal, $sent:literal, $failed:literal, $reason:literal, $error:literal
    ) => {
        concat! {"
            set status = ", $status, ", due_at = ", $due_at, ",
                last_sent_at = ", $last_sent_at, ", remaining = ", $remaining, ",
                sent = e.sent + ", $sent, ", failed = e.failed + ", $failed, ",
                open = case when ", $due_at, " is null then 0 else 1 end,
                held_at = case when ", has_ended!($status), " then null else e.held_at end,
                held_by = case when ", has_ended!($status), " then null else e.held_by end,
                hold_reason = case when ", has_ended!($status), " then null else e.hold_reason end,
                ended_at = case when ", has_ended!($status), " then $1 else e.ended_at end,
                reason = ", $reason, ", error = ", $error, ", version = e.version + 1
        "}
    };
}
macro_rules! at_once {
    ($version:literal) => {
        concat! {"
            with u as (
                update punctual.entry e
                ", stepped!(
                    "x.status", "x.due_at", "x.last_sent_at", "x.remaining",
                    "x.sent", "x.failed", "x.reason", "x.error"
                ), "
                from (
                    select unnest($2::bigint[]) id, unnest($3::int[]) version, unnest($4::int[]) status,
                        unnest($5::bigint[]) due_at, unnest($6::bigint[]) last_sent_at,
                        unnest($7::int[]) remaining, unnest($8::int[]) sent, unnest($9::int[]) failed,
                        unnest($10::text[]) reason, unnest($11::text[]) error,
                        unnest($12::int[]) lane_id, unnest($13::bigint[]) work_due_at
                ) x
                where e.id = x.id ", $version, "
                returning e.id, x.lane_id, x.work_due_at
            ),
            w as (
                ", add_work!(), "
                select id, lane_id, work_due_at
                from u
                where work_due_at is not null
            )
            select array_agg(id)
            from u
        "}
    };
}
macro_rules! each {
    ($version:literal) => {
        concat! {"
            update punctual.entry as e
            ", stepped!("$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11"), "
            where id = $2 and version ", $version, " $3
            returning id
        "}
    };
}

statements! {
    const AT_ONCE for Postgres = at_once!(" and e.version = x.version");

    const EACH for Sqlite = each!("=");

    /// A planted bug: a change of the entry that came meanwhile is overwritten.
    const UNVERSIONED_AT_ONCE for Postgres = at_once!("");

    const UNVERSIONED for Sqlite = each!(">=");
}
