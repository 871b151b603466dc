//! PLT-26: an engine stops without losing anything.

use super::{DEAD_LETTERS, Ear, Live, OPEN_CLAIMS, SOON, WORK};
use super::{ear, enqueue, enqueue_one, numbered, queue, start, stop, telling};
use punctual::base::clock::monotonic;
use punctual::database::planted_bugs::PlantedBug;
use punctual::{Engine, HandlerResult, Work};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

live! {
    quick: [
        plt_26_what_was_not_begun_is_handed_back_untouched,
        plt_26_a_stop_waits_no_longer_than_its_limit,
        plt_26_a_hung_loop_does_not_hold_up_a_stop,
        plt_26_a_stop_without_patience_hands_back_too,
        plt_26_a_stop_in_full_run_loses_nothing,
        plt_26_suspects_in_line_are_handed_back_too,
    ],
    slow: [],
}

/// A worker whose handlers are quick until they meet a message of the kind "long": those
/// tell that they began and wait at the gate.
struct Gated {
    engine: Engine,
    gate: Arc<Semaphore>,
    begun: Ear<Work>,
}

impl Gated {
    async fn new(live: &Live, concurrency: usize) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let (tell, begun) = ear();
        let at_gate = Arc::clone(&gate);
        let handler = move |work: Work| {
            let (gate, tell) = (Arc::clone(&at_gate), tell.clone());
            async move {
                let long = work.message.kind == "long";
                tell.send(work).ok();
                if long {
                    gate.acquire().await?.forget();
                }
                Ok(())
            }
        };
        let engine = start(live.builder().handler_with("t", concurrency, handler)).await;
        Self { engine, gate, begun }
    }

    /// Teaches the engine that this handler is quick, so that it claims many at once, and
    /// then gives it many that are not.
    async fn fill(&mut self, live: &Live, long: usize) {
        enqueue(&self.engine, numbered("t", 300)).await;
        self.begun.take(300).await;
        live.until_drained().await;
        let messages =
            numbered("t", long).into_iter().map(|m| punctual::NewMessage { kind: "long".into(), ..m });
        enqueue(&self.engine, messages.collect()).await;
    }
}

/// PLT-26
async fn plt_26_what_was_not_begun_is_handed_back_untouched(live: &Live) {
    let mut gated = Gated::new(live, 2).await;
    gated.fill(live, 50).await;
    gated.begun.take(2).await;
    // How many are claimed at once depends on how quick the machine was; some that are not begun are enough.
    live.until_within(WORK, 0..=40).await;
    let engine = gated.engine.clone();
    let stopping = tokio::spawn(async move { engine.stop(SOON).await });
    live.until_count(WORK, 48).await;
    let untouched = "select count(*) from punctual.work where attempts = 0 and unstarted = 0";
    assert_eq!(live.count(untouched).await, 48);
    assert!(!stopping.is_finished(), "two still run, and are waited for");
    enqueue_one(&gated.engine, "t").await;
    gated.gate.add_permits(50);
    stopping.await.unwrap();
    assert!(gated.begun.is_silent(), "nothing is begun after the stop");
    assert_eq!(live.count(OPEN_CLAIMS).await, 0, "what ran is settled");
    assert_eq!(live.count(WORK).await, 49, "and what was not begun waits");
    let again = Gated::new(live, 2).await;
    again.gate.add_permits(50);
    live.until_drained().await;
    stop(again.engine).await;
}

/// PLT-26: what was given up comes back when its lease ends.
async fn plt_26_a_stop_waits_no_longer_than_its_limit(live: &Live) {
    let (tell, mut begun) = ear();
    let forever = move |work: Work| {
        tell.send(work).ok();
        std::future::pending::<HandlerResult>()
    };
    let lease = Duration::from_secs(1);
    let engine = start(live.builder().lease(lease).handler("t", forever)).await;
    queue(&engine, "t", serde_json::json!({"backoff": ["10ms"]})).await;
    let id = enqueue_one(&engine, "t").await;
    begun.next().await;
    let asked = monotonic();
    engine.stop(Duration::from_millis(100)).await;
    assert!(asked.elapsed() < Duration::from_secs(2), "it took {:?}", asked.elapsed());
    assert_eq!(live.count(OPEN_CLAIMS).await, 1, "still under its claim");
    let (tell, mut ear) = ear();
    let other = start(live.builder().lease(lease).handler("t", telling(tell))).await;
    let work = ear.next().await;
    assert_eq!((work.message.id, work.attempt), (id, 2));
    live.until_drained().await;
    assert!(begun.is_silent());
    stop(other).await;
}

/// PLT-26: the limit holds for loops as well, and a handler is given up although a loop hangs.
async fn plt_26_a_hung_loop_does_not_hold_up_a_stop(live: &Live) {
    struct GivenUp(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for GivenUp {
        fn drop(&mut self) {
            self.0.send(()).ok();
        }
    }
    let (tell, mut begun) = ear();
    let (drops, mut given_up) = tokio::sync::mpsc::unbounded_channel();
    let forever = move |work: Work| {
        let held = GivenUp(drops.clone());
        tell.send(work).ok();
        async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        }
    };
    let engine = start(live.builder().plant(PlantedBug::StuckLoop).handler("t", forever)).await;
    enqueue_one(&engine, "t").await;
    begun.next().await;
    let stopped = tokio::time::timeout(SOON, engine.stop(Duration::from_millis(100))).await;
    assert!(stopped.is_ok(), "a stop with a limit of 100 ms should end although a loop hangs");
    assert!(given_up.try_recv().is_ok(), "the handler should be given up");
}

/// PLT-26: a stop that gives up at once still says what was not begun.
async fn plt_26_a_stop_without_patience_hands_back_too(live: &Live) {
    let mut gated = Gated::new(live, 2).await;
    gated.fill(live, 50).await;
    gated.begun.take(2).await;
    live.until_within(WORK, 0..=40).await;
    gated.engine.stop(Duration::ZERO).await;
    let untouched = "select count(*) from punctual.work where attempts = 0 and unstarted = 0";
    assert_eq!(live.count(untouched).await, 48);
    assert_eq!(live.count(OPEN_CLAIMS).await, 1, "two wait for the end of their lease");
    assert!(gated.begun.is_silent());
}

/// PLT-26: every message is done or waits, and is done once.
async fn plt_26_a_stop_in_full_run_loses_nothing(live: &Live) {
    let (tell, mut ear) = ear();
    let handler = telling(tell);
    let handler = Arc::new(handler);
    let worker = || {
        let handler = Arc::clone(&handler);
        live.builder().handler_with("t", 4, move |work| handler(work))
    };
    let mut first = start(worker()).await;
    let ids: BTreeSet<_> = enqueue(&first, numbered("t", 3_000)).await.into_iter().collect();
    let mut seen = Vec::new();
    for stops in 1..=3 {
        seen.extend(ear.take(200).await);
        stop(first).await;
        while let Ok(work) = ear.0.try_recv() {
            seen.push(work);
        }
        assert_eq!(live.count(OPEN_CLAIMS).await, 0, "after stop {stops} nothing is in flight");
        assert_eq!(live.count(WORK).await, 3_000 - seen.len(), "after stop {stops} the rest waits");
        first = start(worker()).await;
        if seen.len() > 2_500 {
            break;
        }
    }
    seen.extend(ear.take(3_000 - seen.len()).await);
    live.until_drained().await;
    assert!(ear.is_silent(), "each was handled once");
    assert_eq!(seen.iter().map(|w| w.message.id).collect::<BTreeSet<_>>(), ids);
    assert!(seen.iter().all(|work| work.attempt == 1), "handed back is not an attempt");
    assert_eq!(live.count(DEAD_LETTERS).await, 0);
    stop(first).await;
}

/// PLT-26: messages that were in a crash wait for each other; a stop does not begin them.
async fn plt_26_suspects_in_line_are_handed_back_too(live: &Live) {
    let mut gated = Gated::new(live, 4).await;
    let long = numbered("t", 4).into_iter().map(|m| punctual::NewMessage { kind: "long".into(), ..m });
    live.enqueue_suspects(&gated.engine, long.collect()).await;
    gated.begun.next().await;
    live.until_count(OPEN_CLAIMS, 4).await;
    let engine = gated.engine.clone();
    let stopping = tokio::spawn(async move { engine.stop(SOON).await });
    live.until_count(WORK, 3).await;
    assert_eq!(live.count("select count(*) from punctual.work where attempts = 1").await, 3);
    gated.gate.add_permits(4);
    stopping.await.unwrap();
    assert!(gated.begun.is_silent(), "one at a time, and none after the stop");
    assert_eq!((live.count(WORK).await, live.count(OPEN_CLAIMS).await), (3, 0));
}
