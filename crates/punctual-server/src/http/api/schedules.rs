//! Automation schedules: what is to be done for an event, how far it is, and once more what failed.
//!
//! Notifications are shown here, and beside them survey instances, which have routes of their own as
//! well. A notification is known by its number, an instance by its public id.

mod change;
mod listed;
mod named;
mod trace;

pub use change::{cancel, hold, release, retry};
pub use trace::trace;

use super::choice::{Choice, told};
use super::communication_logs::{BOOKING, channel_of, read_entity, words_of};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::page::{List, Page};
use axum::Json;
use axum::extract::State;
use listed::Instances;
use named::ScheduleId;
use punctual::rules::entry::Status;
use punctual::rules::notification::{DeliveryStatus, NotificationStatus};
use punctual::store::deliveries::preview::Foreseen;
use punctual::store::deliveries::queries::Logged;
use punctual::store::deliveries::queries::notification::{Notification, NotificationFilter};
use punctual::store::deliveries::replay::ReplaySelection;
use punctual::{Problems, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The words of every schedule's status. A notification has some of them.
const STATUSES: [&str; 9] =
    ["Pending", PROCESSING, "Sent", "Opened", "Completed", "Failed", "Deactivated", "Cancelled", "Expired"];
/// The word for one of which something is being sent now.
const PROCESSING: &str = "Processing";

/// A schedule as it is shown. What does not apply to it is null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    id: String,
    key: String,
    #[serde(rename = "type")]
    kind: &'static str,
    trigger_type: &'static str,
    status: &'static str,
    scheduled_on: Timestamp,
    scheduled_local_date: Option<String>,
    time_zone: Option<String>,
    attempt_count: usize,
    next_retry_on: Option<Timestamp>,
    on_hold: bool,
    reason_code: Option<String>,
    last_error: Option<String>,
    input_hash: Option<String>,
    version: Option<u32>,
    dispatch_result: Counts,
    history: Vec<Step>,
}

/// How its messages stand.
#[derive(Debug, Serialize)]
pub struct Counts {
    open: u32,
    sent: u32,
    failed: u32,
}

/// One try to send one of its messages, or something that a person did to it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    at: Timestamp,
    delivery_id: Option<String>,
    channel: Option<String>,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    error: Option<String>,
    provider_message_id: Option<String>,
}

/// `GET /api/automation-schedules?bookingId=|entityType=&entityId=&key=&status=&onHold=`, the newest first.
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<Shown>>> {
    let wanted = read_filter(&page)?;
    Ok(Json(listed::page_of(&app, &caller, &page, wanted).await?))
}

/// `GET /api/automation-schedules/{id}`
///
/// # Errors
/// 404 when this tenant has none of that id.
pub async fn show(State(app): State<App>, caller: Caller, id: ScheduleId) -> Answer<Json<Shown>> {
    Ok(Json(change::shown_whole(&app, &caller, id).await?))
}

/// `POST /api/automation-schedules/replay {ids?|filter, dryRun?}`: what failed is sent again, what was sent
/// is not, for entries of every kind.
///
/// # Errors
/// 422 unless it says which.
pub async fn replay(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<Value>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let choice = Choice::read_as(&body, "an automation schedule", ScheduleId::of, &mut problems);
    let mut which =
        choice.filter.map_or_else(ReplaySelection::default, |given| read_which(given, &mut problems));
    problems.into_result()?;
    if let Some(ids) = &choice.ids {
        let (notifications, instances) = named::split(ids);
        (which.ids, which.public_ids) = (Some(notifications), Some(instances));
    }
    let done = app.engine.replay_failed(caller.tenant, which, choice.dry_run).await?;
    let ids = done.ids.iter().map(ToString::to_string);
    let ids: Vec<String> = ids.chain(done.instances.iter().map(ToString::to_string)).collect();
    let mut said = told(&ids, if choice.dry_run { "wouldReplay" } else { "replayed" });
    said["sentAgain"] = done.again.into();
    said["stoppedByKey"] = done.stopped.into();
    if choice.dry_run {
        let all = usize::try_from(done.again + done.stopped).unwrap_or(usize::MAX);
        said["moreItems"] = all.saturating_sub(done.told.len()).into();
        said["items"] = done.told.iter().map(would_be).collect();
    }
    Ok(Json(said))
}

/// One message of a dry run.
fn would_be(one: &Foreseen) -> Value {
    let public_id = one.public_id.map(|id| id.to_string());
    let schedule_id = public_id.or_else(|| Some(one.entry?.to_string()));
    json!({
        "scheduleId": schedule_id,
        "deliveryId": one.delivery.map(|id| id.to_string()),
        "channel": one.channel,
        "idempotencyKey": one.key,
        "stopped": one.stopped.is_some(),
        "reason": one.stopped,
    })
}

fn read_which(given: &Map<String, Value>, problems: &mut Problems) -> ReplaySelection {
    let mut read = Fields::new(given, "filter", problems);
    read.only(&["status", "bookingId", "entityType", "entityId", "eventType", "channel", "from", "to"]);
    let status = read.text("status").map(|word| DeliveryStatus::from_word(&word));
    if status.is_some_and(|of| !matches!(of, Some(DeliveryStatus::Failed | DeliveryStatus::Uncertain))) {
        read.wrong("status", "must be Failed or Uncertain: nothing else is replayed");
    }
    let mut time = |name: &str| {
        let text = read.text(name)?;
        Timestamp::parse(&text).map_err(|said| read.wrong(name, said)).ok()
    };
    let (from, to) = (time("from"), time("to"));
    let booking = read.id_text("bookingId");
    let (mut entity_type, mut entity_id) = (read.text("entityType"), read.id_text("entityId"));
    if booking.is_some() {
        if entity_type.is_some() || entity_id.is_some() {
            read.wrong("bookingId", "say either `bookingId`, or `entityType` and `entityId`");
        }
        (entity_type, entity_id) = (Some(BOOKING.to_owned()), booking);
    }
    ReplaySelection {
        entity_type,
        entity_id,
        kind: read.text("eventType"),
        status: status.flatten(),
        channel: read.text("channel"),
        from,
        to,
        ..ReplaySelection::default()
    }
}

/// What a list is about; `None` for what cannot fit.
struct Wanted {
    notifications: Option<NotificationFilter>,
    instances: Option<Instances>,
}

fn read_filter(page: &Page) -> Answer<Wanted> {
    let mut problems = Problems::default();
    let (entity_type, entity_id) = read_entity(page, &mut problems);
    let status = page.filter("status");
    if status.is_some_and(|word| !STATUSES.contains(&word)) {
        problems.push("status", format!("must be one of {}", STATUSES.join(", ")));
    }
    let on_hold = match page.filter("onHold") {
        None => None,
        Some("false") => Some(false),
        Some("true") => Some(true),
        Some(_) => {
            problems.push("onHold", "must be true or false");
            None
        }
    };
    problems.into_result()?;
    let instances = read_instances(page, on_hold);
    let status = status.map(|word| match NotificationStatus::from_word(word) {
        None if word == PROCESSING => Some((NotificationStatus::Pending, Some(true))),
        Some(NotificationStatus::Pending) => Some((NotificationStatus::Pending, Some(false))),
        other => other.map(|status| (status, None)),
    });
    let key = page.filter("key").map(str::to_owned);
    let (held, fits) = (on_hold, status != Some(None));
    let notifications =
        fits.then(|| NotificationFilter { entity_type, entity_id, key, held, status: status.flatten() });
    Ok(Wanted { notifications, instances })
}

/// A survey instance does not say what entity its event was about.
fn read_instances(page: &Page, held: Option<bool>) -> Option<Instances> {
    let about = ["bookingId", "entityType", "entityId"].iter().any(|name| page.filter(name).is_some());
    let status = page.filter("status").map(Status::parse);
    if about || status == Some(None) {
        return None;
    }
    Some(Instances { status: status.flatten(), held, key: page.filter("key").map(str::to_owned) })
}

/// The word for how a notification stands.
fn status_of(notification: &Notification) -> &'static str {
    if notification.in_flight() { PROCESSING } else { notification.status.word() }
}

fn shown(caller: &Caller, notification: Notification) -> Shown {
    let waiting = notification.deliveries.iter().filter(|one| !one.in_flight);
    let next_retry_on = waiting.filter_map(|one| one.due_at).min();
    let held = notification.deliveries.iter().find_map(Logged::waits_for);
    let mut history: Vec<Step> = notification.deliveries.iter().flat_map(|one| steps(caller, one)).collect();
    history.sort_by_key(|step| step.at);
    Shown {
        id: notification.id.to_string(),
        key: notification.key(),
        kind: "notification",
        trigger_type: if notification.request.is_some() { "Manual" } else { "Event" },
        status: status_of(&notification),
        scheduled_on: notification.created_at,
        scheduled_local_date: None,
        time_zone: None,
        attempt_count: history.len(),
        next_retry_on,
        on_hold: notification.hold.is_some(),
        reason_code: notification.reason.clone().or_else(|| held.map(str::to_owned)),
        last_error: last_error(caller, &notification),
        input_hash: None,
        version: None,
        dispatch_result: Counts {
            open: notification.counts.open,
            sent: notification.counts.sent,
            failed: notification.counts.failed,
        },
        history,
    }
}

/// What went wrong last, of whichever delivery, or why one of them waits.
fn last_error(caller: &Caller, notification: &Notification) -> Option<String> {
    let held = notification.deliveries.iter().find(|one| one.waits_for().is_some());
    let said = notification.error.clone().or_else(|| held?.error.clone())?;
    Some(notification.deliveries.iter().fold(said, |said, one| words_of(caller, one, &said)))
}

fn steps<'a>(caller: &'a Caller, of: &'a Logged) -> impl Iterator<Item = Step> + 'a {
    of.tries.iter().map(move |tried| Step {
        at: tried.at,
        delivery_id: Some(of.id.to_string()),
        channel: Some(channel_of(of).to_owned()),
        outcome: tried.outcome.clone(),
        actor: None,
        reason: None,
        error: tried.error.as_ref().map(|said| words_of(caller, of, said)),
        provider_message_id: tried.provider_id.clone(),
    })
}
