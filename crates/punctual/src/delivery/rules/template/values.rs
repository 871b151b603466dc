//! The values that a template can name: a flat map that is never built.
//!
//! A key is looked up when a placeholder names it: first among what was given by name, then, source by
//! source, in JSON where it lies. `guest.phone` leads into objects by their names; joined, `guestPhone` finds
//! the same; both ignore case. Of several names that fit, the one with the exact spelling wins, then the one
//! at the shallower place. Names without the exact spelling are looked for among
//! [`limits::TEMPLATE_NAMES_MAX`] names for each text, so that no payload makes it slow. Null is absent, and
//! so is an object itself. The names are those of [`Facts`](crate::base::facts::Facts), and as deep.

use crate::base::limits;
use crate::base::number;
use crate::base::zone::Zone;
use serde_json::Value;
use std::borrow::Cow;

/// The replacement for a placeholder without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingValuePolicy {
    /// Nothing stands in its place.
    #[default]
    Empty,
    /// The placeholder is left as it was written.
    AsWritten,
}

impl MissingValuePolicy {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Empty, Self::AsWritten];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::AsWritten => "asWritten",
        }
    }
}

/// The values that are available when a template is rendered.
#[derive(Clone, Debug, Default)]
pub struct TemplateValues<'a> {
    named: Vec<(&'a str, Cow<'a, str>)>,
    sources: Vec<(&'a str, &'a Value)>,
    zone: Option<&'a Zone>,
    locale: Option<&'a str>,
    missing: MissingValuePolicy,
}

/// A value that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResolvedValue<'v> {
    Text(&'v str),
    Json(&'v Value),
}

impl<'a> TemplateValues<'a> {
    /// Adds a value by its path, such as `recipient.address`. The value takes precedence over all sources.
    #[must_use]
    pub fn with_value(mut self, path: &'a str, value: impl Into<Cow<'a, str>>) -> Self {
        self.named.push((path, value.into()));
        self
    }

    /// Adds a value if there is one.
    #[must_use]
    pub fn with_optional(self, path: &'a str, value: Option<impl Into<Cow<'a, str>>>) -> Self {
        match value {
            Some(value) => self.with_value(path, value),
            None => self,
        }
    }

    /// Adds what `json` holds, its names behind `prefix` and a dot; without a prefix, the names alone.
    #[must_use]
    pub fn with_json(mut self, prefix: &'a str, json: &'a Value) -> Self {
        self.sources.push((prefix, json));
        self
    }

    /// The zone that moments are shown in; UTC unless it is said.
    #[must_use]
    pub const fn zone(mut self, zone: &'a Zone) -> Self {
        self.zone = Some(zone);
        self
    }

    /// The locale whose forms stand in for those of one that is not known; English unless it is said.
    #[must_use]
    pub const fn fallback_locale(mut self, tag: &'a str) -> Self {
        self.locale = Some(tag);
        self
    }

    /// The replacement for a placeholder without a value.
    #[must_use]
    pub const fn missing(mut self, missing: MissingValuePolicy) -> Self {
        self.missing = missing;
        self
    }

    pub(crate) const fn missing_as(&self) -> MissingValuePolicy {
        self.missing
    }

    pub(crate) const fn default_locale(&self) -> Option<&'a str> {
        self.locale
    }

    pub(crate) const fn shown_in(&self) -> Option<&'a Zone> {
        self.zone
    }

    /// The value of a key. `names` is how many names may still be looked at for keys that are not written
    /// just so.
    pub(crate) fn get(&self, key: &str, names: &mut usize) -> Option<ResolvedValue<'_>> {
        let named = self.named.iter().find(|(path, _)| same_name(key, path));
        let named = named.map(|(_, value)| ResolvedValue::Text(value));
        named.or_else(|| self.look(key, false, names).map(ResolvedValue::Json))
    }

    /// Whether a key leads to an object, which has no text of its own.
    pub(crate) fn holds_more(&self, key: &str, names: &mut usize) -> bool {
        self.look(key, true, names).is_some()
    }

    /// Looks up a key: an object, or another value that is present.
    fn look(&self, key: &str, object: bool, names: &mut usize) -> Option<&'a Value> {
        let asked = || self.sources.iter().filter_map(|(prefix, json)| Some((*json, behind(prefix, key)?)));
        let just_so = asked().find_map(|(json, key)| exact(json, key, object));
        just_so.or_else(|| asked().find_map(|(json, key)| nearly(json, key, 1, object, names)))
    }
}

impl<'v> ResolvedValue<'v> {
    /// The text of it; `None` when there is nothing to say.
    pub(crate) fn text(self) -> Option<Cow<'v, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Json(Value::String(text)) => Some(Cow::Borrowed(text)),
            Self::Json(Value::Number(n)) => Some(Cow::Owned(number::canonical(n).to_string())),
            Self::Json(Value::Bool(yes)) => Some(Cow::Borrowed(if *yes { "true" } else { "false" })),
            Self::Json(Value::Array(items)) => Some(Cow::Owned(listed(items))),
            Self::Json(Value::Object(_) | Value::Null) => None,
        }
    }
}

/// The plain values of a list, with commas.
fn listed(items: &[Value]) -> String {
    let mut out = String::new();
    for item in items.iter().filter(|item| !item.is_array()) {
        let Some(text) = ResolvedValue::Json(item).text() else { continue };
        if out.len() + text.len() > limits::TEMPLATE_VALUE_BYTES_MAX {
            break;
        }
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(&text);
    }
    out
}

/// Returns the rest of a key behind a source's prefix.
fn behind<'k>(prefix: &str, key: &'k str) -> Option<&'k str> {
    if prefix.is_empty() {
        return Some(key);
    }
    let rest = strip(key, prefix)?;
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    (!rest.is_empty()).then_some(rest)
}

/// Returns the rest of `text` behind `start`, ignoring case.
fn strip<'k>(text: &'k str, start: &str) -> Option<&'k str> {
    if text.is_ascii() && start.is_ascii() {
        let (begin, rest) = text.split_at_checked(start.len())?;
        return begin.eq_ignore_ascii_case(start).then_some(rest);
    }
    let mut rest = text.chars();
    for c in start.chars() {
        let other = rest.next()?;
        if c != other && !c.to_lowercase().eq(other.to_lowercase()) {
            return None;
        }
    }
    Some(rest.as_str())
}

/// Whether a key means a path: in any case, with its dots or joined.
pub(crate) fn same_name(key: &str, path: &str) -> bool {
    let mut rest = key;
    for (n, part) in path.split('.').enumerate() {
        if n > 0 {
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        match strip(rest, part) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

fn fits(value: &Value, object: bool) -> bool {
    !value.is_null() && value.is_object() == object
}

/// The value at a path as it is written.
fn exact<'v>(json: &'v Value, key: &str, object: bool) -> Option<&'v Value> {
    let mut here = json.as_object()?;
    let mut rest = key;
    loop {
        if let Some(found) = here.get(rest).filter(|value| fits(value, object)) {
            return Some(found);
        }
        let (name, after) = rest.split_once('.')?;
        (here, rest) = (here.get(name)?.as_object()?, after);
    }
}

/// The value at a path in any case, joined or not: names of this object first, then what is in it.
/// Each place is visited at most once, and `names` says how many of them may be.
fn nearly<'v>(
    json: &'v Value,
    key: &str,
    depth: usize,
    object: bool,
    names: &mut usize,
) -> Option<&'v Value> {
    let here = json.as_object().filter(|_| depth <= limits::FACT_DEPTH_MAX)?;
    *names = names.checked_sub(here.len())?;
    let begins = || here.iter().filter_map(|(name, value)| Some((strip(key, name)?, value)));
    let whole = begins().find(|(rest, value)| rest.is_empty() && fits(value, object));
    whole.map(|(_, value)| value).or_else(|| {
        let mut deeper = begins().filter(|(rest, value)| !rest.is_empty() && value.is_object());
        deeper.find_map(|(rest, value)| {
            nearly(value, rest.strip_prefix('.').unwrap_or(rest), depth + 1, object, names)
        })
    })
}
