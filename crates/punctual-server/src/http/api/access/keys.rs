//! API keys of a tenant. A secret is shown once, in the answer that made it.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::api::requests::NewKey;
use crate::http::error::{Answer, ApiFailure};
use crate::http::idempotency::StoredBody;
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words;
use crate::http::pagination::{List, Page};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use punctual::access::store::keys::{ApiKey, RevokeOutcome, Role};
use punctual::{KeyId, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// A key.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Key")]
pub struct ApiKeyView {
    id: String,
    name: String,
    #[schemars(with = "words::Role")]
    role: &'static str,
    prefix: String,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<Timestamp>,
}

/// A new key with its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NewKeyWithSecret")]
pub struct NewApiKeyView {
    #[serde(flatten)]
    shown: ApiKeyView,
    /// The secret, shown once: null when the answer is repeated for an Idempotency-Key.
    key: Option<String>,
}

/// `POST /api/keys`
///
/// # Errors
/// 403 for a role that the caller may not manage, 422 with every problem.
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    input: Input,
) -> Answer<(StatusCode, Extension<StoredBody>, Json<NewApiKeyView>)> {
    let (name, role, expires_at) = read_key(&input)?;
    if !caller.role.can_manage(role) {
        let said =
            format!("a key of role `{}` cannot make one of role `{}`", caller.role.word(), role.word());
        return Err(ApiFailure::forbidden(said));
    }
    let (key, secret) = app.engine.store().create_key(caller.tenant, &name, role, expires_at).await?;
    let mut made = NewApiKeyView { shown: shown(key), key: None };
    // What is kept for a repeated request has no secret in it.
    let keep = StoredBody(serde_json::to_string(&made).unwrap_or_default());
    made.key = Some(secret);
    Ok((StatusCode::CREATED, Extension(keep), Json(made)))
}

fn read_key(input: &Input) -> Answer<(String, Role, Option<Timestamp>)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<NewKey>();
    let (name, word) = (read.need_name("name"), read.need_text("role"));
    let expires_at = read.time("expiresAt");
    let role = Role::from_word(&word);
    if role.is_none() && read.value("role").is_some() {
        let words: Vec<&str> = Role::ALL.iter().map(|(_, word)| *word).collect();
        read.wrong("role", format!("must be one of {}", words.join(", ")));
    }
    problems.into_result()?;
    Ok((name, role.unwrap_or(Role::Viewer), expires_at))
}

/// `GET /api/keys`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<ApiKeyView>>> {
    let after = KeyId(page.after_id()?);
    let keys = app.engine.store().keys(caller.tenant, after, page.limit + 1).await?;
    let keys = keys.into_iter().map(shown).collect();
    Ok(Json(page.list(keys, |key: &ApiKeyView| key.id.clone())))
}

/// `DELETE /api/keys/{id}`: it stops working within a second.
///
/// # Errors
/// 403 for a key of a role that the caller may not manage, 404 when this tenant has no such key.
pub async fn revoke(State(app): State<App>, caller: Caller, id: Id) -> Answer<StatusCode> {
    match app.engine.store().revoke_key(caller.tenant, KeyId(id.0), caller.role).await? {
        RevokeOutcome::Revoked => Ok(StatusCode::NO_CONTENT),
        RevokeOutcome::NotFound => Err(id.not_found("key")),
        RevokeOutcome::AboveCaller(role) => {
            let (own, above) = (caller.role.word(), role.word());
            Err(ApiFailure::forbidden(format!("a key of role `{own}` cannot revoke one of role `{above}`")))
        }
    }
}

fn shown(key: ApiKey) -> ApiKeyView {
    ApiKeyView {
        id: key.id.to_string(),
        name: key.name,
        role: key.role.word(),
        prefix: key.prefix,
        created_at: key.created_at,
        expires_at: key.expires_at,
    }
}
