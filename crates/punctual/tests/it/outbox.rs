//! PLT-12: enqueueing inside the caller's own transaction, the same cases for every driver.

pub mod hosts;

use hosts::{End, Host, ORDERS};
use punctual::queue::outbox;
use punctual::queue::outbox::EnqueueBatch;
use punctual::testing::place::TestDatabase;
use punctual::testing::{Backend, TemporaryStore};
use punctual::{
    ClockMode, Engine, EnqueueOutcome, Error, Message, MessageId, NewMessage, Tenant, Timestamp, Work,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Every case on every host: `outbox::rusqlite::…`, `outbox::sqlx_postgres::…`.
macro_rules! on_every_host {
    ($($case:ident)*) => {
        on_every_host! { @host rusqlite Rusqlite; $($case)* }
        on_every_host! { @host sqlx_sqlite SqlxSqlite; $($case)* }
        on_every_host! { @host any_sqlite AnySqlite; $($case)* }
        on_every_host! { @host tokio_postgres TokioPostgres; $($case)* }
        on_every_host! { @host sqlx_postgres SqlxPostgres; $($case)* }
        on_every_host! { @host any_postgres AnyPostgres; $($case)* }
    };
    (@host $module:ident $host:ident; $($case:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(super::hosts::Host::$host).await;
                }
            )*
        }
    };
}

on_every_host! {
    plt_12_what_is_committed_is_handled_once
    plt_12_what_is_rolled_back_leaves_nothing
    plt_12_every_field_arrives
    plt_12_an_id_is_admitted_once
    plt_12_an_id_that_was_rolled_back_is_free
    plt_12_an_unknown_topic_is_routed
    plt_12_keys_keep_their_order
    plt_12_a_large_batch_keeps_its_order
    plt_12_bad_input_is_refused_before_anything_is_written
    plt_12_the_manual_clock_decides
    plt_12_a_commit_wakes_the_engine
}

/// A place with the host's own table, and what a handler for `orders` saw there.
struct Shop {
    place: TestDatabase,
    host: Host,
    engine: Engine,
    seen: Arc<Mutex<Vec<Message>>>,
}

impl Shop {
    async fn open(host: Host) -> Self {
        let place = TestDatabase::migrated(host.backend()).await.unwrap();
        place.sql(&[ORDERS.to_owned()]).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        let engine = Engine::builder(place.url())
            .clock(ClockMode::Manual)
            .handler("orders", move |work: Work| {
                recorder.lock().unwrap().push(work.message);
                async { Ok(()) }
            })
            .open()
            .await
            .unwrap();
        Self { place, host, engine, seen }
    }

    async fn commit(&self, messages: &[NewMessage]) -> Vec<EnqueueOutcome> {
        self.host.transact(self.place.url(), messages, End::Commit).await.unwrap()
    }

    async fn handled(&self) -> Vec<Message> {
        self.engine.step().await.unwrap();
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    async fn ask(&self, table: &str, what: &str) -> i64 {
        let name = match self.place.backend() {
            Backend::Sqlite => format!("punctual_{table}"),
            Backend::Postgres => format!("punctual.{table}"),
        };
        let name = if table == "orders" { table.to_owned() } else { name };
        let rows = self.place.sql(&[format!("select {what} from {name}")]).await.unwrap();
        rows[0][0][0].as_deref().unwrap().parse().unwrap()
    }

    /// How many rows each table has that an enqueue or its handling could touch.
    async fn rows(&self) -> Vec<i64> {
        let mut rows = Vec::new();
        for table in
            ["message", "work", "admitted", "lane", "route", "sequence", "follower", "claim", "attempt"]
        {
            rows.push(self.ask(table, "count(*)").await);
        }
        rows
    }
}

fn order(n: usize) -> NewMessage {
    NewMessage::new("orders", "order.placed", format!(r#"{{"order": {n}}}"#))
}

fn id_of(enqueued: &EnqueueOutcome) -> MessageId {
    match enqueued {
        EnqueueOutcome::New(id) => *id,
        EnqueueOutcome::Duplicate { .. } => panic!("{enqueued:?} is not new"),
    }
}

/// PLT-12: committed means handled, once; the host's own row is there, too.
async fn plt_12_what_is_committed_is_handled_once(host: Host) {
    let shop = Shop::open(host).await;
    let ids: Vec<MessageId> = shop.commit(&[order(1), order(2)]).await.iter().map(id_of).collect();
    assert_eq!(shop.ask("orders", "count(*)").await, 1);
    let handled: Vec<MessageId> = shop.handled().await.iter().map(|m| m.id).collect();
    assert_eq!(handled, ids);
    // Now the topic is known, which is the usual case.
    let again = id_of(&shop.commit(&[order(3)]).await[0]);
    assert_eq!(shop.ask("work", "max(lane_id)").await, shop.ask("lane", "max(id)").await);
    assert_eq!(shop.handled().await.iter().map(|m| m.id).collect::<Vec<_>>(), [again]);
    assert!(shop.handled().await.is_empty());
    assert_eq!(shop.ask("work", "count(*)").await, 0);
    assert_eq!(shop.commit(&[]).await, []);
}

/// PLT-12: rolled back means never sent, and nothing is left in any table.
async fn plt_12_what_is_rolled_back_leaves_nothing(host: Host) {
    let shop = Shop::open(host).await;
    let before = shop.rows().await;
    let messages = [order(1), order(2).key("k").id("web", "7"), NewMessage::new("unheard.of", "x", "1")];
    let said = host.transact(shop.place.url(), &messages, End::RollBack).await.unwrap();
    assert_eq!(said.len(), 3);
    assert_eq!(shop.rows().await, before);
    assert_eq!(shop.ask("orders", "count(*)").await, 0);
    assert!(shop.handled().await.is_empty());
}

/// PLT-12: topic, payload, kind, key, correlation id, headers, due time and the rest.
async fn plt_12_every_field_arrives(host: Host) {
    let shop = Shop::open(host).await;
    let due = TemporaryStore::START.plus(Duration::from_secs(60));
    let payload = "{\"text\": \"\\u0000 \\\" \\\\ ' ü 漢 $1 ?1\",\n \"n\": 12345678901234567890.10}";
    let mut message = NewMessage::new("orders", "order.placed", payload)
        .key("k'\"\\")
        .entity("order", "7")
        .correlation_id("story")
        .headers(&BTreeMap::from([("a".to_owned(), "b\u{1}".to_owned())]))
        .due_at(due);
    message.occurred_at = Some(Timestamp::from_micros(-1));
    shop.commit(std::slice::from_ref(&message)).await;
    assert!(shop.handled().await.is_empty(), "it is not due yet");
    shop.engine.travel(due, true).await.unwrap();
    let got = shop.handled().await.remove(0);
    assert_eq!((got.topic, got.kind, got.payload), (message.topic, message.kind, message.payload));
    assert_eq!((got.key, got.entity), (message.key, message.entity));
    assert_eq!((got.correlation_id, got.headers), (message.correlation_id, message.headers));
    assert_eq!((got.due_at, got.occurred_at), (due, Timestamp::from_micros(-1)));
}

/// PLT-12: the second message of one id is a duplicate: in one batch, in another
/// transaction, beside the engine's own enqueue, with or without a source.
async fn plt_12_an_id_is_admitted_once(host: Host) {
    let shop = Shop::open(host).await;
    let batch = [order(1).id("web", "1"), order(9), order(1).id("web", "1"), order(2).id("web", "1")];
    let said = shop.commit(&batch).await;
    let first = id_of(&said[0]);
    assert!(first < id_of(&said[1]));
    assert_eq!(said[2], EnqueueOutcome::Duplicate { of: Some(first), same: true });
    assert_eq!(said[3], EnqueueOutcome::Duplicate { of: Some(first), same: false });
    let said = shop.commit(&[order(8), order(1).id("web", "1"), order(1).id("shop", "1")]).await;
    assert_eq!(said[1], EnqueueOutcome::Duplicate { of: Some(first), same: true });
    assert!(id_of(&said[0]) < id_of(&said[2]), "another source has ids of its own");
    assert_eq!(shop.handled().await.len(), 4);

    let said = shop.engine.enqueue(Tenant::DEFAULT, vec![order(3).id("web", "1")]).await.unwrap();
    assert_eq!(said, [EnqueueOutcome::Duplicate { of: Some(first), same: false }]);
    let mut nameless = order(4);
    nameless.id = Some("1".to_owned());
    let own = id_of(&shop.engine.enqueue(Tenant::DEFAULT, vec![nameless.clone()]).await.unwrap()[0]);
    assert_eq!(shop.commit(&[nameless]).await, [EnqueueOutcome::Duplicate { of: Some(own), same: true }]);
    assert_eq!(shop.handled().await.len(), 1);
    let only_duplicates = shop.rows().await;
    shop.commit(&[order(1).id("web", "1")]).await;
    assert_eq!(shop.rows().await, only_duplicates);
}

/// PLT-12: what was rolled back admitted nothing.
async fn plt_12_an_id_that_was_rolled_back_is_free(host: Host) {
    let shop = Shop::open(host).await;
    let message = [order(1).id("web", "1")];
    host.transact(shop.place.url(), &message, End::RollBack).await.unwrap();
    id_of(&shop.commit(&message).await[0]);
    assert_eq!(shop.handled().await.len(), 1);
}

/// PLT-12: an enqueue creates no lane and no route; the engine does, and handles it.
async fn plt_12_an_unknown_topic_is_routed(host: Host) {
    let shop = Shop::open(host).await;
    shop.commit(&[order(1)]).await;
    assert_eq!(shop.ask("lane", "count(*)").await + shop.ask("route", "count(*)").await, 0);
    assert_eq!(shop.ask("work", "max(lane_id)").await, 0);
    assert_eq!(shop.handled().await.len(), 1);
    assert_eq!(shop.ask("route", "count(*)").await, 1);
}

/// PLT-12: messages of one key are handled in the order they were written.
async fn plt_12_keys_keep_their_order(host: Host) {
    let shop = Shop::open(host).await;
    for n in [0, 4, 8] {
        let batch = [0, 1, 2, 3].map(|m| order(n + m).key(if m % 2 == 0 { "even" } else { "odd" }));
        shop.commit(&batch).await;
    }
    let handled = shop.handled().await;
    for key in ["even", "odd"] {
        let ids: Vec<MessageId> =
            handled.iter().filter(|m| m.key.as_deref() == Some(key)).map(|m| m.id).collect();
        assert_eq!(ids.len(), 6);
        assert!(ids.is_sorted(), "{key}: {ids:?}");
    }
}

/// PLT-12: answers come in the order given, and ids rise with it.
async fn plt_12_a_large_batch_keeps_its_order(host: Host) {
    let shop = Shop::open(host).await;
    let named = |n: usize| {
        if n.is_multiple_of(3) { order(n).id("web", n.to_string()) } else { order(n) }
    };
    let messages: Vec<NewMessage> = (0..2_000).map(named).collect();
    let ids: Vec<MessageId> = shop.commit(&messages).await.iter().map(id_of).collect();
    assert!(ids.is_sorted());
    let mut handled = shop.handled().await;
    handled.sort_by_key(|m| m.id);
    assert_eq!(handled.iter().map(|m| m.id).collect::<Vec<_>>(), ids);
    assert!(handled.iter().zip(&messages).all(|(got, sent)| got.payload == sent.payload));
}

/// PLT-12, PLT-29: every problem is named, nothing is written, and the host's transaction
/// is as good as before.
async fn plt_12_bad_input_is_refused_before_anything_is_written(host: Host) {
    let shop = Shop::open(host).await;
    let before = shop.rows().await;
    let bad = [order(1), NewMessage::new("a/b", "", "{")];
    let error = host.transact(shop.place.url(), &bad, End::Commit).await.unwrap_err();
    let Error::Invalid(problems) = error else { panic!("{error}") };
    let said = problems.to_string();
    for part in ["[1].topic: ", "[1].kind: ", "[1].payload: "] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(shop.rows().await, before);
    assert_eq!(shop.ask("orders", "count(*)").await, 1, "the host may go on");
    let many = vec![order(1); punctual::base::limits::BATCH_ITEMS_MAX + 1];
    let error = host.transact(shop.place.url(), &many, End::Commit).await.unwrap_err();
    assert!(error.to_string().contains("10001 messages in one batch"), "{error}");
}

/// PLT-12: the database's clock decides when a message was written, also by hand.
async fn plt_12_the_manual_clock_decides(host: Host) {
    let shop = Shop::open(host).await;
    shop.commit(&[order(1)]).await;
    let later = TemporaryStore::START.plus(Duration::from_secs(3600));
    shop.engine.travel(later, false).await.unwrap();
    shop.commit(&[order(2).id("web", "1")]).await;
    let times: Vec<Timestamp> = shop.handled().await.iter().map(|m| m.created_at).collect();
    assert_eq!(times, [TemporaryStore::START, later]);
    assert_eq!(shop.ask("admitted", "max(seen_at)").await, later.as_micros());
}

/// PLT-12: the handler starts at once. On PostgreSQL the commit itself tells, and whoever
/// listens hears it; on SQLite the host does.
async fn plt_12_a_commit_wakes_the_engine(host: Host) {
    let place = TestDatabase::empty(host.backend()).await.unwrap();
    place.sql(&[ORDERS.to_owned()]).await.unwrap();
    let (told, mut handled) = mpsc::unbounded_channel();
    let engine = Engine::builder(place.url())
        .max_polling_interval(Duration::from_secs(30))
        .handler("orders", move |work: Work| {
            told.send(work.message.id).unwrap();
            async { Ok(()) }
        })
        .open()
        .await
        .unwrap();
    engine.start();
    let mut ear = engine.store().listen().await.unwrap();
    // The first is found while the engine starts; the others find it asleep.
    for n in 0..3 {
        let said = host.transact(place.url(), &[order(n)], End::Commit).await.unwrap();
        if host.backend() == Backend::Sqlite {
            engine.wake();
        } else {
            let heard = tokio::time::timeout(Duration::from_secs(5), ear.wait()).await;
            assert!(heard.expect("a notification").unwrap());
        }
        let waited = tokio::time::timeout(Duration::from_secs(1), handled.recv()).await;
        assert_eq!(waited.expect("within a second"), Some(id_of(&said[0])));
    }
    engine.stop(Duration::from_secs(5)).await;
}

/// PLT-12: nobody waits for another enqueuer: two transactions of one topic and one key,
/// both open, known topic or not, and with ids of one source.
#[tokio::test]
async fn plt_12_open_transactions_do_not_wait_for_each_other() {
    let shop = Shop::open(Host::TokioPostgres).await;
    for round in ["1", "2"] {
        let (mut one, mut two) = (client(&shop).await, client(&shop).await);
        let (a, b) = (one.transaction().await.unwrap(), two.transaction().await.unwrap());
        for (tx, name) in [(&a, "a"), (&b, "b"), (&a, "c"), (&b, "d")] {
            let message = order(1).key("same").id("web", format!("{round}{name}"));
            let said = outbox::tokio_postgres::enqueue(tx, Tenant::DEFAULT, &[message]).await.unwrap();
            id_of(&said[0]);
        }
        b.commit().await.unwrap();
        a.commit().await.unwrap();
        assert_eq!(shop.handled().await.len(), 4);
    }
}

/// PLT-12: only the same id makes one wait, because its answer depends on the other.
#[tokio::test]
async fn plt_12_the_second_of_one_id_waits_for_the_first() {
    let shop = Shop::open(Host::TokioPostgres).await;
    for end in [End::RollBack, End::Commit] {
        let (mut one, two) = (client(&shop).await, client(&shop).await);
        let message = [order(1).id("web", "1")];
        let tx = one.transaction().await.unwrap();
        let first = id_of(&outbox::tokio_postgres::enqueue(&tx, Tenant::DEFAULT, &message).await.unwrap()[0]);
        let mut second = std::pin::pin!(outbox::tokio_postgres::enqueue(&two, Tenant::DEFAULT, &message));
        let early = tokio::time::timeout(Duration::from_millis(100), second.as_mut()).await;
        assert!(early.is_err(), "{early:?}");
        if end == End::Commit {
            tx.commit().await.unwrap();
            assert_eq!(second.await.unwrap(), [EnqueueOutcome::Duplicate { of: Some(first), same: true }]);
        } else {
            tx.rollback().await.unwrap();
            let said = second.await.unwrap();
            assert!(id_of(&said[0]) > first);
            shop.place.sql(&["delete from punctual.admitted".to_owned()]).await.unwrap();
        }
    }
}

/// PLT-12: a quiet batch notifies nobody, nor does one that wrote nothing.
#[tokio::test]
async fn plt_12_a_quiet_batch_notifies_nobody() {
    let shop = Shop::open(Host::TokioPostgres).await;
    let (listener, mut connection) =
        ::tokio_postgres::connect(shop.place.url(), ::tokio_postgres::NoTls).await.unwrap();
    let (told, mut heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let ::tokio_postgres::AsyncMessage::Notification(n) = message {
                told.send(n.channel().to_owned()).ok();
            }
        }
    });
    listener.batch_execute("listen punctual").await.unwrap();
    let host = client(&shop).await;
    let batch = |quiet: bool| {
        let batch = EnqueueBatch::new(
            Tenant::DEFAULT,
            &[order(1).id("web", quiet.to_string()), order(2).id("web", "2")],
        );
        if quiet { batch.unwrap().quiet() } else { batch.unwrap() }
    };
    for (quiet, told) in [(true, 0), (false, 1), (false, 0)] {
        outbox::tokio_postgres::run(&host, &batch(quiet)).await.unwrap();
        // A notification arrives before the answer to what is asked after it.
        listener.batch_execute("select 1").await.unwrap();
        let mut count = 0;
        while heard.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, told, "quiet: {quiet}");
    }
}

async fn client(shop: &Shop) -> ::tokio_postgres::Client {
    hosts::tokio_postgres_client(shop.place.url()).await
}

/// PLT-12: an enqueue that is dropped half-way leaves all of its batch or nothing, and the
/// host's transaction can still commit.
#[tokio::test]
async fn plt_12_a_dropped_enqueue_leaves_all_or_nothing() {
    use sqlx::Connection;
    let shop = Shop::open(Host::SqlxSqlite).await;
    let mut connection = hosts::sqlx_sqlite_connection(shop.place.url()).await;
    let mut dropped = 0;
    // On a busy machine the driver's thread has often answered before the first poll.
    for round in 0..1_000 {
        if round >= 20 && dropped > 2 {
            break;
        }
        let polls = round % 20;
        let mut tx = connection.begin_with("begin immediate").await.unwrap();
        let message = [order(round).id("web", round.to_string())];
        {
            let mut enqueue = Box::pin(outbox::sqlx_sqlite::enqueue(&mut tx, Tenant::DEFAULT, &message));
            let mut left = polls;
            dropped += usize::from(
                std::future::poll_fn(|cx| match (enqueue.as_mut().poll(cx), left) {
                    (std::task::Poll::Pending, 0) => std::task::Poll::Ready(true),
                    (std::task::Poll::Pending, _) => {
                        left -= 1;
                        std::task::Poll::Pending
                    }
                    (std::task::Poll::Ready(said), _) => {
                        said.unwrap();
                        std::task::Poll::Ready(false)
                    }
                })
                .await,
            );
        }
        tx.commit().await.unwrap();
        let counts = [
            hosts::sqlx_sqlite_count(&mut connection, "select count(*) from punctual_message").await,
            hosts::sqlx_sqlite_count(&mut connection, "select count(*) from punctual_work").await,
            hosts::sqlx_sqlite_count(&mut connection, "select count(*) from punctual_admitted").await,
        ];
        assert!(
            counts.iter().all(|count| *count == counts[0]),
            "round {round}, after {polls} polls: {counts:?}"
        );
    }
    assert!(dropped > 2, "some were dropped half-way");
}
