//! The OpenAPI document: one operation for every route, and the schemas they name.

mod operations;
#[cfg(test)]
mod tests;

pub use operations::{OPERATIONS, Operation};

use super::Route;
use super::idempotency::KeyScope;
use crate::auth::Need;
use axum::Json;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Schemas and parameters, as JSON.
const COMPONENTS: &str = include_str!("openapi/components.json");

/// The media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// The document, made once.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&super::table()));

/// `GET /openapi.json`
pub async fn show() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

/// The document of a route table.
#[must_use]
pub fn document(routes: &[Route]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let Some(operation) = OPERATIONS.iter().find(|o| o.route == route.name) else {
            continue;
        };
        let (method, path) = route.method_and_path();
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[method.to_ascii_lowercase()] = describe(route, operation);
    }
    let components: Value = serde_json::from_str(COMPONENTS).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Business events into messages and work that happen on time, once, and provably. \
                            Fields and operations may be added; those named here stay.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"}
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": components,
    })
}

fn describe(route: &Route, operation: &Operation) -> Value {
    let path = route.method_and_path().1;
    let mut parameters: Vec<Value> = path_names(path).map(|name| path_parameter(path, name)).collect();
    parameters.extend(operation.query.iter().map(|name| reference("parameters", name)));
    if let Need::Key(_) = route.need {
        parameters.push(reference("parameters", "Tenant"));
    }
    if KeyScope::of(route).is_some() {
        parameters.push(reference("parameters", "IdempotencyKey"));
    }
    let mut said = json!({
        "operationId": operation_id(route.name),
        "tags": [tag(path)],
        "summary": operation.summary,
        "description": who(route.need),
        "parameters": parameters,
        "responses": responses(route.need, operation),
    });
    if let Some(schema) = operation.takes {
        said["requestBody"] = body(schema, operation.body_needed);
    }
    if !matches!(route.need, Need::Key(_)) {
        said["security"] = json!([]);
    }
    said
}

fn who(need: Need) -> String {
    match need {
        Need::Nothing => "Needs no key.".into(),
        Need::Private(role) => {
            format!(
                "Needs no key on this machine, and the role `{}` elsewhere or through a proxy.",
                role.word()
            )
        }
        Need::Metrics => {
            "Needs no key on this machine, and the role `metrics` or `ops` elsewhere or through a proxy."
                .into()
        }
        Need::Probe => "Needs no key on a private listener, and one of any role elsewhere.".into(),
        Need::Key(role) => format!("Needs the role `{}`.", role.word()),
    }
}

fn responses(need: Need, operation: &Operation) -> Value {
    let schema = operation.gives.1;
    let mut all = Map::new();
    for (status, schema) in [Some(operation.gives), operation.or_gives].into_iter().flatten() {
        all.insert(status.to_string(), answer(schema));
    }
    if schema == "Health" || schema == "Status" {
        all.insert("503".into(), answer(schema));
    }
    for status in problems(need, operation) {
        all.entry(status.to_string()).or_insert_with(|| reference("responses", "Problem"));
    }
    Value::Object(all)
}

/// The statuses of refusals and trouble, beside those that the operation names itself. Pages say on a page
/// what is wrong, with the same statuses.
fn problems(need: Need, operation: &Operation) -> Vec<u16> {
    // Any request can be unreadable, for a foreign host, encoded, or meet trouble of ours.
    let mut all = vec![400, 414, 415, 421, 431, 500, 503];
    let (method, path) = operation.route.split_once(' ').unwrap_or(("GET", operation.route));
    let is_public = need == Need::Nothing && path.contains('{');
    if need != Need::Nothing {
        all.extend([401, 403, 404]);
    }
    if matches!(need, Need::Key(_)) {
        all.push(422);
    }
    if method != "GET" {
        all.extend([408, 413]);
    }
    if (method != "GET" && !is_public) || path.starts_with("/dev/") {
        all.push(409);
    }
    if is_public {
        all.extend([404, 409, 410, 422, 429]);
    }
    if path.ends_with("/claim") {
        all.push(429);
    }
    if path.starts_with("/webhooks/") {
        all.extend([401, 403]);
    }
    all
}

fn answer(schema: &str) -> Value {
    match schema {
        "" => json!({"description": "Done; no content."}),
        "text/html" | "text/plain" | "text/csv" => {
            json!({"description": "Text.", "content": {(schema): {"schema": {"type": "string"}}}})
        }
        name => {
            json!({"description": name, "content": {"application/json": {"schema": schema_of(name)}}})
        }
    }
}

fn body(schema: &str, required: bool) -> Value {
    let mut content = Map::new();
    let media_type = if schema.ends_with("Form") { FORM } else { "application/json" };
    content.insert(media_type.into(), json!({"schema": schema_of(schema)}));
    if schema == "Events" {
        let (one, many) =
            (schema_of("CloudEvent"), json!({"type": "array", "items": schema_of("CloudEvent")}));
        content.insert("application/cloudevents+json".into(), json!({"schema": one}));
        content.insert("application/cloudevents-batch+json".into(), json!({"schema": many}));
    }
    json!({"required": required, "content": content})
}

fn schema_of(name: &str) -> Value {
    match name.strip_suffix("[]") {
        None => reference("schemas", name),
        Some(item) => json!({
            "type": "object",
            "required": ["items", "nextCursor"],
            "properties": {
                "items": {"type": "array", "items": reference("schemas", item)},
                "nextCursor": {"type": ["string", "null"], "description": "Where the next part begins."}
            }
        }),
    }
}

fn reference(room: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{room}/{name}")})
}

/// The name of a query parameter among the components, and the words that it may be.
pub(super) fn parameter(component: &str) -> Option<(String, Vec<String>)> {
    let components = &DOCUMENT["components"];
    let parameter = &components["parameters"][component];
    let mut schema = &parameter["schema"];
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        schema = &components["schemas"][name];
    }
    let words = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Some((parameter["name"].as_str()?.to_owned(), words.map(str::to_owned).collect()))
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(path: &str, name: &str) -> Value {
    let schema = match name {
        "topic" => reference("schemas", "Topic"),
        "key" => reference("schemas", "ChannelKey"),
        "publicId" => reference("schemas", "PublicId"),
        "address" => reference("schemas", "RecipientAddress"),
        "token" | "provider" => json!({"type": "string"}),
        "name" if path.starts_with("/api/jobs") => reference("schemas", "JobName"),
        "id" if path.starts_with("/api/entities") => reference("schemas", "Name"),
        "subscription" | "name" | "triggerId" | "kind" | "type" => reference("schemas", "Name"),
        _ => json!({"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}),
    };
    json!({"name": name, "in": "path", "required": true, "schema": schema})
}

/// `POST /api/queues/{topic}/claim` is `postQueuesTopicClaim`.
fn operation_id(route: &str) -> String {
    let words = route.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty() && *w != "api");
    words.enumerate().fold(String::new(), |mut id, (n, word)| {
        let word = word.to_ascii_lowercase();
        let (first, rest) = word.split_at(1);
        id.push_str(&if n == 0 { first.to_owned() } else { first.to_ascii_uppercase() });
        id.push_str(rest);
        id
    })
}

fn tag(path: &str) -> &str {
    let mut parts = path.split('/').filter(|p| !p.is_empty());
    match parts.next() {
        Some("api") => parts.next().unwrap_or("api"),
        Some("dev") => "dev",
        Some("ops") => "ops",
        Some("s" | "u") => "public",
        _ => "server",
    }
}
