//! What providers tell later about messages. The clock stands at 2026-05-14T05:13:00Z.

use crate::bench::{Bench, TENANT, wish};
use crate::invitation::time;
use crate::notification::{
    KIND, booking, confirm, confirm_in, define, engine, engine_with, inbox, log, notifications, script,
    template, texts, tick,
};
use ReceiptStatus::{Bounced, Delivered, Failed, Read, Resumed, Stopped};
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::LaneId;
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::delivery::rules::receipt::{Receipt, ReceiptStatus};
use punctual::delivery::rules::send_terms::SendTerms;
use punctual::delivery::store::deliveries::delivery::{DeliveryOutcome, DueDelivery, SettledDelivery};
use punctual::delivery::store::receipts::{ReceiptBatch, ReceiptOutcome};
use punctual::queue::store::inbox::InboxRetention;
use punctual::{DeliveryId, Engine, Token};
use serde_json::json;
use std::time::Duration;

cases![
    ntf_19_receipts_go_with_their_deliveries,
    ntf_16_a_receipt_updates_the_log,
    ntf_16_late_and_repeated_receipts_change_nothing,
    ntf_16_what_nobody_knows_is_only_counted,
    ntf_16_a_receipt_before_its_outcome_is_kept,
    ntf_16_an_early_receipt_is_given_up_in_the_end,
    ntf_16_a_hard_bounce_suppresses_the_address,
    ntf_16_a_stop_suppresses_and_a_start_lifts,
    ntf_18_a_start_that_is_posted_again_lifts_no_newer_stop,
    ntf_18_a_start_is_remembered_before_anybody_wrote,
    ntf_18_a_start_lifts_no_stop_that_is_newer_by_the_providers_clock,
    ntf_16_a_stop_is_for_those_who_wrote,
    ntf_16_another_channels_message_is_not_touched,
    ntf_16_what_did_not_arrive_goes_by_another_channel,
    ntf_16_two_callbacks_at_once_count_once,
];

const SMS: &str = "memory:sms";
const PHONE: &str = "+919876543210";

fn of(message_id: &str, status: ReceiptStatus) -> Receipt {
    Receipt {
        occurred_at: None,
        message_id: Some(message_id.to_owned()),
        address: Some(PHONE.trim_start_matches('+').to_owned()),
        status,
        said: status.word().to_owned(),
        error: status.is_failure().then(|| "30005".to_owned()),
        event_id: None,
    }
}

fn reply(status: ReceiptStatus, event_id: &str) -> Receipt {
    Receipt { message_id: None, error: None, event_id: Some(event_id.to_owned()), ..of("", status) }
}

async fn hear_by(engine: &Engine, channel: &str, receipts: Vec<Receipt>) -> ReceiptOutcome {
    let batch = ReceiptBatch { provider: "twilio-sms".into(), channels: vec![channel.into()], receipts };
    engine.record_receipts(batch).await.unwrap()
}

async fn hear(engine: &Engine, receipts: Vec<Receipt>) -> ReceiptOutcome {
    hear_by(engine, SMS, receipts).await
}

/// An engine that has sent booking 1 by SMS; answers the provider's id, too.
async fn sent(t: &Bench) -> (Engine, String) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 1);
    let id = provider_id(t, 1).await;
    (engine, id)
}

async fn provider_id(t: &Bench, delivery: usize) -> String {
    texts(t, "select provider_id from punctual.delivery order by id").await.remove(delivery - 1)
}

/// The statuses of deliveries, as numbers.
async fn statuses(t: &Bench) -> Vec<String> {
    texts(t, "select cast(status as text) from punctual.delivery order by id").await
}

async fn told(t: &Bench) -> Vec<String> {
    texts(t, "select status from punctual.receipt order by id").await
}

async fn suppressed(t: &Bench) -> Vec<String> {
    let sql = "select tenant_id || ' ' || address || ' ' || channel || ' ' || reason || ' ' || made_by \
        from punctual.suppression where lifted_at is null order by id";
    texts(t, sql).await
}

fn outcome(new: &[ReceiptStatus]) -> ReceiptOutcome {
    ReceiptOutcome { new: new.to_vec(), ..ReceiptOutcome::default() }
}

/// NTF-16, NTF-19: delivered, then read; the log has both, and the contract's word.
async fn ntf_16_a_receipt_updates_the_log(t: &Bench) {
    let (engine, id) = sent(t).await;
    assert_eq!(hear(&engine, vec![of(&id, Delivered)]).await, outcome(&[Delivered]));
    assert_eq!(hear(&engine, vec![of(&id, Read)]).await, outcome(&[Read]));
    let logged = engine.store().communication(TENANT, DeliveryId(1)).await.unwrap().unwrap();
    assert_eq!(logged.status.word(), "Delivered");
    let heard: Vec<&str> = logged.receipts.iter().map(|one| one.status.as_str()).collect();
    assert_eq!((heard, logged.tries.len(), logged.error), (vec!["delivered", "read"], 1, None));
    assert_eq!(notifications(t).await, ["1 -"]);
}

/// NTF-19: what providers told of a message goes when the message does.
async fn ntf_19_receipts_go_with_their_deliveries(t: &Bench) {
    let (engine, id) = sent(t).await;
    hear(&engine, vec![of(&id, Delivered)]).await;
    assert_eq!(told(t).await, ["delivered"]);
    engine.travel(time("2027-06-20T05:13:00Z"), true).await.unwrap();
    assert_eq!(told(t).await, [""; 0]);
}

/// NTF-16: out of order, twice, and after the end.
async fn ntf_16_late_and_repeated_receipts_change_nothing(t: &Bench) {
    let (engine, id) = sent(t).await;
    hear(&engine, vec![of(&id, Read)]).await;
    assert_eq!(hear(&engine, vec![of(&id, Delivered)]).await, outcome(&[Delivered]));
    assert_eq!(hear(&engine, vec![of(&id, Failed)]).await, outcome(&[Failed]));
    let before = t.texts("select * from punctual.delivery").await;
    let again = hear(&engine, vec![of(&id, Failed), of(&id, Read)]).await;
    assert_eq!((again.new, again.repeated), (vec![], 2));
    assert_eq!(t.texts("select * from punctual.delivery").await, before);
    assert_eq!((statuses(t).await, told(t).await.len()), (vec!["2".to_owned()], 3));
    assert_eq!(notifications(t).await, ["1 -"]);
    let processed = "select count(*) from punctual.inbox where status = 'processed' \
        and source = 'receipts:twilio-sms'";
    assert_eq!(t.count(processed).await, 3);
}

/// NTF-16: a system that shares the account has receipts of its own.
async fn ntf_16_what_nobody_knows_is_only_counted(t: &Bench) {
    let (engine, _) = sent(t).await;
    let said = hear(&engine, vec![of("foreign", Delivered), of("foreign", Failed)]).await;
    assert_eq!(said, ReceiptOutcome { unknown: 2, ..ReceiptOutcome::default() });
    assert_eq!(t.count("select count(*) from punctual.early_receipt").await, 0);
    assert_eq!((statuses(t).await, told(t).await.len()), (vec!["1".to_owned()], 0));
}

/// An engine whose booking 1 is just being sent by somebody else, at 05:15: the delivery and the claim.
async fn sending(t: &Bench) -> (Engine, DueDelivery, Token) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    script(&engine, SMS, json!(["transient"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    engine.travel(time("2026-05-14T05:15:00Z"), false).await.unwrap();
    let lane = LaneId(t.ints("select id from punctual.lane where purpose = 'send'").await[0][0].unwrap());
    let mut outgoing = engine
        .store()
        .begin_deliveries(
            wish(&[(lane, 10)]),
            punctual::flow::rules::entry::EntryKind::Notification,
            SendTerms::default(),
        )
        .await
        .unwrap();
    (engine, outgoing.due.remove(0), outgoing.token.unwrap())
}

fn ended(due: DueDelivery, id: &str) -> SettledDelivery {
    let outcome = DeliveryOutcome::Sent { provider_id: Some(id.into()), answer: None };
    SettledDelivery { due, outcome, entry: None }
}

/// NTF-16: a provider that calls back before its answer is written down is heard all the same.
async fn ntf_16_a_receipt_before_its_outcome_is_kept(t: &Bench) {
    let (engine, due, token) = sending(t).await;
    let early = hear(&engine, vec![of("SM1", Delivered)]).await;
    assert_eq!(early, ReceiptOutcome { waiting: 1, ..ReceiptOutcome::default() });
    assert_eq!(hear(&engine, vec![of("SM1", Delivered)]).await.waiting, 1, "and again");
    assert_eq!(t.count("select count(*) from punctual.early_receipt").await, 1);
    engine.travel(time("2026-05-14T05:15:03Z"), true).await.unwrap();
    assert_eq!(told(t).await.len(), 0);
    engine.store().end_deliveries(token, [ended(due, "SM1")].into(), None).await.unwrap();
    assert_eq!(statuses(t).await, ["1"]);
    engine.travel(time("2026-05-14T05:15:10Z"), true).await.unwrap();
    assert_eq!((statuses(t).await, told(t).await), (vec!["2".to_owned()], vec!["delivered".to_owned()]));
    assert_eq!(t.count("select count(*) from punctual.early_receipt").await, 0);
    assert_eq!(hear(&engine, vec![of("SM1", Delivered)]).await.repeated, 1);
}

/// NTF-16: looks for a message end, and a bounce counts by its address then.
async fn ntf_16_an_early_receipt_is_given_up_in_the_end(t: &Bench) {
    let (engine, _due, _token) = sending(t).await;
    hear(&engine, vec![of("SM1", Delivered), of("SM2", Bounced)]).await;
    assert_eq!(t.count("select count(*) from punctual.early_receipt").await, 2);
    assert_eq!(suppressed(t).await.len(), 0);
    engine.travel(time("2026-05-14T06:13:00Z"), true).await.unwrap();
    assert_eq!(t.count("select count(*) from punctual.early_receipt").await, 0);
    assert_eq!((told(t).await.len(), suppressed(t).await.len()), (0, 1));
}

/// NTF-16: the next message to the address is not sent.
async fn ntf_16_a_hard_bounce_suppresses_the_address(t: &Bench) {
    let (engine, id) = sent(t).await;
    hear(&engine, vec![of(&id, Failed), of(&id, Bounced)]).await;
    assert_eq!(suppressed(t).await, [format!("1 {PHONE} sms hard-bounce receipt of twilio-sms")]);
    assert_eq!((statuses(t).await, notifications(t).await), (vec!["3".to_owned()], vec!["6 -".to_owned()]));
    assert!(
        log(t).await[0].ends_with("the provider says that it did not arrive: 30005"),
        "{:?}",
        log(t).await
    );
    confirm(&engine, "2").await;
    assert_eq!(tick(&engine).await.sent, 0);
    assert_eq!(statuses(t).await, ["3", "4"]);
    assert!(log(t).await[1].ends_with("hard-bounce"), "{:?}", log(t).await);
}

/// NTF-16, NTF-18: a STOP by its address alone; a START lifts it; a second STOP is not the first one again.
async fn ntf_16_a_stop_suppresses_and_a_start_lifts(t: &Bench) {
    let (engine, _) = sent(t).await;
    hear(&engine, vec![reply(Stopped, "SMa")]).await;
    assert_eq!(suppressed(t).await, [format!("1 {PHONE} sms stop receipt of twilio-sms")]);
    hear(&engine, vec![reply(Resumed, "SMb")]).await;
    assert_eq!(suppressed(t).await, Vec::<String>::new());
    assert_eq!(hear(&engine, vec![reply(Stopped, "SMa")]).await.repeated, 1, "a replayed callback");
    assert_eq!(suppressed(t).await, Vec::<String>::new());
    hear(&engine, vec![reply(Stopped, "SMc")]).await;
    assert_eq!(suppressed(t).await.len(), 1);
}

/// NTF-18: a captured START is posted again after the inbox has forgotten it. Twilio signs no time.
async fn ntf_18_a_start_that_is_posted_again_lifts_no_newer_stop(t: &Bench) {
    let (engine, _) = sent(t).await;
    let start = || vec![reply(Resumed, "SMb")];
    hear(&engine, start()).await;
    hear(&engine, vec![reply(Stopped, "SMc")]).await;
    let year = Duration::from_secs(365 * 86_400);
    t.advance(year).await;
    let day = Duration::from_secs(86_400);
    t.store().prune_inbox(InboxRetention { finished: day, dead: day }).await.unwrap();
    hear(&engine, start()).await;
    assert_eq!(suppressed(t).await.len(), 1, "the START is older than the STOP");
    let nameless = Receipt { event_id: None, ..reply(Resumed, "") };
    hear(&engine, vec![nameless]).await;
    assert_eq!(suppressed(t).await.len(), 1, "a START without id and time may be any old one");
    hear(&engine, vec![reply(Resumed, "SMd")]).await;
    assert_eq!(suppressed(t).await, Vec::<String>::new(), "a new START lifts it");
}

/// NTF-18: a START that concerned nobody when it came, and is posted again after a STOP.
async fn ntf_18_a_start_is_remembered_before_anybody_wrote(t: &Bench) {
    let engine = engine(t).await;
    let start = || vec![reply(Resumed, "SMb")];
    assert_eq!(hear(&engine, start()).await.unknown, 1, "nobody has written to the address");
    t.advance(Duration::from_secs(60)).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    confirm(&engine, "1").await;
    assert_eq!(tick(&engine).await.sent, 1);
    hear(&engine, vec![reply(Stopped, "SMc")]).await;
    hear(&engine, start()).await;
    assert_eq!(suppressed(t).await.len(), 1, "the START is older than the STOP");
}

/// NTF-18: where the provider says when, a START lifts older STOPs only; one of the same second stays.
async fn ntf_18_a_start_lifts_no_stop_that_is_newer_by_the_providers_clock(t: &Bench) {
    let (engine, _) = sent(t).await;
    let now = t.now().await;
    let at = |minutes: u64, status, id: &str| {
        let occurred_at = Some(now.minus(Duration::from_secs(60 * minutes)));
        vec![Receipt { occurred_at, ..reply(status, id) }]
    };
    hear(&engine, at(50, Stopped, "a")).await;
    hear(&engine, at(10, Stopped, "b")).await;
    hear(&engine, at(30, Resumed, "c")).await;
    assert_eq!(suppressed(t).await.len(), 1, "the START came after the first STOP, and before the last");
    hear(&engine, at(10, Resumed, "e")).await;
    assert_eq!(suppressed(t).await.len(), 1, "providers tell whole seconds");
    hear(&engine, at(5, Resumed, "d")).await;
    assert_eq!(suppressed(t).await, Vec::<String>::new());
}

/// NTF-16, NTF-23: of several tenants, those that have written to the address.
async fn ntf_16_a_stop_is_for_those_who_wrote(t: &Bench) {
    let (engine, _) = sent(t).await;
    let made = engine
        .store()
        .create_tenant(NewTenant {
            slug: "other".into(),
            name: "Other".into(),
            time_zone: None,
            default_locale: None,
        })
        .await
        .unwrap();
    let other = made.tenant;
    define(&engine, other, |_| {}).await;
    template(&engine, other, "SMS", "x").await;
    let mut payload = booking("9");
    payload["guest"]["phone"] = json!("+919876500000");
    confirm_in(&engine, other, &payload).await;
    assert_eq!(tick(&engine).await.sent, 1);
    hear(&engine, vec![reply(Stopped, "SMa")]).await;
    assert_eq!(suppressed(t).await, [format!("1 {PHONE} sms stop receipt of twilio-sms")]);
    let nobody = Receipt { address: Some("+4930123456".into()), ..reply(Stopped, "SMb") };
    assert_eq!(hear(&engine, vec![nobody]).await.unknown, 1);
    assert_eq!(suppressed(t).await.len(), 1);
    payload["guest"]["phone"] = json!("+1 (202) 555-0143");
    payload["bookingId"] = json!("10");
    confirm_in(&engine, other, &payload).await;
    assert_eq!(tick(&engine).await.sent, 1);
    let american = Receipt { address: Some("12025550143".into()), ..reply(Stopped, "SMc") };
    assert_eq!(hear(&engine, vec![american]).await.unknown, 0, "however it was written");
    assert_eq!(suppressed(t).await[1], format!("{other} +12025550143 sms stop receipt of twilio-sms"));
}

/// NTF-16, NTF-23: who can sign for one channel says nothing about another's messages.
async fn ntf_16_another_channels_message_is_not_touched(t: &Bench) {
    let (engine, id) = sent(t).await;
    let said = hear_by(&engine, "sms:other", vec![of(&id, Failed), of(&id, Bounced)]).await;
    assert_eq!((said.new, said.unknown), (vec![], 2));
    assert_eq!((statuses(t).await, told(t).await.len()), (vec!["1".to_owned()], 0));
    assert_eq!(suppressed(t).await, Vec::<String>::new());
}

/// NTF-16, NTF-17: WhatsApp says later that it did not arrive, so the SMS goes out.
async fn ntf_16_what_did_not_arrive_goes_by_another_channel(t: &Bench) {
    let policy = ChannelPolicy { fallback: Some(SMS.into()), ..ChannelPolicy::default() };
    let engine = engine_with(t, &[("memory:whatsapp", policy)]).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "WhatsApp", "x").await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    let id = provider_id(t, 1).await;
    let said = hear_by(&engine, "memory:whatsapp", vec![of(&id, Failed)]).await;
    assert!(said.sends);
    assert_eq!(
        (statuses(t).await, notifications(t).await),
        (vec!["3".into(), "0".into()], vec!["0 -".into()])
    );
    assert_eq!(tick(&engine).await.sent, 1);
    assert_eq!(inbox(&engine).len(), 2);
    assert_eq!(
        (statuses(t).await, notifications(t).await),
        (vec!["3".into(), "1".into()], vec!["1 -".into()])
    );
    assert!(log(t).await[1].starts_with(&format!("1:{KIND}:{SMS}:")), "{:?}", log(t).await);
    // Who stopped it is not written to by another channel.
    confirm(&engine, "2").await;
    tick(&engine).await;
    let id = provider_id(t, 3).await;
    let said = hear_by(&engine, "memory:whatsapp", vec![of(&id, Failed), of(&id, Stopped)]).await;
    assert!(!said.sends);
    assert_eq!(statuses(t).await, ["3", "1", "3"]);
}

/// NTF-16, PLT-10: of any number of the same callback at once, one is news.
async fn ntf_16_two_callbacks_at_once_count_once(t: &Bench) {
    let (engine, id) = sent(t).await;
    let (a, b, c) = tokio::join!(
        hear(&engine, vec![of(&id, Delivered)]),
        hear(&engine, vec![of(&id, Delivered)]),
        hear(&engine, vec![of(&id, Delivered)])
    );
    let all = [&a, &b, &c];
    assert_eq!(all.iter().map(|one| one.new.len()).sum::<usize>(), 1);
    assert_eq!(all.iter().map(|one| one.repeated).sum::<usize>(), 2);
    assert_eq!(told(t).await.len(), 1);
}
