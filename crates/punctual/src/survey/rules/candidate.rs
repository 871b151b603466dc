//! A candidate: one event that may begin an entry, as it was received, and its facts.
//!
//! The facts are flat (TRG-6): `templateId`, `recipient.*`, `candidate.*` (the payload, nested objects
//! with dots) and `entity.*`. Every trigger of the event's kind looks at the same facts; only
//! `templateId` is the trigger's own.
//!
//! An item of an ingest call names one address. An event that came by a topic names people, who may have
//! several addresses: [`recipients`] makes a recipient of each.

pub mod recipients;

use crate::base::clock::Timestamp;
use crate::base::document::{DocumentObject, kind};
use crate::base::error::Problems;
use crate::base::facts::Facts;
use crate::base::id::FlowId;
use crate::base::limits;
use crate::base::locale;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{CancelReason, EventKind};
use crate::queue::rules::message::Entity;
use crate::survey::rules::survey::{Survey, Trigger};
use serde_json::{Value, json};
use std::borrow::Cow;

const FIELDS: [&str; 4] = ["payload", "recipient", "occurredAt", "entity"];
const RECIPIENT_FIELDS: [&str; 3] = ["address", "locale", "customerRef"];

/// The path of the template's id.
pub const TEMPLATE_ID: &str = "templateId";

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// The payload: an object, if it was given.
    payload: Option<&'a Value>,
    /// The same as JSON text.
    pub payload_text: String,
    /// The recipient, as it was given.
    recipient: &'a Value,
    /// The entity, as it was given.
    entity: Option<Cow<'a, Value>>,
    /// The address; empty if an event of a topic names none.
    pub address: &'a str,
    /// The locale the recipient reads.
    pub locale: Option<&'a str>,
    /// The recipient's name in another system.
    pub customer_ref: Option<&'a str>,
    /// When the event happened, if that was given.
    pub occurred_at: Option<Timestamp>,
}

impl<'a> Candidate<'a> {
    /// Reads one event.
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn read(item: &'a Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        match read(item, &mut problems) {
            Some(candidate) if problems.0.is_empty() => Ok(candidate),
            _ => Err(problems),
        }
    }

    /// An event that came by a topic, for one of the people it names; `payload_text` is its payload.
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn of_event(
        payload: &'a Value,
        payload_text: &str,
        recipient: &'a Value,
        entity: Option<&'a Value>,
        occurred_at: Timestamp,
    ) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let read = read_event(payload, recipient, &mut problems);
        let Some((address, locale, customer_ref)) = read.filter(|_| problems.0.is_empty()) else {
            return Err(problems);
        };
        let (payload, payload_text) = (Some(payload), payload_text.to_owned());
        let (entity, occurred_at) = (entity.map(Cow::Borrowed), Some(occurred_at));
        Ok(Self { payload, payload_text, recipient, entity, address, locale, customer_ref, occurred_at })
    }

    /// The facts that filters and recipes look at, without the template's id.
    ///
    /// # Errors
    /// A sentence, when the payload has too many values.
    pub fn facts(&self) -> Result<Facts<'_>, String> {
        let mut facts = Facts::default();
        facts.flatten("recipient", self.recipient)?;
        if let Some(payload) = self.payload {
            facts.flatten("candidate", payload).map_err(|said| format!("payload {said}"))?;
        }
        if let Some(entity) = self.entity.as_deref() {
            facts.flatten("entity", entity)?;
        }
        Ok(facts)
    }

    /// Takes the entity that the payload names, as the event's kind says, unless the event names one itself.
    pub fn complete_entity(&mut self, kind: &EventKind) {
        let Some(payload) = self.payload.filter(|_| self.entity().is_none()) else { return };
        if let Some(Entity { kind, id }) = kind.entity_of(None, payload) {
            self.entity = Some(Cow::Owned(json!({"type": kind, "id": id})));
        }
    }

    /// Why messages about this event are pointless, by the state of its entity, if they are.
    #[must_use]
    pub fn find_cancel_reason(&self, kind: &EventKind, snapshot: &EntitySnapshot) -> Option<CancelReason> {
        kind.is_pointless(snapshot, self.payload.unwrap_or(&Value::Null))
    }

    /// Returns the entity, if it has a type and an id that are valid names.
    #[must_use]
    pub fn entity(&self) -> Option<Entity> {
        let field = |name: &str| {
            let text = match self.entity.as_deref()?.get(name)? {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            let mut problems = Problems::default();
            check_text(&text, name, &mut problems);
            problems.0.is_empty().then_some(text)
        };
        Some(Entity { kind: field("type")?, id: field("id")? })
    }

    /// Returns the subscriptions that get the messages of the entry before an answer.
    #[must_use]
    pub fn listeners(&self, survey: &Survey, trigger: &Trigger) -> Option<Vec<String>> {
        let none = Value::Object(serde_json::Map::new());
        let recipient = InvitedRecipient {
            address: self.address,
            locale: self.locale,
            customer_ref: self.customer_ref,
            payload: self.payload.unwrap_or(&none),
        };
        listeners(survey, Some(trigger), &recipient, &none)
    }
}

/// The invited recipient, and the payload of the event.
#[derive(Clone, Copy, Debug)]
pub struct InvitedRecipient<'a> {
    /// The address.
    pub address: &'a str,
    /// The locale the recipient reads.
    pub locale: Option<&'a str>,
    /// The recipient's name in another system.
    pub customer_ref: Option<&'a str>,
    /// The payload of the event.
    pub payload: &'a Value,
}

/// The subscriptions that a survey lists for an entry with these answers; `None` is every one of the topic.
/// An answer that is not there yet is absent, so a filter that wants one does not hold.
#[must_use]
pub fn listeners(
    survey: &Survey,
    trigger: Option<&Trigger>,
    of: &InvitedRecipient<'_>,
    answers: &Value,
) -> Option<Vec<String>> {
    survey.subscribers_of(trigger)?;
    let recipient = json!({"address": of.address, "locale": of.locale, "customerRef": of.customer_ref});
    // Facts beyond the limit are absent, for a filter as everywhere.
    let facts = answer_facts(answers, of.payload, &recipient).unwrap_or_default();
    filter_subscribers(survey, trigger, &facts)
}

/// Adds what a trigger of this flow sees besides.
pub fn of_flow(facts: &mut Facts<'_>, flow: FlowId) {
    facts.insert(TEMPLATE_ID, flow.0.into());
}

/// Returns the facts that a subscriber's filter uses for an answer.
///
/// # Errors
/// A sentence, when there are too many values.
fn answer_facts<'a>(
    answers: &'a Value,
    payload: &'a Value,
    recipient: &'a Value,
) -> Result<Facts<'a>, String> {
    let mut facts = Facts::default();
    facts.flatten("answers", answers)?;
    facts.flatten("recipient", recipient)?;
    facts.flatten("candidate", payload)?;
    Ok(facts)
}

/// Those of a survey's subscribers whose filters hold.
fn filter_subscribers(survey: &Survey, trigger: Option<&Trigger>, facts: &Facts<'_>) -> Option<Vec<String>> {
    let subscribers = survey.subscribers_of(trigger)?;
    let wanted =
        |filter: &Option<crate::base::condition::Condition>| filter.as_ref().is_none_or(|f| f.holds(facts));
    Some(subscribers.iter().filter(|s| wanted(&s.filter)).map(|s| s.key.clone()).collect())
}

fn read<'a>(item: &'a Value, problems: &mut Problems) -> Option<Candidate<'a>> {
    let part = DocumentObject::read(item, "", &FIELDS, problems)?;
    let payload = part.get("payload");
    if !payload.is_none_or(|payload| check_payload(payload, problems)) {
        return None;
    }
    let payload_text = payload.map_or_else(|| "{}".to_owned(), json_text);
    if payload_text.len() > limits::PAYLOAD_BYTES_MAX {
        problems.push("payload", "is larger than 1 MiB");
    }
    let occurred_at = part.get("occurredAt").and_then(|value| read_time(value, problems));
    let entity = part.get("entity").map(Cow::Borrowed);
    if let Some(other) = entity.as_deref().filter(|entity| !entity.is_object()) {
        problems.push("entity", format!("must be an object with type and id, not {}", kind(other)));
    }
    let recipient = part.need("recipient", "who is to be reached: {\"address\": …}", problems)?;
    let who = DocumentObject::read(recipient, "recipient", &RECIPIENT_FIELDS, problems)?;
    let address = who.need_text("address", "a phone number or a mailbox", problems)?;
    check_text(address, "recipient.address", problems);
    let (locale, customer_ref) = read_rest(&who, problems);
    Some(Candidate { payload, payload_text, recipient, entity, address, locale, customer_ref, occurred_at })
}

/// Whether a payload is an object, as it must be.
fn check_payload(payload: &Value, problems: &mut Problems) -> bool {
    if !payload.is_object() {
        problems.push("payload", format!("must be an object, not {}", kind(payload)));
    }
    payload.is_object()
}

/// Reads the address, locale and reference of a recipient that an event names.
fn read_event<'a>(
    payload: &Value,
    recipient: &'a Value,
    problems: &mut Problems,
) -> Option<(&'a str, Option<&'a str>, Option<&'a str>)> {
    check_payload(payload, problems);
    let who = DocumentObject::read(recipient, "recipient", &RECIPIENT_FIELDS, problems)?;
    let address = optional_text(&who, "address", problems);
    address.inspect(|text| check_text(text, "recipient.address", problems));
    let (locale, customer_ref) = read_rest(&who, problems);
    Some((address.unwrap_or_default(), locale, customer_ref))
}

/// The locale and the reference of a recipient.
fn read_rest<'a>(who: &DocumentObject<'a>, problems: &mut Problems) -> (Option<&'a str>, Option<&'a str>) {
    let locale = optional_text(who, "locale", problems);
    if let Some(Err(said)) = locale.map(locale::check) {
        problems.push("recipient.locale", said);
    }
    let customer_ref = optional_text(who, "customerRef", problems);
    customer_ref.inspect(|text| check_text(text, "recipient.customerRef", problems));
    (locale, customer_ref)
}

/// The same as `to_string`, without the detour over a formatter.
fn json_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn optional_text<'a>(part: &DocumentObject<'a>, field: &str, problems: &mut Problems) -> Option<&'a str> {
    let value = part.get(field)?;
    // The path is only written when there is a problem to report.
    value.as_str().or_else(|| crate::base::document::text(value, &part.at(field), problems))
}

fn check_text(text: &str, path: &str, problems: &mut Problems) {
    if text.trim().is_empty() {
        problems.push(path, "is empty");
    } else if text.chars().count() > limits::NAME_CHARS_MAX {
        problems.push(path, format!("is longer than {} characters", limits::NAME_CHARS_MAX));
    } else if text.chars().any(char::is_control) {
        problems.push(path, "has control characters in it");
    }
}

fn read_time(value: &Value, problems: &mut Problems) -> Option<Timestamp> {
    let said = "must be a time such as 2026-05-14T05:13:00Z";
    let Some(text) = value.as_str() else {
        problems.push("occurredAt", format!("{said}, not {}", kind(value)));
        return None;
    };
    let parsed = Timestamp::parse(text).ok();
    if parsed.is_none() {
        problems.push("occurredAt", said);
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(item: &Value) -> Vec<String> {
        let problems = Candidate::read(item).err().unwrap_or_default();
        problems.0.into_iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
    }

    #[test]
    fn a_candidate_needs_an_address_and_nothing_else() {
        let item = json!({"recipient": {"address": "+964 770 000 0001"}});
        let candidate = Candidate::read(&item).unwrap();
        assert_eq!((candidate.address, candidate.payload_text.as_str()), ("+964 770 000 0001", "{}"));
        assert_eq!((candidate.locale, candidate.customer_ref, candidate.occurred_at), (None, None, None));
    }

    #[test]
    fn everything_wrong_with_an_item_is_told_by_its_path() {
        let table = [
            (json!([]), ": must be an object"),
            (json!({}), "recipient: "),
            (json!({"recipient": {}}), "recipient.address: "),
            (json!({"recipient": {"address": " "}}), "recipient.address: is empty"),
            (json!({"recipient": {"address": "a\u{7}"}}), "recipient.address: has control characters"),
            (json!({"recipient": {"address": 5}}), "recipient.address: "),
            (json!({"recipient": {"address": "a", "locale": "no way"}}), "recipient.locale: "),
            (json!({"recipient": {"address": "a"}, "payload": []}), "payload: must be an object"),
            (json!({"recipient": {"address": "a"}, "occurredAt": "soon"}), "occurredAt: must be a time"),
            (json!({"recipient": {"address": "a"}, "entity": "x"}), "entity: must be an object"),
            (json!({"recipient": {"address": "a"}, "paylod": {}}), "paylod: "),
        ];
        for (item, want) in table {
            let said = problems(&item);
            assert!(said.len() == 1 && said[0].starts_with(want), "{item}: {said:?}");
        }
    }

    /// TRG-6: the facts of a filter.
    #[test]
    fn trg_6_the_facts_of_a_candidate() {
        let item = json!({"payload": {"vehicle": {"vin": "X"}}, "recipient": {"address": "a", "locale": "ar"},
            "entity": {"type": "visit", "id": 7}});
        let candidate = Candidate::read(&item).unwrap();
        assert_eq!(candidate.entity(), Some(Entity { kind: "visit".into(), id: "7".into() }));
        let mut facts = candidate.facts().unwrap();
        of_flow(&mut facts, FlowId(4523));
        let want = [
            ("templateId", json!(4523)),
            ("candidate.vehicle.vin", json!("X")),
            ("recipient.locale", json!("ar")),
            ("entity.id", json!(7)),
        ];
        for (path, value) in want {
            assert_eq!(facts.get(path), Some(&value), "{path}");
        }
    }
}
