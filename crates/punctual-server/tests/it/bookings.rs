//! Booking confirmations, from an event to a provider: the test plan that notifications began with, all of it
//! over HTTP, through the shipped provider files to a server that answers as the providers do.

use crate::cli::process::Place;
use crate::client::Client;
use crate::providers::{Next, Providers};
use crate::world::{Base, World};
use punctual::queue::outbox;
use punctual::{ClockMode, NewMessage, Tenant};
use punctual_server::app::Settings;
use serde_json::{Value, json};

on_each! {
    ntf_25_no_duplicate_sends_on_double_confirm,
    ntf_25_retries_and_final_failure,
    ntf_25_tenant_isolation,
    ntf_25_manual_resend_logs_separately,
    ntf_25_placeholder_resolution,
    ntf_25_indian_e164,
    ntf_15_a_number_with_spaces_is_sent_in_e164,
    ntf_1_every_door_ends_as_one_notification,
}

const TOPIC: &str = "booking.events";
const KIND: &str = "booking.confirmed";
const LOG: &str = "/api/communication-logs";
const SCHEDULES: &str = "/api/automation-schedules";
const INDIAN: &str = "+919876543210";

/// A server that confirms bookings, and the providers it sends through.
struct Hotel {
    world: World,
    root: Client,
    providers: Providers,
}

impl Hotel {
    async fn open(base: Base) -> Self {
        Self::at(World::place(base).await).await
    }

    async fn at(url: String) -> Self {
        let providers = Providers::start().await;
        let furnish = |builder| providers.furnish(builder);
        let world = World::furnished(url, ClockMode::Manual, Settings::default(), furnish).await;
        let root = world.root();
        root.does("/dev/clock", json!({"set": "2026-02-26T10:00:00Z", "run": false}), 200).await;
        let hotel = Self { world, root, providers };
        define(&hotel.root).await;
        hotel
    }

    /// What is due is done.
    async fn tick(&self) {
        self.root.does("/api/scheduler/tick", json!({}), 200).await;
    }

    async fn confirm(&self, booking: Value) -> Value {
        confirm(&self.root, booking).await
    }

    async fn log(&self, booking: &str) -> Vec<Value> {
        items(&self.root, &format!("{LOG}?bookingId={booking}")).await
    }

    async fn schedules(&self, booking: &str) -> Vec<Value> {
        items(&self.root, &format!("{SCHEDULES}?bookingId={booking}")).await
    }
}

async fn define(client: &Client) {
    let kind = json!({"topic": TOPIC, "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "guestPhone", "email": "guestEmail", "name": "guestName", "ref": "guestId"}});
    let reply = client.put(&format!("/api/event-kinds/{KIND}"), kind).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

/// Makes a template; answers its id.
async fn template(client: &Client, channel: &str, body: &str) -> String {
    let template = json!({"eventType": KIND, "channel": channel, "language": "en", "body": body,
        "subject": (channel == "Email").then_some("Your booking")});
    let made = client.does("/api/message-templates", template, 201).await;
    made["id"].as_str().unwrap().to_owned()
}

fn booking(id: u32) -> Value {
    json!({"bookingId": id, "guestId": 678, "guestName": "Priya Nair", "listingId": 10,
        "bookingStatus": "Confirmed",
        "checkinDate": "2026-03-15T00:00:00Z", "checkoutDate": "2026-03-17T00:00:00Z",
        "guestPhone": INDIAN, "guestEmail": "guest@example.com", "occurredAtUtc": "2026-02-26T10:00:00Z"})
}

async fn confirm(client: &Client, payload: Value) -> Value {
    let event = json!({"topic": TOPIC, "kind": KIND, "schemaVersion": 1, "correlationId": "story-1",
        "occurredAt": "2026-02-26T10:00:00Z", "payload": payload});
    client.does("/api/events", event, 202).await
}

async fn items(client: &Client, path: &str) -> Vec<Value> {
    client.sees(path).await["items"].as_array().unwrap().clone()
}

/// NTF-25: No duplicate sends on double-confirm. Two messages in the outbox for one booking are two schedules
/// and one call for each channel and template, also when the second comes after the first was sent.
async fn ntf_25_no_duplicate_sends_on_double_confirm(base: Base) {
    let hotel = Hotel::open(base).await;
    let whatsapp = template(&hotel.root, "WhatsApp", "Booking {{bookingId}} is confirmed.").await;
    let sms = template(&hotel.root, "SMS", "Booking {{bookingId}} is confirmed.").await;
    hotel.confirm(booking(12345)).await;
    hotel.confirm(booking(12345)).await;
    hotel.tick().await;
    hotel.confirm(booking(12345)).await;
    hotel.tick().await;
    let once = vec![(INDIAN.to_owned(), "Booking 12345 is confirmed.".to_owned())];
    assert_eq!((hotel.providers.by("meta"), hotel.providers.by("twilio")), (once.clone(), once));
    let log = hotel.log("12345").await;
    let mut keys: Vec<&str> = log.iter().map(|one| one["idempotencyKey"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, [format!("12345:{KIND}:SMS:{sms}"), format!("12345:{KIND}:WhatsApp:{whatsapp}")]);
    let schedules = hotel.schedules("12345").await;
    let stopped = |reason: &'static str| (json!("Cancelled"), json!(reason));
    let how = schedules.iter().rev().map(|one| (one["status"].clone(), one["reasonCode"].clone()));
    let want = [(json!("Sent"), json!(null)), stopped("AlreadyPending"), stopped("AlreadySent")];
    assert_eq!(how.collect::<Vec<_>>(), want);
}

/// NTF-25, NTF-24: Retries and final failure. Five tries, each later than the one before, then `Failed`
/// and no further call; a provider that wants to be left alone is, for as long as it says.
async fn ntf_25_retries_and_final_failure(base: Base) {
    let hotel = Hotel::open(base).await;
    template(&hotel.root, "SMS", "Booking {{bookingId}} is confirmed.").await;
    hotel.providers.will([Next::Refuse(503), Next::Cut, Next::Busy(600), Next::Refuse(500), Next::Cut]);
    hotel.confirm(booking(1)).await;
    hotel.tick().await;
    let waits = hotel.schedules("1").await.remove(0);
    assert_eq!((&waits["status"], &waits["attemptCount"]), (&json!("Pending"), &json!(1)));
    assert!(waits["nextRetryOn"].as_str().unwrap() <= "2026-02-26T10:01:00Z", "{waits}");
    hotel.world.advance("1h").await;
    let line = hotel.log("1").await.remove(0);
    assert_eq!((&line["status"], &line["attemptCount"]), (&json!("Failed"), &json!(5)), "{line}");
    let tries: Vec<(&str, f64)> = line["attempts"].as_array().unwrap().iter().map(tried).collect();
    let outcomes: Vec<&str> = tries.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(outcomes, ["transient", "timeout", "transient", "transient", "timeout"]);
    for (pair, minutes) in tries.windows(2).zip([1.0, 2.0, 10.0, 8.0]) {
        let waited = pair[1].1 - pair[0].1;
        assert!((minutes * 0.9..=minutes + 1.0).contains(&waited), "{waited} instead of {minutes}: {line}");
    }
    let schedule = hotel.schedules("1").await.remove(0);
    assert_eq!((&schedule["status"], &schedule["nextRetryOn"]), (&json!("Failed"), &json!(null)));
    assert_eq!(schedule["lastError"], line["lastError"]);
    hotel.world.advance("7d").await;
    assert_eq!(hotel.providers.asked().len(), 5, "nothing is tried again by itself");
}

/// The outcome of a try, and its minute.
fn tried(one: &Value) -> (&str, f64) {
    let at = punctual::Timestamp::parse(one["at"].as_str().unwrap()).unwrap();
    (one["outcome"].as_str().unwrap(), at.as_micros() as f64 / 60e6)
}

/// NTF-25, NTF-23: Tenant isolation. The same booking in two tenants goes out with each one's own words, once
/// each, and neither finds the other's.
async fn ntf_25_tenant_isolation(base: Base) {
    let hotel = Hotel::open(base).await;
    let other = hotel.world.tenant("other").await;
    define(&other).await;
    let ours = template(&hotel.root, "SMS", "Ours: {{guestEmail}}").await;
    let theirs = template(&other, "SMS", "Theirs: {{guestEmail}}").await;
    hotel.confirm(booking(1)).await;
    let mut same = booking(1);
    same["guestEmail"] = json!("other@example.com");
    confirm(&other, same).await;
    hotel.tick().await;
    let mut sent = hotel.providers.by("twilio");
    sent.sort();
    let want = ["Ours: guest@example.com", "Theirs: other@example.com"];
    assert_eq!(sent, want.map(|text| (INDIAN.to_owned(), text.to_owned())));
    for (client, own, strange) in [(&hotel.root, &ours, "Theirs"), (&other, &theirs, "Ours")] {
        let log = items(client, &format!("{LOG}?bookingId=1")).await;
        let templates: Vec<&Value> = log.iter().map(|one| &one["templateId"]).collect();
        assert_eq!(templates, [own.as_str()], "only its own");
        assert_eq!(items(client, &format!("{SCHEDULES}?bookingId=1")).await.len(), 1);
        assert!(!client.get("/api/message-templates").await.text.contains(strange));
    }
    let line = items(&hotel.root, LOG).await[0]["id"].as_str().unwrap().to_owned();
    other.get(&format!("{LOG}/{line}")).await.problem(404);
    other.get(&format!("/api/message-templates/{ours}")).await.problem(404);
    let of_other = json!({"channel": "SMS", "templateId": ours});
    other.post("/api/bookings/1/resend-notification", of_other).await.problem(422);
}

/// NTF-25, NTF-21: Manual resend logs separately. A line of its own, whose key says `manual` and which
/// request; the first stays as it was, and both are listed for the booking.
async fn ntf_25_manual_resend_logs_separately(base: Base) {
    let hotel = Hotel::open(base).await;
    let id = template(&hotel.root, "WhatsApp", "Booking {{bookingId}} is confirmed.").await;
    hotel.confirm(booking(12345)).await;
    hotel.tick().await;
    let before = hotel.log("12345").await;
    let support = hotel.world.key(&hotel.root, "support").await;
    let path = "/api/bookings/12345/resend-notification";
    let asked = support.does(path, json!({"channel": "WhatsApp", "templateId": id}), 202).await;
    hotel.tick().await;
    let log = hotel.log("12345").await;
    assert_eq!(log[1..], before, "the original stays as it was");
    let request = asked["requestId"].as_str().unwrap();
    assert_eq!(log[0]["idempotencyKey"], format!("manual:12345:WhatsApp:{id}:{request}"));
    assert_eq!((&log[0]["status"], &log[0]["triggeredBy"]), (&json!("Sent"), &json!("the support")));
    assert_ne!(log[0]["providerMessageId"], log[1]["providerMessageId"]);
    assert_eq!(hotel.providers.by("meta").len(), 2);
    let keys: Vec<Value> = hotel.schedules("12345").await.iter().map(|one| one["key"].clone()).collect();
    assert_eq!(keys[0], format!("manual:{request}"));
    assert!(keys[1].as_str().unwrap().starts_with("event:"), "{keys:?}");
    assert_eq!(keys.len(), 2, "{keys:?}");
}

/// NTF-25, NTF-9: Placeholder resolution. Values of the payload in any case; what is missing is empty and
/// never keeps a message from being sent.
async fn ntf_25_placeholder_resolution(base: Base) {
    let hotel = Hotel::open(base).await;
    template(&hotel.root, "SMS", "{{guestPhone}}: {{CHECKINDATE | date}}, {{doorCode}}!").await;
    hotel.confirm(booking(1)).await;
    hotel.tick().await;
    let text = format!("{INDIAN}: March 15, 2026, !");
    assert_eq!(hotel.providers.by("twilio"), [(INDIAN.to_owned(), text)]);
    let line = hotel.log("1").await.remove(0);
    assert_eq!(line["status"], "Sent");
    assert_eq!(line["warnings"], json!(["body: `{{doorCode}}` has no value"]), "and the log says so");
    assert_eq!((&line["recipient"], &line["recipientRef"]), (&json!("Priya Nair"), &json!("678")));
    let viewer = hotel.world.key(&hotel.root, "viewer").await;
    let masked = items(&viewer, LOG).await.remove(0);
    assert_ne!(masked["recipient"], line["recipient"], "{masked}");
}

/// NTF-25, NTF-15: Indian E.164. The number is kept as it was given, and reaches both providers unmodified.
async fn ntf_25_indian_e164(base: Base) {
    let hotel = Hotel::open(base).await;
    template(&hotel.root, "WhatsApp", "x").await;
    template(&hotel.root, "SMS", "y").await;
    hotel.confirm(booking(1)).await;
    hotel.tick().await;
    assert_eq!(hotel.providers.by("meta"), [(INDIAN.to_owned(), "x".to_owned())]);
    assert_eq!(hotel.providers.by("twilio"), [(INDIAN.to_owned(), "y".to_owned())]);
    let log = hotel.log("1").await;
    for line in &log {
        assert_eq!((&line["toAddress"], &line["status"]), (&json!(INDIAN), &json!("Sent")));
    }
    let by = |line: &Value| format!("{} {}", line["channel"], line["provider"]);
    let mut by: Vec<String> = log.iter().map(by).collect();
    by.sort_unstable();
    assert_eq!(
        by,
        [r#""SMS" "twilio-sms""#, r#""WhatsApp" "meta-whatsapp""#],
        "NTF-19: each by its provider"
    );
}

/// NTF-15: a number with spaces is taken; the log keeps it as it was given, and the provider gets E.164. One
/// that cannot be is given up before any call.
async fn ntf_15_a_number_with_spaces_is_sent_in_e164(base: Base) {
    let hotel = Hotel::open(base).await;
    template(&hotel.root, "SMS", "x").await;
    for (id, phone) in [(1, "+964 770 000 0001"), (2, "0770 000 0001")] {
        let mut payload = booking(id);
        payload["guestPhone"] = json!(phone);
        hotel.confirm(payload).await;
    }
    hotel.tick().await;
    assert_eq!(hotel.providers.by("twilio"), [("+9647700000001".to_owned(), "x".to_owned())]);
    let line = hotel.log("1").await.remove(0);
    assert_eq!((&line["toAddress"], &line["status"]), (&json!("+964 770 000 0001"), &json!("Sent")));
    let line = hotel.log("2").await.remove(0);
    assert_eq!((&line["status"], &line["attempts"][0]["outcome"]), (&json!("Failed"), &json!("permanent")));
}

/// NTF-1: an event that is written in the host's own transaction, by the SQL function, over HTTP or as a
/// CloudEvent is one notification and one message.
async fn ntf_1_every_door_ends_as_one_notification(base: Base) {
    let folder = Place::new();
    let url = match base {
        Base::Sqlite => folder.database(),
        Base::Postgres => World::place(base).await,
    };
    let hotel = Hotel::at(url.clone()).await;
    template(&hotel.root, "SMS", "{{bookingId}}").await;
    let cloud = json!({"specversion": "1.0", "id": "e-2", "source": "/hotel", "type": KIND, "topic": TOPIC,
        "correlationid": "story-1", "time": "2026-02-26T10:00:00Z", "data": booking(2)});
    hotel.confirm(booking(1)).await;
    let sender = hotel.root.with("content-type", "application/cloudevents+json");
    for (accepted, duplicates) in [(1, 0), (0, 1)] {
        let said = sender.does("/api/events", cloud.clone(), 202).await;
        assert_eq!((&said["accepted"], &said["duplicates"]), (&json!(accepted), &json!(duplicates)));
    }
    let event = NewMessage::new(TOPIC, KIND, booking(3).to_string()).correlation_id("story-1");
    let doors = match base {
        Base::Sqlite => {
            let mut host = rusqlite::Connection::open(url.trim_start_matches("sqlite:")).unwrap();
            let tx = host.transaction().unwrap();
            outbox::rusqlite::enqueue(&tx, Tenant::DEFAULT, &[event]).unwrap();
            tx.commit().unwrap();
            3
        }
        Base::Postgres => {
            let (mut host, link) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(link);
            let tx = host.transaction().await.unwrap();
            outbox::tokio_postgres::enqueue(&tx, Tenant::DEFAULT, &[event]).await.unwrap();
            let sql = "select punctual.enqueue($1, $2::text, kind => $3, correlation_id => 'story-1', \
                entity_type => 'booking', entity_id => '4', occurred_at => '2026-02-26T10:00:00Z', \
                schema_version => '1')";
            tx.execute(sql, &[&TOPIC, &booking(4).to_string(), &KIND]).await.unwrap();
            tx.commit().await.unwrap();
            4
        }
    };
    hotel.tick().await;
    let sent: Vec<String> = hotel.providers.by("twilio").into_iter().map(|(_, text)| text).collect();
    assert_eq!(sent.len(), doors, "{sent:?}");
    for booking in 1..=doors {
        let schedule = hotel.schedules(&booking.to_string()).await;
        assert_eq!(schedule.len(), 1, "one for booking {booking}");
        assert_eq!(schedule[0]["status"], "Sent", "{schedule:?}");
        let line = hotel.log(&booking.to_string()).await.remove(0);
        assert_eq!((&line["correlationId"], &line["eventType"]), (&json!("story-1"), &json!(KIND)));
    }
}
