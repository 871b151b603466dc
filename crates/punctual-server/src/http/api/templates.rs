//! Message templates: the words of what is sent, their versions, and a preview.

use super::Id;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::page::{List, Page};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::rules::invitation;
use punctual::rules::template::choose::kind_of;
use punctual::rules::template::segments::Segments;
use punctual::rules::template::set::Filled;
use punctual::rules::template::{Definition, MessageTemplate, TemplateSet, Values};
use punctual::store::templates::{Template, TemplateFilter};
use punctual::{Error, MessageId, Problem, Problems, TemplateId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A template as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    id: String,
    #[serde(flatten)]
    definition: Map<String, Value>,
    is_active: bool,
    template_version: u32,
    warnings: Vec<Problem>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// What a template says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    id: String,
    template_version: u32,
    locale: String,
    subject: Option<String>,
    body: String,
    html: Option<String>,
    segments: Option<Value>,
    warnings: Vec<Problem>,
}

/// `GET /api/message-templates?eventType=&channel=&language=&scopeType=&scopeId=&isActive=`
///
/// # Errors
/// 422 for a wrong cursor, limit or filter.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<Shown>>> {
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
    let after = TemplateId(page.after_id()?);
    let found = app.engine.store().templates(caller.tenant, filter, after, page.limit + 1).await?;
    let shown = found.into_iter().map(shown).collect();
    Ok(Json(page.list(shown, |template: &Shown| template.id.clone())))
}

/// `POST /api/message-templates`
///
/// # Errors
/// 422 with every problem.
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input,
) -> Answer<(StatusCode, Json<Shown>)> {
    let definition = read(&input)?;
    let made = app.engine.store().create_template(caller.tenant, definition).await?;
    Ok((StatusCode::CREATED, Json(shown(made))))
}

/// `GET /api/message-templates/{id}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<Shown>> {
    find(&app, &caller, id).await.map(|template| Json(shown(template)))
}

/// `PUT /api/message-templates/{id}`: a new version, unless it is the same as before.
///
/// # Errors
/// 404 when there is none, 422 with every problem.
pub async fn change(State(app): State<App>, caller: Caller, id: Id, input: Input) -> Answer<Json<Shown>> {
    // An id that is not there is told before what is wrong with the body.
    find(&app, &caller, id).await?;
    let definition = read(&input)?;
    let changed = app.engine.store().change_template(caller.tenant, TemplateId(id.0), definition).await?;
    Ok(Json(shown(changed)))
}

/// `DELETE /api/message-templates/{id}`: it is used no more; what was sent by it can still be shown.
///
/// # Errors
/// 404 when there is none.
pub async fn delete(State(app): State<App>, caller: Caller, id: Id) -> Answer<StatusCode> {
    let deleted = app.engine.store().delete_template(caller.tenant, TemplateId(id.0)).await?;
    if deleted { Ok(StatusCode::NO_CONTENT) } else { Err(id.not_found("message template")) }
}

/// `POST /api/message-templates/{id}/preview {payload?|eventId?, locale?}`: sends nothing.
///
/// # Errors
/// 404 when there is no such template, 422 with every problem.
pub async fn preview(State(app): State<App>, caller: Caller, id: Id, input: Input) -> Answer<Json<Preview>> {
    let template = find(&app, &caller, id).await?;
    let (payload, locale) = read_preview(&app, &caller, &input).await?;
    let event_type = &template.definition.event_type;
    let set = app.engine.templates().of(app.engine.store(), caller.tenant, event_type).await?;
    let texts = template.definition.compile()?;
    let Template { id, version, definition, .. } = template;
    let template = MessageTemplate { id, version, definition, texts };
    let filled = fill(&set, &template, locale.as_deref(), &payload);
    let sms = kind_of(&template.definition.channel) == "SMS";
    Ok(Json(Preview {
        id: id.to_string(),
        template_version: version,
        locale: template.locale_for(locale.as_deref()).to_owned(),
        segments: sms.then(|| segments(&filled.body)),
        subject: filled.subject,
        body: filled.body,
        html: filled.html,
        warnings: filled.warnings,
    }))
}

async fn find(app: &App, caller: &Caller, id: Id) -> Answer<Template> {
    let found = app.engine.store().template(caller.tenant, TemplateId(id.0)).await?;
    found.ok_or_else(|| id.not_found("message template"))
}

fn read(input: &Input) -> Answer<Definition> {
    let json = Value::Object(input.object()?);
    let mut problems = Problems::default();
    let definition = Definition::read(&json, &mut problems);
    definition.ok_or_else(|| Error::Invalid(problems).into())
}

async fn read_preview(app: &App, caller: &Caller, input: &Input) -> Answer<(Value, Option<String>)> {
    let body = input.object_or_nothing()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only(&["payload", "eventId", "locale"]);
    let locale = read.text("locale");
    let event = read.id_text("eventId");
    let mut payload = read.object("payload").cloned().map_or_else(|| json!({}), Value::Object);
    if event.is_some() && read.value("payload").is_some() {
        read.wrong("eventId", "cannot be given beside a payload");
    }
    if let Some(event) = event {
        let found = match event.parse().ok().map(MessageId) {
            Some(id) => app.engine.store().message(caller.tenant, id).await?,
            None => None,
        };
        match found {
            Some(message) => payload = serde_json::from_str(&message.payload).unwrap_or_default(),
            None => read.wrong("eventId", "there is no such event"),
        }
    }
    if let Some(Err(said)) = locale.as_deref().map(punctual::rules::locale::check) {
        read.wrong("locale", said);
    }
    problems.into_result()?;
    Ok((payload, locale))
}

fn fill(set: &TemplateSet, template: &MessageTemplate, locale: Option<&str>, payload: &Value) -> Filled {
    if template.definition.event_type == invitation::EVENT_TYPE {
        return invitation::preview(set, template, locale, payload);
    }
    let values = Values::default().zone(&set.zone).under("", payload).under("payload", payload);
    template.fill(&values, template.locale_for(locale))
}

fn segments(text: &str) -> Value {
    let of = Segments::of(text);
    json!({"count": of.count, "units": of.units, "encoding": of.encoding()})
}

fn shown(template: Template) -> Shown {
    let texts = template.definition.compile();
    Shown {
        id: template.id.to_string(),
        definition: template.definition.to_json(),
        is_active: template.active,
        template_version: template.version,
        warnings: texts.map(|texts| template.definition.warnings(&texts).0).unwrap_or_default(),
        created_at: template.created_at,
        updated_at: template.updated_at,
    }
}
