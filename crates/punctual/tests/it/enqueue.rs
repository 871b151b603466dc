//! Enqueueing: what is handed in is there, once, and goes to its lanes.

use crate::bench::{Bench, TENANT, claim_from, ids, message, new_ids};
use punctual::NewMessage;
use punctual::base::id::{LaneId, MessageId};
use punctual::queue::store::messages::EnqueueOutcome;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;

cases![
    a_message_is_kept_as_it_was_handed_in,
    a_batch_answers_in_the_order_given,
    a_batch_with_a_bad_message_writes_nothing,
    a_duplicate_within_a_batch_is_told,
    a_duplicate_of_an_earlier_batch_is_told,
    a_duplicate_without_a_source_is_told,
    one_id_from_two_sources_or_tenants_is_two_messages,
    other_content_under_the_same_id_is_told,
    an_id_is_remembered_after_its_message_is_dropped,
    of_fifty_at_once_exactly_one_is_new,
    overlapping_batches_in_opposite_order_admit_each_id_once,
    an_unknown_topic_waits_unrouted_until_it_is_routed,
    a_known_topic_goes_straight_to_its_lane,
    routing_keeps_due_times_and_keys,
    nothing_is_an_empty_answer,
];

/// PLT-12: topic, kind, key, entity, correlation, headers, payload and due time all survive.
async fn a_message_is_kept_as_it_was_handed_in(t: &Bench) {
    let now = t.now().await;
    let headers = BTreeMap::from([("trace".to_owned(), "ü\u{1F600}".to_owned())]);
    let mut new = NewMessage::new("orders", "order.placed", r#"{"ü": [1, "\u0000"]}"#)
        .key("customer \"4\"")
        .entity("order", "7")
        .correlation_id("story")
        .headers(&headers)
        .id("shop", "o-7")
        .due_at(now.plus(Duration::from_secs(60)));
    new.occurred_at = Some(now.minus(Duration::from_secs(5)));
    let id = t.enqueue(vec![new.clone()]).await[0];
    let kept = t.store().message(TENANT, id).await.unwrap().expect("the message is there");
    assert_eq!(kept.payload, new.payload);
    assert_eq!((&kept.topic, &kept.kind), (&new.topic, &new.kind));
    assert_eq!((&kept.key, &kept.entity), (&new.key, &new.entity));
    assert_eq!((&kept.correlation_id, &kept.headers), (&new.correlation_id, &new.headers));
    assert_eq!(kept.created_at, now);
    assert_eq!((Some(kept.due_at), Some(kept.occurred_at)), (new.due_at, new.occurred_at));
    let plain = t.put("orders", 1).await[0];
    let plain = t.store().message(TENANT, plain).await.unwrap().expect("the message is there");
    assert_eq!((plain.due_at, plain.occurred_at, plain.created_at), (now, now, now));
    assert_eq!(t.store().message(TENANT, MessageId(99)).await.unwrap(), None);
}

/// PLT-12
async fn a_batch_answers_in_the_order_given(t: &Bench) {
    let text = |n: usize| format!("{{\"n\": {n}}}");
    for keyed in [false, true] {
        let make = |n| NewMessage::new("orders", "k", text(n));
        let make = |n| {
            if keyed { make(n).key(format!("k{n}")) } else { make(n) }
        };
        let ids = t.enqueue((0..300).map(make).collect()).await;
        for (n, id) in ids.iter().enumerate() {
            let kept = t.store().message(TENANT, *id).await.unwrap().unwrap();
            assert_eq!(kept.payload, text(n), "message {n} of the batch");
        }
        assert!(ids.is_sorted(), "ids rise in the order given");
    }
}

/// PLT-29: whole or not at all.
async fn a_batch_with_a_bad_message_writes_nothing(t: &Bench) {
    let before = t.dump().await;
    let batch = vec![message("orders"), message("or/ders"), message("orders")];
    let said = t.store().enqueue(TENANT, batch).await.unwrap_err().to_string();
    assert!(said.starts_with("[1].topic: must not contain `/`"), "{said}");
    before.assert_equals(&t.dump().await, "a refused batch");
}

async fn a_duplicate_within_a_batch_is_told(t: &Bench) {
    let named = |id: &str| message("orders").id("shop", id);
    let other = NewMessage::new("orders", "happened", "[1]").id("shop", "a");
    let batch = vec![named("a"), message("orders"), named("a"), named("b"), other];
    let done = t.store().enqueue(TENANT, batch).await.unwrap();
    let new = new_ids(&done);
    assert_eq!(done[0], EnqueueOutcome::New(new[0]));
    assert_eq!(done[1], EnqueueOutcome::New(new[1]));
    assert_eq!(done[2], EnqueueOutcome::Duplicate { of: Some(new[0]), same: true });
    assert_eq!(done[3], EnqueueOutcome::New(new[2]));
    assert_eq!(done[4], EnqueueOutcome::Duplicate { of: Some(new[0]), same: false });
    assert_eq!(t.count("select count(*) from punctual.message").await, 3);
    assert_eq!(t.count("select count(*) from punctual.work").await, 3);
}

async fn a_duplicate_of_an_earlier_batch_is_told(t: &Bench) {
    let first = t.enqueue(vec![message("orders").id("shop", "a")]).await[0];
    let before = t.dump().await;
    let again = t.store().enqueue(TENANT, vec![message("orders").id("shop", "a")]).await.unwrap();
    assert_eq!(again, [EnqueueOutcome::Duplicate { of: Some(first), same: true }]);
    before.assert_equals(&t.dump().await, "a duplicate");
    let mixed = vec![message("orders").id("shop", "b"), message("orders").id("shop", "a")];
    let mixed = t.store().enqueue(TENANT, mixed).await.unwrap();
    assert_eq!(mixed[1], EnqueueOutcome::Duplicate { of: Some(first), same: true });
    assert!(matches!(mixed[0], EnqueueOutcome::New(_)));
}

/// An id without a source is an id all the same.
async fn a_duplicate_without_a_source_is_told(t: &Bench) {
    let named = || NewMessage { id: Some("a".into()), ..message("orders") };
    let first = t.enqueue(vec![named()]).await[0];
    let again = t.store().enqueue(TENANT, vec![named()]).await.unwrap();
    assert_eq!(again, [EnqueueOutcome::Duplicate { of: Some(first), same: true }]);
}

async fn one_id_from_two_sources_or_tenants_is_two_messages(t: &Bench) {
    let new = punctual::access::store::tenants::NewTenant {
        slug: "acme".into(),
        name: "Acme".into(),
        ..Default::default()
    };
    let acme = t.store().create_tenant(new).await.unwrap().tenant;
    let batch = vec![message("orders").id("shop", "a"), message("orders").id("till", "a")];
    assert_eq!(new_ids(&t.store().enqueue(TENANT, batch.clone()).await.unwrap()).len(), 2);
    assert_eq!(new_ids(&t.store().enqueue(acme, batch).await.unwrap()).len(), 2);
}

async fn other_content_under_the_same_id_is_told(t: &Bench) {
    let first = t.enqueue(vec![message("orders").id("shop", "a")]).await[0];
    let changes = [
        NewMessage::new("orders", "happened", "{\"x\":1}"),
        NewMessage::new("orders", "other", "{}"),
        NewMessage::new("else", "happened", "{}"),
        message("orders").key("k"),
        message("orders").entity("order", "7"),
    ];
    for change in changes {
        let said = t.store().enqueue(TENANT, vec![change.clone().id("shop", "a")]).await.unwrap();
        let told = [EnqueueOutcome::Duplicate { of: Some(first), same: false }];
        assert_eq!(said, told, "{change:?} differs from the first");
    }
}

/// A dedup key outlives the row it admitted.
async fn an_id_is_remembered_after_its_message_is_dropped(t: &Bench) {
    let lane = t.lane("orders").await;
    t.enqueue(vec![message("orders").id("shop", "a")]).await;
    let item = t.claim_one(lane).await;
    t.ack(&item).await;
    t.advance(Duration::from_secs(40 * 86_400)).await;
    let pruned = t.store().prune_messages(0, Duration::from_secs(86_400)).await.unwrap();
    assert_eq!(pruned.messages, 1);
    let again = t.store().enqueue(TENANT, vec![message("orders").id("shop", "a")]).await.unwrap();
    assert_eq!(again, [EnqueueOutcome::Duplicate { of: None, same: true }]);
}

async fn of_fifty_at_once_exactly_one_is_new(t: &Bench) {
    let mut tasks = JoinSet::new();
    let stores = [t.another().await, t.another().await];
    for n in 0..50 {
        let store = stores[n % 2].clone();
        tasks.spawn(async move {
            let batch = vec![message("orders").id("shop", "a")];
            store.enqueue(TENANT, batch).await.unwrap().remove(0)
        });
    }
    let done = tasks.join_all().await;
    let new = new_ids(&done);
    assert_eq!(new.len(), 1, "exactly one of fifty is new");
    assert!(done.iter().all(|d| d.id() == Some(new[0])), "all stand for the same message");
}

async fn overlapping_batches_in_opposite_order_admit_each_id_once(t: &Bench) {
    let named = |n: usize| message("orders").id("shop", n.to_string());
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let store = t.another().await;
        let mut batch: Vec<_> = (0..20).map(named).collect();
        if n % 2 == 1 {
            batch.reverse();
        }
        tasks.spawn(async move { new_ids(&store.enqueue(TENANT, batch).await.unwrap()).len() });
    }
    let new: usize = tasks.join_all().await.into_iter().sum();
    assert_eq!(new, 20, "each id is admitted once");
    assert_eq!(t.count("select count(*) from punctual.message").await, 20);
}

/// PLT-12: an enqueue creates nothing but the message and its work.
async fn an_unknown_topic_waits_unrouted_until_it_is_routed(t: &Bench) {
    let put = [t.put("orders", 2).await, t.put("visits", 1).await].concat();
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 3);
    assert_eq!(t.store().lane(TENANT, "orders", "").await.unwrap(), None);
    assert!(t.claim(LaneId::UNROUTED, 10).await.is_empty(), "the unrouted lane hands nothing out");
    assert_eq!(t.store().route_waiting().await.unwrap(), 3);
    assert_eq!(t.store().route_waiting().await.unwrap(), 0);
    let lane = t.store().lane(TENANT, "orders", "").await.unwrap().expect("the router made a lane");
    assert!(!lane.declared, "nobody asked for the lane");
    assert_eq!(ids(&t.claim(lane.id, 10).await), put[..2]);
    assert_eq!(ids(&t.claim(t.lane("visits").await, 10).await), put[2..]);
}

async fn a_known_topic_goes_straight_to_its_lane(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 3).await;
    assert_eq!(t.count("select count(*) from punctual.work where lane_id = 0").await, 0);
    assert_eq!(ids(&claim_from(t.store(), lane, 10).await), put);
}

async fn routing_keeps_due_times_and_keys(t: &Bench) {
    let later = t.now().await.plus(Duration::from_secs(60));
    let put = t.enqueue(vec![
        message("orders").key("k"),
        message("orders").key("k"),
        message("orders").due_at(later),
    ]);
    let put = put.await;
    t.store().route_waiting().await.unwrap();
    let lane = t.lane("orders").await;
    let first = t.claim(lane, 10).await;
    assert_eq!(ids(&first), put[..1], "the key's second waits for its first, the timer for its time");
    t.advance(Duration::from_secs(60)).await;
    assert_eq!(ids(&t.claim(lane, 10).await), put[2..]);
}

async fn nothing_is_an_empty_answer(t: &Bench) {
    let before = t.dump().await;
    assert_eq!(t.store().enqueue(TENANT, vec![]).await.unwrap(), vec![]);
    before.assert_equals(&t.dump().await, "an empty batch");
}
