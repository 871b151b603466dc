//! Timers, jobs, leases and the manual clock.

use super::choices::{one_of_advance_and_set, one_of_ids_and_filter, one_of_times};
use super::messages::EventEntity;
use crate::http::openapi::values::{DurationText, IdOrDigits, Name, NameOrNumber, Time, Topic};
use crate::http::openapi::words::{Misfire, Overlap};
use schemars::JsonSchema;
use serde_json::Value;
use std::collections::BTreeMap;

/// One timer, or a list of them.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum NewTimers {
    /// One timer.
    One(Box<NewTimer>),
    /// A list of timers.
    Many(#[schemars(length(max = 10_000))] Vec<NewTimer>),
}

/// What is enqueued, and when: either dueAt or delay.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, transform = one_of_times)]
pub struct NewTimer {
    /// Where it goes.
    topic: Topic,
    #[schemars(extend("default" = "timer"))]
    kind: Option<Name>,
    /// Any JSON, up to 1 MiB.
    payload: Value,
    /// A moment that has passed is due at once.
    due_at: Option<Time>,
    /// This long after now.
    delay: Option<DurationText>,
    key: Option<NameOrNumber>,
    correlation_id: Option<NameOrNumber>,
    entity: Option<EventEntity>,
    headers: Option<BTreeMap<String, String>>,
    occurred_at: Option<Time>,
    /// Your own id: given twice from one source, the first timer stands.
    id: Option<NameOrNumber>,
    /// Scopes `id`; the key's name if left out.
    source: Option<Name>,
    schema_version: Option<NameOrNumber>,
}

/// When a timer is due instead: either dueAt or delay.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, transform = one_of_times)]
pub struct TimerMove {
    due_at: Option<Time>,
    /// This long after now.
    delay: Option<DurationText>,
}

/// All of what is named must be so; {} means all.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimerFilter {
    topic: Option<Name>,
    key: Option<NameOrNumber>,
    correlation_id: Option<NameOrNumber>,
    due_from: Option<Time>,
    due_before: Option<Time>,
}

/// Either ids, or a filter.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, transform = one_of_ids_and_filter)]
pub struct TimersCancel {
    #[schemars(length(max = 10_000))]
    ids: Option<Vec<IdOrDigits>>,
    filter: Option<TimerFilter>,
    #[schemars(extend("default" = false))]
    dry_run: Option<bool>,
}

/// Either ids, or a filter; either dueAt or delay.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = one_of_ids_and_filter, transform = one_of_times)]
pub struct TimersMove {
    #[schemars(length(max = 10_000))]
    ids: Option<Vec<IdOrDigits>>,
    filter: Option<TimerFilter>,
    due_at: Option<Time>,
    delay: Option<DurationText>,
    /// Spreads them evenly over this window.
    spread: Option<DurationText>,
    #[schemars(extend("default" = false))]
    dry_run: Option<bool>,
}

/// A job.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewJob {
    topic: Topic,
    /// Six fields (second minute hour day-of-month month day-of-week), or five without the second.
    cron: String,
    /// An IANA name; UTC if it is left out.
    time_zone: Option<String>,
    /// The payload of each run; {} if it is left out.
    payload: Option<Value>,
    /// Left out, it stays as it is; a new job is enabled.
    enabled: Option<bool>,
    misfire: Option<Misfire>,
    overlap: Option<Overlap>,
}

/// Who wants a lease, and for how long.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LeaseAcquire {
    /// A name that only this holder uses.
    owner: Name,
    #[schemars(extend("default" = 30), range(min = 1, max = 86_400))]
    seconds: Option<u64>,
}

/// Who holds a lease, and for how much longer.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseRenew {
    owner: Name,
    #[schemars(range(min = 1, max = i64::MAX))]
    fencing_token: u64,
    #[schemars(extend("default" = 30), range(min = 1, max = 86_400))]
    seconds: Option<u64>,
}

/// Who gives a lease back.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseRelease {
    owner: Name,
    #[schemars(range(min = 1, max = i64::MAX))]
    fencing_token: u64,
}

/// How much to do at once.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tick {
    #[schemars(range(min = 1, max = 1000))]
    batch_size: Option<u64>,
}

/// Either advance or set.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, transform = one_of_advance_and_set)]
pub struct Travel {
    advance: Option<DurationText>,
    set: Option<Time>,
    /// Whether what becomes due on the way is done.
    #[schemars(extend("default" = true))]
    run: Option<bool>,
}
