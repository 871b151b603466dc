//! Explains to people why a condition holds or does not hold.

use crate::base::canonical;
use crate::base::condition::leaf::{Leaf, SearchBudget, Test};
use crate::base::condition::{Condition, Node, Operator};
use crate::base::facts::Facts;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Values are shown up to this length, in characters of JSON text.
const SHOWN_CHARS_MAX: usize = 200;
/// Items of a list that a sentence names.
const NAMED_ITEMS_MAX: usize = 5;

/// A decision, and the finding of each comparison. As a text, one sentence: `skipped because …`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether the condition holds, as [`Condition::holds`] returns it.
    pub holds: bool,
    /// The first comparison that decided, in words.
    pub because: String,
    /// Every comparison in the order of the document, whether it was needed or not.
    pub findings: Vec<Finding>,
}

/// The finding of one comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The place in the condition, such as `all[1].not`; empty for the whole condition.
    pub at: String,
    /// The path it looks at.
    pub question_id: String,
    /// The operator's word.
    pub op: &'static str,
    /// The value to compare with; `None` for `exists` and `notExists`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Value>,
    /// The value that was found; of a long value the beginning of its text. `None` when it is missing.
    pub found: Option<Value>,
    /// Whether the comparison held.
    pub held: bool,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} because {}", if self.holds { "matched" } else { "skipped" }, self.because)
    }
}

impl Explanation {
    pub(crate) fn of(condition: &Condition, facts: &Facts<'_>) -> Self {
        let mut walk = Evaluation { facts, reach: condition.reach, findings: Vec::new() };
        let (holds, decided) = walk.node(&condition.root, "");
        let because = decided.map_or_else(
            || "it asks for nothing".to_owned(),
            |leaf| sentence(leaf, facts.get(&leaf.path), condition.reach),
        );
        Self { holds, because, findings: walk.findings }
    }
}

struct Evaluation<'f> {
    facts: &'f Facts<'f>,
    reach: SearchBudget,
    findings: Vec<Finding>,
}

impl Evaluation<'_> {
    /// Returns whether the node holds, and the first comparison that decided it.
    fn node<'n>(&mut self, node: &'n Node, at: &str) -> (bool, Option<&'n Leaf>) {
        let under = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        match node {
            Node::Leaf(leaf) => (self.leaf(leaf, at), Some(leaf)),
            Node::Not(part) => {
                let (held, decided) = self.node(part, &under("not"));
                (!held, decided)
            }
            Node::All(parts) => self.parts(parts, &under("all"), false),
            Node::Any(parts) => self.parts(parts, &under("any"), true),
        }
    }

    /// One part that is `decisive` decides; otherwise all do, and the first is named.
    fn parts<'n>(&mut self, parts: &'n [Node], at: &str, decisive: bool) -> (bool, Option<&'n Leaf>) {
        let each: Vec<_> =
            parts.iter().enumerate().map(|(n, part)| self.node(part, &format!("{at}[{n}]"))).collect();
        let one = each.iter().find(|(held, _)| *held == decisive);
        one.copied().unwrap_or_else(|| (!decisive, each.iter().find_map(|(_, leaf)| *leaf)))
    }

    fn leaf(&mut self, leaf: &Leaf, at: &str) -> bool {
        let found = self.facts.get(&leaf.path);
        let held = leaf.holds(found, self.reach);
        self.findings.push(Finding {
            at: at.to_owned(),
            question_id: leaf.path.clone(),
            op: leaf.op.word(),
            wanted: leaf.wanted(),
            found: found.map(cut),
            held,
        });
        held
    }
}

/// The value, or the beginning of its text if that is long.
fn cut(value: &Value) -> Value {
    if matches!(value, Value::Null | Value::Bool(_) | Value::Number(_)) {
        return value.clone();
    }
    if let Value::String(text) = value {
        return Value::String(shortened(text));
    }
    let text = text(value);
    let short = shortened(&text);
    if short == text { value.clone() } else { Value::String(short) }
}

fn text(value: &Value) -> String {
    let mut text = String::new();
    canonical::write(value, &mut text);
    text
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(_) => text(&cut(value)),
        _ => shortened(&text(value)),
    }
}

fn sentence(leaf: &Leaf, found: Option<&Value>, reach: SearchBudget) -> String {
    let path = &leaf.path;
    let Some(found) = found else { return format!("{path} is missing") };
    if leaf.test.is_beyond(found, reach) {
        return format!("{path} is too long for `{}` to look through", leaf.op.word());
    }
    if leaf.test == Test::Exists {
        return format!("{path} is there");
    }
    let passed = leaf.holds(Some(found), reach) != leaf.op.is_opposite();
    let (found, wanted) = (shown(found), leaf.wanted().unwrap_or_default());
    if let Some((does, does_not)) = verb(leaf.op) {
        let wanted = shown(&wanted);
        return if passed {
            format!("{path} {does} {wanted}")
        } else {
            format!("{path} is {found}, which {does_not} {wanted}")
        };
    }
    match (leaf.op, passed) {
        (Operator::Equal | Operator::NotEqual, true) => format!("{path} is {found}"),
        (op, true) => format!("{path} is {found}, {}", place(op, &wanted)),
        (op, false) => format!("{path} is {found}, not {}", place(op, &wanted)),
    }
}

const fn verb(op: Operator) -> Option<(&'static str, &'static str)> {
    Some(match op {
        Operator::Contains => ("contains", "does not contain"),
        Operator::StartsWith => ("starts with", "does not start with"),
        Operator::EndsWith => ("ends with", "does not end with"),
        Operator::Matches => ("matches", "does not match"),
        _ => return None,
    })
}

/// Formats the place of a value relative to the wanted one.
fn place(op: Operator, wanted: &Value) -> String {
    let one = || shown(wanted);
    match op {
        Operator::Less => format!("less than {}", one()),
        Operator::AtMost => format!("at most {}", one()),
        Operator::Greater => format!("greater than {}", one()),
        Operator::AtLeast => format!("at least {}", one()),
        Operator::Between => format!("between {} and {}", shown(&wanted[0]), shown(&wanted[1])),
        Operator::In | Operator::NotIn => {
            format!("one of {}", listed(wanted.as_array().map_or(&[], Vec::as_slice)))
        }
        _ => one(),
    }
}

fn listed(items: &[Value]) -> String {
    let named: Vec<String> = items.iter().take(NAMED_ITEMS_MAX).map(shown).collect();
    match items.len().saturating_sub(NAMED_ITEMS_MAX) {
        _ if items.is_empty() => "an empty list".to_owned(),
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
