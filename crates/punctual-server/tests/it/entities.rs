//! The latest state of entities over HTTP, and events that tell it.

use crate::client::Client;
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    ntf_3_an_entity_over_http,
    ntf_3_a_bad_state_is_told_everything,
    ntf_3_an_event_tells_the_state_of_its_entity,
    ntf_3_a_viewer_sees_no_state,
    ntf_3_an_entity_is_found_by_its_tenant_only,
}

const PATH: &str = "/api/entities/booking/12345";

async fn put(client: &Client, body: Value) -> Value {
    let reply = client.put(PATH, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// NTF-3, PRD-18: put, seen, fenced by its version, deleted, and back.
async fn ntf_3_an_entity_over_http(base: Base) {
    let root = World::manual(base).await.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    root.get(PATH).await.problem(404);
    let made = put(&root, json!({"state": {"status": "Confirmed"}, "version": 5})).await;
    let mut want = json!({"type": "booking", "id": "12345", "state": {"status": "Confirmed"}, "version": 5,
        "updatedAt": "2026-05-14T05:13:00Z", "applied": true});
    assert_eq!(made, want);
    want.as_object_mut().unwrap().remove("applied");
    assert_eq!(root.sees(PATH).await, want);
    let older = put(&root, json!({"state": {"status": "New"}, "version": 4})).await;
    assert_eq!((&older["applied"], &older["state"]["status"]), (&json!(false), &json!("Confirmed")));
    assert_eq!(root.sees(PATH).await, want, "an older version changes nothing");
    let unversioned = put(&root, json!({"state": {"status": "Paid"}})).await;
    assert_eq!((&unversioned["applied"], &unversioned["version"]), (&json!(true), &json!(5)));
    root.delete(&format!("{PATH}?version=4")).await.problem(409);
    assert_eq!(root.delete(&format!("{PATH}?version=x")).await.problem(422), ["version"]);
    assert_eq!(root.delete(PATH).await.status, 204);
    assert_eq!(root.delete(PATH).await.status, 204, "gone twice is gone");
    root.get(PATH).await.problem(404);
    assert_eq!(put(&root, json!({"state": {}, "version": 5})).await["applied"], false, "a late one");
    assert_eq!(put(&root, json!({"state": {}, "version": 6})).await["applied"], true);
    assert_eq!(root.delete("/api/entities/booking/never-seen").await.status, 204);
}

/// NTF-3: nothing is written.
async fn ntf_3_a_bad_state_is_told_everything(base: Base) {
    let root = World::manual(base).await.root();
    let mut paths = root.put(PATH, json!({"state": [1], "version": "x", "stat": 1})).await.problem(422);
    paths.sort();
    assert_eq!(paths, ["stat", "state", "version"]);
    assert_eq!(root.put(PATH, json!({})).await.problem(422), ["state"]);
    root.send("PUT", PATH, "{").await.problem(400);
    let long = format!("/api/entities/booking/{}", "x".repeat(256));
    assert_eq!(root.put(&long, json!({"state": {}})).await.problem(422), ["id"]);
    let large = json!({"state": {"x": "x".repeat(1024 * 1024)}});
    assert_eq!(root.put(PATH, large).await.problem(422), ["state"]);
    root.get(PATH).await.problem(404);
    let event = json!({"topic": "t", "kind": "k", "payload": {}, "entity": {"type": "b", "id": 1, "state": 7,
        "version": -1}});
    let mut paths = root.post("/api/events", event).await.problem(422);
    paths.sort();
    assert_eq!(paths, ["entity.state", "entity.version"]);
    let lonely =
        json!({"topic": "t", "kind": "k", "payload": {}, "entity": {"type": "b", "id": 1, "version": 3}});
    assert_eq!(root.post("/api/events", lonely).await.problem(422), ["entity.version"]);
    let timer =
        json!({"topic": "t", "delay": "1h", "payload": {}, "entity": {"type": "b", "id": 1, "state": {}}});
    assert_eq!(root.post("/api/timers", timer).await.problem(422), ["entity.state"]);
}

/// PRD-18: `entity.state` is kept with the event; a bare payload tells nothing; a duplicate neither.
async fn ntf_3_an_event_tells_the_state_of_its_entity(base: Base) {
    let root = World::manual(base).await.root();
    let event = |id: &str, entity: Value| {
        json!({"id": id, "topic": "booking.events", "kind": "booking.confirmed", "entity": entity,
            "payload": {"status": "from the payload"}})
    };
    let bare = json!({"type": "booking", "id": "12345"});
    root.does("/api/events", event("e0", bare), 202).await;
    root.get(PATH).await.problem(404);
    let with = |status: &str, version: Value| {
        let state = json!({"status": status});
        json!({"type": "booking", "id": 12345, "state": state, "version": version})
    };
    let seen = || async { root.sees(PATH).await["state"]["status"].clone() };
    let batch = json!([
        event("e1", with("one", json!(1))),
        event("e2", with("three", json!(3))),
        event("e3", with("two", json!(2)))
    ]);
    assert_eq!(root.does("/api/events", batch.clone(), 202).await["accepted"], 3);
    assert_eq!(seen().await, "three", "the newest of a batch stands");
    let plain =
        json!({"topic": "booking.events", "kind": "k", "payload": {}, "entity": with("four", Value::Null)});
    root.does("/api/events", plain, 202).await;
    assert_eq!(seen().await, "four");
    assert_eq!(root.does("/api/events", batch, 202).await["duplicates"], 3);
    assert_eq!(seen().await, "four", "an event that comes again tells nothing new");
    let shown = root.does("/api/events", event("e4", with("five", json!(9))), 202).await;
    let message = root.sees(&format!("/api/events/{}", shown["ids"][0].as_str().unwrap())).await;
    assert_eq!(
        message["entity"],
        json!({"type": "booking", "id": "12345"}),
        "the state is not the message's"
    );
}

/// NTF-19
async fn ntf_3_a_viewer_sees_no_state(base: Base) {
    let world = World::manual(base).await;
    put(&world.root(), json!({"state": {"phone": "+964"}, "version": 1})).await;
    let viewer = world.key(&world.root(), "viewer").await;
    let seen = viewer.sees(PATH).await;
    assert_eq!((&seen["state"], &seen["version"]), (&Value::Null, &json!(1)));
}

/// NTF-23
async fn ntf_3_an_entity_is_found_by_its_tenant_only(base: Base) {
    let world = World::manual(base).await;
    let acme = world.tenant("acme").await;
    put(&acme, json!({"state": {"of": "acme"}})).await;
    let root = world.root();
    root.get(PATH).await.problem(404);
    assert_eq!(root.delete(PATH).await.status, 204);
    put(&root, json!({"state": {"of": "root"}})).await;
    assert_eq!(acme.sees(PATH).await["state"]["of"], "acme");
}
