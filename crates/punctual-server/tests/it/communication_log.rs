//! The communication log over HTTP, where lines of surveys and of notifications stand beside each other.

use crate::client::Client;
use crate::surveys::{csi_gr, event, publish};
use crate::world::{Base, World};
use serde_json::{Value, json};

on_each! {
    ntf_20_the_log_is_filtered_by_kind_entry_and_correlation_id,
    ntf_20_lines_and_schedules_have_the_fields_of_their_schemas,
    ntf_20_what_a_line_is_about_finds_it,
    trg_15_an_unknown_channel_is_logged_by_the_first_tick,
}

const LOG: &str = "/api/communication-logs";
const SCHEDULES: &str = "/api/automation-schedules";

/// A server that has sent one invitation, and one notification about booking B-7 of the story `story-7`.
async fn shop(base: Base) -> (World, Client) {
    let world = World::manual(base).await;
    let root = world.root();
    publish(&root, csi_gr()).await;
    root.does("/api/triggers/ingest", event("1"), 200).await;
    let kind =
        json!({"entityType": "booking", "entityIdPath": "bookingId", "recipients": {"phone": "phone"}});
    assert_eq!(root.put("/api/event-kinds/booking.confirmed", kind).await.status, 200);
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en",
        "body": "Booking {{bookingId}}, door {{doorCode}}"});
    root.does("/api/message-templates", template, 201).await;
    let booking = json!({"topic": "bookings", "kind": "booking.confirmed", "correlationId": "story-7",
        "payload": {"bookingId": "B-7", "phone": "+9647700000002"}});
    root.does("/api/events", booking, 202).await;
    world.advance("1s").await;
    (world, root)
}

async fn items(client: &Client, path: &str) -> Vec<Value> {
    client.sees(path).await["items"].as_array().unwrap().clone()
}

/// NTF-20: each of the four filters, alone and together, finds the lines of either kind.
async fn ntf_20_the_log_is_filtered_by_kind_entry_and_correlation_id(base: Base) {
    let (_world, root) = shop(base).await;
    let all = items(&root, LOG).await;
    let of = |kind: &str| all.iter().find(|line| line["kind"] == kind).expect("a line of each kind").clone();
    let (invitation, notification) = (of("survey"), of("notification"));
    assert_eq!(all.len(), 2, "{all:?}");
    let id = invitation["publicId"].as_str().unwrap();
    let hash = root.sees(&format!("/api/survey-instances/{id}")).await["uniqueHash"].clone();
    let hash = hash.as_str().unwrap();
    let number = notification["entryId"].as_str().unwrap();
    let key = root.sees(&format!("{SCHEDULES}/{number}")).await["key"].as_str().unwrap().to_owned();
    for (filter, want) in [
        ("kind=survey".to_owned(), Some(&invitation)),
        ("kind=notification".to_owned(), Some(&notification)),
        (format!("publicId={id}"), Some(&invitation)),
        (format!("entryKey={hash}"), Some(&invitation)),
        (format!("entryKey={key}"), Some(&notification)),
        ("correlationId=story-7".to_owned(), Some(&notification)),
        (format!("kind=notification&entryKey={key}&correlationId=story-7"), Some(&notification)),
        (format!("kind=notification&publicId={id}"), None),
        ("correlationId=story-8".to_owned(), None),
        ("entryKey=nothing".to_owned(), None),
    ] {
        let found = items(&root, &format!("{LOG}?{filter}")).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), want.into_iter().collect::<Vec<_>>(), "{filter}");
    }
    assert_eq!(root.get(&format!("{LOG}?kind=letter")).await.problem(422), ["kind"]);
    let both = root.get(&format!("{LOG}?publicId={id}&entryKey={key}")).await;
    assert_eq!(both.problem(422), ["entryKey"]);
}

/// NTF-20: `documented::check` compares every answer with its schema; here are the fields and words that are
/// seldom there: warnings, a held and a deleted entry, a skipped send.
async fn ntf_20_lines_and_schedules_have_the_fields_of_their_schemas(base: Base) {
    let (world, root) = shop(base).await;
    let lines = items(&root, LOG).await;
    let warned = lines.iter().find(|line| line["attempts"][0]["warnings"][0].is_string());
    root.sees(&format!("{LOG}/{}", warned.expect("a try with a warning")["id"].as_str().unwrap())).await;
    root.does("/api/suppressions", json!({"address": "+9647700000001", "reason": "stop"}), 201).await;
    root.does("/api/triggers/ingest", event("2"), 200).await;
    world.advance("1s").await;
    let schedules = items(&root, SCHEDULES).await;
    let outcome = |one: &Value| one["history"][0]["outcome"].clone();
    assert!(schedules.iter().any(|one| outcome(one) == "skipped"), "{schedules:?}");
    let held = schedules.iter().find(|one| one["status"] == "Sent" && one["type"] == "survey");
    let path = format!("{SCHEDULES}/{}", held.expect("an invitation that was sent")["id"].as_str().unwrap());
    root.does(&format!("{path}/hold"), json!({"reason": "asked for"}), 200).await;
    let steps = root.sees(&path).await["history"].clone();
    let held = steps.as_array().unwrap().iter().find(|step| step["outcome"] == "held");
    assert_eq!(held.expect("a line of the hold")["reason"], "asked for", "{steps}");
}

/// NTF-20: the entity that a line shows finds the line and its schedule: the instance itself, or the entity
/// of its cause.
async fn ntf_20_what_a_line_is_about_finds_it(base: Base) {
    let (world, root) = shop(base).await;
    let mut about = event("2");
    about["items"][0]["entity"] = json!({"type": "booking", "id": "B-8"});
    root.does("/api/triggers/ingest", about, 200).await;
    world.advance("1s").await;
    for line in items(&root, LOG).await {
        let (kind, id) = (line["entityType"].as_str().unwrap(), line["entityId"].as_str().unwrap());
        let upper = kind.to_uppercase();
        for filter in
            [format!("entityType={kind}&entityId={id}"), format!("entityType={upper}&entityId={id}")]
        {
            assert_eq!(
                items(&root, &format!("{LOG}?{filter}")).await,
                std::slice::from_ref(&line),
                "{filter}"
            );
            let schedules = items(&root, &format!("{SCHEDULES}?{filter}")).await;
            let ids: Vec<&Value> = schedules.iter().map(|one| &one["id"]).collect();
            let own = if line["publicId"].is_null() { &line["entryId"] } else { &line["publicId"] };
            assert_eq!(ids, [own], "{filter}");
        }
    }
    let instances = root.sees("/api/survey-instances").await["items"].clone();
    let caused = instances[0]["publicId"].as_str().unwrap();
    let unknown = "8f3a1c4e-0b5d-4e6f-a7b8-c9d0e1f2a3b4";
    for id in [caused, unknown, "B-7"] {
        let filter = format!("entityType=survey-instance&entityId={id}");
        for list in [LOG, SCHEDULES] {
            assert_eq!(items(&root, &format!("{list}?{filter}")).await, Vec::<Value>::new(), "{list} {id}");
        }
    }
    let own = instances[1]["publicId"].as_str().unwrap();
    let other = world.tenant("other").await;
    let filter = format!("entityType=survey-instance&entityId={own}");
    for list in [LOG, SCHEDULES] {
        assert_eq!(
            items(&other, &format!("{list}?{filter}")).await,
            Vec::<Value>::new(),
            "of another tenant"
        );
    }
}

/// TRG-15, NTF-20: one tick of a manual clock logs an unknown channel and halts the instance, which expires
/// later. The instance says `no-channel`; the communication log has its fixed words, and the reason.
async fn trg_15_an_unknown_channel_is_logged_by_the_first_tick(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let mut nobody = csi_gr();
    nobody["triggers"][0]["channel"] = json!("sms:nobody");
    publish(&root, nobody).await;
    let made = root.does("/api/triggers/ingest", event("1"), 200).await;
    let id = made["items"][0]["instances"][0]["publicId"].as_str().unwrap().to_owned();
    let ticked = root.does("/api/scheduler/tick", json!({}), 200).await;
    assert_eq!(ticked, json!({"sent": 0, "failed": 1, "expired": 0, "dispatched": 0}));
    let path = format!("/api/survey-instances/{id}");
    let instance = root.sees(&path).await;
    assert_eq!((&instance["status"], &instance["nextSendAt"]), (&json!("Pending"), &Value::Null));
    let log = instance["deliveryLog"].as_array().unwrap();
    assert_eq!((log.len(), &log[0]["status"]), (1, &json!("no-channel")), "{instance}");
    let line = items(&root, LOG).await.remove(0);
    let tried = &line["attempts"][0];
    assert_eq!((&tried["outcome"], &tried["reason"]), (&json!("permanent"), &json!("no-channel")), "{line}");
    assert!(tried["error"].as_str().unwrap().contains("there is no channel `sms:nobody`"), "{line}");
    let schedule = root.sees(&format!("{SCHEDULES}/{id}")).await;
    let step = &schedule["history"][0];
    assert_eq!(
        (&step["outcome"], &step["reason"]),
        (&json!("permanent"), &json!("no-channel")),
        "{schedule}"
    );
    assert_eq!(schedule["reasonCode"], "no-channel");
    world.advance("31d").await;
    let expired = root.sees(&path).await;
    assert_eq!(expired["status"], "Expired");
    assert_eq!(expired["deliveryLog"].as_array().unwrap().len(), 1, "{expired}");
}
