//! Subscriptions at work: handlers in a process, remote workers, filters.

use super::queue;
use crate::bench::{LEASE, TENANT, seconds};
use punctual::engine::ClaimOptions;
use punctual::queue::rules::subscription::{NewSubscription, SubscriptionTarget};
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::queues::Lane;

use punctual::testing::{Backend, Recorder, Stage, StageBuilder};
use punctual::{Error, HandlerError, MessageId, NewMessage, Problems, Work};
use serde_json::{Value, json};

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
    trg_25_a_broken_subscriber_is_alone_with_its_trouble,
    fan_1_a_filter_keeps_back_what_is_not_wanted,
    fan_1_a_handler_that_nobody_has_lets_work_wait,
    an_own_handler_and_subscribers_each_get_it,
    fan_1_a_remote_worker_gets_what_the_filter_lets_through,
    a_keyed_sequence_goes_on_behind_what_is_kept_back,
    only_queues_are_claimed_from_afar,
    travel_stops_where_a_subscriber_is_due,
];

fn on(backend: Backend, name: &'static str, recorder: &Recorder) -> StageBuilder {
    let recorder = recorder.clone();
    Stage::on(backend).with(move |builder| builder.subscriber(name, recorder))
}

async fn put(stage: &Stage, name: &str, new: NewSubscription) {
    stage.engine().put_subscription(TENANT, "orders", name, new).await.unwrap();
}

fn handler(name: &str) -> NewSubscription {
    NewSubscription::new(SubscriptionTarget::Handler(name.into()))
}

fn with_filter(new: NewSubscription, filter: &Value) -> NewSubscription {
    let mut document = json!({"target": new.target.to_json()});
    document["filter"] = filter.clone();
    NewSubscription::read(&document, &mut Problems::default()).expect("it is right")
}

fn of_kind(kind: &str) -> Value {
    json!({"questionId": "kind", "op": "==", "value": kind})
}

async fn send(stage: &Stage, kind: &str) -> MessageId {
    stage.engine().enqueue_one(TENANT, NewMessage::new("orders", kind, r#"{"n": 1}"#)).await.unwrap()
}

async fn lane(stage: &Stage, name: &str) -> Lane {
    stage.engine().store().lane(TENANT, "orders", name).await.unwrap().unwrap()
}

async fn waiting(stage: &Stage, name: &str) -> (i64, i64) {
    let state = stage.engine().store().subscription(TENANT, "orders", name).await.unwrap().unwrap();
    (state.queue.waiting + state.queue.behind_their_key, state.queue.dead)
}

/// TRG-25: its own log, backoff and dead letter; the others are not sent anything again, also when
/// its dead letter is replayed.
async fn trg_25_a_broken_subscriber_is_alone_with_its_trouble(backend: Backend) {
    let (good, bad) = (Recorder::new(), Recorder::new());
    let broken = bad.clone();
    let stage = on(backend, "crm", &good)
        .with(move |builder| builder.subscriber("billing", broken))
        .open()
        .await
        .unwrap();
    put(&stage, "crm", handler("crm")).await;
    let retry = json!({"target": {"type": "handler", "name": "billing"},
        "retry": {"maxAttempts": 3, "backoff": ["1m", "5m"]}});
    put(&stage, "billing", NewSubscription::read(&retry, &mut Problems::default()).unwrap()).await;
    bad.fail_next(3, "the ledger is closed");
    let id = send(&stage, "order.placed").await;
    stage.drain().await.unwrap();
    assert_eq!((good.ids(), bad.ids()), (vec![id], vec![id]));
    // A wait is up to a tenth shorter.
    for (wait, tries) in [(53, 1), (7, 2), (260, 2), (40, 3), (3_600, 3)] {
        stage.advance(seconds(wait)).await.unwrap();
        assert_eq!((good.ids().len(), bad.ids().len()), (1, tries));
    }
    let store = stage.engine().store();
    let letters = store.dead_letters(TENANT, DeadLetterFilter::default(), 9).await.unwrap();
    assert_eq!((letters.len(), letters[0].subscription.as_str()), (1, "billing"));
    let log: Vec<&str> = letters[0].attempts.iter().map(|a| a.error.as_str()).collect();
    assert_eq!(log, ["the ledger is closed"; 3]);
    store.replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    stage.drain().await.unwrap();
    assert_eq!((good.ids().len(), bad.ids().len()), (1, 4), "replayed for the broken one only");
    assert_eq!((waiting(&stage, "crm").await, waiting(&stage, "billing").await), ((0, 0), (0, 0)));
}

/// FAN-1: filters are asked when a message is handed out.
async fn fan_1_a_filter_keeps_back_what_is_not_wanted(backend: Backend) {
    let crm = Recorder::new();
    let stage = on(backend, "crm", &crm).open().await.unwrap();
    put(&stage, "crm", with_filter(handler("crm"), &of_kind("order.paid"))).await;
    send(&stage, "order.placed").await;
    let paid = send(&stage, "order.paid").await;
    stage.drain().await.unwrap();
    assert_eq!(crm.ids(), [paid]);
    assert_eq!(waiting(&stage, "crm").await, (0, 0), "what is kept back is done");
    send(&stage, "order.placed").await;
    stage.drain().await.unwrap();
    assert_eq!(crm.ids(), [paid], "also when it is all there is");
    let later = send(&stage, "order.placed").await;
    put(&stage, "crm", handler("crm")).await;
    stage.drain().await.unwrap();
    assert_eq!(crm.ids(), [paid, later], "the filter of that moment counts");
}

/// FAN-1: it is shown as waiting, and goes when somebody has the handler.
async fn fan_1_a_handler_that_nobody_has_lets_work_wait(backend: Backend) {
    let crm = Recorder::new();
    let stage = on(backend, "crm", &crm).open().await.unwrap();
    put(&stage, "crm", handler("billing")).await;
    let id = send(&stage, "order.placed").await;
    stage.drain().await.unwrap();
    assert_eq!((crm.ids(), waiting(&stage, "crm").await), (vec![], (1, 0)));
    put(&stage, "crm", handler("crm")).await;
    stage.drain().await.unwrap();
    assert_eq!((crm.ids(), waiting(&stage, "crm").await), (vec![id], (0, 0)));
}

/// A topic's handler declares its queue; it and the subscribers fail on their own.
async fn an_own_handler_and_subscribers_each_get_it(backend: Backend) {
    let (own, crm) = (Recorder::new(), Recorder::new());
    let stage = on(backend, "crm", &crm).handler("orders", own.clone()).open().await.unwrap();
    put(&stage, "crm", handler("crm")).await;
    put(&stage, "again", handler("crm")).await;
    own.next(Err(HandlerError::fail("never")));
    let ids = [send(&stage, "a").await, send(&stage, "b").await];
    stage.drain().await.unwrap();
    let (mut got, mut had) = (crm.ids(), own.ids());
    got.sort_unstable();
    had.sort_unstable();
    assert_eq!((had, got), (ids.to_vec(), vec![ids[0], ids[0], ids[1], ids[1]]));
    let letters = stage.engine().store().dead_letters(TENANT, DeadLetterFilter::default(), 9).await.unwrap();
    let dead: Vec<_> = letters.iter().map(|l| (l.subscription.as_str(), l.message.id)).collect();
    assert_eq!(dead, [("", own.ids()[0])]);
    assert_eq!((waiting(&stage, "crm").await, waiting(&stage, "again").await), ((0, 0), (0, 0)));
}

fn ask(limit: usize) -> ClaimOptions {
    ClaimOptions::new("afar").lease(LEASE).limit(limit)
}

/// FAN-1: a claim is filled up behind what the filter keeps back.
async fn fan_1_a_remote_worker_gets_what_the_filter_lets_through(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    put(&stage, "afar", with_filter(queue(), &of_kind("wanted"))).await;
    let mut wanted = Vec::new();
    for n in 0..9 {
        let id = send(&stage, if n % 3 == 2 { "wanted" } else { "other" }).await;
        wanted.extend((n % 3 == 2).then_some(id));
    }
    let lane = lane(&stage, "afar").await;
    let catch = stage.engine().claim(&lane, &ask(2)).await.unwrap();
    let got: Vec<MessageId> = catch.items.iter().map(|c| c.message.id).collect();
    assert_eq!(got, wanted[..2]);
    assert!(catch.lease_until.is_some());
    let rest = stage.engine().claim(&lane, &ask(2)).await.unwrap();
    assert_eq!(rest.items.iter().map(|c| c.message.id).collect::<Vec<_>>(), wanted[2..]);
    assert_eq!(waiting(&stage, "afar").await, (0, 0));
    for _ in 0..30 {
        send(&stage, "other").await;
    }
    let none = stage.engine().claim(&lane, &ask(1)).await.unwrap();
    assert!(none.items.is_empty());
    let left = waiting(&stage, "afar").await.0;
    assert!((1..30).contains(&left), "one claim goes through a bounded number: {left} are left");
}

async fn a_keyed_sequence_goes_on_behind_what_is_kept_back(backend: Backend) {
    let crm = Recorder::new();
    let stage = on(backend, "crm", &crm).open().await.unwrap();
    put(&stage, "crm", with_filter(handler("crm"), &of_kind("wanted"))).await;
    put(&stage, "afar", with_filter(queue(), &of_kind("wanted"))).await;
    let mut wanted = Vec::new();
    for kind in ["other", "other", "wanted", "other", "wanted"] {
        let message = NewMessage::new("orders", kind, "{}").key("k");
        let id = stage.engine().enqueue_one(TENANT, message).await.unwrap();
        wanted.extend((kind == "wanted").then_some(id));
    }
    stage.drain().await.unwrap();
    assert_eq!(crm.ids(), wanted);
    let lane = lane(&stage, "afar").await;
    let catch = stage.engine().claim(&lane, &ask(9)).await.unwrap();
    assert_eq!(catch.items.iter().map(|c| c.message.id).collect::<Vec<_>>(), wanted[..1]);
}

async fn only_queues_are_claimed_from_afar(backend: Backend) {
    let stage = Stage::on(backend).open().await.unwrap();
    put(&stage, "crm", handler("crm")).await;
    let lane = lane(&stage, "crm").await;
    let said = stage.engine().claim(&lane, &ask(1)).await.unwrap_err();
    assert!(matches!(said, Error::Conflict(_)), "{said}");
    put(&stage, "crm", queue()).await;
    assert!(stage.engine().claim(&lane, &ask(1)).await.unwrap().items.is_empty());
    stage.engine().delete_subscription(TENANT, "orders", "crm").await.unwrap();
    let said = stage.engine().claim(&lane, &ask(1)).await.unwrap_err();
    assert!(matches!(said, Error::NotFound(_)), "{said}");
}

async fn travel_stops_where_a_subscriber_is_due(backend: Backend) {
    let crm = Recorder::new();
    let stage = on(backend, "crm", &crm).open().await.unwrap();
    put(&stage, "crm", handler("crm")).await;
    let due = stage.now().await.unwrap().plus(seconds(60));
    let message = NewMessage::new("orders", "later", "{}").due_at(due);
    stage.engine().enqueue_one(TENANT, message).await.unwrap();
    crm.fail_next(1, "not yet");
    stage.advance(seconds(3_600)).await.unwrap();
    let tries: Vec<(u32, bool)> = crm.works().iter().map(|w: &Work| (w.attempt, w.due_at >= due)).collect();
    assert_eq!(tries, [(1, true), (2, true)], "each at its own time");
    assert_eq!(crm.works()[0].due_at, due);
}
