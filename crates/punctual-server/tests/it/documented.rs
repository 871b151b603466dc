//! Every status that a test meets stands in the OpenAPI document, and so does every field of an answer.

use punctual_server::http::openapi::document;
use punctual_server::http::table;
use serde_json::Value;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&table()));

/// Fails for an answer of a route whose status or fields its operation does not name.
pub fn check(method: &str, target: &str, status: u16, text: &str) {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let Some(operation) = operation(method, path) else { return };
    let named = &operation["responses"];
    assert!(
        named.get(status.to_string()).is_some(),
        "{method} {path} answered {status}, which OpenAPI lacks"
    );
    let schema = &named[status.to_string()]["content"]["application/json"]["schema"];
    let Ok(answered) = serde_json::from_str::<Value>(text) else { return };
    let mut differences = Vec::new();
    compare(&answered, schema, "", &mut differences);
    assert!(differences.is_empty(), "{method} {path} answered {answered}: {differences:#?}");
}

/// Notes the fields that the schema lacks, those that it promises and the answer lacks, and words that are
/// none of its words.
fn compare(answered: &Value, schema: &Value, at: &str, differences: &mut Vec<String>) {
    let all = parts(schema);
    if all.iter().any(|part| part["enum"].as_array().is_some_and(|words| !words.contains(answered))) {
        differences.push(format!("{at}: {answered} is none of its words"));
    }
    for one in answered.as_array().into_iter().flatten() {
        all.iter().for_each(|part| compare(one, &part["items"], &format!("{at}[]"), differences));
    }
    let Some(fields) = answered.as_object().filter(|_| all.iter().any(|part| part["properties"].is_object()))
    else {
        return;
    };
    let open = all.iter().any(|part| part.get("additionalProperties").is_some_and(|more| *more != false));
    for (name, value) in fields {
        match all.iter().find_map(|part| part["properties"].get(name)) {
            Some(schema) => compare(value, schema, &format!("{at}.{name}"), differences),
            None if open => {}
            None => differences.push(format!("{at}.{name} is not in the schema")),
        }
    }
    let required = all.iter().flat_map(|part| part["required"].as_array()).flatten();
    let missing = required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name));
    differences.extend(missing.map(|name| format!("{at}.{name} is missing")));
}

/// A schema with all that it refers to and is put together from.
fn parts(schema: &Value) -> Vec<&Value> {
    let named = schema["$ref"].as_str().and_then(|path| DOCUMENT.pointer(path.trim_start_matches('#')));
    let others = named.into_iter().chain(schema["allOf"].as_array().into_iter().flatten());
    std::iter::once(schema).chain(others.flat_map(parts)).collect()
}

/// The operation of a path; literal parts go before names.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let fits = |template: &&String| {
        let (mut parts, mut names) = (path.split('/'), template.split('/'));
        loop {
            match (parts.next(), names.next()) {
                (None, None) => return true,
                (Some(part), Some(name)) if part == name || (name.starts_with('{') && !part.is_empty()) => {}
                _ => return false,
            }
        }
    };
    let paths = DOCUMENT["paths"].as_object()?;
    let template = paths.keys().filter(fits).min_by_key(|t| t.matches('{').count())?;
    paths[template].get(method.to_ascii_lowercase())
}
