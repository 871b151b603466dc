//! The names of the fields of a body, from its type.

use schemars::{JsonSchema, SchemaGenerator};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

type Names = &'static [&'static str];

/// Names that were asked for before. There is one list for each type of a body.
static KNOWN: LazyLock<RwLock<HashMap<TypeId, Names>>> = LazyLock::new(RwLock::default);

/// The names of the fields of a body.
pub fn fields_of<T: JsonSchema + 'static>() -> Names {
    let id = TypeId::of::<T>();
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
    known.unwrap_or_else(|| {
        *KNOWN.write().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert_with(read::<T>)
    })
}

fn read<T: JsonSchema>() -> Names {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    let fields = schema.get("properties").and_then(|fields| fields.as_object());
    let names = fields.into_iter().flat_map(|fields| fields.keys());
    names.map(|name| &*name.clone().leak()).collect::<Vec<&'static str>>().leak()
}
