//! From an event to one message per person, channel and template. The clock stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT};
use crate::invitation::time;
use punctual::access::store::tenants::NewTenant;
use punctual::base::limits;
use punctual::delivery::rules::channel::{ChannelPolicy, UnknownOutcomePolicy};
use punctual::delivery::rules::script::Script;
use punctual::delivery::rules::template::TemplateDefinition;
use punctual::delivery::run::sandbox::SandboxFilter;
use punctual::delivery::store::deliveries::log::DeliveryFilter;
use punctual::engine::{ResendOutcome, ResendRequest, TickCounts};
use punctual::operate::store::prune::EntryRetention;
use punctual::{ClockMode, DeliveryId, Engine, Entity, NewMessage, Problems, TemplateId, Tenant};
use serde_json::{Value, json};

cases![
    ntf_25_no_duplicate_sends_on_double_confirm,
    ntf_25_retries_and_final_failure,
    ntf_25_tenants_are_apart,
    ntf_25_placeholders_are_filled_in,
    ntf_25_an_indian_number_goes_out_as_it_is,
    ntf_3_what_is_pointless_is_cancelled,
    ntf_3_without_a_recipient_it_is_cancelled,
    ntf_3_without_a_template_it_fails,
    ntf_3_without_its_template_of_before_it_fails,
    ntf_3_of_two_templates_for_the_same_the_newest_is_sent,
    ntf_8_a_template_for_a_related_entity_is_taken,
    ntf_2_unknown_kinds_are_passed_over,
    ntf_2_missing_data_fails_the_event,
    ntf_4_a_send_that_nobody_answered_is_resolved_by_rule,
    ntf_6_only_what_was_not_sent_is_tried_again,
    ntf_17_another_channel_takes_what_one_refuses,
    ntf_18_who_does_not_want_it_is_not_sent_it,
    ntf_18_quiet_hours_shift_and_never_drop,
    ntf_18_one_click_ends_letters_of_a_kind,
    what_was_told_is_not_unconsumed,
    ntf_19_the_log_goes_by_age_and_its_keys_later,
    ntf_19_what_still_waits_stays_in_the_log,
];

pub const KIND: &str = "booking.confirmed";
pub const TOPIC: &str = "booking.events";

pub async fn engine_with(t: &Bench, policies: &[(&str, ChannelPolicy)]) -> Engine {
    let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    let builder = policies.iter().fold(builder, |b, (key, policy)| b.channel_policy(*key, policy.clone()));
    builder.open().await.unwrap()
}

pub async fn engine(t: &Bench) -> Engine {
    engine_with(t, &[]).await
}

/// An engine as one of many: its loops would run by themselves, but time is moved by the test.
pub async fn one_of_many(t: &Bench) -> Engine {
    let store = t.another().await;
    let builder = Engine::builder(t.place.url()).on_store(store.clone()).leave_manual_clock(true);
    let engine = builder.open().await.unwrap();
    store.use_clock(ClockMode::Manual, false).await.unwrap();
    engine
}

pub async fn define(engine: &Engine, tenant: Tenant, edit: impl FnOnce(&mut Value)) {
    let mut document = json!({"topic": TOPIC, "entityType": "booking", "entityIdPath": "bookingId",
        "recipients": {"phone": "guest.phone", "email": "guest.email", "name": "guest.name",
            "locale": "guest.locale"}});
    edit(&mut document);
    engine.put_event_kind(tenant, KIND, document).await.unwrap();
}

pub async fn template(engine: &Engine, tenant: Tenant, channel: &str, body: &str) -> TemplateId {
    let json = json!({"eventType": KIND, "channel": channel, "language": "en", "body": body,
        "subject": (channel == "Email").then_some("Your booking")});
    let mut problems = Problems::default();
    let definition = TemplateDefinition::read(&json, &mut problems).unwrap_or_else(|| panic!("{problems}"));
    engine.store().create_template(tenant, definition).await.unwrap().id
}

/// A template by SMS that is only for one entity.
async fn scoped_template(engine: &Engine, kind: &str, id: &str, body: &str) -> TemplateId {
    let json = json!({"eventType": KIND, "channel": "SMS", "language": "en", "body": body,
        "scopeType": kind, "scopeId": id});
    let definition = TemplateDefinition::read(&json, &mut Problems::default()).unwrap();
    engine.store().create_template(TENANT, definition).await.unwrap().id
}

pub fn booking(id: &str) -> Value {
    json!({"bookingId": id, "checkinDate": "2026-03-15", "status": "Confirmed",
        "guest": {"phone": "+919876543210", "email": "guest@example.com", "name": "John Doe"}})
}

pub async fn confirm_in(engine: &Engine, tenant: Tenant, payload: &Value) {
    let message = NewMessage::new(TOPIC, KIND, payload.to_string());
    engine.enqueue(tenant, vec![message]).await.unwrap();
}

pub async fn confirm(engine: &Engine, id: &str) {
    confirm_in(engine, TENANT, &booking(id)).await;
}

pub async fn tick(engine: &Engine) -> TickCounts {
    engine.tick(100).await.unwrap()
}

/// What the sandbox got, as `channel to: body`.
pub fn inbox(engine: &Engine) -> Vec<String> {
    let all = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 1_000);
    all.iter()
        .map(|got| format!("{} {}: {}", got.message.channel, got.message.to, got.message.body))
        .collect()
}

pub fn script(engine: &Engine, key: &str, words: Value) {
    engine.sandbox().unwrap().script(key, Script::read(&json!({"script": words})).unwrap()).unwrap();
}

pub async fn texts(t: &Bench, sql: &str) -> Vec<String> {
    crate::dump::first_column(&t.texts(sql).await)
}

/// Deliveries as `key status error`.
pub async fn log(t: &Bench) -> Vec<String> {
    texts(
        t,
        "select idempotency_key || ' ' || status || ' ' || coalesce(error, '-') \
         from punctual.delivery order by id",
    )
    .await
}

/// Notifications as `status reason`.
pub async fn notifications(t: &Bench) -> Vec<String> {
    texts(
        t,
        "select status || ' ' || coalesce(reason, '-') from punctual.entry \
            where kind = 'notification' order by id",
    )
    .await
}

async fn tries(t: &Bench) -> Vec<String> {
    texts(t, "select outcome from punctual.delivery_attempt where tried > 0 order by delivery_id, tried")
        .await
}

/// NTF-3: one delivery for one recipient and channel, by the newest of the templates that differ in nothing;
/// also when it is asked for again, and when the newest is switched off.
async fn ntf_3_of_two_templates_for_the_same_the_newest_is_sent(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    let older = template(&engine, TENANT, "SMS", "older").await;
    let newer = template(&engine, TENANT, "SMS", "newer").await;
    let mail = template(&engine, TENANT, "Email", "mail").await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    let (by_mail, by_sms) = (format!("1:{KIND}:Email:{mail} 1 -"), format!("1:{KIND}:SMS:{newer} 1 -"));
    assert_eq!(log(t).await, [by_mail, by_sms]);
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(t.count("select count(*) from punctual.delivery where status = 1").await, 2, "its key holds");
    let deliveries = resend(&engine, "1").await;
    assert!(
        deliveries.iter().all(|key| key.starts_with(&format!("manual:1:SMS:{newer}:"))),
        "{deliveries:?}"
    );
    assert_eq!(deliveries.len(), 1);
    let mut off = engine.store().template(TENANT, newer).await.unwrap().unwrap().definition;
    off.active = Some(false);
    engine.store().change_template(TENANT, newer, off).await.unwrap();
    confirm(&engine, "2").await;
    tick(&engine).await;
    assert_eq!(log(t).await.last(), Some(&format!("2:{KIND}:SMS:{older} 1 -")));
}

/// NTF-8: a template for an entity that the event leads to goes before one for all, also in a resend.
async fn ntf_8_a_template_for_a_related_entity_is_taken(t: &Bench) {
    let engine = engine(t).await;
    let related = json!({"listing": {"type": "listing", "idPath": "listingId"}});
    define(&engine, TENANT, |kind| kind["related"] = related).await;
    scoped_template(&engine, "listing", "77", "for listing 77").await;
    scoped_template(&engine, "booking", "3", "for booking 3").await;
    template(&engine, TENANT, "SMS", "for all").await;
    for (id, listing) in [("1", 76), ("2", 77), ("3", 77)] {
        let mut payload = booking(id);
        payload["listingId"] = json!(listing);
        confirm_in(&engine, TENANT, &payload).await;
        tick(&engine).await;
    }
    let sms = |body: &str| format!("memory:sms +919876543210: {body}");
    let want = [sms("for all"), sms("for listing 77"), sms("for booking 3")];
    assert_eq!(inbox(&engine), want);
    resend(&engine, "2").await;
    tick(&engine).await;
    assert_eq!(inbox(&engine)[3..], want[1..2], "a resend takes it, too");
}

/// Asks for the SMS about a booking once more; returns the keys of the deliveries.
async fn resend(engine: &Engine, id: &str) -> Vec<String> {
    let resend = ResendRequest {
        entity: Entity { kind: "booking".into(), id: id.into() },
        channel: "SMS".into(),
        template: None,
        event_type: None,
        requested_by: "tester".into(),
    };
    match engine.resend(TENANT, resend).await.unwrap() {
        ResendOutcome::Asked { deliveries, .. } => {
            deliveries.into_iter().map(|one| one.idempotency_key).collect()
        }
        ResendOutcome::Refused(why) => panic!("{why}"),
    }
}

/// NTF-25, NTF-5: two events for one confirmation, in one batch and later, are one message.
async fn ntf_25_no_duplicate_sends_on_double_confirm(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    let id = template(&engine, TENANT, "WhatsApp", "Confirmed {{bookingId}}").await;
    confirm(&engine, "12345").await;
    confirm(&engine, "12345").await;
    assert_eq!(tick(&engine).await.sent, 1);
    confirm(&engine, "12345").await;
    assert_eq!(tick(&engine).await.sent, 0);
    assert_eq!(inbox(&engine), ["memory:whatsapp +919876543210: Confirmed 12345"]);
    assert_eq!(log(t).await, [format!("12345:{KIND}:WhatsApp:{id} 1 -")]);
    assert_eq!(notifications(t).await, ["1 -", "5 AlreadyPending", "5 AlreadySent"]);
    assert_eq!(t.count("select count(*) from punctual.work").await, 0);
}

/// NTF-25, NTF-24: 5 tries, 1, 2, 4 and 8 minutes apart, and then no more.
async fn ntf_25_retries_and_final_failure(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    script(&engine, "memory:sms", json!(["transient", "timeout", "transient", "transient", "transient"]));
    confirm(&engine, "1").await;
    engine.travel(time("2026-05-14T06:13:00Z"), true).await.unwrap();
    assert_eq!(tries(t).await, ["transient", "timeout", "transient", "transient", "transient"]);
    let gaps = t.ints("select at from punctual.delivery_attempt order by tried").await;
    let at: Vec<i64> = gaps.iter().map(|row| row[0].unwrap()).collect();
    for (n, minutes) in [1_i64, 2, 4, 8].into_iter().enumerate() {
        let waited = (at[n + 1] - at[n]) as f64 / 60e6;
        let full = minutes as f64;
        assert!((full * 0.9..=full).contains(&waited), "wait {n}: {waited} minutes");
    }
    assert!(log(t).await[0].contains(" 3 "), "{:?}", log(t).await);
    assert_eq!(notifications(t).await, ["6 -"]);
    assert_eq!(tick(&engine).await, TickCounts::default());
    engine.travel(time("2026-05-20T00:00:00Z"), true).await.unwrap();
    assert_eq!(tries(t).await.len(), 5, "no further try");
}

/// NTF-25, NTF-23: the same event in two tenants is told with each one's own words.
async fn ntf_25_tenants_are_apart(t: &Bench) {
    let engine = engine(t).await;
    let other =
        NewTenant { slug: "other".into(), name: "Other".into(), time_zone: None, default_locale: None };
    let other = engine.store().create_tenant(other).await.unwrap().tenant;
    for (tenant, words) in [(TENANT, "ours {{guest.name}}"), (other, "theirs {{guest.name}}")] {
        define(&engine, tenant, |_| {}).await;
        template(&engine, tenant, "SMS", words).await;
    }
    confirm(&engine, "1").await;
    let mut theirs = booking("1");
    theirs["guest"]["name"] = json!("Jane");
    confirm_in(&engine, other, &theirs).await;
    tick(&engine).await;
    let mut got = inbox(&engine);
    got.sort();
    assert_eq!(got, ["memory:sms +919876543210: ours John Doe", "memory:sms +919876543210: theirs Jane"]);
    let by_tenant = "select tenant_id, count(*) from punctual.delivery group by tenant_id order by 1";
    let counts: Vec<_> = t.ints(by_tenant).await.iter().map(|row| row[1]).collect();
    assert_eq!(counts, [Some(1), Some(1)]);
}

/// NTF-25, NTF-9: values from the payload, in any case; what is missing is empty.
async fn ntf_25_placeholders_are_filled_in(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "{{guestPhone}} on {{CheckinDate}}, {{nothing}}!").await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(inbox(&engine), ["memory:sms +919876543210: +919876543210 on 2026-03-15, !"]);
}

/// NTF-25, NTF-15: the number as it was given, to the channel.
async fn ntf_25_an_indian_number_goes_out_as_it_is(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "WhatsApp", "x").await;
    template(&engine, TENANT, "SMS", "y").await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 2);
    let mut got = inbox(&engine);
    got.sort();
    assert_eq!(got, ["memory:sms +919876543210: y", "memory:whatsapp +919876543210: x"]);
}

/// NTF-3: deleted, cancelled or never seen: cancelled with the reason, before and after it was planned.
async fn ntf_3_what_is_pointless_is_cancelled(t: &Bench) {
    let engine = engine(t).await;
    let cancelled = json!({"questionId": "entity.status", "op": "==", "value": "Cancelled"});
    define(&engine, TENANT, |k| k["cancelWhen"] = cancelled).await;
    template(&engine, TENANT, "SMS", "x").await;
    let mut gone = booking("1");
    gone["status"] = json!("Cancelled");
    confirm_in(&engine, TENANT, &gone).await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["5 CancelWhen"]);
    // A try that failed is not made again for what was cancelled meanwhile.
    script(&engine, "memory:sms", json!(["transient"]));
    confirm(&engine, "2").await;
    tick(&engine).await;
    let state = punctual::flow::rules::entity::NewEntityState {
        entity: Entity { kind: "booking".into(), id: "2".into() },
        state: json!({"status": "Cancelled"}).to_string(),
        version: None,
    };
    engine.store().put_entity(TENANT, state).await.unwrap();
    engine.travel(time("2026-05-14T07:00:00Z"), true).await.unwrap();
    assert_eq!(notifications(t).await, ["5 CancelWhen", "5 CancelWhen"]);
    assert_eq!(inbox(&engine), [""; 0]);
    define(&engine, TENANT, |k| k["requireEntity"] = json!(true)).await;
    confirm(&engine, "3").await;
    tick(&engine).await;
    assert_eq!(notifications(t).await[2], "5 EntityUnknown");
}

/// NTF-3: a missing address is skipped; if all are, the notification is cancelled. A later event may
/// reach them.
async fn ntf_3_without_a_recipient_it_is_cancelled(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    let id = template(&engine, TENANT, "SMS", "x").await;
    let mail = template(&engine, TENANT, "Email", "y").await;
    let mut silent = booking("1");
    silent["guest"] = json!({"name": "Nobody"});
    confirm_in(&engine, TENANT, &silent).await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["5 NoRecipient"]);
    let want = [format!("1:{KIND}:Email:{mail} 4 No recipient"), format!("1:{KIND}:SMS:{id} 4 No recipient")];
    assert_eq!(log(t).await, want);
    silent["guest"]["phone"] = json!("+964 770 000 0001");
    confirm_in(&engine, TENANT, &silent).await;
    tick(&engine).await;
    assert_eq!(inbox(&engine), ["memory:sms +964 770 000 0001: x"]);
    assert_eq!(notifications(t).await[1], "1 -", "what could be sent was");
}

/// NTF-3: a kind that tells somebody and has no template fails, and says so.
async fn ntf_3_without_a_template_it_fails(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["6 -"]);
    assert_eq!(texts(t, "select error from punctual.entry").await, ["Template not found"]);
}

/// NTF-3: so does a kind that only its templates make known, when they are deleted or not in use when an
/// event of it is due.
async fn ntf_3_without_its_template_of_before_it_fails(t: &Bench) {
    let engine = engine(t).await;
    let payload = json!({"phone": "+919876543210"});
    let gone = template(&engine, TENANT, "SMS", "x").await;
    confirm_in(&engine, TENANT, &payload).await;
    engine.store().delete_template(TENANT, gone).await.unwrap();
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["6 -"]);
    let id = template(&engine, TENANT, "SMS", "x").await;
    let kept = engine.store().template(TENANT, id).await.unwrap().unwrap().definition;
    let off = TemplateDefinition { active: Some(false), ..kept.clone() };
    engine.store().change_template(TENANT, id, off).await.unwrap();
    confirm_in(&engine, TENANT, &payload).await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["6 -", "6 -"]);
    assert_eq!(texts(t, "select distinct error from punctual.entry").await, ["Template not found"]);
    engine
        .store()
        .change_template(TENANT, id, TemplateDefinition { active: Some(true), ..kept })
        .await
        .unwrap();
    confirm_in(&engine, TENANT, &payload).await;
    tick(&engine).await;
    assert_eq!(notifications(t).await[2], "1 -");
}

/// NTF-2: events of other kinds wait in their topic's own queue, as before.
async fn ntf_2_unknown_kinds_are_passed_over(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |kind| drop(kind.as_object_mut().unwrap().remove("topic"))).await;
    template(&engine, TENANT, "SMS", "x").await;
    let other = || vec![NewMessage::new(TOPIC, "booking.other", "{}")];
    engine.enqueue(TENANT, other()).await.unwrap();
    tick(&engine).await;
    let waiting = "select l.subscription from punctual.work w join punctual.lane l on l.id = w.lane_id";
    assert_eq!(texts(t, waiting).await, [""], "in the own queue, and nowhere else");
    // From now on the topic is taken by a kind that says who is told.
    define(&engine, TENANT, |_| {}).await;
    engine.enqueue(TENANT, other()).await.unwrap();
    tick(&engine).await;
    assert_eq!(texts(t, waiting).await, ["", ""], "nobody is told of this kind, so it waits, too");
    engine.delete_event_kind(TENANT, KIND).await.unwrap();
    engine.enqueue(TENANT, other()).await.unwrap();
    tick(&engine).await;
    assert_eq!(texts(t, waiting).await, ["", "", ""], "nobody takes the topic any longer");
    assert_eq!(notifications(t).await, [""; 0]);
    assert_eq!(t.count("select count(*) from punctual.dead_letter").await, 0);
}

/// NTF-2: an event that lacks what it takes fails with the reason.
async fn ntf_2_missing_data_fails_the_event(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    confirm_in(&engine, TENANT, &json!({"guest": {"phone": "+1"}})).await;
    tick(&engine).await;
    let said = texts(t, "select error from punctual.dead_letter").await;
    assert_eq!(said, ["its payload has nothing at `bookingId`, where the entity's id should be"]);
    assert_eq!(notifications(t).await, [""; 0]);
}

/// NTF-4: without an answer it is sent again under its key, or held, as the channel's policy says.
async fn ntf_4_a_send_that_nobody_answered_is_resolved_by_rule(t: &Bench) {
    let hold = ChannelPolicy { unknown: UnknownOutcomePolicy::Hold, ..ChannelPolicy::default() };
    let engine = engine_with(t, &[("memory:sms", hold)]).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    template(&engine, TENANT, "WhatsApp", "y").await;
    script(&engine, "memory:sms", json!(["timeout"]));
    script(&engine, "memory:whatsapp", json!(["timeout"]));
    confirm(&engine, "1").await;
    engine.travel(time("2026-05-14T07:00:00Z"), true).await.unwrap();
    let log = log(t).await;
    assert!(log.iter().any(|line| line.contains(":SMS:") && line.contains(" 5 ")), "{log:?}");
    assert!(log.iter().any(|line| line.contains(":WhatsApp:") && line.contains(" 1 ")), "{log:?}");
    assert_eq!(inbox(&engine).iter().filter(|got| got.contains("sms")).count(), 1, "it is not sent twice");
    assert_eq!(inbox(&engine).iter().filter(|got| got.contains("whatsapp")).count(), 2, "and this one is");
    assert_eq!(notifications(t).await, ["6 -"]);
}

/// NTF-6: of several templates only the one that failed is tried again.
async fn ntf_6_only_what_was_not_sent_is_tried_again(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    for channel in ["SMS", "WhatsApp", "Email"] {
        template(&engine, TENANT, channel, "x").await;
    }
    script(&engine, "memory:whatsapp", json!(["transient"]));
    confirm(&engine, "1").await;
    let ticked = tick(&engine).await;
    assert_eq!((ticked.sent, ticked.failed), (2, 1));
    assert_eq!(notifications(t).await, ["0 -"], "one is still to be sent");
    engine.travel(time("2026-05-14T07:00:00Z"), true).await.unwrap();
    let mut got = inbox(&engine);
    got.sort();
    assert_eq!(
        got,
        [
            "memory:email guest@example.com: x",
            "memory:sms +919876543210: x",
            "memory:whatsapp +919876543210: x"
        ]
    );
    assert_eq!(notifications(t).await, ["1 -"]);
}

/// NTF-17: what WhatsApp refuses for good goes by SMS, once.
async fn ntf_17_another_channel_takes_what_one_refuses(t: &Bench) {
    let policy = ChannelPolicy { fallback: Some("memory:sms".into()), ..ChannelPolicy::default() };
    let engine = engine_with(t, &[("memory:whatsapp", policy)]).await;
    define(&engine, TENANT, |_| {}).await;
    let id = template(&engine, TENANT, "WhatsApp", "x").await;
    script(&engine, "memory:whatsapp", json!(["permanent"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(inbox(&engine), ["memory:sms +919876543210: x"]);
    let keys: Vec<String> =
        log(t).await.iter().map(|l| l.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(keys, [format!("1:{KIND}:WhatsApp:{id} 3"), format!("1:{KIND}:memory:sms:{id} 1")]);
    assert_eq!(notifications(t).await, ["1 -"], "they were told");
}

/// NTF-18: suppressed or opted out is skipped with the reason; another channel is used if they say so.
async fn ntf_18_who_does_not_want_it_is_not_sent_it(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "WhatsApp", "x").await;
    let preferences = json!({"channelOverride": {"whatsapp": "memory:email"}});
    prefer(&engine, "+919876543210", &preferences).await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(inbox(&engine), ["memory:email guest@example.com: x"]);
    prefer(&engine, "+919876543210", &json!({"optOuts": [{"kind": KIND}]})).await;
    confirm(&engine, "2").await;
    tick(&engine).await;
    assert_eq!(inbox(&engine).len(), 1);
    assert_eq!(notifications(t).await[1], "5 opted-out");
}

/// NTF-18: every letter has its link, and whoever follows it gets no more of that kind.
async fn ntf_18_one_click_ends_letters_of_a_kind(t: &Bench) {
    let builder = Engine::builder(t.place.url()).on_store(t.another().await).clock(ClockMode::Manual);
    let engine = builder.unsubscribe_url("https://example.org/u/{token}").open().await.unwrap();
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "Email", "stop: {{unsubscribeUrl}}").await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    let got = engine.sandbox().unwrap().messages(&SandboxFilter::default(), 10);
    let url = got[0].message.unsubscribe_url.clone().expect("a link");
    assert!(got[0].message.body.ends_with(&url), "{}", got[0].message.body);
    let token = url.strip_prefix("https://example.org/u/").unwrap();
    let link = engine.store().link_secret().await.unwrap().open(token).expect("it opens");
    assert_eq!((link.address.as_str(), link.channel.as_str()), ("guest@example.com", "email"));
    assert_eq!(link.kind.as_deref(), Some(KIND));
    let wish = punctual::delivery::store::consent::NewSuppression {
        told_at: None,
        address: link.address,
        scope: punctual::delivery::rules::consent::ConsentScope {
            channel: Some(link.channel),
            kind: link.kind,
        },
        reason: punctual::delivery::rules::consent::SuppressionReason::Unsubscribe,
        by: "recipient".into(),
    };
    engine.store().suppress(TENANT, wish).await.unwrap();
    confirm(&engine, "2").await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["1 -", "5 unsubscribe"]);
}

pub async fn prefer(engine: &Engine, address: &str, document: &Value) {
    let mut problems = Problems::default();
    let preferences = punctual::delivery::rules::consent::RecipientPreferences::read(document, &mut problems);
    let preferences = preferences.filter(|_| problems.0.is_empty()).unwrap_or_else(|| panic!("{problems}"));
    engine.store().put_preferences(TENANT, address, preferences, "test").await.unwrap();
}

/// NTF-18: at night it waits until the morning where the recipient lives.
async fn ntf_18_quiet_hours_shift_and_never_drop(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    let quiet = json!({"timeZone": "America/New_York", "quietHours": {"from": "21:00", "to": "08:00"}});
    prefer(&engine, "+919876543210", &quiet).await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 0, "it is 01:13 in New York");
    engine.travel(time("2026-05-14T11:59:59Z"), true).await.unwrap();
    assert_eq!(inbox(&engine), [""; 0]);
    engine.travel(time("2026-05-14T12:00:00Z"), true).await.unwrap();
    assert_eq!(inbox(&engine), ["memory:sms +919876543210: x"]);
    assert_eq!(tries(t).await, ["sent"], "waiting is no try");
}

/// An event that people were told of does not wait in its topic's own queue as well, unless that queue was
/// declared.
async fn what_was_told_is_not_unconsumed(t: &Bench) {
    let engine = engine(t).await;
    // The topic is there before anybody is told of its events.
    engine.enqueue(TENANT, vec![NewMessage::new(TOPIC, "before", "{}")]).await.unwrap();
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(t.count("select count(*) from punctual.work").await, 1, "only the one of before");
    t.lane(TOPIC).await;
    confirm(&engine, "2").await;
    tick(&engine).await;
    assert_eq!(t.count("select count(*) from punctual.work").await, 2, "a declared queue gets everything");
    assert_eq!(inbox(&engine).len(), 2);
}

/// NTF-19, NTF-5: after 400 days a line goes with all that is personal; its key lets nothing through
/// until 800 days have passed.
async fn ntf_19_the_log_goes_by_age_and_its_keys_later(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    template(&engine, TENANT, "Email", "y").await;
    let mut nowhere = booking("1");
    nowhere["guest"]["email"] = Value::Null;
    confirm_in(&engine, TENANT, &nowhere).await;
    tick(&engine).await;
    let lines = async || log_lines(&engine).await;
    assert_eq!(lines().await.len(), 2, "one sent, one without a recipient");
    engine.travel(time("2027-06-17T05:13:00Z"), true).await.unwrap();
    assert_eq!(lines().await.len(), 2, "399 days");
    engine.travel(time("2027-06-20T05:13:00Z"), true).await.unwrap();
    assert_eq!(lines().await.len(), 0, "402 days");
    assert_eq!(t.count("select count(*) from punctual.delivery_attempt").await, 0);
    assert_eq!(t.count("select count(*) from punctual.delivery").await, 0, "nothing personal is left");
    let kept = t.count("select count(*) from punctual.delivery_key").await;
    assert_eq!(kept, 1, "what was skipped holds no key");
    confirm_in(&engine, TENANT, &nowhere).await;
    assert_eq!(tick(&engine).await.sent, 0, "the key is still there");
    engine.travel(time("2028-07-25T05:13:00Z"), true).await.unwrap();
    confirm_in(&engine, TENANT, &nowhere).await;
    assert_eq!(tick(&engine).await.sent, 1, "803 days: nobody knows it any more");
}

/// NTF-19: what has not ended is kept, however old.
async fn ntf_19_what_still_waits_stays_in_the_log(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    script(&engine, "memory:sms", json!(["transient"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    engine.travel(time("2030-01-01T00:00:00Z"), false).await.unwrap();
    let kept = EntryRetention { surveys: limits::ENTRY_RETENTION, log: limits::ENTRY_RETENTION };
    let step = engine.store().prune_entries(0, kept).await.unwrap();
    assert_eq!((step.entries, step.finished), (0, true));
    assert_eq!(log_lines(&engine).await.len(), 1);
}

async fn log_lines(engine: &Engine) -> Vec<punctual::delivery::store::deliveries::log::LoggedDelivery> {
    engine
        .store()
        .communication_log(TENANT, DeliveryFilter::default(), DeliveryId(i64::MAX), 10)
        .await
        .unwrap()
}
