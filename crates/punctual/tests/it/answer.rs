//! First answers to requests with an Idempotency-Key.

use crate::bench::{Bench, TENANT, seconds};
use punctual::store::answers::Asked;
use punctual::store::tenants::NewTenant;
use tokio::task::JoinSet;

cases![
    a_key_is_reserved_then_answered,
    another_request_under_the_key_is_told,
    a_reservation_without_an_answer_is_taken_over,
    a_freed_reservation_is_free_and_an_answer_stays,
    of_ten_at_once_one_is_first,
    a_key_is_its_tenants_own,
];

async fn ask(t: &Bench, digest: &str) -> Asked {
    t.store().reserve_answer(TENANT, "key", digest).await.unwrap()
}

async fn a_key_is_reserved_then_answered(t: &Bench) {
    assert_eq!(ask(t, "d").await, Asked::First);
    assert_eq!(ask(t, "d").await, Asked::Running);
    t.store().keep_answer(TENANT, "key", 201, "{\"id\":1}").await.unwrap();
    let answered = Asked::Answered { status: 201, body: "{\"id\":1}".into() };
    assert_eq!(ask(t, "d").await, answered);
    t.advance(seconds(3_600)).await;
    assert_eq!(ask(t, "d").await, answered, "an answer is not taken over");
}

async fn another_request_under_the_key_is_told(t: &Bench) {
    ask(t, "d").await;
    let before = t.dump().await;
    assert_eq!(ask(t, "other").await, Asked::Other);
    before.assert_equals(&t.dump().await, "another request under the key");
    t.store().keep_answer(TENANT, "key", 200, "").await.unwrap();
    assert_eq!(ask(t, "other").await, Asked::Other);
}

/// A crash between reservation and answer does not block the key for ever.
async fn a_reservation_without_an_answer_is_taken_over(t: &Bench) {
    ask(t, "d").await;
    t.advance(seconds(60)).await;
    assert_eq!(ask(t, "d").await, Asked::Running);
    t.advance(seconds(1)).await;
    assert_eq!(ask(t, "d").await, Asked::First);
    assert_eq!(ask(t, "d").await, Asked::Running, "and is held anew");
}

async fn a_freed_reservation_is_free_and_an_answer_stays(t: &Bench) {
    ask(t, "d").await;
    t.store().free_answer(TENANT, "key").await.unwrap();
    assert_eq!(ask(t, "other").await, Asked::First);
    t.store().keep_answer(TENANT, "key", 200, "x").await.unwrap();
    t.store().free_answer(TENANT, "key").await.unwrap();
    assert!(matches!(ask(t, "other").await, Asked::Answered { .. }));
}

async fn of_ten_at_once_one_is_first(t: &Bench) {
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let store = t.another().await;
        tasks.spawn(async move { store.reserve_answer(TENANT, "key", "d").await.unwrap() });
    }
    let said = tasks.join_all().await;
    assert_eq!(said.iter().filter(|a| **a == Asked::First).count(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|a| **a == Asked::Running).count(), 9, "{said:?}");
}

async fn a_key_is_its_tenants_own(t: &Bench) {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let acme = t.store().create_tenant(new).await.unwrap().tenant;
    assert_eq!(ask(t, "d").await, Asked::First);
    assert_eq!(t.store().reserve_answer(acme, "key", "other").await.unwrap(), Asked::First);
}
