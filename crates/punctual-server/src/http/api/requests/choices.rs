//! What an attribute cannot say: fields of which a body has exactly one, and fields that may be left out but
//! may not be null.

use schemars::Schema;
use serde_json::{Value, json};

/// Either `ids` or a `filter`.
pub fn one_of_ids_and_filter(schema: &mut Schema) {
    one_of(schema, ["ids", "filter"]);
}

/// Either `dueAt` or a `delay`.
pub fn one_of_times(schema: &mut Schema) {
    one_of(schema, ["dueAt", "delay"]);
}

/// Either `advance` or `set`.
pub fn one_of_advance_and_set(schema: &mut Schema) {
    one_of(schema, ["advance", "set"]);
}

/// A schema may have several such choices.
fn one_of(schema: &mut Schema, names: [&str; 2]) {
    let choice = json!({"oneOf": names.map(|name| json!({"required": [name]}))});
    match schema.ensure_object().entry("allOf").or_insert_with(|| json!([])) {
        Value::Array(choices) => choices.push(choice),
        other => *other = json!([choice]),
    }
}

/// Takes null from the schema of an `Option`.
pub fn not_null(schema: &mut Schema) {
    let is_null = |value: &Value| *value == "null" || value["type"] == "null" || value.is_null();
    for list in ["type", "enum", "anyOf"] {
        let Some(Value::Array(all)) = schema.get_mut(list) else { continue };
        all.retain(|one| !is_null(one));
        if let [one] = &all[..] {
            let (one, fields) = (one.clone(), schema.ensure_object());
            match (list, one) {
                ("type", one) => drop(fields.insert("type".to_owned(), one)),
                ("anyOf", Value::Object(inner)) => {
                    fields.remove("anyOf");
                    fields.extend(inner);
                }
                _ => {}
            }
        }
    }
}
