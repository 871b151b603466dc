//! Definitions as people write them: JSON whose every problem is reported with its path.
//!
//! A document is read to its end, so that all problems are reported at once, each with a path such as
//! `questions[2].options[0].text.en` and a sentence with the correction. `null` is the same as absent. Lists
//! are read up to their limit, and values are quoted in part.
//!
//! Not done here: bounding the document as a whole. The caller limits its bytes, and the JSON parser its
//! depth.

use crate::base::duration;
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::suggestion::hint;
use serde_json::{Map, Value};
use std::time::Duration;

/// Unknown fields of one object that are reported one by one.
const UNKNOWN_TOLD_MAX: usize = 20;
/// Values are quoted up to here, in characters.
const QUOTE_CHARS_MAX: usize = 40;

/// One object of a document, with its path.
pub struct DocumentObject<'a> {
    fields: &'a Map<String, Value>,
    path: String,
}

impl<'a> DocumentObject<'a> {
    /// Reads the object at `path`; fields that are not `known` are reported, with the nearest known one.
    pub fn read(value: &'a Value, path: &str, known: &[&str], problems: &mut Problems) -> Option<Self> {
        let Some(fields) = value.as_object() else {
            problems.push(path, format!("must be an object with {}, not {}", known.join(", "), kind(value)));
            return None;
        };
        let part = Self { fields, path: path.to_owned() };
        let mut unknown = fields.keys().filter(|name| !known.contains(&name.as_str()));
        for name in unknown.by_ref().take(UNKNOWN_TOLD_MAX) {
            let said = format!("`{}` is not a field{}", quote(name), hint(name, known));
            problems.push(part.at(&quote(name)), said);
        }
        let more = unknown.count();
        if more > 0 {
            problems.push(path, format!("has {more} more unknown fields; known are {}", known.join(", ")));
        }
        Some(part)
    }

    /// Where a field of it stands.
    #[must_use]
    pub fn at(&self, field: &str) -> String {
        join(&self.path, field)
    }

    /// A field that is there and not null.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub fn need(&self, field: &str, why: &str, problems: &mut Problems) -> Option<&'a Value> {
        let found = self.get(field);
        if found.is_none() {
            problems.push(self.at(field), format!("is missing: {why}"));
        }
        found
    }

    /// A text that must be there.
    pub fn need_text(&self, field: &str, why: &str, problems: &mut Problems) -> Option<&'a str> {
        let value = self.need(field, why, problems)?;
        // The path is only written when there is a problem to report.
        value.as_str().or_else(|| text(value, &self.at(field), problems))
    }

    /// A list that must be there, if only an empty one.
    pub fn need_list(
        &self,
        field: &str,
        most: usize,
        why: &str,
        problems: &mut Problems,
    ) -> DocumentList<'a> {
        let value = self.need(field, why, problems);
        value.map_or_else(DocumentList::default, |value| list(value, &self.at(field), most, problems))
    }

    /// Returns whether a field is a list without items.
    #[must_use]
    pub fn is_empty_list(&self, field: &str) -> bool {
        self.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty)
    }

    /// A list that may be left out, which is not the same as an empty one.
    pub fn list(&self, field: &str, most: usize, problems: &mut Problems) -> Option<DocumentList<'a>> {
        self.get(field).map(|value| list(value, &self.at(field), most, problems))
    }

    /// A yes or no that may be left out.
    pub fn flag(&self, field: &str, default: bool, problems: &mut Problems) -> bool {
        let Some(value) = self.get(field) else { return default };
        value.as_bool().unwrap_or_else(|| {
            problems.push(self.at(field), format!("must be true or false, not {}", kind(value)));
            default
        })
    }

    /// A duration that may be left out, at most [`limits::TIMER_DELAY_MAX`].
    pub fn duration(&self, field: &str, problems: &mut Problems) -> Option<Duration> {
        self.get(field).and_then(|value| length(value, &self.at(field), problems))
    }
}

/// The items of a list, each with its path, up to the list's limit.
#[derive(Default)]
pub struct DocumentList<'a>(Vec<(&'a Value, String)>);

impl<'a> DocumentList<'a> {
    /// Each with its path.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Value, &str)> {
        self.0.iter().map(|(value, path)| (*value, path.as_str()))
    }
}

/// Where a field of what stands at `path` is.
#[must_use]
pub fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Returns a text in quotes, shortened.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTE_CHARS_MAX).map(plain).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// Returns the type of a value, in words.
#[must_use]
pub const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A text.
pub fn text<'a>(value: &'a Value, path: &str, problems: &mut Problems) -> Option<&'a str> {
    let found = value.as_str();
    if found.is_none() {
        problems.push(path, format!("must be a string, not {}", kind(value)));
    }
    found
}

/// A length of time.
pub fn length(value: &Value, path: &str, problems: &mut Problems) -> Option<Duration> {
    let Some(text) = value.as_str() else {
        problems.push(path, format!("must be a duration such as \"5d\", not {}", kind(value)));
        return None;
    };
    match duration::parse(text) {
        Ok(length) if length <= limits::TIMER_DELAY_MAX => return Some(length),
        Ok(_) => problems.push(path, format!("`{}` is longer than a hundred years", quote(text))),
        Err(said) => problems.push(path, said),
    }
    None
}

fn list<'a>(value: &'a Value, path: &str, most: usize, problems: &mut Problems) -> DocumentList<'a> {
    let Some(items) = value.as_array() else {
        problems.push(path, format!("must be a list, not {}", kind(value)));
        return DocumentList::default();
    };
    if items.len() > most {
        problems.push(path, format!("has {} items, at most {most} are allowed", items.len()));
    }
    let items = items.iter().take(most).enumerate();
    DocumentList(items.map(|(n, item)| (item, format!("{path}[{n}]"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> String {
        let mut problems = Problems::default();
        if let Some(part) =
            DocumentObject::read(value, "job", &["name", "every", "on", "days"], &mut problems)
        {
            part.need_text("name", "what it is called", &mut problems);
            part.duration("every", &mut problems);
            part.flag("on", true, &mut problems);
            part.list("days", 2, &mut problems);
        }
        problems.to_string()
    }

    /// TRG-3: all problems are reported at once, with their paths.
    #[test]
    fn trg_3_all_problems_of_a_part_are_told() {
        assert_eq!(read(&json!({"name": "x", "every": "1d", "on": null, "days": []})), "");
        assert_eq!(read(&json!(7)), "job: must be an object with name, every, on, days, not a number");
        let said = read(&json!({"nam": 1, "every": 5, "on": "yes", "days": [1, 2, 3]}));
        for want in [
            "job.nam: `nam` is not a field; did you mean `name`?",
            "job.name: is missing: what it is called",
            "job.every: must be a duration such as \"5d\", not a number",
            "job.on: must be true or false, not a string",
            "job.days: has 3 items, at most 2 are allowed",
        ] {
            assert!(said.contains(want), "{said}");
        }
        let said = read(&json!({"name": "x", "every": "101y", "days": {}}));
        assert!(said.contains("`101y` is not a duration") && said.contains("must be a list, not an object"));
        assert!(read(&json!({"name": "x", "every": "6000w"})).contains("longer than a hundred years"));
    }

    /// TRG-3: an answer to a silly document stays short.
    #[test]
    fn trg_3_a_flood_of_unknown_fields_is_counted() {
        let flood: Map<String, Value> =
            (0..5_000).map(|n| (format!("{n}{}", "é".repeat(500)), json!(1))).collect();
        let said = read(&Value::Object(flood));
        assert!(said.contains("job: has 4980 more unknown fields"), "{said}");
        assert!(said.len() < 10_000, "{}", said.len());
    }
}
