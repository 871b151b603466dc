//! Schemas: the form of a payload, in a part of JSON Schema.
//!
//! | keyword | of |
//! |---|---|
//! | `type` (one, or a list), `enum`, `const` | anything |
//! | `properties`, `required`, `additionalProperties` | objects |
//! | `items`, `minItems`, `maxItems` | lists |
//! | `minLength`, `maxLength`, `pattern`, `format` (`date`, `date-time`, `email`) | strings |
//! | `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum` | numbers |
//! | `allOf`, `anyOf` | anything |
//!
//! Titles, descriptions and other words for people are let through. Any other keyword is refused when the
//! schema is read: an ignored one would let through values that its author meant to stop. A value that does
//! not fit is reported with its path, up to [`limits::SCHEMA_PROBLEMS_MAX`] problems.
//!
//! Deliberately absent: references, and schemas that are computed from several others.

mod read;

use crate::base::document::{join, kind, quote};
use crate::base::error::Problems;
use crate::base::limits;
use regex_lite::Regex;
use serde_json::{Number, Value};

/// A schema that was read and found right.
///
/// ```
/// use punctual::Problems;
/// use punctual::base::schema::Schema;
/// let schema = serde_json::json!({"type": "object", "required": ["bookingId"]});
/// let schema = Schema::read(&schema, "schema", &mut Problems::default()).unwrap();
/// let mut problems = Problems::default();
/// schema.check(&serde_json::json!({}), "payload", &mut problems);
/// assert_eq!(problems.to_string(), "payload.bookingId: is missing");
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    root: Node,
}

/// The requirements on one value. A requirement that is not given does not matter.
#[derive(Clone, Debug, Default)]
struct Node {
    types: Vec<Type>,
    one_of: Option<Vec<Value>>,
    properties: Vec<(String, Node)>,
    required: Vec<String>,
    others: AdditionalProperties,
    items: Option<Box<Node>>,
    counts: Range,
    lengths: Range,
    pattern: Option<Regex>,
    format: Option<Format>,
    bounds: Vec<(Bound, Number)>,
    all: Vec<Node>,
    any: Vec<Node>,
}

/// Properties that are not named.
#[derive(Clone, Debug, Default)]
enum AdditionalProperties {
    #[default]
    Anything,
    Nothing,
    Like(Box<Node>),
}

/// How many items or characters, both ends included.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    least: Option<u64>,
    most: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Object,
    List,
    Text,
    Number,
    Whole,
    Flag,
    Null,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Date,
    DateTime,
    Email,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl Schema {
    /// Reads a schema that stands at `path` in its document. `None` when there are problems.
    pub fn read(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        read::schema(value, path, problems).map(|root| Self { root })
    }

    /// Reports where a value that stands at `path` does not fit.
    pub fn check(&self, value: &Value, path: &str, problems: &mut Problems) {
        let mut found = Problems::default();
        self.root.check(value, path, &mut found);
        found.0.truncate(limits::SCHEMA_PROBLEMS_MAX);
        problems.0.append(&mut found.0);
    }

    /// The paths that it names, with dots.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.root.names("", &mut names);
        names
    }

    /// Returns whether the top level refuses properties that it does not name.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.root.others, AdditionalProperties::Nothing)
    }
}

impl Node {
    fn check(&self, value: &Value, path: &str, problems: &mut Problems) {
        if problems.0.len() >= limits::SCHEMA_PROBLEMS_MAX {
            return;
        }
        if !self.types.is_empty() && !self.types.iter().any(|t| t.fits(value)) {
            let wanted: Vec<&str> = self.types.iter().map(|t| t.said()).collect();
            problems.push(path, format!("must be {}, not {}", wanted.join(" or "), kind(value)));
            return;
        }
        if self.one_of.as_ref().is_some_and(|all| !all.iter().any(|one| same(one, value))) {
            problems.push(path, self.not_listed());
        }
        match value {
            Value::Object(_) => self.check_object(value, path, problems),
            Value::Array(items) => self.check_list(items, path, problems),
            Value::String(text) => self.check_text(text, path, problems),
            Value::Number(number) => self.check_number(number, path, problems),
            Value::Bool(_) | Value::Null => {}
        }
        for part in &self.all {
            part.check(value, path, problems);
        }
        if !self.any.is_empty() && !self.any.iter().any(|part| part.fits(value)) {
            problems.push(path, "fits none of the forms that the schema allows (anyOf)");
        }
    }

    fn fits(&self, value: &Value) -> bool {
        let mut problems = Problems::default();
        self.check(value, "", &mut problems);
        problems.0.is_empty()
    }

    fn not_listed(&self) -> String {
        let all: Vec<String> =
            self.one_of.iter().flatten().take(5).map(|one| quote(&one.to_string())).collect();
        let more = if self.one_of.as_ref().is_some_and(|all| all.len() > 5) { ", …" } else { "" };
        format!("must be one of {}{more}", all.join(", "))
    }

    fn check_object(&self, value: &Value, path: &str, problems: &mut Problems) {
        let Some(fields) = value.as_object() else { return };
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            problems.push(join(path, name), "is missing");
        }
        for (name, node) in &self.properties {
            if let Some(inside) = fields.get(name) {
                node.check(inside, &join(path, name), problems);
            }
        }
        if matches!(self.others, AdditionalProperties::Anything) {
            return;
        }
        for (name, inside) in fields.iter().filter(|(name, _)| !self.properties.iter().any(|p| p.0 == **name))
        {
            let place = join(path, &quote(name));
            match &self.others {
                AdditionalProperties::Like(node) => node.check(inside, &place, problems),
                _ => problems.push(place, "is not a field that the schema allows"),
            }
            if problems.0.len() >= limits::SCHEMA_PROBLEMS_MAX {
                return;
            }
        }
    }

    fn check_list(&self, items: &[Value], path: &str, problems: &mut Problems) {
        self.counts.check(items.len(), "items", path, problems);
        let Some(node) = &self.items else { return };
        for (n, item) in items.iter().enumerate() {
            node.check(item, &format!("{path}[{n}]"), problems);
            if problems.0.len() >= limits::SCHEMA_PROBLEMS_MAX {
                return;
            }
        }
    }

    fn check_text(&self, text: &str, path: &str, problems: &mut Problems) {
        let chars = text.chars().count();
        self.lengths.check(chars, "characters", path, problems);
        if let Some(format) = self.format.filter(|format| !format.fits(text)) {
            problems.push(path, format!("must be {}", format.said()));
        }
        let Some(pattern) = &self.pattern else { return };
        if chars > limits::SCHEMA_PATTERN_CHARS_MAX {
            problems.push(path, format!("has {chars} characters: too long for its pattern"));
        } else if !pattern.is_match(text) {
            problems.push(path, format!("does not match the pattern {}", quote(pattern.as_str())));
        }
    }

    fn check_number(&self, number: &Number, path: &str, problems: &mut Problems) {
        for (bound, limit) in &self.bounds {
            let (a, b) = (number.as_f64().unwrap_or_default(), limit.as_f64().unwrap_or_default());
            let (fits, said) = match bound {
                Bound::AtLeast => (a >= b, "at least"),
                Bound::AtMost => (a <= b, "at most"),
                Bound::Above => (a > b, "more than"),
                Bound::Below => (a < b, "less than"),
            };
            if !fits {
                problems.push(path, format!("must be {said} {limit}"));
            }
        }
    }

    fn names(&self, path: &str, into: &mut Vec<String>) {
        for (name, node) in &self.properties {
            let here = join(path, name);
            node.names(&here, into);
            into.push(here);
        }
        for node in self.all.iter().chain(&self.any) {
            node.names(path, into);
        }
    }
}

impl Range {
    fn check(self, count: usize, what: &str, path: &str, problems: &mut Problems) {
        let count = count as u64;
        if let Some(least) = self.least.filter(|least| count < *least) {
            problems.push(path, format!("has {count} {what}, at least {least} are needed"));
        }
        if let Some(most) = self.most.filter(|most| count > *most) {
            problems.push(path, format!("has {count} {what}, at most {most} are allowed"));
        }
    }
}

impl Type {
    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Object, Value::Object(_))
            | (Self::List, Value::Array(_))
            | (Self::Text, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Flag, Value::Bool(_))
            | (Self::Null, Value::Null) => true,
            (Self::Whole, Value::Number(n)) => !n.is_f64() || n.as_f64().is_some_and(|n| n.fract() == 0.0),
            _ => false,
        }
    }

    const fn said(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::List => "a list",
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Whole => "a whole number",
            Self::Flag => "true or false",
            Self::Null => "null",
        }
    }
}

impl Format {
    fn fits(self, text: &str) -> bool {
        match self {
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => crate::base::clock::Timestamp::parse(text).is_ok(),
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty()
                    && !host.is_empty()
                    && !host.contains('@')
                    && !text.contains(char::is_whitespace)
            }),
        }
    }

    const fn said(self) -> &'static str {
        match self {
            Self::Date => "a date such as 2026-05-14",
            Self::DateTime => "a time such as 2026-05-14T05:13:00Z",
            Self::Email => "an email address",
        }
    }
}

/// Equality as JSON Schema has it: `1.0` is `1`.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;
