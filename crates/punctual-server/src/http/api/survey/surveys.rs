//! Surveys: drafts, versions, what their answers come to, and sending one by hand.

pub(in crate::http) mod comments;
pub(in crate::http) mod results;
mod send;

pub use comments::comments;
pub use results::{ResultsView as ShownResults, export, results, shown as shown_results};
pub use send::{SentByHand, send};

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::api::requests::NewSurvey;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::documents::SurveyDefinition;
use crate::http::openapi::values::{DateTime, ProblemAt};
use crate::http::pagination::{List, Page, weight};
use axum::Json;
use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use punctual::flow::store::flows::{Flow, FlowDraft};
use punctual::{FlowId, Problem, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A survey.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Survey")]
pub struct SurveyView {
    #[schemars(range(min = 1))]
    id: i64,
    name: String,
    integration_id: Option<String>,
    #[schemars(with = "SurveyDefinition")]
    draft: Value,
    published_version: Option<u32>,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    #[schemars(with = "DateTime")]
    updated_at: Timestamp,
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// A survey that was published.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SurveyPublished")]
pub struct PublishedSurvey {
    survey_id: i64,
    #[schemars(range(min = 1))]
    version: u32,
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// A version.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SurveyVersion")]
pub struct SurveyVersionView {
    survey_id: i64,
    #[schemars(range(min = 1))]
    version: u32,
    #[schemars(with = "SurveyDefinition")]
    definition: Value,
    #[schemars(with = "DateTime")]
    published_at: Timestamp,
}

impl Id {
    fn flow(self) -> FlowId {
        FlowId(self.0)
    }
}

/// `POST /api/surveys`
///
/// # Errors
/// 422 with every problem of the definition.
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input,
) -> Answer<(StatusCode, Json<SurveyView>)> {
    let draft = read_draft(&input, None)?;
    let flow = app.engine.store().create_flow(caller.tenant, draft).await?;
    Ok((StatusCode::CREATED, Json(show_flow(&app, flow))))
}

/// `GET /api/surveys`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<SurveyView>>> {
    let (after, store) = (FlowId(page.after_id()?), app.engine.store());
    let fetch = |after, limit| store.flows(caller.tenant, after, limit);
    let (flows, more) = page.gather(after, fetch, |flow| flow.id, |flow| weight(&flow.draft)).await?;
    let next = flows.last().filter(|_| more).map(|flow| flow.id.0.to_string());
    let shown = flows.into_iter().map(|flow| show_flow(&app, flow)).collect();
    Ok(Json(page.list_up_to(shown, next)))
}

/// `GET /api/surveys/{id}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<SurveyView>> {
    let flow = app.engine.store().flow(caller.tenant, id.flow()).await?;
    flow.map(|flow| Json(show_flow(&app, flow))).ok_or_else(|| id.not_found("survey"))
}

/// `PUT /api/surveys/{id}`: replaces the draft; what is not named stays.
///
/// # Errors
/// 404 when there is none, 422 with every problem.
pub async fn change(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    input: Input,
) -> Answer<Json<SurveyView>> {
    let known = app.engine.store().flow(caller.tenant, id.flow()).await?;
    let known = known.ok_or_else(|| id.not_found("survey"))?;
    let draft = read_draft(&input, Some(known))?;
    let flow = app.engine.store().change_flow(caller.tenant, id.flow(), draft).await?;
    Ok(Json(show_flow(&app, flow)))
}

/// `POST /api/surveys/{id}/publish`
///
/// # Errors
/// 404 when there is none, 422 when the draft is not ready.
pub async fn publish(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<PublishedSurvey>> {
    let version = app.engine.store().publish_flow(caller.tenant, id.flow()).await?;
    let flow = app.engine.store().flow(caller.tenant, id.flow()).await?;
    let warnings = flow.map(|flow| show_flow(&app, flow).warnings).unwrap_or_default();
    Ok(Json(PublishedSurvey { survey_id: id.0, version, warnings }))
}

/// `POST /api/surveys/{id}/unpublish`: events meet it no more; what was sent goes on.
///
/// # Errors
/// 404 when there is none.
pub async fn unpublish(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<SurveyView>> {
    app.engine.store().unpublish_flow(caller.tenant, id.flow()).await?;
    show(State(app), caller, id).await
}

/// `GET /api/surveys/{id}/versions/{n}`
///
/// # Errors
/// 404 when there is none.
pub async fn version(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    path: RawPathParams,
) -> Answer<Json<SurveyVersionView>> {
    let n = part(&path, "n");
    let missing = || ApiFailure::not_found(format!("survey {} has no version `{n}`", id.0));
    let number = n.parse().map_err(|_| missing())?;
    let found = app.engine.store().flow_version(id.flow(), number).await?;
    let version = found.filter(|version| version.tenant == caller.tenant).ok_or_else(missing)?;
    Ok(Json(SurveyVersionView {
        survey_id: id.0,
        version: version.number,
        definition: version.definition,
        published_at: version.published_at,
    }))
}

/// A part of the path; what is not UTF-8 names nothing.
fn part(path: &RawPathParams, name: &str) -> String {
    path.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_owned()).unwrap_or_default()
}

fn show_flow(app: &App, flow: Flow) -> SurveyView {
    let draft = FlowDraft {
        name: flow.name.clone(),
        integration_id: flow.integration_id.clone(),
        definition: flow.draft.clone(),
    };
    SurveyView {
        id: flow.id.0,
        warnings: app.engine.find_draft_warnings(&draft).0,
        name: flow.name,
        integration_id: flow.integration_id,
        draft: flow.draft,
        published_version: flow.published,
        created_at: flow.created_at,
        updated_at: flow.updated_at,
    }
}

fn read_draft(input: &Input, known: Option<Flow>) -> Answer<FlowDraft> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<NewSurvey>();
    let fresh = known.is_none();
    let name = if fresh || read.value("name").is_some() { Some(read.need_text("name")) } else { None };
    if fresh {
        read.need("definition");
    }
    let integration_id = read.text("integrationId");
    let definition = read.value("definition").cloned();
    let kept = known.map(|flow| (flow.name, flow.integration_id, flow.draft));
    let (old_name, old_id, old_draft) = kept.unwrap_or_default();
    let draft = FlowDraft {
        name: name.unwrap_or(old_name),
        // A field that is there and null is taken away.
        integration_id: if body.contains_key("integrationId") { integration_id } else { old_id },
        definition: definition.unwrap_or(old_draft),
    };
    let found =
        if problems.0.iter().any(|p| p.path == "definition") { Problems::default() } else { draft.check().0 };
    for problem in found.0 {
        if !problems.0.iter().any(|known| known.path == problem.path) {
            problems.0.push(problem);
        }
    }
    problems.into_result()?;
    Ok(draft)
}
