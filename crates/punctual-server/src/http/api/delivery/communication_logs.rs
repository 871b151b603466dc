//! The communication log: every message to a person, and every try to send it.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::error::Answer;
use crate::http::openapi::values::{DateTime, PublicIdText};
use crate::http::openapi::words;
use crate::http::openapi::words::{CommunicationStatus, ReceiptStatus, TryOutcome, TryReason};
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use punctual::base::redaction::mask_address;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::rules::template::choose::{is_named, word_of};
use punctual::delivery::store::deliveries::log::{
    DeliveryFilter, LoggedAttempt, LoggedDelivery, LoggedReceipt,
};
use punctual::flow::rules::entry::EntryKind;
use punctual::flow::rules::public_id::PublicId;
use punctual::notification::rules::notification::key;
use punctual::{DeliveryId, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// The word for a delivery that is being sent now.
const SENDING: &str = "Sending";
/// The type of the entities that `bookingId` names.
pub(in crate::http::api) const BOOKING: &str = "booking";
/// The type of the entity that a survey send has where its cause names none: the instance itself.
const SURVEY_INSTANCE: &str = "survey-instance";
/// The outcome of a try, and the reason of a schedule, whose channel no process has.
pub(in crate::http::api) const NO_CHANNEL: &str = "no-channel";
/// How the name of a person begins who triggered something.
pub(in crate::http::api) const BY_PERSON: &str = "user:";
/// Who triggered what no person asked for.
const BY_EVENT: &str = "event";

/// One message to a person.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Communication")]
pub struct DeliveryView {
    id: String,
    /// The channel as its template names it, which is how the idempotency key has it; if it went by another
    /// one, that one's kind.
    channel: String,
    event_type: String,
    /// Masked for viewers; empty if nobody could be reached.
    to_address: String,
    template_id: String,
    template_version: u32,
    correlation_id: Option<String>,
    /// What lets one message through; an address in it is masked for viewers.
    idempotency_key: String,
    /// The name of the provider that the last try was handed to, such as `twilio-sms`; before the first try
    /// that of the channel, or the channel's key where that is not known.
    provider: String,
    provider_message_id: Option<String>,
    #[schemars(with = "CommunicationStatus")]
    status: &'static str,
    #[schemars(with = "Option<DateTime>")]
    sent_at_utc: Option<Timestamp>,
    attempt_count: usize,
    last_error: Option<String>,
    entity_type: Option<String>,
    entity_id: Option<String>,
    /// The name that the event gave; masked for viewers.
    recipient: Option<String>,
    /// Their name in another system.
    recipient_ref: Option<String>,
    /// `event`, or the name of the key that asked for it again.
    triggered_by: String,
    #[schemars(with = "DateTime")]
    created_at_utc: Timestamp,
    /// The kind of its schedule.
    #[schemars(with = "words::EntryKind")]
    kind: &'static str,
    /// The number of its schedule.
    entry_id: String,
    /// 1 is the first send of its schedule, 2 the first reminder.
    #[schemars(range(min = 1))]
    send_number: u32,
    /// The survey instance; not there for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PublicIdText")]
    public_id: Option<PublicId>,
    /// What the words of the last try lacked.
    warnings: Vec<String>,
    attempts: Vec<DeliveryAttemptView>,
    /// What the provider told later; not there if nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    receipts: Vec<ReceiptView>,
}

/// What a provider reported later.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CommunicationReceipt")]
pub struct ReceiptView {
    #[schemars(with = "DateTime")]
    at: Timestamp,
    #[schemars(with = "ReceiptStatus")]
    status: String,
    /// The provider's own word.
    said: String,
    error: Option<String>,
}

/// One try to send.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CommunicationTry")]
pub struct DeliveryAttemptView {
    #[schemars(with = "DateTime")]
    at: Timestamp,
    #[schemars(with = "TryOutcome")]
    outcome: &'static str,
    /// Why it is `permanent`: no process has the channel. Not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TryReason")]
    reason: Option<&'static str>,
    error: Option<String>,
    /// The name of the provider that it was handed to; null if it was handed to nobody, or a crash lost its
    /// end.
    provider: Option<String>,
    provider_message_id: Option<String>,
    /// What the words of this try lacked; not there if nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// What the provider answered, in part; only of a single message, and not for viewers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Box<RawValue>")]
    answer: Option<Box<RawValue>>,
}

/// `GET /api/communication-logs?bookingId=|entityType=&entityId=&address=
/// &status=&channel=&from=&to=&kind=&publicId=
/// &entryKey=&correlationId=`, the newest first.
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<DeliveryView>>> {
    let filter = read_filter(&page)?;
    let before = match page.after_id()? {
        0 => DeliveryId(i64::MAX),
        id => DeliveryId(id),
    };
    let found = app.engine.store().communication_log(caller.tenant, filter, before, page.limit + 1).await?;
    let shown = found.into_iter().map(|one| shown(&app, &caller, one)).collect();
    Ok(Json(page.list(shown, |one: &DeliveryView| one.id.clone())))
}

/// `GET /api/communication-logs/{id}`: with what providers answered.
///
/// # Errors
/// 404 when this tenant has none of that id.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<DeliveryView>> {
    let found = app.engine.store().communication(caller.tenant, DeliveryId(id.0)).await?;
    found
        .map(|one| Json(shown(&app, &caller, one)))
        .ok_or_else(|| id.not_found("message in the communication log"))
}

/// The type and the id of the entity that a query is about, and the survey instance that they name.
pub(in crate::http::api) fn read_entity(
    page: &Page,
    problems: &mut Problems,
) -> (Option<String>, Option<String>, Option<PublicId>) {
    let text = |name: &str| page.filter(name).map(str::to_owned);
    let Some(booking) = text("bookingId") else {
        let (kind, id) = (text("entityType"), text("entityId"));
        let is_instance = kind.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case(SURVEY_INSTANCE));
        let instance = id.as_deref().filter(|_| is_instance).and_then(PublicId::parse);
        return (kind, id, instance);
    };
    for name in ["entityType", "entityId"] {
        if page.filter(name).is_some() {
            problems.push(name, "say either `bookingId`, or `entityType` and `entityId`");
        }
    }
    (Some(BOOKING.to_owned()), Some(booking), None)
}

fn read_filter(page: &Page) -> Answer<DeliveryFilter> {
    let mut problems = Problems::default();
    let (entity_type, entity_id, instance) = read_entity(page, &mut problems);
    let status = page.filter("status").map(read_status);
    if status == Some(None) {
        let said = "must be one of Pending, Sending, Sent, Delivered, Failed, Skipped, Uncertain";
        problems.push("status", said);
    }
    let mut time = |name: &str| {
        let read = Timestamp::parse(page.filter(name)?);
        read.map_err(|said| problems.push(name, said)).ok()
    };
    let (from, to) = (time("from"), time("to"));
    let kind = page.filter("kind").map(EntryKind::from_word);
    if kind == Some(None) {
        let words = EntryKind::ALL.map(EntryKind::word).join(", ");
        problems.push("kind", format!("must be one of {words}"));
    }
    let entry = match (page.filter("publicId"), page.filter("entryKey")) {
        (Some(_), Some(_)) => {
            problems.push("entryKey", "say either `publicId` or `entryKey`");
            None
        }
        (public_id, key) => public_id.or(key).map(str::to_owned),
    };
    problems.into_result()?;
    Ok(DeliveryFilter {
        kind: kind.flatten(),
        entry,
        correlation_id: page.filter("correlationId").map(str::to_owned),
        entity_type,
        entity_id,
        instance,
        address: page.filter("address").map(str::to_owned),
        status: status.flatten(),
        channel: page.filter("channel").map(str::to_owned),
        from,
        to,
    })
}

fn read_status(word: &str) -> Option<(DeliveryStatus, Option<bool>)> {
    match DeliveryStatus::from_word(word) {
        None if word == SENDING => Some((DeliveryStatus::Pending, Some(true))),
        Some(DeliveryStatus::Pending) => Some((DeliveryStatus::Pending, Some(false))),
        other => other.map(|status| (status, None)),
    }
}

/// The word for how a delivery stands.
pub(in crate::http::api) const fn status_of(one: &LoggedDelivery) -> &'static str {
    if one.in_flight { SENDING } else { one.status.word() }
}

/// Who had it sent: a person, or an event.
fn triggered_by(one: &LoggedDelivery) -> String {
    let by_person = one.by_request || one.triggered_by.starts_with(BY_PERSON);
    if by_person { one.triggered_by.clone() } else { BY_EVENT.to_owned() }
}

/// The channel as its template names it, which is how its key has it; one that took its place by the kind
/// that people know.
pub(in crate::http::api) fn channel_of(one: &LoggedDelivery) -> &str {
    let planned = parts_of(one).map(|parts| parts.channel);
    planned.filter(|named| is_named(&one.channel, named)).unwrap_or_else(|| word_of(&one.channel))
}

fn parts_of(one: &LoggedDelivery) -> Option<key::DeliveryKeyParts<'_>> {
    key::parts(&one.idempotency_key, one.entity.as_ref(), &one.event_kind, one.template)
}

/// Viewers see neither the whole address, also in the key, nor what the provider answered.
fn shown(app: &App, caller: &Caller, one: LoggedDelivery) -> DeliveryView {
    let words = |said: &String| words_of(caller, &one, said);
    let (entity_type, entity_id) = entity_of(&one).unzip();
    DeliveryView {
        id: one.id.to_string(),
        channel: channel_of(&one).to_owned(),
        event_type: one.event_kind.clone(),
        to_address: caller.visible_address(&one.address),
        template_id: one.template.to_string(),
        template_version: one.template_version,
        correlation_id: one.correlation_id.clone(),
        idempotency_key: key_for(caller, &one),
        provider_message_id: one.provider_id.clone(),
        status: status_of(&one),
        sent_at_utc: one.sent_at,
        attempt_count: one.tries.len(),
        last_error: one.error.as_ref().map(words),
        entity_type,
        entity_id,
        recipient: one.recipient.name.as_deref().map(|name| caller.visible_address(name)),
        recipient_ref: one.recipient.reference.clone(),
        triggered_by: triggered_by(&one),
        created_at_utc: one.created_at,
        kind: one.kind.word(),
        entry_id: one.entry.to_string(),
        send_number: one.send,
        public_id: one.public_id,
        warnings: one.tries.last().map(|tried| tried.warnings.clone()).unwrap_or_default(),
        attempts: one.tries.iter().map(|tried| shown_try(caller, tried, &words)).collect(),
        receipts: one.receipts.iter().map(|heard| shown_receipt(heard, &words)).collect(),
        provider: provider_of(app, &one),
    }
}

/// What a delivery is about: the entity of its cause, or else the survey instance itself.
fn entity_of(one: &LoggedDelivery) -> Option<(String, String)> {
    let entity = one.entity.clone().map(|entity| (entity.kind, entity.id));
    entity.or_else(|| Some((SURVEY_INSTANCE.to_owned(), one.public_id?.to_string())))
}

/// The provider of the last try that was handed to one; before that the one that would be.
fn provider_of(app: &App, one: &LoggedDelivery) -> String {
    let last = one.tries.iter().rev().find_map(|tried| tried.provider.clone());
    last.unwrap_or_else(|| app.engine.channels().provider_of(&one.channel).to_owned())
}

/// With several recipients the key has the address in it: the one it was planned for, even if it went
/// elsewhere.
fn key_for(caller: &Caller, one: &LoggedDelivery) -> String {
    let key = &one.idempotency_key;
    if caller.can_see_personal_data() {
        return key.clone();
    }
    match parts_of(one) {
        Some(parts) => parts.front.to_owned() + &caller.visible_address(parts.address.unwrap_or_default()),
        // Nobody knows where an address might be in it.
        None => mask_address(key),
    }
}

/// What was said about a delivery, as a caller may see it.
pub(in crate::http::api) fn words_of(caller: &Caller, one: &LoggedDelivery, said: &str) -> String {
    let planned = parts_of(one).and_then(|parts| parts.address).unwrap_or_default();
    caller.redact(&caller.redact(said, &one.address), planned)
}

/// The outcome of a try in the words that the contract has for it, and the word for why, if there is another.
/// A try without a channel is not made again by itself, so it counts as permanent.
pub(in crate::http::api) fn outcome_of(kept: &str) -> (&'static str, Option<&'static str>) {
    match kept {
        "sent" => ("sent", None),
        "transient" => ("transient", None),
        "permanent" => ("permanent", None),
        "timeout" => ("timeout", None),
        NO_CHANNEL => ("permanent", Some(NO_CHANNEL)),
        _ => ("unknown", None),
    }
}

fn shown_receipt(heard: &LoggedReceipt, words: &dyn Fn(&String) -> String) -> ReceiptView {
    ReceiptView {
        at: heard.at,
        status: heard.status.clone(),
        said: words(&heard.said),
        error: heard.error.as_ref().map(words),
    }
}

fn shown_try(
    caller: &Caller,
    tried: &LoggedAttempt,
    words: &dyn Fn(&String) -> String,
) -> DeliveryAttemptView {
    // What is no JSON is shown as a text.
    let json = |text: &String| match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => caller.visible_payload(text.clone()),
        Err(_) => caller.visible_payload(serde_json::Value::from(text.as_str()).to_string()),
    };
    let (outcome, reason) = outcome_of(&tried.outcome);
    DeliveryAttemptView {
        at: tried.at,
        outcome,
        reason,
        error: tried.error.as_ref().map(words),
        provider: tried.provider.clone(),
        provider_message_id: tried.provider_id.clone(),
        warnings: tried.warnings.clone(),
        answer: tried.answer.as_ref().and_then(json),
    }
}
