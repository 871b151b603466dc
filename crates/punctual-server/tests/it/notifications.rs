//! What people are shown of notifications over HTTP, what they have sent again, and what they replay. Mostly
//! the tests are the sender: nothing goes out by itself.

use crate::client::Client;
use crate::world::{Base, World};
use punctual::base::id::{LaneId, TemplateId};
use punctual::base::zone::Zone;
use punctual::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use punctual::delivery::rules::send_terms::SendTerms;
use punctual::delivery::store::deliveries::delivery::{DeliveryOutcome, SettledDelivery};
use punctual::delivery::store::deliveries::planned_events::{PlannedEntry, PlannedEvent, WriteOutcome};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::input_hash::EntryOrigin;
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::claims::ClaimRequest;
use punctual::{Entity, Tenant, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

on_each! {
    ntf_19_the_communication_log_over_http,
    ntf_19_a_viewer_sees_no_whole_address,
    ntf_5_a_line_of_the_log_tells_its_own_key,
    ntf_18_quiet_hours_leave_a_trace,
    ntf_20_wrong_filters_are_told,
    ntf_20_schedules_over_http,
    ntf_20_survey_instances_are_listed_with_schedules,
    ntf_20_a_survey_instance_is_a_schedule_like_any_other,
    ntf_20_a_survey_entry_has_the_fields_of_every_schedule,
    ntf_20_a_schedule_tells_what_happened,
    ntf_21_a_resend_is_a_request_of_its_own,
    ntf_21_a_resend_that_makes_no_sense_is_told_why,
    ntf_21_a_resend_goes_out_like_any_other,
    ntf_21_a_resend_is_of_the_latest_event_that_has_a_template,
    ntf_21_an_event_from_before_its_template_is_sent,
    ntf_22_failed_schedules_are_replayed,
    ntf_22_what_had_no_template_is_planned_by_todays,
    ntf_23_notifications_are_found_by_their_tenant_only,
}

const LOG: &str = "/api/communication-logs";
const SCHEDULES: &str = "/api/automation-schedules";
const RESEND: &str = "/api/bookings/B-7/resend-notification";
const NUMBER: &str = "+9647700000001";

fn wish(lane: LaneId) -> ClaimRequest {
    let takes = vec![LaneQuota { lane, since: Timestamp::MIN, quota: 10 }];
    ClaimRequest { owner: "tester".into(), lease: Duration::from_secs(30), takes }
}

/// A server with a template for bookings that are confirmed; answers its id.
async fn shop(base: Base) -> (World, Client, String) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T05:13:00Z", "run": false}), 200).await;
    let kind = json!({"entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "phone", "email": "email"}});
    let reply = root.put("/api/event-kinds/booking.confirmed", kind).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en",
        "body": "Booking {{bookingId}} is confirmed."});
    let made = root.does("/api/message-templates", template, 201).await;
    (world, root, made["id"].as_str().unwrap().to_owned())
}

/// An event about booking B-7 becomes a notification with these deliveries, as channel and address.
async fn file(world: &World, root: &Client, template: &str, to: &[(&str, &str)]) {
    let deliveries = to.iter().map(|(channel, address)| PlannedDelivery {
        send: 1,
        key: format!("B-7:booking.confirmed:{channel}:{template}:{address}"),
        channel: (*channel).to_owned(),
        address: Some((*address).to_owned()),
        part: 0,
        template: TemplateId(template.parse().unwrap()),
        version: 1,
        recipient: RecipientIdentity::default(),
    });
    let entity = Some(Entity { kind: "booking".into(), id: "B-7".into() });
    let notification = PlannedEntry {
        kind: punctual::flow::rules::entry::EntryKind::Notification,
        entity,
        ended: None,
        deliveries: deliveries.collect(),
        request: None,
        origin: EntryOrigin {
            event_kind_version: None,
            input_hash: Some("5a".repeat(32)),
            zone: Some(Zone::utc()),
            trace: None,
        },
    };
    file_notification(world, root, notification).await;
}

/// An event about booking B-7 becomes this notification.
async fn file_notification(world: &World, root: &Client, notification: PlannedEntry) {
    let event = json!({"topic": "bookings", "kind": "booking.confirmed", "correlationId": "story-7",
        "entity": {"type": "booking", "id": "B-7"}, "payload": {"bookingId": "B-7", "phone": NUMBER}});
    root.does("/api/events", event, 202).await;
    let store = world.engine.store();
    let lane = store.declare_queue(Tenant::DEFAULT, "bookings").await.unwrap().id;
    let item = store.claim(wish(lane)).await.unwrap().items.remove(0);
    let filed = [(item.message.into(), PlannedEvent::Entry(Box::new(notification)))];
    let filed = store.write_planned_events(item.token, filed.into(), None, 1).await.unwrap();
    assert!(matches!(filed, WriteOutcome::Written { .. }), "the claim should hold");
}

/// What waits in one channel is sent, and comes to this.
async fn send(world: &World, channel: &str, ending: DeliveryOutcome) {
    let store = world.engine.store();
    let lane = store.ready_lanes(LaneId(-1), 100).await.unwrap();
    let mut sent = 0;
    for seen in lane.lanes {
        let outgoing = store
            .begin_deliveries(
                wish(seen.lane),
                punctual::flow::rules::entry::EntryKind::Notification,
                SendTerms::default(),
            )
            .await
            .unwrap();
        let Some(token) = outgoing.token else { continue };
        let is_it = |due: &punctual::delivery::store::deliveries::delivery::DueDelivery| {
            due.delivery.channel == channel
        };
        sent += outgoing.due.iter().filter(|due| is_it(due)).count();
        let end = |due| match is_it(&due) {
            true => SettledDelivery { due, outcome: ending.clone(), entry: None },
            false => SettledDelivery {
                due,
                outcome: DeliveryOutcome::NotBegun(outgoing.now.unwrap()),
                entry: None,
            },
        };
        let ended: Vec<SettledDelivery> = outgoing.due.iter().cloned().map(end).collect();
        store.end_deliveries(token, ended.into(), None).await.unwrap();
    }
    assert_eq!(sent, 1, "one message should wait for {channel}");
}

fn taken() -> DeliveryOutcome {
    DeliveryOutcome::Sent { provider_id: Some("p-1".into()), answer: Some(r#"{"ok":true}"#.into()) }
}

fn refused() -> DeliveryOutcome {
    DeliveryOutcome::Failed { outcome: Some("permanent"), error: "no such number".into(), fallback: None }
}

async fn items(client: &Client, path: &str) -> Vec<Value> {
    client.sees(path).await["items"].as_array().unwrap().clone()
}

/// NTF-19, NTF-20: the fields of the contract, and no others.
async fn ntf_19_the_communication_log_over_http(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    let waits = items(&root, LOG).await.remove(0);
    assert_eq!((&waits["status"], &waits["attempts"]), (&json!("Pending"), &json!([])));
    send(&world, "sms:twilio", taken()).await;
    let found = items(&root, &format!("{LOG}?bookingId=B-7&channel=SMS&status=Sent")).await;
    let id = found[0]["id"].as_str().unwrap();
    let mut want = json!({"id": id, "channel": "sms:twilio", "eventType": "booking.confirmed",
        "toAddress": NUMBER,
        "templateId": template, "templateVersion": 1, "correlationId": "story-7",
        "idempotencyKey": format!("B-7:booking.confirmed:sms:twilio:{template}:{NUMBER}"),
        "provider": "sms:twilio", "providerMessageId": "p-1", "status": "Sent",
        "sentAtUtc": "2026-05-14T05:13:00Z", "attemptCount": 1, "lastError": null, "entityType": "booking",
        "entityId": "B-7", "recipient": null, "recipientRef": null, "triggeredBy": "event",
        "createdAtUtc": "2026-05-14T05:13:00Z", "warnings": [],
        "kind": "notification", "entryId": found[0]["entryId"], "sendNumber": 1,
        "attempts": [{"at": "2026-05-14T05:13:00Z", "outcome": "sent", "error": null, "provider": null,
            "providerMessageId": "p-1"}]});
    assert_eq!(found, [want.clone()]);
    want["attempts"][0]["answer"] = json!({"ok": true});
    assert_eq!(root.sees(&format!("{LOG}/{id}")).await, want);
    for nothing in ["bookingId=B-8", "status=Failed", "channel=Email", "from=2026-05-15T00:00:00Z"] {
        assert_eq!(items(&root, &format!("{LOG}?{nothing}")).await, Vec::<Value>::new(), "{nothing}");
    }
    root.get(&format!("{LOG}/999999")).await.problem(404);
}

async fn ntf_19_a_viewer_sees_no_whole_address(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    send(&world, "sms:twilio", taken()).await;
    let viewer = world.key(&root, "viewer").await;
    let listed = viewer.get(LOG).await;
    let id = listed.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let one = viewer.get(&format!("{LOG}/{id}")).await;
    let (list, trace) = (items(&viewer, SCHEDULES).await, listed.text.clone() + &one.text);
    let schedule = list[0]["id"].as_str().unwrap();
    let told = viewer.get(&format!("{SCHEDULES}/{schedule}/trace")).await.text;
    assert!(!(trace + &told).contains(NUMBER), "a viewer should not see the number: {told}");
    assert!(one.json()["toAddress"].as_str().unwrap().ends_with("0001"));
    assert!(!one.text.contains("answer"), "nor what the provider said: {}", one.text);
}

/// NTF-5, NTF-19: whoever knows a line's fields knows its key; both forms of a channel find it.
async fn ntf_5_a_line_of_the_log_tells_its_own_key(base: Base) {
    let (world, root, _) = shop(base).await;
    for channel in ["memory:sms", "memory:whatsapp-2", "Email"] {
        let template = json!({"eventType": "booking.confirmed", "channel": channel, "language": "en",
            "subject": (channel == "Email").then_some("x"), "body": "x"});
        root.does("/api/message-templates", template, 201).await;
    }
    let event = json!({"topic": "bookings", "kind": "booking.confirmed",
        "payload": {"bookingId": "B-7", "phone": NUMBER, "email": "a@example.org"}});
    root.does("/api/events", event, 202).await;
    world.advance("1s").await;
    let log = items(&root, LOG).await;
    let mut channels: Vec<&str> = log.iter().map(|line| line["channel"].as_str().unwrap()).collect();
    channels.sort_unstable();
    assert_eq!(channels, ["Email", "memory:sms", "memory:whatsapp-2"], "one template for each channel");
    for line in &log {
        let part = |name: &str| line[name].as_str().unwrap();
        let (channel, template) = (part("channel"), part("templateId"));
        let key = format!("{}:{}:{channel}:{template}", part("entityId"), part("eventType"));
        assert_eq!((part("idempotencyKey"), part("provider")), (key.as_str(), "memory"), "{line}");
        assert_eq!(items(&root, &format!("{LOG}?channel={channel}")).await, std::slice::from_ref(line));
    }
    for (kind, count) in [("SMS", 1), ("sms", 1), ("WhatsApp", 1), ("email", 1), ("memory:sms-2", 0)] {
        assert_eq!(items(&root, &format!("{LOG}?channel={kind}")).await.len(), count, "{kind}");
    }
}

/// NTF-18: what is held back says so, and until when; its trace still knows when it was sent.
async fn ntf_18_quiet_hours_leave_a_trace(base: Base) {
    let (world, root, _) = shop(base).await;
    let quiet = json!({"timeZone": "America/New_York", "quietHours": {"from": "21:00", "to": "08:00"}});
    assert_eq!(root.put(&format!("/api/recipients/{NUMBER}/preferences"), quiet).await.status, 200);
    let event = json!({"topic": "bookings", "kind": "booking.confirmed",
        "payload": {"bookingId": "B-7", "phone": NUMBER}});
    root.does("/api/events", event, 202).await;
    world.advance("1s").await;
    let (morning, said) = ("2026-05-14T12:00:00Z", "QuietHours: it is quiet where the recipient is until");
    let schedule = items(&root, SCHEDULES).await.remove(0);
    assert_eq!((&schedule["status"], &schedule["nextRetryOn"]), (&json!("Pending"), &json!(morning)));
    assert_eq!((&schedule["reasonCode"], &schedule["attemptCount"]), (&json!("QuietHours"), &json!(0)));
    let line = items(&root, LOG).await.remove(0);
    assert_eq!((&line["status"], &line["attempts"]), (&json!("Pending"), &json!([])));
    for told in [&schedule["lastError"], &line["lastError"]] {
        assert_eq!(told, &json!(format!("{said} {morning}")));
    }
    root.does("/dev/clock", json!({"set": morning}), 200).await;
    let schedule = items(&root, SCHEDULES).await.remove(0);
    assert_eq!((&schedule["status"], &schedule["reasonCode"]), (&json!("Sent"), &Value::Null), "{schedule}");
    assert_eq!((&schedule["lastError"], &schedule["attemptCount"]), (&Value::Null, &json!(1)));
    let id = schedule["id"].as_str().unwrap();
    let trace = root.sees(&format!("{SCHEDULES}/{id}/trace")).await;
    let lines = trace["lines"].as_array().unwrap();
    let held = lines.iter().find(|line| line["what"].as_str().unwrap().contains(said)).expect("a line");
    assert!(held["at"].as_str().unwrap().starts_with("2026-05-14T05:13:0"), "{trace}");
}

async fn ntf_20_wrong_filters_are_told(base: Base) {
    let root = World::manual(base).await.root();
    let path = format!("{LOG}?bookingId=1&entityId=2&status=Gone&from=soon&to=x");
    assert_eq!(root.get(&path).await.problem(422), ["entityId", "status", "from", "to"]);
    let path = format!("{SCHEDULES}?status=Gone&onHold=maybe");
    assert_eq!(root.get(&path).await.problem(422), ["status", "onHold"]);
    let path = format!("{SCHEDULES}/replay");
    assert_eq!(root.post(&path, json!({})).await.problem(422), ["ids"]);
    let wrong = json!({"filter": {"status": "Sent", "bookingId": 1, "entityId": 2, "x": 1}});
    assert_eq!(root.post(&path, wrong).await.problem(422), ["filter.x", "filter.status", "filter.bookingId"]);
    let wrong = json!({"templateId": "x", "to": "me"});
    assert_eq!(root.post(RESEND, wrong).await.problem(422), ["to", "channel", "templateId"]);
}

/// NTF-20: the fields of the contract.
async fn ntf_20_schedules_over_http(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    let again = DeliveryOutcome::Retry {
        outcome: "timeout",
        error: "slow".into(),
        wait: Duration::from_secs(60),
        counted: true,
    };
    send(&world, "sms:twilio", again).await;
    let found = items(&root, &format!("{SCHEDULES}?bookingId=B-7&status=Pending&onHold=false")).await;
    let (id, delivery) = (&found[0]["id"], &found[0]["history"][0]["deliveryId"]);
    let (key, hash) = (found[0]["key"].as_str().unwrap(), "5a".repeat(32));
    assert!(key.starts_with("event:"), "{key}");
    let want = json!({"id": id, "key": key, "type": "notification",
        "triggerType": "Event",
        "status": "Pending", "scheduledOn": "2026-05-14T05:13:00Z", "scheduledLocalDate": "2026-05-14",
        "timeZone": "UTC", "attemptCount": 1, "nextRetryOn": "2026-05-14T05:14:00Z", "onHold": false,
        "reasonCode": null, "lastError": "slow", "inputHash": hash, "version": 1,
        "dispatchResult": {"open": 1, "sent": 0, "failed": 0},
        "history": [{"at": "2026-05-14T05:13:00Z", "deliveryId": delivery, "channel": "sms:twilio",
            "outcome": "timeout", "from": "Pending", "to": "Pending", "actor": null, "reason": null,
            "cause": null, "error": "slow", "providerMessageId": null}]});
    assert_eq!(found, std::slice::from_ref(&want));
    assert_eq!(root.sees(&format!("{SCHEDULES}/{}", id.as_str().unwrap())).await, want);
    for by_key in [key, id.as_str().unwrap()] {
        assert_eq!(items(&root, &format!("{SCHEDULES}?key={by_key}")).await.len(), 1, "{by_key}");
    }
    for nothing in ["onHold=true", "status=Opened", "status=Processing", "key=B-8", "entityId=B-8"] {
        assert_eq!(items(&root, &format!("{SCHEDULES}?{nothing}")).await, Vec::<Value>::new(), "{nothing}");
    }
    root.get(&format!("{SCHEDULES}/999999")).await.problem(404);
}

async fn ntf_20_a_schedule_tells_what_happened(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    send(&world, "sms:twilio", refused()).await;
    let id = items(&root, SCHEDULES).await[0]["id"].as_str().unwrap().to_owned();
    let trace = root.sees(&format!("{SCHEDULES}/{id}/trace")).await;
    let lines: Vec<&str> =
        trace["lines"].as_array().unwrap().iter().map(|l| l["what"].as_str().unwrap()).collect();
    assert_eq!(trace["status"], "Failed");
    for (line, part) in lines.iter().zip([
        "of kind `booking.confirmed` about booking `B-7` matched active templates",
        "by sms:twilio to +9647700000001 was planned",
        ": `permanent`: no such number",
        "the entry ended as Failed: no such number",
    ]) {
        assert!(line.contains(part), "`{part}` should be in: {line}");
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
    root.get(&format!("{SCHEDULES}/999999/trace")).await.problem(404);
}

/// NTF-21, NTF-5: with who asked, under a key of its own; the original stays.
async fn ntf_21_a_resend_is_a_request_of_its_own(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    send(&world, "sms:twilio", taken()).await;
    let before = items(&root, LOG).await;
    let support = world.key(&root, "support").await;
    let asked = support.does(RESEND, json!({"channel": "sms"}), 202).await;
    let (request, one) = (asked["requestId"].as_str().unwrap(), &asked["deliveries"][0]);
    assert_eq!(one["idempotencyKey"], format!("manual:B-7:SMS:{template}:{request}"));
    let path = "/api/entities/Booking/B-7/resend-notification";
    let body = json!({"channel": "SMS", "templateId": template, "eventType": "booking.confirmed"});
    let second = support.does(path, body, 202).await;
    assert_ne!(second["requestId"], asked["requestId"], "each request is its own");
    let log = items(&root, LOG).await;
    assert_eq!(log[2..], before, "the original stays as it was");
    assert_eq!((&log[1]["id"], &log[1]["triggeredBy"]), (&one["id"], &json!("the support")));
    assert_eq!((&log[1]["status"], &log[1]["toAddress"]), (&json!("Pending"), &json!(NUMBER)));
    let key = format!("manual:{request}");
    let schedule = items(&root, &format!("{SCHEDULES}?key={key}")).await.remove(0);
    assert_eq!((&schedule["triggerType"], &schedule["key"]), (&json!("Manual"), &json!(key)));
}

async fn ntf_21_a_resend_that_makes_no_sense_is_told_why(base: Base) {
    let (world, root, template) = shop(base).await;
    let nothing = root.post(RESEND, json!({"channel": "SMS"})).await;
    nothing.problem(404);
    assert!(nothing.text.contains("nothing to send again"), "{}", nothing.text);
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    root.post(RESEND, json!({"channel": "SMS", "eventType": "booking.cancelled"})).await.problem(404);
    assert_eq!(root.post(RESEND, json!({"channel": "WhatsApp"})).await.problem(422), ["channel"]);
    let other = json!({"channel": "SMS", "templateId": 999});
    assert_eq!(root.post(RESEND, other).await.problem(422), ["templateId"]);
    let mail = json!({"eventType": "booking.confirmed", "channel": "Email", "language": "en",
        "subject": "B", "body": "B"});
    root.does("/api/message-templates", mail, 201).await;
    let nobody = root.post(RESEND, json!({"channel": "Email"})).await;
    nobody.problem(409);
    assert!(nobody.text.contains("no recipient"), "{}", nobody.text);
    assert_eq!(root.delete("/api/entities/booking/B-7").await.status, 204);
    root.post(RESEND, json!({"channel": "SMS"})).await.problem(409);
    assert_eq!(items(&root, LOG).await.len(), 1, "nothing was written");
}

/// NTF-20, NTF-21: from the event to the sandbox, and once more.
async fn ntf_21_a_resend_goes_out_like_any_other(base: Base) {
    let (world, root, _) = shop(base).await;
    let event = json!({"topic": "bookings", "kind": "booking.confirmed",
        "payload": {"bookingId": "B-7", "phone": NUMBER}});
    root.does("/api/events", event, 202).await;
    world.advance("1s").await;
    assert_eq!(items(&root, LOG).await[0]["status"], "Sent");
    root.does(RESEND, json!({"channel": "SMS"}), 202).await;
    world.advance("1s").await;
    let log = items(&root, &format!("{LOG}?bookingId=B-7&status=Sent")).await;
    let by: Vec<&Value> = log.iter().map(|one| &one["triggeredBy"]).collect();
    assert_eq!(by, ["root", "event"]);
    let letters = items(&root, "/dev/messages").await;
    let bodies: Vec<&Value> = letters.iter().map(|letter| &letter["body"]).collect();
    assert_eq!(bodies, ["Booking B-7 is confirmed.", "Booking B-7 is confirmed."]);
    assert_eq!(items(&root, &format!("{SCHEDULES}?status=Sent")).await.len(), 2);
}

/// Something happens to a booking, and people are told.
async fn happens(world: &World, root: &Client, kind: &str, id: &str) {
    let event = json!({"topic": "bookings", "kind": kind, "entity": {"type": "booking", "id": id},
        "payload": {"bookingId": id, "phone": NUMBER}});
    root.does("/api/events", event, 202).await;
    world.advance("1s").await;
}

/// Makes a template; answers its id.
async fn template_of(root: &Client, kind: &str, channel: &str) -> String {
    let template =
        json!({"eventType": kind, "channel": channel, "language": "en", "body": format!("{kind}!")});
    root.does("/api/message-templates", template, 201).await["id"].as_str().unwrap().to_owned()
}

/// NTF-21: of the kind that the template is for, else of the latest that has one on the channel.
async fn ntf_21_a_resend_is_of_the_latest_event_that_has_a_template(base: Base) {
    let (world, root, confirmed) = shop(base).await;
    let reminder = template_of(&root, "booking.reminder", "WhatsApp").await;
    happens(&world, &root, "booking.confirmed", "B-7").await;
    happens(&world, &root, "booking.reminder", "B-7").await;
    let key = |asked: &Value| asked["deliveries"][0]["idempotencyKey"].as_str().unwrap().to_owned();
    for (body, channel, template) in [
        (json!({"channel": "SMS", "templateId": confirmed}), "SMS", &confirmed),
        (json!({"channel": "SMS"}), "SMS", &confirmed),
        (json!({"channel": "WhatsApp"}), "WhatsApp", &reminder),
        (json!({"channel": "WhatsApp", "templateId": reminder}), "WhatsApp", &reminder),
        (json!({"channel": "SMS", "eventType": "booking.confirmed"}), "SMS", &confirmed),
    ] {
        let asked = root.does(RESEND, body.clone(), 202).await;
        assert!(key(&asked).starts_with(&format!("manual:B-7:{channel}:{template}:")), "{body}: {asked}");
    }
    let unfit = json!({"channel": "WhatsApp", "templateId": confirmed});
    assert_eq!(root.post(RESEND, unfit).await.problem(422), ["templateId"]);
    assert_eq!(root.post(RESEND, json!({"channel": "Email"})).await.problem(422), ["channel"]);
}

/// NTF-21: nobody was told of it then, since there were no words for it.
async fn ntf_21_an_event_from_before_its_template_is_sent(base: Base) {
    let (world, root, _) = shop(base).await;
    happens(&world, &root, "booking.moved", "B-7").await;
    assert_eq!(items(&root, SCHEDULES).await.len(), 0, "it was passed over");
    root.post(RESEND, json!({"channel": "SMS"})).await.problem(404);
    template_of(&root, "booking.moved", "SMS").await;
    root.post("/api/bookings/B-8/resend-notification", json!({"channel": "SMS"})).await.problem(404);
    root.does(RESEND, json!({"channel": "SMS"}), 202).await;
    world.advance("1s").await;
    let letters = items(&root, "/dev/messages").await;
    assert_eq!(letters.iter().map(|letter| &letter["body"]).collect::<Vec<_>>(), ["booking.moved!"]);
}

/// NTF-22: with a dry run that says what the keys stop.
async fn ntf_22_failed_schedules_are_replayed(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER), ("email:smtp", "a@example.org")]).await;
    send(&world, "sms:twilio", refused()).await;
    send(&world, "email:smtp", taken()).await;
    let id = items(&root, SCHEDULES).await[0]["id"].clone();
    let path = format!("{SCHEDULES}/replay");
    let would = root.does(&path, json!({"filter": {"status": "Failed"}, "dryRun": true}), 200).await;
    let log = items(&root, LOG).await;
    let told = |n: usize, reason: Option<&str>| {
        json!({"scheduleId": id, "deliveryId": log[n]["id"], "channel": log[n]["channel"],
            "idempotencyKey": log[n]["idempotencyKey"], "stopped": reason.is_some(), "reason": reason})
    };
    let told = json!([told(1, None), told(0, Some("It was sent before"))]);
    let want = json!({"wouldReplay": 1, "ids": [id], "sentAgain": 1, "stoppedByKey": 1, "moreItems": 0,
        "items": told});
    assert_eq!(would, want);
    assert_eq!(items(&root, SCHEDULES).await[0]["status"], "Failed", "a dry run changes nothing");
    let other = root.does(&path, json!({"filter": {"bookingId": "B-8"}}), 200).await;
    assert_eq!(other["replayed"], 0);
    let done = root.does(&path, json!({"ids": [id]}), 200).await;
    assert_eq!(done, json!({"replayed": 1, "ids": [id], "sentAgain": 1, "stoppedByKey": 1}));
    send(&world, "sms:twilio", taken()).await;
    let schedule = items(&root, SCHEDULES).await.remove(0);
    let counts = json!({"open": 0, "sent": 2, "failed": 0});
    assert_eq!((&schedule["status"], &schedule["dispatchResult"]), (&json!("Sent"), &counts));
    assert_eq!(schedule["attemptCount"], 3, "the history stays");
}

/// NTF-22, NTF-3: what failed since there was no template is sent when there is one.
async fn ntf_22_what_had_no_template_is_planned_by_todays(base: Base) {
    let (world, root, template) = shop(base).await;
    let path = format!("/api/message-templates/{template}");
    assert_eq!(root.delete(&path).await.status, 204);
    let ended = Some((EntryStatus::Failed, None, "Template not found".to_owned()));
    let about = Some(Entity { kind: "booking".into(), id: "B-7".into() });
    let notification = PlannedEntry {
        kind: punctual::flow::rules::entry::EntryKind::Notification,
        entity: about,
        ended,
        deliveries: Vec::new(),
        request: None,
        origin: EntryOrigin::default(),
    };
    file_notification(&world, &root, notification).await;
    let path = format!("{SCHEDULES}/replay");
    let replay = async |dry: bool| root.does(&path, json!({"filter": {}, "dryRun": dry}), 200).await;
    assert_eq!(replay(false).await["sentAgain"], 0, "there is still no template");
    let template = json!({"eventType": "booking.confirmed", "channel": "SMS", "language": "en",
        "body": "{{bookingId}}"});
    let made = root.does("/api/message-templates", template, 201).await;
    let id = items(&root, SCHEDULES).await[0]["id"].clone();
    let would = replay(true).await;
    assert_eq!((&would["wouldReplay"], &would["ids"]), (&json!(1), &json!([id])));
    assert_eq!((&would["sentAgain"], &would["stoppedByKey"]), (&json!(1), &json!(0)));
    let told = json!([{"scheduleId": id, "deliveryId": null, "channel": "memory:sms",
        "idempotencyKey": format!("B-7:booking.confirmed:SMS:{}", made["id"].as_str().unwrap()),
        "stopped": false, "reason": null}]);
    assert_eq!(would["items"], told);
    assert_eq!(items(&root, LOG).await, Vec::<Value>::new(), "a dry run writes nothing");
    assert_eq!(replay(false).await["sentAgain"], 1);
    assert_eq!(replay(false).await["sentAgain"], 0, "it waits already");
    assert_eq!(items(&root, SCHEDULES).await[0]["status"], "Pending");
    send(&world, "memory:sms", taken()).await;
    let sent = items(&root, SCHEDULES).await.remove(0);
    assert_eq!((&sent["status"], &sent["lastError"]), (&json!("Sent"), &json!(null)));
}

/// NTF-23: another tenant's ids lead nowhere.
async fn ntf_23_notifications_are_found_by_their_tenant_only(base: Base) {
    let (world, root, template) = shop(base).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    send(&world, "sms:twilio", refused()).await;
    let other = world.tenant("other").await;
    let log = items(&root, LOG).await[0]["id"].as_str().unwrap().to_owned();
    let schedule = items(&root, SCHEDULES).await[0]["id"].as_str().unwrap().to_owned();
    other.get(&format!("{LOG}/{log}")).await.problem(404);
    other.get(&format!("{SCHEDULES}/{schedule}")).await.problem(404);
    other.get(&format!("{SCHEDULES}/{schedule}/trace")).await.problem(404);
    other.post(RESEND, json!({"channel": "SMS"})).await.problem(404);
    let replayed = other.does(&format!("{SCHEDULES}/replay"), json!({"ids": [schedule]}), 200).await;
    assert_eq!(replayed["replayed"], 0);
    for path in [LOG, SCHEDULES] {
        assert_eq!(items(&other, &format!("{path}?bookingId=B-7")).await, Vec::<Value>::new());
    }
}

/// NTF-20: notifications and survey instances in one list, page by page, without one twice or left out.
async fn ntf_20_survey_instances_are_listed_with_schedules(base: Base) {
    let (world, root, template) = shop(base).await;
    let survey = json!({"name": "csi", "definition": crate::surveys::csi_gr()});
    root.does("/api/surveys", survey, 201).await;
    root.does("/api/surveys/1/publish", json!({}), 200).await;
    file(&world, &root, &template, &[("sms:twilio", NUMBER)]).await;
    root.does("/api/triggers/ingest", crate::surveys::event("1"), 200).await;
    world.advance("1s").await;
    root.does("/api/triggers/ingest", crate::surveys::event("2"), 200).await;
    let all = items(&root, SCHEDULES).await;
    let kinds: Vec<&Value> = all.iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["survey", "survey", "notification"], "the newest first: {all:?}");
    let instance = root.sees(&format!("/api/survey-instances/{}", all[0]["id"].as_str().unwrap())).await;
    assert_eq!((&all[0]["key"], &all[0]["status"]), (&instance["uniqueHash"], &instance["status"]));
    assert_eq!(all[1]["attemptCount"], 1, "its invitation went out: {}", all[1]);
    let mut paged = Vec::new();
    let mut path = format!("{SCHEDULES}?limit=1");
    while paged.len() < 5 {
        let page = root.sees(&path).await;
        paged.extend(page["items"].as_array().unwrap().iter().map(|one| one["id"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("{SCHEDULES}?limit=1&cursor={cursor}");
    }
    assert_eq!(paged, all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>());
    let id = all[0]["id"].as_str().unwrap();
    let counts = [(format!("key={id}"), 1), ("status=Sent".into(), 1), ("bookingId=B-7".into(), 1)];
    for (filter, count) in counts {
        assert_eq!(items(&root, &format!("{SCHEDULES}?{filter}")).await.len(), count, "{filter}");
    }
    root.get(&format!("{SCHEDULES}?cursor=37")).await.problem(422);
    let other = world.tenant("other").await;
    assert_eq!(items(&other, &format!("{SCHEDULES}?key={id}")).await, Vec::<Value>::new());
}

/// NTF-20: a survey entry has its date in the tenant's zone, whether it is held, the hash of its input and
/// its version.
async fn ntf_20_a_survey_entry_has_the_fields_of_every_schedule(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/dev/clock", json!({"set": "2026-05-14T22:30:00Z", "run": false}), 200).await;
    let tenant = json!({"slug": "iraq", "name": "Iraq", "timeZone": "Asia/Baghdad", "defaultLocale": "ar"});
    root.does("/api/tenants", tenant, 201).await;
    let iraq = root.tenant("iraq");
    let survey = json!({"name": "csi", "definition": crate::surveys::csi_gr()});
    let made = iraq.does("/api/surveys", survey, 201).await;
    iraq.does(&format!("/api/surveys/{}/publish", made["id"]), json!({}), 200).await;
    for wip in ["1", "2"] {
        iraq.does("/api/triggers/ingest", crate::surveys::event(wip), 200).await;
    }
    let all = items(&iraq, SCHEDULES).await;
    let (second, first) = (&all[0], &all[1]);
    let fields = |one: &Value| {
        let names = ["type", "scheduledOn", "scheduledLocalDate", "timeZone", "onHold", "version"];
        names.map(|name| one[name].clone())
    };
    let want = |held: bool, version: u32| {
        [
            json!("survey"),
            json!("2026-05-14T22:30:00Z"),
            json!("2026-05-15"),
            json!("Asia/Baghdad"),
            json!(held),
            json!(version),
        ]
    };
    assert_eq!(fields(first), want(false, 1), "{first}");
    let hash = first["inputHash"].as_str().unwrap_or_default();
    assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{first}");
    assert_ne!(first["inputHash"], second["inputHash"], "another event is another input");
    let path = format!("{SCHEDULES}/{}", first["id"].as_str().unwrap());
    iraq.does(&format!("{path}/hold"), json!({"reason": "asked for"}), 200).await;
    let held = iraq.sees(&path).await;
    assert_eq!(fields(&held), want(true, 2), "{held}");
    assert_eq!(held["inputHash"], first["inputHash"]);
    let listed = items(&iraq, &format!("{SCHEDULES}?onHold=true")).await;
    assert_eq!(listed.iter().map(fields).collect::<Vec<_>>(), [want(true, 2)]);
}

/// NTF-18, NTF-20, NTF-22: an invitation that was refused is found by its key and its id, says why, and is
/// sent once more when a person asks for it.
async fn ntf_20_a_survey_instance_is_a_schedule_like_any_other(base: Base) {
    let (world, root, _) = shop(base).await;
    let survey = json!({"name": "csi", "definition": crate::surveys::csi_gr()});
    root.does("/api/surveys", survey, 201).await;
    root.does("/api/surveys/1/publish", json!({}), 200).await;
    root.does("/api/suppressions", json!({"address": "+964 770 000 0001", "reason": "stop"}), 201).await;
    root.does("/api/triggers/ingest", crate::surveys::event("1"), 200).await;
    root.does("/api/scheduler/tick", json!({}), 200).await;
    let refused = items(&root, SCHEDULES).await.remove(0);
    let (id, key) = (refused["id"].as_str().unwrap(), refused["key"].as_str().unwrap());
    assert_eq!((&refused["status"], &refused["reasonCode"]), (&json!("Failed"), &json!("stop")));
    assert_eq!(refused["lastError"], "the recipient is not sent this: stop");
    assert_eq!((&refused["attemptCount"], &refused["history"][0]["outcome"]), (&json!(1), &json!("skipped")));
    for named in [id, key] {
        let found = items(&root, &format!("{SCHEDULES}?key={named}")).await;
        assert_eq!(found, std::slice::from_ref(&refused), "{named}");
    }
    let unknown = format!("{SCHEDULES}?key={}", key.replace(|_| true, "0"));
    assert_eq!(items(&root, &unknown).await, Vec::<Value>::new());
    let path = format!("{SCHEDULES}/{id}");
    assert_eq!(root.sees(&path).await, refused);
    let told = root.sees(&format!("{path}/trace")).await;
    let lines: Vec<&str> =
        told["lines"].as_array().unwrap().iter().map(|l| l["what"].as_str().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "event 1 (`event:service-visit-closed`) matched trigger `csi-gr-trigger` of survey 1, version 1",
            "delivery 1 (send 1) by memory:default to +964 770 000 0001 was planned with the built-in text",
            "delivery 1 (send 1) by memory:default was skipped (stop): the recipient is not sent this: stop",
            "the entry ended as Failed: the recipient is not sent this: stop",
        ]
    );
    let shown = root.sees(&format!("/api/survey-instances/{id}")).await;
    assert_eq!((&shown["status"], &shown["deliveryLog"][0]["reason"]), (&json!("Failed"), &json!("stop")));

    root.send("DELETE", "/api/suppressions?address=%2B9647700000001", "").await;
    root.does("/dev/clock", json!({"advance": "2d"}), 200).await;
    assert_eq!(root.sees(&path).await["status"], "Failed", "lifting alone sends nothing");
    let replay = format!("{SCHEDULES}/replay");
    let other = world.tenant("other").await;
    assert_eq!(other.does(&replay, json!({"ids": [id]}), 200).await["replayed"], 0);
    for path in [path.clone(), format!("{path}/trace"), format!("{SCHEDULES}/nothing")] {
        other.get(&path).await.problem(404);
    }
    let dry = root.does(&replay, json!({"ids": [id], "dryRun": true}), 200).await;
    // It was skipped, so it has no delivery to put back: the send is planned anew.
    let item = json!({"scheduleId": id, "deliveryId": null, "channel": "memory:default",
        "idempotencyKey": format!("survey:{id}:1"), "stopped": false, "reason": null});
    let want = json!({"wouldReplay": 1, "ids": [id], "sentAgain": 1, "stoppedByKey": 0, "items": [item],
        "moreItems": 0});
    assert_eq!(dry, want);
    assert_eq!(root.does(&replay, json!({"ids": [id, 37]}), 200).await["ids"], json!([id]));
    root.does("/api/scheduler/tick", json!({}), 200).await;
    let sent = root.sees(&path).await;
    assert_eq!(
        (&sent["status"], &sent["reasonCode"], &sent["lastError"]),
        (&json!("Sent"), &json!(null), &json!(null))
    );
    assert_eq!((&sent["attemptCount"], &sent["history"][1]["outcome"]), (&json!(2), &json!("sent")));
    root.post(&replay, json!({"ids": ["nothing"]})).await.problem(422);
}
