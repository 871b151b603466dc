//! Schemas, from the types that handlers read and answer with.
//!
//! The type of an answer says what is always there, and the type of a body what may be left out, so there are
//! two generators. A type of both, such as a backoff, is described as bodies have it.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Makes a schema.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A reference to the schema of a type, or the schema if it stands in line.
pub fn subschema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The schema of a type itself.
pub fn own<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// The type of a body or an answer.
#[derive(Clone, Copy, Debug)]
pub struct BodyType {
    name: fn() -> Cow<'static, str>,
    schema: SchemaOf,
}

impl BodyType {
    /// That of a type.
    #[must_use]
    pub const fn of<T: JsonSchema>() -> Self {
        Self { name: T::schema_name, schema: subschema::<T> }
    }

    /// Its name, such as `Queue` or `Queue[]`.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        (self.name)()
    }

    /// The schema.
    pub fn schema(self, generator: &mut SchemaGenerator) -> Value {
        tidied((self.schema)(generator))
    }
}

/// The schemas that were named so far.
#[derive(Debug)]
pub struct Components {
    /// Of answers.
    pub answers: SchemaGenerator,
    /// Of bodies and parameters.
    pub requests: SchemaGenerator,
}

impl Default for Components {
    fn default() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            answers: settings().for_serialize().into_generator(),
            requests: settings().for_deserialize().into_generator(),
        }
    }
}

impl Components {
    /// All schemas by name.
    #[must_use]
    pub fn schemas(mut self) -> Map<String, Value> {
        let mut all = self.answers.take_definitions(true);
        all.extend(self.requests.take_definitions(true));
        for schema in all.values_mut() {
            if let Ok(schema) = schema.try_into() {
                Tidy.transform(schema);
            }
        }
        all
    }
}

fn tidied(mut schema: Schema) -> Value {
    Tidy.transform(&mut schema);
    schema.to_value()
}

/// Takes away the sizes that numbers have in Rust, and the line breaks of comments.
struct Tidy;

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        let is_text = schema.get("type").is_none_or(|of| of == "string" || of[0] == "string");
        if !is_text {
            schema.remove("format");
        }
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        transform_subschemas(self, schema);
    }
}
