//! Automation schedules: what is to be done for an event, how far it is, and once more what failed.
//!
//! Notices are shown here, and beside them survey instances, which have routes of their own as well. A notice
//! is known by its number, an instance by its public id.

mod listed;
mod named;
mod trace;

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
use named::{Found, ScheduleId};
use punctual::rules::entry::Status;
use punctual::rules::notice::NoticeStatus;
use punctual::store::notices::foresee::Foreseen;
use punctual::store::notices::look::Logged;
use punctual::store::notices::look::notice::{Notice, NoticeFilter};
use punctual::store::notices::replay::WhichNotices;
use punctual::{Problems, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The words of every schedule's status. A notice has some of them.
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

/// One try to send one of its messages.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    at: Timestamp,
    delivery_id: String,
    channel: String,
    outcome: String,
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
    Ok(Json(match named::find(&app, &caller, id).await? {
        Found::Notice(notice) => shown(&caller, *notice),
        Found::Entry(entry, log) => listed::shown_entry(&caller, &entry, &log),
    }))
}

/// `POST /api/automation-schedules/replay {ids?|filter, dryRun?}`: what failed is sent again, what was sent
/// is not. A filter is about notices; survey instances are named.
///
/// # Errors
/// 422 unless it says which.
pub async fn replay(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<Value>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let choice = Choice::read_as(&body, "an automation schedule", ScheduleId::of, &mut problems);
    let mut which =
        choice.filter.map_or_else(WhichNotices::default, |given| read_which(given, &mut problems));
    problems.into_result()?;
    let (notices, entries) = named::split(choice.ids.as_deref().unwrap_or_default());
    which.ids = choice.ids.is_some().then_some(notices);
    let done = app.engine.replay_notices(caller.tenant, which, choice.dry_run).await?;
    let instances = app.engine.replay_entries(caller.tenant, entries, choice.dry_run).await?;
    let ids = done.ids.iter().map(ToString::to_string);
    let ids: Vec<String> = ids.chain(instances.iter().map(ToString::to_string)).collect();
    let mut said = told(&ids, if choice.dry_run { "wouldReplay" } else { "replayed" });
    said["sentAgain"] = (done.again + instances.len() as u64).into();
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
    json!({
        "scheduleId": one.notice.map(|id| id.to_string()),
        "deliveryId": one.delivery.map(|id| id.to_string()),
        "channel": one.channel,
        "idempotencyKey": one.key,
        "stopped": one.stopped.is_some(),
        "reason": one.stopped,
    })
}

fn read_which(given: &Map<String, Value>, problems: &mut Problems) -> WhichNotices {
    let mut read = Fields::new(given, "filter", problems);
    read.only(&["status", "bookingId", "entityType", "entityId", "eventType"]);
    if read.text("status").is_some_and(|word| word != NoticeStatus::Failed.word()) {
        read.wrong("status", "must be Failed: nothing else is replayed");
    }
    let booking = read.id_text("bookingId");
    let (mut entity_type, mut entity_id) = (read.text("entityType"), read.id_text("entityId"));
    if booking.is_some() {
        if entity_type.is_some() || entity_id.is_some() {
            read.wrong("bookingId", "say either `bookingId`, or `entityType` and `entityId`");
        }
        (entity_type, entity_id) = (Some(BOOKING.to_owned()), booking);
    }
    WhichNotices { entity_type, entity_id, kind: read.text("eventType"), ..WhichNotices::default() }
}

/// What a list is about; `None` for what cannot fit.
struct Wanted {
    notices: Option<NoticeFilter>,
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
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            problems.push("onHold", "must be true or false");
            false
        }
    };
    problems.into_result()?;
    let instances = read_instances(page, on_hold);
    let status = status.map(|word| match NoticeStatus::from_word(word) {
        None if word == PROCESSING => Some((NoticeStatus::Pending, Some(true))),
        Some(NoticeStatus::Pending) => Some((NoticeStatus::Pending, Some(false))),
        other => other.map(|status| (status, None)),
    });
    let key = page.filter("key").map(str::to_owned);
    let fits = !on_hold && status != Some(None);
    let notices = fits.then(|| NoticeFilter { entity_type, entity_id, key, status: status.flatten() });
    Ok(Wanted { notices, instances })
}

/// A survey instance is on hold never, and does not say what entity its event was about.
fn read_instances(page: &Page, on_hold: bool) -> Option<Instances> {
    let about = ["bookingId", "entityType", "entityId"].iter().any(|name| page.filter(name).is_some());
    let status = page.filter("status").map(Status::parse);
    if on_hold || about || status == Some(None) {
        return None;
    }
    Some(Instances { status: status.flatten(), key: page.filter("key").map(str::to_owned) })
}

/// The word for how a notice stands.
fn status_of(notice: &Notice) -> &'static str {
    if notice.in_flight() { PROCESSING } else { notice.status.word() }
}

fn shown(caller: &Caller, notice: Notice) -> Shown {
    let waiting = notice.deliveries.iter().filter(|one| !one.in_flight);
    let next_retry_on = waiting.filter_map(|one| one.due_at).min();
    let held = notice.deliveries.iter().find_map(Logged::waits_for);
    let mut history: Vec<Step> = notice.deliveries.iter().flat_map(|one| steps(caller, one)).collect();
    history.sort_by_key(|step| step.at);
    Shown {
        id: notice.id.to_string(),
        key: notice.key(),
        kind: "notification",
        trigger_type: if notice.request.is_some() { "Manual" } else { "Event" },
        status: status_of(&notice),
        scheduled_on: notice.created_at,
        scheduled_local_date: None,
        time_zone: None,
        attempt_count: history.len(),
        next_retry_on,
        on_hold: false,
        reason_code: notice.reason.clone().or_else(|| held.map(str::to_owned)),
        last_error: last_error(caller, &notice),
        input_hash: None,
        version: None,
        dispatch_result: Counts {
            open: notice.counts.open,
            sent: notice.counts.sent,
            failed: notice.counts.failed,
        },
        history,
    }
}

/// What went wrong last, of whichever delivery, or why one of them waits.
fn last_error(caller: &Caller, notice: &Notice) -> Option<String> {
    let held = notice.deliveries.iter().find(|one| one.waits_for().is_some());
    let said = notice.error.clone().or_else(|| held?.error.clone())?;
    Some(notice.deliveries.iter().fold(said, |said, one| words_of(caller, one, &said)))
}

fn steps<'a>(caller: &'a Caller, of: &'a Logged) -> impl Iterator<Item = Step> + 'a {
    of.tries.iter().map(move |tried| Step {
        at: tried.at,
        delivery_id: of.id.to_string(),
        channel: channel_of(of).to_owned(),
        outcome: tried.outcome.clone(),
        error: tried.error.as_ref().map(|said| words_of(caller, of, said)),
        provider_message_id: tried.provider_id.clone(),
    })
}
