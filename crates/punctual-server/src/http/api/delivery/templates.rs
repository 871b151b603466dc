//! Message templates: the words of what is sent, their versions, and a preview.

mod preview;

pub use preview::{Preview, preview};

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::Input;
use crate::http::openapi::documents::MessageTemplateFields;
use crate::http::openapi::values::{DateTime, ProblemAt};
use crate::http::pagination::{List, Page, weight};
use axum::Json;
use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use punctual::delivery::rules::template::review::warn_of_duplicates;
use punctual::delivery::rules::template::{MessageTemplate, TemplateDefinition};
use punctual::delivery::store::templates::{StoredTemplate, TemplateDeletion, TemplateFilter};
use punctual::flow::run::event_kinds::EventKindSet;
use punctual::{Error, Problem, Problems, TemplateId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A template.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MessageTemplate")]
pub struct TemplateView {
    id: String,
    #[serde(flatten)]
    #[schemars(with = "MessageTemplateFields")]
    definition: Map<String, Value>,
    is_active: bool,
    #[schemars(range(min = 1))]
    template_version: u32,
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    #[schemars(with = "DateTime")]
    updated_at: Timestamp,
}

/// `GET /api/message-templates?eventType=&channel=&language=&scopeType=&scopeId=&isActive=`
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<TemplateView>>> {
    let text = |name: &str| page.filter(name).map(str::to_owned);
    let active = match page.filter("isActive") {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(Error::invalid("isActive", "must be true or false").into()),
    };
    let filter = TemplateFilter {
        event_type: text("eventType"),
        channel: text("channel"),
        language: text("language"),
        scope_type: text("scopeType"),
        scope_id: text("scopeId"),
        active,
    };
    let (after, store) = (TemplateId(page.after_id()?), app.engine.store());
    let fetch = |after, limit| store.templates(caller.tenant, filter.clone(), after, limit);
    let (found, more) = page.gather(after, fetch, |template| template.id, weigh).await?;
    let next = found.last().filter(|_| more).map(|template| template.id.0.to_string());
    let kinds = kinds(&app, &caller).await?;
    let shown = found.into_iter().map(|template| shown(template, &kinds)).collect();
    Ok(Json(page.list_up_to(shown, next)))
}

/// The size of a template, near enough.
fn weigh(template: &StoredTemplate) -> usize {
    let of = &template.definition;
    let texts = [of.subject.as_ref(), Some(&of.body), of.html.as_ref()];
    let provider = of.provider_template.as_ref().map_or(0, weight);
    texts.into_iter().flatten().map(String::len).sum::<usize>() + provider
}

/// `POST /api/message-templates`
///
/// # Errors
/// 422 with every problem.
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input,
) -> Answer<(StatusCode, Json<TemplateView>)> {
    let definition = read(&input)?;
    let made = app.engine.store().create_template(caller.tenant, definition).await?;
    Ok((StatusCode::CREATED, Json(saved(&app, &caller, made).await?)))
}

/// `GET /api/message-templates/{id}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<TemplateView>> {
    let template = find(&app, &caller, id).await?;
    Ok(Json(saved(&app, &caller, template).await?))
}

/// `PUT /api/message-templates/{id}`: a new version, unless it is the same as before.
///
/// # Errors
/// 404 when there is none, 422 with every problem.
pub async fn change(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    input: Input,
) -> Answer<Json<TemplateView>> {
    // An id that is not there is told before what is wrong with the body.
    find(&app, &caller, id).await?;
    let definition = read(&input)?;
    let changed = app.engine.store().change_template(caller.tenant, TemplateId(id.0), definition).await?;
    Ok(Json(saved(&app, &caller, changed).await?))
}

/// `DELETE /api/message-templates/{id}`: it is used no more. One that the communication log refers to is only
/// deactivated, and shown in the answer.
///
/// # Errors
/// 404 when there is none.
pub async fn delete(State(app): State<App>, caller: Caller, id: Id) -> Answer<Response> {
    match app.engine.store().delete_template(caller.tenant, TemplateId(id.0)).await? {
        TemplateDeletion::Gone => Ok(StatusCode::NO_CONTENT.into_response()),
        TemplateDeletion::Unknown => Err(id.not_found("message template")),
        TemplateDeletion::SwitchedOff(template) => {
            let mut left = shown(*template, &*kinds(&app, &caller).await?);
            let said = "is false now; it was not deleted, because the communication log refers to it";
            left.warnings.push(Problem { path: "isActive".into(), message: said.into() });
            Ok(Json(left).into_response())
        }
    }
}

/// `GET /api/message-templates/{id}/versions/{n}`: what a version said, also of a deleted template.
///
/// # Errors
/// 404 when there is none.
pub async fn version(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    path: RawPathParams,
) -> Answer<Json<TemplateVersionView>> {
    let n = path.iter().find(|(name, _)| *name == "n").map_or("", |(_, text)| text);
    let missing = || ApiFailure::not_found(format!("message template {} has no version `{n}`", id.0));
    let number: u32 = n.parse().map_err(|_| missing())?;
    let found = app.engine.store().template_version(caller.tenant, TemplateId(id.0), number).await?;
    let definition = found.ok_or_else(missing)?.to_json();
    Ok(Json(TemplateVersionView { id: id.0.to_string(), template_version: number, definition }))
}

/// One version of a template, as it was.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MessageTemplateVersion")]
pub struct TemplateVersionView {
    id: String,
    #[schemars(range(min = 1))]
    template_version: u32,
    #[serde(flatten)]
    #[schemars(with = "MessageTemplateFields")]
    definition: Map<String, Value>,
}

async fn find(app: &App, caller: &Caller, id: Id) -> Answer<StoredTemplate> {
    let found = app.engine.store().template(caller.tenant, TemplateId(id.0)).await?;
    found.ok_or_else(|| id.not_found("message template"))
}

fn read(input: &Input) -> Answer<TemplateDefinition> {
    let json = Value::Object(input.object()?);
    let mut problems = Problems::default();
    let definition = TemplateDefinition::read(&json, &mut problems);
    definition.ok_or_else(|| Error::Invalid(problems).into())
}

async fn kinds(app: &App, caller: &Caller) -> Answer<Arc<EventKindSet>> {
    Ok(app.engine.event_kinds().of(app.engine.store(), caller.tenant).await?)
}

/// One template as it is shown, with a warning for every other that is for just the same.
async fn saved(app: &App, caller: &Caller, template: StoredTemplate) -> Answer<TemplateView> {
    let mut twins = Problems::default();
    if template.active {
        let (id, of) = (template.id, &template.definition);
        let active = app.engine.store().active_templates(caller.tenant, &of.event_type).await?;
        let others = active.templates.iter().map(|other| (other.id, &other.definition));
        warn_of_duplicates((id, of), others, &mut twins);
    }
    let mut shown = shown(template, &*kinds(app, caller).await?);
    shown.warnings.extend(twins.0);
    Ok(shown)
}

fn shown(template: StoredTemplate, kinds: &EventKindSet) -> TemplateView {
    let StoredTemplate { id, version, active, definition, created_at, updated_at } = template;
    // One that can no longer be read has nothing that could be doubted.
    let compiled = definition.compile().ok();
    let reviewed = compiled
        .map(|texts| kinds.review(&MessageTemplate { id, version, definition: definition.clone(), texts }));
    TemplateView {
        id: id.to_string(),
        definition: definition.to_json(),
        is_active: active,
        template_version: version,
        warnings: reviewed.unwrap_or_default().0,
        created_at,
        updated_at,
    }
}
