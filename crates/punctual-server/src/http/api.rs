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

use super::error::{Answer, Failure};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use punctual::{Engine, LaneId};
use serde_json::value::RawValue;

/// Stored JSON text as JSON, not as a string.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The `{id}` of a path. What is not a number cannot be there.
#[derive(Clone, Copy, Debug)]
pub struct Id(pub i64);

impl Id {
    /// 404 for it.
    fn not_found(self, noun: &str) -> Failure {
        Failure::not_found(format!("there is no {noun} `{}`", self.0))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let names = RawPathParams::from_request_parts(parts, state).await.ok();
        let text = names.iter().flatten().find(|(name, _)| *name == "id");
        let number = text.and_then(|(_, text)| text.parse().ok());
        let missing = || Failure::not_found("there is nothing of that id: it is not a number");
        number.filter(|n| *n > 0).map(Self).ok_or_else(missing)
    }
}

/// Gives what waits without a queue a queue of its own: it is then shown, and claimable.
async fn route_waiting(engine: &Engine) -> Answer<usize> {
    let mut moved = 0;
    loop {
        // A look is cheap; only work that is really there is worth a transaction.
        let view = engine.store().scout(LaneId(-1), 1).await?;
        if view.lanes.first().is_none_or(|seen| seen.lane != LaneId::UNROUTED) {
            return Ok(moved);
        }
        match engine.store().route_waiting().await? {
            0 => return Ok(moved),
            more => moved += more,
        }
    }
}
