//! The OpenAPI document and the routes say the same.

use crate::surveys::csi_gr;
use crate::unknown_names::fill;
use crate::world::{Base, World};
use punctual_server::auth::Need;
use punctual_server::http::openapi::OPERATIONS;
use punctual_server::http::table;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn the_document_lists_every_route_and_no_other() {
    let world = World::manual(Base::Sqlite).await;
    let document = world.anybody().sees("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            described.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let routes: BTreeSet<String> = table().iter().map(|r| r.name.to_owned()).collect();
    assert_eq!(described, routes);
    let operations: BTreeSet<String> = OPERATIONS.iter().map(|o| o.route.to_owned()).collect();
    assert_eq!(operations, routes, "no description without its route");
    assert_eq!(OPERATIONS.len(), routes.len());
}

#[tokio::test]
async fn the_document_holds_together() {
    let world = World::manual(Base::Sqlite).await;
    let document = world.anybody().sees("/openapi.json").await;
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    for reference in &used {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(used.contains(&format!("#/components/schemas/{name}")), "{name} is used nowhere");
    }
    let mut ids = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            assert!(ids.insert(operation["operationId"].to_string()), "{operation}");
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

/// In debug builds `Page::filter` panics where a handler reads a parameter that its operation does not list.
#[tokio::test]
async fn every_parameter_that_a_handler_reads_is_in_its_operation() {
    let world = World::manual(Base::Sqlite).await;
    let root = world.root();
    root.does("/api/surveys", json!({"name": "s", "definition": csi_gr()}), 201).await;
    let job = json!({"topic": "t", "cron": "0 0 * * *"});
    assert_eq!(root.put("/api/jobs/nightly", job).await.status, 200);
    let mut routes = table();
    routes.retain(|route| matches!(route.need, Need::Key(_)));
    // What is deleted would not be read.
    routes.sort_by_key(|route| !route.name.starts_with("GET"));
    for route in routes {
        let (method, path) = route.method_and_path();
        let reply = root.send(method, &fill(path), "{}").await;
        assert!(reply.status < 500, "{} answered {}: {}", route.name, reply.status, reply.text);
    }
}

#[tokio::test]
async fn the_page_of_operations_needs_nothing_else() {
    let world = World::manual(Base::Sqlite).await;
    let page = world.anybody().get("/docs").await;
    assert_eq!(page.status, 200);
    for route in table() {
        assert!(page.text.contains(route.method_and_path().1), "{}", route.name);
    }
    assert!(!page.text.contains("://"), "nothing is fetched from elsewhere");
}

/// The names of the contract, a line for each operation, parameter, schema and field: a review sees what a
/// change of a type does to the document.
#[test]
fn the_document_says_what_it_said() {
    let document = punctual_server::http::openapi::document(&table());
    let mut lines = operations(&document);
    for (name, about) in document["components"]["parameters"].as_object().unwrap() {
        lines.push(format!("?{name} {} {}", about["name"].as_str().unwrap(), kind(&about["schema"])));
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        lines.push(format!("{name} {}", kind(schema)));
        let needed: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
        for (field, about) in schema["properties"].as_object().into_iter().flatten() {
            let mark = if needed.contains(&json!(field)) { "" } else { "?" };
            lines.push(format!("  {field}{mark} {}", kind(about)));
        }
    }
    let said = lines.join("\n") + "\n";
    let kept = include_str!("openapi.txt");
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (kept.lines().collect(), said.lines().collect());
    let changed: Vec<&str> = old.symmetric_difference(&new).copied().collect();
    let place = format!("{}/openapi.txt", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&place, &said).unwrap();
    assert!(
        said == kept,
        "the contract changed in {changed:#?}; if it should, copy {place} to tests/it/openapi.txt"
    );
}

fn operations(document: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let taken = operation["requestBody"]["content"].as_object().into_iter().flatten();
            let taken: Vec<String> =
                taken.map(|(media, body)| format!("{media}={}", kind(&body["schema"]))).collect();
            let given = operation["responses"].as_object().unwrap().iter();
            let given: Vec<&str> = given.map(|(status, _)| status.as_str()).collect();
            lines.push(format!(
                "{} {path} {} -> {}",
                method.to_uppercase(),
                taken.join(" "),
                given.join(" ")
            ));
        }
    }
    lines
}

/// A schema in a word or two.
fn kind(schema: &Value) -> String {
    let name =
        |schema: &Value| schema["$ref"].as_str().map(|path| path.rsplit('/').next().unwrap().to_owned());
    let mut said = name(schema).unwrap_or_default();
    for list in ["anyOf", "oneOf"] {
        let all: Vec<String> = schema[list].as_array().into_iter().flatten().map(kind).collect();
        said += &all.join("|");
    }
    if schema["type"].is_string() || schema["type"].is_array() {
        said += &schema["type"].to_string().replace(['"', '[', ']'], "").replace(',', "|");
    }
    if schema["items"].is_object() {
        said += &format!("<{}>", kind(&schema["items"]));
    }
    for limit in
        ["format", "enum", "const", "minLength", "maxLength", "minimum", "maximum", "maxItems", "pattern"]
    {
        if let Some(value) = schema.get(limit) {
            said += &format!(" {limit}={value}");
        }
    }
    if schema["additionalProperties"] == json!(false) { said + " and no more" } else { said }
}
