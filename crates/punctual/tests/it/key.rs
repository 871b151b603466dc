//! API keys: they open until they end or are revoked, and their secret is not kept.

use crate::bench::{Bench, TENANT, seconds};
use punctual::access::store::keys::{RevokeOutcome, Role};
use punctual::base::id::KeyId;

cases![
    a_secret_opens_its_key,
    a_key_ends_when_it_says,
    a_revoked_key_opens_nothing,
    no_secret_is_kept,
    keys_are_listed_in_pages,
];

async fn a_secret_opens_its_key(t: &Bench) {
    for (role, word) in Role::ALL {
        let (key, secret) = t.store().create_key(TENANT, word, role, None).await.unwrap();
        assert_eq!((key.role, key.tenant, key.name.as_str()), (role, TENANT, word));
        assert!(secret.starts_with(&key.prefix));
        assert_eq!(t.store().key_of_secret(&secret).await.unwrap(), Some(key));
    }
    for wrong in ["", "pk_", "pk_0000", "'; drop table"] {
        assert_eq!(t.store().key_of_secret(wrong).await.unwrap(), None);
    }
}

/// PLT-6: by the authority's clock.
async fn a_key_ends_when_it_says(t: &Bench) {
    let end = t.now().await.plus(seconds(60));
    let (key, secret) = t.store().create_key(TENANT, "ci", Role::Author, Some(end)).await.unwrap();
    assert_eq!(key.expires_at, Some(end));
    t.advance(seconds(59)).await;
    assert!(t.store().key_of_secret(&secret).await.unwrap().is_some());
    t.advance(seconds(1)).await;
    assert_eq!(t.store().key_of_secret(&secret).await.unwrap(), None);
}

async fn a_revoked_key_opens_nothing(t: &Bench) {
    let (key, secret) = t.store().create_key(TENANT, "ci", Role::Ops, None).await.unwrap();
    let (_, other) = t.store().create_key(TENANT, "ci", Role::Ops, None).await.unwrap();
    let revoked = t.store().revoke_key(TENANT, key.id, Role::Ops).await.unwrap();
    assert_eq!(revoked, RevokeOutcome::Revoked);
    assert_eq!(t.store().key_of_secret(&secret).await.unwrap(), None);
    assert!(t.store().key_of_secret(&other).await.unwrap().is_some());
    let again = t.store().revoke_key(TENANT, key.id, Role::Ops).await.unwrap();
    assert_eq!(again, RevokeOutcome::NotFound, "once is enough");
    assert_eq!(t.store().keys(TENANT, KeyId(0), 10).await.unwrap().len(), 1);
}

async fn no_secret_is_kept(t: &Bench) {
    let (key, secret) = t.store().create_key(TENANT, "ci", Role::Viewer, None).await.unwrap();
    let kept = format!("{:?}", t.dump().await);
    assert!(kept.contains(&key.prefix));
    assert!(!kept.contains(&secret[key.prefix.len()..]), "only a digest is kept");
}

async fn keys_are_listed_in_pages(t: &Bench) {
    for n in 0..5 {
        t.store().create_key(TENANT, &n.to_string(), Role::Viewer, None).await.unwrap();
    }
    let first = t.store().keys(TENANT, KeyId(0), 3).await.unwrap();
    let rest = t.store().keys(TENANT, first[2].id, 3).await.unwrap();
    let names: Vec<_> = first.iter().chain(&rest).map(|k| k.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4"]);
}
