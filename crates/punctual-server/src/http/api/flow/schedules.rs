//! Automation schedules: entries of every kind, how far each is, and once more those that failed.
//!
//! An entry is known by its number, or by its public id where it has one, as survey instances have.

mod change;
mod named;
mod shown;
mod trace;

pub use change::{cancel, hold, release, retry};
pub use shown::ScheduleView;
pub use trace::{Trace, trace};

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::delivery::communication_logs::{BOOKING, read_entity};
use crate::http::api::requests::ScheduleSelectionFilter;
use crate::http::api::selection::{BulkSelection, count};
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use named::ScheduleId;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::store::entries::preview::PreviewedMessage;
use punctual::delivery::store::entries::replay::{ReplayMode, ReplaySelection};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::store::entries::history::ChangeAuthor;
use punctual::flow::store::entries::lists::EntryFilter;
use punctual::{EntryId, Error, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The words of every schedule's status.
const STATUSES: [&str; 9] =
    ["Pending", PROCESSING, "Sent", "Opened", "Completed", "Failed", "Deactivated", "Cancelled", "Expired"];
/// The word for one of which something is being sent now.
const PROCESSING: &str = "Processing";

/// `GET /api/automation-schedules?bookingId=|entityType=&entityId=&key=&status=&onHold=`, the newest first.
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<ScheduleView>>> {
    let (filter, below) = (read_filter(&page)?, below(&page)?);
    let found = app.engine.store().schedule(caller.tenant, filter, below, page.limit + 1).await?;
    let more = found.len() > page.limit;
    let last = found.iter().take(page.limit).next_back().map(|one| format!("{ENTRY}{}", one.entry.id));
    let items = found.iter().take(page.limit).map(|one| shown::shown(&caller, one)).collect();
    Ok(Json(page.list_up_to(items, last.filter(|_| more))))
}

/// `GET /api/automation-schedules/{id}`
///
/// # Errors
/// 404 when this tenant has none of that id.
pub async fn show(State(app): State<App>, caller: Caller, id: ScheduleId) -> Answer<Json<ScheduleView>> {
    Ok(Json(change::shown_whole(&app, &caller, id).await?))
}

/// `POST /api/automation-schedules/replay {ids?|filter, dryRun?}`: what failed is sent again, what was sent
/// is not, for entries of every kind.
///
/// # Errors
/// 422 unless it says which.
pub async fn replay(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<ReplayedSchedules>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let selection = BulkSelection::read_as(&body, "an automation schedule", ScheduleId::of, &mut problems);
    let mut which =
        selection.filter.map_or_else(ReplaySelection::default, |given| read_which(given, &mut problems));
    problems.into_result()?;
    if let Some(ids) = &selection.ids {
        let (numbers, public_ids) = named::split(ids);
        (which.ids, which.public_ids) = (Some(numbers), Some(public_ids));
    }
    let mode = ReplayMode::of(selection.dry_run, ChangeAuthor::new(&caller.name, "replay"));
    let done = app.engine.replay_failed(caller.tenant, which, mode).await?;
    let ids = done.ids.iter().map(ToString::to_string);
    let ids: Vec<String> = ids.chain(done.instances.iter().map(ToString::to_string)).collect();
    let (replayed, would_replay) = count(&ids, selection.dry_run);
    let all = usize::try_from(done.again + done.stopped).unwrap_or(usize::MAX);
    Ok(Json(ReplayedSchedules {
        replayed,
        would_replay,
        ids,
        sent_again: done.again,
        stopped_by_key: done.stopped,
        more_items: selection.dry_run.then(|| all.saturating_sub(done.told.len())),
        items: selection.dry_run.then(|| done.told.iter().map(would_be).collect()),
    }))
}

/// What a replay did, or would do.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SchedulesReplayed")]
pub struct ReplayedSchedules {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    replayed: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_replay: Option<usize>,
    ids: Vec<String>,
    /// Messages that are sent again, or would be.
    sent_again: u64,
    /// Messages that were sent, and that their keys keep from being sent again.
    stopped_by_key: u64,
    /// In a dry run: those messages, up to 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<ReplayedDelivery>")]
    items: Option<Vec<ReplayedDelivery>>,
    /// In a dry run: how many more there are than items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    more_items: Option<usize>,
}

/// One message of a dry run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ReplayedDelivery {
    schedule_id: Option<String>,
    /// Null for one that was never planned.
    delivery_id: Option<String>,
    channel: String,
    idempotency_key: String,
    stopped: bool,
    /// Why it is stopped.
    reason: Option<&'static str>,
}

fn would_be(one: &PreviewedMessage) -> ReplayedDelivery {
    let public_id = one.public_id.map(|id| id.to_string());
    ReplayedDelivery {
        schedule_id: public_id.or_else(|| Some(one.entry?.to_string())),
        delivery_id: one.delivery.map(|id| id.to_string()),
        channel: one.channel.clone(),
        idempotency_key: one.key.clone(),
        stopped: one.stopped.is_some(),
        reason: one.stopped,
    }
}

fn read_which(given: &Map<String, Value>, problems: &mut Problems) -> ReplaySelection {
    let mut read = Fields::new(given, "filter", problems);
    read.only_of::<ScheduleSelectionFilter>();
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

/// What a cursor of this list begins with.
const ENTRY: &str = "entry-";

/// The id that the next page is below.
fn below(page: &Page) -> Answer<EntryId> {
    let Some(text) = page.after() else { return Ok(EntryId(i64::MAX)) };
    let id = text.strip_prefix(ENTRY).and_then(|id| id.parse().ok()).map(EntryId);
    let wrong = || Error::invalid("cursor", "is not a cursor that this list handed out");
    id.ok_or_else(|| wrong().into())
}

fn read_filter(page: &Page) -> Answer<EntryFilter> {
    let mut problems = Problems::default();
    let (entity_type, entity_id, instance) = read_entity(page, &mut problems);
    let status = page.filter("status");
    if status.is_some_and(|word| !STATUSES.contains(&word)) {
        problems.push("status", format!("must be one of {}", STATUSES.join(", ")));
    }
    let held = match page.filter("onHold") {
        None => None,
        Some("false") => Some(false),
        Some("true") => Some(true),
        Some(_) => {
            problems.push("onHold", "must be true or false");
            None
        }
    };
    problems.into_result()?;
    let key = page.filter("key").map(str::to_owned);
    let in_flight = status.map(|word| word == PROCESSING);
    let status = status.and_then(EntryStatus::parse);
    let about = EntryFilter { entity_type, entity_id, instance, ..EntryFilter::default() };
    Ok(EntryFilter { key, held, status, in_flight, ..about })
}
