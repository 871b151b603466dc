//! Events, queues and what they leave behind.

use super::choices::{not_null, one_of_ids_and_filter};
use crate::http::openapi::documents::Backoff;
use crate::http::openapi::values::{DurationText, IdOrDigits, Name, NameOrNumber, TextOrNumber, Time, Topic};
use crate::http::openapi::words::CloudEventsVersion;
use crate::http::openapi::words::{DeadHeadWord, FailedStatus, TargetType};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One event, a list of them, or CloudEvents.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Events {
    /// One event.
    One(Box<Event>),
    /// A list of events.
    Many(#[schemars(length(max = 10_000))] Vec<Event>),
    /// One CloudEvent.
    Cloud(Box<CloudEvent>),
    /// A batch of CloudEvents.
    Clouds(#[schemars(length(max = 10_000))] Vec<CloudEvent>),
}

/// One event.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// Where it goes.
    topic: Topic,
    /// What happened.
    kind: Name,
    /// Any JSON, up to 1 MiB.
    payload: Value,
    /// Events of one key are handled in order, one at a time.
    key: Option<NameOrNumber>,
    entity: Option<EventEntity>,
    occurred_at: Option<Time>,
    correlation_id: Option<NameOrNumber>,
    /// Not handled before this moment.
    due_at: Option<Time>,
    headers: Option<BTreeMap<String, String>>,
    /// Your own id: given twice from one source, the second is a duplicate.
    id: Option<NameOrNumber>,
    /// Scopes `id`; the key's name if left out.
    source: Option<Name>,
    schema_version: Option<NameOrNumber>,
}

/// What an event is about.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct EventEntity {
    #[schemars(rename = "type")]
    kind: Name,
    id: NameOrNumber,
    /// The entity's latest state, kept with the event.
    state: Option<Map<String, Value>>,
    /// The version of the state: an older one never replaces a newer one.
    #[schemars(range(max = 1_u64 << 53))]
    version: Option<u64>,
}

/// CloudEvents 1.0. Other extension attributes are kept as headers. Names have small letters and digits
/// only, so `dueAt` is refused.
#[derive(JsonSchema)]
#[schemars(extend("propertyNames" = {"pattern": "^([a-z0-9]+|data_base64)$"}))]
#[schemars(extend("dependentRequired" = {"entitytype": ["entityid"]}))]
pub struct CloudEvent {
    specversion: CloudEventsVersion,
    id: Name,
    source: Name,
    #[schemars(rename = "type")]
    kind: Name,
    time: Option<Time>,
    subject: Option<String>,
    datacontenttype: Option<String>,
    /// Any JSON.
    data: Option<Value>,
    data_base64: Option<String>,
    /// Where it goes; `events` if left out.
    topic: Option<Topic>,
    partitionkey: Option<Name>,
    correlationid: Option<Name>,
    dueat: Option<Time>,
    schemaversion: Option<Name>,
    entitytype: Option<Name>,
    entityid: Option<Name>,
}

/// What is left out stays; what is null goes to its default.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueSettings {
    #[schemars(transform = not_null)]
    paused: Option<bool>,
    #[schemars(range(min = 1, max = 1000))]
    max_attempts: Option<u64>,
    backoff: Option<Backoff>,
    retention: Option<DurationText>,
    /// What a dead letter means for later items of its key.
    #[schemars(transform = not_null)]
    dead_head: Option<DeadHeadWord>,
}

/// How much work to take, and for how long.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// Who claims, for people who look at stuck work.
    owner: Name,
    #[schemars(extend("default" = 30), range(min = 1, max = 86_400))]
    lease_seconds: Option<u64>,
    #[schemars(extend("default" = 50), range(min = 1, max = 1000))]
    limit: Option<u64>,
    /// How long to wait for work when there is none.
    #[schemars(extend("default" = 0), range(max = 60))]
    wait_seconds: Option<u64>,
}

/// The items to settle.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Settle {
    #[schemars(length(max = 10_000))]
    items: Vec<SettleItem>,
    /// Not used: the tokens say who holds the items.
    owner: Option<String>,
}

/// Other fields are let be, so a claimed item can be handed back as it is.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct SettleItem {
    id: NameOrNumber,
    token: Name,
    /// Why, for the history (abandon, fail).
    error: Option<String>,
    /// When to try again (abandon); the queue's backoff if left out.
    retry_after: Option<DurationText>,
    /// Any JSON.
    output: Option<Value>,
}

/// The items to hold for longer.
#[derive(JsonSchema)]
#[schemars(rename = "Extend", rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtendLease {
    #[schemars(length(max = 10_000))]
    items: Vec<SettleItem>,
    #[schemars(extend("default" = 30), range(min = 1, max = 86_400))]
    lease_seconds: Option<u64>,
    /// Not used: the tokens say who holds the items.
    owner: Option<String>,
}

/// Where the messages of a subscription go.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Target {
    /// Remote workers who claim {topic}/{name}, or a handler in a process.
    #[schemars(rename = "type")]
    kind: TargetType,
    /// The name under which the handler is registered.
    name: Option<String>,
}

/// A subscription.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewSubscription {
    /// A condition over kind, topic, headers.*, payload.*, entity.type and entity.id; all messages without
    /// one.
    filter: Option<Map<String, Value>>,
    target: Target,
    retry: Option<NewSubscriptionRetry>,
    /// Left out, it stays as it is; a new one is enabled.
    enabled: Option<bool>,
}

/// How often an item is tried, and when again.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct NewSubscriptionRetry {
    #[schemars(range(min = 1, max = 1000))]
    max_attempts: Option<u64>,
    backoff: Option<Value>,
}

/// Either ids, or a filter ({} for all).
#[derive(JsonSchema)]
#[schemars(rename = "DeadLetterSelection", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = one_of_ids_and_filter)]
pub struct DeadLetterSelection {
    #[schemars(length(max = 10_000))]
    ids: Option<Vec<IdOrDigits>>,
    filter: Option<DeadLetterSelectionFilter>,
    #[schemars(extend("default" = false))]
    dry_run: Option<bool>,
}

/// What is meant: all of what is named must be so; {} means all.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct DeadLetterSelectionFilter {
    /// Also as orders/subscriptions/mail/$deadletterqueue.
    topic: Option<Name>,
    subscription: Option<Name>,
}

/// A message that arrived.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxDelivery {
    /// Who sent it; scopes the id.
    source: Name,
    message_id: Name,
    /// A digest of the content: another one is a conflict.
    hash: Option<Name>,
    #[schemars(extend("default" = 30), range(min = 1, max = 86_400))]
    lease_seconds: Option<u64>,
    #[schemars(extend("default" = 10), range(min = 1, max = 1000))]
    max_attempts: Option<u64>,
}

/// A message that was processed, or was not.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxMark {
    source: Name,
    message_id: Name,
    token: Name,
    /// Kept up to 4000 characters.
    error: Option<String>,
}

/// Either ids, or a filter ({} for all); only dead ones are meant.
#[derive(JsonSchema)]
#[schemars(rename = "InboxSelection", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = one_of_ids_and_filter)]
pub struct InboxSelection {
    #[schemars(length(max = 10_000))]
    ids: Option<Vec<IdOrDigits>>,
    filter: Option<InboxSelectionFilter>,
    #[schemars(extend("default" = false))]
    dry_run: Option<bool>,
}

/// What is meant: all of what is named must be so; {} means all.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct InboxSelectionFilter {
    source: Option<Name>,
}

/// Either ids, or a filter ({} for all).
#[derive(JsonSchema)]
#[schemars(rename = "OutboxSelection", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = one_of_ids_and_filter)]
pub struct OutboxSelection {
    /// Of messages.
    #[schemars(length(max = 10_000))]
    ids: Option<Vec<IdOrDigits>>,
    filter: Option<OutboxSelectionFilter>,
    dry_run: Option<bool>,
}

/// What is meant: all of what is named must be so; {} means all.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct OutboxSelectionFilter {
    status: Option<FailedStatus>,
    topic: Option<Name>,
    kind: Option<Name>,
    from: Option<Time>,
    to: Option<Time>,
    /// Its id or its slug.
    tenant_id: Option<TextOrNumber>,
}
