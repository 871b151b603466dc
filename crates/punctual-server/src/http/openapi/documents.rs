//! Documents that the engine reads and writes itself, as JSON; here are their schemas.

#![allow(dead_code, reason = "only the schemas of these types are used")]

use super::values::{DateTime, DurationText};
use super::words::{MissingValue, SendLogOutcome};
pub use crate::http::api::requests::ProviderTemplate;
use crate::http::api::requests::{Recipients, Step};
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// Waits one after the other, or a growing wait.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
pub enum Backoff {
    /// One after the other.
    Steps(#[schemars(length(min = 1, max = 100))] Vec<DurationText>),
    /// Growing.
    Growing(GrowingBackoff),
}

/// A wait that grows.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct GrowingBackoff {
    from: DurationText,
    to: DurationText,
}

/// Questions, locales, navigation, triggers and subscribers; the guide to surveys has all of it.
#[derive(JsonSchema)]
pub struct SurveyDefinition(Map<String, Value>);

/// What a message template says, and what it is for.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct MessageTemplateFields {
    event_type: String,
    /// A kind (WhatsApp, SMS, Email) or the key of a channel.
    channel: String,
    name: Option<String>,
    language: String,
    scope_type: Option<String>,
    scope_id: Option<String>,
    #[schemars(range(min = 1))]
    attempt: Option<u64>,
    subject: Option<String>,
    body: String,
    html: Option<String>,
    provider_template: Option<ProviderTemplate>,
    missing: MissingValue,
}

/// What an event kind says.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct EventKindFields {
    topic: Option<String>,
    entity_type: Option<String>,
    entity_id_path: Option<String>,
    recipients: Recipients,
    cancel_when: Option<Map<String, Value>>,
    require_entity: bool,
    related: Option<Map<String, Value>>,
    secrets: Option<Vec<String>>,
    schema: Option<Map<String, Value>>,
    sample: Option<Map<String, Value>>,
}

/// One line of the log of a survey instance.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DeliveryLine {
    #[schemars(range(min = 1))]
    attempt: u64,
    sent_at: DateTime,
    status: SendLogOutcome,
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    message_id: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    error: Option<String>,
    /// Why it was not even tried, as one word: `stop`, `opted-out`.
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    reason: Option<String>,
}

/// What is left of a script.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ScriptFields {
    script: Vec<Step>,
    latency_ms: u64,
}
