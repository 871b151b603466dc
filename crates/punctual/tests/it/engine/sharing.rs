//! PLT-27: any number of engines, on one database or on many.

use super::{Live, OPEN_CLAIMS, WORK, ear, enqueue, enqueue_one, numbered, start, stop, telling};
use punctual::Work;
use std::collections::BTreeMap;
use std::time::Duration;

live! {
    quick: [
        plt_27_engines_share_work_and_do_each_piece_once,
        plt_27_an_engine_without_handlers_only_enqueues,
        plt_27_many_engines_live_in_one_process,
    ],
    slow: [],
}

/// PLT-27
async fn plt_27_engines_share_work_and_do_each_piece_once(live: &Live) {
    let (tell, mut ear) = ear();
    let producer = live.producer().await;
    let ids = enqueue(&producer, numbered("t", 600)).await;
    let mut workers = Vec::new();
    for n in 0..2 {
        let tell = tell.clone();
        let handler = move |work: Work| {
            let tell = tell.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                tell.send((n, work.message.id)).ok();
                Ok(())
            }
        };
        workers.push(live.builder().handler_with("t", 4, handler).open().await.unwrap());
    }
    workers.iter().for_each(punctual::Engine::start);
    let done = ear.take(ids.len()).await;
    live.until_drained().await;
    assert!(ear.is_silent(), "each was handled once");
    let mut by: BTreeMap<usize, usize> = BTreeMap::new();
    done.iter().for_each(|(n, _)| *by.entry(*n).or_default() += 1);
    assert_eq!(by.len(), 2, "both worked: {by:?}");
    let mut handled: Vec<_> = done.iter().map(|(_, id)| *id).collect();
    handled.sort_unstable();
    assert_eq!(handled, ids);
    assert!(live.settled().await.values().all(|times| *times == 1));
    for engine in workers {
        stop(engine).await;
    }
    stop(producer).await;
}

/// PLT-27
async fn plt_27_an_engine_without_handlers_only_enqueues(live: &Live) {
    let producer = live.producer().await;
    assert!(producer.topics().is_empty());
    let id = enqueue_one(&producer, "t").await;
    assert!(producer.health().await.loops.iter().all(|of| of.name != "worker helper"));
    let (tell, mut ear) = ear();
    let other = start(live.builder().handler("elsewhere", telling(tell))).await;
    enqueue_one(&other, "elsewhere").await;
    ear.next().await;
    live.until_count(OPEN_CLAIMS, 0).await;
    let waiting = live.texts("select message_id from punctual.work").await;
    assert_eq!(waiting, [[Some(id.to_string())]], "nobody here handles it, so it waits");
    stop(producer).await;
    stop(other).await;
    assert_eq!(live.count(WORK).await, 1);
}

/// PLT-27: six on one database and one on another, none in another's way.
async fn plt_27_many_engines_live_in_one_process(live: &Live) {
    let elsewhere = Live::on(live.backend).await;
    let (tell, mut ear) = ear();
    let mut engines = Vec::new();
    for n in 0..6 {
        engines.push(start(live.builder().handler(format!("t{n}"), telling(tell.clone()))).await);
    }
    engines.push(start(elsewhere.builder().handler("t0", telling(tell))).await);
    let producer = live.producer().await;
    for n in 0..6 {
        enqueue(&producer, numbered(&format!("t{n}"), 5)).await;
    }
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    for work in ear.take(30).await {
        *by.entry(work.message.topic).or_default() += 1;
    }
    assert_eq!(by.len(), 6);
    assert!(by.values().all(|n| *n == 5), "{by:?}");
    live.until_drained().await;
    enqueue_one(&engines[6], "t0").await;
    assert_eq!(ear.next().await.message.topic, "t0");
    elsewhere.until_drained().await;
    assert!(ear.is_silent());
    for engine in engines {
        stop(engine).await;
    }
    stop(producer).await;
}
