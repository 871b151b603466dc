//! Leases: a name that one owner holds at a time.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests::LeaseAcquire;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use punctual::base::limits;
use punctual::base::name::check_name;
use punctual::jobs::store::leases::{AcquireOutcome, Lease, LeaseHold, ReleaseOutcome, RenewOutcome};
use punctual::{FencingToken, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The `{name}` of a path.
#[derive(Clone, Debug)]
pub struct LeaseName(String);

impl<S: Send + Sync> FromRequestParts<S> for LeaseName {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let Path(mut names) = names.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let name = names.remove("name").unwrap_or_default();
        let mut problems = Problems::default();
        check_name(&name, "name", &mut problems);
        problems.into_result()?;
        Ok(Self(name))
    }
}

/// What came of an acquisition.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LeaseAcquired")]
pub struct Acquired {
    acquired: bool,
    /// Only when acquired; greater with each acquisition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    fencing_token: Option<FencingToken>,
    #[schemars(with = "DateTime")]
    expires_at: Timestamp,
    holder: String,
    #[schemars(with = "DateTime")]
    server_time: Timestamp,
}

/// A lease.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Lease")]
pub struct LeaseView {
    name: String,
    held: bool,
    /// Who holds it, if somebody does.
    holder: Option<String>,
    last_holder: String,
    /// Of the last acquisition.
    #[schemars(with = "u64", range(min = 1))]
    fencing_token: FencingToken,
    #[schemars(with = "DateTime")]
    acquired_at: Timestamp,
    #[schemars(with = "DateTime")]
    renewed_at: Timestamp,
    #[schemars(with = "DateTime")]
    expires_at: Timestamp,
    #[schemars(with = "Option<DateTime>")]
    released_at: Option<Timestamp>,
    #[schemars(with = "DateTime")]
    server_time: Timestamp,
}

/// `GET /api/leases`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<LeaseView>>> {
    let after = page.after().unwrap_or_default();
    let leases = app.engine.store().leases(caller.tenant, after, page.limit + 1).await?;
    let leases = leases.into_iter().map(shown).collect();
    Ok(Json(page.list(leases, |lease: &LeaseView| lease.name.clone())))
}

/// `GET /api/leases/{name}`
///
/// # Errors
/// 404 when it never was.
pub async fn show(State(app): State<App>, caller: Caller, name: LeaseName) -> Answer<Json<LeaseView>> {
    let lease = app.engine.store().lease(caller.tenant, &name.0).await?;
    lease
        .map(|lease| Json(shown(lease)))
        .ok_or_else(|| ApiFailure::not_found(format!("there is no lease `{}`", name.0)))
}

/// `POST /api/leases/{name}/acquire`
///
/// # Errors
/// 422 with every problem.
pub async fn acquire(
    State(app): State<App>,
    caller: Caller,
    name: LeaseName,
    input: Input,
) -> Answer<Json<Acquired>> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<LeaseAcquire>();
    let owner = read.need_name("owner");
    let duration = seconds(&mut read);
    problems.into_result()?;
    let said = app.engine.store().acquire_lease(caller.tenant, &name.0, &owner, duration).await?;
    let (lease, acquired) = match said {
        AcquireOutcome::Acquired(lease) => (lease, true),
        AcquireOutcome::Held(lease) => (lease, false),
    };
    Ok(Json(Acquired {
        acquired,
        fencing_token: acquired.then_some(lease.token),
        expires_at: lease.expires_at,
        holder: lease.owner,
        server_time: lease.now,
    }))
}

/// `POST /api/leases/{name}/renew`
///
/// # Errors
/// 409 when the token holds nothing any more, 422 with every problem.
pub async fn renew(
    State(app): State<App>,
    caller: Caller,
    name: LeaseName,
    input: Input,
) -> Answer<Json<LeaseView>> {
    let (held, duration) = read_holding(name, &input, &["owner", "fencingToken", "seconds"])?;
    match app.engine.store().renew_lease(caller.tenant, held.clone(), duration).await? {
        RenewOutcome::Renewed(lease) => Ok(Json(shown(lease))),
        RenewOutcome::Lost => Err(lost(&held)),
    }
}

/// A lease that was given back.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LeaseReleased")]
pub struct ReleasedLease {
    #[schemars(extend("const" = true))]
    released: bool,
}

/// `POST /api/leases/{name}/release`
///
/// # Errors
/// 409 when the token holds nothing any more, 422 with every problem.
pub async fn release(
    State(app): State<App>,
    caller: Caller,
    name: LeaseName,
    input: Input,
) -> Answer<Json<ReleasedLease>> {
    let (held, _) = read_holding(name, &input, &["owner", "fencingToken"])?;
    match app.engine.store().release_lease(caller.tenant, held.clone()).await? {
        ReleaseOutcome::Released => Ok(Json(ReleasedLease { released: true })),
        ReleaseOutcome::Lost => Err(lost(&held)),
    }
}

fn lost(held: &LeaseHold) -> ApiFailure {
    ApiFailure::conflict(format!(
        "fencing token {} of `{}` does not hold the lease `{}`: it ended, was released, or is another's; \
         acquire it again",
        held.token, held.owner, held.name
    ))
}

fn read_holding(name: LeaseName, input: &Input, known: &[&str]) -> Answer<(LeaseHold, Duration)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only(known);
    let owner = read.need_name("owner");
    read.need("fencingToken");
    let most = u64::try_from(i64::MAX).unwrap_or(u64::MAX);
    let token = read.whole("fencingToken", 1..=most).and_then(|n| i64::try_from(n).ok()).unwrap_or(0);
    let duration = seconds(&mut read);
    problems.into_result()?;
    Ok((LeaseHold { name: name.0, owner, token: FencingToken(token) }, duration))
}

fn seconds(read: &mut Fields<'_, '_>) -> Duration {
    let range = limits::LEASE_MIN.as_secs()..=limits::LEASE_MAX.as_secs();
    read.whole("seconds", range).map_or(limits::LEASE_DEFAULT, Duration::from_secs)
}

fn shown(lease: Lease) -> LeaseView {
    LeaseView {
        held: lease.is_held(),
        holder: lease.holder().map(str::to_owned),
        name: lease.name,
        last_holder: lease.owner,
        fencing_token: lease.token,
        acquired_at: lease.acquired_at,
        renewed_at: lease.renewed_at,
        expires_at: lease.expires_at,
        released_at: lease.released_at,
        server_time: lease.now,
    }
}
