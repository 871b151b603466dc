//! Scripts of the sandbox's channels: what their next sends are answered.

use super::sandbox;
use crate::app::App;
use crate::http::error::{ApiResult, RequestFailure};
use crate::http::input::Input;
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use punctual::Problems;
use punctual::delivery::rules::channel::check_key;
use punctual::delivery::rules::script::Script;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The `{key}` of a path.
#[derive(Clone, Debug)]
pub struct ChannelKey(String);

impl<S: Send + Sync> FromRequestParts<S> for ChannelKey {
    type Rejection = RequestFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RequestFailure> {
        let names = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let Path(mut names) = names.map_err(|_| RequestFailure::malformed("the path is not UTF-8"))?;
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
pub async fn show(State(app): State<App>, key: ChannelKey) -> ApiResult<Json<Value>> {
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
pub async fn script(State(app): State<App>, key: ChannelKey, input: Input) -> ApiResult<Json<Value>> {
    let sandbox = sandbox(&app)?;
    if !sandbox.takes(&key.0) {
        return Err(not_here(&key));
    }
    let script = Script::read(&Value::Object(input.object()?))?;
    sandbox.script(&key.0, script.clone())?;
    Ok(Json(left(&key, &script)))
}

fn not_here(key: &ChannelKey) -> RequestFailure {
    let said = "is not a channel of the sandbox; those are memory:* and whatever the configuration gives the \
                provider `memory`";
    RequestFailure::not_found(format!("`{}` {said}", key.0))
}

/// What is left of a script, with its channel.
fn left(key: &ChannelKey, script: &Script) -> Value {
    let mut said = script.to_json();
    said.insert("key".to_owned(), json!(key.0));
    Value::Object(said)
}
