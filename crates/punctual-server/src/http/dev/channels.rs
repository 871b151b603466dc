//! Scripts of the sandbox's channels: what their next sends are answered.

use super::sandbox;
use crate::app::App;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::Input;
use crate::http::openapi::documents::ScriptFields;
use crate::http::openapi::values;
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use punctual::Problems;
use punctual::delivery::rules::channel::check_key;
use punctual::delivery::rules::script::Script;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The `{key}` of a path.
#[derive(Clone, Debug)]
pub struct ChannelKey(String);

impl<S: Send + Sync> FromRequestParts<S> for ChannelKey {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let Path(mut names) = names.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let key = names.remove("key").unwrap_or_default();
        let mut problems = Problems::default();
        check_key(&key, "key", &mut problems);
        problems.into_result()?;
        Ok(Self(key))
    }
}

/// `GET /dev/channels/{key}`
///
/// # Errors
/// 409 without a sandbox, 404 for a channel that is not the sandbox's.
pub async fn show(State(app): State<App>, key: ChannelKey) -> Answer<Json<ChannelScript>> {
    let sandbox = sandbox(&app)?;
    if !sandbox.takes(&key.0) {
        return Err(not_here(&key));
    }
    Ok(Json(left(&key, &sandbox.scripted(&key.0))))
}

/// `PUT /dev/channels/{key}`
///
/// # Errors
/// 409 without a sandbox, 404 for a channel that is not the sandbox's, 422 with every problem.
pub async fn script(State(app): State<App>, key: ChannelKey, input: Input) -> Answer<Json<ChannelScript>> {
    let sandbox = sandbox(&app)?;
    if !sandbox.takes(&key.0) {
        return Err(not_here(&key));
    }
    let script = Script::read(&Value::Object(input.object()?))?;
    sandbox.script(&key.0, script.clone())?;
    Ok(Json(left(&key, &script)))
}

fn not_here(key: &ChannelKey) -> ApiFailure {
    let said = "is not a channel of the sandbox; those are memory:* and whatever the configuration gives the \
                provider `memory`";
    ApiFailure::not_found(format!("`{}` {said}", key.0))
}

/// What is left of a script, with its channel.
fn left(key: &ChannelKey, script: &Script) -> ChannelScript {
    ChannelScript { key: key.0.clone(), left: script.to_json() }
}

/// What is left of a script, with its channel.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChannelScript {
    #[schemars(with = "values::ChannelKey")]
    key: String,
    #[serde(flatten)]
    #[schemars(with = "ScriptFields")]
    left: Map<String, Value>,
}
