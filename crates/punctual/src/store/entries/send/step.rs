//! One step of an entry: what a send makes of it, and the work that follows, written in the version that
//! was seen.

use super::super::super::columns::Column;
use super::super::super::planted::Bug;
use super::super::super::tx::Tx;
use super::super::super::value::Value;
use super::super::{Entry, expire_lane};
use super::{Ended, Tried};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::rules::attempt::Patience;
use crate::rules::entry::failure::{self, Verdict};
use crate::rules::entry::standing::Standing;
use std::collections::{BTreeMap, HashSet};

/// What an entry becomes, and the work that follows.
pub(super) struct Step<'a> {
    pub(super) ended: &'a Ended,
    version: i64,
    standing: Standing,
    work: Next,
}

/// The work that follows a send.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A reminder, or the same send once more, with the attempts it has had.
    Send {
        at: Timestamp,
        attempts: u32,
        unstarted: u32,
    },
    /// The end, if nobody answers.
    Expire(Timestamp),
    Nothing,
}

impl<'a> Step<'a> {
    /// What the rules make of an entry as it stands; `None` if nothing may happen to it any more.
    pub(super) fn after(
        ended: &'a Ended,
        entry: &Entry,
        patience: &Patience,
        now: Timestamp,
        seed: u64,
    ) -> Option<Self> {
        let (item, stands) = (&ended.due.item, &entry.standing);
        let made = |standing: Standing| {
            let work = match standing.next_send_at {
                Some(at) => Next::Send { at, attempts: 0, unstarted: 0 },
                None => standing.expires_at(entry.grace).map_or(Next::Nothing, Next::Expire),
            };
            Self { ended, version: entry.version, standing, work }
        };
        let once_more = |standing: Standing, at: Timestamp, attempts: u32, unstarted: u32| {
            let work = Next::Send { at, attempts, unstarted };
            Self { ended, version: entry.version, standing, work }
        };
        let (claims, lost) = (item.attempt(), item.unstarted());
        match &ended.tried {
            Tried::Sent { .. } => stands.sent(&ended.schedule, now).ok().map(made),
            Tried::NotBegun if !stands.status.is_active() => None,
            Tried::NotBegun => Some(once_more(*stands, stands.next_send_at.unwrap_or(now), claims - 1, lost)),
            Tried::Later(at) => {
                let shifted = stands.shifted(*at).ok().filter(|stands| stands.next_send_at.is_some());
                shifted.map(|standing| once_more(standing, *at, claims - 1, lost))
            }
            Tried::Refused { .. } => stands.refused().ok().map(made),
            Tried::NotSent { failure, again, .. } => {
                let tries = claims.saturating_sub(lost);
                let verdict = match again.probe {
                    true => failure::after_probe(*failure, (tries, claims), patience, now, seed),
                    false => failure::after_failure(*failure, tries, patience, now, seed),
                };
                match verdict {
                    Verdict::RetryAt(_) if !stands.status.is_active() => None,
                    Verdict::RetryAt(at) => {
                        Some(once_more(*stands, at, claims, lost + u32::from(again.probe)))
                    }
                    Verdict::GiveUp => stands.gave_up(&ended.schedule, now).ok().map(made),
                    Verdict::Halt => stands.halted().ok().map(made),
                }
            }
        }
    }

    const fn tenant(&self) -> Tenant {
        self.ended.due.entry.tenant
    }
}

/// Writes what entries became, each in the version that was seen, with the work that follows;
/// answers those that have changed meanwhile.
pub(super) async fn write_steps<'s, 'a>(tx: &mut Tx, steps: &'s [Step<'a>]) -> Result<Vec<&'s Step<'a>>> {
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
            .filter(|(step, _)| written.contains(&step.ended.due.entry.id.0))
            .filter_map(|(step, row)| row.values(step))
            .collect();
        tx.each(super::super::super::sequences::WORK_AGAIN, &rows).await?;
    }
    Ok(steps.iter().filter(|step| !written.contains(&step.ended.due.entry.id.0)).collect())
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
    attempts: u32,
    unstarted: u32,
}

impl WorkRow {
    fn of(step: &Step<'_>, lanes: &BTreeMap<Tenant, i64>) -> Self {
        let lane = step.ended.due.item.lane().0;
        match step.work {
            Next::Nothing => Self::default(),
            Next::Send { at, attempts, unstarted } => Self { lane, due: Some(at), attempts, unstarted },
            Next::Expire(at) => {
                let lane = lanes.get(&step.tenant()).copied().unwrap_or_default();
                Self { lane, due: Some(at), ..Self::default() }
            }
        }
    }

    fn values<'v>(self, step: &Step<'_>) -> Option<Vec<Value<'v>>> {
        let (attempts, unstarted) = (i64::from(self.attempts), i64::from(self.unstarted));
        let id = step.ended.due.entry.work_id();
        Some(vec![
            id.into(),
            self.lane.into(),
            self.due?.into(),
            attempts.into(),
            unstarted.into(),
            Value::Null,
        ])
    }
}

/// Columns that say what an entry becomes; those of its work follow.
const STEP_COLUMNS: usize = 6;

fn step_columns(steps: &[Step<'_>], work: &[WorkRow]) -> Vec<Column<'static>> {
    let ints = |pick: &dyn Fn(&Step<'_>) -> i64| Column::Ints(steps.iter().map(pick).collect());
    let times = |pick: &dyn Fn(&Step<'_>) -> Option<Timestamp>| {
        Column::MaybeInts(steps.iter().map(|s| pick(s).map(Timestamp::as_micros)).collect())
    };
    let of_work = |pick: &dyn Fn(&WorkRow) -> i64| Column::Ints(work.iter().map(pick).collect());
    vec![
        ints(&|s| s.ended.due.entry.id.0),
        ints(&|s| s.version),
        ints(&|s| s.standing.status.code()),
        times(&|s| s.standing.next_send_at),
        times(&|s| s.standing.last_sent_at),
        ints(&|s| s.standing.remaining),
        of_work(&|w| w.lane),
        Column::MaybeInts(work.iter().map(|w| w.due.map(Timestamp::as_micros)).collect()),
        of_work(&|w| i64::from(w.attempts)),
        of_work(&|w| i64::from(w.unstarted)),
    ]
}

#[cfg(feature = "postgres")]
macro_rules! steps_at_once {
    ($version:literal) => {
        concat!(
            "with u as (update punctual.entry e set status = x.status, next_send_at = x.next_send_at, \
            last_sent_at = x.last_sent_at, remaining = x.remaining, version = e.version + 1 \
        from (select unnest($1::bigint[]) id, unnest($2::int[]) version, unnest($3::int[]) status, \
            unnest($4::bigint[]) next_send_at, unnest($5::bigint[]) last_sent_at, \
            unnest($6::int[]) remaining, unnest($7::int[]) lane_id, unnest($8::bigint[]) due_at, \
            unnest($9::int[]) attempts, unnest($10::int[]) unstarted) x \
        where e.id = x.id ",
            $version,
            " returning e.id, x.lane_id, x.due_at, x.attempts, x.unstarted), \
    w as (insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted) \
        select -id, lane_id, due_at, attempts, unstarted from u where due_at is not null) \
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
const STEP: &str = "update punctual.entry set status = $3, next_send_at = $4, last_sent_at = $5, \
        remaining = $6, version = version + 1 where id = $1 and version = $2 returning id";
/// A planted bug, as above.
#[cfg(feature = "sqlite")]
const STEP_UNVERSIONED: &str = "update punctual.entry set status = $3, next_send_at = $4, \
        last_sent_at = $5, remaining = $6, version = version + 1 where id = $1 and $2 > 0 returning id";
