//! What became of sends: the log, the entry in its next standing, and whom others are told of.

use super::super::super::columns::Column;
use super::super::super::points::{Point, reach};
use super::super::super::queues;
use super::super::super::settle;
use super::super::super::tx::Tx;
use super::super::super::value::{Value, params};
use super::super::tell::{self, Moment, News};
use super::super::{Entry, entry_columns, read_entry};
use super::step::{Step, write_steps};
use super::{Again, Due, Ended, Ending, Settled, Tried};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::rules::attempt::{Patience, kept_error};
use crate::rules::claim::Item;
use crate::rules::entry::failure::{self, Failure};
use crate::rules::entry::log::Outcome;
use crate::rules::entry::schedule::Schedule;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) async fn end(tx: &mut Tx, ending: &Ending) -> Result<Settled> {
    let now = tx.now().await?;
    let items: Vec<&Item> = ending.ended.iter().map(|e| &e.due.item).collect();
    match settle::finish_items(tx, &ending.token, &items, now).await? {
        settle::Outcome::Done => {}
        settle::Outcome::AlreadyFinished => return Ok(Settled::Done),
        _ => return Ok(Settled::LostClaim),
    }
    log(tx, &ending.ended, now).await?;
    let lanes = lanes_of_failures(tx, &ending.ended).await?;
    let mut steps = Vec::with_capacity(ending.ended.len());
    for ended in ending.ended.iter() {
        let patience = patience(lanes.get(&ended.due.item.lane()), &ended.tried);
        let seed = ending.seed ^ ended.due.entry.id.0.unsigned_abs();
        if let Some(step) = Step::after(ended, &ended.due.entry, &patience, now, seed) {
            steps.push(step);
        }
    }
    let behind = write_steps(tx, &steps).await?;
    for step in behind {
        write_again(tx, step, &lanes, now, ending.seed).await?;
    }
    tell_sent(tx, &ending.ended, now).await?;
    reach(Point::SettledBeforeCommit);
    Ok(Settled::Done)
}

/// What is tried again by a policy that the channel, and before it the channel's lane, may change.
fn patience(lane: Option<&queues::Lane>, tried: &Tried) -> Patience {
    let own = if let Tried::NotSent { again, .. } = tried { again.patience.clone() } else { None };
    let usual = own.unwrap_or_else(failure::patience);
    let Some(lane) = lane else { return usual };
    Patience {
        max_attempts: lane.settings.max_attempts.unwrap_or(usual.max_attempts),
        backoff: lane.settings.backoff.clone().unwrap_or(usual.backoff),
    }
}

async fn lanes_of_failures(tx: &mut Tx, ended: &[Ended]) -> Result<HashMap<LaneId, queues::Lane>> {
    let failed = ended.iter().filter(|e| matches!(e.tried, Tried::NotSent { .. }));
    let ids: HashSet<LaneId> = failed.map(|e| e.due.item.lane()).collect();
    if ids.is_empty() { Ok(HashMap::new()) } else { queues::lanes(tx, &ids).await }
}

/// Writes down what became of each try.
async fn log(tx: &mut Tx, ended: &[Ended], now: Timestamp) -> Result<()> {
    let begun = ended.iter().filter(|e| matches!(e.tried, Tried::Sent { .. } | Tried::NotSent { .. }));
    let begun: Vec<&Ended> = begun.collect();
    let errors: Vec<Option<String>> = begun.iter().map(|e| error_of(&e.tried)).collect();
    let columns = [
        Column::Ints(begun.iter().map(|e| e.due.entry.id.0).collect()),
        Column::Ints(begun.iter().map(|e| i64::from(e.due.entry.attempt())).collect()),
        Column::Ints(begun.iter().map(|e| i64::from(e.due.tried())).collect()),
        Column::Texts(begun.iter().map(|e| Some(word_of(&e.tried))).collect()),
        Column::Texts(begun.iter().map(|e| message_id(&e.tried)).collect()),
        Column::Texts(errors.iter().map(Option::as_deref).collect()),
    ];
    tx.in_columns((OUTCOMES_AT_ONCE, OUTCOME), params![now], &columns).await?;
    log_refused(tx, ended, now).await
}

/// Writes down why some were not even tried.
async fn log_refused(tx: &mut Tx, ended: &[Ended], now: Timestamp) -> Result<()> {
    let refused = ended.iter().filter_map(|e| match &e.tried {
        Tried::Refused { reason, error } => Some(vec![
            e.due.entry.id.0.into(),
            i64::from(e.due.entry.attempt()).into(),
            i64::from(e.due.tried()).into(),
            now.into(),
            Outcome::Failed.word().into(),
            error.as_str().into(),
            (*reason).into(),
        ]),
        _ => None,
    });
    let rows: Vec<Vec<Value<'_>>> = refused.collect();
    if !rows.is_empty() {
        tx.each(REFUSED, &rows).await?;
    }
    Ok(())
}

const REFUSED: &str = "insert into punctual.delivery_outcome \
        (entry_id, attempt, tried, at, status, error, reason) \
    values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing";

fn error_of(tried: &Tried) -> Option<String> {
    if let Tried::NotSent { error, .. } = tried { Some(kept_error(error)) } else { None }
}

const fn word_of(tried: &Tried) -> &'static str {
    match tried {
        Tried::NotSent { outcome, .. } => outcome.word(),
        _ => Outcome::Delivered.word(),
    }
}

fn message_id(tried: &Tried) -> Option<&str> {
    if let Tried::Sent { message_id } = tried { message_id.as_deref() } else { None }
}

const OUTCOMES_AT_ONCE: &str = "insert into punctual.delivery_outcome \
        (entry_id, attempt, tried, at, status, provider_id, error) \
    select entry_id, attempt, tried, $1::bigint, status, provider_id, error \
    from (select unnest($2::bigint[]) entry_id, unnest($3::int[]) attempt, unnest($4::int[]) tried, \
        unnest($5::text[]) status, unnest($6::text[]) provider_id, \
        unnest($7::text[]) error) x on conflict do nothing";
const OUTCOME: &str = "insert into punctual.delivery_outcome \
        (entry_id, attempt, tried, at, status, provider_id, error) \
    values ($2, $3, $4, $1, $5, $6, $7) on conflict do nothing";

/// An entry that has changed since its intent was written: the rules are asked once more, under its
/// lock, about how it stands now.
async fn write_again(
    tx: &mut Tx,
    step: &Step<'_>,
    lanes: &HashMap<LaneId, queues::Lane>,
    now: Timestamp,
    seed: u64,
) -> Result<()> {
    let ended = step.ended;
    let Some(mut row) = tx.first(WAIT_FOR, params![ended.due.entry.id.0]).await? else { return Ok(()) };
    let entry = read_entry(&mut row)?;
    let patience = patience(lanes.get(&ended.due.item.lane()), &ended.tried);
    let seed = seed ^ entry.id.0.unsigned_abs();
    let Some(step) = Step::after(ended, &entry, &patience, now, seed) else { return Ok(()) };
    write_steps(tx, &[step]).await?;
    Ok(())
}

const WAIT_FOR: &str =
    concat!("select ", entry_columns!(), " from punctual.entry e where e.id = $1 for update");

async fn tell_sent(tx: &mut Tx, ended: &[Ended], now: Timestamp) -> Result<()> {
    let sent = ended.iter().filter(|e| matches!(e.tried, Tried::Sent { .. }));
    let news: Vec<News<'_>> = sent
        .map(|e| {
            let moment = Moment::Sent { at: now, attempt: e.due.entry.attempt() };
            News { entry: &e.due.entry, moment }
        })
        .collect();
    tell::tell_all(tx, &news).await
}

/// The queue has given these up: their sends were lost too often. Reminders that are left still go.
pub(in crate::store) async fn give_up(tx: &mut Tx, items: &[Item], now: Timestamp) -> Result<()> {
    for item in items {
        let Some(id) = item.entry() else { continue };
        let Some(mut row) = tx.first(WAIT_FOR, params![id.0]).await? else { continue };
        let entry = read_entry(&mut row)?;
        let schedule = Arc::new(schedule_of(tx, &entry).await?);
        let due = Due { item: item.clone(), entry, lost: true };
        let error = "its send was lost too often".to_owned();
        let (outcome, failure) = (Outcome::Unknown, Failure::Permanent);
        let tried = Tried::NotSent { outcome, failure, error, again: Again::default() };
        let ended = Ended { due, schedule, tried };
        log(tx, std::slice::from_ref(&ended), now).await?;
        if let Some(step) = Step::after(&ended, &ended.due.entry, &failure::patience(), now, 0) {
            write_steps(tx, &[step]).await?;
        }
    }
    Ok(())
}

/// The timetable of an entry's trigger, read from its version.
async fn schedule_of(tx: &mut Tx, entry: &Entry) -> Result<Schedule> {
    let row = tx.first(DEFINITION, params![entry.flow.0, i64::from(entry.number)]).await?;
    let Some(row) = row else { return Ok(Schedule::default()) };
    let Ok(definition) = serde_json::from_str(&row.text(0)?) else { return Ok(Schedule::default()) };
    let (mut problems, mut warnings) = Default::default();
    let survey = crate::rules::survey::Survey::read(&definition, &mut problems, &mut warnings);
    let trigger = survey.as_ref().and_then(|survey| survey.trigger(&entry.trigger_id));
    Ok(trigger.map(|trigger| trigger.schedule.clone()).unwrap_or_default())
}

const DEFINITION: &str = "select definition from punctual.flow_version where flow_id = $1 and number = $2";
