//! Who is asking, for which tenant, and what they may do.
//!
//! A key is asked of the database at most every `REMEMBERED`, so that a revoked one stops
//! working within a second; on a manual clock it is asked every time, since time may jump.

use crate::app::{App, Exposure};
use crate::http::error::{Answer, ApiFailure};
use crate::http::host::is_direct;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use punctual::access::store::keys::{ApiKey, Role};
use punctual::base::clock::{Monotonic, monotonic};
use punctual::base::digest;
use punctual::{ClockMode, Tenant};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The header that names a tenant, for keys that may choose.
pub const TENANT: &str = "punctual-tenant";
/// How long a key or tenant is believed without asking again.
const REMEMBERED: Duration = Duration::from_millis(500);
/// Keys and tenants that are remembered at once; beyond it all are forgotten.
const REMEMBERED_MAX: usize = 10_000;
/// The name under which the root key publishes, and its id.
const ROOT: &str = "root";

/// Who is asking.
#[derive(Clone, Debug)]
pub struct Caller {
    /// For which tenant.
    pub tenant: Tenant,
    /// What they may do.
    pub role: Role,
    /// The key's name; also the default source of what it publishes.
    pub name: String,
    /// The key's id; names are neither unique nor kept. `root` for the root key.
    pub id: String,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Anybody.
    Nothing,
    /// Anybody on this machine; any key on a listener that others reach.
    Probe,
    /// Anybody on this machine who comes through no proxy; a key of the role `metrics` or `ops` elsewhere.
    /// The roles between them belong to one tenant, and metrics are those of all.
    Metrics,
    /// Anybody on this machine who comes through no proxy; a key of this role elsewhere.
    Private(Role),
    /// A key of this role or a higher one.
    Key(Role),
}

impl Need {
    fn is_met_by(self, role: Role) -> bool {
        match self {
            Self::Nothing | Self::Probe => true,
            Self::Metrics => matches!(role, Role::Metrics | Role::Ops),
            Self::Private(least) | Self::Key(least) => role >= least,
        }
    }

    /// The least role that meets it.
    #[must_use]
    pub const fn role(self) -> Role {
        match self {
            Self::Nothing | Self::Probe | Self::Metrics => Role::Metrics,
            Self::Private(least) | Self::Key(least) => least,
        }
    }
}

/// Decides who may pass.
#[derive(Clone, Debug)]
pub struct Guard {
    app: App,
    keys: Arc<Memory<ApiKey>>,
    tenants: Arc<Memory<Tenant>>,
}

impl Guard {
    /// A guard that remembers nobody yet.
    #[must_use]
    pub fn new(app: App) -> Self {
        Self { app, keys: Arc::default(), tenants: Arc::default() }
    }

    async fn check(&self, need: Need, headers: &HeaderMap) -> Answer<Option<Caller>> {
        match need {
            Need::Nothing => return Ok(None),
            Need::Probe if self.app.settings.exposure != Exposure::Public => return Ok(None),
            Need::Metrics | Need::Private(_) if is_private(&self.app, headers) => return Ok(None),
            Need::Probe | Need::Metrics | Need::Private(_) | Need::Key(_) => {}
        }
        let caller = self.caller(headers).await?;
        if !need.is_met_by(caller.role) {
            let (has, needs) = (caller.role.word(), need.role().word());
            return Err(ApiFailure::forbidden(format!("this needs the role `{needs}`; the key has `{has}`")));
        }
        Ok(Some(caller))
    }

    /// The caller that the headers name.
    ///
    /// # Errors
    /// 401 without a working key, 403 or 404 for a tenant that is not its own.
    pub async fn caller(&self, headers: &HeaderMap) -> Answer<Caller> {
        let secret = secret(headers)?;
        let wanted = headers.get(TENANT).map(|v| v.to_str().unwrap_or_default());
        if self.app.settings.root_key.as_deref().is_some_and(|root| same(root, secret)) {
            let tenant = self.tenant(wanted.unwrap_or(Tenant::DEFAULT_SLUG)).await?;
            return Ok(Caller { tenant, role: Role::Ops, name: ROOT.into(), id: ROOT.into() });
        }
        let key = self.key(secret).await?;
        let tenant = match wanted {
            None => key.tenant,
            Some(slug) if key.role == Role::Ops => self.tenant(slug).await?,
            Some(slug) => match self.tenant(slug).await {
                Ok(tenant) if tenant == key.tenant => tenant,
                Err(failure) if failure.status() != StatusCode::NOT_FOUND => return Err(failure),
                _ => return Err(ApiFailure::forbidden("this key belongs to another tenant")),
            },
        };
        Ok(Caller { tenant, role: key.role, name: key.name, id: key.id.to_string() })
    }

    async fn key(&self, secret: &str) -> Answer<ApiKey> {
        let digest = digest::of([secret.as_bytes()]);
        if let Some(key) = self.keys.recall(&digest) {
            return Ok(key);
        }
        let found = self.app.engine.store().key_of_secret(secret).await?;
        let key =
            found.ok_or_else(|| ApiFailure::unauthenticated("the key is unknown, revoked or expired"))?;
        if self.app.engine.clock() == ClockMode::System {
            self.keys.remember(digest, key.clone());
        }
        Ok(key)
    }

    async fn tenant(&self, slug: &str) -> Answer<Tenant> {
        if slug == Tenant::DEFAULT_SLUG {
            return Ok(Tenant::DEFAULT);
        }
        if let Some(tenant) = self.tenants.recall(slug) {
            return Ok(tenant);
        }
        let row = self.app.engine.store().tenant(slug).await?;
        let row = row.ok_or_else(|| ApiFailure::not_found("there is no tenant of that name"))?;
        self.tenants.remember(row.slug, row.tenant);
        Ok(row.tenant)
    }
}

/// Whether a request comes from a program on this machine, so that operators' pages need no key.
pub fn is_private(app: &App, headers: &HeaderMap) -> bool {
    app.settings.exposure == Exposure::Local && is_direct(headers)
}

/// Lets a request pass, with its [`Caller`], or refuses it.
///
/// # Errors
/// 401, 403, and 404 for a tenant that does not exist.
pub async fn pass(
    State((guard, need)): State<(Guard, Need)>,
    mut request: Request,
    next: Next,
) -> Answer<Response> {
    if let Some(caller) = guard.check(need, request.headers()).await? {
        request.extensions_mut().insert(caller);
    }
    Ok(next.run(request).await)
}

fn secret(headers: &HeaderMap) -> Answer<&str> {
    let said = "send a key as `Authorization: Bearer KEY`";
    let value = headers.get(AUTHORIZATION).ok_or_else(|| ApiFailure::unauthenticated(said))?;
    let words = value.to_str().ok().and_then(|text| text.split_once(' '));
    match words {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => Ok(secret.trim()),
        _ => Err(ApiFailure::unauthenticated(said)),
    }
}

/// Compares digests, all of them to the end: how long it takes tells nothing.
fn same(root: &str, given: &str) -> bool {
    let (root, given) = (digest::of([root.as_bytes()]), digest::of([given.as_bytes()]));
    root.bytes().zip(given.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiFailure> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| ApiFailure::unauthenticated("this needs a key"))
    }
}

/// What was learnt a moment ago, by name.
#[derive(Debug)]
struct Memory<T>(Mutex<HashMap<String, (Monotonic, T)>>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Memory<T> {
    fn recall(&self, name: &str) -> Option<T> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, value) = known.get(name)?;
        (since.elapsed() < REMEMBERED).then(|| value.clone())
    }

    fn remember(&self, name: String, value: T) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(name, (monotonic(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_same_key_is_the_root_key() {
        let root = "0123456789abcdef0123456789abcdef";
        assert!(same(root, root));
        for other in ["", "0123456789abcdef0123456789abcdee", "0123456789abcdef0123456789abcdef0"] {
            assert!(!same(root, other), "{other}");
        }
    }

    #[test]
    fn a_key_is_sent_as_a_bearer() {
        let headers = |text: &str| HeaderMap::from_iter([(AUTHORIZATION, text.parse().unwrap())]);
        assert_eq!(secret(&headers("Bearer abc")).unwrap(), "abc");
        assert_eq!(secret(&headers("bearer  abc ")).unwrap(), "abc");
        for wrong in ["abc", "Basic abc", "Bearer"] {
            assert!(secret(&headers(wrong)).is_err(), "{wrong}");
        }
        assert!(secret(&HeaderMap::new()).is_err());
    }
}
