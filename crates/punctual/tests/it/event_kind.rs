//! Event kinds: one document each, and the stamp that tells of changes.

use crate::bench::{Bench, TENANT};
use punctual::Error;
use punctual::access::store::tenants::NewTenant;
use punctual::base::tenant::Tenant;
use punctual::flow::run::event_kinds::EventKinds;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

cases![
    prd_18_a_kind_is_put_shown_and_deleted,
    prd_18_kinds_are_listed_by_name,
    prd_18_a_bad_document_is_refused,
    prd_18_a_kind_is_its_tenants,
    prd_18_kinds_are_kept_until_the_stamp_changes,
    prd_18_kinds_that_fail_change_nothing,
    prd_18_puts_at_once_lose_none,
    prd_18_there_are_only_so_many_kinds,
];

const KIND: &str = "booking.confirmed";

fn document(path: &str) -> Value {
    json!({"recipients": {"phone": path}})
}

async fn acme(t: &Bench) -> Tenant {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    t.store().create_tenant(new).await.unwrap().tenant
}

/// PRD-18: the same again changes nothing; a change is counted.
async fn prd_18_a_kind_is_put_shown_and_deleted(t: &Bench) {
    let first = t.store().put_event_kind(TENANT, KIND, document("a")).await.unwrap();
    assert_eq!((first.kind.as_str(), first.version, &first.document), (KIND, 1, &document("a")));
    assert_eq!(t.store().event_kind(TENANT, KIND).await.unwrap(), Some(first.clone()));
    let now = t.advance(Duration::from_secs(5)).await;
    let mut again = document("a");
    again["version"] = json!(1);
    let same = t.store().put_event_kind(TENANT, KIND, again).await.unwrap();
    assert_eq!(same, first, "the same again changes nothing");
    assert_eq!(t.store().event_kind_stamp(TENANT).await.unwrap(), 1);
    let second = t.store().put_event_kind(TENANT, KIND, document("b")).await.unwrap();
    assert_eq!((second.version, second.created_at, second.updated_at), (2, first.created_at, now));
    assert!(t.store().delete_event_kind(TENANT, KIND).await.unwrap());
    assert!(!t.store().delete_event_kind(TENANT, KIND).await.unwrap());
    assert_eq!(t.store().event_kind(TENANT, KIND).await.unwrap(), None);
    assert_eq!(t.store().event_kind_stamp(TENANT).await.unwrap(), 3, "each change is told");
}

/// PRD-18
async fn prd_18_kinds_are_listed_by_name(t: &Bench) {
    for kind in ["b", "a", "c"] {
        t.store().put_event_kind(TENANT, kind, document("x")).await.unwrap();
    }
    let names = |after: &'static str, limit| async move {
        let found = t.store().event_kinds(TENANT, after, limit).await.unwrap();
        found.into_iter().map(|kept| kept.kind).collect::<Vec<_>>()
    };
    assert_eq!(names("", 10).await, ["a", "b", "c"]);
    assert_eq!(names("a", 1).await, ["b"]);
}

/// PRD-18: nothing is written.
async fn prd_18_a_bad_document_is_refused(t: &Bench) {
    t.store().put_event_kind(TENANT, KIND, document("a")).await.unwrap();
    let before = t.dump().await;
    let bad = json!({"recipients": {"phone": "a..b"}, "topik": "x"});
    let said = t.store().put_event_kind(TENANT, KIND, bad).await.unwrap_err().to_string();
    assert!(said.contains("topik: ") && said.contains("recipients.phone: "), "{said}");
    let unnamed = t.store().put_event_kind(TENANT, "", document("a")).await;
    assert!(matches!(unnamed, Err(Error::Invalid(_))));
    before.assert_equals(&t.dump().await, "a refused kind");
}

/// PRD-18
async fn prd_18_a_kind_is_its_tenants(t: &Bench) {
    let acme = acme(t).await;
    t.store().put_event_kind(TENANT, KIND, document("a")).await.unwrap();
    assert_eq!(t.store().event_kind(acme, KIND).await.unwrap(), None);
    assert_eq!(t.store().event_kinds(acme, "", 10).await.unwrap(), []);
    assert!(!t.store().delete_event_kind(acme, KIND).await.unwrap());
    assert_eq!(t.store().event_kind_stamp(acme).await.unwrap(), 0, "nothing happened there");
    t.store().put_event_kind(acme, KIND, document("b")).await.unwrap();
    let mine = t.store().event_kind(TENANT, KIND).await.unwrap().unwrap();
    assert_eq!(mine.document, document("a"));
}

/// PRD-18: read once, and again only when something changed.
async fn prd_18_kinds_are_kept_until_the_stamp_changes(t: &Bench) {
    let asking = EventKinds::new(Duration::ZERO);
    let none = asking.of(t.store(), TENANT).await.unwrap();
    assert!(none.get(KIND).is_none() && !none.has_schemas());
    t.store().put_event_kind(TENANT, KIND, document("a")).await.unwrap();
    let first = asking.of(t.store(), TENANT).await.unwrap();
    assert_eq!(first.get(KIND).unwrap().document(), &document("a"));
    assert!(Arc::ptr_eq(&first, &asking.of(t.store(), TENANT).await.unwrap()), "nothing changed");
    let resting = EventKinds::new(Duration::from_secs(3600));
    let rested = resting.of(t.store(), TENANT).await.unwrap();
    let schema = json!({"recipients": {"phone": "a"}, "schema": {"type": "object"}});
    t.another().await.put_event_kind(TENANT, KIND, schema).await.unwrap();
    assert!(asking.of(t.store(), TENANT).await.unwrap().has_schemas());
    assert!(Arc::ptr_eq(&rested, &resting.of(t.store(), TENANT).await.unwrap()), "looked at a moment ago");
    resting.changed(TENANT);
    assert!(resting.of(t.store(), TENANT).await.unwrap().has_schemas(), "a change of its own is seen");
    t.store().delete_event_kind(TENANT, KIND).await.unwrap();
    assert!(asking.of(t.store(), TENANT).await.unwrap().get(KIND).is_none());
}

/// PRD-18: all or nothing, whichever statement fails.
async fn prd_18_kinds_that_fail_change_nothing(t: &Bench) {
    shake!(t, "putting a kind", |store| store.put_event_kind(TENANT, KIND, document("a")));
    shake!(t, "changing a kind", |store| store.put_event_kind(TENANT, KIND, document("b")));
    shake!(t, "deleting a kind", |store| store.delete_event_kind(TENANT, KIND));
}

/// PRD-18: the stamp counts every change.
async fn prd_18_puts_at_once_lose_none(t: &Bench) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = t.another().await;
        tasks.spawn(async move {
            store.put_event_kind(TENANT, KIND, document(&format!("p{n}"))).await.unwrap();
        });
    }
    tasks.join_all().await;
    let kept = t.store().event_kind(TENANT, KIND).await.unwrap().unwrap();
    assert_eq!((kept.version, t.store().event_kind_stamp(TENANT).await.unwrap()), (8, 8));
}

/// PRD-18: each process keeps them all, so they are counted.
async fn prd_18_there_are_only_so_many_kinds(t: &Bench) {
    let (table, from) = match t.backend {
        punctual::testing::Backend::Sqlite => (
            "punctual_event_kind",
            "with recursive n (n) as (select 1 union all select n + 1 from n where n < 1000) select",
        ),
        punctual::testing::Backend::Postgres => {
            ("punctual.event_kind", "with n as (select n from generate_series(1, 1000) n) select")
        }
    };
    let columns = "(tenant_id, kind, document, created_at, updated_at)";
    let sql = format!("insert into {table} {columns} {from} 1, 'k' || n, '{{}}', 0, 0 from n");
    t.place.sql(&[sql]).await.unwrap();
    let said = t.store().put_event_kind(TENANT, KIND, document("a")).await.unwrap_err();
    assert!(matches!(said, Error::Conflict(_)), "{said}");
    assert_eq!(t.store().event_kind(TENANT, KIND).await.unwrap(), None, "nothing was written");
    t.store().put_event_kind(TENANT, "k7", document("a")).await.expect("one that is there can be changed");
}
