//! The API: one file per noun. A handler parses, calls one verb of the engine, renders.

pub mod dead_letters;
pub mod events;
pub mod keys;
pub mod queues;
pub mod tenants;
pub mod work;

use super::error::{Answer, Failure};
use serde_json::value::RawValue;

/// Stored JSON text as JSON, not as a string.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A number from a path; what is not one cannot be there.
fn id(text: &str, noun: &str) -> Answer<i64> {
    let missing = || Failure::not_found(format!("there is no {noun} `{text}`"));
    text.parse().ok().filter(|n| *n > 0).ok_or_else(missing)
}
