//! A candidate: one event that may begin something, as it is handed in, and the facts it gives.
//!
//! The facts are flat (TRG-6): `templateId`, `recipient.*`, `candidate.*` (the payload, nested objects
//! with dots) and `entity.*`. Every trigger of the event's kind looks at the same facts; only
//! `templateId` is the trigger's own.

use super::document::{Part, kind};
use super::facts::Facts;
use super::locale;
use super::survey::{Survey, Trigger};
use crate::base::clock::Timestamp;
use crate::base::error::Problems;
use crate::base::id::FlowId;
use crate::base::limits;
use serde_json::{Map, Value};

const FIELDS: [&str; 4] = ["payload", "recipient", "occurredAt", "entity"];
const RECIPIENT_FIELDS: [&str; 3] = ["address", "locale", "customerRef"];

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What happened: an object.
    pub payload: Value,
    /// Who is to be reached, as it was given.
    recipient: Value,
    /// What it happened to, as it was given; null if nobody said.
    entity: Value,
    /// The address.
    pub address: String,
    /// The locale the recipient reads.
    pub locale: Option<String>,
    /// The recipient's name in another system.
    pub customer_ref: Option<String>,
    /// When it happened, if somebody said so.
    pub occurred_at: Option<Timestamp>,
}

impl Candidate {
    /// Reads one event.
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn read(item: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        match read(item, &mut problems) {
            Some(candidate) if problems.0.is_empty() => Ok(candidate),
            _ => Err(problems),
        }
    }

    /// The facts that filters and recipes look at, without the template's id.
    ///
    /// # Errors
    /// A sentence, when the payload has too many values.
    pub fn facts(&self) -> Result<Facts<'_>, String> {
        let mut facts = Facts::default();
        facts.flatten("recipient", &self.recipient)?;
        facts.flatten("candidate", &self.payload).map_err(|said| format!("payload {said}"))?;
        if !self.entity.is_null() {
            facts.flatten("entity", &self.entity)?;
        }
        Ok(facts)
    }
}

/// Adds what a trigger of this flow sees besides.
pub fn of_flow(facts: &mut Facts<'_>, flow: FlowId) {
    facts.insert("templateId", flow.0.into());
}

/// The facts that a subscriber's filter looks at when somebody has answered.
///
/// # Errors
/// A sentence, when there are too many values.
pub fn answer_facts<'a>(
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

/// The subscriptions that are told of an answer; `None` is every one of the topic.
#[must_use]
pub fn told(survey: &Survey, trigger: Option<&Trigger>, facts: &Facts<'_>) -> Option<Vec<String>> {
    let subscribers = survey.subscribers_of(trigger)?;
    let wanted =
        |filter: &Option<super::condition::Condition>| filter.as_ref().is_none_or(|f| f.holds(facts));
    Some(subscribers.iter().filter(|s| wanted(&s.filter)).map(|s| s.key.clone()).collect())
}

fn read(item: &Value, problems: &mut Problems) -> Option<Candidate> {
    let part = Part::read(item, "", &FIELDS, problems)?;
    let payload = match part.get("payload") {
        None => Value::Object(Map::new()),
        Some(payload @ Value::Object(_)) => payload.clone(),
        Some(other) => {
            problems.push("payload", format!("must be an object, not {}", kind(other)));
            return None;
        }
    };
    if payload.to_string().len() > limits::PAYLOAD_BYTES_MAX {
        problems.push("payload", "is larger than 1 MiB");
    }
    let occurred_at = part.get("occurredAt").and_then(|value| read_time(value, problems));
    let entity = part.get("entity").cloned().unwrap_or(Value::Null);
    if !(entity.is_object() || entity.is_null()) {
        problems.push("entity", format!("must be an object with type and id, not {}", kind(&entity)));
    }
    let recipient = part.need("recipient", "who is to be reached: {\"address\": …}", problems)?;
    let who = Part::read(recipient, "recipient", &RECIPIENT_FIELDS, problems)?;
    let address = who.need_text("address", "a phone number or a mailbox", problems)?;
    check_text(address, "recipient.address", problems);
    let locale = optional_text(&who, "locale", problems);
    if let Some(Err(said)) = locale.map(locale::check) {
        problems.push("recipient.locale", said);
    }
    let customer_ref = optional_text(&who, "customerRef", problems);
    customer_ref.inspect(|text| check_text(text, "recipient.customerRef", problems));
    Some(Candidate {
        payload,
        recipient: recipient.clone(),
        entity,
        address: address.to_owned(),
        locale: locale.map(str::to_owned),
        customer_ref: customer_ref.map(str::to_owned),
        occurred_at,
    })
}

fn optional_text<'a>(part: &Part<'a>, field: &str, problems: &mut Problems) -> Option<&'a str> {
    super::document::text(part.get(field)?, &part.at(field), problems)
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
    use serde_json::json;

    fn problems(item: &Value) -> Vec<String> {
        let problems = Candidate::read(item).err().unwrap_or_default();
        problems.0.into_iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
    }

    #[test]
    fn a_candidate_needs_an_address_and_nothing_else() {
        let candidate = Candidate::read(&json!({"recipient": {"address": "+964 770 000 0001"}})).unwrap();
        assert_eq!((candidate.address.as_str(), &candidate.payload), ("+964 770 000 0001", &json!({})));
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

    /// TRG-6: what a filter can look at.
    #[test]
    fn trg_6_the_facts_of_a_candidate() {
        let item = json!({"payload": {"vehicle": {"vin": "X"}}, "recipient": {"address": "a", "locale": "ar"},
            "entity": {"type": "visit", "id": 7}});
        let candidate = Candidate::read(&item).unwrap();
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
