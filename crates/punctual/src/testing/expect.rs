//! Sentences about what was enqueued. One that is not true panics, says so, and lists what
//! was enqueued instead.

use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::queue::rules::message::Message;
use std::fmt::Write;

/// Messages that are read at once.
const PAGE: usize = 1_000;
/// Messages that a failed sentence lists.
const LISTED: usize = 20;
/// Characters of a payload in that list.
const PAYLOAD_CHARS: usize = 60;

/// A sentence that has begun: which messages are meant. It ends with [`MessageExpectation::count`],
/// [`MessageExpectation::once`] or [`MessageExpectation::never`].
#[derive(Clone, Debug)]
#[must_use = "a sentence says nothing before its end: count, once or never"]
pub struct MessageExpectation {
    store: Store,
    tenant: Tenant,
    topic: String,
    kind: Option<String>,
    key: Option<String>,
    correlation_id: Option<String>,
    payload: Option<serde_json::Value>,
}

impl MessageExpectation {
    pub(crate) fn new(store: Store, tenant: Tenant, topic: &str) -> Self {
        let topic = topic.to_owned();
        Self { store, tenant, topic, kind: None, key: None, correlation_id: None, payload: None }
    }

    /// Only of this kind.
    pub fn with_kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    /// Only of this key.
    pub fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Only of this story.
    pub fn with_correlation_id(mut self, id: &str) -> Self {
        self.correlation_id = Some(id.to_owned());
        self
    }

    /// Only with this content, whatever the order of its fields.
    pub fn with_payload(mut self, payload: serde_json::Value) -> Self {
        self.payload = Some(payload);
        self
    }

    /// So many were enqueued; answers them.
    ///
    /// # Panics
    /// When it were more or fewer.
    pub async fn count(self, n: usize) -> Vec<Message> {
        let all = self.all().await;
        let (meant, others): (Vec<Message>, Vec<Message>) = all.into_iter().partition(|m| self.means(m));
        assert!(meant.len() == n, "{}", self.complaint(n, &meant, &others));
        meant
    }

    /// Exactly one was enqueued; answers it.
    ///
    /// # Panics
    /// When it were more, or none.
    pub async fn once(self) -> Message {
        self.count(1).await.remove(0)
    }

    /// None was enqueued.
    ///
    /// # Panics
    /// When one was.
    pub async fn never(self) {
        self.count(0).await;
    }

    async fn all(&self) -> Vec<Message> {
        let mut all: Vec<Message> = Vec::new();
        loop {
            let after = all.last().map_or(MessageId(0), |m| m.id);
            match self.store.messages(self.tenant, after, PAGE).await {
                Ok(page) if page.is_empty() => return all,
                Ok(page) => all.extend(page),
                Err(error) => panic!("what was enqueued cannot be read: {error}"),
            }
        }
    }

    fn means(&self, m: &Message) -> bool {
        let fits =
            |wanted: &Option<String>, is: Option<&str>| wanted.as_deref().is_none_or(|w| is == Some(w));
        m.topic == self.topic
            && fits(&self.kind, Some(&m.kind))
            && fits(&self.key, m.key.as_deref())
            && fits(&self.correlation_id, m.correlation_id.as_deref())
            && self.payload.as_ref().is_none_or(|wanted| {
                serde_json::from_str::<serde_json::Value>(&m.payload).is_ok_and(|is| is == *wanted)
            })
    }

    fn complaint(&self, n: usize, meant: &[Message], others: &[Message]) -> String {
        let mut said = format!("{} to `{}`", messages(n), self.topic);
        let details = [("kind", &self.kind), ("key", &self.key), ("correlation id", &self.correlation_id)];
        for (name, value) in details {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = write!(said, " with {name} `{value}`");
            }
        }
        if let Some(payload) = &self.payload {
            let _ = write!(said, " with payload {payload}");
        }
        let found = if meant.len() == 1 { "1 was".to_owned() } else { format!("{} were", meant.len()) };
        let _ = write!(said, " should have been enqueued, but {found}.");
        let lists = [("Those", meant), ("Enqueued besides", others)];
        for (title, list) in lists {
            if !list.is_empty() {
                let _ = write!(said, "\n{title}:");
                list.iter().take(LISTED).for_each(|m| said.push_str(&line(m)));
            }
            if list.len() > LISTED {
                let _ = write!(said, "\n  and {} more", list.len() - LISTED);
            }
        }
        if meant.is_empty() && others.is_empty() {
            said.push_str("\nNothing was enqueued at all.");
        }
        said
    }
}

fn messages(n: usize) -> String {
    match n {
        0 => "no message".into(),
        1 => "1 message".into(),
        n => format!("{n} messages"),
    }
}

fn line(m: &Message) -> String {
    let mut said = format!("\n  {} to `{}`, kind `{}`", m.id, m.topic, m.kind);
    for (name, value) in [("key", &m.key), ("correlation id", &m.correlation_id)] {
        if let Some(value) = value {
            let _ = write!(said, ", {name} `{value}`");
        }
    }
    if m.due_at > m.created_at {
        let _ = write!(said, ", due at {}", m.due_at);
    }
    let payload: String = m.payload.chars().take(PAYLOAD_CHARS).collect();
    let more = if payload.len() < m.payload.len() { "…" } else { "" };
    let _ = write!(said, ": {payload}{more}");
    said
}
