//! Paths: places in a JSON document, such as `guest.phone` or `guests[0].phone`.
//!
//! Names are parted by dots and are taken as they are written; a number in brackets, or as a name, counts the
//! items of a list. `$` is the document itself, and may begin any path (`$.guest.phone`). Null counts as
//! absent. A name that has a dot in it cannot be reached.

use crate::base::document::quote;
use crate::base::limits;
use crate::base::number;
use serde_json::Value;
use std::fmt;

/// A path that was read and found right.
///
/// ```
/// use punctual::base::path::Path;
/// let document = serde_json::json!({"guests": [{"phone": "+964"}]});
/// assert_eq!(Path::parse("guests[0].phone").unwrap().find(&document).unwrap(), "+964");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    written: String,
    steps: Vec<String>,
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// A sentence that says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty: write a path such as guest.phone".into());
        }
        if text.len() > limits::FACT_PATH_BYTES_MAX {
            let most = limits::FACT_PATH_BYTES_MAX;
            return Err(format!("has {} bytes; a path has at most {most}", text.len()));
        }
        let wrong = |why: &str| format!("`{}` is not a path such as guest.phone: {why}", quote(text));
        if text.chars().any(char::is_control) {
            return Err(wrong("it has a control character in it"));
        }
        let plain = open_brackets(text).ok_or_else(|| wrong("write the number of an item as `[0]`"))?;
        let mut steps: Vec<String> = plain.split('.').map(str::to_owned).collect();
        if steps[0] == "$" {
            steps.remove(0);
        }
        if steps.iter().any(|step| step.is_empty() || step.trim() != step) {
            return Err(wrong("between two dots stands a name, without spaces around it"));
        }
        if steps.iter().any(|step| step.contains(['$', '*', '[', ']'])) {
            return Err(wrong("`$` only begins a path, and it leads to one place"));
        }
        if steps.len() > limits::FACT_DEPTH_MAX {
            return Err(wrong("it is too deep"));
        }
        Ok(Self { written: text.to_owned(), steps })
    }

    /// Returns the value at the path; null counts as absent.
    #[must_use]
    pub fn find<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        walk(document, &self.steps)
    }

    /// Returns the value at the path, if it begins with `root` and goes on: `payload.guest` under `payload`.
    pub(crate) fn find_under<'v>(&self, root: &str, document: &'v Value) -> Option<&'v Value> {
        let (first, rest) = self.steps.split_first()?;
        if first != root || rest.is_empty() { None } else { walk(document, rest) }
    }

    /// The name it begins with, if it has one and goes on behind it.
    pub(crate) fn root(&self) -> Option<&str> {
        self.steps.first().filter(|_| self.steps.len() > 1).map(String::as_str)
    }

    /// Returns whether the path is the document itself.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Its names with dots between them.
    pub(crate) fn dotted(&self) -> String {
        self.steps.join(".")
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn walk<'v>(document: &'v Value, steps: &[String]) -> Option<&'v Value> {
    let mut here = document;
    for step in steps {
        here = match here {
            Value::Object(fields) => fields.get(step)?,
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(here).filter(|found| !found.is_null())
}

/// `a[0].b` as `a.0.b`; `None` when a bracket is not closed, or holds no number.
fn open_brackets(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let (number, behind) = after.split_once(']')?;
        let digits = !number.is_empty() && number.len() < 10 && number.bytes().all(|b| b.is_ascii_digit());
        if !digits || !(behind.is_empty() || behind.starts_with(['.', '['])) {
            return None;
        }
        out.push_str(before);
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(number);
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}

/// A plain value as text: a string without white space around it, or a number; not an empty one. Zero
/// characters are left out: PostgreSQL keeps none. A number that may have lost digits is none: two bookings
/// with different ids would be one.
#[must_use]
pub fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.contains('\0') => text_of(&Value::String(text.replace('\0', ""))),
        Value::String(text) => Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned),
        Value::Number(number) if !number::has_all_digits(number) => None,
        Value::Number(number) => Some(number::canonical(number).to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// PRD-18: where paths lead.
    #[test]
    fn prd_18_paths_lead_to_one_place() {
        let document = json!({"guest": {"phone": "+964", "n": null, "Name": "x"},
            "list": [{"a": 1}, [2, 3]], "0": "zero", "é t": 5});
        let table = [
            ("guest.phone", json!("+964")),
            ("$.guest.phone", json!("+964")),
            ("list[0].a", json!(1)),
            ("list.0.a", json!(1)),
            ("$.list[1][1]", json!(3)),
            ("0", json!("zero")),
            ("é t", json!(5)),
            ("$", document.clone()),
            ("guest.n", Value::Null),
            ("guest.name", Value::Null),
            ("guest.phone.x", Value::Null),
            ("list[7]", Value::Null),
            ("list.a", Value::Null),
        ];
        for (path, want) in table {
            let found = Path::parse(path).unwrap();
            assert_eq!(found.find(&document).unwrap_or(&Value::Null), &want, "{path}");
            assert_eq!(found.to_string(), path);
        }
        let list = json!(["a", "b"]);
        assert_eq!(Path::parse("$[1]").unwrap().find(&list), Some(&json!("b")));
    }

    /// PRD-18: a text that is not a path is reported.
    #[test]
    fn prd_18_what_is_no_path_is_told() {
        let long = "x".repeat(513);
        let deep = vec!["a"; 33].join(".");
        for path in [
            "", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[0]b", "a]", "a.$", "$a", "list[*]",
            "a .b", "a\n", &long, &deep,
        ] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn plain_values_are_texts() {
        let table = [
            (json!(" +964 "), Some("+964")),
            (json!(9_647_700_000_001_i64), Some("9647700000001")),
            (json!(" "), None),
            (json!(100_000_000_000_000_000_000_f64), None),
            (json!(2.5), Some("2.5")),
            (json!(true), None),
            (json!(["x"]), None),
        ];
        for (value, want) in table {
            assert_eq!(text_of(&value).as_deref(), want, "{value}");
        }
    }
}
