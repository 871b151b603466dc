//! Recipients: what the owner of an address wants to be sent, how and when.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests::NewRecipientPreferences;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::Input;
use crate::http::openapi::values::DateTime;
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use punctual::delivery::rules::consent::RecipientPreferences;
use punctual::delivery::rules::consent::address::{check, normal};
use punctual::delivery::store::consent::StoredPreferences;
use punctual::{Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// What the owner of an address wants.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecipientPreferences")]
pub struct PreferencesView {
    /// In the form it is compared by; masked for viewers.
    address: String,
    #[serde(flatten)]
    #[schemars(with = "NewRecipientPreferences")]
    preferences: Map<String, Value>,
    #[schemars(with = "Option<DateTime>")]
    updated_at: Option<Timestamp>,
    updated_by: Option<String>,
}

/// The `{address}` of a path.
#[derive(Clone, Debug)]
pub struct Address(String);

impl<S: Send + Sync> FromRequestParts<S> for Address {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let mut problems = Problems::default();
        check(&text, "address", &mut problems);
        problems.into_result()?;
        Ok(Self(text))
    }
}

/// `GET /api/recipients/{address}/preferences`: nothing special for somebody who never said anything.
///
/// # Errors
/// 422 when the address is none.
pub async fn show(State(app): State<App>, caller: Caller, address: Address) -> Answer<Json<PreferencesView>> {
    let kept = app.engine.store().preferences(caller.tenant, &address.0).await?;
    Ok(Json(shown(&caller, &address, kept)))
}

/// `PUT /api/recipients/{address}/preferences`: replaces them as a whole.
///
/// # Errors
/// 422 with every problem.
pub async fn put(
    State(app): State<App>,
    caller: Caller,
    address: Address,
    input: Input,
) -> Answer<Json<PreferencesView>> {
    let body = Value::Object(editable(input.object()?));
    let mut problems = Problems::default();
    let preferences = RecipientPreferences::read(&body, &mut problems).unwrap_or_default();
    problems.into_result()?;
    let kept =
        app.engine.store().put_preferences(caller.tenant, &address.0, preferences, &caller.name).await?;
    Ok(Json(shown(&caller, &address, kept)))
}

/// What was shown may be handed back: what nobody can edit is left out.
fn editable(mut body: Map<String, Value>) -> Map<String, Value> {
    for name in ["address", "updatedAt", "updatedBy"] {
        body.remove(name);
    }
    body
}

fn shown(caller: &Caller, address: &Address, kept: StoredPreferences) -> PreferencesView {
    let address = normal(&address.0);
    let (updated_at, updated_by) = kept.written.unzip();
    PreferencesView {
        address: caller.visible_address(&address),
        preferences: kept.document.to_json(),
        updated_at,
        updated_by,
    }
}
