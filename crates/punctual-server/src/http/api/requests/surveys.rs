//! Surveys, and the events that may begin them.

use super::messages::{CloudEvent, Event};
use crate::http::openapi::documents::SurveyDefinition;
use crate::http::openapi::values::TextOrNumber;
use crate::http::openapi::values::{DateTime, Name};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A survey to make.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSurvey {
    name: Name,
    integration_id: Option<String>,
    definition: SurveyDefinition,
}

/// What changes of a survey.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SurveyChange {
    name: Option<Name>,
    integration_id: Option<String>,
    definition: Option<SurveyDefinition>,
}

/// Whom to send a survey: either recipients or csv.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendByHand {
    recipients: Option<Vec<Value>>,
    csv: Option<String>,
    payload: Option<Map<String, Value>>,
    dry_run: Option<bool>,
}

/// Events that may begin surveys.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ingest {
    event_kind: Name,
    #[schemars(length(max = 10_000))]
    items: Vec<Candidate>,
}

/// One event that may begin a survey.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Candidate {
    payload: Option<Map<String, Value>>,
    recipient: Option<CandidateRecipient>,
    occurred_at: Option<DateTime>,
    entity: Option<Map<String, Value>>,
}

/// Who is asked.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct CandidateRecipient {
    address: String,
    locale: Option<String>,
    customer_ref: Option<String>,
}

/// The answers to a survey.
#[derive(JsonSchema)]
#[schemars(rename = "Response", deny_unknown_fields)]
pub struct SurveyResponse {
    /// By the ids of the questions.
    answers: Map<String, Value>,
    meta: Option<SurveyResponseMeta>,
}

/// About the person who answers.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct SurveyResponseMeta {
    #[schemars(length(max = 255))]
    agent_id: Option<String>,
}

/// What is to be explained: events that are handed in, an event that was not published, or one that was.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum ToExplain {
    /// Events that are handed in.
    Items(Box<Ingest>),
    /// An event that was not published.
    New(Box<NewEventToExplain>),
    /// An event that was published.
    Published(PublishedEventToExplain),
}

/// An event that was not published.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct NewEventToExplain {
    /// An event that was not published; not for viewers.
    event: EventToExplain,
}

/// An event of either form.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
pub enum EventToExplain {
    /// An event.
    Plain(Box<Event>),
    /// A CloudEvent.
    Cloud(Box<CloudEvent>),
}

/// An event that was published.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedEventToExplain {
    /// An event that was published; not for viewers.
    event_id: TextOrNumber,
}

/// A field for each question of the step, by its id, and `id.other` for words of one's own. Several choices
/// are several fields. A field `.go` of `back` goes back, of `keep` only keeps.
#[derive(JsonSchema)]
pub struct SurveyForm(BTreeMap<String, String>);
