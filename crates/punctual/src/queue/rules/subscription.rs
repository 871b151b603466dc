//! Subscriptions: the further consumers of a topic, with a filter and a retry policy each.
//!
//! A definition is `{filter?, target, retry?: {maxAttempts?, backoff?}, enabled?}`. A field that is left out
//! has its default; only `enabled` stays as it was. A filter is a [`Condition`] over the fields of a message:
//! `kind`, `topic`, `headers.*`, `payload.*`, `entity.type` and `entity.id`. The filter is evaluated when a
//! message is handed out, with the definition of that moment.

use crate::base::backoff::Backoff;
use crate::base::condition::Condition;
use crate::base::document::{DocumentObject, quote};
use crate::base::error::{Problem, Problems};
use crate::base::facts::Facts;
use crate::base::name::check_name;
use crate::queue::rules::message::{Message, check_topic};
use crate::queue::rules::queue::QueueSettings;
use serde_json::{Value, json};

/// Where messages of a subscription go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionTarget {
    /// To remote workers, who claim `{topic}/{name}`.
    Queue,
    /// To code of a process that was registered under this name.
    Handler(String),
}

/// Targets that are planned, and refused until they are there.
const LATER: [&str; 5] = ["webhook", "nats", "amqp", "amqp1", "flows"];

impl SubscriptionTarget {
    /// Reads a target that stands at `path`; `None` when there are problems.
    pub fn read(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let part = DocumentObject::read(value, path, &["type", "name"], &mut Problems::default());
        let known: &[&str] = match value.get("type").and_then(Value::as_str) {
            Some("queue") => &["type"],
            Some(word) if LATER.contains(&word) => {
                problems.push(part?.at("type"), format!("`{word}` is not there in this version; {EXIST}"));
                return None;
            }
            _ => &["type", "name"],
        };
        let part = DocumentObject::read(value, path, known, problems)?;
        match part.need_text("type", "queue or handler", problems)? {
            "queue" => Some(Self::Queue),
            "handler" => {
                let name = part.need_text("name", "the name of the handler", problems)?;
                check_name(name, &part.at("name"), problems);
                Some(Self::Handler(name.to_owned()))
            }
            other => {
                problems.push(part.at("type"), format!("`{}` is not a target; {EXIST}", quote(other)));
                None
            }
        }
    }

    /// The document it was read from.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Queue => json!({"type": "queue"}),
            Self::Handler(name) => json!({"type": "handler", "name": name}),
        }
    }

    /// The handler's name, if it is one.
    #[must_use]
    pub fn handler(&self) -> Option<&str> {
        match self {
            Self::Queue => None,
            Self::Handler(name) => Some(name),
        }
    }
}

const EXIST: &str = "there are queue (remote workers claim it) and handler (in a process, by its name)";

/// Which messages of a topic are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionFilter {
    condition: Condition,
    asks_payload: bool,
    asks_headers: bool,
}

impl SubscriptionFilter {
    /// Reads a filter that stands at `path`; `None` when there are problems.
    pub fn read(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let condition = Condition::read(value, path, problems)?;
        let mut wrong = false;
        let mut seen: Vec<&str> = Vec::new();
        for asked in condition.paths() {
            if !is_known(asked) && !seen.contains(&asked) {
                let said = format!(
                    "asks for `{}`, which no message has; a filter sees kind, topic, headers.*, payload.*, \
                     entity.type and entity.id",
                    quote(asked)
                );
                problems.push(path, said);
                wrong = true;
            }
            seen.push(asked);
        }
        let asks = |root: &str| seen.iter().any(|path| is_within(path, root));
        let (asks_payload, asks_headers) = (asks("payload"), asks("headers"));
        if wrong {
            return None;
        }
        Some(Self { condition, asks_payload, asks_headers })
    }

    /// The document it was read from.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.condition.to_json()
    }

    /// Whether the filter admits a message. A field beyond the bounds of [`Facts`] counts as absent.
    #[must_use]
    pub fn admits(&self, message: &Message) -> bool {
        let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let payload = if self.asks_payload { read(&message.payload) } else { Value::Null };
        let headers = message.headers.as_deref().filter(|_| self.asks_headers).map_or(Value::Null, read);
        let mut facts = Facts::default();
        facts.insert("kind", message.kind.as_str().into());
        facts.insert("topic", message.topic.as_str().into());
        if let Some(entity) = &message.entity {
            facts.insert("entity.type", entity.kind.as_str().into());
            facts.insert("entity.id", entity.id.as_str().into());
        }
        // The small one first: facts beyond the limit are then missing from the large one.
        let _ = facts.flatten("headers", &headers).and_then(|()| facts.flatten("payload", &payload));
        self.condition.holds(&facts)
    }
}

fn is_known(path: &str) -> bool {
    matches!(path, "kind" | "topic" | "entity.type" | "entity.id")
        || is_within(path, "payload")
        || is_within(path, "headers")
}

fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A subscription to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSubscription {
    /// Which messages; all without one.
    pub filter: Option<SubscriptionFilter>,
    /// Where to.
    pub target: SubscriptionTarget,
    /// Started attempts before an item is dead; the default if `None`.
    pub max_attempts: Option<u32>,
    /// The waits between attempts; the default if `None`.
    pub backoff: Option<Backoff>,
    /// Whether messages come; as it was if `None`, and a new one is enabled.
    pub enabled: Option<bool>,
}

impl NewSubscription {
    /// Everything the topic has, to this target.
    #[must_use]
    pub const fn new(target: SubscriptionTarget) -> Self {
        Self { filter: None, target, max_attempts: None, backoff: None, enabled: None }
    }

    /// Reads a definition; `None` when there are problems.
    pub fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let part = DocumentObject::read(value, "", &["filter", "target", "retry", "enabled"], problems)?;
        let filter = part.get("filter").and_then(|value| SubscriptionFilter::read(value, "filter", problems));
        let target = part.need("target", "such as {\"type\": \"queue\"}", problems);
        let target = target.and_then(|value| SubscriptionTarget::read(value, "target", problems));
        let retry =
            part.get("retry").map_or_else(QueueSettings::default, |value| read_retry(value, problems));
        let enabled = part.get("enabled").is_some().then(|| part.flag("enabled", true, problems));
        let new = Self {
            filter,
            target: target?,
            max_attempts: retry.max_attempts,
            backoff: retry.backoff,
            enabled,
        };
        Some(new).filter(|_| problems.0.len() == before)
    }
}

fn read_retry(value: &Value, problems: &mut Problems) -> QueueSettings {
    let Some(_) = DocumentObject::read(value, "retry", &["maxAttempts", "backoff"], problems) else {
        return QueueSettings::default();
    };
    let known = |(name, _): &(&String, &Value)| matches!(name.as_str(), "maxAttempts" | "backoff");
    let fields = value.as_object().into_iter().flatten().filter(known);
    let change = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    QueueSettings::default().changed_by(&change).unwrap_or_else(|wrong| {
        let inside = |p: Problem| Problem::new(format!("retry.{}", p.path), p.message);
        problems.0.extend(wrong.0.into_iter().map(inside));
        QueueSettings::default()
    })
}

/// Whether a subscription can have these names: neither has a slash, which stands between them.
pub fn check_names(topic: &str, name: &str, problems: &mut Problems) {
    check_topic(topic, "topic", problems);
    check_name(name, "name", problems);
    if name.contains('/') {
        problems.push("name", "must not contain `/`, which stands between a topic and this name");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::base::id::MessageId;
    use crate::base::tenant::Tenant;
    use crate::queue::rules::message::Entity;

    fn problems(value: &Value) -> Vec<String> {
        let mut found = Problems::default();
        let read = NewSubscription::read(value, &mut found);
        assert_eq!(read.is_none(), !found.0.is_empty(), "{found}");
        found.0.iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
    }

    fn message(kind: &str, payload: &str) -> Message {
        let at = Timestamp::from_micros(0);
        Message {
            id: MessageId(1),
            tenant: Tenant::DEFAULT,
            topic: "orders".into(),
            kind: kind.into(),
            payload: payload.into(),
            key: None,
            entity: Some(Entity { kind: "order".into(), id: "7".into() }),
            correlation_id: None,
            headers: Some(r#"{"region": "eu"}"#.into()),
            created_at: at,
            occurred_at: at,
            due_at: at,
        }
    }

    #[test]
    fn a_definition_is_read_with_its_defaults() {
        let value = json!({"target": {"type": "handler", "name": "billing"},
            "retry": {"maxAttempts": 3, "backoff": ["1m"]}, "enabled": false, "filter": null});
        let read = NewSubscription::read(&value, &mut Problems::default()).unwrap();
        assert_eq!(read.target, SubscriptionTarget::Handler("billing".into()));
        assert_eq!((read.max_attempts, read.enabled, &read.filter), (Some(3), Some(false), &None));
        assert_eq!(read.target.to_json(), value["target"]);
        let plain = NewSubscription::read(&json!({"target": {"type": "queue"}}), &mut Problems::default());
        assert_eq!(plain, Some(NewSubscription::new(SubscriptionTarget::Queue)));
    }

    /// PLT-29: every problem, each by its path.
    #[test]
    fn plt_29_every_problem_is_named() {
        let wrong = json!({"filter": {"questionId": "payload.x", "op": "is"}, "target": {"type": "pigeon"},
            "retry": {"maxAttempts": 0, "backoff": ["soon"], "tries": 1}, "enabled": "yes", "colour": 1});
        let said = problems(&wrong).join("\n");
        let paths =
            ["filter.op: ", "target.type: `pigeon` is not a target", "retry.maxAttempts: ", "colour: "];
        for part in paths.into_iter().chain(["retry.backoff", "retry.tries: ", "enabled: must be true"]) {
            assert!(said.contains(part), "{part} in {said}");
        }
        let cases = [
            (json!([]), ": must be an object"),
            (json!({}), "target: is missing"),
            (json!({"target": {"type": "handler"}}), "target.name: is missing"),
            (json!({"target": {"type": "queue", "name": "x"}}), "target.name: `name` is not a field"),
            (
                json!({"target": {"type": "webhook", "url": "https://x.example"}}),
                "target.type: `webhook` is not there in this version; there are queue",
            ),
            (
                json!({"target": {"type": "queue"}, "filter": {"questionId": "candidate.x", "op": "exists"}}),
                "filter: asks for `candidate.x`, which no message has",
            ),
        ];
        for (value, want) in cases {
            let said = problems(&value);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(want), "{want} in {said:?}");
        }
    }

    /// FAN-1: a filter sees kind, topic, headers, payload and entity.
    #[test]
    fn a_filter_sees_the_whole_message() {
        let placed = message("order.placed", r#"{"total": 120, "to": {"country": "DE"}}"#);
        let cases = [
            ("kind", json!("order.placed"), true),
            ("kind", json!("order.paid"), false),
            ("topic", json!("orders"), true),
            ("headers.region", json!("eu"), true),
            ("payload.total", json!(120), true),
            ("payload.to.country", json!("AT"), false),
            ("entity.type", json!("order"), true),
            ("entity.id", json!("8"), false),
        ];
        for (path, value, want) in cases {
            let filter = json!({"questionId": path, "op": "==", "value": value});
            let read = SubscriptionFilter::read(&filter, "filter", &mut Problems::default()).unwrap();
            assert_eq!(read.admits(&placed), want, "{filter}");
            assert_eq!(read.to_json(), filter);
        }
        let bare = SubscriptionFilter::read(
            &json!({"questionId": "payload", "op": "exists"}),
            "",
            &mut Problems::default(),
        );
        assert!(bare.unwrap().admits(&message("k", "7")), "a payload need not be an object");
    }

    #[test]
    fn names_have_no_slash() {
        let mut found = Problems::default();
        check_names("a/b", "c/d", &mut found);
        check_names("orders", "mail", &mut found);
        assert_eq!(found.0.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), ["topic", "name"]);
    }
}
