//! Every route, every role, with another tenant's ids: made from the route table.
//!
//! One tenant has something of every noun, made by the real engine, with a mark in all its words. The
//! callers are of another tenant, and know everything the first one knows: names, numbers, tokens. No answer
//! holds the mark, what is asked for by number is not there, and no row of the first tenant changes. A route
//! that cannot be called because nobody said how fails the test: a new one must be added in `cases.rs`.

pub mod cases;
mod rows;
pub mod seed;

use crate::client::{Client, Reply};
use crate::world::{Base, World};
use cases::Case;
use punctual::access::store::keys::Role;
use punctual::delivery::rules::receipt::{Receipt, ReceiptStatus};
use punctual::delivery::store::receipts::ReceiptBatch;
use punctual::testing::{Backend, TemporaryStore};
use punctual::{ClockMode, Engine};
use punctual_server::app::Settings;
use punctual_server::auth::Need;
use punctual_server::http::{Route, table};
use rows::Rows;
use seed::{Known, MARK};

on_each! {
    ntf_23_no_route_gives_or_takes_what_is_anothers,
    ntf_23_an_idempotency_key_is_its_tenants,
}

/// The slug of the tenant that has everything.
const THEIRS: &str = "beta";

struct Scene {
    world: World,
    place: TemporaryStore,
    known: Known,
}

async fn scene(base: Base) -> Scene {
    let backend = match base {
        Base::Sqlite => Backend::Sqlite,
        Base::Postgres => Backend::Postgres,
    };
    let place = TemporaryStore::new(backend).await.unwrap();
    let engine = Engine::builder(place.url()).pool_size(4).clock(ClockMode::Manual).open().await.unwrap();
    engine.start();
    let world = World::serve(engine.clone(), Settings::default()).await;
    let theirs = world.tenant(THEIRS).await;
    let known = seed::everything(&world, &theirs).await;
    report(&engine, &place, base).await;
    Scene { world, place, known }
}

/// A provider tells what became of the tenant's message.
async fn report(engine: &Engine, place: &TemporaryStore, base: Base) {
    let table = if matches!(base, Base::Sqlite) { "punctual_delivery" } else { "punctual.delivery" };
    let ids = place.sql(&[format!("select provider_id from {table}")]).await.unwrap();
    let receipt = Receipt {
        occurred_at: None,
        message_id: ids[0][0][0].clone(),
        address: None,
        status: ReceiptStatus::Delivered,
        said: MARK.to_owned(),
        error: None,
        event_id: None,
    };
    let (provider, channels) = ("twilio-sms".to_owned(), vec!["memory:sms".to_owned()]);
    let outcome =
        engine.record_receipts(ReceiptBatch { provider, channels, receipts: vec![receipt] }).await.unwrap();
    assert_eq!(outcome.new, [ReceiptStatus::Delivered]);
}

/// NTF-23
async fn ntf_23_no_route_gives_or_takes_what_is_anothers(base: Base) {
    let Scene { world, place, known } = scene(base).await;
    let ours = world.tenant("alpha").await;
    let mut callers = Vec::new();
    for (role, word) in Role::ALL {
        callers.push((role, word, world.key(&ours, word).await));
    }
    let before = Rows::of(&place, base).await;
    before.hold_something_everywhere();
    // Looks first: what the callers make themselves would be in their lists.
    let (looks, deeds): (Vec<Route>, Vec<Route>) =
        table().into_iter().partition(|route| route.name.starts_with("GET"));
    for route in looks.into_iter().chain(deeds) {
        let Need::Key(needed) = route.need else { continue };
        let cases = cases::of(&route, &known);
        for (role, word, client) in &callers {
            // Who operates the whole house may do what concerns all tenants, and choose one by the header.
            if needed == Role::Ops && *role == Role::Ops {
                continue;
            }
            for case in &cases {
                let reply = call(client, &route, case).await;
                judge(&route, word, case, &reply, *role >= needed);
                if *role < Role::Ops {
                    let elsewhere = call(&client.tenant(THEIRS), &route, case).await;
                    assert_eq!(elsewhere.status, 403, "{} as {word} for {THEIRS}", route.name);
                    assert!(!elsewhere.text.contains(MARK), "{}: {}", route.name, elsewhere.text);
                }
            }
        }
        before.stand_in(&Rows::of(&place, base).await, route.name);
    }
    for path in ["/health", "/metrics", "/openapi.json"] {
        let reply = world.anybody().get(path).await;
        assert!(reply.status == 200 && !reply.text.contains(MARK), "{path}: {}", reply.text);
    }
}

async fn call(client: &Client, route: &Route, case: &Case) -> Reply {
    let body = case.body.as_ref().map(ToString::to_string).unwrap_or_default();
    client.send(route.method_and_path().0, &case.path, &body).await
}

fn judge(route: &Route, role: &str, case: &Case, reply: &Reply, may: bool) {
    let what =
        format!("{} as {role} ({} {:?}): {} {}", route.name, case.path, case.body, reply.status, reply.text);
    assert!(!reply.text.contains(MARK), "an answer holds what is another tenant's: {what}");
    assert_eq!(reply.status == 403, !may, "{what}");
    if may && case.by_number {
        assert_eq!(reply.status, 404, "what is another tenant's should not be there: {what}");
    }
    assert!(reply.status < 500 && reply.status != 401, "{what}");
    let refused = matches!(reply.status, 400 | 413 | 415 | 422);
    assert!(!may || !refused || case.is_refused_for_its_extras(reply), "it should reach its verb: {what}");
    let empty = reply.status != 200 || reply.text.is_empty() || cases::nothing_of(reply);
    assert!(!may || !case.lists || empty, "a list should be empty: {what}");
}

/// NTF-23: the same key of another tenant is another key.
async fn ntf_23_an_idempotency_key_is_its_tenants(base: Base) {
    let Scene { world, place, .. } = scene(base).await;
    let ours = world.tenant("alpha").await;
    let before = Rows::of(&place, base).await;
    let event = serde_json::json!({"topic": "orders", "kind": "order.placed", "payload": {}});
    let reply = ours.with("idempotency-key", seed::ONCE).post("/api/events", event).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    before.stand_in(&Rows::of(&place, base).await, "an Idempotency-Key of another tenant");
}
