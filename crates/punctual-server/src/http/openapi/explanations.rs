//! The answer to `POST /api/triggers/explain`, which the engine writes; here is its schema.

#![allow(dead_code, reason = "only the schemas of these types are used")]

use super::values::{DateTime, EntityName};
use super::words::{
    ExplainedDeliveryOutcome, ExplainedNotificationOutcome, ExplainedSendOutcome, ExplainedTriggerOutcome,
};
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// One event, and what would become of it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Explained {
    /// Why the event cannot be read, or why nothing comes of it.
    error: Option<String>,
    /// The event that has its id already.
    duplicate_of: Option<String>,
    triggers: Vec<ExplainedTrigger>,
    /// Null for `items`: events that are handed in lead to no notification.
    notification: Option<ExplainedNotification>,
}

/// One trigger of a survey.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExplainedTrigger {
    survey_id: i64,
    survey_version: i64,
    trigger_id: String,
    recipient_address: String,
    outcome: ExplainedTriggerOutcome,
    because: String,
    /// Each condition with the value it saw; null without a filter.
    filter: Option<Map<String, Value>>,
    dedup_text: String,
    unique_hash: String,
    /// The public id of the instance that has this key already.
    duplicate_of: Option<String>,
    duplicate_status: Option<String>,
    /// Why that instance is on hold, if it is.
    duplicate_on_hold: Option<String>,
    channel: String,
    channel_known: bool,
    sends: Vec<ExplainedSend>,
    expires_at: Option<DateTime>,
}

/// One send of a timetable.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExplainedSend {
    #[schemars(range(min = 1))]
    attempt: u64,
    planned_at: DateTime,
    at: DateTime,
    /// The same on the tenant's clocks.
    local: String,
    outcome: ExplainedSendOutcome,
    reason: Option<String>,
    because: Option<String>,
    channel: String,
    /// Null for a text of our own.
    template_id: Option<String>,
    #[schemars(range(min = 1))]
    template_version: Option<u64>,
    locale: String,
    subject: Option<String>,
    body: String,
    warnings: Vec<String>,
}

/// The notification that an event leads to.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExplainedNotification {
    outcome: ExplainedNotificationOutcome,
    reason: Option<String>,
    because: String,
    entity: Option<EntityName>,
    /// The schedule that the event has led to already.
    duplicate_of: Option<String>,
    duplicate_status: Option<String>,
    /// Why that schedule is on hold, if it is.
    duplicate_on_hold: Option<String>,
    deliveries: Vec<ExplainedDelivery>,
}

/// One message to one address.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExplainedDelivery {
    outcome: ExplainedDeliveryOutcome,
    /// As the communication log has it.
    reason: Option<String>,
    because: Option<String>,
    recipient_index: u64,
    /// The name of the recipient.
    recipient: Option<String>,
    to_address: Option<String>,
    planned_channel: String,
    /// The channel that is used: consent may name another one.
    channel: String,
    channel_known: bool,
    /// `{eventId}` stands for the number of an event that was not published.
    idempotency_key: Option<String>,
    /// The delivery that has this key already.
    duplicate_of: Option<String>,
    duplicate_schedule_id: Option<String>,
    duplicate_status: Option<String>,
    /// Why its schedule is on hold, if it is.
    duplicate_on_hold: Option<String>,
    planned_at: DateTime,
    at: DateTime,
    /// The same on the tenant's clocks.
    local: String,
    template_id: Option<String>,
    #[schemars(range(min = 1))]
    template_version: Option<u64>,
    /// Every template in use for such events, and why it is chosen or not.
    templates: Vec<ExplainedTemplate>,
    locale: Option<String>,
    subject: Option<String>,
    body: Option<String>,
    html: Option<String>,
    provider_template: Option<Map<String, Value>>,
    warnings: Vec<String>,
}

/// A template in use for such events.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExplainedTemplate {
    template_id: String,
    #[schemars(range(min = 1))]
    template_version: u64,
    channel: String,
    language: String,
    scope: Option<ExplainedTemplateScope>,
    chosen: bool,
    because: String,
}

/// What a template is only for.
#[derive(JsonSchema)]
#[schemars(inline)]
pub struct ExplainedTemplateScope {
    #[schemars(rename = "type")]
    kind: String,
    id: String,
}
