//! Events with several recipients, and what another channel is given for those whom one does not reach. The
//! clock stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT};
use crate::invitation::time;
use crate::notification::{
    KIND, confirm, confirm_in, define, engine, engine_with, inbox, log, notifications, script, template,
    texts, tick,
};
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::delivery::rules::receipt::{Receipt, ReceiptStatus};
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::delivery::run::sandbox::SandboxFilter;
use punctual::delivery::store::receipts::ReceiptBatch;
use punctual::flow::rules::entity::NewEntityState;
use punctual::{Engine, Entity, Problems};
use serde_json::{Value, json};

cases![
    ntf_5_each_recipient_is_told_once,
    ntf_5_two_refused_recipients_are_both_told_by_the_other_channel,
    ntf_5_two_who_did_not_get_it_are_both_told_by_the_other_channel,
    ntf_17_two_refused_recipients_with_one_phone_are_told_once,
    ntf_9_a_retry_is_worded_for_the_recipient_it_was_planned_for,
    ntf_17_the_other_channel_does_not_get_a_providers_own_template,
    ntf_17_the_other_channel_says_what_its_own_template_says,
    ntf_17_what_is_sent_anyway_is_not_sent_twice,
];

const ADA: &str = "+919876500001";
const BEN: &str = "+919876500002";

/// Each element of a list is told.
async fn define_each(engine: &Engine, list: &str) {
    let recipients = json!({"each": list, "phone": "phone", "email": "email", "name": "name"});
    define(engine, TENANT, |kind| kind["recipients"] = recipients).await;
}

/// What WhatsApp refuses goes by SMS.
async fn falling_back(t: &Bench, from: &str) -> Engine {
    let policy = ChannelPolicy { fallback: Some("memory:sms".into()), ..ChannelPolicy::default() };
    engine_with(t, &[(from, policy)]).await
}

fn two() -> Value {
    json!({"bookingId": "1", "guests": [{"phone": ADA, "name": "Ada"}, {"phone": BEN, "name": "Ben"}]})
}

/// What went by SMS, in order.
fn by_sms(engine: &Engine) -> Vec<String> {
    let mut got: Vec<_> = inbox(engine).into_iter().filter(|got| got.starts_with("memory:sms")).collect();
    got.sort();
    got
}

fn both_by_sms() -> [String; 2] {
    [format!("memory:sms {ADA}: Hi Ada"), format!("memory:sms {BEN}: Hi Ben")]
}

/// Deliveries as `key status`.
async fn stand(t: &Bench) -> Vec<String> {
    let sql = "select idempotency_key || ' ' || status from punctual.delivery order by id";
    texts(t, sql).await
}

/// NTF-5, NTF-3: the address is part of the key; who has none is skipped, and an address that stands there
/// twice is written to once.
async fn ntf_5_each_recipient_is_told_once(t: &Bench) {
    let engine = engine(t).await;
    define_each(&engine, "guests").await;
    let id = template(&engine, TENANT, "SMS", "Hi {{recipient.name}}").await;
    let mut payload = two();
    let more =
        [json!({"email": "cy@example.org"}), json!({"email": "dee@example.org"}), json!({"phone": ADA})];
    payload["guests"].as_array_mut().unwrap().extend(more);
    confirm_in(&engine, TENANT, &payload).await;
    assert_eq!(tick(&engine).await.sent, 2);
    assert_eq!(by_sms(&engine), both_by_sms());
    let key = format!("1:{KIND}:SMS:{id}");
    let nobody = format!("{key} 4 No recipient");
    let mut lines = log(t).await;
    lines.sort();
    let mut want = vec![format!("{key}:{ADA} 1 -"), format!("{key}:{BEN} 1 -"), nobody.clone(), nobody];
    want.sort();
    assert_eq!(lines, want);
    assert_eq!(notifications(t).await, ["1 -"]);
    // Whoever joins later is told, and nobody else.
    payload["guests"].as_array_mut().unwrap().push(json!({"phone": "+919876500003", "name": "Eve"}));
    confirm_in(&engine, TENANT, &payload).await;
    assert_eq!(tick(&engine).await.sent, 1);
    confirm_in(&engine, TENANT, &payload).await;
    assert_eq!(tick(&engine).await.sent, 0);
    assert_eq!(notifications(t).await, ["1 -", "1 -", "5 AlreadySent"]);
}

/// NTF-5, NTF-17: two that are refused in one settlement.
async fn ntf_5_two_refused_recipients_are_both_told_by_the_other_channel(t: &Bench) {
    let engine = falling_back(t, "memory:whatsapp").await;
    define_each(&engine, "guests").await;
    let id = template(&engine, TENANT, "WhatsApp", "Hi {{recipient.name}}").await;
    script(&engine, "memory:whatsapp", json!(["permanent", "permanent"]));
    confirm_in(&engine, TENANT, &two()).await;
    tick(&engine).await;
    assert_eq!(by_sms(&engine), both_by_sms());
    let want = [
        format!("1:{KIND}:WhatsApp:{id}:{ADA} 3"),
        format!("1:{KIND}:WhatsApp:{id}:{BEN} 3"),
        format!("1:{KIND}:memory:sms:{id}:{ADA} 1"),
        format!("1:{KIND}:memory:sms:{id}:{BEN} 1"),
    ];
    assert_eq!(stand(t).await, want);
    assert_eq!(notifications(t).await, ["1 -"], "both were told");
}

/// NTF-5, NTF-16, NTF-17: two of which the provider says later that they did not arrive.
async fn ntf_5_two_who_did_not_get_it_are_both_told_by_the_other_channel(t: &Bench) {
    let engine = falling_back(t, "memory:whatsapp").await;
    define_each(&engine, "guests").await;
    template(&engine, TENANT, "WhatsApp", "Hi {{recipient.name}}").await;
    confirm_in(&engine, TENANT, &two()).await;
    assert_eq!(tick(&engine).await.sent, 2);
    let ids = texts(t, "select provider_id from punctual.delivery order by id").await;
    let failed = |id: String| Receipt {
        occurred_at: None,
        message_id: Some(id),
        address: None,
        status: ReceiptStatus::Failed,
        said: "undelivered".into(),
        error: None,
        event_id: None,
    };
    let receipts = ids.into_iter().map(failed).collect();
    let batch = ReceiptBatch { provider: "meta".into(), channels: vec!["memory:whatsapp".into()], receipts };
    assert!(engine.record_receipts(batch).await.unwrap().sends);
    assert_eq!(notifications(t).await, ["0 -"]);
    assert_eq!(tick(&engine).await.sent, 2);
    assert_eq!(by_sms(&engine), both_by_sms());
    assert_eq!(notifications(t).await, ["1 -"]);
}

/// NTF-17: one message to one phone stands for both, and the notification ends.
async fn ntf_17_two_refused_recipients_with_one_phone_are_told_once(t: &Bench) {
    let engine = falling_back(t, "memory:email").await;
    define_each(&engine, "guests").await;
    template(&engine, TENANT, "Email", "Hi {{recipient.name}}").await;
    script(&engine, "memory:email", json!(["permanent", "permanent"]));
    let guests = [
        json!({"phone": ADA, "email": "a@example.org", "name": "Ada"}),
        json!({"phone": ADA, "email": "b@example.org", "name": "Ben"}),
    ];
    confirm_in(&engine, TENANT, &json!({"bookingId": "1", "guests": guests})).await;
    tick(&engine).await;
    assert_eq!(by_sms(&engine), [format!("memory:sms {ADA}: Hi Ada")]);
    assert_eq!(notifications(t).await, ["1 -"]);
    let replaced = texts(
        t,
        "select count(distinct replaced_by) || ' of ' || count(replaced_by) \
        from punctual.delivery",
    )
    .await;
    assert_eq!(replaced, ["1 of 2"]);
}

async fn tell_state(engine: &Engine, attendees: Value) {
    let entity = Entity { kind: "booking".into(), id: "1".into() };
    let state = json!({"attendees": attendees}).to_string();
    engine.store().put_entity(TENANT, NewEntityState { entity, state, version: None }).await.unwrap();
}

/// NTF-3, NTF-9: somebody was taken off the list meanwhile; nobody gets a message that is for another.
async fn ntf_9_a_retry_is_worded_for_the_recipient_it_was_planned_for(t: &Bench) {
    let engine = engine(t).await;
    define_each(&engine, "entity.attendees").await;
    template(&engine, TENANT, "SMS", "Hi {{recipient.name}}, seat {{recipient.seat}}").await;
    let ben = json!({"phone": BEN, "name": "Ben", "seat": "2B"});
    tell_state(&engine, json!([{"phone": ADA, "name": "Ada", "seat": "1A"}, ben])).await;
    script(&engine, "memory:sms", json!(["transient", "transient"]));
    confirm_in(&engine, TENANT, &json!({"bookingId": "1"})).await;
    assert_eq!(tick(&engine).await.failed, 2);
    tell_state(&engine, json!([ben])).await;
    engine.travel(time("2026-05-14T06:00:00Z"), true).await.unwrap();
    let want = [format!("memory:sms {ADA}: Hi Ada, seat "), format!("memory:sms {BEN}: Hi Ben, seat 2B")];
    assert_eq!(by_sms(&engine), want);
}

/// A template with a template of a provider's own.
async fn provided(engine: &Engine, channel: &str, key: &str) -> punctual::TemplateId {
    let json = json!({"eventType": KIND, "channel": channel, "language": "en", "body": format!("by {key}"),
        "providerTemplate": {"key": key}});
    let mut problems = Problems::default();
    let definition = TemplateDefinition::read(&json, &mut problems).unwrap_or_else(|| panic!("{problems}"));
    engine.store().create_template(TENANT, definition).await.unwrap().id
}

/// What went by SMS, with the provider's own template.
fn sms_of(engine: &Engine) -> Vec<(String, Option<String>)> {
    let wanted = SandboxFilter { channel: Some("memory:sms".into()), ..SandboxFilter::default() };
    let all = engine.sandbox().unwrap().messages(&wanted, 100);
    let own = |letter: &punctual::RenderedMessage| {
        letter.provider_template.as_ref().map(|own| own["key"].as_str().unwrap().to_owned())
    };
    all.iter().map(|got| (got.message.body.clone(), own(&got.message))).collect()
}

/// NTF-17, NTF-10: WhatsApp's template is nothing that an SMS provider knows.
async fn ntf_17_the_other_channel_does_not_get_a_providers_own_template(t: &Bench) {
    let engine = falling_back(t, "memory:whatsapp").await;
    define(&engine, TENANT, |_| {}).await;
    provided(&engine, "WhatsApp", "wa_confirmed").await;
    script(&engine, "memory:whatsapp", json!(["permanent"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(sms_of(&engine), [("by wa_confirmed".to_owned(), None)]);
}

/// NTF-17, NTF-8: a template for the other channel that came meanwhile is what it says.
async fn ntf_17_the_other_channel_says_what_its_own_template_says(t: &Bench) {
    let engine = falling_back(t, "memory:whatsapp").await;
    define(&engine, TENANT, |_| {}).await;
    let first = provided(&engine, "WhatsApp", "wa_confirmed").await;
    script(&engine, "memory:whatsapp", json!(["transient", "permanent"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    let own = provided(&engine, "SMS", "dlt-77").await;
    engine.travel(time("2026-05-14T06:00:00Z"), true).await.unwrap();
    assert_eq!(sms_of(&engine), [("by dlt-77".to_owned(), Some("dlt-77".to_owned()))]);
    let want = [format!("1:{KIND}:WhatsApp:{first} 3"), format!("1:{KIND}:SMS:{own} 1")];
    assert_eq!(stand(t).await, want);
    assert_eq!(notifications(t).await, ["1 -"]);
}

/// NTF-17, NTF-5: who gets the SMS anyway gets one, and has been told.
async fn ntf_17_what_is_sent_anyway_is_not_sent_twice(t: &Bench) {
    let engine = falling_back(t, "memory:whatsapp").await;
    define(&engine, TENANT, |_| {}).await;
    provided(&engine, "WhatsApp", "wa_confirmed").await;
    provided(&engine, "SMS", "dlt-77").await;
    script(&engine, "memory:whatsapp", json!(["transient", "permanent"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["0 -"]);
    engine.travel(time("2026-05-14T06:00:00Z"), true).await.unwrap();
    assert_eq!(sms_of(&engine).len(), 1);
    assert_eq!(notifications(t).await, ["1 -"], "WhatsApp refused it, and the SMS stands for it");
    assert_eq!(texts(t, "select cast(failed as text) from punctual.entry").await, ["0"]);
}
