//! Lists: `limit` and an opaque `cursor` in, `{items, nextCursor}` out.

use super::error::ApiFailure;
use super::query_schema::{CheckedQuery, QuerySchema};
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use punctual::Problems;
use punctual::base::limits;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Items that are read at once where each may be large.
const FETCHED_MAX: usize = 64;
/// Payloads of one answer; the item that goes beyond it is the last.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A list, or the part of it that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, rename = "{T}[]")]
pub struct List<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next part begins; null at the end.
    pub next_cursor: Option<String>,
}

/// The query of a list.
#[derive(Debug)]
pub struct Page {
    /// How many items at most.
    pub limit: usize,
    after: Option<String>,
    filters: BTreeMap<String, String>,
    /// What the operation lists; none for pages, which have no operation.
    schema: Option<QuerySchema>,
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        if let Some(CheckedQuery { pairs, schema }) = parts.extensions.get() {
            let page = Self::of(pairs.iter().cloned().collect())?;
            return Ok(Self { schema: Some(schema.clone()), ..page });
        }
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = query.map_err(|_| ApiFailure::malformed("the query string cannot be read"))?;
        Self::of(pairs.into_iter().collect())
    }
}

impl Page {
    fn of(mut query: BTreeMap<String, String>) -> Result<Self, ApiFailure> {
        let mut problems = Problems::default();
        let limit = query.remove("limit").map_or(Some(limits::LIST_ITEMS_DEFAULT), |text| limit(&text));
        if limit.is_none() {
            problems.push("limit", format!("must be a whole number from 1 to {}", limits::LIST_ITEMS_MAX));
        }
        let cursor = query.remove("cursor").filter(|text| !text.is_empty());
        let after = cursor.as_deref().and_then(decode);
        if cursor.is_some() && after.is_none() {
            problems.push("cursor", "is not a cursor that a list handed out");
        }
        if after.as_ref().is_some_and(|place| place.contains('\0')) {
            problems.push("cursor", "is not a cursor that a list handed out");
        }
        problems.into_result()?;
        let limit = limit.unwrap_or(limits::LIST_ITEMS_DEFAULT);
        Ok(Self { limit, after, filters: query, schema: None })
    }

    /// Another parameter of the query, unless it is empty.
    ///
    /// # Panics
    /// In debug builds, when the operation does not list it: requests with it would be refused.
    pub fn filter(&self, name: &str) -> Option<&str> {
        let is_listed = self.schema.as_ref().is_none_or(|schema| schema.has(name));
        debug_assert!(is_listed, "the handler reads `{name}`, which its operation does not list");
        self.filters.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// What the last part ended with.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// The id that the last part ended with; 0 at the beginning.
    ///
    /// # Errors
    /// 422 when the cursor is another list's.
    pub fn after_id(&self) -> Result<i64, ApiFailure> {
        let Some(text) = self.after() else {
            return Ok(0);
        };
        text.parse().map_err(|_| {
            punctual::Error::invalid("cursor", "is not a cursor that this list handed out").into()
        })
    }

    /// Makes the answer of a page that says itself where the next one begins.
    #[must_use]
    pub fn list_up_to<T>(&self, items: Vec<T>, next: Option<String>) -> List<T> {
        List { items, next_cursor: next.map(|place| encode(&place)) }
    }

    /// Reads items that may be large, a few at a time, until there are enough or they are too heavy for one
    /// answer. Returns them and whether there are more.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn gather<T, P, F>(
        &self,
        mut after: P,
        fetch: impl Fn(P, usize) -> F,
        place: impl Fn(&T) -> P,
        weigh: impl Fn(&T) -> usize,
    ) -> Result<(Vec<T>, bool), ApiFailure>
    where
        F: Future<Output = punctual::Result<Vec<T>>>,
    {
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let wanted = FETCHED_MAX.min(self.limit + 1 - items.len());
            let mut fetched = fetch(after, wanted).await?.into_iter().peekable();
            let is_last = fetched.len() < wanted;
            while let Some(item) = fetched.next_if(|_| items.len() < self.limit && bytes < ANSWER_BYTES_MAX) {
                bytes += weigh(&item);
                items.push(item);
            }
            match items.last() {
                Some(last) if fetched.peek().is_none() && !is_last => after = place(last),
                _ => return Ok((items, fetched.peek().is_some())),
            }
        }
    }

    /// Makes the answer of what was read: up to `limit + 1` items, the last of which only
    /// shows that there is more.
    pub fn list<T>(&self, mut items: Vec<T>, place: impl Fn(&T) -> String) -> List<T> {
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        let last = items.last().filter(|_| more);
        let next_cursor = last.map(|item| encode(&place(item)));
        List { items, next_cursor }
    }
}

/// What a document takes in memory, near enough: its texts, and for each value what a value takes.
#[must_use]
pub fn weight(document: &Value) -> usize {
    const VALUE_BYTES: usize = 40;
    VALUE_BYTES
        + match document {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
            _ => 0,
        }
}

fn limit(text: &str) -> Option<usize> {
    text.parse().ok().filter(|n| (1..=limits::LIST_ITEMS_MAX).contains(n))
}

fn encode(place: &str) -> String {
    place.bytes().fold(String::with_capacity(2 * place.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn decode(cursor: &str) -> Option<String> {
    if !cursor.len().is_multiple_of(2) || !cursor.is_ascii() {
        return None;
    }
    let byte = |n: usize| u8::from_str_radix(&cursor[n..n + 2], 16).ok();
    let bytes: Option<Vec<u8>> = (0..cursor.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &[(&str, &str)]) -> Result<Page, ApiFailure> {
        Page::of(query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn a_cursor_leads_to_where_the_list_ended() {
        let first = page(&[("limit", "2")]).unwrap().list(vec![1, 2, 3], ToString::to_string);
        assert_eq!(first.items, [1, 2]);
        let next = page(&[("cursor", &first.next_cursor.unwrap())]).unwrap();
        assert_eq!(next.after_id().unwrap(), 2);
        assert_eq!(page(&[]).unwrap().list(vec![1], ToString::to_string).next_cursor, None);
    }

    #[test]
    fn wrong_limits_and_cursors_are_refused() {
        for query in [
            ("limit", "0"),
            ("limit", "1001"),
            ("limit", "x"),
            ("cursor", "x"),
            ("cursor", "ü"),
            ("cursor", "abc"),
        ] {
            assert!(page(&[query]).is_err(), "{query:?}");
        }
        assert_eq!(page(&[("limit", "1000")]).unwrap().limit, 1_000);
        assert_eq!(page(&[]).unwrap().limit, 100);
    }
}
