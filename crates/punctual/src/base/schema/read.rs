//! Reading a schema: every problem by its path, and no keyword passed over.

use crate::base::document::{DocumentList, DocumentObject, kind, quote, text};
use crate::base::error::Problems;
use crate::base::limits;
use crate::base::schema::{AdditionalProperties, Bound, Format, Node, Range, Type};
use crate::base::suggestion::hint;
use regex_lite::RegexBuilder;
use serde_json::{Number, Value};

const KNOWN: [&str; 19] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "allOf",
    "anyOf",
];
/// Words for people, which check nothing.
const WORDS: [&str; 11] = [
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];
const TYPES: [(&str, Type); 7] = [
    ("object", Type::Object),
    ("array", Type::List),
    ("string", Type::Text),
    ("number", Type::Number),
    ("integer", Type::Whole),
    ("boolean", Type::Flag),
    ("null", Type::Null),
];
const FORMATS: [(&str, Format); 3] =
    [("date", Format::Date), ("date-time", Format::DateTime), ("email", Format::Email)];

/// Reads a whole schema; `None` when there are problems.
pub(crate) fn schema(value: &Value, path: &str, problems: &mut Problems) -> Option<Node> {
    let before = problems.0.len();
    let mut reader = Reader { problems, nodes: 0 };
    let node = reader.node(value, path, 1);
    if reader.nodes > limits::SCHEMA_NODES_MAX {
        let most = limits::SCHEMA_NODES_MAX;
        reader.problems.push(path, format!("has more than {most} schemas in it"));
    }
    node.filter(|_| problems.0.len() == before)
}

struct Reader<'p> {
    problems: &'p mut Problems,
    nodes: usize,
}

impl Reader<'_> {
    fn node(&mut self, value: &Value, path: &str, depth: usize) -> Option<Node> {
        self.nodes += 1;
        if self.nodes > limits::SCHEMA_NODES_MAX {
            return None;
        }
        if depth > limits::SCHEMA_DEPTH_MAX {
            self.problems.push(path, format!("is nested deeper than {}", limits::SCHEMA_DEPTH_MAX));
            return None;
        }
        if value == &Value::Bool(true) {
            return Some(Node::default());
        }
        let known = [KNOWN.as_slice(), &WORDS].concat();
        let part = DocumentObject::read(value, path, &known, self.problems)?;
        let mut node =
            Node { types: self.types(&part), one_of: self.one_of(&part, value), ..Node::default() };
        self.object_part(&part, &mut node, depth);
        node.items = part.get("items").and_then(|v| self.node(v, &part.at("items"), depth + 1)).map(Box::new);
        node.counts = Range { least: self.whole(&part, "minItems"), most: self.whole(&part, "maxItems") };
        node.lengths = Range { least: self.whole(&part, "minLength"), most: self.whole(&part, "maxLength") };
        self.text_part(&part, &mut node);
        self.bounds(&part, &mut node);
        node.all = self.nodes(&part, "allOf", depth);
        node.any = self.nodes(&part, "anyOf", depth);
        Some(node)
    }

    fn types(&mut self, part: &DocumentObject<'_>) -> Vec<Type> {
        let Some(value) = part.get("type") else { return Vec::new() };
        let words: Vec<&Value> = match value {
            Value::Array(words) => words.iter().collect(),
            one => vec![one],
        };
        let names = TYPES.map(|(name, _)| name);
        let mut types = Vec::new();
        for word in words {
            let found = word.as_str().and_then(|word| TYPES.iter().find(|(name, _)| *name == word));
            match found {
                Some((_, found)) => types.push(*found),
                None => {
                    let shown = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
                    let said = format!("`{}` is not a type{}", quote(&shown), hint(&shown, &names));
                    self.problems.push(part.at("type"), said);
                }
            }
        }
        types
    }

    /// `enum` and `const`; a `const` may be null, which is not the same as absent.
    fn one_of(&mut self, part: &DocumentObject<'_>, value: &Value) -> Option<Vec<Value>> {
        if let Some(only) = value.get("const") {
            return Some(vec![only.clone()]);
        }
        let listed = part.list("enum", limits::SCHEMA_LIST_ITEMS_MAX, self.problems)?;
        let all: Vec<Value> = listed.iter().map(|(value, _)| value.clone()).collect();
        if part.is_empty_list("enum") {
            self.problems.push(part.at("enum"), "is empty, so nothing would ever fit");
        }
        Some(all)
    }

    fn object_part(&mut self, part: &DocumentObject<'_>, node: &mut Node, depth: usize) {
        match part.get("properties") {
            Some(Value::Object(all)) => {
                for (name, value) in all {
                    let path = format!("{}.{}", part.at("properties"), quote(name));
                    let inside = self.node(value, &path, depth + 1);
                    node.properties.extend(inside.map(|inside| (name.clone(), inside)));
                }
            }
            Some(other) => {
                let said = format!("must be an object of schemas by name, not {}", kind(other));
                self.problems.push(part.at("properties"), said);
            }
            None => {}
        }
        let required = part.list("required", limits::SCHEMA_LIST_ITEMS_MAX, self.problems);
        for (value, path) in required.iter().flat_map(DocumentList::iter) {
            node.required.extend(text(value, path, self.problems).map(str::to_owned));
        }
        node.others = match part.get("additionalProperties") {
            None | Some(Value::Bool(true)) => AdditionalProperties::Anything,
            Some(Value::Bool(false)) => AdditionalProperties::Nothing,
            Some(value) => self
                .node(value, &part.at("additionalProperties"), depth + 1)
                .map_or(AdditionalProperties::Anything, |node| AdditionalProperties::Like(Box::new(node))),
        };
    }

    fn text_part(&mut self, part: &DocumentObject<'_>, node: &mut Node) {
        let pattern = part.get("pattern").and_then(|v| text(v, &part.at("pattern"), self.problems));
        if let Some(pattern) = pattern {
            let built = RegexBuilder::new(pattern).size_limit(limits::CONDITION_COMPILED_BYTES_MAX).build();
            match built {
                _ if pattern.len() > limits::CONDITION_PATTERN_BYTES_MAX => {
                    let most = limits::CONDITION_PATTERN_BYTES_MAX;
                    self.problems.push(part.at("pattern"), format!("is longer than {most} bytes"));
                }
                Ok(regex) => node.pattern = Some(regex),
                Err(e) => {
                    self.problems.push(part.at("pattern"), format!("is not a pattern that can be used: {e}"))
                }
            }
        }
        let format = part.get("format").and_then(|v| text(v, &part.at("format"), self.problems));
        if let Some(word) = format {
            match FORMATS.iter().find(|(name, _)| *name == word) {
                Some((_, format)) => node.format = Some(*format),
                None => {
                    let said = hint(word, &FORMATS.map(|(name, _)| name));
                    self.problems
                        .push(part.at("format"), format!("`{}` is not checked here{said}", quote(word)));
                }
            }
        }
    }

    fn bounds(&mut self, part: &DocumentObject<'_>, node: &mut Node) {
        let all = [
            ("minimum", Bound::AtLeast),
            ("maximum", Bound::AtMost),
            ("exclusiveMinimum", Bound::Above),
            ("exclusiveMaximum", Bound::Below),
        ];
        for (field, bound) in all {
            let Some(value) = part.get(field) else { continue };
            match value.as_number() {
                Some(number) => node.bounds.push((bound, Number::clone(number))),
                None => self.problems.push(part.at(field), format!("must be a number, not {}", kind(value))),
            }
        }
    }

    fn nodes(&mut self, part: &DocumentObject<'_>, field: &str, depth: usize) -> Vec<Node> {
        let listed = part.list(field, limits::SCHEMA_LIST_ITEMS_MAX, self.problems);
        let mut nodes = Vec::new();
        for (value, path) in listed.iter().flat_map(DocumentList::iter) {
            nodes.extend(self.node(value, path, depth + 1));
        }
        nodes
    }

    fn whole(&mut self, part: &DocumentObject<'_>, field: &str) -> Option<u64> {
        let value = part.get(field)?;
        let found = value.as_u64();
        if found.is_none() {
            self.problems.push(part.at(field), "must be a whole number, 0 or more");
        }
        found
    }
}
