//! Event kinds: how an event names its recipients, and what is known of its payload.

use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::Input;
use crate::http::openapi::documents::EventKindFields;
use crate::http::openapi::values::DateTime;
use crate::http::pagination::{List, Page, weight};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use punctual::base::name::check_name;
use punctual::flow::store::event_kinds::StoredEventKind;
use punctual::{Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// An event kind: its document, with what was left out as null.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventKind")]
pub struct EventKindView {
    kind: String,
    #[serde(flatten)]
    #[schemars(with = "EventKindFields")]
    document: Map<String, Value>,
    #[schemars(range(min = 1))]
    version: u32,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    #[schemars(with = "DateTime")]
    updated_at: Timestamp,
}

/// The fields of a document.
const FIELDS: [&str; 10] = [
    "topic",
    "entityType",
    "entityIdPath",
    "recipients",
    "cancelWhen",
    "requireEntity",
    "related",
    "secrets",
    "schema",
    "sample",
];

/// The `{kind}` of a path.
#[derive(Clone, Debug)]
pub struct EventKindPath(String);

impl<S: Send + Sync> FromRequestParts<S> for EventKindPath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let kind = Path::<String>::from_request_parts(parts, state).await;
        let Path(kind) = kind.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let mut problems = Problems::default();
        check_name(&kind, "kind", &mut problems);
        problems.into_result()?;
        Ok(Self(kind))
    }
}

impl EventKindPath {
    fn not_found(&self) -> ApiFailure {
        ApiFailure::not_found(format!("there is no event kind `{}`", self.0))
    }
}

/// `GET /api/event-kinds`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<EventKindView>>> {
    let (after, store) = (page.after().unwrap_or_default().to_owned(), app.engine.store());
    let fetch = |after: String, limit| store.event_kinds(caller.tenant, &after, limit);
    let place = |kept: &StoredEventKind| kept.kind.clone();
    let (found, more) = page.gather(after, fetch, place, |kept| weight(&kept.document)).await?;
    let next = found.last().filter(|_| more).map(place);
    Ok(Json(page.list_up_to(found.into_iter().map(shown).collect(), next)))
}

/// `GET /api/event-kinds/{kind}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(
    State(app): State<App>,
    caller: Caller,
    kind: EventKindPath,
) -> Answer<Json<EventKindView>> {
    let found = app.engine.store().event_kind(caller.tenant, &kind.0).await?;
    found.map(|kept| Json(shown(kept))).ok_or_else(|| kind.not_found())
}

/// `PUT /api/event-kinds/{kind}`: made, or changed into this; the same again changes nothing.
///
/// # Errors
/// 422 with every problem.
pub async fn put(
    State(app): State<App>,
    caller: Caller,
    kind: EventKindPath,
    input: Input,
) -> Answer<Json<EventKindView>> {
    let document = Value::Object(input.object()?);
    let kept = app.engine.put_event_kind(caller.tenant, &kind.0, document).await?;
    Ok(Json(shown(kept)))
}

/// `DELETE /api/event-kinds/{kind}`
///
/// # Errors
/// 404 when there is none.
pub async fn delete(State(app): State<App>, caller: Caller, kind: EventKindPath) -> Answer<StatusCode> {
    let deleted = app.engine.delete_event_kind(caller.tenant, &kind.0).await?;
    if deleted { Ok(StatusCode::NO_CONTENT) } else { Err(kind.not_found()) }
}

fn shown(kept: StoredEventKind) -> EventKindView {
    let field = |name: &&str| ((*name).to_owned(), kept.document.get(*name).cloned().unwrap_or_default());
    let mut document: Map<String, Value> = FIELDS.iter().map(field).collect();
    let strict = document.get("requireEntity").is_some_and(|value| value == &Value::Bool(true));
    document.insert("requireEntity".into(), strict.into());
    EventKindView {
        document,
        kind: kept.kind,
        version: kept.version,
        created_at: kept.created_at,
        updated_at: kept.updated_at,
    }
}
