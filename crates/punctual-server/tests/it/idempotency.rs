//! `Idempotency-Key`.

use crate::client::Reply;
use crate::isolation::{cases, seed};
use crate::surveys::{csi_gr, invite, publish};
use crate::world::{Base, World, claim};
use punctual::ClockMode;
use punctual_faulty_disk::{Fault, FaultTarget, heal, install, plan};
use punctual_server::app::Settings;
use punctual_server::http::idempotency::KeyScope;
use punctual_server::http::table;
use serde_json::{Value, json};

on_each! {
    a_repeated_request_gets_the_first_answer, a_key_is_free_again_after_a_day, a_secret_is_shown_once,
    keys_are_the_tenants_own, every_post_answers_a_repeated_request, a_repeated_response_gets_the_first_answer
}

async fn a_repeated_request_gets_the_first_answer(base: Base) {
    let world = World::manual(base).await;
    let once = world.root().with("idempotency-key", "abc");
    let event = json!({"topic": "t", "kind": "k", "payload": 1});
    let first = once.post("/api/events", event.clone()).await;
    let again = once.post("/api/events", event).await;
    assert_eq!((again.status, &again.text), (202, &first.text));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    assert_eq!(claim(&world.root(), "t").await.len(), 1);
    once.post("/api/events", json!({"topic": "t", "kind": "k", "payload": 2})).await.problem(409);
    once.post("/api/queues/t/pause", json!({})).await.problem(409);
    let wrong = world.root().with("idempotency-key", "wrong");
    for _ in 0..2 {
        assert_eq!(
            wrong.post("/api/events", json!({"topic": "t", "kind": "k"})).await.problem(422),
            ["payload"]
        );
    }
    let long = world.root().with("idempotency-key", &"x".repeat(256));
    assert_eq!(long.post("/api/events", json!({})).await.problem(422), ["Idempotency-Key"]);
}

/// A nightly job that sends the same key every night is carried out every night.
async fn a_key_is_free_again_after_a_day(base: Base) {
    let world = World::manual(base).await;
    let once = world.root().with("idempotency-key", "nightly");
    for night in 1..=2 {
        let first = once.post("/api/events", json!({"topic": "t", "kind": "k", "payload": 1})).await;
        assert_eq!((first.status, first.header("idempotent-replayed")), (202, ""), "night {night}");
        // No worker acknowledges the message of the first night, so it is claimed again on the second.
        assert_eq!(claim(&world.root(), "t").await.len(), night, "night {night}");
        world.advance("25h").await;
        let hour = std::time::Duration::from_secs(3_600);
        world.engine.store().prune_rest(hour, hour).await.unwrap();
    }
}

async fn a_secret_is_shown_once(base: Base) {
    let world = World::manual(base).await;
    let once = world.root().with("idempotency-key", "abc");
    let key = json!({"name": "n", "role": "viewer"});
    let first = once.does("/api/keys", key.clone(), 201).await;
    let again = once.does("/api/keys", key, 201).await;
    assert!(first["key"].as_str().unwrap().starts_with("pk_"));
    assert_eq!((&again["key"], &again["id"]), (&json!(null), &first["id"]));
}

async fn keys_are_the_tenants_own(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    for client in [world.root(), acme] {
        let once = client.with("idempotency-key", "abc");
        let event = json!({"topic": "t", "kind": "k", "payload": 1});
        assert_eq!(once.post("/api/events", event).await.header("idempotent-replayed"), "");
    }
}

/// Forms of browsers and callbacks of providers: neither sends the header.
const WITHOUT_A_KEY: [&str; 3] = ["POST /s/{publicId}", "POST /u/{token}", "POST /webhooks/{provider}"];

fn is_replayed(reply: &Reply) -> bool {
    reply.header("idempotent-replayed") == "true"
}

/// Every POST route of the table, called as somebody would call it who has something of every noun.
async fn every_post_answers_a_repeated_request(base: Base) {
    let world = World::manual(base).await;
    let beta = world.tenant("beta").await;
    let known = seed::everything(&world, &beta).await;
    let posts = || table().into_iter().filter(|route| route.name.starts_with("POST "));
    let without: Vec<&str> = posts().filter(|r| KeyScope::of(r).is_none()).map(|r| r.name).collect();
    let mut wanted = WITHOUT_A_KEY;
    wanted.sort_unstable_by_key(|name| without.iter().position(|one| one == name));
    assert_eq!(without, wanted, "a POST route without Idempotency-Key is a documented exception");
    for route in posts().filter(|route| KeyScope::of(route).is_some()) {
        let name = route.name;
        let once = match KeyScope::of(&route) {
            Some(KeyScope::Link) => world.anybody(),
            _ => beta.clone(),
        };
        let once = once.with("idempotency-key", name);
        let case = cases::of(&route, &known).remove(0);
        let body = case.body.unwrap();
        let first = once.post(&case.path, body.clone()).await;
        let again = once.post(&case.path, body).await;
        assert!(first.status < 500 && !is_replayed(&first), "{name}: {} {}", first.status, first.text);
        assert!(is_replayed(&again), "{name}: {} {}", again.status, again.text);
        assert_eq!(again.status, first.status, "{name}: {}", first.text);
        // A secret is shown once.
        assert!(again.text == first.text || name == "POST /api/keys", "{name}: {}", again.text);
        let other = once.post(&case.path, json!({"other": true})).await;
        assert_eq!((other.status, is_replayed(&other)), (409, false), "{name}: {}", other.text);
    }
}

/// TRG-22: a front end that lost the answer gets it again; a key belongs to one link.
async fn a_repeated_response_gets_the_first_answer(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, csi_gr()).await;
    let (one, two) = (invite(&root, "1").await, invite(&root, "2").await);
    let path = |id: &str, verb: &str| format!("/api/SurveyInstances/{id}/{verb}");
    let once = world.anybody().with("idempotency-key", "abc");
    let answers = json!({"answers": {"rate": 9, "has-a-complaint": "No"}});
    let opened = once.post(&path(&one, "opened"), json!({})).await;
    assert_eq!((opened.status, is_replayed(&opened)), (204, false));
    let once = once.with("idempotency-key", "def");
    let first = once.post(&path(&one, "responses"), answers.clone()).await;
    world.advance("1m").await;
    let again = once.post(&path(&one, "responses"), answers.clone()).await;
    assert_eq!((first.status, is_replayed(&first)), (200, false), "{}", first.text);
    assert_eq!((again.status, &again.text, is_replayed(&again)), (200, &first.text, true));
    let other = json!({"answers": {"rate": 1, "has-a-complaint": "No"}});
    once.post(&path(&one, "responses"), other.clone()).await.problem(409);
    world.anybody().post(&path(&one, "responses"), answers).await.problem(409);
    let own = once.post(&path(&two, "responses"), other).await;
    assert_eq!((own.status, is_replayed(&own)), (200, false), "the key of another link: {}", own.text);
    let event = json!({"topic": "t", "kind": "k", "payload": 1});
    let tenants = root.with("idempotency-key", "def").post("/api/events", event).await;
    assert_eq!((tenants.status, is_replayed(&tenants)), (202, false), "the tenant's own key");
    once.post(&path("8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4", "responses"), json!({})).await.problem(404);
}

/// PLT-3: the server reports a failed commit as unknown, with advice, and the advice is good: at each write
/// or flush the disk fails, the same request again is carried out once.
#[tokio::test]
async fn plt_3_a_request_whose_commit_failed_is_safe_to_repeat() {
    install();
    let folder = std::env::temp_dir().join(format!("punctual_repeat_{}", punctual::base::random::hex::<8>()));
    std::fs::create_dir(&folder).unwrap();
    let database = folder.join("punctual.db");
    let url = format!("sqlite:{}", database.display());
    let world = World::furnished(url, ClockMode::Manual, Settings::default(), |builder| builder).await;
    let event = json!({"topic": "t", "kind": "k", "payload": 1});
    let timer = json!({"topic": "later", "payload": 1, "delay": "1h"});
    let (mut unknown, mut requests) = (0, 0);
    for (path, body) in [("/api/events", event), ("/api/timers", timer)] {
        for n in 1.. {
            let once = world.root().with("idempotency-key", &format!("{path} {n}"));
            plan(&database, FaultTarget::Nth(n), Fault::Done);
            let first = once.post(path, body.clone()).await;
            requests += 1;
            if heal(&database).is_empty() {
                break;
            }
            unknown += usize::from(first.status == 503);
            if first.status == 503 {
                let detail = serde_json::from_str::<Value>(&first.text).unwrap()["detail"].to_string();
                assert!(
                    detail.contains("repeat events and timers with the same Idempotency-Key"),
                    "{detail}"
                );
            }
            let mut again = once.post(path, body.clone()).await;
            if again.status == 409 {
                // The answer could not be kept, so the key is reserved for a while.
                world.advance("61s").await;
                again = once.post(path, body.clone()).await;
            }
            assert!(again.status / 100 == 2, "{}: {}", again.status, again.text);
            assert!(!again.text.contains("\"accepted\":0") && !again.text.contains("\"duplicate\":true"));
        }
    }
    assert!(unknown > 2, "some commits should have failed: {unknown}");
    let connection = rusqlite::Connection::open(&database).unwrap();
    let sql = "select count(*) from punctual_message";
    let messages: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(messages, requests, "every request was carried out once");
    std::fs::remove_dir_all(&folder).ok();
}
