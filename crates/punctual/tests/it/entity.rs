//! Entities: the latest state, fenced by its version; what is gone; states that come with events.

use crate::bench::{Bench, TENANT};
use punctual::access::store::tenants::NewTenant;
use punctual::base::tenant::Tenant;
use punctual::flow::rules::entity::{EntitySnapshot, NewEntityState};
use punctual::flow::store::entities::EntityOutcome;
use punctual::{EnqueueOutcome, Entity, NewMessage};
use serde_json::{Value, json};

cases![
    ntf_3_the_latest_state_stands,
    ntf_3_an_older_version_never_overwrites,
    ntf_3_versions_at_once_leave_the_newest,
    ntf_3_what_is_deleted_stays_deleted,
    ntf_3_many_are_read_at_once,
    ntf_3_a_bad_state_is_refused,
    ntf_3_an_entity_is_its_tenants,
    ntf_3_states_come_with_their_messages,
    ntf_3_a_batch_is_one_transaction,
    ntf_3_batches_in_any_order_do_not_lock_each_other,
];

fn booking(id: &str) -> Entity {
    Entity { kind: "booking".into(), id: id.into() }
}

fn state(id: &str, state: Value, version: Option<i64>) -> NewEntityState {
    NewEntityState { entity: booking(id), state: state.to_string(), version }
}

async fn put(t: &Bench, id: &str, status: &str, version: Option<i64>) -> bool {
    let outcome = t.store().put_entity(TENANT, state(id, json!({"status": status}), version)).await.unwrap();
    matches!(outcome, EntityOutcome::Kept(_))
}

async fn delete(t: &Bench, id: &str, version: Option<i64>) -> bool {
    let outcome = t.store().delete_entity(TENANT, booking(id), version).await.unwrap();
    matches!(outcome, EntityOutcome::Kept(_))
}

/// The status, the version; `gone` and `unknown` for what has no state.
async fn seen(t: &Bench, id: &str) -> (String, Option<i64>) {
    let Some(kept) = t.store().entity(TENANT, booking(id)).await.unwrap() else {
        return ("unknown".into(), None);
    };
    let status = match &kept.snapshot {
        EntitySnapshot::State(state) => state["status"].as_str().unwrap().to_owned(),
        EntitySnapshot::Deleted => "gone".into(),
        EntitySnapshot::Unknown => "never".into(),
    };
    (status, kept.version)
}

/// NTF-3, PRD-18
async fn ntf_3_the_latest_state_stands(t: &Bench) {
    assert_eq!(seen(t, "1").await, ("unknown".into(), None));
    assert!(put(t, "1", "new", None).await);
    assert!(put(t, "1", "paid", None).await);
    assert_eq!(seen(t, "1").await, ("paid".into(), None));
    let now = t.advance(std::time::Duration::from_secs(5)).await;
    assert!(put(t, "1", "paid", Some(3)).await);
    let kept = t.store().entity(TENANT, booking("1")).await.unwrap().unwrap();
    assert_eq!((kept.version, kept.updated_at), (Some(3), now));
}

/// NTF-3, PRD-18: whatever the order they come in.
async fn ntf_3_an_older_version_never_overwrites(t: &Bench) {
    assert!(put(t, "1", "five", Some(5)).await);
    assert!(!put(t, "1", "four", Some(4)).await, "an older one is told that it is");
    assert_eq!(seen(t, "1").await, ("five".into(), Some(5)));
    assert!(put(t, "1", "five again", Some(5)).await, "the same version again is no older one");
    assert!(put(t, "1", "by hand", None).await, "one without a version is taken as it comes");
    assert_eq!(seen(t, "1").await, ("by hand".into(), Some(5)), "and the fence stays where it was");
    assert!(!put(t, "1", "four", Some(4)).await);
    assert!(put(t, "1", "six", Some(6)).await);
    assert_eq!(seen(t, "1").await, ("six".into(), Some(6)));
}

/// NTF-3: writers beside each other.
async fn ntf_3_versions_at_once_leave_the_newest(t: &Bench) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12_i64 {
        let store = t.another().await;
        // 7 and 12 share no factor, so each version comes once, and not in order.
        let version = n * 7 % 12;
        let new = state("1", json!({"status": version.to_string()}), Some(version));
        tasks.spawn(async move { store.put_entity(TENANT, new).await.unwrap() });
    }
    tasks.join_all().await;
    assert_eq!(seen(t, "1").await, ("11".into(), Some(11)));
}

/// NTF-3: a late event does not bring back what is gone; a newer one does.
async fn ntf_3_what_is_deleted_stays_deleted(t: &Bench) {
    put(t, "1", "new", Some(5)).await;
    assert!(delete(t, "1", None).await);
    assert_eq!(seen(t, "1").await, ("gone".into(), Some(5)));
    assert!(!put(t, "1", "late", Some(5)).await, "the version that was deleted comes again");
    assert!(!put(t, "1", "later", Some(4)).await);
    assert_eq!(seen(t, "1").await.0, "gone");
    assert!(put(t, "1", "back", Some(6)).await);
    assert!(!delete(t, "1", Some(5)).await, "an older deletion");
    assert!(delete(t, "1", Some(6)).await);
    assert!(delete(t, "1", Some(6)).await, "deleted twice is deleted");
    assert!(put(t, "1", "by hand", None).await, "whoever gives no version is believed");
    assert!(delete(t, "2", None).await, "it may be gone before anybody told of it");
    assert_eq!(seen(t, "2").await, ("gone".into(), None));
}

/// NTF-3: for a whole batch of sends.
async fn ntf_3_many_are_read_at_once(t: &Bench) {
    for n in 0..5 {
        put(t, &n.to_string(), &n.to_string(), None).await;
    }
    delete(t, "4", None).await;
    let other = Entity { kind: "listing".into(), id: "1".into() };
    let wanted = vec![booking("4"), booking("1"), booking("9"), booking("1"), other.clone()];
    let found = t.store().snapshots(TENANT, wanted).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[&booking("1")], EntitySnapshot::State(json!({"status": "1"})));
    assert_eq!(found[&booking("4")], EntitySnapshot::Deleted);
    assert!(t.store().snapshots(TENANT, Vec::new()).await.unwrap().is_empty());
}

/// NTF-3: nothing is written.
async fn ntf_3_a_bad_state_is_refused(t: &Bench) {
    let before = t.dump().await;
    let bad = NewEntityState { entity: booking(""), state: "[1]".into(), version: Some(-1) };
    let said = t.store().put_entity(TENANT, bad.clone()).await.unwrap_err().to_string();
    for path in ["id: ", "state: ", "version: "] {
        assert!(said.contains(path), "{path} in {said}");
    }
    let message = NewMessage::new("t", "k", "{}");
    assert!(t.store().enqueue_with_states(TENANT, vec![message], vec![(0, bad)]).await.is_err());
    assert!(t.store().delete_entity(TENANT, booking("\n"), None).await.is_err());
    before.assert_equals(&t.dump().await, "a refused state");
}

/// NTF-23, PRD-18
async fn ntf_3_an_entity_is_its_tenants(t: &Bench) {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let acme: Tenant = t.store().create_tenant(new).await.unwrap().tenant;
    put(t, "1", "mine", Some(5)).await;
    assert_eq!(t.store().entity(acme, booking("1")).await.unwrap(), None);
    assert!(t.store().snapshots(acme, vec![booking("1")]).await.unwrap().is_empty());
    t.store().delete_entity(acme, booking("1"), None).await.unwrap();
    t.store().put_entity(acme, state("1", json!({"status": "theirs"}), Some(9))).await.unwrap();
    assert_eq!(seen(t, "1").await, ("mine".into(), Some(5)));
}

/// PRD-18: in the same transaction; an event that comes again says nothing new.
async fn ntf_3_states_come_with_their_messages(t: &Bench) {
    let event = |id: &str| NewMessage::new("booking.events", "booking.confirmed", "{}").id("shop", id);
    let first = vec![event("e1"), event("e2")];
    let states = vec![
        (0, state("1", json!({"status": "one"}), None)),
        (1, state("1", json!({"status": "two"}), None)),
    ];
    let outcome = t.store().enqueue_with_states(TENANT, first.clone(), states.clone()).await.unwrap();
    assert!(outcome.iter().all(|one| matches!(one, EnqueueOutcome::New(_))));
    assert_eq!(seen(t, "1").await.0, "two", "the last of a batch stands");
    put(t, "1", "three", None).await;
    let outcome = t.store().enqueue_with_states(TENANT, first, states).await.unwrap();
    assert!(outcome.iter().all(|one| matches!(one, EnqueueOutcome::Duplicate { same: true, .. })));
    assert_eq!(seen(t, "1").await.0, "three", "a duplicate tells nothing");
    let plain = NewMessage::new("booking.events", "booking.confirmed", "{}");
    let old = vec![(0, state("2", json!({"status": "x"}), Some(1)))];
    put(t, "2", "y", Some(2)).await;
    let outcome = t.store().enqueue_with_states(TENANT, vec![plain], old).await.unwrap();
    assert!(matches!(outcome[..], [EnqueueOutcome::New(_)]), "the message is a fact, whatever its state");
    assert_eq!(seen(t, "2").await.0, "y");
}

/// PRD-18: all or nothing, whichever statement fails.
async fn ntf_3_a_batch_is_one_transaction(t: &Bench) {
    let message = || NewMessage::new("t", "k", "{}");
    let new = || vec![(0, state("1", json!({"status": "one"}), None))];
    shake!(t, "an event with a state", |store| store.enqueue_with_states(TENANT, vec![message()], new()));
    shake!(t, "telling a state", |store| store.put_entity(TENANT, state("2", json!({}), None)));
    shake!(t, "deleting an entity", |store| store.delete_entity(TENANT, booking("2"), None));
}

/// PRD-18: two batches that tell of the same entities never wait for each other in a circle.
async fn ntf_3_batches_in_any_order_do_not_lock_each_other(t: &Bench) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6_usize {
        let store = t.another().await;
        tasks.spawn(async move {
            for _ in 0..5 {
                let at = |i: usize| if n.is_multiple_of(2) { i } else { 29 - i };
                let states: Vec<_> = (0..30)
                    .map(|i| (i, state(&at(i).to_string(), json!({"status": n.to_string()}), None)))
                    .collect();
                let messages = vec![NewMessage::new("t", "k", "{}"); 30];
                store.enqueue_with_states(TENANT, messages, states).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}
