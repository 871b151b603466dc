//! Entities: the latest known state of what events are about.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::pagination::Page;
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use punctual::flow::rules::entity::{EntitySnapshot, NewEntityState, check_entity};
use punctual::flow::store::entities::{EntityOutcome, StoredEntity};
use punctual::{Entity, Error, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The highest version: what every language can count to.
const VERSION_MAX: u64 = 1 << 53;

/// An entity.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EntityState")]
pub struct EntityView {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    /// Null for viewers.
    #[schemars(with = "Option<Map<String, Value>>")]
    state: Option<Value>,
    #[schemars(range(min = 0))]
    version: Option<i64>,
    #[schemars(with = "DateTime")]
    updated_at: Timestamp,
    /// In the answer to a PUT: whether it is what is known now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    applied: Option<bool>,
}

/// The `{type}/{id}` of a path.
#[derive(Clone, Debug)]
pub struct EntityPath(pub Entity);

impl<S: Send + Sync> FromRequestParts<S> for EntityPath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((kind, id)) = names.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let (entity, mut problems) = (Entity { kind, id }, Problems::default());
        check_entity(&entity, &mut problems);
        problems.into_result()?;
        Ok(Self(entity))
    }
}

/// `GET /api/entities/{type}/{id}`
///
/// # Errors
/// 404 when nobody told of it, or it is gone.
pub async fn show(State(app): State<App>, caller: Caller, name: EntityPath) -> Answer<Json<EntityView>> {
    let Entity { kind, id } = &name.0;
    let missing = || ApiFailure::not_found(format!("there is no entity `{kind}/{id}`"));
    let kept = app.engine.store().entity(caller.tenant, name.0.clone()).await?.ok_or_else(missing)?;
    if kept.snapshot == EntitySnapshot::Deleted {
        return Err(ApiFailure::not_found(format!(
            "the entity `{kind}/{id}` was deleted at {}",
            kept.updated_at
        )));
    }
    Ok(Json(shown(&caller, kept, None)))
}

/// `PUT /api/entities/{type}/{id} {state, version?}`: what is older than what is known changes nothing, and
/// the answer says so.
///
/// # Errors
/// 422 with every problem.
pub async fn put(
    State(app): State<App>,
    caller: Caller,
    name: EntityPath,
    input: Input,
) -> Answer<Json<EntityView>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::NewEntityState>();
    read.need("state");
    let (state, version) = read_state(&mut read);
    problems.into_result()?;
    let new = NewEntityState { entity: name.0, state: state.unwrap_or_default(), version };
    let outcome = app.engine.store().put_entity(caller.tenant, new).await?;
    let applied = matches!(outcome, EntityOutcome::Kept(_));
    Ok(Json(shown(&caller, outcome.into_entity(), Some(applied))))
}

/// `DELETE /api/entities/{type}/{id}?version=`: it is gone, also if nobody had told of it.
///
/// # Errors
/// 409 when something newer than this version is known, 422 for a wrong version.
pub async fn delete(
    State(app): State<App>,
    caller: Caller,
    name: EntityPath,
    page: Page,
) -> Answer<StatusCode> {
    let version = page.filter("version").map(|text| text.parse::<u64>().ok().filter(|n| *n <= VERSION_MAX));
    if version == Some(None) {
        return Err(Error::invalid("version", "must be a whole number, 0 or more").into());
    }
    let version = version.flatten().and_then(|n| i64::try_from(n).ok());
    match app.engine.store().delete_entity(caller.tenant, name.0, version).await? {
        EntityOutcome::Kept(_) => Ok(StatusCode::NO_CONTENT),
        EntityOutcome::Older(_) => Err(ApiFailure::conflict("a newer version of this entity is known")),
    }
}

/// The `state` and the `version` of an entity, as far as they are there.
pub(in crate::http::api) fn read_state(read: &mut Fields<'_, '_>) -> (Option<String>, Option<i64>) {
    let state = read.object("state").and_then(|state| serde_json::to_string(state).ok());
    let version = read.whole("version", 0..=VERSION_MAX).and_then(|n| i64::try_from(n).ok());
    (state, version)
}

/// Viewers do not see what is known of people.
fn shown(caller: &Caller, kept: StoredEntity, applied: Option<bool>) -> EntityView {
    EntityView {
        state: kept.snapshot.state().filter(|_| caller.can_see_personal_data()).cloned(),
        kind: kept.entity.kind,
        id: kept.entity.id,
        version: kept.version,
        updated_at: kept.updated_at,
        applied,
    }
}
