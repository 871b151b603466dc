//! The input hash of an entry: a digest of its inputs, so that two entries of one key can be compared.

use crate::base::canonical;
use crate::base::digest;
use crate::base::zone::Zone;
use serde_json::Value;

/// The digest of a payload in canonical JSON.
pub type PayloadDigest = [u8; 32];

/// Returns the digest of a payload, the same however it is written.
#[must_use]
pub fn payload_digest(payload: &Value) -> PayloadDigest {
    let mut text = String::new();
    canonical::write(payload, &mut text);
    digest::sha256(text.as_bytes())
}

/// The inputs that an entry was made from.
#[derive(Clone, Copy, Debug)]
pub struct EntryInputs<'a> {
    /// The kind of its event.
    pub event_kind: &'a str,
    /// The payload of its event.
    pub payload: &'a PayloadDigest,
    /// The flow, its version and the trigger, where it has them.
    pub definition: Option<(i64, u32, &'a str)>,
    /// The channel and the address, where it has a recipient of its own.
    pub recipient: Option<(&'a str, &'a str)>,
}

/// Returns the SHA-256 of the inputs, in hexadecimal.
#[must_use]
pub fn input_hash(of: &EntryInputs<'_>) -> String {
    let definition = of.definition.map(|(flow, version, trigger)| format!("{flow}:{version}:{trigger}"));
    let (channel, address) = of.recipient.unwrap_or_default();
    let definition = definition.unwrap_or_default();
    let parts = [of.event_kind.as_bytes(), of.payload, definition.as_bytes(), channel.as_bytes()];
    digest::of(parts.into_iter().chain([address.as_bytes()]))
}

/// Where a planned entry comes from, beside its cause: kept with it for people who ask later.
#[derive(Clone, Debug, Default)]
pub struct EntryOrigin {
    /// The hash of its inputs.
    pub input_hash: Option<String>,
    /// The zone of its local date.
    pub zone: Option<Zone>,
    /// The version of the event kind's definition, where it has one.
    pub event_kind_version: Option<u32>,
    /// The data that was loaded when the entry was planned and that neither the entry nor its deliveries say,
    /// as JSON.
    pub trace: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_have_one_hash_however_they_are_written() {
        let hash = |payload: &str| {
            let payload = payload_digest(&serde_json::from_str(payload).unwrap());
            let of = EntryInputs { event_kind: "a", payload: &payload, definition: None, recipient: None };
            input_hash(&of)
        };
        let one = hash(r#"{"a": 1, "b": [true, null]}"#);
        assert_eq!(one, hash(r#"{"b":[true,null],"a":1.0}"#));
        assert_ne!(one, hash(r#"{"a": 2, "b": [true, null]}"#));
        assert_eq!(one.len(), 64);
    }
}
