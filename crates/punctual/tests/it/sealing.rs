//! Secrets in the database are sealed by the operator's encryption keys.

use crate::bench::{Bench, TENANT};
use punctual::base::sealing::{EncryptionKey, EncryptionKeys};
use punctual::delivery::rules::unsubscribe::UnsubscribeLink;
use punctual::{ClockMode, Engine, Error};

cases![
    prd_14_the_link_secret_is_sealed_by_the_first_key,
    prd_14_a_plain_link_secret_is_sealed_when_it_is_read,
    prd_14_an_older_key_opens_and_the_first_seals,
    prd_14_a_sealed_link_secret_without_its_key_is_refused_with_the_cure,
    prd_14_ids_of_encryption_keys_are_checked,
];

type Ids = &'static [(&'static str, u8)];

fn keys(all: Ids) -> EncryptionKeys {
    EncryptionKeys(all.iter().map(|(id, byte)| EncryptionKey::new(*id, [*byte; 32])).collect())
}

/// Opens one more process with these keys.
async fn open(t: &Bench, all: Ids) -> punctual::Result<Engine> {
    let builder = Engine::builder("").on_store(t.another().await).without_migrations();
    builder.clock(ClockMode::Manual).encryption_keys(keys(all)).open().await
}

async fn stored(t: &Bench) -> String {
    t.texts("select value from punctual.secret where name = 'unsubscribe'").await[0][0].clone().unwrap()
}

fn link() -> UnsubscribeLink {
    UnsubscribeLink {
        tenant: TENANT,
        address: "ana@example.org".into(),
        channel: "email".into(),
        kind: None,
        locale: None,
    }
}

/// The token of the same link as a process with these keys makes it.
async fn token(t: &Bench, all: Ids) -> String {
    let engine = open(t, all).await.unwrap();
    let secret = engine.store().link_secret().await.unwrap();
    let token = secret.seal(&link());
    assert_eq!(secret.open(&token), Some(link()));
    token
}

/// PRD-14
async fn prd_14_the_link_secret_is_sealed_by_the_first_key(t: &Bench) {
    let made = token(t, &[("a", 1), ("b", 2)]).await;
    let sealed = stored(t).await;
    assert!(sealed.starts_with("sealed:a:") && sealed.len() > 64, "{sealed}");
    assert_eq!(token(t, &[("a", 1)]).await, made, "another process has the same secret");
    assert_eq!(stored(t).await, sealed);
}

/// PRD-14: links that were sent before there was a key go on working.
async fn prd_14_a_plain_link_secret_is_sealed_when_it_is_read(t: &Bench) {
    let made = token(t, &[]).await;
    let plain = stored(t).await;
    assert_eq!(plain.len(), 64, "without a key it stands there as it is");
    open(t, &[("a", 1)]).await.unwrap();
    let sealed = stored(t).await;
    assert!(sealed.starts_with("sealed:a:") && !sealed.contains(&plain), "opening seals it: {sealed}");
    assert_eq!(token(t, &[("a", 1)]).await, made);
}

/// PRD-14: after a rotation the older key can be left out, and a key may be renamed.
async fn prd_14_an_older_key_opens_and_the_first_seals(t: &Bench) {
    let made = token(t, &[("a", 1)]).await;
    assert_eq!(token(t, &[("b", 2), ("a", 1)]).await, made);
    assert!(stored(t).await.starts_with("sealed:b:"));
    assert_eq!(token(t, &[("renamed", 2)]).await, made);
}

/// PRD-14
async fn prd_14_a_sealed_link_secret_without_its_key_is_refused_with_the_cure(t: &Bench) {
    token(t, &[("a", 1)]).await;
    let sealed = stored(t).await;
    let wrong_keys: [Ids; 2] = [&[("a", 2)], &[("b", 2), ("c", 3)]];
    for wrong in wrong_keys {
        let refused = open(t, wrong).await.expect_err("the process does not start");
        assert!(matches!(refused, Error::Config(_)), "{refused:?}");
        let ids: Vec<_> = wrong.iter().map(|(id, _)| *id).collect();
        let found = format!("none of the keys that are set ({}) opens it", ids.join(", "));
        for part in ["`a`", "PUNCTUAL_ENCRYPTION_KEY", &found] {
            assert!(refused.to_string().contains(part), "{part}: {refused}");
        }
    }
    // Without a key a process starts, since it may have nothing to do with links.
    let engine = open(t, &[]).await.unwrap();
    let refused = engine.store().link_secret().await.expect_err("it is sealed").to_string();
    assert!(refused.contains("no key is set: add that key to PUNCTUAL_ENCRYPTION_KEY"), "{refused}");
    assert_eq!(stored(t).await, sealed, "a refusal changes nothing");
}

/// PRD-14: an id stands before a colon, and tells keys apart.
async fn prd_14_ids_of_encryption_keys_are_checked(t: &Bench) {
    let table: [(Ids, &str); 3] = [
        (&[("", 1)], "encryption_keys[0].id: must not be empty"),
        (&[("a:b", 1)], "encryption_keys[0].id: must not contain `:`"),
        (&[("a", 1), ("a", 2)], "encryption_keys[1].id: `a` is the id of another key"),
    ];
    for (all, wrong) in table {
        let refused = open(t, all).await.expect_err("it is refused").to_string();
        assert!(refused.contains(wrong), "{refused}");
    }
}
