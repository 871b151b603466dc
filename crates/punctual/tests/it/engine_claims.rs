//! The engine's own verbs for those who run their own workers: claim, settle, extend.

use crate::bench::{LEASE, TENANT, message, seconds};
use punctual::engine::{ClaimOptions, ItemSettlement};
use punctual::queue::rules::attempt::Retry;
use punctual::queue::rules::subscription::{NewSubscription, SubscriptionTarget};
use punctual::queue::store::claims::ClaimedItem;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::queues::Lane;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use punctual::testing::{Backend, Stage};
use punctual::{Error, MessageId, NewMessage, Problems, Token};
use serde_json::json;
use std::collections::BTreeMap;

macro_rules! staged {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Backend::Sqlite).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Backend::Postgres).await;
            })*
        }
    };
}

staged![
    plt_2_a_worker_claims_and_settles_by_the_engine,
    plt_2_items_of_several_claims_are_answered_in_order,
    plt_2_an_extended_lease_outlives_the_first,
    a_topic_that_nobody_declared_is_claimable,
    an_unknown_lane_is_not_found,
    prd_14_what_is_too_much_for_one_claim_waits_as_it_was,
    prd_14_a_claim_that_is_cut_keeps_the_order_of_a_key,
    prd_14_a_claim_of_a_subscription_is_bounded_behind_its_filter,
];

async fn orders(stage: &Stage) -> Lane {
    stage.engine().claimable_lane(TENANT, "orders", "").await.unwrap()
}

async fn put(stage: &Stage, n: usize) -> Vec<MessageId> {
    let messages = (0..n).map(|_| message("orders")).collect();
    let enqueued = stage.engine().enqueue(TENANT, messages).await.unwrap();
    enqueued.iter().map(|one| one.id().unwrap()).collect()
}

async fn claim(stage: &Stage, lane: &Lane, limit: usize) -> Vec<ClaimedItem> {
    let options = ClaimOptions::new("own loop").lease(LEASE).limit(limit);
    stage.engine().claim(lane, &options).await.unwrap().items
}

/// PLT-2
async fn plt_2_a_worker_claims_and_settles_by_the_engine(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let (engine, lane) = (stage.engine(), orders(&stage).await);
    let ids = put(&stage, 3).await;
    let items = claim(&stage, &lane, 9).await;
    assert_eq!(items.iter().map(|item| item.message.id).collect::<Vec<_>>(), ids);
    assert_eq!(engine.ack(&lane, &items[..1]).await.unwrap(), [SettleOutcome::Done]);
    let later = Retry::After(seconds(60));
    assert_eq!(engine.abandon(&lane, &items[1..2], "not now", later).await.unwrap(), [SettleOutcome::Done]);
    assert_eq!(engine.fail(&lane, &items[2..], "never").await.unwrap(), [SettleOutcome::Done]);
    assert_eq!(engine.ack(&lane, &items[..1]).await.unwrap(), [SettleOutcome::AlreadyFinished]);
    let dead = engine.store().dead_letters(TENANT, DeadLetterFilter::default(), 9).await.unwrap();
    assert_eq!(dead.iter().map(|letter| letter.message.id).collect::<Vec<_>>(), [ids[2]]);
    assert!(claim(&stage, &lane, 9).await.is_empty());
    stage.advance(seconds(60)).await.unwrap();
    let again = claim(&stage, &lane, 9).await;
    assert_eq!(
        again.iter().map(|item| (item.message.id, item.item.attempt())).collect::<Vec<_>>(),
        [(ids[1], 2)]
    );
}

/// PLT-2
async fn plt_2_items_of_several_claims_are_answered_in_order(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let lane = orders(&stage).await;
    put(&stage, 3).await;
    let mut items = claim(&stage, &lane, 1).await;
    items.extend(claim(&stage, &lane, 1).await);
    items.extend(claim(&stage, &lane, 1).await);
    assert_eq!(stage.engine().ack(&lane, &items[1..2]).await.unwrap(), [SettleOutcome::Done]);
    let settle = |item: &ClaimedItem| ItemSettlement::new(item, SettleAction::Ack);
    let unknown = ItemSettlement { token: Token::fresh(), ..settle(&items[0]) };
    let elsewhere = ItemSettlement { message: items[2].message.id, ..settle(&items[0]) };
    let all = vec![settle(&items[2]), settle(&items[1]), unknown, elsewhere, settle(&items[0])];
    let outcomes = stage.engine().settle(&lane, all).await.unwrap();
    let wanted = [
        SettleOutcome::Done,
        SettleOutcome::AlreadyFinished,
        SettleOutcome::LostClaim,
        SettleOutcome::NotFound,
        SettleOutcome::Done,
    ];
    assert_eq!(outcomes, wanted);
}

/// PLT-2
async fn plt_2_an_extended_lease_outlives_the_first(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let lane = orders(&stage).await;
    put(&stage, 2).await;
    let (kept, lost) = (claim(&stage, &lane, 1).await, claim(&stage, &lane, 1).await);
    let named = vec![(kept[0].token.clone(), kept[0].message.id)];
    assert_eq!(stage.engine().extend(&lane, named, LEASE * 3).await.unwrap(), [SettleOutcome::Done]);
    stage.advance(LEASE * 2).await.unwrap();
    assert_eq!(stage.engine().ack(&lane, &lost).await.unwrap(), [SettleOutcome::LostClaim]);
    assert_eq!(stage.engine().ack(&lane, &kept).await.unwrap(), [SettleOutcome::Done]);
}

/// A message that was written before anybody claimed its topic is claimed.
async fn a_topic_that_nobody_declared_is_claimable(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let id = stage.engine().store().enqueue(TENANT, vec![message("orders")]).await.unwrap()[0].id().unwrap();
    let lane = orders(&stage).await;
    assert!(lane.declared);
    assert_eq!(claim(&stage, &lane, 9).await[0].message.id, id);
}

async fn an_unknown_lane_is_not_found(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let engine = stage.engine();
    assert!(matches!(engine.lane(TENANT, "orders", "").await, Err(Error::NotFound(_))));
    assert!(matches!(engine.claimable_lane(TENANT, "orders", "crm").await, Err(Error::NotFound(_))));
    let handled = NewSubscription::new(SubscriptionTarget::Handler("crm".into()));
    engine.put_subscription(TENANT, "orders", "crm", handled).await.unwrap();
    assert!(engine.lane(TENANT, "orders", "crm").await.is_ok());
    assert!(matches!(engine.claimable_lane(TENANT, "orders", "crm").await, Err(Error::Conflict(_))));
}

/// A message whose payload has so many bytes.
fn sized(kind: &str, bytes: usize) -> NewMessage {
    NewMessage::new("orders", kind, format!("\"{}\"", "x".repeat(bytes - 2)))
}

async fn enqueue(stage: &Stage, messages: Vec<NewMessage>) -> Vec<MessageId> {
    let enqueued = stage.engine().enqueue(TENANT, messages).await.unwrap();
    enqueued.iter().map(|one| one.id().unwrap()).collect()
}

/// PRD-14: a claim has as many bytes as it may, one item at least; the others are due as before, at their
/// first attempt.
async fn prd_14_what_is_too_much_for_one_claim_waits_as_it_was(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let (engine, lane) = (stage.engine(), orders(&stage).await);
    let headers = BTreeMap::from([("h".to_owned(), "x".repeat(92))]); // {"h":"…"}: 100 bytes
    let mut messages: Vec<NewMessage> = [400, 400, 400, 2_000, 500].map(|bytes| sized("k", bytes)).into();
    messages.push(sized("k", 400).headers(&headers));
    messages.push(sized("k", 100));
    let ids = enqueue(&stage, messages).await;
    let mut parts: Vec<Vec<MessageId>> = Vec::new();
    loop {
        let options = ClaimOptions::new("own loop").lease(LEASE).limit(100).bytes(1_000);
        let batch = engine.claim(&lane, &options).await.unwrap();
        if batch.items.is_empty() {
            break;
        }
        assert!(batch.items.iter().all(|item| item.item.attempt() == 1), "going back is no attempt");
        parts.push(batch.items.iter().map(|item| item.message.id).collect());
        assert_eq!(batch.is_cut, parts.len() < 5, "{parts:?}");
        engine.ack(&lane, &batch.items).await.unwrap();
    }
    assert_eq!(parts, [&ids[..2], &ids[2..3], &ids[3..4], &ids[4..6], &ids[6..]]);
}

/// PRD-14
async fn prd_14_a_claim_that_is_cut_keeps_the_order_of_a_key(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let (engine, lane) = (stage.engine(), orders(&stage).await);
    let keys = ["a", "b", "a", "b", "a", "c", "a"];
    let ids = enqueue(&stage, keys.map(|key| sized("k", 600).key(key)).into()).await;
    let mut done: Vec<MessageId> = Vec::new();
    for _ in 0..100 {
        let options = ClaimOptions::new("own loop").lease(LEASE).limit(100).bytes(1_300);
        let items = engine.claim(&lane, &options).await.unwrap().items;
        assert!(items.len() <= 2, "{} items of 600 bytes", items.len());
        done.extend(items.iter().map(|item| item.message.id));
        engine.ack(&lane, &items).await.unwrap();
    }
    assert_eq!(done.len(), ids.len());
    for key in ["a", "b", "c"] {
        let of = |all: &[MessageId]| -> Vec<MessageId> {
            all.iter().copied().filter(|id| keys[ids.iter().position(|i| i == id).unwrap()] == key).collect()
        };
        assert_eq!(of(&done), of(&ids), "{key}");
    }
}

/// PRD-14: what the filter keeps back does not count.
async fn prd_14_a_claim_of_a_subscription_is_bounded_behind_its_filter(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    let engine = stage.engine();
    let new = json!({"target": {"type": "queue"},
        "filter": {"questionId": "kind", "op": "==", "value": "wanted"}});
    let new = NewSubscription::read(&new, &mut Problems::default()).expect("it is right");
    engine.put_subscription(TENANT, "orders", "afar", new).await.unwrap();
    let lane = engine.lane(TENANT, "orders", "afar").await.unwrap();
    let kinds = ["other", "other", "wanted", "other", "wanted", "wanted", "other"];
    let ids = enqueue(&stage, kinds.map(|kind| sized(kind, 600)).into()).await;
    let options = ClaimOptions::new("own loop").lease(LEASE).limit(100).bytes(1_300);
    let first = engine.claim(&lane, &options).await.unwrap();
    let second = engine.claim(&lane, &options).await.unwrap();
    let mut got: Vec<MessageId> = Vec::new();
    for batch in [first, second] {
        assert!((1..=2).contains(&batch.items.len()), "{} items of 600 bytes", batch.items.len());
        got.extend(batch.items.iter().map(|item| item.message.id));
    }
    let wanted: Vec<MessageId> =
        ids.iter().zip(kinds).filter(|(_, kind)| *kind == "wanted").map(|(id, _)| *id).collect();
    assert_eq!(got, wanted);
}
