//! Causes: an entry refers to the event that it comes from, and keeps that from retention.

use crate::bench::{Bench, TENANT};
use crate::invitation::{DAY, ingest, publish, survey, visit};
use crate::notification::{KIND, TOPIC, booking, confirm, define, engine, template, texts, tick};
use punctual::engine::{ResendOutcome, ResendRequest};
use punctual::{Engine, Entity, NewMessage};
use serde_json::json;

cases![
    trg_10_a_survey_entry_refers_to_the_event_of_its_topic,
    trg_10_an_event_that_was_handed_in_leaves_its_entity,
    plt_8_an_event_stays_as_long_as_its_survey_entry,
    plt_8_an_event_stays_while_a_resend_of_it_waits,
];

/// A survey after a confirmed booking, 60 days later.
async fn publish_slow(engine: &Engine) {
    let slow = |d: &mut serde_json::Value| {
        d["triggers"][0] = json!({
            "id": "by-sms", "eventKind": KIND, "dedupRecipe": ["templateId", "candidate.bookingId"],
            "schedule": {"initialDelay": "60d", "reminders": []}, "channel": "memory:sms",
        });
    };
    publish(engine, survey(slow)).await;
}

const CAUSES: &str = "select coalesce(cast(message_id as text), '-') || ' ' || coalesce(entity_type, '-') \
    || ' ' || coalesce(entity_id, '-') || ' ' || coalesce(correlation_id, '-') \
    from punctual.entry order by id";

/// How many events of the topic are there.
async fn events(t: &Bench) -> i64 {
    t.count("select count(*) from punctual.message where topic = 'booking.events'").await
}

/// TRG-10: with what the event is about, and its correlation id.
async fn trg_10_a_survey_entry_refers_to_the_event_of_its_topic(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish_slow(&engine).await;
    let event = NewMessage::new(TOPIC, KIND, booking("B1").to_string()).correlation_id("c-1");
    engine.enqueue(TENANT, vec![event]).await.unwrap();
    tick(&engine).await;
    let id = t.count("select max(id) from punctual.message where topic = 'booking.events'").await;
    assert_eq!(texts(t, CAUSES).await, [format!("{id} booking B1 c-1")]);
}

/// TRG-10: an entity that cannot be a name is a fact like others, and no reference.
async fn trg_10_an_event_that_was_handed_in_leaves_its_entity(t: &Bench) {
    let engine = engine(t).await;
    publish(&engine, survey(|_| {})).await;
    let about = |wip: &str, entity: serde_json::Value| {
        let mut item = visit(wip, "GR");
        item["entity"] = entity;
        item
    };
    let items = vec![
        about("1", json!({"type": "visit", "id": 7})),
        about("2", json!({"type": "visit"})),
        about("3", json!({"type": "visit", "id": "x".repeat(5_000)})),
        visit("4", "GR"),
    ];
    ingest(&engine, items).await;
    let mut causes = texts(t, CAUSES).await;
    causes.sort_by_key(|cause| cause.split_once(' ').unwrap().1.to_owned());
    let about: Vec<&str> = causes.iter().map(|cause| cause.split_once(' ').unwrap().1).collect();
    assert_eq!(about, ["- - -", "- - -", "- - -", "visit 7 -"]);
    assert!(
        causes.iter().all(|cause| !cause.starts_with('-')),
        "each has the message of its item: {causes:?}"
    );
}

/// PLT-8, TRG-12: a cadence of 60 days outlives the 30 days that messages are kept.
async fn plt_8_an_event_stays_as_long_as_its_survey_entry(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    publish_slow(&engine).await;
    confirm(&engine, "B1").await;
    engine.enqueue(TENANT, vec![NewMessage::new(TOPIC, "booking.other", "{}")]).await.unwrap();
    tick(&engine).await;
    let unheard = "delete from punctual.work where lane_id in (select id from punctual.lane \
        where purpose = 'dispatch' and subscription = '')";
    t.texts(unheard).await;
    let start = t.now().await;
    engine.travel(start.plus(45 * DAY), true).await.unwrap();
    assert_eq!(events(t).await, 1, "the other event has gone");
    engine.travel(start.plus(100 * DAY), true).await.unwrap();
    assert_eq!(events(t).await, 1, "the entry has expired, and is still there");
    // The entry goes, and in the next pass its event.
    engine.travel(start.plus(500 * DAY), true).await.unwrap();
    engine.travel(start.plus(501 * DAY), true).await.unwrap();
    assert_eq!(texts(t, "select kind || ' ' || status from punctual.entry").await, [""; 0]);
    assert_eq!(events(t).await, 0);
}

/// PLT-8, NTF-22: what a person asked for again is still sent after the event's own time.
async fn plt_8_an_event_stays_while_a_resend_of_it_waits(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "Hello").await;
    confirm(&engine, "B1").await;
    tick(&engine).await;
    let resend = ResendRequest {
        entity: Entity { kind: "booking".into(), id: "B1".into() },
        channel: "SMS".into(),
        template: None,
        event_type: None,
        requested_by: "sue".into(),
    };
    t.texts("update punctual.lane set paused = 1 where purpose = 'send'").await;
    assert!(matches!(engine.resend(TENANT, resend).await.unwrap(), ResendOutcome::Asked { .. }));
    let start = t.now().await;
    engine.travel(start.plus(45 * DAY), true).await.unwrap();
    assert_eq!(events(t).await, 1, "its resend waits");
    t.texts("update punctual.lane set paused = 0").await;
    assert_eq!(tick(&engine).await.sent, 1);
    engine.travel(start.plus(46 * DAY), true).await.unwrap();
    assert_eq!(events(t).await, 0, "it has been sent");
}
