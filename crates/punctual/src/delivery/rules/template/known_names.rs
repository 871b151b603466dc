//! The names that a template can count on, and the known name nearest to an unknown one.

use crate::base::document::{join, quote};
use crate::base::suggestion::{closest, nearest};
use crate::delivery::rules::template::values::same_name;
use serde_json::Value;

/// Names of one sample that are looked at; templates use far fewer.
const SAMPLE_NAMES_MAX: usize = 2_000;

/// The names that a template can use, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct KnownNames {
    names: Vec<String>,
    /// Prefixes under which any name is possible: the states of entities.
    open: Vec<String>,
    /// The reason to report for a name that is not known, if there is one.
    because: Option<String>,
}

impl KnownNames {
    /// Names that are always there.
    #[must_use]
    pub fn always(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Self::default() }
    }

    /// One more name, with dots.
    pub fn name(&mut self, path: impl Into<String>) {
        self.names.push(path.into());
    }

    /// Whether more samples are read: many names make every review slow.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.names.len() < SAMPLE_NAMES_MAX
    }

    /// Every name that a sample has, behind `prefix`.
    pub fn sample(&mut self, prefix: &str, sample: &Value) {
        let Some(fields) = sample.as_object() else { return };
        for (name, value) in fields {
            if !self.has_room() {
                return;
            }
            let path = join(prefix, name);
            self.sample(&path, value);
            self.names.push(path);
        }
    }

    /// A name behind which anything may stand.
    pub fn open(&mut self, prefix: impl Into<String>) {
        self.open.push(prefix.into());
    }

    /// Says that a payload has no other names, as far as this source knows.
    pub fn mark_complete(&mut self, source: impl Into<String>) {
        self.because = Some(format!("{} does not have it", source.into()));
    }

    /// Notes that a payload may be of any event kind, and that the known names are those of all of them.
    pub fn mark_any_kind(&mut self) {
        self.because = Some("no sample or schema of an event kind has it".to_owned());
    }

    /// Notes that no sample or schema lists the names of a payload, so that another name cannot be checked.
    pub fn mark_unlisted(&mut self, kind: &str) {
        self.because = Some(format!("{} has neither a sample nor a schema to know it by", quote(kind)));
    }

    /// Returns the warning for a key, with the nearest known name; `None` for a key that is known or that
    /// stands behind an open name.
    #[must_use]
    pub fn doubt(&self, key: &str) -> Option<String> {
        let bare = strip(key, "payload").unwrap_or(key);
        if self.names.iter().any(|name| same_name(key, name) || same_name(bare, name)) {
            return None;
        }
        let joined: Vec<String> = self.names.iter().map(|name| join_words(name)).collect();
        let near = nearest(key, self.names.iter().chain(&joined).map(String::as_str));
        if let Some(meant) = near {
            return Some(format!("`{{{{{}}}}}` is not known; did you mean `{{{{{meant}}}}}`?", quote(key)));
        }
        if self.open.iter().any(|prefix| strip(key, prefix).is_some()) {
            return None;
        }
        let because = self.because.as_ref()?;
        let closest = closest(key, self.names.iter().map(String::as_str));
        let closest = closest.map(|name| format!("; the nearest known name is `{{{{{name}}}}}`"));
        Some(format!("`{{{{{}}}}}` is not known: {because}{}", quote(key), closest.unwrap_or_default()))
    }
}

/// Returns the rest of a key behind a prefix, in upper or lower case.
fn strip<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    let begins = key.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let rest = key.get(prefix.len()..).filter(|_| begins)?;
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    (!rest.is_empty()).then_some(rest)
}

/// `guest.phone` as `guestPhone`.
fn join_words(path: &str) -> String {
    let mut parts = path.split('.');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        out.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        out.push_str(letters.as_str());
    }
    out
}
