//! Where something stands in a provider's JSON: `messages.0.id`, or with a star for each item,
//! `entry.*.changes.*.value`.

use serde_json::Value;

/// What stands at a path without stars.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(value, step_into)
}

/// Everything that stands at a path; a star is each item of a list.
pub(crate) fn each<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    path.split('.').filter(|step| !step.is_empty()).fold(vec![value], |all, step| {
        all.into_iter()
            .flat_map(|one| match (step, one) {
                ("*", Value::Array(items)) => items.iter().collect(),
                ("*", _) => Vec::new(),
                _ => step_into(one, step).into_iter().collect(),
            })
            .collect()
    })
}

/// A text, number or boolean as a text.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn step_into<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => step.parse::<usize>().ok().and_then(|n| items.get(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_through_objects_and_lists() {
        let value = json!({"a": [{"b": 1}, {"b": "x"}], "c": {"d": true}});
        assert_eq!(at(&value, "a.1.b"), Some(&json!("x")));
        assert_eq!(at(&value, ""), Some(&value));
        assert_eq!(at(&value, "a.7.b"), None);
        assert_eq!(at(&value, "c.d.e"), None);
        assert_eq!(each(&value, "a.*.b"), [&json!(1), &json!("x")]);
        assert!(each(&value, "c.*").is_empty());
        assert_eq!(at(&value, "c.d").and_then(text).as_deref(), Some("true"));
    }
}
