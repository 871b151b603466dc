//! Every route, every role: made from the route table.

use crate::client::Client;
use crate::world::{Base, World};
use punctual::ClockMode;
use punctual::access::store::keys::Role;
use punctual_server::app::{Exposure, Settings};
use punctual_server::auth::Need;
use punctual_server::http::{Route, table};

on_each! { every_route_asks_for_its_role, a_public_listener_guards_health_and_metrics }

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
    let viewer = world.key(&world.root(), "viewer").await;
    for (path, as_viewer) in
        [("/health", 403), ("/metrics", 403), ("/health/live", 200), ("/health/ready", 200)]
    {
        assert_eq!(world.anybody().get(path).await.status, 401, "{path}");
        assert_eq!(viewer.get(path).await.status, as_viewer, "{path}");
        assert_eq!(world.root().get(path).await.status, 200, "{path}");
    }
}
