//! Tenants: what is one's is not found by another.

use crate::bench::{Bench, TENANT, fail, message, seconds};
use punctual::Error;
use punctual::access::store::keys::{RevokeOutcome, Role};
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::KeyId;
use punctual::base::tenant::Tenant;
use punctual::queue::store::dead_letters::DeadLetterFilter;

cases![
    there_is_a_default_tenant,
    a_tenant_is_kept_as_it_was_made,
    a_slug_is_taken_once,
    another_tenants_message_is_not_found,
    another_tenants_dead_letter_is_not_found,
    another_tenants_key_is_not_found,
    one_topic_in_two_tenants_is_two_queues,
];

pub async fn acme(t: &Bench) -> Tenant {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    t.store().create_tenant(new).await.unwrap().tenant
}

async fn there_is_a_default_tenant(t: &Bench) {
    let row = t.store().tenant(Tenant::DEFAULT_SLUG).await.unwrap().unwrap();
    assert_eq!((row.tenant, row.time_zone.as_str(), row.default_locale.as_str()), (TENANT, "UTC", "en"));
    assert_eq!(t.store().tenant("nobody").await.unwrap(), None);
}

async fn a_tenant_is_kept_as_it_was_made(t: &Bench) {
    let new = NewTenant {
        slug: "acme-eu".into(),
        name: "Acme \"Europe\" ü".into(),
        time_zone: Some("Europe/Berlin".into()),
        default_locale: Some("de".into()),
    };
    let made = t.store().create_tenant(new).await.unwrap();
    assert_ne!(made.tenant, TENANT);
    assert_eq!(t.store().tenant("acme-eu").await.unwrap(), Some(made.clone()));
    assert_eq!(made.created_at, t.now().await);
    assert_eq!((made.name.as_str(), made.time_zone.as_str()), ("Acme \"Europe\" ü", "Europe/Berlin"));
    assert_eq!(t.store().tenants(TENANT.id(), 10).await.unwrap(), [made]);
    assert_eq!(t.store().tenants(0, 1).await.unwrap()[0].tenant, TENANT);
}

async fn a_slug_is_taken_once(t: &Bench) {
    acme(t).await;
    let before = t.dump().await;
    let new = NewTenant { slug: "acme".into(), name: "Other".into(), ..NewTenant::default() };
    let error = t.store().create_tenant(new).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error:?}");
    before.assert_equals(&t.dump().await, "a taken slug");
}

async fn another_tenants_message_is_not_found(t: &Bench) {
    let acme = acme(t).await;
    let id = t.put("orders", 1).await[0];
    assert_eq!(t.store().message(acme, id).await.unwrap(), None);
    assert!(t.store().message(TENANT, id).await.unwrap().is_some());
}

async fn another_tenants_dead_letter_is_not_found(t: &Bench) {
    let acme = acme(t).await;
    let lane = t.lane("orders").await;
    t.put("orders", 1).await;
    let items = t.claim(lane, 1).await;
    t.say(&items, fail("no")).await;
    let mine = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    let which = DeadLetterFilter { ids: Some(vec![mine[0].id]), ..DeadLetterFilter::default() };
    let before = t.dump().await;
    assert!(t.store().dead_letters(acme, which.clone(), 10).await.unwrap().is_empty());
    assert!(t.store().replay(acme, which.clone(), false).await.unwrap().ids.is_empty());
    assert!(t.store().purge(acme, which, false).await.unwrap().ids.is_empty());
    before.assert_equals(&t.dump().await, "another tenant's replay");
}

async fn another_tenants_key_is_not_found(t: &Bench) {
    let acme = acme(t).await;
    let (key, _) = t.store().create_key(TENANT, "ci", Role::Admin, None).await.unwrap();
    let before = t.dump().await;
    assert_eq!(t.store().revoke_key(acme, key.id, Role::Ops).await.unwrap(), RevokeOutcome::NotFound);
    assert_eq!(t.store().keys(acme, KeyId(0), 10).await.unwrap(), []);
    before.assert_equals(&t.dump().await, "another tenant's revocation");
}

async fn one_topic_in_two_tenants_is_two_queues(t: &Bench) {
    let acme = acme(t).await;
    let mine = t.lane("orders").await;
    let theirs = t.store().declare_queue(acme, "orders").await.unwrap().id;
    assert_ne!(mine, theirs);
    t.store().enqueue(acme, vec![message("orders")]).await.unwrap();
    assert!(t.claim(mine, 10).await.is_empty());
    let items = t.claim(theirs, 10).await;
    assert_eq!((items.len(), items[0].message.tenant), (1, acme));
    assert_eq!(t.store().queues(TENANT).await.unwrap().len(), 1);
    // What waits unrouted finds its own tenant's lane.
    t.store().enqueue(acme, vec![message("visits")]).await.unwrap();
    t.store().route_waiting().await.unwrap();
    assert!(t.store().lane(acme, "visits", "").await.unwrap().is_some());
    assert!(t.store().lane(TENANT, "visits", "").await.unwrap().is_none());
    t.advance(seconds(1)).await;
}
