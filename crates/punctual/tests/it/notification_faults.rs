//! What goes wrong between an event and its letters: claims that are lost, used for nothing or settled twice,
//! events that a database will not take, channels that a process does not have.

use crate::bench::{Bench, LEASE, TENANT, seconds};
use crate::notification::{
    confirm, confirm_in, define, engine, engine_with, inbox, log, notifications, one_of_many, script,
    template, texts, tick,
};
use crate::notification_log::{begin, end, file, planned, sent, sms};
use punctual::Engine;
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::Token;
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::delivery::store::deliveries::delivery::{
    DeliveryOutcome, DeliverySettlement, DueDelivery, SettledDelivery,
};
use punctual::testing::Backend;
use serde_json::json;
use std::time::Duration;

cases![
    ntf_4_a_lost_try_stays_lost_when_its_claim_is_put_back,
    ntf_4_a_settlement_that_is_repeated_loses_no_claim,
    ntf_4_letters_of_which_too_little_is_known_go_back,
    ntf_2_what_is_refused_of_one_event_holds_up_no_other,
    ntf_2_a_name_with_a_zero_character_is_told,
    ntf_2_letters_begun_at_once_and_those_of_later_are_worded_alike,
    ntf_19_an_event_stays_while_its_letters_wait,
    ntf_17_letters_wait_for_a_process_that_has_their_channel,
    ntf_17_nobody_overtakes_another_tenant_that_waits_for_a_channel,
];

/// NTF-4: whoever finds a try that nobody wrote down may put it back unused, as in a stop. The next one must
/// know as well that it may have gone out.
async fn ntf_4_a_lost_try_stays_lost_when_its_claim_is_put_back(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1")]).await;
    begin(t).await;
    t.advance(LEASE + seconds(1)).await;
    t.reap().await;
    t.advance(seconds(3_600)).await;
    let (token, due) = begin(t).await;
    assert!(due[0].lost, "the first try was never heard of");
    let now = t.now().await;
    end(t, token, due, vec![DeliveryOutcome::NotBegun(now)]).await;
    let (_, due) = begin(t).await;
    assert!(due[0].lost, "it still may have gone out");
}

async fn settle(t: &Bench, token: &Token, due: &[DueDelivery]) -> DeliverySettlement {
    let ended: Vec<SettledDelivery> =
        due.iter().map(|due| SettledDelivery { due: due.clone(), outcome: sent("p"), entry: None }).collect();
    t.store().end_deliveries(token.clone(), ended.into(), None).await.unwrap()
}

/// NTF-4: the answer to a settlement may be lost on its way. Asked again, it was done; it neither counts
/// twice nor is the rest of the claim given up.
async fn ntf_4_a_settlement_that_is_repeated_loses_no_claim(t: &Bench) {
    file(t, TENANT, "b1", vec![sms("b1"), planned("b1", "Email", "email:smtp", "a@example.org")]).await;
    let (token, due) = begin(t).await;
    for (part, said) in [(&due[..1], "a part"), (&due[..1], "the same part"), (&due[1..], "the rest")] {
        assert_eq!(settle(t, &token, part).await, DeliverySettlement::Done, "{said}");
    }
    assert_eq!(settle(t, &token, &due[1..]).await, DeliverySettlement::Done, "the rest once more");
    assert_eq!(settle(t, &token, &due).await, DeliverySettlement::Done, "all of it");
    assert_eq!(t.count("select sent from punctual.entry").await, 2);
    assert_eq!(t.count("select count(*) from punctual.delivery_attempt").await, 2);
    file(t, TENANT, "b2", vec![sms("b2")]).await;
    let (token, due) = begin(t).await;
    t.advance(LEASE + seconds(1)).await;
    t.reap().await;
    assert_eq!(settle(t, &token, &due).await, DeliverySettlement::LostClaim, "whoever is too late hears so");
}

/// NTF-4: a claim whose kind of events cannot be read goes back, and its letters are not taken for sent.
async fn ntf_4_letters_of_which_too_little_is_known_go_back(t: &Bench) {
    let first = engine(t).await;
    define(&first, TENANT, |_| {}).await;
    template(&first, TENANT, "SMS", "x").await;
    script(&first, "memory:sms", json!(["transient"]));
    confirm(&first, "1").await;
    assert_eq!(tick(&first).await.failed, 1);
    t.advance(seconds(3_600)).await;
    t.texts("update punctual.event_kind set document = '{' || document").await;
    // Nothing is kept in memory by this one.
    let second = engine(t).await;
    assert!(second.tick(100).await.is_err(), "they cannot be worded");
    t.texts("update punctual.event_kind set document = substr(document, 2)").await;
    assert_eq!(tick(&second).await.sent, 1);
    let tries = texts(t, "select outcome from punctual.delivery_attempt order by tried").await;
    assert_eq!(tries, ["transient", "sent"], "nobody took it for sent meanwhile");
}

/// NTF-19: retention leaves an event alone whose letters are still to be worded by it.
async fn ntf_19_an_event_stays_while_its_letters_wait(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    script(&engine, "memory:sms", json!(["transient"]));
    confirm(&engine, "1").await;
    tick(&engine).await;
    t.advance(seconds(3_600)).await;
    let pruned = async || t.store().prune_messages(0, seconds(60)).await.unwrap().messages;
    assert_eq!(pruned().await, 0, "its second try is to come");
    assert_eq!(tick(&engine).await.sent, 1);
    // What a send tells of itself may go as well.
    assert!(pruned().await >= 1, "now it is history");
}

/// A database that refuses notifications about one booking.
async fn refuse(t: &Bench, entity: &str) {
    let sql = match t.backend {
        Backend::Sqlite => vec![format!(
            "create trigger refused before insert on punctual_entry when new.entity_id = '{entity}' \
             begin select raise(abort, 'no such notification'); end"
        )],
        Backend::Postgres => vec![
            "create function punctual.refuse() returns trigger language plpgsql as \
             $$ begin raise exception 'no such notification'; end $$"
                .to_owned(),
            format!(
                "create trigger refused before insert on punctual.entry for each row \
                 when (new.entity_id = '{entity}') execute function punctual.refuse()"
            ),
        ],
    };
    t.place.sql(&sql).await.unwrap();
}

/// NTF-2: what a database will not take of one event fails that event in the end, and the others are told at
/// once.
async fn ntf_2_what_is_refused_of_one_event_holds_up_no_other(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    refuse(t, "2").await;
    for id in ["1", "2", "3"] {
        confirm(&engine, id).await;
    }
    assert_eq!(tick(&engine).await.sent, 2, "those that can be told");
    let dead = async || texts(t, "select error from punctual.dead_letter").await.len();
    assert_eq!(dead().await, 0, "the other is tried again");
    engine.travel(crate::invitation::time("2026-05-15T05:13:00Z"), true).await.unwrap();
    assert_eq!(dead().await, 1, "until it is given up");
    t.assert_sound().await;
}

/// NTF-2: JSON can say what a database cannot keep.
async fn ntf_2_a_name_with_a_zero_character_is_told(t: &Bench) {
    let engine = engine(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "SMS", "x").await;
    let mut booking = crate::notification::booking("1\u{0}");
    booking["guest"]["name"] = json!("Ada\u{0}");
    confirm_in(&engine, TENANT, &booking).await;
    assert_eq!(tick(&engine).await.sent, 1);
    assert_eq!(texts(t, "select recipient from punctual.delivery").await, ["Ada"]);
}

/// NTF-2: letters that are begun with the filing are worded by what the process knows, later ones by what it
/// reads again; and so are all letters of another process.
async fn ntf_2_letters_begun_at_once_and_those_of_later_are_worded_alike(t: &Bench) {
    let (first, second) = (engine(t).await, engine(t).await);
    define(&first, TENANT, |_| {}).await;
    for channel in ["SMS", "Email"] {
        let body = "{{guestName}}, {{bookingId}}, {{entity.id}}, {{checkinDate}}";
        template(&first, TENANT, channel, body).await;
    }
    script(&first, "memory:email", json!(["transient", "ok", "transient"]));
    for (id, later) in [("1", &first), ("2", &second)] {
        confirm(&first, id).await;
        assert_eq!(tick(&first).await.sent, 1, "the other is to come again");
        t.advance(seconds(3_600)).await;
        assert_eq!(tick(later).await.sent, 1);
    }
    let bodies = |of: &Engine| -> Vec<String> {
        inbox(of).iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    };
    let (one, two) = ("John Doe, 1, 1, 2026-03-15", "John Doe, 2, 2, 2026-03-15");
    assert_eq!(bodies(&first), [one, one, two]);
    assert_eq!(bodies(&second), [two]);
}

/// NTF-17: tenants share a channel's rate. What waits for it goes before what comes, whosever it is.
async fn ntf_17_nobody_overtakes_another_tenant_that_waits_for_a_channel(t: &Bench) {
    let rate = ChannelPolicy { rate_per_second: Some(1), ..ChannelPolicy::default() };
    let engine = engine_with(t, &[("memory:sms", rate)]).await;
    let other = NewTenant { slug: "other".into(), name: "Other".into(), ..NewTenant::default() };
    let other = engine.store().create_tenant(other).await.unwrap().tenant;
    for tenant in [TENANT, other] {
        define(&engine, tenant, |_| {}).await;
        template(&engine, tenant, "SMS", "{{bookingId}}").await;
    }
    for id in ["1", "2"] {
        confirm(&engine, id).await;
    }
    assert_eq!(tick(&engine).await.sent, 1, "one a second");
    t.advance(seconds(1)).await;
    confirm_in(&engine, other, &crate::notification::booking("3")).await;
    assert_eq!(tick(&engine).await.sent, 1);
    t.advance(seconds(1)).await;
    assert_eq!(tick(&engine).await.sent, 1);
    let bodies: Vec<String> =
        inbox(&engine).iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
    assert_eq!(bodies, ["1", "2", "3"]);
}

/// NTF-17: while a new channel is rolled out, processes that do not have it leave its letters to those that
/// do. What nobody takes for ten minutes fails, and says why.
async fn ntf_17_letters_wait_for_a_process_that_has_their_channel(t: &Bench) {
    let engine = one_of_many(t).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "sms:new", "x").await;
    confirm(&engine, "1").await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["0 -"], "somebody else may have the channel");
    t.advance(Duration::from_secs(11 * 60)).await;
    tick(&engine).await;
    assert_eq!(notifications(t).await, ["6 -"]);
    let lines = log(t).await;
    assert!(lines[0].contains("there is no channel `sms:new`"), "{lines:?}");
}
