//! PLT-29: bad input is refused with an error that says what and where, and nothing is
//! written.

use crate::bench::{Bench, LEASE, SEED, TENANT, message, seconds, wish};
use punctual::access::store::keys::Role;
use punctual::access::store::tenants::NewTenant;
use punctual::base::clock::Timestamp;
use punctual::base::id::{DeadLetterId, LaneId, MessageId, Token};
use punctual::base::limits;
use punctual::queue::rules::message::Entity;
use punctual::queue::store::claims::ClaimRequest;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::{SettleAction, Settlement};
use punctual::{Error, NewMessage};
use serde_json::json;
use std::time::Duration;

cases![
    plt_29_bad_messages_are_refused,
    plt_29_too_many_are_refused,
    plt_29_bad_leases_and_owners_are_refused,
    plt_29_bad_settings_and_topics_are_refused,
    plt_29_bad_tenants_are_refused,
    plt_29_bad_keys_are_refused,
    plt_29_odd_names_are_merely_not_found,
];

#[track_caller]
fn refused<T: std::fmt::Debug>(result: punctual::Result<T>, said: &str) {
    match result {
        Err(Error::Invalid(problems)) => {
            let text = problems.to_string();
            assert!(text.contains(said), "`{said}` should be said, but it was `{text}`");
        }
        other => panic!("`{said}` should be said, but it was {other:?}"),
    }
}

/// PLT-29
async fn plt_29_bad_messages_are_refused(t: &Bench) {
    let before = t.dump().await;
    let good = || message("orders");
    let long = || "x".repeat(256);
    let with = |change: fn(&mut NewMessage)| {
        let mut message = good();
        change(&mut message);
        message
    };
    let big = format!("\"{}\"", "x".repeat(limits::PAYLOAD_BYTES_MAX));
    let table = [
        (NewMessage::new(long(), "k", "{}"), "topic: has 256 characters, at most 255"),
        (NewMessage::new("", "k", "{}"), "topic: must not be empty"),
        (NewMessage::new("a/b", "k", "{}"), "topic: must not contain `/`"),
        (NewMessage::new(" a", "k", "{}"), "topic: must not begin or end with white space"),
        (NewMessage::new("a\0", "k", "{}"), "topic: must not contain control characters"),
        (NewMessage::new("t", long(), "{}"), "kind: has 256 characters"),
        (NewMessage::new("t", "", "{}"), "kind: must not be empty"),
        (NewMessage::new("t", "k", big), "payload: has 1048578 bytes, at most 1048576"),
        (NewMessage::new("t", "k", ""), "payload: is not JSON"),
        (NewMessage::new("t", "k", "{} {}"), "payload: is not JSON"),
        (NewMessage::new("t", "k", "\"\0\""), "payload: is not JSON"),
        (good().key(long()), "key: has 256 characters"),
        (good().key("a\nb"), "key: must not contain control"),
        (good().id("shop", long()), "id: has 256 characters"),
        (good().id("", "a"), "source: must not be empty"),
        (good().correlation_id(""), "correlationId: must not be empty"),
        (with(|m| m.schema_version = Some("x".repeat(256))), "schemaVersion: has 256"),
        (with(|m| m.entity = Some(Entity { kind: String::new(), id: "1".into() })), "entity.type"),
        (with(|m| m.headers = Some("{".into())), "headers: is not JSON"),
        (with(|m| m.headers = Some("[1]".into())), "headers: must be a JSON object"),
        (with(|m| m.headers = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(65_536)))), "headers: has"),
        (good().due_at(Timestamp::from_micros(i64::MAX)), "dueAt: must lie between the years"),
        (good().due_at(Timestamp::MIN), "dueAt: must lie between the years 1900 and 9999"),
        (with(|m| m.occurred_at = Some(Timestamp::MIN)), "occurredAt: must lie"),
    ];
    for (message, said) in table {
        refused(t.store().enqueue(TENANT, vec![message.clone()]).await, said);
        let within = vec![good(), message];
        refused(t.store().enqueue(TENANT, within).await, &format!("[1].{said}"));
    }
    before.assert_equals(&t.dump().await, "bad messages");
}

/// PLT-29
async fn plt_29_too_many_are_refused(t: &Bench) {
    let before = t.dump().await;
    let many = vec![message("orders"); 10_001];
    refused(t.store().enqueue(TENANT, many).await, "10001 messages in one batch, at most 10000");
    let words = vec![(MessageId(1), SettleAction::Ack); 10_001];
    let settlement = Settlement { token: Token::fresh(), words };
    refused(t.store().settle(vec![settlement], None, SEED).await, "10001 items, at most 10000");
    let which = DeadLetterFilter { ids: Some(vec![DeadLetterId(1); 10_001]), ..DeadLetterFilter::default() };
    refused(t.store().replay(TENANT, which.clone(), false).await, "10001 ids, at most 10000");
    refused(t.store().purge(TENANT, which, false).await, "10001 ids, at most 10000");
    before.assert_equals(&t.dump().await, "too many of something");
}

/// PLT-29
async fn plt_29_bad_leases_and_owners_are_refused(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let item = t.claim_one(lane).await;
    let before = t.dump().await;
    let hours = seconds(25 * 3_600);
    for lease in [Duration::ZERO, Duration::from_millis(999), hours, Duration::MAX] {
        let wish = ClaimRequest { lease, ..wish(&[(lane, 1)]) };
        refused(t.store().claim(wish).await, "leaseSeconds: must be between 1 second and 24 hours");
        let tokens = vec![item.token.clone()];
        refused(t.store().extend(tokens, lease).await, "leaseSeconds: must be between");
    }
    for owner in [String::new(), "x".repeat(256), "a\0b".into(), "a\nb".into()] {
        let wish = ClaimRequest { owner, lease: LEASE, ..wish(&[(lane, 1)]) };
        refused(t.store().claim(wish).await, "owner: ");
    }
    before.assert_equals(&t.dump().await, "bad claims");
}

/// PLT-29
async fn plt_29_bad_settings_and_topics_are_refused(t: &Bench) {
    let before = t.dump().await;
    let table = [
        (json!({"paused": "yes"}), "paused: must be true or false"),
        (json!({"maxAttempts": 0}), "maxAttempts: must be a whole number from 1 to 1000"),
        (json!({"maxAttempts": -1}), "maxAttempts: must be a whole number"),
        (json!({"maxAttempts": 1001}), "maxAttempts: must be a whole number"),
        (json!({"backoff": []}), "backoff: give between 1 and 100 waits"),
        (json!({"backoff": ["5 minutes"]}), "backoff: `5 minutes` is not a duration"),
        (json!({"backoff": {"from": "2s", "to": "1s"}}), "backoff: `from` must be more than zero"),
        (json!({"retention": "0s"}), "retention: must be longer than zero"),
        (json!({"retention": "-5d"}), "retention: `-5d` is not a duration"),
        (json!({"deadHead": "skip"}), "deadHead: must be \"block\" or \"pass\""),
        (json!({"color": 1}), "color: is not a setting"),
    ];
    for (change, said) in table {
        let change = change.as_object().unwrap().clone();
        refused(t.store().set_queue(TENANT, "orders", change).await, said);
    }
    for topic in ["", "a/b", "a\0", " a", &"x".repeat(256)] {
        refused(t.store().declare_queue(TENANT, topic).await, "topic: ");
        refused(t.store().set_queue(TENANT, topic, serde_json::Map::new()).await, "topic: ");
    }
    before.assert_equals(&t.dump().await, "bad settings");
}

/// PLT-29
async fn plt_29_bad_tenants_are_refused(t: &Bench) {
    let before = t.dump().await;
    let good = || NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    for slug in ["", "-a", "a-", "Acme", "a b", "ä", "a\0", &"x".repeat(64)] {
        let new = NewTenant { slug: slug.to_owned(), ..good() };
        refused(t.store().create_tenant(new).await, "slug: must be 1 to 63 lower-case letters");
    }
    for name in ["", "  ", "a\0", &"x".repeat(256)] {
        let new = NewTenant { name: name.to_owned(), ..good() };
        refused(t.store().create_tenant(new).await, "name: ");
    }
    for zone in ["", "Mars/Olympus", "Europe/berlin2", "../etc/passwd", "a\0"] {
        let new = NewTenant { time_zone: Some(zone.to_owned()), ..good() };
        refused(t.store().create_tenant(new).await, "is not an IANA time zone");
    }
    for locale in ["", "a\0", "de_DE!", &"x".repeat(64)] {
        let new = NewTenant { default_locale: Some(locale.to_owned()), ..good() };
        refused(t.store().create_tenant(new).await, "defaultLocale: ");
    }
    before.assert_equals(&t.dump().await, "bad tenants");
}

/// PLT-29
async fn plt_29_bad_keys_are_refused(t: &Bench) {
    let before = t.dump().await;
    for name in ["", "a\0", &"x".repeat(256)] {
        refused(t.store().create_key(TENANT, name, Role::Ops, None).await, "name: ");
    }
    let now = t.now().await;
    for end in [now, now.minus(seconds(1))] {
        let made = t.store().create_key(TENANT, "ci", Role::Ops, Some(end)).await;
        refused(made, "expiresAt: must lie in the future");
    }
    before.assert_equals(&t.dump().await, "bad keys");
}

/// PLT-29: what no row can have is not there; that is no trouble of the database.
async fn plt_29_odd_names_are_merely_not_found(t: &Bench) {
    let before = t.dump().await;
    for name in ["'; drop table x; --", "%", "\u{202E}", &"x".repeat(100_000)] {
        assert_eq!(t.store().tenant(name).await.unwrap(), None);
        assert_eq!(t.store().lane(TENANT, name, name).await.unwrap(), None);
        assert_eq!(t.store().key_of_secret(name).await.unwrap(), None);
        assert!(!t.store().mark_started(Token::from(name.to_owned())).await.unwrap());
        let tokens = vec![Token::from(name.to_owned())];
        assert_eq!(t.store().extend(tokens.clone(), LEASE).await.unwrap(), []);
        assert!(t.store().ack_whole(tokens).await.unwrap().is_empty());
        let which = DeadLetterFilter { topic: Some(name.to_owned()), ..DeadLetterFilter::default() };
        assert!(t.store().dead_letters(TENANT, which, 10).await.unwrap().is_empty());
    }
    // PostgreSQL cannot even be asked for a NUL.
    let fine = |r: Result<bool, Error>| matches!(r, Ok(false) | Err(Error::Invalid(_)));
    assert!(fine(t.store().tenant("a\0b").await.map(|found| found.is_some())));
    assert!(fine(t.store().lane(TENANT, "a\0b", "").await.map(|found| found.is_some())));
    assert!(fine(t.store().mark_started(Token::from("a\0b".to_owned())).await));
    for id in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(t.store().message(TENANT, MessageId(id)).await.unwrap(), None);
        let words = vec![(MessageId(id), SettleAction::Ack)];
        let settlement = Settlement { token: Token::fresh(), words };
        t.store().settle(vec![settlement], Some(LaneId(id)), SEED).await.unwrap();
    }
    before.assert_equals(&t.dump().await, "odd names");
}
