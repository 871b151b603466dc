//! Bodies of requests: a tree of values as a file writes it, filled in for each message.
//!
//! Values are put into a tree, never into a text, so nothing in them can end a string or begin a
//! field. A field whose name ends in `?` is left out when it would be empty. Some forms are special:
//!
//! | written | becomes |
//! |---|---|
//! | `{ "$value" = "template.params" }` | what the name stands for, list or object as it is |
//! | `{ "$value" = "template.params", "$names" = "{n}" }` | a list as an object: `{"1": …, "2": …}` |
//! | `{ "$each" = "template.params", "$item" = … }` | a list, with `{{item}}` and `{{name}}` of each |
//! | `{ "$merge" = "template.params", "$names" = "VAR{n}", … }` | the other fields, and these |
//! | `{ "$when" = "template.params", … }` | the other fields, or nothing when the name has no value |

use crate::known::{KnownValues, Names, Text};
use punctual::Problems;
use punctual::base::document::{kind, quote};
use serde_json::{Map, Value};

/// Trees deeper than this are mistakes.
const DEPTH_MAX: usize = 16;

/// A value that is filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Fixed(Value),
    Text(Text),
    Whole(Source),
    Each(String, Box<Node>),
    List(Vec<Node>),
    Object(Object),
}

/// An object: fields, and what is merged into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) fields: Vec<Field>,
    /// The name that must have a value for the object to be there.
    when: Option<String>,
    merged: Option<Source>,
}

/// A list or an object that a message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    name: String,
    /// How the items of a list are called, with `{n}` for their number.
    names: Option<String>,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Whether it is left out when empty.
    optional: bool,
    node: Node,
}

impl Node {
    /// Reads a tree.
    pub(crate) fn read(value: &Value, path: &str, names: &Names<'_>, problems: &mut Problems) -> Self {
        Reader { names, depth: 0 }.node(value, path, problems)
    }

    /// The value for a message; nothing when it would be empty.
    pub(crate) fn fill(&self, known: &mut KnownValues<'_>) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Text(text) => Some(text.render(known)).filter(|text| !text.is_empty()).map(Value::String),
            Self::Whole(source) => source.value(known),
            Self::Each(name, node) => each(name, node, known),
            Self::List(nodes) => {
                let made: Vec<Value> = nodes.iter().filter_map(|node| node.fill(known)).collect();
                (!made.is_empty()).then_some(Value::Array(made))
            }
            Self::Object(object) => object.fill(known),
        }
    }
}

impl Object {
    fn fill(&self, known: &mut KnownValues<'_>) -> Option<Value> {
        if self.when.as_ref().is_some_and(|name| !known.has(name)) {
            return None;
        }
        let mut made = fill_fields(&self.fields, known);
        if let Some(Value::Object(more)) = self.merged.as_ref().and_then(|source| source.value(known)) {
            // What the file says goes first: a parameter cannot take the place of a field.
            more.into_iter().for_each(|(name, value)| _ = made.entry(name).or_insert(value));
        }
        (!made.is_empty()).then_some(Value::Object(made))
    }
}

/// The fields of an object, filled in.
pub(crate) fn fill_fields(fields: &[Field], known: &mut KnownValues<'_>) -> Map<String, Value> {
    let mut made = Map::new();
    for field in fields {
        match field.node.fill(known) {
            Some(value) => _ = made.insert(field.name.clone(), value),
            None if field.optional => {}
            None => _ = made.insert(field.name.clone(), empty(&field.node)),
        }
    }
    made
}

/// What stands for nothing where something is expected.
fn empty(node: &Node) -> Value {
    match node {
        Node::Each(..) | Node::List(_) => Value::Array(Vec::new()),
        Node::Object(..) => Value::Object(Map::new()),
        _ => Value::String(String::new()),
    }
}

fn each(name: &str, node: &Node, known: &mut KnownValues<'_>) -> Option<Value> {
    let items: Vec<(String, Value)> = match known.get(name)? {
        Value::Array(items) => items.into_iter().map(|item| (String::new(), item)).collect(),
        Value::Object(fields) => fields.into_iter().collect(),
        other => vec![(String::new(), other)],
    };
    let made: Vec<Value> = items
        .into_iter()
        .filter_map(|(name, item)| known.within(name, item, |known| node.fill(known)))
        .collect();
    (!made.is_empty()).then_some(Value::Array(made))
}

impl Source {
    fn value(&self, known: &KnownValues<'_>) -> Option<Value> {
        match (known.get(&self.name)?, &self.names) {
            (Value::Array(items), Some(names)) => {
                let named = items
                    .into_iter()
                    .enumerate()
                    .map(|(n, item)| (names.replace("{n}", &(n + 1).to_string()), item));
                Some(Value::Object(named.collect()))
            }
            (value, _) => Some(value),
        }
    }
}

struct Reader<'a> {
    names: &'a Names<'a>,
    depth: usize,
}

impl Reader<'_> {
    fn node(&mut self, value: &Value, path: &str, problems: &mut Problems) -> Node {
        if self.depth > DEPTH_MAX {
            problems.push(path, "is too deep");
            return Node::Fixed(Value::Null);
        }
        self.depth += 1;
        let node = match value {
            Value::String(text) => Text::parse(text, path, self.names, problems)
                .map_or_else(|| Node::Fixed(Value::Null), Node::Text),
            Value::Array(items) => Node::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(n, item)| self.node(item, &format!("{path}[{n}]"), problems))
                    .collect(),
            ),
            Value::Object(fields) => self.object(fields, path, problems),
            fixed => Node::Fixed(fixed.clone()),
        };
        self.depth -= 1;
        node
    }

    fn object(&mut self, written: &Map<String, Value>, path: &str, problems: &mut Problems) -> Node {
        let known = ["$value", "$names", "$each", "$item", "$merge", "$when"];
        for name in written.keys().filter(|name| name.starts_with('$') && !known.contains(&name.as_str())) {
            let said = format!("`{}` is not a special form; known are {}", quote(name), known.join(", "));
            problems.push(path, said);
        }
        if let Some(source) = self.source(written, "$value", path, problems) {
            return Node::Whole(source);
        }
        if let Some(source) = self.source(written, "$each", path, problems) {
            let Some(item) = written.get("$item") else {
                problems.push(path, "has `$each`, but no `$item`");
                return Node::List(Vec::new());
            };
            return Node::Each(source.name, Box::new(self.node(item, &format!("{path}.$item"), problems)));
        }
        let merged = self.source(written, "$merge", path, problems);
        let mut fields = Vec::new();
        for (name, value) in written.iter().filter(|(name, _)| !name.starts_with('$')) {
            let node = self.node(value, &format!("{path}.{name}"), problems);
            let (name, optional) = name.strip_suffix('?').map_or((name.as_str(), false), |name| (name, true));
            fields.push(Field { name: name.to_owned(), optional, node });
        }
        let when = self.source(written, "$when", path, problems).map(|source| source.name);
        Node::Object(Object { fields, when, merged })
    }

    fn source(
        &self,
        written: &Map<String, Value>,
        form: &str,
        path: &str,
        problems: &mut Problems,
    ) -> Option<Source> {
        let text = |key: &str, problems: &mut Problems| {
            let value = written.get(key)?;
            let text = value.as_str().map(str::to_owned);
            if text.is_none() {
                problems.push(format!("{path}.{key}"), format!("must be a string, not {}", kind(value)));
            }
            text
        };
        let name = text(form, problems)?;
        self.names.check(&name, &format!("{path}.{form}"), problems);
        Some(Source { name, names: text("$names", problems) })
    }
}
