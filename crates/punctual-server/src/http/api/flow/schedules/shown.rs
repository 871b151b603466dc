//! A schedule as it is shown, the same for every kind of entry.

use super::PROCESSING;
use crate::auth::Caller;
use crate::http::api::delivery::communication_logs::{
    BY_PERSON, NO_CHANNEL, channel_of, outcome_of, words_of,
};
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words::{EntryKind, ScheduleStatus, ScheduleStepOutcome, TriggerType};
use punctual::Timestamp;
use punctual::base::zone::Zone;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::store::deliveries::log::LoggedDelivery;
use punctual::delivery::store::deliveries::schedule::ScheduledEntry;
use punctual::flow::store::entries::Entry;
use punctual::flow::store::entries::history::EntryChange;
use schemars::JsonSchema;
use serde::Serialize;

/// A schedule. What does not apply to it is null.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Schedule")]
pub struct ScheduleView {
    id: String,
    key: String,
    #[serde(rename = "type")]
    #[schemars(with = "EntryKind")]
    kind: &'static str,
    #[schemars(with = "TriggerType")]
    trigger_type: &'static str,
    #[schemars(with = "ScheduleStatus")]
    status: &'static str,
    #[schemars(with = "DateTime")]
    scheduled_on: Timestamp,
    scheduled_local_date: Option<String>,
    time_zone: Option<String>,
    attempt_count: usize,
    /// When the next of its messages that wait is due.
    #[schemars(with = "Option<DateTime>")]
    next_retry_on: Option<Timestamp>,
    on_hold: bool,
    /// The word for why it ended so, or for what it waits, such as `QuietHours`.
    reason_code: Option<String>,
    last_error: Option<String>,
    input_hash: Option<String>,
    version: i64,
    dispatch_result: Counts,
    pub(super) history: Vec<HistoryStep>,
}

/// How its messages stand.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Counts {
    open: u32,
    sent: u32,
    failed: u32,
}

/// One try to send one of its messages, or a change of the entry.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ScheduleStep")]
pub struct HistoryStep {
    #[schemars(with = "DateTime")]
    pub(super) at: Timestamp,
    /// The status before, of the message or of the schedule.
    from: Option<String>,
    /// The status after.
    to: String,
    /// Who did it, for what a person did.
    actor: Option<String>,
    /// Why a person did it, or the word for why a message was not sent.
    reason: Option<String>,
    /// What made it so, such as the event that stopped it.
    cause: Option<String>,
    delivery_id: Option<String>,
    channel: Option<String>,
    #[schemars(with = "ScheduleStepOutcome")]
    outcome: String,
    error: Option<String>,
    provider_message_id: Option<String>,
}

/// The id by which an entry is known outside.
pub(super) fn id_of(entry: &Entry) -> String {
    entry.public_id.map_or_else(|| entry.id.to_string(), |id| id.to_string())
}

/// The word for the status of an entry.
pub(super) fn status_of(one: &ScheduledEntry) -> &'static str {
    if one.is_in_flight() { PROCESSING } else { one.entry.state.status.word() }
}

pub(super) fn shown(caller: &Caller, one: &ScheduledEntry) -> ScheduleView {
    let ScheduledEntry { entry, deliveries } = one;
    let state = &entry.state;
    let waiting = deliveries.iter().filter(|one| !one.in_flight);
    let scheduled_on = state.next_send_at.or(state.last_sent_at).unwrap_or(state.triggered_at);
    let by_person = entry.request_id.is_some() || entry.triggered_by.starts_with(BY_PERSON);
    let mut history: Vec<HistoryStep> = deliveries.iter().flat_map(|one| tries(caller, one)).collect();
    history.sort_by_key(|step| step.at);
    ScheduleView {
        id: id_of(entry),
        key: entry.key.clone(),
        kind: entry.kind.word(),
        trigger_type: if by_person { "Manual" } else { "Event" },
        status: status_of(one),
        scheduled_on,
        scheduled_local_date: local_date(entry, scheduled_on),
        time_zone: entry.time_zone.clone(),
        attempt_count: history.len(),
        next_retry_on: waiting.filter_map(|one| one.due_at).min().or(state.next_send_at),
        on_hold: entry.hold.is_some(),
        reason_code: reason_code(one),
        last_error: last_error(caller, one),
        input_hash: entry.input_hash.clone(),
        version: entry.version,
        dispatch_result: Counts {
            open: entry.sends.open,
            sent: entry.sends.sent,
            failed: entry.sends.failed,
        },
        history,
    }
}

/// The word for why it has its status, or why its last delivery was not sent.
fn reason_code(one: &ScheduledEntry) -> Option<String> {
    let waits = one.deliveries.iter().find_map(LoggedDelivery::waits_for);
    let last = one.deliveries.last();
    let skipped = last.and_then(|last| last.skipped.as_ref()).map(|(_, reason, _)| reason.clone());
    let no_channel = last.and_then(|last| last.tries.last()).filter(|tried| tried.outcome == NO_CHANNEL);
    let own = one.entry.reason.clone().or_else(|| waits.map(str::to_owned));
    own.or(skipped).or_else(|| no_channel.map(|_| NO_CHANNEL.to_owned()))
}

/// The last error, of whichever delivery, or why one of them waits.
pub(super) fn last_error(caller: &Caller, one: &ScheduledEntry) -> Option<String> {
    let waits = one.deliveries.iter().find(|one| one.waits_for().is_some());
    let last = one.deliveries.last();
    let tried = last.and_then(|last| last.error.clone().or_else(|| last.tries.last()?.error.clone()));
    let said = one.entry.error.clone().or_else(|| waits?.error.clone()).or(tried)?;
    Some(one.deliveries.iter().fold(said, |said, one| words_of(caller, one, &said)))
}

/// The local date of a moment, in the zone that the entry was made with. Reminders move the moment on.
fn local_date(entry: &Entry, moment: Timestamp) -> Option<String> {
    let zone = Zone::find(entry.time_zone.as_deref()?).ok()?;
    zone.local_date(moment).or_else(|| entry.local_date.clone())
}

fn tries<'a>(caller: &'a Caller, of: &'a LoggedDelivery) -> impl Iterator<Item = HistoryStep> + 'a {
    let last = of.tries.len().saturating_sub(1);
    let step = move |at, outcome: &str, error: Option<&String>, to: DeliveryStatus| HistoryStep {
        at,
        from: Some(DeliveryStatus::Pending.word().to_owned()),
        to: to.word().to_owned(),
        actor: None,
        reason: None,
        cause: None,
        delivery_id: Some(of.id.to_string()),
        channel: Some(channel_of(of).to_owned()),
        outcome: outcome.to_owned(),
        error: error.map(|said| words_of(caller, of, said)),
        provider_message_id: None,
    };
    let skipped = of.skipped.iter().map(move |(at, reason, said)| HistoryStep {
        reason: Some(reason.clone()),
        ..step(*at, "skipped", Some(said), DeliveryStatus::Skipped)
    });
    let tries = of.tries.iter().enumerate().map(move |(n, tried)| {
        let (outcome, reason) = outcome_of(&tried.outcome);
        // A delivery waits again after every try but its last.
        let to = if n == last { of.status } else { DeliveryStatus::Pending };
        HistoryStep {
            reason: reason.map(str::to_owned),
            provider_message_id: tried.provider_id.clone(),
            ..step(tried.at, outcome, tried.error.as_ref(), to)
        }
    });
    skipped.chain(tries)
}

/// A change of an entry, as a line of its history.
pub(super) fn change_step(change: EntryChange) -> HistoryStep {
    HistoryStep {
        at: change.at,
        from: Some(change.from),
        to: change.to,
        actor: Some(change.actor),
        reason: Some(change.reason),
        cause: change.cause,
        delivery_id: None,
        channel: None,
        outcome: change.action,
        error: None,
        provider_message_id: None,
    }
}
