//! CloudEvents 1.0, structured and binary.
//!
//! `type` is the kind, `data` the payload, `time` when it happened. The extension attributes
//! `topic`, `partitionkey` (or `key`), `correlationid`, `dueat`, `schemaversion` and
//! `entitytype` (whose id is `entityid` or the subject) say the rest; any other attribute is
//! kept as a header. Names have small letters and digits only, as the specification says: `dueAt` is refused,
//! since as a header it would be an event that is due at once.

use super::{Draft, Reading, join};
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use axum::http::HeaderMap;
use punctual::base::suggestion::nearest;
use punctual::{Entity, NewMessage};
use serde_json::{Map, Value};

/// The header that marks the binary form.
pub const SPEC_VERSION: &str = "ce-specversion";
/// Where an event goes that names no topic.
const TOPIC_DEFAULT: &str = "events";

/// Attributes that have a place of their own.
const PLACED: [&str; 13] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "topic",
    "key",
    "partitionkey",
    "correlationid",
    "dueat",
    "schemaversion",
    "entitytype",
    "entityid",
];

/// Whether an object among plain events is a CloudEvent.
pub fn is_one(fields: &Map<String, Value>) -> bool {
    fields.contains_key("specversion") && !fields.contains_key("kind")
}

/// What a CloudEvent calls a field of ours.
pub fn name(ours: &str) -> &str {
    match ours {
        "kind" => "type",
        "payload" => "data",
        "key" => "partitionkey",
        "occurredAt" => "time",
        "dueAt" => "dueat",
        "correlationId" => "correlationid",
        "schemaVersion" => "schemaversion",
        "entity.type" => "entitytype",
        "entity.id" => "entityid",
        same => same,
    }
}

/// Reads a structured event; what is wrong with it is noted.
pub fn read(draft: Draft<'_>, reading: &mut Reading) -> (NewMessage, String) {
    let Draft { mut fields, content, at, .. } = draft;
    let encoded = fields.remove("data_base64").filter(|encoded| !encoded.is_null());
    if encoded.as_ref().is_some_and(|encoded| !encoded.is_string()) {
        reading.problems.push(join(&at, "data_base64"), "must be a string");
    }
    if encoded.is_some() && content.is_some() {
        reading.problems.push(join(&at, "data_base64"), "is the data once more: leave it or `data` out");
    }
    let payload = match (content, encoded) {
        (Some(data), _) => data.get().to_owned(),
        (None, Some(text)) => {
            fields.insert("dataencoding".into(), "base64".into());
            text.to_string()
        }
        (None, None) => "null".to_owned(),
    };
    let message = attributes(&fields, &at, reading);
    (NewMessage { payload, ..message }, at)
}

/// Reads a binary event: attributes in headers, the body is the data.
///
/// # Errors
/// 400 when the body is not the JSON it says it is, 415 when it is neither JSON nor text.
pub fn read_binary(headers: &HeaderMap, input: &Input, reading: &mut Reading) -> Answer<()> {
    let mut fields = Map::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix("ce-") {
            fields.insert(name.to_owned(), decode(value.as_bytes()).into());
        }
    }
    let payload = data(input)?;
    let message = attributes(&fields, "", reading);
    reading.add(NewMessage { payload, ..message }, "", name);
    Ok(())
}

fn data(input: &Input) -> Answer<String> {
    let kind = input.media_type.as_str();
    let text = std::str::from_utf8(&input.bytes).map_err(|_| {
        let said = "the data of a binary CloudEvent must be JSON or text";
        ApiFailure::unsupported(said)
    })?;
    if input.bytes.is_empty() {
        return Ok("null".into());
    }
    if kind.is_empty() || kind.ends_with("/json") || kind.ends_with("+json") {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|e| crate::http::input::not_json(&e))?;
        return Ok(text.trim().to_owned());
    }
    Ok(Value::from(text).to_string())
}

/// Header values carry what is not plain ASCII percent-encoded.
fn decode(value: &[u8]) -> String {
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        let code = value.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if value[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(value[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn attributes(fields: &Map<String, Value>, at: &str, reading: &mut Reading) -> NewMessage {
    let mut read = Fields::new(fields, at, &mut reading.problems);
    for name in fields.keys().filter(|name| !is_name(name)) {
        let said = "is not the name of an attribute, which has small letters and digits only";
        let near = nearest(name, PLACED).map(|near| format!("; did you mean `{near}`?"));
        read.wrong(name, format!("{said}{}", near.unwrap_or_default()));
    }
    if read.need_text("specversion") != "1.0" {
        read.wrong("specversion", "must be \"1.0\"");
    }
    read.need("id");
    let key = read.id_text("partitionkey").or_else(|| read.id_text("key"));
    let subject = read.text("subject");
    let entity = read
        .text("entitytype")
        .map(|kind| Entity { kind, id: read.id_text("entityid").or(subject).unwrap_or_default() });
    NewMessage {
        topic: read.text("topic").unwrap_or_else(|| TOPIC_DEFAULT.into()),
        kind: read.need_text("type"),
        payload: String::new(),
        key,
        entity,
        correlation_id: read.id_text("correlationid"),
        headers: others(fields),
        occurred_at: read.time("time"),
        due_at: read.time("dueat"),
        id: read.id_text("id"),
        source: Some(read.need_text("source")),
        schema_version: read.id_text("schemaversion"),
    }
}

/// Whether a name may be that of an attribute.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn others(fields: &Map<String, Value>) -> Option<String> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let rest = fields.iter().filter(|(name, value)| !PLACED.contains(&name.as_str()) && !value.is_null());
    let headers: Map<String, Value> = rest.map(|(n, v)| (n.clone(), text(v).into())).collect();
    if headers.is_empty() { None } else { serde_json::to_string(&headers).ok() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn percent_encoded_headers_are_decoded() {
        for (given, read) in
            [("plain", "plain"), ("Euro%20%E2%82%AC", "Euro €"), ("50%", "50%"), ("%zz", "%zz")]
        {
            assert_eq!(super::decode(given.as_bytes()), read);
        }
    }
}
