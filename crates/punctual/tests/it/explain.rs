//! PRD-5: explain says beforehand what the real sends come to, with the same consent, quiet hours, channels
//! and entities.

mod notification;

use crate::bench::{Bench, TENANT, author, change};
use crate::invitation::{DAY, engine_with, ingest, invite, publish, survey, visit};
use crate::mutation::Dice;
use crate::notification::prefer;
use punctual::delivery::rules::consent::{ConsentScope, SuppressionReason, TenantSettings};
use punctual::delivery::store::consent::NewSuppression;
use punctual::delivery::store::entries::actions::EntryAction;
use punctual::engine::{IngestRequest, TriggerExplanation};
use punctual::flow::rules::entity::NewEntityState;
use punctual::queue::rules::message::Entity;
use punctual::{Engine, Problems, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

cases![prd_5_explain_foretells_what_the_sends_come_to, prd_5_explain_says_that_a_duplicate_is_on_hold];

const ADDRESS: &str = "+964 770 000 0001";
const KIND: &str = "service-visit-closed";
const WORLDS: u64 = 20;

/// One send: its number, its channel, when it went out or was skipped, and why it was skipped.
type Send = (u32, String, Timestamp, Option<String>);

async fn explain(engine: &Engine, event: Value) -> TriggerExplanation {
    let ingest = IngestRequest { event_kind: KIND.into(), items: vec![event] };
    engine.explain(TENANT, &ingest).await.unwrap().remove(0).triggers.remove(0)
}

fn hours(dice: &mut Dice) -> Value {
    let at = |hour: usize| format!("{:02}:{:02}", hour % 24, 30 * (hour % 2));
    let from = dice.roll(24);
    json!({"from": at(from), "to": at(from + 2 + dice.roll(20))})
}

const ZONES: [&str; 4] = ["Asia/Baghdad", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"];

/// What the recipient wants: each part in about every third world.
fn preferences(dice: &mut Dice) -> Value {
    let mut wants = json!({});
    if dice.roll(3) == 0 {
        wants["quietHours"] = hours(dice);
        wants["timeZone"] = json!(ZONES[dice.roll(ZONES.len())]);
    }
    if dice.roll(4) == 0 {
        wants["optOuts"] = json!([{"channel": (["memory", "sms"][dice.roll(2)])}]);
    }
    if dice.roll(3) == 0 {
        wants["channelOverride"] = json!({"memory:default": (["memory:sms", "memory:email"][dice.roll(2)])});
    }
    wants
}

/// What the tenant wants.
async fn settle_tenant(engine: &Engine, dice: &mut Dice) {
    if dice.roll(3) > 0 {
        return;
    }
    let mut quiet = hours(dice);
    quiet["timeZone"] = json!(ZONES[dice.roll(ZONES.len())]);
    let mut problems = Problems::default();
    let settings = TenantSettings::read(&json!({"quietHours": quiet}), &mut problems);
    let settings = settings.unwrap_or_else(|| panic!("{problems}"));
    engine.store().put_tenant_settings(TENANT, settings, "test").await.unwrap();
}

/// What is known of the booking that the event is about.
async fn tell_of_booking(engine: &Engine, dice: &mut Dice) {
    let entity = Entity { kind: "booking".into(), id: "1".into() };
    match dice.roll(4) {
        0 => drop(engine.store().delete_entity(TENANT, entity, None).await.unwrap()),
        n => {
            let status = if n == 1 { "Closed" } else { "Open" };
            let state =
                NewEntityState { entity, state: json!({"status": status}).to_string(), version: None };
            engine.store().put_entity(TENANT, state).await.unwrap();
        }
    }
}

async fn suppress(engine: &Engine, dice: &mut Dice) {
    if dice.roll(6) == 0 {
        let (reason, scope) = (SuppressionReason::Stop, ConsentScope::default());
        let new = NewSuppression { told_at: None, address: ADDRESS.into(), scope, reason, by: "test".into() };
        engine.store().suppress(TENANT, new).await.unwrap();
    }
}

/// A world with a survey, its recipient and the event that is to be explained.
async fn build(t: &Bench, dice: &mut Dice) -> (Engine, Value) {
    let (engine, _) = engine_with(t, |builder| builder).await;
    let reminders: Vec<String> = (0..dice.roll(4)).map(|_| format!("{}h", 1 + dice.roll(60))).collect();
    let schedule = json!({"initialDelay": format!("{}h", dice.roll(40)), "reminders": reminders});
    publish(&engine, survey(|d| d["triggers"][0]["schedule"] = schedule)).await;
    let cancel = json!({"questionId": "entity.status", "op": "==", "value": "Closed"});
    let kind = json!({"topic": "visits", "entityType": "booking", "cancelWhen": cancel,
        "recipients": {"phone": "phone"}});
    engine.put_event_kind(TENANT, KIND, kind).await.unwrap();
    settle_tenant(&engine, dice).await;
    prefer(&engine, ADDRESS, &preferences(dice)).await;
    suppress(&engine, dice).await;
    let mut event = visit("1", "GR");
    if dice.roll(2) == 0 {
        event["entity"] = json!({"type": "booking", "id": "1"});
        tell_of_booking(&engine, dice).await;
    }
    if dice.roll(3) == 0 {
        let past = t.now().await.minus(Duration::from_secs(3_600 * dice.roll(50) as u64));
        event["occurredAt"] = json!(past.to_string());
    }
    (engine, event)
}

/// The sends as the log has them.
async fn sends_of_log(t: &Bench) -> Vec<Send> {
    let sql = "select d.send, d.channel, coalesce(d.sent_at, a.at), a.reason \
        from punctual.delivery d join punctual.delivery_attempt a on a.delivery_id = d.id \
        where (d.status = 1 and a.outcome = 'sent') or (d.status = 4 and a.outcome = 'skipped') \
        order by d.send";
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let read = |row: &Vec<Option<String>>| {
        let at = Timestamp::from_micros(text(&row[2]).parse().unwrap());
        (text(&row[0]).parse().unwrap(), text(&row[1]), at, row[3].clone())
    };
    t.texts(sql).await.iter().map(read).collect()
}

async fn prd_5_explain_foretells_what_the_sends_come_to(t: &Bench) {
    let seed = std::env::var("PUNCTUAL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut sent, mut shifted, mut skipped) = (0, 0, 0);
    for world in seed..seed + WORLDS {
        let t = &Bench::on(t.backend).await;
        let mut dice = Dice::new(world);
        let (engine, event) = build(t, &mut dice).await;
        let before = t.dump().await;
        let foretold = explain(&engine, event.clone()).await;
        before.assert_equals(&t.dump().await, "an explanation");
        ingest(&engine, vec![event]).await;
        engine.travel(t.now().await.plus(30 * DAY), true).await.unwrap();
        let told = foretold.sends.iter();
        let want: Vec<Send> =
            told.map(|send| (send.attempt, send.channel.clone(), send.at, send.reason.clone())).collect();
        assert_eq!(sends_of_log(t).await, want, "PUNCTUAL_SEED={world}");
        sent += want.iter().filter(|send| send.3.is_none()).count();
        skipped += want.iter().filter(|send| send.3.is_some()).count();
        shifted += foretold.sends.iter().filter(|send| send.at > send.planned_at).count();
    }
    assert!(sent > 0 && shifted > 0 && skipped > 0, "{sent} sent, {shifted} shifted, {skipped} skipped");
}

/// PRD-5: what an event duplicates may be on hold, and then nothing goes out either.
async fn prd_5_explain_says_that_a_duplicate_is_on_hold(t: &Bench) {
    let (engine, _) = engine_with(t, |builder| builder).await;
    publish(&engine, survey(|_| {})).await;
    let id = invite(&engine, "1").await;
    change(engine.store(), TENANT, id, EntryAction::Hold).await.unwrap();
    let again = explain(&engine, visit("1", "GR")).await;
    assert_eq!((again.duplicate_of, again.duplicate_status), (Some(id), Some("Pending")));
    assert_eq!(again.duplicate_on_hold, Some(author().reason));
}
