//! First answers to requests with an Idempotency-Key.

use crate::bench::{Bench, TENANT, seconds};
use punctual::access::store::idempotency::IdempotencyStatus;
use punctual::access::store::tenants::NewTenant;
use tokio::task::JoinSet;

cases![
    a_key_is_reserved_then_answered,
    another_request_under_the_key_is_told,
    a_reservation_without_an_answer_is_taken_over,
    a_suspended_reservation_is_left_to_the_same_request,
    a_freed_reservation_is_free_and_an_answer_stays,
    of_ten_at_once_one_is_first,
    a_key_is_its_tenants_own,
];

async fn ask(t: &Bench, digest: &str) -> IdempotencyStatus {
    t.store().reserve_answer(TENANT, "key", digest).await.unwrap()
}

/// The token of a request that is to be carried out.
fn first(asked: IdempotencyStatus) -> String {
    match asked {
        IdempotencyStatus::First { token } => token,
        other => panic!("it should be carried out, and was told {other:?}"),
    }
}

async fn a_key_is_reserved_then_answered(t: &Bench) {
    first(ask(t, "d").await);
    assert_eq!(ask(t, "d").await, IdempotencyStatus::Running);
    t.store().keep_answer(TENANT, "key", 201, "{\"id\":1}").await.unwrap();
    let answered = IdempotencyStatus::Answered { status: 201, body: "{\"id\":1}".into() };
    assert_eq!(ask(t, "d").await, answered);
    t.advance(seconds(3_600)).await;
    assert_eq!(ask(t, "d").await, answered, "an answer is not taken over");
}

async fn another_request_under_the_key_is_told(t: &Bench) {
    ask(t, "d").await;
    let before = t.dump().await;
    assert_eq!(ask(t, "other").await, IdempotencyStatus::Other);
    before.assert_equals(&t.dump().await, "another request under the key");
    t.store().keep_answer(TENANT, "key", 200, "").await.unwrap();
    assert_eq!(ask(t, "other").await, IdempotencyStatus::Other);
}

/// A crash between reservation and answer does not block the key for ever.
async fn a_reservation_without_an_answer_is_taken_over(t: &Bench) {
    ask(t, "d").await;
    t.advance(seconds(60)).await;
    assert_eq!(ask(t, "d").await, IdempotencyStatus::Running);
    t.advance(seconds(1)).await;
    first(ask(t, "d").await);
    assert_eq!(ask(t, "d").await, IdempotencyStatus::Running, "and is held anew");
}

/// Where the outcome is unknown, the same request is carried out under the same token, and no other one is.
async fn a_suspended_reservation_is_left_to_the_same_request(t: &Bench) {
    let token = first(ask(t, "d").await);
    t.store().suspend_answer(TENANT, "key").await.unwrap();
    assert_eq!(ask(t, "other").await, IdempotencyStatus::Other);
    assert_eq!(first(ask(t, "d").await), token);
    assert_eq!(ask(t, "d").await, IdempotencyStatus::Running);
    t.advance(seconds(61)).await;
    assert_eq!(ask(t, "other").await, IdempotencyStatus::Other, "what became of the first one is not known");
    assert_eq!(first(ask(t, "d").await), token, "a crash changes nothing about it");
    t.store().free_answer(TENANT, "key").await.unwrap();
    assert_ne!(first(ask(t, "d").await), token, "a request that was not carried out is a new one");
}

async fn a_freed_reservation_is_free_and_an_answer_stays(t: &Bench) {
    ask(t, "d").await;
    t.store().free_answer(TENANT, "key").await.unwrap();
    first(ask(t, "other").await);
    t.store().keep_answer(TENANT, "key", 200, "x").await.unwrap();
    t.store().free_answer(TENANT, "key").await.unwrap();
    assert!(matches!(ask(t, "other").await, IdempotencyStatus::Answered { .. }));
}

async fn of_ten_at_once_one_is_first(t: &Bench) {
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let store = t.another().await;
        tasks.spawn(async move { store.reserve_answer(TENANT, "key", "d").await.unwrap() });
    }
    let said = tasks.join_all().await;
    assert_eq!(said.iter().filter(|a| matches!(a, IdempotencyStatus::First { .. })).count(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|a| **a == IdempotencyStatus::Running).count(), 9, "{said:?}");
}

async fn a_key_is_its_tenants_own(t: &Bench) {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let acme = t.store().create_tenant(new).await.unwrap().tenant;
    first(ask(t, "d").await);
    first(t.store().reserve_answer(acme, "key", "other").await.unwrap());
}
