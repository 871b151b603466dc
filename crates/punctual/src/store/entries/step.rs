//! What the outcome of a delivery makes of its entry, and the work that follows, written in the version
//! that was seen.
//!
//! A delivery moves its entry only while the entry waits for that send: a message that another channel
//! sent later in the place of one that bounced, or a send of an entry that has ended, is in the log and
//! moves nothing.

use super::super::columns::Column;
use super::super::deliveries::deliver::{Ending, SettledDelivery};
use super::super::planted::Bug;
use super::super::sequences::WORK_AGAIN;
use super::super::tx::Tx;
use super::super::value::{Value, params};
use super::tell::{self, Moment, News};
use super::{Entry, entry_columns, expire_lane, read_entry};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::rules::entry::Deed;
use crate::rules::entry::schedule::Schedule;
use crate::rules::entry::state::EntryState;
use crate::rules::event_kind::CancelReason;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What the step of a survey's entry needs beside the outcome of its delivery.
#[derive(Clone, Debug)]
pub struct SurveyContext {
    /// The entry, as it stood when the delivery was claimed.
    pub entry: Arc<Entry>,
    /// The timetable of its trigger; an entry without one has no reminders left.
    pub schedule: Arc<Schedule>,
}

/// What became of the send that an entry waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum SendResult {
    /// A provider took it.
    Sent,
    /// It was given up.
    GivenUp,
    /// There is no such channel.
    NoChannel,
    /// The recipient may not or does not want to be written to.
    Refused,
    /// What it is about makes it pointless.
    Pointless,
    /// It waits until then.
    Shifted(Timestamp),
}

impl SendResult {
    /// What the ending of a delivery means for its entry; `None` if the send goes on.
    pub(in crate::store) fn of(ending: &Ending) -> Option<Self> {
        match ending {
            Ending::Sent { .. } => Some(Self::Sent),
            Ending::Failed { outcome: Some("no-channel"), .. } => Some(Self::NoChannel),
            Ending::Failed { .. } | Ending::Uncertain { .. } => Some(Self::GivenUp),
            Ending::Skipped { reason, .. } if CancelReason::is_code(reason) => Some(Self::Pointless),
            Ending::Skipped { .. } => Some(Self::Refused),
            Ending::HeldBack { until, .. } => Some(Self::Shifted(*until)),
            Ending::Again { .. } | Ending::Later(_) | Ending::Moved { .. } => None,
        }
    }
}

/// What an entry becomes, and the work that follows.
pub(in crate::store) struct Step<'a> {
    pub(in crate::store) context: &'a SurveyContext,
    result: SendResult,
    version: i64,
    standing: EntryState,
    work: Next,
}

/// The work that follows a send.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The next send.
    Advance(Timestamp),
    /// The end, if nobody answers.
    Expire(Timestamp),
    Nothing,
}

impl<'a> Step<'a> {
    /// What the rules make of an entry as it stands; `None` if nothing may happen to it any more.
    pub(in crate::store) fn after(
        context: &'a SurveyContext,
        entry: &Entry,
        result: SendResult,
        now: Timestamp,
    ) -> Option<Self> {
        let (stands, schedule) = (&entry.standing, &context.schedule);
        let standing = match result {
            SendResult::Sent => stands.sent(schedule, now),
            SendResult::GivenUp => stands.gave_up(schedule, now),
            SendResult::NoChannel => stands.halted(),
            SendResult::Refused => stands.refused(),
            SendResult::Pointless => stands.after(Deed::Cancelled),
            SendResult::Shifted(at) => stands.shifted(at),
        };
        let standing = standing.ok()?;
        let work = match (result, standing.next_send_at) {
            (SendResult::Shifted(_), _) => Next::Nothing,
            (_, Some(at)) => Next::Advance(at),
            (_, None) => standing.expires_at(entry.grace).map_or(Next::Nothing, Next::Expire),
        };
        Some(Self { context, result, version: entry.version, standing, work })
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
pub(in crate::store) async fn after_outcomes(
    tx: &mut Tx,
    ended: &[&SettledDelivery],
    replaced: impl Fn(&SettledDelivery) -> bool,
    now: Timestamp,
) -> Result<()> {
    let mut steps = Vec::new();
    for one in ended.iter().filter(|one| !replaced(one)) {
        let (Some(context), Some(result)) = (&one.survey, SendResult::of(&one.ending)) else { continue };
        if context.entry.waits_for(one.due.delivery.send) || tx.has(Bug::StandingWithoutVersion) {
            steps.extend(Step::after(context, &context.entry, result, now));
        }
    }
    let mut unwritten = HashSet::new();
    for step in write_steps(tx, &steps).await? {
        if !write_again(tx, step, now).await? {
            unwritten.insert(step.context.entry.id);
        }
    }
    let pointless = steps.iter().filter(|step| step.result == SendResult::Pointless);
    let cancelled = pointless.map(|step| &*step.context.entry).filter(|entry| !unwritten.contains(&entry.id));
    let sent = ended.iter().filter(|one| matches!(one.ending, Ending::Sent { .. }));
    let mut news: Vec<News<'_>> = sent
        .filter_map(|one| {
            let entry = &one.survey.as_ref()?.entry;
            Some(News { entry, moment: Moment::Sent { at: now, attempt: one.due.delivery.send } })
        })
        .collect();
    news.extend(cancelled.map(|entry| News { entry, moment: Moment::Cancelled(now) }));
    tell::tell_all(tx, &news).await
}

/// An entry that has changed since it was read: the rules are asked once more, under its lock, about how it
/// stands now. Answers whether it was moved.
async fn write_again(tx: &mut Tx, step: &Step<'_>, now: Timestamp) -> Result<bool> {
    let Some(mut row) = tx.first(WAIT_FOR, params![step.context.entry.id.0]).await? else {
        return Ok(false);
    };
    let entry = read_entry(&mut row)?;
    if !entry.waits_for(step.context.entry.attempt()) {
        return Ok(false);
    }
    let Some(step) = Step::after(step.context, &entry, step.result, now) else { return Ok(false) };
    Ok(write_steps(tx, &[step]).await?.is_empty())
}

const WAIT_FOR: &str =
    concat!("select ", entry_columns!(), " from punctual.entry e where e.id = $1 for update");

/// Writes what entries became, each in the version that was seen, with the work that follows; answers
/// those that have changed meanwhile.
pub(in crate::store) async fn write_steps<'s, 'a>(
    tx: &mut Tx,
    steps: &'s [Step<'a>],
) -> Result<Vec<&'s Step<'a>>> {
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let lanes = expire_lanes(tx, steps).await?;
    let work: Vec<WorkRow> = steps.iter().map(|step| WorkRow::of(step, &lanes)).collect();
    let columns = step_columns(steps, &work);
    let unversioned = tx.has(Bug::StandingWithoutVersion);
    let written = match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => {
            let text = if unversioned { STEPS_UNVERSIONED } else { STEPS_AT_ONCE };
            tx.in_columns((text, ""), &[], &columns).await?
        }
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(_) => {
            let text = if unversioned { STEP_UNVERSIONED } else { STEP };
            tx.in_columns(("", text), &[], &columns[..STEP_COLUMNS]).await?
        }
    };
    let written: HashSet<i64> = written.iter().map(|row| row.int(0)).collect::<Result<_>>()?;
    #[cfg(feature = "sqlite")]
    if matches!(tx, Tx::Sqlite(_)) {
        let rows: Vec<Vec<Value<'_>>> = steps
            .iter()
            .zip(&work)
            .filter(|(step, _)| written.contains(&step.context.entry.id.0))
            .filter_map(|(step, row)| row.values(step))
            .collect();
        tx.each(WORK_AGAIN, &rows).await?;
    }
    Ok(steps.iter().filter(|step| !written.contains(&step.context.entry.id.0)).collect())
}

async fn expire_lanes(tx: &mut Tx, steps: &[Step<'_>]) -> Result<BTreeMap<Tenant, i64>> {
    let mut lanes = BTreeMap::new();
    for step in steps.iter().filter(|step| matches!(step.work, Next::Expire(_))) {
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
    fn of(step: &Step<'_>, lanes: &BTreeMap<Tenant, i64>) -> Self {
        match step.work {
            Next::Nothing => Self::default(),
            Next::Advance(at) => Self { lane: step.context.entry.lane.0, due: Some(at) },
            Next::Expire(at) => {
                Self { lane: lanes.get(&step.tenant()).copied().unwrap_or_default(), due: Some(at) }
            }
        }
    }

    fn values<'v>(self, step: &Step<'_>) -> Option<Vec<Value<'v>>> {
        let id = step.context.entry.work_id();
        Some(vec![id.into(), self.lane.into(), self.due?.into(), 0.into(), 0.into(), Value::Null])
    }
}

/// Columns that say what an entry becomes; those of its work follow.
const STEP_COLUMNS: usize = 8;

fn step_columns(steps: &[Step<'_>], work: &[WorkRow]) -> Vec<Column<'static>> {
    let ints = |pick: &dyn Fn(&Step<'_>) -> i64| Column::Ints(steps.iter().map(pick).collect());
    let times = |pick: &dyn Fn(&Step<'_>) -> Option<Timestamp>| {
        Column::MaybeInts(steps.iter().map(|s| pick(s).map(Timestamp::as_micros)).collect())
    };
    vec![
        ints(&|s| s.context.entry.id.0),
        ints(&|s| s.version),
        ints(&|s| s.standing.status.code()),
        times(&|s| s.standing.next_send_at),
        times(&|s| s.standing.last_sent_at),
        ints(&|s| s.standing.remaining),
        ints(&|s| s.counts().0),
        ints(&|s| s.counts().1),
        Column::Ints(work.iter().map(|w| w.lane).collect()),
        Column::MaybeInts(work.iter().map(|w| w.due.map(Timestamp::as_micros)).collect()),
    ]
}

#[cfg(feature = "postgres")]
macro_rules! steps_at_once {
    ($version:literal) => {
        concat!(
            "with u as (update punctual.entry e set status = x.status, due_at = x.due_at, \
            last_sent_at = x.last_sent_at, remaining = x.remaining, sent = e.sent + x.sent, \
            failed = e.failed + x.failed, version = e.version + 1 \
        from (select unnest($1::bigint[]) id, unnest($2::int[]) version, unnest($3::int[]) status, \
            unnest($4::bigint[]) due_at, unnest($5::bigint[]) last_sent_at, \
            unnest($6::int[]) remaining, unnest($7::int[]) sent, unnest($8::int[]) failed, \
            unnest($9::int[]) lane_id, unnest($10::bigint[]) work_due_at) x \
        where e.id = x.id ",
            $version,
            " returning e.id, x.lane_id, x.work_due_at), \
    w as (insert into punctual.work (message_id, lane_id, due_at) \
        select id, lane_id, work_due_at from u where work_due_at is not null) \
    select id from u"
        )
    };
}
#[cfg(feature = "postgres")]
const STEPS_AT_ONCE: &str = steps_at_once!("and e.version = x.version");
/// A planted bug: whoever has changed the entry meanwhile is overwritten.
#[cfg(feature = "postgres")]
const STEPS_UNVERSIONED: &str = steps_at_once!("");
#[cfg(feature = "sqlite")]
const STEP: &str = "update punctual.entry set status = $3, due_at = $4, last_sent_at = $5, \
        remaining = $6, sent = sent + $7, failed = failed + $8, version = version + 1 \
    where id = $1 and version = $2 returning id";
/// A planted bug, as above.
#[cfg(feature = "sqlite")]
const STEP_UNVERSIONED: &str = "update punctual.entry set status = $3, due_at = $4, \
        last_sent_at = $5, remaining = $6, sent = sent + $7, failed = failed + $8, version = version + 1 \
    where id = $1 and $2 > 0 returning id";
