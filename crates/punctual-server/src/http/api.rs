//! The API: one folder per domain, one file per noun. A handler parses, calls one verb of the engine,
//! renders.

mod redaction;
pub mod requests;
pub(super) mod selection;

pub mod access {
    //! Tenants, their settings, and keys.

    pub mod keys;
    pub mod tenant_settings;
    pub mod tenants;
}

pub mod delivery {
    //! What is sent: templates, consent, and the log of communications.

    pub mod communication_logs;
    pub mod recipients;
    pub mod resends;
    pub mod suppressions;
    pub mod templates;
}

pub mod flow {
    //! What begins entries: event kinds, entities, and the schedule of entries.

    pub mod entities;
    pub mod event_kinds;
    pub mod schedules;
}

pub mod jobs {
    //! Cron jobs and leases.

    pub mod cron_jobs;
    pub mod leases;
}

pub mod queue {
    //! Messages, queues, subscriptions, timers, and the work of remote workers.

    pub mod dead_letters;
    pub mod events;
    pub mod inbox;
    pub mod queues;
    pub mod subscriptions;
    pub mod timers;
    pub mod waiting;
    pub mod work;
}

pub mod survey {
    //! Surveys, their triggers, instances, and visits by recipients.

    pub mod instances;
    pub mod surveys;
    pub mod triggers;
    pub mod visits;
}

use super::error::ApiFailure;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
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
    fn not_found(self, noun: &str) -> ApiFailure {
        ApiFailure::not_found(format!("there is no {noun} `{}`", self.0))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let names = RawPathParams::from_request_parts(parts, state).await.ok();
        let text = names.iter().flatten().find(|(name, _)| *name == "id");
        let number = text.and_then(|(_, text)| text.parse().ok());
        let missing = || ApiFailure::not_found("there is nothing of that id: it is not a number");
        number.filter(|n| *n > 0).map(Self).ok_or_else(missing)
    }
}
