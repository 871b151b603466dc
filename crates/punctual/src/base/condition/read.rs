//! Reading a condition: every problem by its path, with a sentence that helps.

use crate::base::condition::leaf::{Leaf, SearchBudget};
use crate::base::condition::{Condition, Node, Operator};
use crate::base::document::{join, kind, quote};
use crate::base::error::Problems;
use crate::base::facts;
use crate::base::limits;
use crate::base::suggestion::nearest;
use serde_json::{Map, Value};

const GROUPS: [&str; 3] = ["all", "any", "not"];
const FIELDS: [&str; 3] = ["questionId", "op", "value"];

/// Names of operators in other languages, which people write by mistake.
const ALIASES: [(&str, Operator); 18] = [
    ("=", Operator::Equal),
    ("===", Operator::Equal),
    ("eq", Operator::Equal),
    ("equals", Operator::Equal),
    ("is", Operator::Equal),
    ("<>", Operator::NotEqual),
    ("!==", Operator::NotEqual),
    ("ne", Operator::NotEqual),
    ("lt", Operator::Less),
    ("lte", Operator::AtMost),
    ("=<", Operator::AtMost),
    ("gt", Operator::Greater),
    ("gte", Operator::AtLeast),
    ("=>", Operator::AtLeast),
    ("not in", Operator::NotIn),
    ("nin", Operator::NotIn),
    ("like", Operator::Contains),
    ("regex", Operator::Matches),
];

impl Condition {
    /// Reads a condition that stands at `path` in its document. `None` when there are problems.
    pub fn read(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let mut reader = Reader { problems, told: 0, parts: 0, items: 0, searches: 0, compiled_bytes: 0 };
        let root = reader.node(value, path, 1);
        if reader.parts > limits::CONDITION_PARTS_MAX {
            let most = limits::CONDITION_PARTS_MAX;
            reader.tell(
                path,
                format!(
                    "has more than {most} parts (comparisons, all, any, not); \
                     compare with a list (in) instead of many values"
                ),
            );
        }
        if reader.items > limits::CONDITION_ITEMS_MAX {
            let most = limits::CONDITION_ITEMS_MAX;
            reader.tell(path, format!("has more than {most} items in all its lists together"));
        }
        if reader.compiled_bytes > limits::CONDITION_COMPILED_BYTES_MAX {
            reader.tell(
                path,
                "has patterns that are too large together; use fewer or simpler ones, \
                 or in, startsWith, contains",
            );
        }
        let reach = SearchBudget::shared(reader.searches, reader.compiled_bytes);
        root.filter(|_| reader.told == 0).map(|root| Self { root, reach })
    }
}

/// Reads a document and counts its bounded parts.
pub(crate) struct Reader<'p> {
    problems: &'p mut Problems,
    told: usize,
    parts: usize,
    pub(crate) items: usize,
    pub(crate) searches: usize,
    pub(crate) compiled_bytes: usize,
}

impl Reader<'_> {
    pub(crate) fn tell(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.told += 1;
        if self.told <= limits::CONDITION_PROBLEMS_MAX {
            self.problems.push(path, message);
        }
    }

    fn node(&mut self, value: &Value, path: &str, depth: usize) -> Option<Node> {
        self.parts += 1;
        if self.parts > limits::CONDITION_PARTS_MAX {
            return None;
        }
        let Value::Object(fields) = value else {
            let kind = kind(value);
            self.tell(
                path,
                format!(
                    "must be an object {{questionId, op, value}}, or one with all, any or not; it is {kind}"
                ),
            );
            return None;
        };
        if depth > limits::CONDITION_DEPTH_MAX {
            self.tell(path, format!("is nested deeper than {} levels", limits::CONDITION_DEPTH_MAX));
            return None;
        }
        match GROUPS.into_iter().find(|name| fields.contains_key(*name)) {
            Some(group) => self.group(group, fields, path, depth),
            None => self.leaf(fields, path).map(Node::Leaf),
        }
    }

    fn group(&mut self, group: &str, fields: &Map<String, Value>, path: &str, depth: usize) -> Option<Node> {
        for name in fields.keys().filter(|name| *name != group) {
            let name = quote(name);
            self.tell(
                join(path, &name),
                format!("stands beside `{group}`, which stands alone; put both into an all or any"),
            );
        }
        let place = join(path, group);
        let inside = fields.get(group)?;
        if group == "not" {
            return Some(Node::Not(Box::new(self.node(inside, &place, depth + 1)?)));
        }
        let Value::Array(parts) = inside else {
            self.tell(place, format!("must be a list of conditions; it is {}", kind(inside)));
            return None;
        };
        let read = |(n, part)| self.node(part, &format!("{place}[{n}]"), depth + 1);
        // All of them are read, so that the problems of all are reported; up to the limit of parts.
        let parts: Vec<Option<Node>> =
            parts.iter().take(limits::CONDITION_PARTS_MAX + 1).enumerate().map(read).collect();
        let parts = parts.into_iter().collect::<Option<Vec<Node>>>()?;
        Some(if group == "all" { Node::All(parts) } else { Node::Any(parts) })
    }

    fn leaf(&mut self, fields: &Map<String, Value>, path: &str) -> Option<Leaf> {
        for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
            let said = format!("is not known here; {}", meant(name));
            self.tell(join(path, &quote(name)), said);
        }
        let question = self.question(fields.get("questionId"), path);
        let op = self.op(fields.get("op"), path)?;
        let test = self.test(op, fields.get("value"), &join(path, "value"))?;
        Some(Leaf { path: question?, op, test })
    }

    fn question(&mut self, value: Option<&Value>, path: &str) -> Option<String> {
        let place = join(path, "questionId");
        let said = match value {
            None => "is missing; it is the path that is looked at, such as candidate.jobType".to_owned(),
            Some(Value::String(question)) => match facts::check_path(question) {
                Ok(()) => return Some(question.clone()),
                Err(said) => said,
            },
            Some(other) => format!("must be a path such as candidate.jobType; it is {}", kind(other)),
        };
        self.tell(place, said);
        None
    }

    fn op(&mut self, value: Option<&Value>, path: &str) -> Option<Operator> {
        let said = match value {
            None => format!("is missing; it is one of {}", known()),
            Some(Value::String(word)) => match Operator::ALL.into_iter().find(|op| op.word() == word) {
                Some(op) => return Some(op),
                None => unknown_op(word),
            },
            Some(other) => format!("must be one of {}; it is {}", known(), kind(other)),
        };
        self.tell(join(path, "op"), said);
        None
    }
}

fn known() -> String {
    Operator::ALL.map(Operator::word).join(" ")
}

fn unknown_op(word: &str) -> String {
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(word)).map(|(_, op)| op.word());
    let meant = alias.or_else(|| nearest(word, Operator::ALL.map(Operator::word)));
    let (word, known) = (quote(word), known());
    match meant {
        Some(op) => format!("`{word}` is not an operator; did you mean `{op}`? Known are {known}"),
        None => format!("`{word}` is not an operator; known are {known}"),
    }
}

fn meant(name: &str) -> String {
    let alias = [("and", "all"), ("or", "any"), ("path", "questionId"), ("field", "questionId")];
    let alias = alias.into_iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name)).map(|(_, name)| name);
    match alias.or_else(|| nearest(name, FIELDS.into_iter().chain(GROUPS))) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "a comparison has questionId, op and value".to_owned(),
    }
}
