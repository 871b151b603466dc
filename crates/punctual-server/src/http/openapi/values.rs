//! Values that are text or a number on the wire, with the limits that their readers hold them to. The types
//! have no values: fields of other types name them in `#[schemars(with = "…")]`, since the engine does not
//! depend on a crate for schemas.

use punctual::base::limits;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;
use std::borrow::Cow;

/// Declares types that are only a schema: `inline` ones stand where they are used, others are components.
macro_rules! values {
    ($($(#[$about:meta])* $kind:ident $name:ident $called:literal = $schema:tt)+) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $called.into()
            }

            fn inline_schema() -> bool {
                stringify!($kind) == "inline"
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

values! {
    /// A name: nothing invisible in it, no white space at its ends.
    component Name "Name" = {
        "type": "string", "minLength": 1, "maxLength": 255,
        "pattern": name_pattern(""),
        "description": "Nothing invisible in it, no white space at its ends."
    }
    /// A topic.
    component Topic "Topic" = {
        "type": "string", "minLength": 1, "maxLength": 255,
        "pattern": name_pattern("/"),
        "description": "A name without a slash."
    }
    /// The name of a job.
    component JobName "JobName" = {
        "type": "string", "minLength": 1, "maxLength": 100,
        "pattern": name_pattern("/"),
        "description": "A name without a slash."
    }
    /// The key of a channel.
    component ChannelKey "ChannelKey" = {
        "type": "string", "maxLength": 100, "pattern": "^[A-Za-z0-9._-]+:[A-Za-z0-9._-]+$",
        "description": "The kind of a channel and its name."
    }
    /// The public id of an entry.
    component PublicIdText "PublicId" = {
        "type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        "description": "The only thing that a link holds: 122 random bits."
    }
    /// An address that a request names.
    component RecipientAddress "RecipientAddress" = {
        "type": "string", "minLength": 1, "maxLength": 320,
        "description": "A phone number, a mailbox, or what else a channel takes. Compared in one form: \
                        digits with a +, mailboxes in lower case."
    }
    /// A length of time.
    component DurationText "Duration" = {
        "type": "string", "pattern": "^([0-9]{1,9}(ms|s|m|h|d|w))+$", "maxLength": 16,
        "examples": ["30s", "1d12h"],
        "description": "Numbers with units ms, s, m, h, d, w, such as 30s or 1d12h."
    }
    /// A time that a request names.
    component Time "Time" = {
        "type": "string", "format": "date-time", "pattern": "^(19[0-9]{2}|[2-9][0-9]{3})-"
    }
    /// A time that an answer names.
    inline DateTime "DateTime" = {"type": "string", "format": "date-time"}
    /// A time of the day.
    inline TimeOfDay "TimeOfDay" = {
        "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"
    }
    /// A tenant's slug.
    inline Slug "Slug" = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
    /// A cursor of a list.
    inline Cursor "Cursor" = {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
    /// An id in a path.
    inline IdText "Id" = {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}
    /// An id in a body.
    inline IdOrDigits "IdOrDigits" = {"oneOf": [
        {"type": "integer", "minimum": 1, "maximum": 9_223_372_036_854_775_807_u64},
        {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}
    ]}
    /// A text, or a number that stands for its digits.
    inline TextOrNumber "TextOrNumber" = {"type": ["string", "integer"]}
    /// How many items of a list.
    inline ListLimit "ListLimit" = {
        "type": "integer", "minimum": 1, "maximum": limits::LIST_ITEMS_MAX,
        "default": limits::LIST_ITEMS_DEFAULT
    }
    /// How many due times of a job.
    inline JobCount "JobCount" = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}
    /// A number from 1.
    inline PositiveNumber "PositiveNumber" = {"type": "integer", "minimum": 1}
    /// The version of an entity's state.
    inline EntityVersion "EntityVersion" = {"type": "integer", "minimum": 0, "maximum": 1_u64 << 53}
    /// Everything that there is.
    component OpenApi "OpenApi" = {"type": "object", "description": "OpenAPI 3.1."}
    /// The report of a provider.
    component ProviderCallback "ProviderCallback" = {
        "description": "As the provider writes it: JSON or a form."
    }
}

/// The pattern of names without control characters, without `others`, and without white space at their ends.
fn name_pattern(others: &str) -> String {
    let inside = format!("{others}\\u0000-\\u001f\\u007f-\\u009f");
    format!("^[^\\s{inside}]([^{inside}]*[^\\s{inside}])?$")
}

/// A name, or a number that stands for its digits.
#[derive(Debug)]
pub enum NameOrNumber {}

impl JsonSchema for NameOrNumber {
    fn schema_name() -> Cow<'static, str> {
        "NameOrNumber".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let number = json!({"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX});
        json_schema!({"oneOf": [generator.subschema_for::<Name>(), number]})
    }
}

/// A text for each locale.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct LocalTexts(std::collections::BTreeMap<String, String>);

/// What an event is about.
#[derive(JsonSchema)]
#[schemars(rename = "Entity")]
#[allow(dead_code, reason = "only its schema is used")]
pub struct EntityName {
    #[schemars(rename = "type")]
    kind: String,
    id: String,
}

/// A problem, and where it is.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct ProblemAt {
    /// Where in the request, such as `items[3].dueAt`.
    path: String,
    message: String,
}
