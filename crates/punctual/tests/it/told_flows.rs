//! Surveys that events of topics begin and stop (NTF-2: an event whose kind has a matching flow). The clock
//! stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT, seconds};
use crate::invitation::{publish, survey, time};
use crate::notification::{
    KIND, TOPIC, booking, confirm, confirm_in, define, engine, inbox, notifications, template, texts, tick,
};
use punctual::flow::rules::entity::NewEntityState;
use punctual::operate::store::outbox::{OutboxFilter, OutboxStatus};
use punctual::testing::Backend;
use punctual::{Engine, Entity, MessageId, NewMessage, NewTimer};
use serde_json::{Value, json};

cases![
    ntf_2_an_event_of_a_topic_begins_a_survey_by_each_channel,
    ntf_2_an_entry_of_a_topic_remembers_its_event,
    ntf_2_what_a_filter_does_not_want_begins_nothing,
    ntf_2_the_same_event_begins_one_entry,
    ntf_2_an_event_of_a_topic_stops_what_another_began,
    ntf_2_a_stop_that_comes_again_beside_an_earlier_one_still_stops,
    ntf_2_a_topic_that_a_kind_has_taken_in_vain_keeps_its_queue,
    ntf_2_a_timer_stops_what_was_begun_before_it_fired,
    ntf_2_a_kind_with_templates_and_a_survey_gets_both,
    ntf_2_a_crash_before_the_event_is_settled_makes_nothing_twice,
    ntf_2_what_waited_for_its_route_meets_a_survey_published_since,
    ntf_2_an_unpublished_survey_hears_nothing,
    ntf_2_without_an_address_the_event_fails_with_the_reason,
    ntf_2_everybody_an_event_names_is_asked,
    ntf_2_without_a_kind_the_payload_names_the_recipient,
    ntf_2_what_is_pointless_begins_nothing_and_still_stops,
    ntf_2_an_answer_begins_another_survey_and_a_send_none,
    ntf_2_another_process_sees_a_publish_at_once,
];

/// A survey after a confirmed booking, by SMS.
fn after_booking(edit: impl FnOnce(&mut Value)) -> Value {
    survey(|d| {
        d["triggers"][0] = json!({
            "id": "by-sms",
            "eventKind": KIND,
            "filter": {"questionId": "candidate.status", "op": "==", "value": "Confirmed"},
            "dedupRecipe": ["templateId", "candidate.bookingId"],
            "schedule": {"initialDelay": "0d", "reminders": []},
            "channel": "memory:sms",
        });
        edit(d);
    })
}

/// The same, sent a day later, and stopped by a cancellation.
fn stoppable() -> Value {
    after_booking(|d| {
        d["triggers"][0]["schedule"]["initialDelay"] = json!("1d");
        d["triggers"][0]["stopOn"] = json!([{"eventKind": "booking.cancelled"}]);
    })
}

async fn tell(engine: &Engine, kind: &str, payload: &Value) {
    engine.enqueue(TENANT, vec![NewMessage::new(TOPIC, kind, payload.to_string())]).await.unwrap();
}

/// Entries as `channel address status`.
async fn entries(t: &Bench) -> Vec<String> {
    let sql = "select channel || ' ' || address || ' ' || status from punctual.entry \
            where kind = 'survey' order by channel, id";
    texts(t, sql).await
}

async fn dead(t: &Bench) -> Vec<String> {
    texts(t, "select error from punctual.dead_letter order by message_id").await
}

/// How the last event stands in the outbox.
async fn outbox(engine: &Engine) -> OutboxStatus {
    let filter = OutboxFilter { topic: Some(TOPIC.into()), ..OutboxFilter::default() };
    engine.store().outbox(filter, MessageId(i64::MAX), 1).await.unwrap().messages[0].status
}

/// The letters without their words.
fn sent(engine: &Engine) -> Vec<String> {
    let mut all: Vec<String> =
        inbox(engine).iter().map(|letter| letter.split(": ").next().unwrap_or_default().to_owned()).collect();
    all.sort();
    all
}

async fn routes(t: &Bench) -> Vec<String> {
    let sql = "select r.topic from punctual.route r join punctual.lane l on l.id = r.lane_id \
        where l.subscription = '/flows' order by r.topic";
    texts(t, sql).await
}

/// How much of the topic's events waits anywhere.
async fn waiting(t: &Bench) -> i64 {
    let sql = "select count(*) from punctual.work w join punctual.message m on m.id = w.message_id \
        join punctual.lane l on l.id = w.lane_id and l.purpose = 'dispatch' \
        where m.topic = 'booking.events'";
    t.count(sql).await
}

/// Takes a table away, so that whoever writes to it fails; or brings it back.
async fn rename(t: &Bench, from: &str, to: &str) {
    let prefix = if t.backend == Backend::Sqlite { "punctual_" } else { "" };
    t.texts(&format!("alter table punctual.{from} rename to {prefix}{to}")).await;
}

/// NTF-2: each trigger takes the address that its channel needs, and nothing else is made of the event.
async fn ntf_2_an_event_of_a_topic_begins_a_survey_by_each_channel(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    let by_mail = |d: &mut Value| {
        let mut other = d["triggers"][0].clone();
        other["id"] = json!("by-mail");
        other["channel"] = json!("memory:email");
        other["dedupRecipe"] = json!(["templateId", "recipient.address", "candidate.bookingId"]);
        d["triggers"].as_array_mut().unwrap().push(other);
    };
    publish(&engine, after_booking(by_mail)).await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 2);
    assert_eq!(sent(&engine), ["memory:email guest@example.com", "memory:sms +919876543210"]);
    let by = texts(t, "select distinct triggered_by from punctual.entry where kind = 'survey'").await;
    assert_eq!(by, [format!("event:{KIND}")]);
    assert_eq!(notifications(t).await, [""; 0], "a kind that a survey looks at needs no template");
    assert_eq!(dead(t).await, [""; 0]);
    assert_eq!(waiting(t).await, 0);
    assert_eq!(outbox(&engine).await, OutboxStatus::Published);
}

/// NTF-2: payload, time and entity are the event's, locale and reference the recipient's.
async fn ntf_2_an_entry_of_a_topic_remembers_its_event(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |k| k["recipients"]["ref"] = json!("guest.id")).await;
    let definition = after_booking(|d| {
        d["triggers"][0]["filter"] = json!({"questionId": "entity.id", "op": "==", "value": "7"});
        d["triggers"][0]["schedule"]["initialDelay"] = json!("2h");
    });
    publish(&engine, definition).await;
    let mut payload = booking("7");
    payload["guest"]["locale"] = json!("ar");
    payload["guest"]["id"] = json!(55);
    let mut message = NewMessage::new(TOPIC, KIND, payload.to_string());
    message.occurred_at = Some(time("2026-05-14T05:00:00Z"));
    engine.enqueue(TENANT, vec![message]).await.unwrap();
    tick(&engine).await;
    let rows = t
        .texts(
            "select e.locale, e.customer_ref, m.payload, e.due_at from punctual.entry e \
            join punctual.message m on m.id = e.message_id where e.kind = 'survey'",
        )
        .await;
    let row: Vec<&str> = rows[0].iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!((row[0], row[1]), ("ar", "55"));
    assert_eq!(serde_json::from_str::<Value>(row[2]).unwrap(), payload);
    let due = time("2026-05-14T07:00:00Z").as_micros().to_string();
    assert_eq!(row[3], due, "the event's time counts");
}

/// NTF-2: surveys look at the kind, so the event is theirs and not unconsumed.
async fn ntf_2_what_a_filter_does_not_want_begins_nothing(t: &Bench) {
    let engine = engine(t).await;
    publish(&engine, after_booking(|_| {})).await;
    let mut other = booking("1");
    other["status"] = json!("Tentative");
    tell(&engine, KIND, &other).await;
    tick(&engine).await;
    assert_eq!(entries(t).await, [""; 0]);
    assert_eq!((dead(t).await.len(), outbox(&engine).await), (0, OutboxStatus::Published));
    tell(&engine, "booking.seen", &booking("1")).await;
    tick(&engine).await;
    assert_eq!(outbox(&engine).await, OutboxStatus::Unconsumed, "no survey names that kind");
}

/// NTF-2: the dedup key lets one through, in one batch and later.
async fn ntf_2_the_same_event_begins_one_entry(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, after_booking(|_| {})).await;
    confirm(&engine, "1").await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 1);
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 0);
    assert_eq!(entries(t).await.len(), 1);
    assert_eq!(outbox(&engine).await, OutboxStatus::Published);
}

/// NTF-2: later, in the same batch, and not before.
async fn ntf_2_an_event_of_a_topic_stops_what_another_began(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, stoppable()).await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(entries(t).await, ["memory:sms +919876543210 0"]);
    tell(&engine, "booking.cancelled", &json!({"bookingId": "1"})).await;
    tick(&engine).await;
    assert_eq!(entries(t).await, ["memory:sms +919876543210 5"], "it was withdrawn");
    confirm(&engine, "2").await;
    tell(&engine, "booking.cancelled", &json!({"bookingId": "2"})).await;
    tell(&engine, "booking.cancelled", &json!({"bookingId": "3"})).await;
    confirm(&engine, "3").await;
    tick(&engine).await;
    let statuses = texts(
        t,
        "select e.status from punctual.entry e join punctual.message m on m.id = e.message_id \
        where e.kind = 'survey' order by m.payload",
    )
    .await;
    assert_eq!(statuses, ["5", "5", "0"], "what comes after a cancellation goes on");
    assert_eq!(dead(t).await, [""; 0]);
    engine.travel(time("2026-05-16T00:00:00Z"), true).await.unwrap();
    assert_eq!(sent(&engine), ["memory:sms +919876543210"]);
}

/// NTF-2, TRG-2: the stop that came after the beginning counts, also when a crash brings all three again.
async fn ntf_2_a_stop_that_comes_again_beside_an_earlier_one_still_stops(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, stoppable()).await;
    let cancelled = json!({"bookingId": "1"});
    tell(&engine, "booking.cancelled", &cancelled).await;
    confirm(&engine, "1").await;
    tell(&engine, "booking.cancelled", &cancelled).await;
    rename(t, "entry_history", "history_elsewhere").await;
    // The stop cannot be written, the beginning is.
    let _ = engine.tick(100).await;
    assert_eq!(entries(t).await, ["memory:sms +919876543210 0"]);
    rename(t, "history_elsewhere", "entry_history").await;
    engine.travel(t.now().await.plus(seconds(3_600)), true).await.unwrap();
    assert_eq!(entries(t).await, ["memory:sms +919876543210 5"], "the last event withdraws it");
    assert_eq!(dead(t).await, [""; 0]);
}

/// NTF-2, PLT-9: a kind that no survey publishes takes their topic. What is published there goes somewhere,
/// and the worker does not look for its route without end.
async fn ntf_2_a_topic_that_a_kind_has_taken_in_vain_keeps_its_queue(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, after_booking(|_| {})).await;
    let kind = json!({"topic": "survey.responses", "recipients": {"phone": "phone"}});
    engine.store().put_event_kind(TENANT, "response-complete", kind).await.unwrap();
    confirm(&engine, "1").await;
    let ticked = tokio::time::timeout(seconds(30), tick(&engine)).await;
    assert_eq!(ticked.expect("the tick should end").sent, 1);
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 0);
}

/// NTF-2, TRG-2: an event counts from when it was due, not from when it was written.
async fn ntf_2_a_timer_stops_what_was_begun_before_it_fired(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish(&engine, stoppable()).await;
    let cancelled = json!({"bookingId": "1"}).to_string();
    let timer = NewTimer::after(seconds(3_600), TOPIC, cancelled);
    let timer = timer.with(|message| NewMessage { kind: "booking.cancelled".into(), ..message });
    engine.schedule_one(TENANT, timer).await.unwrap();
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(entries(t).await, ["memory:sms +919876543210 0"]);
    engine.travel(t.now().await.plus(seconds(3_600)), true).await.unwrap();
    assert_eq!(entries(t).await, ["memory:sms +919876543210 5"], "the timer has withdrawn it");
}

/// NTF-2: active templates or a matching flow: both.
async fn ntf_2_a_kind_with_templates_and_a_survey_gets_both(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "Email", "Confirmed").await;
    publish(&engine, after_booking(|_| {})).await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 2);
    assert_eq!(sent(&engine), ["memory:email guest@example.com", "memory:sms +919876543210"]);
    assert_eq!(notifications(t).await, ["1 -"]);
}

/// NTF-2: what an event began is committed, and the transaction that settles it fails; the event comes again
/// by its queue's waits, and what is missing is made of it.
async fn ntf_2_a_crash_before_the_event_is_settled_makes_nothing_twice(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "Email", "Confirmed").await;
    publish(&engine, after_booking(|_| {})).await;
    rename(t, "delivery", "delivery_elsewhere").await;
    confirm(&engine, "1").await;
    assert!(engine.tick(100).await.is_err(), "deliveries cannot be written");
    assert_eq!(entries(t).await.len(), 1, "the entry is there");
    assert_eq!(t.count("select count(*) from punctual.attempt").await, 1, "the event is tried again");
    rename(t, "delivery_elsewhere", "delivery").await;
    engine.travel(time("2026-05-14T06:13:00Z"), true).await.unwrap();
    assert_eq!(sent(&engine), ["memory:email guest@example.com", "memory:sms +919876543210"]);
    assert_eq!(entries(t).await.len(), 1);
    assert_eq!(notifications(t).await, ["1 -"]);
    assert_eq!(dead(t).await, [""; 0]);
    assert_eq!(t.count("select count(*) from punctual.claim where finished_at is null").await, 0);
}

/// NTF-2: as of a host's transaction, which makes no routes.
async fn ntf_2_what_waited_for_its_route_meets_a_survey_published_since(t: &Bench) {
    let engine = engine(t).await;
    t.enqueue(vec![NewMessage::new(
        TOPIC,
        KIND,
        json!({"bookingId": "1", "status": "Confirmed",
        "phone": "+1"})
        .to_string(),
    )])
    .await;
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 1);
    publish(&engine, after_booking(|_| {})).await;
    assert_eq!(tick(&engine).await.sent, 1);
    assert_eq!(sent(&engine), ["memory:sms +1"]);
    assert_eq!(routes(t).await, [TOPIC]);
    assert_eq!(waiting(t).await, 0);
}

/// NTF-2: its topics have no lane for flows any more, and events wait where they did before.
async fn ntf_2_an_unpublished_survey_hears_nothing(t: &Bench) {
    let engine = engine(t).await;
    engine.enqueue(TENANT, vec![NewMessage::new("other", "x", "{}")]).await.unwrap();
    assert_eq!(routes(t).await, [""; 0]);
    let first = publish(&engine, after_booking(|_| {})).await;
    let second = publish(&engine, after_booking(|_| {})).await;
    assert_eq!(routes(t).await, ["other"], "and not what surveys tell");
    engine.store().unpublish_flow(TENANT, first).await.unwrap();
    assert_eq!(routes(t).await, ["other"], "one still listens");
    engine.store().unpublish_flow(TENANT, second).await.unwrap();
    assert_eq!(routes(t).await, [""; 0]);
    tell(&engine, KIND, &json!({"bookingId": "1", "status": "Confirmed", "phone": "+1"})).await;
    tick(&engine).await;
    assert_eq!((entries(t).await.len(), outbox(&engine).await), (0, OutboxStatus::Unconsumed));
    engine.store().publish_flow(TENANT, first).await.unwrap();
    tell(&engine, KIND, &json!({"bookingId": "2", "status": "Confirmed", "phone": "+1"})).await;
    tick(&engine).await;
    assert_eq!(entries(t).await.len(), 1, "published again, it hears what comes from then on");
    let bare = publish(&engine, after_booking(|d| d["triggers"] = json!([]))).await;
    engine.store().unpublish_flow(TENANT, first).await.unwrap();
    assert_eq!(routes(t).await, [""; 0], "survey {bare} has no triggers");
}

/// NTF-2: missing data marks the event failed with the reason, if nothing else was made of it.
async fn ntf_2_without_an_address_the_event_fails_with_the_reason(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    let flow = publish(&engine, after_booking(|_| {})).await;
    let mut nowhere = booking("1");
    nowhere["guest"]["phone"] = Value::Null;
    nowhere["status"] = json!("Tentative");
    confirm_in(&engine, TENANT, &nowhere).await;
    tick(&engine).await;
    assert_eq!(dead(t).await, [""; 0], "nobody wants it, so nothing is missing");
    nowhere["status"] = json!("Confirmed");
    confirm_in(&engine, TENANT, &nowhere).await;
    tick(&engine).await;
    let said = dead(t).await.join("\n");
    assert!(said.contains(&format!("trigger `by-sms` of survey {flow} sends by memory:sms")), "{said}");
    assert_eq!(outbox(&engine).await, OutboxStatus::Failed);
    template(&engine, TENANT, "Email", "Confirmed").await;
    confirm_in(&engine, TENANT, &nowhere).await;
    assert_eq!(tick(&engine).await.sent, 1, "they are told by mail");
    assert_eq!((dead(t).await.len(), notifications(t).await), (1, vec!["1 -".to_owned()]));
}

/// NTF-2: of several recipients each one who can be reached gets a survey.
async fn ntf_2_everybody_an_event_names_is_asked(t: &Bench) {
    let engine = engine(t).await;
    let each = json!({"each": "guests", "phone": "phone", "email": "email"});
    define(&engine, TENANT, |k| k["recipients"] = each).await;
    let recipe = json!(["templateId", "recipient.address", "candidate.bookingId"]);
    publish(&engine, after_booking(|d| d["triggers"][0]["dedupRecipe"] = recipe)).await;
    let party = json!({"bookingId": "1", "status": "Confirmed",
        "guests": [{"phone": "+1"}, {"email": "a@b.c"}, {"phone": "+2"}]});
    confirm_in(&engine, TENANT, &party).await;
    tick(&engine).await;
    assert_eq!(sent(&engine), ["memory:sms +1", "memory:sms +2"]);
    assert_eq!(dead(t).await, [""; 0], "one who cannot be reached takes nothing from the others");
}

/// NTF-2: as an ingest has it.
async fn ntf_2_without_a_kind_the_payload_names_the_recipient(t: &Bench) {
    let engine = engine(t).await;
    publish(&engine, after_booking(|_| {})).await;
    let payload = json!({"bookingId": "1", "status": "Confirmed",
        "recipient": {"address": "+964 1", "locale": "ar", "customerRef": "c-1", "name": "Jo"}});
    tell(&engine, KIND, &payload).await;
    tick(&engine).await;
    assert_eq!(sent(&engine), ["memory:sms +964 1"]);
    let kept =
        texts(t, "select locale || ' ' || customer_ref from punctual.entry where kind = 'survey'").await;
    assert_eq!(kept, ["ar c-1"]);
}

/// NTF-2, NTF-3: what makes a message pointless makes a survey pointless.
async fn ntf_2_what_is_pointless_begins_nothing_and_still_stops(t: &Bench) {
    let engine = engine(t).await;
    let cancelled = json!({"questionId": "entity.status", "op": "==", "value": "Cancelled"});
    define(&engine, TENANT, |k| k["cancelWhen"] = cancelled.clone()).await;
    let stops = json!([{"eventKind": KIND, "filter": {"questionId": "candidate.again", "op": "==",
        "value": "yes"}}]);
    publish(
        &engine,
        after_booking(|d| {
            d["triggers"][0]["stopOn"] = stops;
            d["triggers"][0]["schedule"]["initialDelay"] = json!("1d");
        }),
    )
    .await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(entries(t).await.len(), 1);
    for id in ["1", "2"] {
        let entity = Entity { kind: "booking".into(), id: id.into() };
        let state =
            NewEntityState { entity, state: json!({"status": "Cancelled"}).to_string(), version: None };
        engine.store().put_entity(TENANT, state).await.unwrap();
        let mut again = booking(id);
        again["again"] = json!("yes");
        confirm_in(&engine, TENANT, &again).await;
    }
    tick(&engine).await;
    assert_eq!(entries(t).await, ["memory:sms +919876543210 5"], "one stopped, none begun");
    assert_eq!(dead(t).await, [""; 0]);
}

/// NTF-2: what surveys tell is heard when one is begun by it, and no send begins another.
async fn ntf_2_an_answer_begins_another_survey_and_a_send_none(t: &Bench) {
    let engine = engine(t).await;
    let told = "survey.responses";
    let first = publish(&engine, after_booking(|_| {})).await;
    let after = |kind: &str| {
        let kind = kind.to_owned();
        after_booking(move |d| {
            d["triggers"][0]["eventKind"] = json!(kind);
            d["triggers"][0]["filter"] = json!({"questionId": "candidate.surveyId", "op": "==",
                "value": first.0});
            d["triggers"][0]["dedupRecipe"] = json!(["templateId", "candidate.instancePublicId"]);
            d["triggers"][0]["channel"] = json!("memory:sms-2");
        })
    };
    publish(&engine, after("instance-sent")).await;
    assert!(!routes(t).await.contains(&told.to_owned()), "a send is no beginning");
    let second = publish(&engine, after("response-completed")).await;
    assert!(routes(t).await.contains(&told.to_owned()));
    let payload = json!({"bookingId": "1", "status": "Confirmed", "phone": "+1"});
    tell(&engine, KIND, &payload).await;
    assert_eq!(tick(&engine).await.sent, 1, "only the first survey");
    let letters =
        engine.sandbox().unwrap().messages(&punctual::delivery::run::sandbox::SandboxFilter::default(), 10);
    let id = letters[0].message.public_id.unwrap();
    let answers = [("rate".to_owned(), json!(5))].into_iter().collect();
    engine.submit(id, answers, None).await.unwrap();
    assert_eq!(tick(&engine).await.sent, 1);
    assert_eq!(sent(&engine), ["memory:sms +1", "memory:sms-2 +1"]);
    engine.store().unpublish_flow(TENANT, second).await.unwrap();
    assert!(!routes(t).await.contains(&told.to_owned()));
}

/// NTF-2, TRG-9: a process that looked before knows of a publish by the next event.
async fn ntf_2_another_process_sees_a_publish_at_once(t: &Bench) {
    let (here, there) = (engine(t).await, engine(t).await);
    define(&here, TENANT, |_| {}).await;
    confirm(&there, "0").await;
    tick(&there).await;
    let flow = publish(&here, after_booking(|_| {})).await;
    confirm(&there, "1").await;
    assert_eq!(tick(&there).await.sent, 1);
    here.store().unpublish_flow(TENANT, flow).await.unwrap();
    confirm(&there, "2").await;
    assert_eq!(tick(&there).await.sent, 0);
    assert_eq!(entries(t).await.len(), 1);
}
