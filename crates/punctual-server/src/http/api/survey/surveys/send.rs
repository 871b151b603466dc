//! Sending a survey by hand: who would get it and who would not, then for real.

use super::{Id, part};
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests;
use crate::http::api::survey::triggers::word;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::openapi::words::SendOutcome;
use axum::Json;
use axum::extract::{RawPathParams, State};
use punctual::Problems;
use punctual::base::csv;
use punctual::engine::{ChosenTrigger, IngestOutcome, IngestReport, IngestedInstance};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// `POST /api/surveys/{id}/triggers/{triggerId}/send`: `{recipients | csv, payload?, dryRun?}`.
///
/// # Errors
/// 404 when no such trigger is published, 422 for a body that cannot be read.
pub async fn send(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    path: RawPathParams,
    input: Input,
) -> Answer<Json<SentByHand>> {
    let trigger_id = part(&path, "triggerId");
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::SendByHand>();
    let dry_run = read.flag("dryRun").unwrap_or(false);
    let payload = read.object("payload").cloned().unwrap_or_default();
    let items = match (read.value("recipients").is_some(), read.value("csv").is_some()) {
        (true, false) => read.list("recipients").map(|list| listed(list, &payload)),
        (false, true) => read.text("csv").and_then(|text| match csv::read(&text) {
            Ok(rows) => Some(rows.into_iter().map(|row| of_row(row, &payload)).collect()),
            Err(said) => {
                read.wrong("csv", said);
                None
            }
        }),
        _ => {
            read.wrong("recipients", "say either `recipients` (a list) or `csv` (a text with a header)");
            None
        }
    };
    problems.into_result()?;
    let chosen = ChosenTrigger { flow: id.flow(), trigger_id, by: caller.id.clone(), dry_run };
    let done = app.engine.send_by_hand(caller.tenant, &chosen, items.unwrap_or_default()).await?;
    Ok(Json(SentByHand::new(done, dry_run)))
}

/// A recipient is an address alone, a recipient, or a whole item with a payload of its own.
fn listed(list: &[Value], payload: &Map<String, Value>) -> Vec<Value> {
    list.iter()
        .map(|one| match one {
            Value::String(address) => json!({"recipient": {"address": address.trim()}, "payload": payload}),
            Value::Object(item) if item.contains_key("recipient") => {
                let mut item = item.clone();
                let own = item.remove("payload");
                let own = own.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
                item.insert(
                    "payload".into(),
                    Value::Object(payload.clone().into_iter().chain(own).collect()),
                );
                Value::Object(item)
            }
            other => json!({"recipient": other, "payload": payload}),
        })
        .collect()
}

/// A row of a CSV text: `address`, `locale` and `customerRef` are the recipient's, the rest is payload.
fn of_row(row: Vec<(String, String)>, payload: &Map<String, Value>) -> Value {
    let (mut recipient, mut own) = (Map::new(), payload.clone());
    for (name, value) in row.into_iter().filter(|(_, value)| !value.is_empty()) {
        if ["address", "locale", "customerRef"].contains(&name.as_str()) {
            recipient.insert(name, value.into());
        } else {
            own.insert(name, value.into());
        }
    }
    json!({"recipient": recipient, "payload": own})
}

/// What became of the recipients; in a dry run `wouldCreate` stands for `created`, and what would be created
/// has no id.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SentByHand {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    created: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_create: Option<usize>,
    skipped: usize,
    /// Events that ended an instance.
    stopped: usize,
    failed: usize,
    unmatched: usize,
    items: Vec<SentItem>,
}

/// What became of one recipient.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SentItem {
    #[schemars(with = "SendOutcome")]
    outcome: &'static str,
    instances: Vec<SentInstance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<String>,
}

/// A survey instance of a recipient.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SentInstance {
    survey_id: i64,
    trigger_id: String,
    public_id: Option<String>,
    #[schemars(with = "SendOutcome")]
    outcome: &'static str,
}

impl SentByHand {
    fn new(done: Vec<IngestReport>, dry_run: bool) -> Self {
        let count = |outcome: IngestOutcome| done.iter().filter(|item| item.outcome == outcome).count();
        let created = count(IngestOutcome::Created);
        Self {
            created: (!dry_run).then_some(created),
            would_create: dry_run.then_some(created),
            skipped: count(IngestOutcome::Skipped),
            stopped: count(IngestOutcome::Stopped),
            failed: count(IngestOutcome::Failed),
            unmatched: count(IngestOutcome::NoMatch),
            items: done.into_iter().map(|item| SentItem::new(item, dry_run)).collect(),
        }
    }
}

impl SentItem {
    fn new(item: IngestReport, dry_run: bool) -> Self {
        let instance = |one: IngestedInstance| SentInstance {
            survey_id: one.flow.0,
            trigger_id: one.trigger_id.to_string(),
            public_id: (!dry_run || one.outcome != IngestOutcome::Created).then(|| one.public_id.to_string()),
            outcome: outcome_word(one.outcome, dry_run),
        };
        Self {
            outcome: outcome_word(item.outcome, dry_run),
            instances: item.instances.into_iter().map(instance).collect(),
            error: item.error,
        }
    }
}

const fn outcome_word(outcome: IngestOutcome, dry_run: bool) -> &'static str {
    match outcome {
        IngestOutcome::Created if dry_run => "WouldCreate",
        _ => word(outcome),
    }
}
