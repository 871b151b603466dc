//! Every route, every role: made from the route table.

use crate::client::Client;
use crate::world::{Base, World};
use punctual::ClockMode;
use punctual::access::store::keys::Role;
use punctual_server::app::{Exposure, Settings};
use punctual_server::auth::Need;
use punctual_server::http::{Route, table};
use serde_json::json;

on_each! {
    every_route_asks_for_its_role,
    a_public_listener_guards_health_and_metrics,
    only_operators_manage_keys_for_metrics,
}

/// A public id that nobody has.
const NOBODYS_LINK: &str = "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4";

/// The route with names filled in that exist nowhere.
async fn call(client: &Client, route: &Route) -> u16 {
    let (method, path) = route.method_and_path();
    let path = path.replace("{topic}", "orders").replace("{subscription}", "mail").replace("{id}", "999999");
    let path = path.replace("{name}", "nightly").replace("{key}", "memory:default");
    let path = path.replace("{publicId}", NOBODYS_LINK).replace("{token}", "nobodys-token");
    let path = path.replace("{provider}", "nobodys");
    let path = path.replace("{address}", "+9647700000001").replace("{type}", "booking");
    let body = if method == "GET" || method == "DELETE" { "" } else { "{}" };
    client.send(method, &path, body).await.status
}

async fn every_route_asks_for_its_role(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    world.tenant("other").await;
    let mut callers = Vec::new();
    for (role, word) in Role::ALL {
        callers.push((role, word, world.key(&acme, word).await));
    }
    for route in table() {
        let Need::Key(needed) = route.need else {
            let is_link = route.name.contains("{publicId}") || route.name.contains("{token}");
            let is_link = is_link || route.name.contains("{provider}");
            let want = if is_link { 404 } else { 200 };
            assert_eq!(call(&world.anybody(), &route).await, want, "{}", route.name);
            continue;
        };
        let name = route.name;
        assert_eq!(call(&world.anybody(), &route).await, 401, "{name} without a key");
        assert_eq!(call(&world.anybody().key("pk_wrong"), &route).await, 401, "{name} with a wrong key");
        assert_eq!(call(&world.root().tenant("nobody"), &route).await, 404, "{name} for nobody");
        for (role, word, client) in &callers {
            let status = call(client, &route).await;
            assert_eq!(status == 403, *role < needed, "{name} as {word}: {status}");
            assert!(status != 401 && status < 500, "{name} as {word}: {status}");
            let elsewhere = call(&client.tenant("other"), &route).await;
            assert_eq!(elsewhere == 403, *role < Role::Ops, "{name} as {word} elsewhere: {elsewhere}");
        }
    }
}

async fn a_public_listener_guards_health_and_metrics(base: Base) {
    let settings = Settings { exposure: Exposure::Public, ..Settings::default() };
    let world = World::start(base, ClockMode::Manual, settings).await;
    let (root, paths) = (world.root(), ["/health", "/metrics", "/health/live", "/health/ready"]);
    let table = [
        ("metrics", [403, 200, 200, 200]),
        ("viewer", [403, 403, 200, 200]),
        ("admin", [403, 403, 200, 200]),
        ("ops", [200, 200, 200, 200]),
    ];
    for (role, statuses) in table {
        let client = world.key(&root, role).await;
        for (path, status) in paths.into_iter().zip(statuses) {
            assert_eq!(client.get(path).await.status, status, "{path} as {role}");
        }
    }
    for path in paths {
        assert_eq!(world.anybody().get(path).await.status, 401, "{path}");
        assert_eq!(root.get(path).await.status, 200, "{path}");
    }
}

/// Metrics name the queues of every tenant, so an admin of one of them can neither make such a key nor
/// take it from the operators.
async fn only_operators_manage_keys_for_metrics(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    let admin = world.key(&acme, "admin").await;
    let wanted = json!({"name": "prometheus", "role": "metrics"});
    admin.post("/api/keys", wanted.clone()).await.problem(403);
    let made = acme.does("/api/keys", wanted, 201).await;
    assert_eq!(made["role"], "metrics");
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    admin.delete(&path).await.problem(403);
    assert_eq!(acme.delete(&path).await.status, 204);
}
