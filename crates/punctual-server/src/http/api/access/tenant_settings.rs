//! What a tenant wants for all its recipients: quiet hours, kinds they do not hold back, other channels.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests::NewTenantSettings;
use crate::http::error::Answer;
use crate::http::input::Input;
use crate::http::openapi::values::DateTime;
use axum::Json;
use axum::extract::State;
use punctual::delivery::rules::consent::TenantSettings;
use punctual::delivery::store::consent::StoredSettings;
use punctual::{Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Quiet hours and channels for all recipients.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TenantSettings")]
pub struct TenantSettingsView {
    #[serde(flatten)]
    #[schemars(with = "NewTenantSettings")]
    settings: Map<String, Value>,
    #[schemars(with = "Option<DateTime>")]
    updated_at: Option<Timestamp>,
    updated_by: Option<String>,
}

/// `GET /api/tenant-settings`
///
/// # Errors
/// When the database does not answer.
pub async fn show(State(app): State<App>, caller: Caller) -> Answer<Json<TenantSettingsView>> {
    Ok(Json(shown(app.engine.store().tenant_settings(caller.tenant).await?)))
}

/// `PUT /api/tenant-settings`: replaces them as a whole.
///
/// # Errors
/// 422 with every problem.
pub async fn put(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<TenantSettingsView>> {
    let mut body = input.object()?;
    // What was shown may be handed back.
    for name in ["updatedAt", "updatedBy"] {
        body.remove(name);
    }
    let mut problems = Problems::default();
    let settings = TenantSettings::read(&Value::Object(body), &mut problems).unwrap_or_default();
    problems.into_result()?;
    Ok(Json(shown(app.engine.store().put_tenant_settings(caller.tenant, settings, &caller.name).await?)))
}

fn shown(kept: StoredSettings) -> TenantSettingsView {
    let (updated_at, updated_by) = kept.written.unzip();
    TenantSettingsView { settings: kept.document.to_json(), updated_at, updated_by }
}
