//! Query parameters: their names, and the types whose words and limits they have. The layer that holds
//! requests to them reads the same list.

use super::components::{SchemaOf, own, subschema};
use super::values::{
    Cursor, DurationText, EntityVersion, JobCount, ListLimit, Name, PositiveNumber, RecipientAddress, Time,
};
use super::words::{
    CommunicationStatus, EntryKind, InboxStatus, InstanceStatus, OutboxStatus, ScheduleStatus,
    SuppressionReason, TimerStatus,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// A parameter of a query.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name among the components.
    pub component: &'static str,
    /// Its name in a query.
    pub name: &'static str,
    description: &'static str,
    is_needed: bool,
    subschema: SchemaOf,
    own: SchemaOf,
}

impl Parameter {
    /// Its description among the components.
    pub fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        json!({
            "name": self.name, "in": "query", "required": self.is_needed,
            "schema": (self.subschema)(generator), "description": self.description,
        })
    }

    /// The words that it may be; none for any text.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let schema = (self.own)(&mut SchemaGenerator::default());
        let words = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

const fn query<T: JsonSchema>(
    component: &'static str,
    name: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { component, name, description, is_needed: false, subschema: subschema::<T>, own: own::<T> }
}

const fn needed<T: JsonSchema>(
    component: &'static str,
    name: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { is_needed: true, ..query::<T>(component, name, description) }
}

/// The parameter `bookingId`.
pub const BOOKING_ID: Parameter = query::<String>(
    "BookingId",
    "bookingId",
    "Only about this booking; the same as `entityType=booking&entityId=`.",
);
/// The parameter `entityType`.
pub const ENTITY_TYPE: Parameter =
    query::<String>("EntityType", "entityType", "Only about an entity of this type.");
/// The parameter `entityId`.
pub const ENTITY_ID: Parameter = query::<String>("EntityId", "entityId", "Only about the entity of this id.");
/// The parameter `address`.
pub const LOG_ADDRESS: Parameter =
    query::<String>("LogAddress", "address", "Only to this address, as it was given or in its normal form.");
/// The parameter `status`.
pub const DELIVERY_STATUS: Parameter =
    query::<CommunicationStatus>("DeliveryStatus", "status", "Only messages with this status.");
/// The parameter `channel`.
pub const LOG_CHANNEL: Parameter =
    query::<String>("LogChannel", "channel", "Only by the channel of this key, or by any of this kind.");
/// The parameter `key`.
pub const SCHEDULE_KEY: Parameter = query::<String>(
    "ScheduleKey",
    "key",
    "Only of this key: a schedule's own, its id, or the idempotency key of one of its messages.",
);
/// The parameter `status`.
pub const SCHEDULE_STATUS: Parameter =
    query::<ScheduleStatus>("ScheduleStatus", "status", "Only schedules with this status.");
/// The parameter `onHold`.
pub const ON_HOLD: Parameter =
    query::<bool>("OnHold", "onHold", "Only schedules on hold, or only the others.");
/// The parameter `version`.
pub const ENTITY_VERSION: Parameter =
    query::<EntityVersion>("EntityVersion", "version", "The version that is gone; a newer one stays.");
/// The parameter `address`.
pub const OF_ADDRESS: Parameter =
    query::<String>("OfAddress", "address", "Only of this address, in any spelling.");
/// The parameter `address`.
pub const ONE_ADDRESS: Parameter =
    needed::<RecipientAddress>("OneAddress", "address", "The address, in any spelling.");
/// The parameter `channel`.
pub const BY_CHANNEL: Parameter =
    query::<String>("ByChannel", "channel", "The key of the one channel that it is for.");
/// The parameter `channel`.
pub const OF_CHANNEL: Parameter = query::<String>(
    "OfChannel",
    "channel",
    "Only those made for this kind of channel; `all` for those made for every one.",
);
/// The parameter `kind`.
pub const OF_KIND: Parameter = query::<String>("OfKind", "kind", "Only of this kind of event.");
/// The parameter `reason`.
pub const REASON: Parameter = query::<SuppressionReason>("Reason", "reason", "Only for this reason.");
/// The parameter `lifted`.
pub const LIFTED: Parameter = query::<bool>("Lifted", "lifted", "Also lifted suppressions.");
/// The parameter `status`.
pub const OUTBOX_STATUS: Parameter = query::<OutboxStatus>(
    "OutboxStatus",
    "status",
    "Only messages with this status. A page may then be short, or empty, and still have a nextCursor.",
);
/// The parameter `kind`.
pub const LOG_KIND: Parameter = query::<EntryKind>("LogKind", "kind", "Only of entries of this kind.");
/// The parameter `publicId`.
pub const LOG_PUBLIC_ID: Parameter =
    query::<String>("LogPublicId", "publicId", "Only of the survey instance of this public id.");
/// The parameter `entryKey`.
pub const ENTRY_KEY: Parameter =
    query::<String>("EntryKey", "entryKey", "Only of the schedule of this key or id.");
/// The parameter `from`.
pub const WRITTEN_FROM: Parameter = query::<Time>("WrittenFrom", "from", "Written at this time or later.");
/// The parameter `to`.
pub const WRITTEN_TO: Parameter = query::<Time>("WrittenTo", "to", "Written before this time.");
/// The parameter `tenantId`.
pub const TENANT_ID: Parameter =
    query::<String>("TenantId", "tenantId", "Only of this tenant, by its id or its slug.");
/// The parameter `surveyId`.
pub const SURVEY_ID: Parameter = query::<PositiveNumber>("SurveyId", "surveyId", "Only of this survey.");
/// The parameter `status`.
pub const INSTANCE_STATUS: Parameter =
    query::<InstanceStatus>("InstanceStatus", "status", "Only with this status.");
/// The parameter `address`.
pub const ADDRESS: Parameter =
    query::<String>("Address", "address", "Only sent to this address, as it was given.");
/// The parameter `customerRef`.
pub const CUSTOMER_REF: Parameter = query::<String>("CustomerRef", "customerRef", "Only for this customer.");
/// The parameter `version`.
pub const VERSION: Parameter = query::<PositiveNumber>("Version", "version", "Only of this version.");
/// The parameter `questionId`.
pub const QUESTION_ID: Parameter = query::<String>(
    "QuestionId",
    "questionId",
    "Only answers to this question; `{id}.other` names the words beside an option of one's own.",
);
/// The parameter `triggerId`.
pub const TRIGGER_ID: Parameter = query::<String>("TriggerId", "triggerId", "Only of this trigger.");
/// The parameter `from`.
pub const FROM: Parameter = query::<Time>("From", "from", "Not before this time.");
/// The parameter `to`.
pub const TO: Parameter = query::<Time>("To", "to", "Before this time.");
/// The parameter `lang`.
pub const LANG: Parameter = query::<String>("Lang", "lang", "The locale of the page, one of the survey's.");
/// The parameter `step`.
pub const STEP: Parameter =
    query::<PositiveNumber>("Step", "step", "Which step; where one left off if not given.");
/// The parameter `limit`.
pub const LIMIT: Parameter = query::<ListLimit>("Limit", "limit", "How many items at most.");
/// The parameter `cursor`.
pub const CURSOR: Parameter = query::<Cursor>("Cursor", "cursor", "The nextCursor of the part before.");
/// The parameter `topic`.
pub const TOPIC: Parameter = query::<Name>("Topic", "topic", "Only of this topic.");
/// The parameter `channel`.
pub const CHANNEL: Parameter = query::<String>("Channel", "channel", "Only by this channel.");
/// The parameter `to`.
pub const TO_ADDRESS: Parameter = query::<String>("ToAddress", "to", "Only to this address.");
/// The parameter `subscription`.
pub const SUBSCRIPTION: Parameter =
    query::<Name>("Subscription", "subscription", "Only of this subscription.");
/// The parameter `source`.
pub const SOURCE: Parameter = query::<Name>("Source", "source", "Only of this source.");
/// The parameter `status`.
pub const INBOX_STATUS: Parameter = query::<InboxStatus>("InboxStatus", "status", "Only with this status.");
/// The parameter `eventType`.
pub const EVENT_TYPE: Parameter = query::<String>("EventType", "eventType", "Only for this kind of events.");
/// The parameter `channel`.
pub const TEMPLATE_CHANNEL: Parameter =
    query::<String>("TemplateChannel", "channel", "Only for this channel, as the template writes it.");
/// The parameter `language`.
pub const LANGUAGE: Parameter =
    query::<String>("Language", "language", "Only in this language, as the template writes it.");
/// The parameter `scopeType`.
pub const SCOPE_TYPE: Parameter =
    query::<String>("ScopeType", "scopeType", "Only with a scope of this type.");
/// The parameter `scopeId`.
pub const SCOPE_ID: Parameter = query::<String>("ScopeId", "scopeId", "Only with a scope of this id.");
/// The parameter `isActive`.
pub const IS_ACTIVE: Parameter = query::<bool>("IsActive", "isActive", "Only those in use, or not.");
/// The parameter `key`.
pub const KEY: Parameter = query::<Name>("Key", "key", "Only of this key.");
/// The parameter `correlationId`.
pub const CORRELATION_ID: Parameter = query::<Name>("CorrelationId", "correlationId", "Only of this story.");
/// The parameter `status`.
pub const TIMER_STATUS: Parameter =
    query::<TimerStatus>("TimerStatus", "status", "Only timers with this status.");
/// The parameter `dueFrom`.
pub const DUE_FROM: Parameter =
    query::<Time>("DueFrom", "dueFrom", "Only those due at this moment or later.");
/// The parameter `dueBefore`.
pub const DUE_BEFORE: Parameter =
    query::<Time>("DueBefore", "dueBefore", "Only those due before this moment.");
/// The parameter `spread`.
pub const SPREAD: Parameter = query::<DurationText>(
    "Spread",
    "spread",
    "Spreads those of equal due times evenly over this window, never to an earlier moment.",
);
/// The parameter `count`.
pub const COUNT: Parameter = query::<JobCount>("Count", "count", "How many moments.");
