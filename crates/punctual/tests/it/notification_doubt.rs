//! Messages of which nobody knows whether they went out, and events that bring nothing new. The clock stands
//! at 2026-05-14T05:13:00Z.

use crate::bench::replay;
use crate::bench::{Bench, TENANT};
use crate::invitation::time;
use crate::notification::{
    KIND, confirm, define, engine_with, inbox, notifications, prefer, script, template, texts, tick,
};
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::delivery::store::entries::replay::ReplaySelection;
use punctual::{ClockMode, Engine, RenderedMessage, SendError};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

cases![
    ntf_4_an_event_says_how_the_same_message_stands,
    ntf_4_what_may_have_gone_out_is_not_called_unsent,
    ntf_12_an_unknown_outcome_is_tried_again_once,
];

/// NTF-4: an event whose message another one has tells the truth of that one: it is on its way, it failed, or
/// nobody knows. Nothing is lost in silence.
async fn ntf_4_an_event_says_how_the_same_message_stands(t: &Bench) {
    let hold = ChannelPolicy { unknown: UnknownOutcomePolicy::Hold, ..ChannelPolicy::default() };
    let engine = engine_with(t, &[("memory:whatsapp", hold)]).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    template(&engine, TENANT, "WhatsApp", "y").await;
    let said = async || {
        let sql = "select coalesce(reason, '-') || ': ' || coalesce(error, '-') from punctual.entry \
            order by id desc";
        texts(t, sql).await.remove(0)
    };
    script(&engine, "memory:sms", json!(["transient", "permanent"]));
    script(&engine, "memory:whatsapp", json!(["ok", "timeout"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(said().await, "AlreadyPending: The same message is on its way", "it waits for its next try");
    engine.travel(time("2026-05-14T06:00:00Z"), true).await.unwrap();
    confirm(&engine, "1").await;
    tick(&engine).await;
    let failed = t.ints("select id from punctual.delivery where status = 3").await[0][0].unwrap();
    let want = format!("AlreadyFailed: The same message failed before (delivery {failed}); replay that one");
    assert_eq!(said().await, want);
    engine.store().replay_failed(TENANT, ReplaySelection::default(), replay()).await.unwrap();
    tick(&engine).await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(said().await, "AlreadySent: It was sent before", "once it was replayed");
    confirm(&engine, "2").await;
    tick(&engine).await;
    confirm(&engine, "2").await;
    tick(&engine).await;
    assert!(said().await.starts_with("AlreadyUncertain: It is not known whether"), "{}", said().await);
}

/// NTF-4: a message that nobody answered for may have gone out. If it is then not wanted any more it is
/// uncertain, not skipped: its key stays taken.
async fn ntf_4_what_may_have_gone_out_is_not_called_unsent(t: &Bench) {
    let engine = engine_with(t, &[]).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    script(&engine, "memory:sms", json!(["timeout"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    prefer(&engine, "+919876543210", &json!({"optOuts": [{"kind": KIND}]})).await;
    engine.travel(time("2026-05-14T06:00:00Z"), true).await.unwrap();
    assert_eq!(t.count("select status from punctual.delivery").await, 5, "it is uncertain");
    prefer(&engine, "+919876543210", &json!({})).await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(inbox(&engine).len(), 1, "the key is taken");
}

/// NTF-12, NTF-4: an answer that nobody understands is asked for once more, or as often as the channel says;
/// then nobody knows, and nothing goes out by itself. A person may have it sent again. One that comes too
/// late is tried like any other failure.
async fn ntf_12_an_unknown_outcome_is_tried_again_once(t: &Bench) {
    let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    let often = ChannelPolicy { unknown_retries: Some(3), ..ChannelPolicy::default() };
    let unknown = |_: Arc<RenderedMessage>| async { Err(SendError::Unknown { error: "302".into() }) };
    let calls = Arc::new(AtomicU32::new(0));
    let busy_first = move |_: Arc<RenderedMessage>| {
        let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        let busy = SendError::Transient { error: "busy".into(), retry_after: None };
        std::future::ready(Err(if first { busy } else { SendError::Unknown { error: "302".into() } }))
    };
    let builder = builder.channel("sms:odd", busy_first).channel("whatsapp:odd", unknown);
    let engine = builder.channel_policy("whatsapp:odd", often).open().await.unwrap();
    define(&engine, TENANT, |_| {}).await;
    for channel in ["SMS", "WhatsApp", "memory:sms"] {
        template(&engine, TENANT, channel, "x").await;
    }
    script(&engine, "memory:sms", json!(["timeout", "timeout", "timeout", "timeout", "timeout"]));
    confirm(&engine, "1").await;
    engine.travel(time("2026-05-14T08:00:00Z"), true).await.unwrap();
    let tried = async || {
        let sql = "select d.channel || ' ' || d.status || ' ' || a.outcome from punctual.delivery_attempt a \
            join punctual.delivery d on d.id = a.delivery_id order by d.channel, a.tried";
        let all = texts(t, sql).await;
        let of = |line: &str| all.iter().filter(|one| *one == line).count();
        ["sms:odd 5 transient", "sms:odd 5 unknown", "whatsapp:odd 5 unknown", "memory:sms 3 timeout"].map(of)
    };
    assert_eq!(tried().await, [1, 2, 4, 5]);
    assert_eq!(notifications(t).await, ["6 -"]);
    let replayed = engine.store().replay_failed(TENANT, ReplaySelection::default(), replay()).await.unwrap();
    assert_eq!(replayed.again, 3);
    script(&engine, "memory:sms", json!(["timeout", "timeout", "timeout", "timeout", "timeout"]));
    engine.travel(time("2026-05-14T12:00:00Z"), true).await.unwrap();
    assert_eq!(tried().await, [1, 4, 8, 10], "all their tries anew");
}
