//! PLT-16, PLT-17: deliveries in processes of their own, which may be killed.

use crate::bench::TENANT;
use crate::engine::{Live, SOON};
use crate::poison::{Notes, Worker, hired};
use punctual::base::clock::monotonic;
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxFilter, ProcessingOutcome};
use punctual::queue::store::settle::SettleOutcome;
use punctual::testing::Backend;
use punctual::{Engine, InboxDelivery};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const PROCESSES: usize = 2;
const TASKS_EACH: usize = 32;
const MESSAGES: usize = 200;
/// Ten thousand deliveries in all, of which 200 are the first of their message.
const DELIVERIES_EACH: usize = 10_000 / PROCESSES;

/// One of the processes of `plt_16_…`: its tasks deliver the messages over and over, in the
/// same order as the other process's, and note what they were told to process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivering_process() {
    let Some((database, pen)) = hired() else { return };
    let engine = Engine::builder(database).pool_size(4).without_migrations().open().await.unwrap();
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS_EACH {
        let (store, pen, next) = (engine.store().clone(), Arc::clone(&pen), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= DELIVERIES_EACH {
                    return;
                }
                let message = n * MESSAGES / DELIVERIES_EACH;
                let delivery = InboxDelivery::new("shop", message.to_string()).hash("same");
                match store.begin_inbox(TENANT, delivery).await.unwrap() {
                    InboxBeginOutcome::Process { ticket, .. } => {
                        pen.line(i64::try_from(message).unwrap());
                        let said =
                            store.mark_inbox(TENANT, ticket, ProcessingOutcome::Processed).await.unwrap();
                        assert_eq!(said, SettleOutcome::Done);
                    }
                    InboxBeginOutcome::InProgress { .. } | InboxBeginOutcome::AlreadyProcessed { .. } => {}
                    other => panic!("nobody fails here, but {other:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
    // Says that it has delivered everything, and nothing went wrong.
    pen.line(-1);
    std::future::pending().await
}

async fn crowd(backend: Backend) {
    let live = Live::on(backend).await;
    let engine = live.builder().open().await.unwrap();
    let notes = Notes::new();
    let begun = monotonic();
    let start = || Worker::start("inbox_crowd::delivering_process", live.url(), notes.folder());
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| start()).collect();
    while notes.read().iter().filter(|n| **n == -1).count() < PROCESSES {
        for worker in &mut workers {
            assert!(!worker.has_ended(), "a process ended by itself");
        }
        assert!(begun.elapsed() < 6 * SOON, "10,000 deliveries should be through by now");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut effects: BTreeMap<i64, usize> = BTreeMap::new();
    notes.read().iter().filter(|n| **n >= 0).for_each(|n| *effects.entry(*n).or_default() += 1);
    assert_eq!(effects.len(), MESSAGES, "every message was processed");
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "each by one delivery, but {twice:?}");
    let rows = engine.store().inbox(TENANT, InboxFilter::default(), 1_000).await.unwrap();
    assert_eq!(rows.len(), MESSAGES);
    assert!(rows.iter().all(|r| r.status == InboxStatus::Processed && r.attempts == 1));
    println!("{backend:?}: 10,000 deliveries of {MESSAGES} messages in {:?}", begun.elapsed());
}

/// PLT-16: 64 tasks in two processes, 10,000 deliveries, exactly one `Process` each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_16_of_ten_thousand_deliveries_each_message_is_processed_once_on_sqlite() {
    crowd(Backend::Sqlite).await;
}

/// PLT-16: the same on PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_16_of_ten_thousand_deliveries_each_message_is_processed_once_on_postgres() {
    crowd(Backend::Postgres).await;
}

/// How long the process that is killed would have had.
const LEASE: Duration = Duration::from_secs(2);

fn delivery() -> InboxDelivery {
    InboxDelivery::new("shop", "7").lease(LEASE)
}

/// The process of `plt_17_…`: begins, and never says what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doomed_process() {
    let Some((database, pen)) = hired() else { return };
    let engine = Engine::builder(database).pool_size(2).without_migrations().open().await.unwrap();
    let told = engine.store().begin_inbox(TENANT, delivery()).await.unwrap();
    assert!(matches!(told, InboxBeginOutcome::Process { attempts: 1, .. }), "{told:?}");
    pen.line(1);
    std::future::pending().await
}

async fn killed(backend: Backend) {
    let live = Live::on(backend).await;
    let engine = live.builder().open().await.unwrap();
    let notes = Notes::new();
    let mut worker = Worker::start("inbox_crowd::doomed_process", live.url(), notes.folder());
    let begun = monotonic();
    while notes.read().is_empty() {
        assert!(begun.elapsed() < SOON && !worker.has_ended(), "it should have begun by now");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    worker.kill();
    let end = engine.store().inbox(TENANT, InboxFilter::default(), 1).await.unwrap()[0].lease_until;
    let mut refused = 0;
    let ticket = loop {
        assert!(begun.elapsed() < SOON, "it should be free by now");
        match engine.store().begin_inbox(TENANT, delivery()).await.unwrap() {
            InboxBeginOutcome::InProgress { attempts: 1 } => refused += 1,
            InboxBeginOutcome::Process { ticket, attempts: 2, lease_until } => {
                assert!(lease_until >= end.plus(LEASE), "not before the lease of the first had ended");
                break ticket;
            }
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(refused > 0, "the kill came too late to show anything");
    assert_eq!(
        engine.store().mark_inbox(TENANT, ticket, ProcessingOutcome::Processed).await.unwrap(),
        SettleOutcome::Done
    );
}

/// PLT-17: a crash frees the message after its lease, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_17_a_killed_process_frees_its_message_after_the_lease_on_sqlite() {
    killed(Backend::Sqlite).await;
}

/// PLT-17: the same on PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_17_a_killed_process_frees_its_message_after_the_lease_on_postgres() {
    killed(Backend::Postgres).await;
}
