//! Tenants.

use crate::app::App;
use crate::http::api::requests;
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::access::store::tenants::{NewTenant, TenantRow};
use punctual::{Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// The longest language tag, in characters.
const LOCALE_CHARS_MAX: usize = 35;

/// A tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Tenant")]
pub struct TenantView {
    id: i64,
    slug: String,
    name: String,
    time_zone: String,
    default_locale: String,
    #[schemars(with = "DateTime")]
    created_at: Timestamp,
}

/// `POST /api/tenants`
///
/// # Errors
/// 409 when the slug is taken, 422 with every problem.
pub async fn create(State(app): State<App>, input: Input) -> Answer<(StatusCode, Json<TenantView>)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::NewTenant>();
    let new = NewTenant {
        slug: read.need_text("slug"),
        name: read.need_text("name"),
        time_zone: read.text("timeZone"),
        default_locale: read.text("defaultLocale"),
    };
    let locale = new.default_locale.as_deref().unwrap_or_default();
    if locale.chars().count() > LOCALE_CHARS_MAX || locale.chars().any(char::is_control) {
        read.wrong("defaultLocale", "must be a language tag such as `en` or `pt-BR`");
    }
    if new.name.chars().any(char::is_control) {
        read.wrong("name", "must not contain control characters");
    }
    problems.into_result()?;
    let row = app.engine.store().create_tenant(new).await?;
    Ok((StatusCode::CREATED, Json(shown(row))))
}

/// `GET /api/tenants`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, page: Page) -> Answer<Json<List<TenantView>>> {
    let rows = app.engine.store().tenants(page.after_id()?, page.limit + 1).await?;
    let rows = rows.into_iter().map(shown).collect();
    Ok(Json(page.list(rows, |tenant: &TenantView| tenant.id.to_string())))
}

fn shown(row: TenantRow) -> TenantView {
    TenantView {
        id: row.tenant.id(),
        slug: row.slug,
        name: row.name,
        time_zone: row.time_zone,
        default_locale: row.default_locale,
        created_at: row.created_at,
    }
}
