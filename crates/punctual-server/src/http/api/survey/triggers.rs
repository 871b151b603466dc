//! Events in, invitations out; and what an event would come to.

mod explain;

pub use explain::explain;

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input, not_json};
use axum::Json;
use axum::extract::State;
use punctual::engine::{Ingest, Ingested, Instance, Outcome};
use punctual::{Problem, Problems};
use serde::Serialize;

/// What became of the events, in the order given.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<usize>,
    /// In a dry run instead of `created`.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_create: Option<usize>,
    skipped: usize,
    /// Events that ended an instance, by the `stopOn` of its trigger.
    stopped: usize,
    failed: usize,
    unmatched: usize,
    items: Vec<Item>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Problem>,
}

/// What became of one event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    outcome: &'static str,
    instances: Vec<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// An entry that an event was about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    survey_id: i64,
    trigger_id: String,
    /// None for an entry that a dry run would create.
    public_id: Option<String>,
    outcome: &'static str,
}

/// `POST /api/triggers/ingest`, `POST /api/Surveys/Triggers/ingest`
///
/// # Errors
/// 422 for a body that cannot be read; an item that cannot be read fails alone.
pub async fn ingest(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<Answered>> {
    let ingest = read_ingest(&input)?;
    let done = app.engine.ingest(caller.tenant, &ingest).await?;
    let mut answered = answered(done);
    if answered.unmatched > 0 {
        let warning = app.engine.ingest_warning(caller.tenant, &ingest.event_kind).await?;
        answered.warnings.extend(warning.map(|said| Problem::new("eventKind", said)));
    }
    Ok(Json(answered))
}

fn read_ingest(input: &Input) -> Answer<Ingest> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only(&["eventKind", "items"]);
    let event_kind = read.need_name("eventKind");
    read.need("items");
    let items = read.list("items").cloned().unwrap_or_default();
    problems.into_result()?;
    Ok(Ingest { event_kind, items })
}

/// The answer to a dry run: nothing was created, so nothing has an id.
pub(in crate::http::api) fn foretold(done: Vec<Ingested>) -> Answered {
    let mut answered = answered(done);
    answered.would_create = answered.created.take();
    let instances = |item: &mut Item| std::mem::take(&mut item.instances);
    for item in &mut answered.items {
        item.outcome = would(item.outcome);
        let foretell = |one: Shown| Shown {
            public_id: one.public_id.filter(|_| one.outcome != CREATED),
            outcome: would(one.outcome),
            ..one
        };
        item.instances = instances(item).into_iter().map(foretell).collect();
    }
    answered
}

const CREATED: &str = "Created";

fn would(outcome: &'static str) -> &'static str {
    if outcome == CREATED { "WouldCreate" } else { outcome }
}

/// The answer to an ingest.
pub(in crate::http::api) fn answered(done: Vec<Ingested>) -> Answered {
    let count = |outcome: Outcome| done.iter().filter(|item| item.outcome == outcome).count();
    Answered {
        created: Some(count(Outcome::Created)),
        would_create: None,
        skipped: count(Outcome::Skipped),
        stopped: count(Outcome::Stopped),
        failed: count(Outcome::Failed),
        unmatched: count(Outcome::NoMatch),
        items: done.into_iter().map(shown).collect(),
        warnings: Vec::new(),
    }
}

fn shown(item: Ingested) -> Item {
    let instance = |one: Instance| Shown {
        survey_id: one.flow.0,
        trigger_id: one.trigger_id.to_string(),
        public_id: Some(one.public_id.to_string()),
        outcome: word(one.outcome),
    };
    Item {
        outcome: word(item.outcome),
        instances: item.instances.into_iter().map(instance).collect(),
        error: item.error,
    }
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => CREATED,
        Outcome::Skipped => "Skipped",
        Outcome::Stopped => "Stopped",
        Outcome::NoMatch => "NoMatch",
        Outcome::Failed => "Failed",
    }
}
