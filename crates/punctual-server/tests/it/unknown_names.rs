//! Names that nobody knows are refused on every route: made from the route table and the OpenAPI document.

use crate::world::{Base, World};
use punctual_server::auth::Need;
use punctual_server::http::openapi::OPERATIONS;
use punctual_server::http::{Route, table};
use serde_json::json;

on_each! {
    plt_29_an_unknown_parameter_is_refused_on_every_route,
    plt_29_an_unknown_field_is_refused_on_every_route,
    plt_29_a_filter_knows_its_words,
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
        let Some(body) = operation.takes.filter(|body| !OTHER_BODIES.contains(body)) else { continue };
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
