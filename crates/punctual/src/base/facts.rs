//! Facts: the values that conditions and dedup recipes look at. A flat map from a path to a JSON value.
//!
//! Nested objects are opened: `{"vehicle": {"vin": "X"}}` under `candidate` gives `candidate.vehicle.vin`,
//! and `candidate.vehicle` itself, so that a condition can ask whether it is there. Lists stay values. Null
//! is absent. Values are borrowed where they lie, because a batch of events is looked at by every trigger.
//!
//! When two names lead to one path (`{"a.b": 1, "a": {"b": 2}}`), the one read last stays.
//! Objects nested deeper than [`limits::FACT_DEPTH_MAX`] are not opened, and paths longer than
//! [`limits::FACT_PATH_BYTES_MAX`] are left out: [`check_path`] refuses to ask for them.

use crate::base::limits;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The facts of one event.
///
/// ```
/// use punctual::base::facts::Facts;
/// let payload = serde_json::json!({"jobType": "GR", "vehicle": {"vin": "JTMABB"}});
/// let mut facts = Facts::default();
/// facts.insert("templateId", 4523.into());
/// facts.flatten("candidate", &payload).unwrap();
/// assert_eq!(facts.get("candidate.vehicle.vin").unwrap(), "JTMABB");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    entries: BTreeMap<Cow<'a, str>, Cow<'a, Value>>,
}

impl<'a> Facts<'a> {
    /// Adds one fact, or replaces it; null takes it away. The value is not opened.
    pub fn insert(&mut self, path: impl Into<Cow<'a, str>>, value: Value) {
        self.put(path.into(), Cow::Owned(value));
    }

    /// Adds the members of `value`, their names after `prefix` and a dot; without a prefix, the names alone.
    ///
    /// # Errors
    /// A sentence, when there would be more than [`limits::FACTS_MAX`] facts. Those read so far are kept, so
    /// a caller that goes on regardless takes the rest as absent.
    pub fn flatten(&mut self, prefix: &str, value: &'a Value) -> Result<(), String> {
        if prefix.len() > limits::FACT_PATH_BYTES_MAX {
            return Ok(());
        }
        let mut path = prefix.to_owned();
        if !prefix.is_empty() {
            self.lend(&path, value)?;
        }
        self.open(&mut path, value, 1)
    }

    /// Adds one fact where it lies. The value is not opened.
    pub fn see(&mut self, path: &'a str, value: &'a Value) {
        self.put(Cow::Borrowed(path), Cow::Borrowed(value));
    }

    /// The value at a path; `None` also when it is null.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.entries.get(path).map(AsRef::as_ref)
    }

    /// Iterates over all facts, by path. An object has a fact of its own besides its fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(path, value)| (path.as_ref(), value.as_ref()))
    }

    fn open(&mut self, path: &mut String, value: &'a Value, depth: usize) -> Result<(), String> {
        let Value::Object(inside) = value else { return Ok(()) };
        if depth > limits::FACT_DEPTH_MAX {
            return Ok(());
        }
        let outside = path.len();
        for (name, value) in inside {
            if outside + 1 + name.len() > limits::FACT_PATH_BYTES_MAX {
                continue;
            }
            if outside > 0 {
                path.push('.');
            }
            path.push_str(name);
            self.lend(path, value)?;
            self.open(path, value, depth + 1)?;
            path.truncate(outside);
        }
        Ok(())
    }

    fn lend(&mut self, path: &str, value: &'a Value) -> Result<(), String> {
        if self.entries.len() >= limits::FACTS_MAX && !self.entries.contains_key(path) {
            return Err(format!("has more than {} values; lists count as one", limits::FACTS_MAX));
        }
        self.put(Cow::Owned(path.to_owned()), Cow::Borrowed(value));
        Ok(())
    }

    fn put(&mut self, path: Cow<'a, str>, value: Cow<'a, Value>) {
        if value.is_null() {
            self.entries.remove(path.as_ref());
        } else {
            self.entries.insert(path, value);
        }
    }
}

/// Returns whether a path can be asked for at all.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn check_path(path: &str) -> Result<(), String> {
    match path.len() {
        0 => Err("is empty; write a path such as candidate.jobType".into()),
        1..=limits::FACT_PATH_BYTES_MAX => Ok(()),
        bytes => Err(format!("has {bytes} bytes; a path has at most {}", limits::FACT_PATH_BYTES_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(facts: &Facts<'_>) -> Vec<String> {
        facts.iter().filter(|(_, v)| !v.is_object()).map(|(path, value)| format!("{path}={value}")).collect()
    }

    /// TRG-6: the context of the seed's worked example, key by key.
    #[test]
    fn trg_6_the_context_is_flat() {
        let payload = json!({"wip": "40956", "dealerId": "1", "jobType": "GR",
            "VIN": "JTMABBBJ2N4024400", "CustomerName": "Kadhem Owaid"});
        let recipient = json!({"address": "+964 770 000 0001", "locale": "ar", "customerRef": "cust-123"});
        let mut facts = Facts::default();
        facts.insert("templateId", json!(4523));
        facts.flatten("recipient", &recipient).unwrap();
        facts.flatten("candidate", &payload).unwrap();
        let want = [
            r#"candidate.CustomerName="Kadhem Owaid""#,
            r#"candidate.VIN="JTMABBBJ2N4024400""#,
            r#"candidate.dealerId="1""#,
            r#"candidate.jobType="GR""#,
            r#"candidate.wip="40956""#,
            r#"recipient.address="+964 770 000 0001""#,
            r#"recipient.customerRef="cust-123""#,
            r#"recipient.locale="ar""#,
            "templateId=4523",
        ];
        assert_eq!(listed(&facts), want);
    }

    /// TRG-6: objects are opened with dots, lists are not, and null is absent.
    #[test]
    fn trg_6_nested_objects_flatten_with_dots() {
        let value = json!({"a": {"b": {"c": 1}, "l": [{"x": 1}], "n": null, "e": {}}, "": {"": 2}});
        let mut facts = Facts::default();
        facts.flatten("p", &value).unwrap();
        assert_eq!(listed(&facts), ["p..=2", "p.a.b.c=1", r#"p.a.l=[{"x":1}]"#]);
        assert_eq!(facts.get("p.a.b"), Some(&json!({"c": 1})), "an object is there itself");
        assert_eq!((facts.get("p.a.n"), facts.get("p.a.e")), (None, Some(&json!({}))));
        let mut bare = Facts::default();
        bare.flatten("", &value).unwrap();
        assert_eq!(bare.get("a.b.c"), Some(&json!(1)));
        bare.insert("a.b.c", Value::Null);
        assert_eq!(bare.get("a.b.c"), None, "null takes a fact away");
        bare.flatten("scalar", &value["a"]["l"]).unwrap();
        assert!(bare.get("scalar").is_some_and(Value::is_array));
    }

    /// TRG-6: depth, number and length of paths are bounded.
    #[test]
    fn trg_6_facts_are_bounded() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"d": inner}));
        let mut facts = Facts::default();
        facts.flatten("p", &deep).unwrap();
        assert_eq!(facts.iter().count(), limits::FACT_DEPTH_MAX + 1);
        let wide: Value = (0..=limits::FACTS_MAX).map(|n| (n.to_string(), json!(n))).collect();
        let said = Facts::default().flatten("", &wide).unwrap_err();
        assert!(said.contains("more than 10000 values"), "{said}");
        let long = "x".repeat(limits::FACT_PATH_BYTES_MAX - 2);
        let value = json!({ long.as_str(): {"y": 1}, "short": 2 });
        let mut facts = Facts::default();
        facts.flatten("p", &value).unwrap();
        assert_eq!(facts.iter().map(|(path, _)| path.len()).collect::<Vec<_>>(), [1, 7, 512]);
        for path in ["", &format!("{long}.xyz")] {
            assert!(check_path(path).is_err(), "{path}");
        }
        assert!(check_path("candidate.jobType").is_ok());
    }
}
