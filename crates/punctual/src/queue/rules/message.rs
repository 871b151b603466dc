//! Messages as a caller enqueues them and as they are stored, and their checks.

use crate::base::clock::Timestamp;
use crate::base::digest;
use crate::base::error::{Error, Problem, Problems};
use crate::base::id::MessageId;
use crate::base::limits;
use crate::base::name::check_name;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The subject of a message: a booking, a document, a customer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entity {
    /// Its type, such as `booking`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id within the type.
    pub id: String,
}

/// A message to be enqueued.
///
/// ```
/// use punctual::NewMessage;
/// let message = NewMessage::new("orders", "order.placed", r#"{"order": 7}"#).key("customer-4");
/// assert_eq!(message.topic, "orders");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// Where it goes.
    pub topic: String,
    /// The kind of the event.
    pub kind: String,
    /// The content, as JSON text.
    pub payload: String,
    /// Messages of one key are handled in order, one at a time.
    pub key: Option<String>,
    /// The entity of the message.
    pub entity: Option<Entity>,
    /// Ties together what belongs to one story.
    pub correlation_id: Option<String>,
    /// Small facts about the message itself, as a JSON object's text.
    pub headers: Option<String>,
    /// When it happened, if not now.
    pub occurred_at: Option<Timestamp>,
    /// Not before this moment.
    pub due_at: Option<Timestamp>,
    /// The publisher's own id: given twice from one source, the second is a duplicate.
    pub id: Option<String>,
    /// The publisher; scopes `id`.
    pub source: Option<String>,
    /// The version of the payload's form.
    pub schema_version: Option<String>,
}

impl NewMessage {
    /// A message with a topic, a kind and a payload of JSON text.
    #[must_use]
    pub fn new(topic: impl Into<String>, kind: impl Into<String>, payload: impl Into<String>) -> Self {
        Self { topic: topic.into(), kind: kind.into(), payload: payload.into(), ..Self::default() }
    }

    /// Orders it after earlier messages of the same key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says what it is about.
    #[must_use]
    pub fn entity(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.entity = Some(Entity { kind: kind.into(), id: id.into() });
        self
    }

    /// Holds it back until `due`.
    #[must_use]
    pub fn due_at(mut self, due: Timestamp) -> Self {
        self.due_at = Some(due);
        self
    }

    /// Ties it to a story.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets the headers.
    #[must_use]
    pub fn headers(mut self, headers: &BTreeMap<String, String>) -> Self {
        self.headers = serde_json::to_string(headers).ok();
        self
    }

    /// Names it, so that a second copy from the same source is a duplicate.
    #[must_use]
    pub fn id(mut self, source: impl Into<String>, id: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self.id = Some(id.into());
        self
    }

    /// The bytes of its payload and headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.headers.as_ref().map_or(0, String::len)
    }

    /// Adds what is wrong with this message, each under `path`.
    pub fn check(&self, path: &str, problems: &mut Problems) {
        let found = self.problems().0;
        problems.0.extend(found.into_iter().map(|p| Problem::new(join(path, &p.path), p.message)));
    }

    /// Returns the problems of this message. Allocates nothing when there are none.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let mut found = Problems::default();
        check_published_topic(&self.topic, "topic", &mut found);
        check_name(&self.kind, "kind", &mut found);
        let optional = [
            ("key", &self.key),
            ("id", &self.id),
            ("source", &self.source),
            ("correlationId", &self.correlation_id),
            ("schemaVersion", &self.schema_version),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                check_name(value, name, &mut found);
            }
        }
        if let Some(entity) = &self.entity {
            check_name(&entity.kind, "entity.type", &mut found);
            check_name(&entity.id, "entity.id", &mut found);
        }
        check_json(&self.payload, limits::PAYLOAD_BYTES_MAX, "payload", &mut found);
        if let Some(headers) = &self.headers {
            check_json(headers, limits::HEADERS_BYTES_MAX, "headers", &mut found);
            // JSON that begins with a brace is an object.
            if !headers.trim_start().starts_with('{') {
                found.push("headers", "must be a JSON object");
            }
        }
        for (name, time) in [("dueAt", self.due_at), ("occurredAt", self.occurred_at)] {
            if time.is_some_and(|t| t > Timestamp::MAX || t < Timestamp::EARLIEST) {
                found.push(name, "must lie between the years 1900 and 9999");
            }
        }
        found
    }

    /// Returns the digest that two messages of one id must share to be the same message.
    #[must_use]
    pub fn content_digest(&self) -> String {
        let text = |v: &Option<String>| v.clone().unwrap_or_default();
        let entity = self.entity.as_ref().map(|e| format!("{}:{}", e.kind, e.id)).unwrap_or_default();
        let parts = [&self.topic, &self.kind, &text(&self.key), &entity, &self.payload];
        digest::of(parts.iter().map(|p| p.as_bytes()))
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A topic is a name without slashes: a slash sets off a subscription's name.
pub fn check_topic(topic: &str, path: &str, problems: &mut Problems) {
    check_name(topic, path, problems);
    if topic.contains('/') {
        problems.push(path, "must not contain `/`, which sets off the name of a subscription");
    }
}

/// Topics that begin so are the engine's own: others may subscribe to them, and not publish there.
pub const RESERVED_TOPIC_PREFIX: &str = "punctual.";

/// A topic that messages are published to: none of the engine's own.
pub fn check_published_topic(topic: &str, path: &str, problems: &mut Problems) {
    check_topic(topic, path, problems);
    if topic.starts_with(RESERVED_TOPIC_PREFIX) {
        problems.push(path, "is reserved: only the engine publishes to topics that begin with `punctual.`");
    }
}

pub(crate) fn check_json(text: &str, bytes_max: usize, path: &str, problems: &mut Problems) {
    if text.len() > bytes_max {
        problems.push(path, format!("has {} bytes, at most {bytes_max} are allowed", text.len()));
    } else if let Err(e) = serde_json::from_str::<JsonCheck>(text) {
        problems.push(path, format!("is not JSON that can be read: {e}"));
    }
}

/// JSON that becomes a value whenever it is read later, checked without making one. A parser that merely
/// skips a value accepts more: lone surrogates, numbers that no double holds, and any depth.
struct JsonCheck;

impl<'de> Deserialize<'de> for JsonCheck {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for JsonCheck {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// A message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its tenant's number.
    pub tenant: crate::base::tenant::Tenant,
    /// Where it went.
    pub topic: String,
    /// The kind of the event.
    pub kind: String,
    /// The content, as JSON text.
    pub payload: String,
    /// The key of its sequence.
    pub key: Option<String>,
    /// The entity of the message.
    pub entity: Option<Entity>,
    /// Ties together what belongs to one story.
    pub correlation_id: Option<String>,
    /// Headers, as a JSON object's text.
    pub headers: Option<String>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it was first due.
    pub due_at: Timestamp,
}

impl Message {
    /// The bytes of its payload and headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.headers.as_ref().map_or(0, String::len)
    }
}

/// Checks that the output of a run is JSON, and not too large.
///
/// # Errors
/// [`Error::Invalid`] when it is not.
pub fn check_output(output: &str) -> Result<(), Error> {
    let mut problems = Problems::default();
    check_json(output, limits::OUTPUT_BYTES_MAX, "output", &mut problems);
    problems.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(message: &NewMessage) -> Vec<String> {
        let mut found = Problems::default();
        message.check("", &mut found);
        found.0.iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
    }

    #[test]
    fn a_good_message_has_no_problems() {
        let m = NewMessage::new("orders", "order.placed", "{}").key("k").entity("order", "7").id("shop", "1");
        assert_eq!(problems(&m), Vec::<String>::new());
    }

    /// PLT-29: every wrong field is named, all of them at once.
    #[test]
    fn plt_29_every_problem_is_named() {
        let long = "x".repeat(256);
        let m = NewMessage::new("a/b", "", "{not json").key(&long).correlation_id("a\nb");
        let said = problems(&m).join("\n");
        for part in [
            "topic: must not contain `/`",
            "kind: must not be empty",
            "payload: is not JSON that can be read",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(said.contains("key: has 256 characters, at most 255"), "{said}");
        assert!(said.contains("correlationId: must not contain control"), "{said}");
        let big = NewMessage::new("t", "k", format!("\"{}\"", "x".repeat(limits::PAYLOAD_BYTES_MAX)));
        assert!(problems(&big)[0].contains("payload: has 1048578 bytes"), "{:?}", problems(&big));
    }

    /// docs/guarantees.md: JSON that the engine could not read later is refused where it comes in.
    #[test]
    fn json_that_cannot_be_read_later_is_refused() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        let wrong = [
            r#"{"a": "\ud800"}"#.to_owned(),
            r#"{"a": "\udc00\ud800"}"#.to_owned(),
            r#"{"\ud800": 1}"#.to_owned(),
            r#"{"a": 1e400}"#.to_owned(),
            r#"[-1e999]"#.to_owned(),
            deep(128),
            deep(100_000),
        ];
        for payload in wrong {
            assert!(serde_json::from_str::<serde_json::Value>(&payload).is_err());
            let message = NewMessage::new("t", "k", &payload).entity("a", "b");
            let said = problems(&message).join("\n");
            assert!(said.starts_with("payload: is not JSON that can be read: "), "{said}");
        }
        for payload in [r#"{"a": "\ud83d\ude00\u0000", "b": [1e308, -0.5, null, true]}"#, &deep(127)] {
            assert!(serde_json::from_str::<serde_json::Value>(payload).is_ok());
            assert_eq!(problems(&NewMessage::new("t", "k", payload)), Vec::<String>::new());
        }
    }

    #[test]
    fn names_are_counted_in_characters() {
        assert_eq!(problems(&NewMessage::new("ش".repeat(255), "k", "1")), Vec::<String>::new());
    }
}
