//! Public tables of cases, which lie beside the repository.
//!
//! Their tests are ignored unless somebody asks for them (`--ignored public_table`), so that a machine
//! without the tables does not report them as passed.

use serde_json::Value;
use std::path::Path;

/// Reads a table.
///
/// # Panics
/// When `PUNCTUAL_CONFORMANCE_DATA` does not say where it is.
pub fn public_table(name: &str) -> Value {
    let folder = std::env::var_os("PUNCTUAL_CONFORMANCE_DATA");
    let folder = folder.unwrap_or_else(|| panic!("PUNCTUAL_CONFORMANCE_DATA should say where {name} is"));
    let text = std::fs::read_to_string(Path::new(&folder).join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}
