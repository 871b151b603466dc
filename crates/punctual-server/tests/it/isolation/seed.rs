//! A tenant that has something of every noun, with a mark in all its words.

use crate::client::Client;
use crate::surveys::{csi_gr, event, publish as publish_survey};
use crate::world::{World, claim, settle};
use serde_json::{Value, json};

/// What no answer to anybody else may hold.
pub const MARK: &str = "zq-mark-of-beta";
/// An Idempotency-Key that was used.
pub const ONCE: &str = "order-7";
/// Whom the tenant writes to.
pub const NUMBER: &str = "+9647700000001";

/// What somebody could know of another tenant: every number, name and token.
#[derive(Debug)]
pub struct Known {
    pub event: Value,
    /// An item in flight in the own queue and in that of a subscription, each with its token.
    pub held: Value,
    pub held_by_subscription: Value,
    pub dead_letter: Value,
    pub timer: Value,
    /// The token of a delivery that is being processed.
    pub inbox_token: Value,
    pub survey: Value,
    pub instance: Value,
    pub template: Value,
    pub log: Value,
    pub schedule: Value,
    pub key: Value,
}

async fn put(client: &Client, path: &str, body: Value) -> Value {
    let reply = client.put(path, body).await;
    assert_eq!(reply.status, 200, "PUT {path}: {}", reply.text);
    reply.json()
}

async fn first(client: &Client, path: &str) -> Value {
    client.sees(path).await["items"][0]["id"].clone()
}

/// Makes everything.
pub async fn everything(world: &World, root: &Client) -> Known {
    let key = root.does("/api/keys", json!({"name": MARK, "role": "author"}), 201).await;
    let beta = world.anybody().key(key["key"].as_str().unwrap());
    // What tells somebody runs first: a step of the clock does all that is due.
    let (template, log, schedule) = notifications(world, &beta).await;
    let (survey, instance) = surveys(world, &beta).await;
    consent(&beta, root).await;
    let (event, held, held_by_subscription, dead_letter) = work(&beta).await;
    let (timer, inbox_token) = time(&beta).await;
    Known {
        event,
        held,
        held_by_subscription,
        dead_letter,
        timer,
        inbox_token,
        survey,
        instance,
        template,
        log,
        schedule,
        key: key["id"].clone(),
    }
}

async fn notifications(world: &World, beta: &Client) -> (Value, Value, Value) {
    put(beta, "/api/entities/booking/B-7", json!({"version": 1, "state": {"note": MARK}})).await;
    let kind = json!({"entityType": "booking", "entityIdPath": "bookingId", "recipients": {"phone": "phone"},
        "sample": {"note": MARK}});
    put(beta, "/api/event-kinds/booking.confirmed", kind).await;
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en",
        "body": format!("{MARK} {{{{bookingId}}}}")});
    let template = beta.does("/api/message-templates", template, 201).await["id"].clone();
    let event = json!({"topic": "bookings", "kind": "booking.confirmed", "correlationId": MARK,
        "payload": {"bookingId": "B-7", "phone": NUMBER, "note": MARK}});
    beta.does("/api/events", event, 202).await;
    world.advance("1s").await;
    let (log, schedule) = ("/api/communication-logs", "/api/automation-schedules");
    (template, first(beta, log).await, first(beta, schedule).await)
}

/// One instance is answered, with somebody told, and one is half filled in.
async fn surveys(world: &World, beta: &Client) -> (Value, Value) {
    let mut definition = csi_gr();
    definition["title"]["en"] = json!(MARK);
    let survey = publish_survey(beta, definition).await;
    let mut ids = Vec::new();
    for wip in ["1", "2"] {
        let mut event = event(wip);
        event["items"][0]["payload"]["CustomerName"] = json!(MARK);
        let made = beta.does("/api/triggers/ingest", event, 200).await;
        ids.push(made["items"][0]["instances"][0]["publicId"].as_str().unwrap().to_owned());
    }
    world.advance("1s").await;
    let answers = json!({"answers": {"rate": 9, "has-a-complaint": "Yes", "complaint": MARK}});
    world.anybody().does(&format!("/api/SurveyInstances/{}/responses", ids[0]), answers, 200).await;
    for action in ["hold", "release"] {
        let path = format!("/api/automation-schedules/{}/{action}", ids[1]);
        beta.does(&path, json!({"reason": MARK}), 200).await;
    }
    let page = format!("/s/{}", ids[1]);
    let filled = "rate=9&has-a-complaint=Yes&complaint=zq-mark-of-beta&step=save";
    let form = world.anybody().with("content-type", "application/x-www-form-urlencoded");
    let reply = form.send("POST", &page, filled).await;
    assert!(reply.status < 400, "{}", reply.text);
    (json!(survey), json!(ids[1]))
}

async fn consent(beta: &Client, root: &Client) {
    let suppression = json!({"address": NUMBER, "channel": "email", "reason": "stop"});
    beta.does("/api/suppressions", suppression, 201).await;
    put(beta, &format!("/api/recipients/{NUMBER}/preferences"), json!({"locale": "ar"})).await;
    put(root, "/api/tenant-settings", json!({"quietHours": {"from": "22:00", "to": "08:00"}})).await;
}

fn order() -> Value {
    json!({"topic": "orders", "kind": "order.placed", "source": "shop", "payload": {"note": MARK}})
}

/// Items that wait, one behind its key, in flight, dead and tried.
async fn work(beta: &Client) -> (Value, Value, Value, Value) {
    put(beta, "/api/subscriptions/orders/mail", json!({"target": {"type": "queue"}})).await;
    assert!(claim(beta, "orders").await.is_empty());
    let mut event = Value::Null;
    for n in 0..3 {
        let mut order = order();
        order["id"] = json!(format!("o-{n}"));
        event = beta.does("/api/events", order, 202).await["ids"][0].clone();
    }
    let held = claim(beta, "orders").await;
    let mail = claim(beta, "orders/mail").await;
    let dead = json!({"id": held[0]["id"], "token": held[0]["token"], "error": MARK});
    assert_eq!(settle(beta, "orders", "fail", dead).await, "Done");
    for _ in 0..3 {
        let mut keyed = order();
        keyed["key"] = json!("k");
        beta.with("idempotency-key", ONCE).post("/api/events", keyed.clone()).await;
        keyed["topic"] = json!("letters");
        beta.does("/api/events", keyed, 202).await;
    }
    claim(beta, "letters").await;
    let letter = first(beta, "/api/dead-letters").await;
    (event, held[1].clone(), mail[0].clone(), letter)
}

/// Timers, a job with a run, a lease, and the inbox.
async fn time(beta: &Client) -> (Value, Value) {
    let timer = json!({"topic": "orders", "payload": {"note": MARK}, "delay": "1h"});
    let timer = beta.does("/api/timers", timer, 201).await["id"].clone();
    let path = format!("/api/timers/{}/move", timer.as_str().unwrap());
    beta.does(&path, json!({"delay": "2h"}), 200).await;
    let job = json!({"topic": "reports", "cron": "0 30 6 * * *", "payload": {"note": MARK}});
    put(beta, "/api/jobs/nightly", job).await;
    beta.does("/api/jobs/nightly/trigger", json!({}), 202).await;
    beta.does("/api/leases/night/acquire", json!({"owner": "night-watch", "seconds": 3600}), 200).await;
    let begin = json!({"source": "shop", "messageId": "m-1", "hash": MARK, "leaseSeconds": 3600});
    let begun = beta.does("/api/inbox/begin", begin, 200).await;
    (timer, begun["token"].clone())
}
