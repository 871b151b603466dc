//! Conditions: the one evaluator of trigger filters, navigation logic and routing by content.
//!
//! A condition is a JSON document over [`Facts`]: a comparison `{questionId, op, value}`, or `all`,
//! `any` (lists) and `not` (one) of conditions. An empty `all` holds, an empty `any` does not.
//!
//! | op | holds when the value found |
//! |---|---|
//! | `==` `!=` | is, or is not, the value: a string, number or boolean |
//! | `<` `<=` `>` `>=` | is ordered so to the value, a string or number |
//! | `between` | lies in `[from, to]`, both included |
//! | `in` `notIn` | is, or is not, in a list |
//! | `contains` | is a string with the value in it, or a list with the value as a member |
//! | `startsWith` `endsWith` | is a string that begins or ends so |
//! | `matches` | is a string in which the pattern is found, anywhere unless it says `^` and `$` |
//! | `exists` `notExists` | is there, or is not; all but null is there, an empty object or list, too |
//!
//! Comparison is strict by JSON type: `"1"` is not `1`. Numbers are compared as they are kept: integers of 64
//! bits exactly, beyond 2^53 too, others as doubles, whose digits after the 15th may be lost when they are
//! read; `1.0` is `1`. Strings are ordered by their code points, except when *both* sides are an RFC 3339
//! date or date-time: those are ordered by time (a date is its midnight in UTC). They are still equal only
//! when written alike. A missing value or null makes every comparison false, and so `!=`, `notIn` and
//! `notExists` true.
//!
//! A condition is read once, with everything in it checked and compiled ([`Condition::read`]), and
//! then decides without failing, in bounded time ([`Condition::steps`]). For that, `contains` and
//! `matches` look only at strings up to a length that depends on how many of them share the
//! bound ([`limits::CONDITION_SEARCH_BYTES_MAX`], [`limits::CONDITION_PATTERN_STEPS_MAX`]): one of
//! them sees 100,000 bytes, or a thousand characters and more. A longer string does not hold it, and
//! [`Condition::explain`] says so.

mod explain;
mod leaf;
mod operand;
mod order;
mod read;

pub use crate::base::condition::explain::{Explanation, Finding};

use crate::base::condition::leaf::{Leaf, SearchBudget};
use crate::base::facts::Facts;
use crate::base::limits;
use serde_json::{Value, json};

/// A condition that was read and found right.
///
/// ```
/// use punctual::Problems;
/// use punctual::base::{condition::Condition, facts::Facts};
/// let filter = serde_json::json!({"questionId": "candidate.jobType", "op": "==", "value": "GR"});
/// let condition = Condition::read(&filter, "filter", &mut Problems::default()).unwrap();
/// let mut facts = Facts::default();
/// facts.insert("candidate.jobType", "PM".into());
/// assert!(!condition.holds(&facts));
/// let said = condition.explain(&facts).to_string();
/// assert_eq!(said, r#"skipped because candidate.jobType is "PM", not "GR""#);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    root: Node,
    reach: SearchBudget,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Leaf(Leaf),
}

impl Condition {
    /// Returns whether the condition holds for these facts.
    #[must_use]
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.root.holds(facts, self.reach)
    }

    /// The same decision, with what each comparison saw.
    #[must_use]
    pub fn explain(&self, facts: &Facts<'_>) -> Explanation {
        Explanation::of(self, facts)
    }

    /// Every path that it asks for, in its order, as often as it does.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        self.leaves().into_iter().map(|leaf| leaf.path.as_str()).collect()
    }

    /// A path and the strings one of which must stand there for the condition to hold; `None` if it has no
    /// such part. With it, many conditions can be looked up by value before any is evaluated.
    #[must_use]
    pub fn needs(&self) -> Option<(&str, Vec<&str>)> {
        match &self.root {
            Node::All(parts) => parts.iter().find_map(Node::needs),
            other => other.needs(),
        }
    }

    /// The document it was read from; read again, it is the same condition.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.root.to_json()
    }

    /// Returns the most steps that one evaluation can cost, for all facts; a step is about a nanosecond. The
    /// limits keep it below [`STEPS_MAX`].
    #[must_use]
    pub fn steps(&self) -> usize {
        self.leaves().into_iter().map(|leaf| leaf.steps(self.reach)).sum()
    }

    fn leaves(&self) -> Vec<&Leaf> {
        let mut leaves = Vec::new();
        self.root.leaves(&mut leaves);
        leaves
    }
}

/// The steps that no evaluation exceeds: a millisecond.
pub const STEPS_MAX: usize = 1_000_000;

impl Node {
    fn needs(&self) -> Option<(&str, Vec<&str>)> {
        let Self::Leaf(leaf) = self else { return None };
        Some((leaf.path.as_str(), leaf.strings()?))
    }

    fn holds(&self, facts: &Facts<'_>, reach: SearchBudget) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(facts, reach)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(facts, reach)),
            Self::Not(part) => !part.holds(facts, reach),
            Self::Leaf(leaf) => leaf.holds(facts.get(&leaf.path), reach),
        }
    }

    fn leaves<'n>(&'n self, into: &mut Vec<&'n Leaf>) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.leaves(into)),
            Self::Not(part) => part.leaves(into),
            Self::Leaf(leaf) => into.push(leaf),
        }
    }

    fn to_json(&self) -> Value {
        let list = |parts: &[Self]| parts.iter().map(Self::to_json).collect::<Value>();
        match self {
            Self::All(parts) => json!({ "all": list(parts) }),
            Self::Any(parts) => json!({ "any": list(parts) }),
            Self::Not(part) => json!({ "not": part.to_json() }),
            Self::Leaf(leaf) => leaf.to_json(),
        }
    }
}

/// The comparison of a fact with the value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in`
    In,
    /// `notIn`
    NotIn,
    /// `contains`
    Contains,
    /// `startsWith`
    StartsWith,
    /// `endsWith`
    EndsWith,
    /// `exists`
    Exists,
    /// `notExists`
    NotExists,
    /// `matches`
    Matches,
    /// `between`
    Between,
}

impl Operator {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::AtMost,
        Self::Greater,
        Self::AtLeast,
        Self::In,
        Self::NotIn,
        Self::Contains,
        Self::StartsWith,
        Self::EndsWith,
        Self::Exists,
        Self::NotExists,
        Self::Matches,
        Self::Between,
    ];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::In => "in",
            Self::NotIn => "notIn",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Exists => "exists",
            Self::NotExists => "notExists",
            Self::Matches => "matches",
            Self::Between => "between",
        }
    }

    /// Whether the operator is the opposite of another: true where that is false, also for a missing value.
    const fn is_opposite(self) -> bool {
        matches!(self, Self::NotEqual | Self::NotIn | Self::NotExists)
    }
}

const _: () = assert!(limits::CONDITION_DEPTH_MAX < 100, "a condition is walked by recursion");

#[cfg(test)]
mod tests;
