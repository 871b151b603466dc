//! Templates, event kinds, entities and schedules.

use crate::http::openapi::values::DurationText;
use crate::http::openapi::values::{DateTime, Name, TextOrNumber};
use crate::http::openapi::words::PlainStep;
use crate::http::openapi::words::{MissingValue, ReplayedStatus};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The template as the provider knows it (WhatsApp, DLT).
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderTemplate {
    key: Name,
    /// Each a text with placeholders.
    params: Option<TemplateParams>,
    language: Option<String>,
    entity_id: Option<String>,
}

/// A message template.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMessageTemplate {
    event_type: Name,
    channel: Name,
    #[schemars(length(max = 255))]
    name: Option<String>,
    /// The locale of its texts, such as ar or en-US.
    language: String,
    /// What it is only for: survey.
    scope_type: Option<String>,
    /// The id of what it is only for.
    scope_id: Option<TextOrNumber>,
    /// The first send that it is for: 1 the invitation alone, 2 the first reminder and those after it.
    #[schemars(range(min = 1, max = 51))]
    attempt: Option<u64>,
    #[schemars(length(max = 500))]
    subject: Option<String>,
    #[schemars(length(min = 1, max = 262_144))]
    body: String,
    #[schemars(length(max = 262_144))]
    html: Option<String>,
    provider_template: Option<ProviderTemplate>,
    /// What becomes of a placeholder without a value.
    missing: Option<MissingValue>,
    /// Left out, it stays as it is; a new one is in use.
    is_active: Option<bool>,
    /// Passed over, as are the next ones: what was shown may be handed back.
    id: Option<Value>,
    template_version: Option<Value>,
    warnings: Option<Value>,
    created_at: Option<Value>,
    updated_at: Option<Value>,
}

/// What to fill a template from.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewMessageTemplate {
    /// What the placeholders are filled from; the sample of the event kind, if neither is given.
    payload: Option<Map<String, Value>>,
    /// Fill them from this event; not for viewers.
    event_id: Option<TextOrNumber>,
    /// The reader's locale.
    locale: Option<String>,
}

/// Where the recipients of an event stand in its payload.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recipients {
    phone: Option<PathOrPaths>,
    email: Option<PathOrPaths>,
    name: Option<PathOrPaths>,
    locale: Option<PathOrPaths>,
    r#ref: Option<PathOrPaths>,
    time_zone: Option<PathOrPaths>,
    /// A list of recipients; the other paths then begin at its element, which is `$`.
    each: Option<String>,
}

/// A kind of event.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEventKind {
    /// The topic its events come by; any, if left out.
    topic: Option<String>,
    /// What its events are about …
    entity_type: Option<String>,
    /// … and where in the payload the id stands.
    entity_id_path: Option<String>,
    recipients: Recipients,
    /// A condition over `entity.*` and `payload.*` that makes a message pointless.
    cancel_when: Option<Map<String, Value>>,
    /// Whether a message is pointless while nobody has told the entity's state.
    require_entity: Option<bool>,
    /// Other entities that templates can name: `listing` as `listingName`.
    #[schemars(extend("maxProperties" = 10))]
    related: Option<BTreeMap<String, NewEventKindRelatedValue>>,
    /// Not yet: this version does not seal secrets.
    #[schemars(length(max = 0))]
    secrets: Option<Vec<String>>,
    /// A JSON Schema (a part of it) that payloads must fit.
    schema: Option<Map<String, Value>>,
    /// A payload as it may come, for previews and warnings.
    sample: Option<Map<String, Value>>,
    /// Passed over, as are the next ones: what was shown may be handed back.
    kind: Option<Value>,
    version: Option<Value>,
    warnings: Option<Value>,
    created_at: Option<Value>,
    updated_at: Option<Value>,
}

/// An entity beside that of the event.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct NewEventKindRelatedValue {
    #[schemars(rename = "type")]
    kind: String,
    id_path: String,
}

/// The state of an entity.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewEntityState {
    /// The latest state, up to 1 MiB.
    state: Map<String, Value>,
    /// The source's own version: an older one never replaces a newer one.
    #[schemars(range(max = 1_u64 << 53))]
    version: Option<u64>,
}

/// Either ids or a filter.
#[derive(JsonSchema)]
#[schemars(rename = "ScheduleSelection", rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleSelection {
    ids: Option<Vec<TextOrNumber>>,
    /// Failed entries of every kind.
    filter: Option<ScheduleSelectionFilter>,
    dry_run: Option<bool>,
}

/// What is meant: all of what is named must be so; {} means all.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub struct ScheduleSelectionFilter {
    /// Only messages with this status.
    status: Option<ReplayedStatus>,
    booking_id: Option<TextOrNumber>,
    entity_type: Option<String>,
    entity_id: Option<TextOrNumber>,
    event_type: Option<String>,
    /// Only messages by this channel, or by any of this kind.
    channel: Option<String>,
    /// Only what was made then or later.
    from: Option<DateTime>,
    /// Only what was made before.
    to: Option<DateTime>,
}

/// Why a person changes a schedule.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ScheduleChange {
    /// Why, for the history.
    reason: String,
}

/// By which channel, and with which template.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResendNotification {
    /// A kind of channel, or a channel's key.
    channel: String,
    template_id: Option<TextOrNumber>,
    event_type: Option<String>,
}

/// What the next sends of a sandbox channel come to.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// One step for each send; after the last all goes well.
    #[schemars(extend("default" = []), length(max = 10_000))]
    script: Option<Vec<Step>>,
    #[schemars(extend("default" = 0), range(max = 60_000))]
    latency_ms: Option<u64>,
}

/// Where it stands in the payload, such as guest.phone; of several the first that has a value.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum PathOrPaths {
    /// One path.
    One(#[schemars(length(min = 1, max = 512))] String),
    /// Several paths.
    Several(#[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 512)))] Vec<String>),
}

/// The values of a provider's template.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
pub enum TemplateParams {
    /// By their places.
    Placed(#[schemars(length(max = 100))] Vec<String>),
    /// By their names.
    Named(#[schemars(extend("maxProperties" = 100))] BTreeMap<String, String>),
}

/// What one send of a sandbox channel comes to.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Step {
    /// A word.
    Plain(PlainStep),
    /// With its details.
    Detailed(DetailedStep),
}

/// What one send of a sandbox channel comes to, with its details.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "camelCase", deny_unknown_fields)]
pub enum DetailedStep {
    /// It goes well.
    Ok(NoDetails),
    /// It fails, and may be tried again.
    Transient(TransientStep),
    /// It fails for good.
    Permanent(PermanentStep),
    /// There is no answer.
    Timeout(TimeoutStep),
}

/// Nothing.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct NoDetails {}

/// How a send fails that may be tried again.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "camelCase", deny_unknown_fields)]
pub struct TransientStep {
    retry_after: Option<DurationText>,
    #[schemars(length(max = 4000))]
    error: Option<String>,
}

/// How a send fails for good.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct PermanentStep {
    #[schemars(length(max = 4000))]
    error: Option<String>,
}

/// What an answer that does not come leaves.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct TimeoutStep {
    /// Whether the message goes out though there is no answer.
    #[schemars(extend("default" = true))]
    delivered: Option<bool>,
}
