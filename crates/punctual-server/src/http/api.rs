//! The API: one file per noun. A handler parses, calls one verb of the engine, renders.

pub(super) mod choice;
pub mod communication_logs;
pub mod dead_letters;
pub mod entities;
pub mod event_kinds;
pub mod events;
pub mod inbox;
pub mod instances;
pub mod jobs;
pub mod keys;
pub mod leases;
pub mod queues;
pub mod recipients;
pub mod resends;
pub mod schedules;
pub mod subscriptions;
pub mod suppressions;
pub mod surveys;
pub mod templates;
pub mod tenant_settings;
pub mod tenants;
pub mod timers;
pub mod triggers;
mod veil;
pub mod visits;
pub mod waiting;
pub mod work;

use super::error::RequestFailure;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde_json::value::RawValue;

/// Stored JSON text as JSON, not as a string.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The `{id}` of a path. What is not a number cannot be there.
#[derive(Clone, Copy, Debug)]
pub struct IdPath(pub i64);

impl IdPath {
    /// 404 for it.
    fn not_found(self, noun: &str) -> RequestFailure {
        RequestFailure::not_found(format!("there is no {noun} `{}`", self.0))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdPath {
    type Rejection = RequestFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RequestFailure> {
        let names = RawPathParams::from_request_parts(parts, state).await.ok();
        let text = names.iter().flatten().find(|(name, _)| *name == "id");
        let number = text.and_then(|(_, text)| text.parse().ok());
        let missing = || RequestFailure::not_found("there is nothing of that id: it is not a number");
        number.filter(|n| *n > 0).map(Self).ok_or_else(missing)
    }
}
