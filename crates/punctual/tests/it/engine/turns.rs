//! PLT-9: nobody waits for somebody else's backlog.

use super::{Live, ear, enqueue, enqueue_one, numbered, start, stop};
use crate::bench::{TENANT, message};
use punctual::access::store::tenants::NewTenant;
use punctual::base::clock::monotonic;
use punctual::{Tenant, Work};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

live! {
    quick: [plt_9_a_slow_topic_holds_up_no_other],
    slow: [plt_9_newcomers_do_not_wait_for_a_tenants_backlog],
}

const BACKLOG: usize = 20_000;
const NEWCOMERS: usize = 50;

async fn tenants(engine: &punctual::Engine, n: usize) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    for n in 0..n {
        let new = NewTenant { slug: format!("small-{n}"), name: "Small".into(), ..NewTenant::default() };
        tenants.push(engine.store().create_tenant(new).await.unwrap().tenant);
    }
    tenants
}

/// PLT-9: the benchmark holds the strict figure; a busy test machine gets a second.
async fn plt_9_newcomers_do_not_wait_for_a_tenants_backlog(live: &Live) {
    let (tell, mut ear) = ear();
    let handler = move |work: Work| {
        let tell = tell.clone();
        async move {
            if work.message.kind == "newcomer" {
                tell.send((work.message.id, monotonic())).ok();
            }
            tokio::time::sleep(Duration::from_millis(4)).await;
            Ok(())
        }
    };
    let engine = start(live.builder().handler("t", handler)).await;
    let others = tenants(&engine, NEWCOMERS).await;
    for _ in 0..BACKLOG / 10_000 {
        enqueue(&engine, numbered("t", 10_000)).await;
    }
    let mut worst = Duration::ZERO;
    let mut seen = BTreeSet::new();
    for tenant in others {
        let mut new = message("t");
        new.kind = "newcomer".into();
        let id = engine.enqueue_one(tenant, new).await.unwrap();
        let committed = monotonic();
        let (handled, begun) = ear.next().await;
        assert_eq!(handled, id);
        assert!(seen.insert(id));
        worst = worst.max(begun.since(committed));
    }
    let waiting = live.count(super::WORK).await;
    println!("PLT-9 {:?}: the worst newcomer waited {worst:?}, with {waiting} still waiting", live.backend);
    assert!(waiting > 0, "the backlog should outlast the newcomers");
    assert!(worst < Duration::from_secs(1), "a newcomer waited {worst:?}");
    stop(engine).await;
}

/// PLT-9
async fn plt_9_a_slow_topic_holds_up_no_other(live: &Live) {
    let gate = Arc::new(Semaphore::new(0));
    let ((tell_slow, mut slow), (tell_quick, mut quick)) = (ear(), ear());
    let at_gate = Arc::clone(&gate);
    let held = move |_: Work| {
        let (gate, tell) = (Arc::clone(&at_gate), tell_slow.clone());
        async move {
            tell.send(()).ok();
            gate.acquire().await?.forget();
            Ok(())
        }
    };
    let builder = live.builder().handler_with("slow", 2, held);
    let engine = start(builder.handler_with("quick", 1, super::telling(tell_quick))).await;
    enqueue(&engine, numbered("slow", 100)).await;
    slow.take(2).await;
    for _ in 0..20 {
        let id = enqueue_one(&engine, "quick").await;
        assert_eq!(quick.next_within(Duration::from_secs(1)).await.message.id, id);
    }
    assert!(slow.is_silent(), "the slow ones are still at it");
    gate.add_permits(100);
    live.until_drained().await;
    assert_eq!(engine.store().queues(TENANT).await.unwrap().len(), 2);
    stop(engine).await;
}
