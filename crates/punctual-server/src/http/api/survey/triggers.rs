//! Events in, invitations out; and what an event would come to.

mod explain;

pub use explain::{Explanations, explain};

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input, not_json};
use crate::http::openapi::values::ProblemAt;
use crate::http::openapi::words;
use axum::Json;
use axum::extract::State;
use punctual::engine::{IngestOutcome, IngestReport, IngestRequest, IngestedInstance};
use punctual::{Problem, Problems};
use schemars::JsonSchema;
use serde::Serialize;

/// What became of the events, in the order given.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Ingested")]
pub struct IngestResult {
    created: usize,
    skipped: usize,
    /// Events that ended an instance.
    stopped: usize,
    failed: usize,
    unmatched: usize,
    items: Vec<IngestedItem>,
    /// Such as an event kind that no published trigger is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// What became of one event.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IngestedItem")]
pub struct IngestedItem {
    #[schemars(with = "words::IngestOutcome")]
    outcome: &'static str,
    instances: Vec<IngestedEntryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<String>,
}

/// An entry that an event was about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct IngestedEntryView {
    survey_id: i64,
    trigger_id: String,
    public_id: String,
    #[schemars(with = "words::IngestOutcome")]
    outcome: &'static str,
}

/// `POST /api/triggers/ingest`, `POST /api/Surveys/Triggers/ingest`
///
/// # Errors
/// 422 for a body that cannot be read; an item that cannot be read fails alone.
pub async fn ingest(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<IngestResult>> {
    let ingest = read_ingest(&input)?;
    let done = app.engine.ingest(caller.tenant, &ingest).await?;
    let mut answered = answered(done);
    if answered.unmatched > 0 {
        let warning = app.engine.ingest_warning(caller.tenant, &ingest.event_kind).await?;
        answered.warnings.extend(warning.map(|said| Problem::new("eventKind", said)));
    }
    Ok(Json(answered))
}

fn read_ingest(input: &Input) -> Answer<IngestRequest> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::Ingest>();
    let event_kind = read.need_name("eventKind");
    read.need("items");
    let items = read.list("items").cloned().unwrap_or_default();
    problems.into_result()?;
    Ok(IngestRequest { event_kind, items })
}

/// The answer to an ingest.
fn answered(done: Vec<IngestReport>) -> IngestResult {
    let count = |outcome: IngestOutcome| done.iter().filter(|item| item.outcome == outcome).count();
    IngestResult {
        created: count(IngestOutcome::Created),
        skipped: count(IngestOutcome::Skipped),
        stopped: count(IngestOutcome::Stopped),
        failed: count(IngestOutcome::Failed),
        unmatched: count(IngestOutcome::NoMatch),
        items: done.into_iter().map(shown).collect(),
        warnings: Vec::new(),
    }
}

fn shown(item: IngestReport) -> IngestedItem {
    let instance = |one: IngestedInstance| IngestedEntryView {
        survey_id: one.flow.0,
        trigger_id: one.trigger_id.to_string(),
        public_id: one.public_id.to_string(),
        outcome: word(one.outcome),
    };
    IngestedItem {
        outcome: word(item.outcome),
        instances: item.instances.into_iter().map(instance).collect(),
        error: item.error,
    }
}

pub(super) const fn word(outcome: IngestOutcome) -> &'static str {
    match outcome {
        IngestOutcome::Created => "Created",
        IngestOutcome::Skipped => "Skipped",
        IngestOutcome::Stopped => "Stopped",
        IngestOutcome::NoMatch => "NoMatch",
        IngestOutcome::Failed => "Failed",
    }
}
