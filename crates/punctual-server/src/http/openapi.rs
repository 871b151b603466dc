//! The OpenAPI document: one operation for every route, and the schemas of the types that it reads and
//! answers with.

mod components;
pub mod documents;
pub mod explanations;
mod operations;
mod parameters;
#[cfg(test)]
mod tests;
pub mod values;
pub mod words;

pub use components::BodyType;
pub use operations::{Content, Gives, OPERATIONS, Operation};
pub use parameters::Parameter;

use super::Route;
use super::api::requests::CloudEvent;
use super::error;
use super::idempotency::KeyScope;
use crate::auth::Need;
use axum::Json;
use components::{Components, subschema};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

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
    let (mut paths, mut parameters) = (Map::new(), headers());
    let mut components = Components::default();
    for route in routes {
        let Some(operation) = OPERATIONS.iter().find(|o| o.route == route.name) else {
            continue;
        };
        let (method, path) = route.method_and_path();
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[method.to_ascii_lowercase()] = describe(route, operation, &mut components);
        for one in operation.query {
            parameters.insert(one.component.to_owned(), one.describe(&mut components.requests));
        }
    }
    let responses = json!({"Problem": problem(&mut components.answers)});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Turns business events into messages and work that happen on time, once, and \
                            provably. \
                            Fields and operations may be added; those named here stay.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"}
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, or the root key."}
            },
            "parameters": parameters,
            "responses": responses,
            "schemas": components.schemas(),
        },
    })
}

/// The headers that requests may have.
fn headers() -> Map<String, Value> {
    let header = |name: &str, schema: Value, about: &str| {
        let description = about.to_owned();
        json!({"name": name, "in": "header", "required": false, "schema": schema, "description": description})
    };
    let slug = json!({"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"});
    let key = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x20-\\x7e]+$"});
    let tenant = "The tenant's slug, for the root key and keys of role ops; default otherwise.";
    let again = "The same key and body get the first answer again, for 24 hours; another body gets 409.";
    Map::from_iter([
        ("Tenant".to_owned(), header("Punctual-Tenant", slug, tenant)),
        ("IdempotencyKey".to_owned(), header("Idempotency-Key", key, again)),
    ])
}

fn problem(generator: &mut SchemaGenerator) -> Value {
    json!({
        "description": "What went wrong. 429 and 503 say in Retry-After when to come back.",
        "content": {"application/problem+json": {"schema": subschema::<error::Body<'static>>(generator)}}
    })
}

fn describe(route: &Route, operation: &Operation, components: &mut Components) -> Value {
    let path = route.method_and_path().1;
    let mut parameters: Vec<Value> =
        path_names(path).map(|name| path_parameter(path, name, &mut components.requests)).collect();
    parameters.extend(operation.query.iter().map(|one| reference("parameters", one.component)));
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
        "responses": responses(route.need, operation, &mut components.answers),
    });
    if let Some(of) = operation.takes {
        said["requestBody"] = body(of, operation.body_needed, &mut components.requests);
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

fn responses(need: Need, operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut all = Map::new();
    for gives in [Some(operation.gives), operation.or_gives].into_iter().flatten() {
        all.insert(gives.status.to_string(), answer(gives.content, generator));
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

fn answer(content: Content, generator: &mut SchemaGenerator) -> Value {
    match content {
        Content::Nothing => json!({"description": "Done; no content."}),
        Content::Text(media_type) => {
            json!({"description": "Text.", "content": {(media_type): {"schema": {"type": "string"}}}})
        }
        Content::Json(of) => {
            let schema = of.schema(generator);
            json!({"description": of.name(), "content": {"application/json": {"schema": schema}}})
        }
    }
}

fn body(of: BodyType, required: bool, generator: &mut SchemaGenerator) -> Value {
    let mut content = Map::new();
    let media_type = if of.name().ends_with("Form") { FORM } else { "application/json" };
    content.insert(media_type.into(), json!({"schema": of.schema(generator)}));
    if of.name() == "Events" {
        let (one, many) = (subschema::<CloudEvent>(generator), subschema::<Vec<CloudEvent>>(generator));
        content.insert("application/cloudevents+json".into(), json!({"schema": one}));
        content.insert("application/cloudevents-batch+json".into(), json!({"schema": many}));
    }
    json!({"required": required, "content": content})
}

fn reference(room: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{room}/{name}")})
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(path: &str, name: &str, generator: &mut SchemaGenerator) -> Value {
    let schema = match name {
        "topic" => subschema::<values::Topic>(generator),
        "key" => subschema::<values::ChannelKey>(generator),
        "publicId" => subschema::<values::PublicIdText>(generator),
        "address" => subschema::<values::RecipientAddress>(generator),
        "token" | "provider" => subschema::<String>(generator),
        "name" if path.starts_with("/api/jobs") => subschema::<values::JobName>(generator),
        "id" if path.starts_with("/api/entities") => subschema::<values::Name>(generator),
        "subscription" | "name" | "triggerId" | "kind" | "type" => subschema::<values::Name>(generator),
        _ => subschema::<values::IdText>(generator),
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
