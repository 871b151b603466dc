//! The items of a bulk operation: ids, or a filter; and whether it is a dry run.

use crate::http::input::Fields;
use punctual::Problems;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Display;

/// The items of a replay or purge.
pub(in crate::http) struct BulkSelection<'a, I = i64> {
    /// The items by their ids.
    pub ids: Option<Vec<I>>,
    /// All items that fit.
    pub filter: Option<&'a Map<String, Value>>,
    /// Whether nothing is changed.
    pub dry_run: bool,
}

impl<'a> BulkSelection<'a> {
    /// Reads `{ids?|filter, dryRun?}`; each id is that of `noun`.
    pub fn read(body: &'a Map<String, Value>, noun: &str, problems: &mut Problems) -> Self {
        let number =
            |value: &Value| value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        Self::read_as(body, noun, number, problems)
    }
}

impl<'a, I> BulkSelection<'a, I> {
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

/// The count stands under the word for what was done.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MovedItems")]
pub struct MovedItems {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    replayed: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_replay: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    purged: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    would_purge: Option<usize>,
    ids: Vec<String>,
}

impl MovedItems {
    /// The answer to a replay.
    pub(super) fn replayed<Id: Display>(ids: &[Id], dry_run: bool) -> Self {
        let (replayed, would_replay) = count(ids, dry_run);
        Self { replayed, would_replay, ids: texts(ids), ..Self::default() }
    }

    /// The answer to a purge.
    pub(super) fn purged<Id: Display>(ids: &[Id], dry_run: bool) -> Self {
        let (purged, would_purge) = count(ids, dry_run);
        Self { purged, would_purge, ids: texts(ids), ..Self::default() }
    }
}

/// The count of what was done, or of what would be.
pub(super) fn count<T>(of: &[T], dry_run: bool) -> (Option<usize>, Option<usize>) {
    if dry_run { (None, Some(of.len())) } else { (Some(of.len()), None) }
}

fn texts<Id: Display>(ids: &[Id]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}
