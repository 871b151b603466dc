//! Which of many: ids, or a filter; and whether it is only a question.

use crate::http::input::Fields;
use punctual::Problems;
use serde_json::{Map, Value};
use std::fmt::Display;

/// What a replay or purge is about.
pub(in crate::http) struct Choice<'a, I = i64> {
    /// Only these.
    pub ids: Option<Vec<I>>,
    /// All that fit.
    pub filter: Option<&'a Map<String, Value>>,
    /// Only say what would be done.
    pub dry_run: bool,
}

impl<'a> Choice<'a> {
    /// Reads `{ids?|filter, dryRun?}`; each id is that of `noun`.
    pub fn read(body: &'a Map<String, Value>, noun: &str, problems: &mut Problems) -> Self {
        let number =
            |value: &Value| value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        Self::read_as(body, noun, number, problems)
    }
}

impl<'a, I> Choice<'a, I> {
    /// The same, with ids that are read by `one`.
    pub fn read_as(
        body: &'a Map<String, Value>,
        noun: &str,
        one: impl Fn(&Value) -> Option<I>,
        problems: &mut Problems,
    ) -> Self {
        let mut read = Fields::new(body, "", problems);
        read.only(&["ids", "filter", "dryRun"]);
        let dry_run = read.flag("dryRun").unwrap_or(false);
        let (ids, filter) = (read.list("ids"), read.object("filter"));
        if read.value("ids").is_some() == read.value("filter").is_some() {
            read.wrong("ids", "say which: either `ids`, or a `filter` ({} for all)");
        }
        Self { ids: ids.map(|ids| read_ids(ids, noun, one, problems)), filter, dry_run }
    }
}

fn read_ids<I>(
    ids: &[Value],
    noun: &str,
    one: impl Fn(&Value) -> Option<I>,
    problems: &mut Problems,
) -> Vec<I> {
    let mut read = Vec::with_capacity(ids.len());
    for (n, value) in ids.iter().enumerate() {
        match one(value) {
            Some(id) => read.push(id),
            None => problems.push(format!("ids[{n}]"), format!("is not the id of {noun}")),
        }
    }
    read
}

/// The answer: the count under the word for what was done, and the ids.
pub(super) fn told<Id: Display>(ids: &[Id], verb: &str) -> Value {
    let list: Value = ids.iter().map(ToString::to_string).collect();
    Value::Object(Map::from_iter([(verb.to_owned(), ids.len().into()), ("ids".to_owned(), list)]))
}
