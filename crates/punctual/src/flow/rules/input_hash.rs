//! The input hash of an entry: what it was made of, so that two entries of one key can be compared.

use crate::base::canonical;
use crate::base::digest;
use serde_json::{Value, json};

/// What an entry was made of.
#[derive(Clone, Copy, Debug)]
pub struct EntryInputs<'a> {
    /// The kind of its event.
    pub event_kind: &'a str,
    /// The payload of its event, as JSON text.
    pub payload: &'a str,
    /// The flow, its version and the trigger, where it has them.
    pub definition: Option<(i64, u32, &'a str)>,
    /// The channel and the address, where it has a recipient of its own.
    pub recipient: Option<(&'a str, &'a str)>,
}

/// Returns the SHA-256 of the inputs in canonical JSON, in hexadecimal.
#[must_use]
pub fn input_hash(of: &EntryInputs<'_>) -> String {
    let payload: Value = serde_json::from_str(of.payload).unwrap_or_default();
    let definition = of.definition.map(|(flow, version, trigger)| json!([flow, version, trigger]));
    let recipient = of.recipient.map(|(channel, address)| json!([channel, address]));
    let inputs = json!({
        "eventKind": of.event_kind,
        "payload": payload,
        "definition": definition,
        "recipient": recipient,
    });
    let mut text = String::new();
    canonical::write(&inputs, &mut text);
    digest::hex(&digest::sha256(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_have_one_hash_however_they_are_written() {
        let of = |payload| EntryInputs { event_kind: "a", payload, definition: None, recipient: None };
        let one = input_hash(&of(r#"{"a": 1, "b": [true, null]}"#));
        assert_eq!(one, input_hash(&of(r#"{"b":[true,null],"a":1.0}"#)));
        assert_ne!(one, input_hash(&of(r#"{"a": 2, "b": [true, null]}"#)));
        assert_eq!(one.len(), 64);
    }
}
