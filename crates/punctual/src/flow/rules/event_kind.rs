//! Kinds of events as documents: the recipients of an event, the names for its templates, when a message
//! about it is pointless, and the form of its payload.
//!
//! Everything here is decided from the payload and the entity's snapshot; nothing is looked up. A path leads
//! into the payload. One that begins with `entity.` or `payload.` and is not found there leads into the
//! entity's state or the whole payload; while the entity's state was not reported, the payload stands in for
//! it.
//!
//! Not promised: that an address is valid. The sender checks it.

mod read;
mod recipients;

pub use crate::flow::rules::event_kind::recipients::{Recipient, RecipientMapping};

use crate::base::condition::Condition;
use crate::base::error::Problems;
use crate::base::facts::Facts;
use crate::base::limits;
use crate::base::number;
use crate::base::path::{Path, text_of};
use crate::base::schema::Schema;
use crate::base::zone::Zone;
use crate::flow::rules::entity::EntitySnapshot;
use crate::queue::rules::message::Entity;
use serde_json::Value;
use std::sync::LazyLock;

/// A kind of events, as it was defined.
#[derive(Clone, Debug, Default)]
pub struct EventKind {
    /// The topic its events come by; any, if it does not say.
    pub topic: Option<String>,
    /// The entity of events that do not name one themselves: the type …
    pub entity_type: Option<String>,
    /// … and where in the payload the id stands.
    pub entity_id: Option<Path>,
    /// The recipients.
    pub recipients: RecipientMapping,
    /// When a message would be pointless.
    pub cancel_when: Option<Condition>,
    /// Whether a message is pointless while the entity's state was not reported.
    pub require_entity: bool,
    /// Other entities whose states templates can name.
    pub related: Vec<RelatedEntity>,
    /// The form of the payload.
    pub schema: Option<Schema>,
    /// A payload as it may come.
    pub sample: Option<Value>,
    /// The number of the last change, from 1; 0 of a kind that is not defined.
    pub version: u32,
    /// The document as it was written.
    document: Value,
}

/// Another entity that an event leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedEntity {
    /// The name in templates.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Where its id stands.
    pub id: Path,
}

/// Why a message is not sent although it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The entity is gone.
    EntityDeleted,
    /// The entity was never reported, and the kind requires it.
    EntityUnknown,
    /// A condition of the kind under which a message is pointless holds; with the value that was found.
    CancelWhen(String),
}

impl CancelReason {
    /// Whether a word is the code of one.
    #[must_use]
    pub fn is_code(word: &str) -> bool {
        [Self::EntityDeleted, Self::EntityUnknown, Self::CancelWhen(String::new())]
            .iter()
            .any(|reason| reason.code() == word)
    }

    /// The word for it in lists.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EntityDeleted => "EntityDeleted",
            Self::EntityUnknown => "EntityUnknown",
            Self::CancelWhen(_) => "CancelWhen",
        }
    }
}

impl std::fmt::Display for CancelReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EntityDeleted => f.write_str("what the event is about was deleted"),
            Self::EntityUnknown => f.write_str("the state of the event's entity was never reported"),
            Self::CancelWhen(seen) => write!(f, "cancelWhen holds: {seen}"),
        }
    }
}

impl EventKind {
    /// Reads a document. Every problem is reported with its path; a kind is returned only if there is none.
    pub fn read(json: &Value, problems: &mut Problems) -> Option<Self> {
        let before = problems.0.len();
        let kind = read::event_kind(json, problems);
        kind.filter(|_| problems.0.len() == before)
    }

    /// Reads back a stored document. The document was checked when it was stored, so problems by newer rules
    /// are ignored.
    #[must_use]
    pub fn kept(json: &Value) -> Self {
        read::event_kind(json, &mut Problems::default()).unwrap_or_default()
    }

    /// Returns the kind of events without a definition: the recipient is in the payload, under `recipient` or
    /// at the top.
    #[must_use]
    pub fn undefined() -> &'static Self {
        static UNDEFINED: LazyLock<EventKind> =
            LazyLock::new(|| EventKind { recipients: RecipientMapping::undefined(), ..EventKind::default() });
        &UNDEFINED
    }

    /// The document.
    #[must_use]
    pub const fn document(&self) -> &Value {
        &self.document
    }

    /// Whether events of a topic are of this kind.
    #[must_use]
    pub fn comes_by(&self, topic: &str) -> bool {
        self.topic.as_deref().is_none_or(|own| own == topic)
    }

    /// Whether the kind names recipients.
    #[must_use]
    pub fn has_recipients(&self) -> bool {
        self.recipients.fields().iter().any(|(_, paths)| !paths.is_empty())
    }

    /// Returns the topic of a kind with recipients, if it names one.
    #[must_use]
    pub fn told_topic(&self) -> Option<&str> {
        self.topic.as_deref().filter(|_| self.has_recipients())
    }

    /// Whether a payload is to be checked: it has a form, or may name somebody by a number that lost digits.
    #[must_use]
    pub fn has_checks(&self, payload: &str) -> bool {
        self.schema.is_some() || number::may_lose_digits(payload)
    }

    /// Reports where a payload that stands at `path` does not have the form of this kind.
    pub fn check(&self, payload: &Value, path: &str, problems: &mut Problems) {
        if let Some(schema) = &self.schema {
            schema.check(payload, path, problems);
        }
        if let Some((name, lost)) = self.lost_digits(payload) {
            problems.push(
                path,
                format!(
                    "has a number at `{lost}` ({name}) with more digits than are kept, so it could name \
                     another one: send it as a string"
                ),
            );
        }
    }

    /// Finds an id or a field of a recipient that is a number without all of its digits.
    fn lost_digits(&self, payload: &Value) -> Option<(&str, &Path)> {
        let is_lost = |found: Option<&Value>| {
            found.and_then(Value::as_number).is_some_and(|number| !number::has_all_digits(number))
        };
        let id = self.entity_id.iter().map(|path| ("entityIdPath", path));
        let related = self.related.iter().map(|related| (related.name.as_str(), &related.id));
        let mut ids = id.chain(related);
        let found = ids.find(|(_, path)| is_lost(look(path, payload, payload, payload)));
        found.or_else(|| self.recipients.find_path(payload, is_lost))
    }

    /// Returns the entity of an event: the one that it names itself, else the one in its payload; an id that
    /// is too long is none.
    #[must_use]
    pub fn entity_of(&self, own: Option<&Entity>, payload: &Value) -> Option<Entity> {
        if let Some(own) = own {
            return Some(own.clone());
        }
        let id = self.entity_id.as_ref()?.find(payload).and_then(text_of)?;
        let id = Some(id).filter(|id| id.chars().count() <= limits::NAME_CHARS_MAX)?;
        Some(Entity { kind: self.entity_type.clone()?, id })
    }

    /// Returns the recipients, in the order of the payload; each has an address, or another field that was
    /// found.
    pub fn recipients<'a>(
        &'a self,
        payload: &'a Value,
        snapshot: &'a EntitySnapshot,
    ) -> impl Iterator<Item = Recipient<'a>> {
        self.recipients.find(payload, entity_or_payload(payload, snapshot))
    }

    /// Returns what an event says of its recipient, also if it names no address; `None` if the kind looks for
    /// recipients in a list.
    #[must_use]
    pub fn described_recipient<'a>(
        &'a self,
        payload: &'a Value,
        snapshot: &'a EntitySnapshot,
    ) -> Option<Recipient<'a>> {
        self.recipients.describe(payload, entity_or_payload(payload, snapshot))
    }

    /// Whether a message about this would be pointless, and why.
    #[must_use]
    pub fn is_pointless(&self, snapshot: &EntitySnapshot, payload: &Value) -> Option<CancelReason> {
        match snapshot {
            EntitySnapshot::Deleted => return Some(CancelReason::EntityDeleted),
            EntitySnapshot::Unknown if self.require_entity => return Some(CancelReason::EntityUnknown),
            _ => {}
        }
        let condition = self.cancel_when.as_ref()?;
        let state = entity_or_payload(payload, snapshot);
        let mut facts = Facts::default();
        for path in condition.paths() {
            if let Some(value) = at(path, payload, state) {
                facts.see(path, value);
            }
        }
        condition.holds(&facts).then(|| CancelReason::CancelWhen(condition.explain(&facts).to_string()))
    }

    /// The related entities of an event, each with the name that templates use.
    #[must_use]
    pub fn related_ids(&self, payload: &Value, snapshot: &EntitySnapshot) -> Vec<(&str, Entity)> {
        let state = entity_or_payload(payload, snapshot);
        let found = self.related.iter().filter_map(|related| {
            let id = look(&related.id, payload, payload, state).and_then(text_of)?;
            Some((related.name.as_str(), Entity { kind: related.kind.clone(), id }))
        });
        found.collect()
    }

    /// Returns the zone that dates are shown in: the `timeZone` of the entity, of the payload, or of a
    /// related entity; `None` leaves it to the tenant.
    #[must_use]
    pub fn zone(
        &self,
        payload: &Value,
        snapshot: &EntitySnapshot,
        related: &[(&str, Value)],
    ) -> Option<Zone> {
        let all = snapshot.state().into_iter().chain([payload]).chain(related.iter().map(|(_, state)| state));
        let mut named = all.filter_map(|state| state.get("timeZone")?.as_str());
        named.find_map(|name| Zone::find(name).ok())
    }
}

/// The entity's state, or the payload in its place.
pub(crate) fn entity_or_payload<'a>(payload: &'a Value, snapshot: &'a EntitySnapshot) -> &'a Value {
    snapshot.state().unwrap_or(payload)
}

/// Looks up a path that begins with `payload.` or `entity.`.
fn at<'v>(path: &str, payload: &'v Value, state: &'v Value) -> Option<&'v Value> {
    let (root, rest) = path.split_once('.')?;
    let document = if root == "entity" { state } else { payload };
    rest.split('.').try_fold(document, |here, name| here.get(name))
}

/// Looks up a path: from `here`, else behind a root that it names.
fn look<'v>(path: &Path, here: &'v Value, payload: &'v Value, state: &'v Value) -> Option<&'v Value> {
    let elsewhere = || path.find_under("entity", state).or_else(|| path.find_under("payload", payload));
    path.find(here).or_else(elsewhere)
}

#[cfg(test)]
mod tests;
