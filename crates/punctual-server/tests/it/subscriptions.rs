//! Subscriptions over HTTP.

use crate::client::Client;
use crate::world::{Base, World, claim, publish, settle};
use serde_json::{Value, json};

on_each! {
    fan_1_a_subscription_over_http,
    fan_1_remote_workers_claim_what_a_filter_lets_through,
    trg_25_each_subscription_has_its_own_dead_letters,
    plt_29_a_bad_subscription_is_told_everything,
    a_subscription_is_found_by_its_tenant_only,
    subscriptions_are_listed_in_parts,
}

async fn put(client: &Client, path: &str, body: Value) -> Value {
    let reply = client.put(&format!("/api/subscriptions/{path}"), body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// FAN-1: every verb, with the fields that the contract names.
async fn fan_1_a_subscription_over_http(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let filter = json!({"questionId": "kind", "op": "==", "value": "order.placed"});
    let body = json!({"filter": filter, "target": {"type": "queue"},
        "retry": {"maxAttempts": 3, "backoff": ["1m", "5m"]}, "enabled": true});
    let want = json!({"topic": "orders", "name": "mail", "filter": filter, "target": {"type": "queue"},
        "retry": {"maxAttempts": 3, "backoff": ["1m", "5m"]}, "enabled": true,
        "waiting": 0, "due": 0, "inFlight": 0, "dead": 0});
    assert_eq!(put(&root, "orders/mail", body.clone()).await, want);
    assert_eq!(put(&root, "orders/mail", body).await, want, "the same again changes nothing");
    assert_eq!(root.sees("/api/subscriptions/orders/mail").await, want);
    assert_eq!(
        root.sees("/api/subscriptions?topic=orders").await,
        json!({"items": [want], "nextCursor": null})
    );
    assert_eq!(root.sees("/api/subscriptions?topic=visits").await["items"], json!([]));
    for _ in 0..3 {
        publish(&root, "orders").await;
    }
    let item = claim(&root, "orders/mail").await.remove(0);
    assert_eq!(settle(&root, "orders/mail", "ack", item).await, "Done");
    let shown = root.sees("/api/subscriptions/orders/mail").await;
    let counts = ["waiting", "due", "inFlight", "dead"].map(|name| shown[name].clone());
    assert_eq!(counts, [0, 0, 2, 0].map(Value::from), "all three were claimed, one is done");
    let off = put(&root, "orders/mail", json!({"target": {"type": "queue"}, "enabled": false})).await;
    assert_eq!((&off["enabled"], &off["filter"]), (&json!(false), &Value::Null));
    assert_ne!(off["retry"]["maxAttempts"], 3, "what is left out stands at its default");
    publish(&root, "orders").await;
    assert_eq!(claim(&root, "orders").await.len(), 1, "nobody else takes it");
    put(&root, "orders/mail", json!({"target": {"type": "queue"}, "enabled": true})).await;
    publish(&root, "orders").await;
    assert_eq!(claim(&root, "orders").await.len(), 1, "a claim has declared the own queue");
    let gone = root.delete("/api/subscriptions/orders/mail").await;
    assert_eq!((gone.status, gone.json()), (200, json!({"dropped": 1, "inFlight": 2})));
    root.get("/api/subscriptions/orders/mail").await.problem(404);
    root.delete("/api/subscriptions/orders/mail").await.problem(404);
    root.post("/api/queues/orders/mail/claim", json!({"owner": "w"})).await.problem(404);
}

/// FAN-1
async fn fan_1_remote_workers_claim_what_a_filter_lets_through(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let filter = json!({"all": [
        {"questionId": "payload.total", "op": ">=", "value": 100},
        {"questionId": "headers.region", "op": "==", "value": "eu"},
        {"questionId": "entity.type", "op": "==", "value": "order"}]});
    put(&root, "orders/large", json!({"filter": filter, "target": {"type": "queue"}})).await;
    put(&root, "orders/all", json!({"target": {"type": "queue"}})).await;
    let event = |total: u32, region: &str| {
        json!({"topic": "orders", "kind": "order.placed", "payload": {"total": total},
            "headers": {"region": region}, "entity": {"type": "order", "id": "7"}})
    };
    let events = json!([event(99, "eu"), event(100, "us"), event(100, "eu"), event(500, "eu")]);
    let ids = root.does("/api/events", events, 202).await["ids"].clone();
    let got = |items: Vec<Value>| items.iter().map(|item| item["id"].clone()).collect::<Vec<_>>();
    assert_eq!(got(claim(&root, "orders/large").await), [ids[2].clone(), ids[3].clone()]);
    assert_eq!(Value::from(got(claim(&root, "orders/all").await)), ids);
    put(&root, "orders/inside", json!({"target": {"type": "handler", "name": "crm"}})).await;
    let said = root.post("/api/queues/orders/inside/claim", json!({"owner": "w"})).await;
    said.problem(409);
    publish(&root, "orders").await;
    assert_eq!(root.sees("/api/subscriptions/orders/inside").await["waiting"], 1, "nobody has that handler");
}

/// TRG-25
async fn trg_25_each_subscription_has_its_own_dead_letters(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    for name in ["mail", "bill"] {
        put(&root, &format!("orders/{name}"), json!({"target": {"type": "queue"}})).await;
    }
    let id = publish(&root, "orders").await;
    let broken = claim(&root, "orders/bill").await.remove(0);
    let word = json!({"id": id, "token": broken["token"], "error": "no such customer"});
    assert_eq!(settle(&root, "orders/bill", "fail", word).await, "Done");
    let letters = root.sees("/api/dead-letters?topic=orders&subscription=bill").await["items"].clone();
    assert_eq!((&letters[0]["subscription"], &letters[0]["messageId"]), (&json!("bill"), &json!(id)));
    assert_eq!(letters[0]["attempts"][0]["error"], "no such customer");
    assert_eq!(root.sees("/api/dead-letters?topic=orders&subscription=mail").await["items"], json!([]));
    assert_eq!(root.sees("/api/subscriptions/orders/bill").await["dead"], 1);
    let mail = claim(&root, "orders/mail").await.remove(0);
    assert_eq!(settle(&root, "orders/mail", "ack", mail).await, "Done");
    let which = json!({"filter": {"topic": "orders", "subscription": "bill"}});
    assert_eq!(root.does("/api/dead-letters/replay", which, 200).await["replayed"], 1);
    assert_eq!(claim(&root, "orders/mail").await, Vec::<Value>::new(), "only for the broken one");
    assert_eq!(claim(&root, "orders/bill").await.len(), 1);
}

/// PLT-29: all problems, each by its path.
async fn plt_29_a_bad_subscription_is_told_everything(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let bad = json!({"filter": {"questionId": "candidate.x", "op": "exists"}, "enabled": 1,
        "target": {"type": "webhook", "url": "https://example.com"}, "retry": {"maxAttempts": 0}});
    let said = root.put("/api/subscriptions/orders/mail", bad).await;
    assert!(said.text.contains("there are queue"), "{}", said.text);
    let paths = said.problem(422);
    assert_eq!(paths, ["filter", "target.type", "retry.maxAttempts", "enabled"]);
    root.put("/api/subscriptions/a%2Fb/mail", json!({"target": {"type": "queue"}})).await.problem(422);
    root.put("/api/subscriptions/orders/mail", json!([])).await.problem(422);
    root.get("/api/subscriptions/orders/mail").await.problem(404);
}

async fn a_subscription_is_found_by_its_tenant_only(base: Base) {
    let world = World::manual(base).await;
    let (acme, root) = (world.tenant("acme").await, world.root());
    put(&acme, "orders/mail", json!({"target": {"type": "queue"}})).await;
    root.get("/api/subscriptions/orders/mail").await.problem(404);
    root.delete("/api/subscriptions/orders/mail").await.problem(404);
    root.post("/api/queues/orders/mail/claim", json!({"owner": "w"})).await.problem(404);
    assert_eq!(root.sees("/api/subscriptions").await["items"], json!([]));
    publish(&root, "orders").await;
    assert_eq!(claim(&acme, "orders/mail").await, Vec::<Value>::new());
}

async fn subscriptions_are_listed_in_parts(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    for path in ["b/x", "a/y", "a/x"] {
        put(&root, path, json!({"target": {"type": "queue"}})).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = root.sees(&format!("/api/subscriptions?limit=2&cursor={cursor}")).await;
        for item in page["items"].as_array().unwrap() {
            seen.push(format!("{}/{}", item["topic"].as_str().unwrap(), item["name"].as_str().unwrap()));
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ["a/x", "a/y", "b/x"]);
}
