//! Names that nobody knows are refused on every route: made from the route table and the OpenAPI document.

use crate::world::{Base, World};
use punctual_server::auth::Need;
use punctual_server::http::openapi::{BodyType, OPERATIONS};
use punctual_server::http::{Route, table};
use serde_json::{Value, json};

on_each! {
    plt_29_an_unknown_parameter_is_refused_on_every_route,
    plt_29_an_unknown_field_is_refused_on_every_route,
    plt_29_a_filter_knows_its_words,
    plt_29_what_may_be_null_is_left_out,
    plt_29_an_unknown_inner_field_is_refused,
}

/// Bodies whose items are read one by one, and what is not read as fields.
const OTHER_BODIES: [&str; 2] = ["ProviderCallback", "UnsubscribeForm"];

/// A route's path with names that nothing has.
fn path(route: &Route) -> String {
    fill(route.method_and_path().1)
}

/// A path of the document with names that nothing has.
pub fn fill(path: &str) -> String {
    let path = path.replace("{topic}", "orders").replace("{subscription}", "mail").replace("{id}", "1");
    let path = path.replace("{name}", "nightly").replace("{key}", "memory:default").replace("{n}", "1");
    let path =
        path.replace("{publicId}", "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4").replace("{type}", "booking");
    path.replace("{address}", "+9647700000001").replace("{kind}", "k").replace("{triggerId}", "t")
}

async fn plt_29_an_unknown_parameter_is_refused_on_every_route(base: Base) {
    let world = World::manual(base).await;
    for route in table().iter().filter(|route| matches!(route.need, Need::Key(_))) {
        let (method, _) = route.method_and_path();
        let reply = world.root().send(method, &format!("{}?zzzz=1", path(route)), "{}").await;
        assert_eq!(reply.problem(422), ["zzzz"], "{}", route.name);
    }
    let slip = world.root().get("/api/automation-schedules?bokingId=1").await;
    assert_eq!(slip.problem(422), ["bokingId"]);
    assert!(slip.text.contains("did you mean `bookingId`?"), "{}", slip.text);
}

/// What a path names is checked before its body, so a route may also say that it is not there.
async fn plt_29_an_unknown_field_is_refused_on_every_route(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.put("/api/queues/orders", json!({})).await;
    root.put("/api/subscriptions/orders/mail", json!({"target": {"type": "queue"}, "enabled": true})).await;
    let survey = json!({"name": "s", "definition": crate::surveys::csi_gr()});
    root.does("/api/surveys", survey, 201).await;
    let template = json!({"eventType": "k", "channel": "SMS", "language": "en", "body": "b"});
    root.does("/api/message-templates", template, 201).await;
    let mut checked = 0;
    for route in table().iter().filter(|route| matches!(route.need, Need::Key(_))) {
        let operation = OPERATIONS.iter().find(|operation| operation.route == route.name).unwrap();
        let body = operation.takes.map(BodyType::name).filter(|body| !OTHER_BODIES.contains(&body.as_ref()));
        let Some(body) = body else { continue };
        let (method, _) = route.method_and_path();
        let reply = root.send(method, &path(route), &json!({"zzzz": 1}).to_string()).await;
        if reply.status == 404 && route.name.contains('{') {
            continue;
        }
        let found = reply.problem(422);
        assert!(found.contains(&"zzzz".to_owned()), "{} takes {body}: {}", route.name, reply.text);
        checked += 1;
    }
    assert!(checked > 35, "only {checked} routes were asked");
}

/// Objects of request bodies that keep what they do not know, on purpose: a claimed item may be handed back
/// as it is, and a CloudEvent may have any extension attribute.
const OPEN: [&str; 2] = ["SettleItem", "CloudEvent"];

/// The objects with fields in the schema of a body that would let an unknown field pass.
fn find_open(document: &Value, schema: &Value, at: &str, open: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let last = name.rsplit('/').next().unwrap();
        if !OPEN.contains(&last) {
            find_open(document, document.pointer(&name[1..]).unwrap(), last, open);
        }
        return;
    }
    if schema.get("properties").is_some() && schema["additionalProperties"] != json!(false) {
        open.push(at.to_owned());
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        find_open(document, inner, &format!("{at}.{name}"), open);
    }
    for inner in ["items", "additionalProperties"].iter().filter_map(|name| schema.get(name)) {
        find_open(document, inner, &format!("{at}[]"), open);
    }
    for inner in ["oneOf", "anyOf", "allOf"].iter().filter_map(|name| schema[name].as_array()).flatten() {
        find_open(document, inner, at, open);
    }
}

/// PLT-29: what the server refuses is refused by its document as well.
#[test]
fn plt_29_the_document_refuses_unknown_fields() {
    let document = punctual_server::http::openapi::document(&table());
    let (mut open, mut bodies) = (Vec::new(), 0);
    for operation in
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap())
    {
        for body in operation.1["requestBody"]["content"].as_object().into_iter().flatten() {
            find_open(&document, &body.1["schema"], "", &mut open);
            bodies += 1;
        }
    }
    assert!(bodies > 35, "only {bodies} bodies were looked at");
    assert_eq!(open, [""; 0], "these objects should have `additionalProperties: false`");
}

/// PLT-29: so are fields of objects within a body.
async fn plt_29_an_unknown_inner_field_is_refused(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let entity = json!({"type": "booking", "id": "1", "zzzz": 1});
    let event = json!({"topic": "t", "kind": "k", "payload": 1, "entity": entity});
    assert_eq!(root.post("/api/events", event).await.problem(422), ["entity.zzzz"]);
    let timer = json!({"topic": "t", "payload": 1, "delay": "1h", "entity": entity});
    assert_eq!(root.post("/api/timers", timer).await.problem(422), ["entity.zzzz"]);
    let backoff = json!({"backoff": {"from": "1s", "to": "1m", "zzzz": 1}});
    assert_eq!(root.put("/api/queues/orders", backoff).await.problem(422), ["backoff"]);
}

async fn plt_29_a_filter_knows_its_words(base: Base) {
    let world = World::manual(base).await;
    let document = world.root().sees("/openapi.json").await;
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for parameter in item["get"]["parameters"].as_array().into_iter().flatten() {
            let Some(named) = parameter["$ref"].as_str() else { continue };
            let parameter = document.pointer(&named[1..]).unwrap();
            let mut schema = &parameter["schema"];
            if let Some(named) = schema["$ref"].as_str() {
                schema = document.pointer(&named[1..]).unwrap();
            }
            let Some(word) = schema["enum"][0].as_str() else { continue };
            let name = parameter["name"].as_str().unwrap();
            let ask = |word: String| {
                let (root, target) = (world.root(), format!("{path}?{name}={word}"));
                async move { root.get(&target).await }
            };
            assert_eq!(ask(word.to_owned()).await.status, 200, "{path} {name}");
            assert_eq!(ask(word.to_lowercase()).await.status, 200, "{path} {name}");
            let reply = ask(format!("{word}x")).await;
            assert_eq!(reply.problem(422), [name], "{path}");
            assert!(reply.text.contains(&format!("did you mean `{word}`?")), "{}", reply.text);
            asked += 1;
        }
    }
    assert!(asked >= 6, "only {asked} parameters have words");
}

/// The problems that an answer lists.
fn errors(text: &str) -> Value {
    serde_json::from_str::<Value>(text).map(|mut answer| answer["errors"].take()).unwrap_or_default()
}

/// PLT-29: a field that the document lets be null is read as one that is left out.
async fn plt_29_what_may_be_null_is_left_out(base: Base) {
    let world = World::manual(base).await;
    let document = punctual_server::http::openapi::document(&table());
    let (mut asked, mut refused) = (0, Vec::new());
    for route in table().iter().filter(|route| matches!(route.need, Need::Key(_))) {
        let (method, template) = route.method_and_path();
        let operation = &document["paths"][template][method.to_ascii_lowercase()];
        let mut schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if let Some(named) = schema["$ref"].as_str() {
            schema = document.pointer(&named[1..]).unwrap();
        }
        for (field, about) in schema["properties"].as_object().into_iter().flatten() {
            let is_null = |schema: &Value| schema["type"] == "null";
            let any_of = about["anyOf"].as_array().is_some_and(|all| all.iter().any(is_null));
            if !any_of && !about["type"].as_array().is_some_and(|types| types.contains(&json!("null"))) {
                continue;
            }
            let alone = world.root().send(method, &path(route), "{}").await;
            let reply = world.root().send(method, &path(route), &json!({ (field): null }).to_string()).await;
            if (reply.status, errors(&reply.text)) != (alone.status, errors(&alone.text)) {
                refused.push(format!("{} with {field}: {}", route.name, reply.text));
            }
            asked += usize::from(reply.status == 422 || reply.status < 300);
        }
    }
    assert!(refused.is_empty(), "null is refused, or is not as if left out: {refused:#?}");
    assert!(asked > 60, "only {asked} fields were asked");
}
