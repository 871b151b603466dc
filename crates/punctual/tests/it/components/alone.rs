//! What a single component does on a database of its own.

use super::{assert_healthy, builder, engine, texts};
use crate::bench::{Bench, TENANT, message, seconds};
use punctual::jobs::store::leases::{AcquireOutcome, Lease, LeaseHold, RenewOutcome};
use punctual::jobs::store::runs::RunStatus;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::SettleOutcome;
use punctual::testing::place::TestDatabase;
use punctual::{Component, Engine, HandlerError, InboxDelivery, NewJob, NewTimer, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

cases![
    plt_27_leases_work_alone,
    plt_27_an_engine_of_leases_starts_only_its_loops,
    plt_27_an_outbox_works_alone,
    plt_27_an_inbox_works_alone,
    plt_27_jobs_work_with_their_outbox_alone,
];

const LEASE: Duration = Duration::from_secs(30);

async fn acquire(engine: &Engine, owner: &str) -> AcquireOutcome {
    engine.store().acquire_lease(TENANT, "report", owner, LEASE).await.unwrap()
}

async fn acquired(engine: &Engine, owner: &str) -> Lease {
    match acquire(engine, owner).await {
        AcquireOutcome::Acquired(lease) => lease,
        held => panic!("{owner} should get the lease, but {held:?}"),
    }
}

fn holding(lease: &Lease) -> LeaseHold {
    LeaseHold { name: lease.name.clone(), owner: lease.owner.clone(), token: lease.token }
}

async fn advance(engine: &Engine, by: Duration) {
    let to = engine.store().now().await.unwrap().plus(by);
    engine.travel(to, true).await.unwrap();
}

/// PLT-27: acquired, renewed, ended, fenced, and deleted long after.
async fn plt_27_leases_work_alone(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let engine = engine(&place, &[Component::Leases]).await;
    let first = acquired(&engine, "a").await;
    assert!(matches!(acquire(&engine, "b").await, AcquireOutcome::Held(by) if by.owner == "a"));
    advance(&engine, seconds(20)).await;
    let renewed = engine.store().renew_lease(TENANT, holding(&first), LEASE).await.unwrap();
    assert!(matches!(renewed, RenewOutcome::Renewed(_)), "{renewed:?}");
    advance(&engine, LEASE + seconds(1)).await;
    let second = acquired(&engine, "b").await;
    assert!(second.token > first.token, "the fencing token grows");
    let lost = engine.store().renew_lease(TENANT, holding(&first), LEASE).await.unwrap();
    assert_eq!(lost, RenewOutcome::Lost, "who lost it renews nothing");
    advance(&engine, seconds(60 * 86_400)).await;
    assert_eq!(engine.store().leases(TENANT, "", 10).await.unwrap(), [], "it ended long ago");
    assert!(acquired(&engine, "c").await.token > second.token, "and its token is not given again");
    assert_healthy(&engine).await;
}

/// PLT-27
async fn plt_27_an_engine_of_leases_starts_only_its_loops(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let builder = Engine::builder(place.url()).pool_size(2).components(&[Component::Leases]);
    let engine = builder.open().await.unwrap();
    engine.start();
    for _ in 0..2_000 {
        let loops = engine.health().await.loops;
        assert_eq!(loops.iter().map(|of| of.name).collect::<Vec<_>>(), ["retention"]);
        if loops.iter().all(|of| of.ticks > 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(engine.health().await.loops.iter().all(|of| of.ticks > 0), "it has pruned once");
    assert_healthy(&engine).await;
    engine.stop(seconds(10)).await;
}

/// PLT-27: published, handled, tried again, given up, replayed, cancelled, and pruned.
async fn plt_27_an_outbox_works_alone(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let handler = move |work: Work| {
        let (tries, is_bad) = (Arc::clone(&counted), work.message.kind == "bad");
        async move {
            // The second message never goes well, the first does at its second try.
            match tries.fetch_add(1, Ordering::Relaxed) {
                n if n > 0 && !is_bad => Ok(()),
                _ => Err(HandlerError::retry("not now")),
            }
        }
    };
    let engine = builder(&place, &[Component::Outbox]).handler("orders", handler).open().await.unwrap();
    let settings = serde_json::json!({"maxAttempts": 2});
    engine.store().set_queue(TENANT, "orders", settings.as_object().unwrap().clone()).await.unwrap();
    engine.enqueue_one(TENANT, message("orders")).await.unwrap();
    advance(&engine, seconds(3_600)).await;
    assert_eq!(tries.load(Ordering::Relaxed), 2, "handled at its second try");
    engine.enqueue_one(TENANT, punctual::NewMessage::new("orders", "bad", "{}")).await.unwrap();
    advance(&engine, seconds(3_600)).await;
    let dead = engine.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!(dead.len(), 1, "it ran out of attempts");
    let replayed = engine.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    assert_eq!(replayed.ids.len(), 1);
    engine.store().purge(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    let timer = NewTimer::after(seconds(60), "orders", "{}");
    let timer = engine.schedule_one(TENANT, timer).await.unwrap();
    assert!(engine.cancel_timer(TENANT, timer.id).await.unwrap(), "a timer can be cancelled");
    assert_healthy(&engine).await;
    advance(&engine, seconds(3_600)).await;
    engine.store().purge(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    advance(&engine, seconds(500 * 86_400)).await;
    let left = texts(&place, "select count(*) from punctual.message").await;
    assert_eq!(left, ["0"], "history goes");
    engine.stop(seconds(1)).await;
}

/// PLT-27
async fn plt_27_an_inbox_works_alone(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let engine = engine(&place, &[Component::Inbox]).await;
    let mut processed = 0;
    for _ in 0..2 {
        let delivery = InboxDelivery::new("shop", "1").lease(LEASE);
        let begun = engine.store().begin_inbox(TENANT, delivery).await.unwrap();
        if let punctual::queue::store::inbox::InboxBeginOutcome::Process { ticket, .. } = begun {
            let mark = punctual::queue::store::inbox::ProcessingOutcome::Processed;
            let marked = engine.store().mark_inbox(TENANT, ticket, mark).await.unwrap();
            assert_eq!(marked, SettleOutcome::Done);
            processed += 1;
        }
    }
    assert_eq!(processed, 1, "the second delivery is known");
    advance(&engine, seconds(500 * 86_400)).await;
    let left = texts(&place, "select count(*) from punctual.inbox").await;
    assert_eq!(left, ["0"], "and is forgotten in the end");
}

/// PLT-27
async fn plt_27_jobs_work_with_their_outbox_alone(t: &Bench) {
    let place = TestDatabase::empty(t.backend).await.unwrap();
    let builder = builder(&place, &[Component::Jobs]).job("hourly", NewJob::new("reports", "0 0 * * * *"));
    let engine = builder.handler("reports", |_: Work| async { Ok(()) }).open().await.unwrap();
    advance(&engine, seconds(2 * 3_600)).await;
    let runs = engine.store().runs(TENANT, "hourly", None, 10).await.unwrap().unwrap();
    assert!(runs.len() >= 2, "{runs:?}");
    assert!(runs.iter().all(|run| run.status == RunStatus::Succeeded), "{runs:?}");
}
