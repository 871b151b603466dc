//! One comparison: a path, an operator and a value.

use crate::base::condition::Operator;
use crate::base::condition::order::{Limit, equal};
use crate::base::limits;
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::ops::Bound;

/// A path, a comparison, and the value to compare with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) path: String,
    pub(crate) op: Operator,
    pub(crate) test: Test,
}

/// The test of an operator, negated if the operator is an opposite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Exists,
    Equal(Value),
    In(Vec<Value>),
    Range(Bound<Limit>, Bound<Limit>),
    Contains(Value),
    StartsWith(String),
    EndsWith(String),
    Matches(Pattern),
}

/// The limits of the searches of one condition, so that all of them together stay bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SearchBudget {
    /// The longest string that `contains` looks through, in bytes.
    pub(crate) search_bytes: usize,
    /// The longest string that `matches` looks through, in characters.
    pub(crate) pattern_chars: usize,
}

/// The cost of looking at one member of a list, in bytes.
const MEMBER_BYTES: usize = 32;

impl SearchBudget {
    /// Shares the bounds among so many `contains`, and patterns of so many compiled bytes.
    pub(crate) fn shared(searches: usize, compiled_bytes: usize) -> Self {
        Self {
            search_bytes: limits::CONDITION_SEARCH_BYTES_MAX / searches.max(1),
            pattern_chars: limits::CONDITION_PATTERN_STEPS_MAX / compiled_bytes.max(1),
        }
    }
}

impl Leaf {
    pub(crate) fn holds(&self, found: Option<&Value>, reach: SearchBudget) -> bool {
        found.is_some_and(|found| self.test.passes(found, reach)) != self.op.is_opposite()
    }

    /// The strings one of which it wants; `None` if something else holds, too.
    pub(crate) fn strings(&self) -> Option<Vec<&str>> {
        match &self.test {
            _ if self.op.is_opposite() => None,
            Test::Equal(value) => value.as_str().map(|text| vec![text]),
            Test::In(values) => values.iter().map(Value::as_str).collect(),
            _ => None,
        }
    }

    /// Returns the value to compare with, as the document has it.
    pub(crate) fn wanted(&self) -> Option<Value> {
        match &self.test {
            Test::Exists => None,
            Test::Equal(value) | Test::Contains(value) => Some(value.clone()),
            Test::In(values) => Some(Value::Array(values.clone())),
            Test::Range(Bound::Included(from), Bound::Included(to)) => Some(json!([from.value, to.value])),
            Test::Range(Bound::Included(limit) | Bound::Excluded(limit), _)
            | Test::Range(_, Bound::Included(limit) | Bound::Excluded(limit)) => Some(limit.value.clone()),
            Test::Range(..) => None,
            Test::StartsWith(text) | Test::EndsWith(text) => Some(json!(text)),
            Test::Matches(pattern) => Some(json!(pattern.text())),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self.wanted() {
            Some(value) => json!({"questionId": self.path, "op": self.op.word(), "value": value}),
            None => json!({"questionId": self.path, "op": self.op.word()}),
        }
    }

    /// The most that it can cost, in nanoseconds or so: finding the fact, then looking at it.
    pub(crate) fn steps(&self, reach: SearchBudget) -> usize {
        const LOOKUP: usize = 400;
        const TIME: usize = 150;
        let compare = |value: &Value| 5 + value.as_str().map_or(0, str::len) / 16;
        LOOKUP
            + match &self.test {
                Test::Exists => 0,
                Test::Equal(value) => compare(value),
                Test::In(values) => values.iter().map(compare).sum(),
                Test::Range(..) => 2 * TIME,
                Test::Contains(value) => {
                    (2 * reach.search_bytes).max(reach.search_bytes / MEMBER_BYTES * compare(value))
                }
                Test::StartsWith(text) | Test::EndsWith(text) => 5 + text.len() / 16,
                Test::Matches(pattern) => reach.pattern_chars * pattern.compiled_bytes * 2 / 5,
            }
    }
}

impl Test {
    fn passes(&self, found: &Value, reach: SearchBudget) -> bool {
        match (self, found) {
            (Self::Exists, _) => true,
            (Self::Equal(wanted), _) => equal(found, wanted),
            (Self::In(wanted), _) => wanted.iter().any(|wanted| equal(found, wanted)),
            (Self::Range(from, to), _) => {
                keeps(from, found, Ordering::is_gt) && keeps(to, found, Ordering::is_lt)
            }
            (Self::Contains(_) | Self::Matches(_), _) if self.is_beyond(found, reach) => false,
            (Self::Contains(Value::String(part)), Value::String(found)) => found.contains(part.as_str()),
            (Self::Contains(wanted), Value::Array(found)) => found.iter().any(|found| equal(found, wanted)),
            (Self::StartsWith(part), Value::String(found)) => found.starts_with(part.as_str()),
            (Self::EndsWith(part), Value::String(found)) => found.ends_with(part.as_str()),
            (Self::Matches(pattern), Value::String(found)) => pattern.regex.is_match(found),
            _ => false,
        }
    }

    /// Returns whether this is more than it looks through.
    pub(crate) fn is_beyond(&self, found: &Value, reach: SearchBudget) -> bool {
        match (self, found) {
            (Self::Contains(_), Value::String(found)) => found.len() > reach.search_bytes,
            (Self::Contains(_), Value::Array(found)) => found.len() > reach.search_bytes / MEMBER_BYTES,
            (Self::Matches(_), Value::String(found)) => {
                found.len() > reach.pattern_chars && found.chars().nth(reach.pattern_chars).is_some()
            }
            _ => false,
        }
    }
}

/// Returns whether `found` lies on the right side of a bound.
fn keeps(bound: &Bound<Limit>, found: &Value, right: impl Fn(Ordering) -> bool) -> bool {
    match bound {
        Bound::Unbounded => true,
        Bound::Excluded(limit) => limit.order(found).is_some_and(right),
        Bound::Included(limit) => limit.order(found).is_some_and(|order| order.is_eq() || right(order)),
    }
}

/// A compiled pattern. The matcher never goes back, so the time it takes is the pattern's size times the
/// text's.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// The size of the pattern, and so the greatest cost of one character.
    pub(crate) compiled_bytes: usize,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Pattern {
    /// Compiles it.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        /// The resolution of sizes, which is two states.
        const GRAIN_BYTES: usize = 64;
        const GRAINS: usize = limits::CONDITION_COMPILED_BYTES_MAX / GRAIN_BYTES;
        let within = |grains: usize| RegexBuilder::new(text).size_limit(grains * GRAIN_BYTES).build();
        let regex = within(GRAINS).map_err(|e| format!("is not a pattern that can be used: {e}"))?;
        // The compiler does not report a size, only whether a given one is enough.
        let (mut low, mut high) = (0, GRAINS);
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            *if within(middle).is_ok() { &mut high } else { &mut low } = middle;
        }
        Ok(Self { regex, compiled_bytes: high * GRAIN_BYTES })
    }

    pub(crate) fn text(&self) -> &str {
        self.regex.as_str()
    }
}
