//! PLT-14: handlers per topic, bounded, in order where a key asks for it, tried again.

use super::{DEAD_LETTERS, Live, OPEN_CLAIMS, WORK};
use super::{dead_letters, ear, enqueue, enqueue_one, numbered, queue, start, stop, telling};
use crate::bench::message;
use punctual::base::clock::monotonic;
use punctual::database::fault::ConnectionStatus;
use punctual::{HandlerError, HandlerResult, NewMessage, Work};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

live! {
    quick: [
        plt_14_each_topic_has_its_handler,
        plt_14_no_more_run_at_once_than_allowed,
        plt_14_keyed_messages_keep_their_order_through_retries,
        plt_14_a_failing_message_is_tried_again_later_and_then_dead,
        plt_14_a_hopeless_message_is_dead_at_once,
        plt_14_an_error_is_kept_with_all_its_sources,
        plt_14_a_panic_is_an_attempt_and_the_worker_lives_on,
        plt_2_a_lost_claim_stops_its_handler_and_writes_nothing,
        plt_2_an_outage_shorter_than_the_lease_makes_nothing_run_twice,
    ],
    slow: [
        plt_2_a_handler_may_outlive_its_lease,
        plt_3_suspects_keep_their_lease_while_they_wait_in_line,
        plt_3_a_long_line_keeps_its_leases_together,
    ],
}

/// Longer than a few tries, much shorter than a lease.
const OUTAGE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(5);

/// PLT-2: the database is out of reach when an item is done, and back before its lease ends.
async fn plt_2_an_outage_shorter_than_the_lease_makes_nothing_run_twice(live: &Live) {
    let (tell, mut ear) = ear();
    let (store, cut) = live.builder().open().await.unwrap().store().with_cut();
    let handler = move |work: Work| {
        cut.set(ConnectionStatus::Refused);
        let cut = cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(OUTAGE).await;
            cut.set(ConnectionStatus::Open);
        });
        tell.send(work).ok();
        std::future::ready(Ok(()))
    };
    let lease = Duration::from_secs(60);
    let engine = start(live.builder().on_store(store).lease(lease).handler("t", handler)).await;
    enqueue_one(&engine, "t").await;
    ear.next().await;
    live.until_count(OPEN_CLAIMS, 0).await;
    assert_eq!(live.count(WORK).await, 0);
    assert!(ear.is_silent(), "it was handled twice");
    stop(engine).await;
}

/// PLT-14
async fn plt_14_each_topic_has_its_handler(live: &Live) {
    let ((tell_a, mut a), (tell_b, mut b)) = (ear(), ear());
    let builder = live.builder().handler("a", telling(tell_a)).handler("b", telling(tell_b));
    let engine = start(builder).await;
    enqueue(&engine, vec![message("a"), message("b"), message("a"), message("nobody")]).await;
    for (ear, topic, n) in [(&mut a, "a", 2), (&mut b, "b", 1)] {
        assert!(ear.take(n).await.iter().all(|work| work.message.topic == topic));
    }
    live.until_count(OPEN_CLAIMS, 0).await;
    assert!(a.is_silent() && b.is_silent());
    assert_eq!(live.count(WORK).await, 1, "what nobody handles waits");
    stop(engine).await;
}

/// Counts who is inside.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// PLT-14: also while batches overlap, and for handlers quick enough to be run on the spot.
async fn plt_14_no_more_run_at_once_than_allowed(live: &Live) {
    let gauge = Arc::new(Gauge::default());
    let (tell, mut ear) = ear();
    let inside = Arc::clone(&gauge);
    let handler = move |work: Work| {
        let (inside, tell) = (Arc::clone(&inside), tell.clone());
        async move {
            inside.enter();
            if work.message.id.0 % 2 == 0 || work.message.id.0 > 100 {
                tokio::time::sleep(PAUSE).await;
            }
            inside.leave();
            tell.send(work.message.id).ok();
            Ok(())
        }
    };
    let engine = start(live.builder().handler_with("t", 3, handler)).await;
    for _ in 0..4 {
        enqueue(&engine, numbered("t", 50)).await;
    }
    let mut ids = ear.take(200).await;
    live.until_drained().await;
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200, "each message once");
    assert_eq!(gauge.most.load(Ordering::SeqCst), 3);
    stop(engine).await;
}

type Seen = Arc<Mutex<BTreeMap<String, Vec<usize>>>>;

/// Fails every third message twice; a message that succeeds is noted under its key.
async fn stumbling(seen: Seen, running: Arc<Mutex<BTreeMap<String, usize>>>, work: Work) -> HandlerResult {
    let (key, n): (String, usize) = serde_json::from_str(&work.message.payload).unwrap();
    *running.lock().unwrap().entry(key.clone()).or_default() += 1;
    assert_eq!(running.lock().unwrap()[&key], 1, "one of a key at a time");
    tokio::time::sleep(PAUSE).await;
    *running.lock().unwrap().get_mut(&key).unwrap() -= 1;
    if n % 3 == 1 && work.attempt <= 2 {
        return Err(HandlerError::retry("stumbled"));
    }
    seen.lock().unwrap().entry(key).or_default().push(n);
    Ok(())
}

/// PLT-14
async fn plt_14_keyed_messages_keep_their_order_through_retries(live: &Live) {
    let (seen, running) = (Seen::default(), Arc::default());
    let noted = Arc::clone(&seen);
    let handler = move |work| stumbling(Arc::clone(&noted), Arc::clone(&running), work);
    let engine = start(live.builder().handler_with("t", 8, handler)).await;
    queue(&engine, "t", serde_json::json!({"backoff": {"from": "20ms", "to": "20ms"}})).await;
    let (keys, each) = (5, 9);
    let keyed = |n: usize| {
        let key = format!("k{}", n % keys);
        NewMessage::new("t", "happened", format!("[\"{key}\", {}]", n / keys)).key(key)
    };
    enqueue(&engine, (0..keys * each / 2).map(keyed).collect()).await;
    enqueue(&engine, (keys * each / 2..keys * each).map(keyed).collect()).await;
    live.until_drained().await;
    let all = seen.lock().unwrap().clone();
    assert_eq!(all.len(), keys);
    for (key, order) in all {
        assert_eq!(order, (0..each).collect::<Vec<_>>(), "{key}");
    }
    assert_eq!(live.count(DEAD_LETTERS).await, 0);
    stop(engine).await;
}

/// PLT-14
async fn plt_14_a_failing_message_is_tried_again_later_and_then_dead(live: &Live) {
    let (tell, mut ear) = ear();
    let handler = move |work: Work| {
        tell.send((work.attempt, monotonic())).ok();
        async move { Err(HandlerError::retry(format!("no {}", work.attempt))) }
    };
    let engine = start(live.builder().handler("t", handler)).await;
    queue(&engine, "t", serde_json::json!({"maxAttempts": 3, "backoff": ["100ms", "200ms"]})).await;
    let id = enqueue_one(&engine, "t").await;
    let tries = ear.take(3).await;
    assert_eq!(tries.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2, 3]);
    // A tenth may be taken off a wait.
    assert!(tries[1].1 - tries[0].1 >= Duration::from_millis(90), "the first wait");
    assert!(tries[2].1 - tries[1].1 >= Duration::from_millis(180), "the second wait");
    live.until_count(DEAD_LETTERS, 1).await;
    let letter = dead_letters(&engine).await.remove(0);
    assert_eq!((letter.message.id, letter.claims, letter.error.as_str()), (id, 3, "no 3"));
    let history: Vec<_> =
        letter.attempts.iter().map(|a| (a.number, a.outcome.as_str(), a.error.as_str())).collect();
    assert_eq!(history, [(1, "abandoned", "no 1"), (2, "abandoned", "no 2"), (3, "abandoned", "no 3")]);
    live.until_drained().await;
    assert!(ear.is_silent(), "dead is dead");
    stop(engine).await;
}

/// PLT-14: the text of the outermost error alone ("cannot charge") says nothing.
async fn plt_14_an_error_is_kept_with_all_its_sources(live: &Live) {
    #[derive(Debug)]
    struct CannotCharge(std::io::Error);
    impl std::fmt::Display for CannotCharge {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("cannot charge")
        }
    }
    impl std::error::Error for CannotCharge {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let handler = |_: Work| async {
        Err(CannotCharge(std::io::Error::other("no route to host")))?;
        Ok(())
    };
    let engine = start(live.builder().handler("t", handler)).await;
    queue(&engine, "t", serde_json::json!({"maxAttempts": 1})).await;
    enqueue_one(&engine, "t").await;
    live.until_count(DEAD_LETTERS, 1).await;
    let letter = dead_letters(&engine).await.remove(0);
    assert_eq!(letter.error, "cannot charge: no route to host");
    assert_eq!(letter.attempts[0].error, "cannot charge: no route to host");
    stop(engine).await;
}

/// PLT-14
async fn plt_14_a_hopeless_message_is_dead_at_once(live: &Live) {
    let handler = |_: Work| async { Err(HandlerError::fail("no such customer")) };
    let engine = start(live.builder().handler("t", handler)).await;
    enqueue_one(&engine, "t").await;
    live.until_count(DEAD_LETTERS, 1).await;
    let letter = dead_letters(&engine).await.remove(0);
    assert_eq!((letter.claims, letter.attempts.len()), (1, 1));
    assert_eq!((letter.attempts[0].outcome.as_str(), letter.error.as_str()), ("failed", "no such customer"));
    live.until_drained().await;
    stop(engine).await;
}

/// PLT-14: whether it panics before it waits for anything, or afterwards.
async fn plt_14_a_panic_is_an_attempt_and_the_worker_lives_on(live: &Live) {
    let (tell, mut ear) = ear();
    let handler = move |work: Work| {
        let tell = tell.clone();
        assert!(work.message.kind != "at once", "a bug at once");
        async move {
            tokio::time::sleep(PAUSE).await;
            assert!(work.message.kind != "later", "a bug later");
            tell.send(work.message.kind).ok();
            Ok(())
        }
    };
    let engine = start(live.builder().handler("t", handler)).await;
    queue(&engine, "t", serde_json::json!({"maxAttempts": 2, "backoff": ["10ms"]})).await;
    let kinds = ["at once", "fine", "later", "fine too"];
    enqueue(&engine, kinds.map(|kind| NewMessage::new("t", kind, "1")).to_vec()).await;
    let mut fine = ear.take(2).await;
    fine.sort();
    assert_eq!(fine, ["fine", "fine too"]);
    live.until_count(DEAD_LETTERS, 2).await;
    for letter in dead_letters(&engine).await {
        assert_eq!(letter.claims, 2);
        let said = format!("the handler panicked: a bug {}", letter.message.kind);
        assert!(letter.attempts.iter().all(|a| a.error == said), "{:?}", letter.attempts);
    }
    enqueue(&engine, vec![NewMessage::new("t", "afterwards", "1")]).await;
    assert_eq!(ear.next().await, "afterwards");
    live.until_drained().await;
    stop(engine).await;
}

/// PLT-2: a long handler keeps its claim, whoever else would take it.
async fn plt_2_a_handler_may_outlive_its_lease(live: &Live) {
    let (tell, mut ear) = ear();
    let lease = Duration::from_secs(1);
    let handler = move |work: Work| {
        let tell = tell.clone();
        async move {
            tokio::time::sleep(lease * 5 / 2).await;
            tell.send(work.attempt).ok();
            Ok(())
        }
    };
    let one = start(live.builder().lease(lease).handler("t", handler.clone())).await;
    let other = start(live.builder().lease(lease).handler("t", handler)).await;
    enqueue(&one, numbered("t", 5)).await;
    assert_eq!(ear.take(5).await, [1; 5]);
    live.until_drained().await;
    assert!(ear.is_silent(), "each ran once");
    assert!(live.settled().await.values().all(|times| *times == 1));
    assert_eq!(live.count("select count(*) from punctual.claim where ending = 'reaped'").await, 0);
    stop(one).await;
    stop(other).await;
}

/// PLT-3: what was in a crash runs one at a time; the last in line waits longer than a lease.
async fn plt_3_suspects_keep_their_lease_while_they_wait_in_line(live: &Live) {
    let (gauge, (tell, mut ear)) = (Arc::new(Gauge::default()), ear());
    let inside = Arc::clone(&gauge);
    let handler = move |work: Work| {
        let (inside, tell) = (Arc::clone(&inside), tell.clone());
        async move {
            inside.enter();
            tokio::time::sleep(Duration::from_millis(700)).await;
            inside.leave();
            tell.send(work.attempt).ok();
            Ok(())
        }
    };
    let engine = start(live.builder().lease(Duration::from_secs(1)).handler("t", handler)).await;
    live.enqueue_suspects(&engine, numbered("t", 4)).await;
    assert_eq!(ear.take(4).await, [2; 4]);
    live.until_drained().await;
    assert_eq!(gauge.most.load(Ordering::SeqCst), 1, "one at a time");
    assert_eq!(live.count("select count(*) from punctual.claim where ending = 'reaped'").await, 0);
    stop(engine).await;
}

/// PLT-3: a crash left hundreds; their leases are renewed by one statement, not by one each.
async fn plt_3_a_long_line_keeps_its_leases_together(live: &Live) {
    let (tell, mut ear) = ear();
    let handler = move |work: Work| {
        let tell = tell.clone();
        async move {
            tokio::time::sleep(PAUSE).await;
            tell.send(work.attempt).ok();
            Ok(())
        }
    };
    let builder = live.builder().pool_size(2).lease(Duration::from_secs(2));
    let engine = start(builder.handler_with("t", 300, handler)).await;
    live.enqueue_suspects(&engine, numbered("t", 300)).await;
    assert_eq!(ear.take(300).await, [2; 300]);
    live.until_drained().await;
    assert_eq!(live.count("select count(*) from punctual.claim where ending = 'reaped'").await, 0);
    stop(engine).await;
}

/// Says so when it is dropped.
struct Dropped(tokio::sync::mpsc::UnboundedSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send("stopped").ok();
    }
}

/// PLT-2
async fn plt_2_a_lost_claim_stops_its_handler_and_writes_nothing(live: &Live) {
    let (tell, mut ear) = ear();
    let handler = move |_: Work| {
        let tell = tell.clone();
        async move {
            let _guard = Dropped(tell.clone());
            tell.send("begun").ok();
            std::future::pending::<HandlerResult>().await
        }
    };
    let engine = start(live.builder().lease(Duration::from_secs(1)).handler("t", handler)).await;
    enqueue_one(&engine, "t").await;
    assert_eq!(ear.next().await, "begun");
    queue(&engine, "t", serde_json::json!({"paused": true})).await;
    while live.count(OPEN_CLAIMS).await > 0 {
        // Its holder may renew the lease in between.
        live.texts("update punctual.claim set lease_until = 1 where finished_at is null").await;
        engine.store().reap(7).await.unwrap();
    }
    assert_eq!(ear.next().await, "stopped");
    stop(engine).await;
    let rows = live.texts("select attempts, unstarted from punctual.work").await;
    assert_eq!(rows, [[Some("1".to_owned()), Some("0".to_owned())]], "it waits for its next attempt");
    let claims = live.texts("select ending from punctual.claim").await;
    assert_eq!(claims, [[Some("reaped".to_owned())]]);
    assert!(live.settled().await.is_empty() && ear.is_silent());
}
