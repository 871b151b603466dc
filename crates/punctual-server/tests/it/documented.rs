//! Every status that a test meets stands in the OpenAPI document.

use punctual_server::http::openapi::document;
use punctual_server::http::table;
use serde_json::Value;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&table()));

/// Fails for an answer of a route that its operation does not name.
pub fn check(method: &str, target: &str, status: u16) {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let Some(operation) = operation(method, path) else { return };
    let named = &operation["responses"];
    assert!(
        named.get(status.to_string()).is_some(),
        "{method} {path} answered {status}, which OpenAPI lacks"
    );
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
