//! Reaping: a crash loses nothing, and takes nobody along for ever.

use crate::bench::{Bench, LEASE, SEED, TENANT, ids, seconds};
use punctual::base::backoff::Backoff;
use punctual::base::limits;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::SettleAction;
use serde_json::json;
use std::collections::BTreeSet;

cases![
    plt_3_what_ran_out_comes_back_with_backoff,
    plt_3_nothing_is_reaped_before_its_lease_ends,
    plt_3_items_of_a_reaped_batch_come_back_singly,
    plt_3_a_crashing_neighbour_uses_nobodys_attempts_up,
    plt_3_a_suspect_that_was_started_counts_as_an_attempt,
    plt_3_unstarted_losses_end_at_the_higher_limit,
    plt_3_only_what_is_open_comes_back,
    plt_4_a_poison_item_dies_and_its_neighbours_complete,
    a_reaping_tells_when_the_next_lease_ends,
    a_reaping_is_bounded,
];

/// PLT-3
async fn plt_3_what_ran_out_comes_back_with_backoff(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 1).await;
    for attempt in 1..=4 {
        let item = t.claim_one(lane).await;
        assert_eq!((item.item.attempt(), item.item.unstarted()), (attempt, 0));
        t.advance(LEASE).await;
        let reaped = t.reap().await;
        assert_eq!((reaped.claims, reaped.returned, reaped.dead), (1, 1, 0));
        let wait = Backoff::default().wait(attempt, SEED ^ put[0].0.unsigned_abs()).unwrap();
        assert!(t.claim(lane, 1).await.is_empty(), "the backoff of attempt {attempt} applies");
        t.advance(wait).await;
    }
    let rows = t.texts("select outcome, error, owner from punctual.attempt").await;
    assert_eq!(rows.len(), 4);
    let said = ["reaped", "the lease of tester ran out", "tester"].map(|s| Some(s.to_owned()));
    assert!(rows.iter().all(|row| *row == said), "{rows:?}");
}

/// PLT-3, PLT-6
async fn plt_3_nothing_is_reaped_before_its_lease_ends(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 1).await;
    t.claim_one(lane).await;
    t.advance(LEASE - std::time::Duration::from_micros(1)).await;
    assert_eq!(t.reap().await.claims, 0);
    t.advance(std::time::Duration::from_micros(1)).await;
    assert_eq!(t.reap().await.claims, 1);
}

/// PLT-3: so that one poison item does not take its neighbours along for ever.
async fn plt_3_items_of_a_reaped_batch_come_back_singly(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 4).await;
    t.claim(lane, 4).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.returned, 4);
    t.advance(seconds(1)).await;
    let fresh = t.put("orders", 2).await;
    let items = t.claim(lane, 10).await;
    let tokens: BTreeSet<_> = items.iter().map(|i| &i.token).collect();
    assert_eq!(items.len(), 6);
    assert_eq!(tokens.len(), 5, "four suspects alone, two fresh ones together");
    for item in &items {
        let suspect = put.contains(&item.message.id);
        assert_eq!(item.item.is_suspect(), suspect);
        assert_eq!(item.item.attempt(), if suspect { 2 } else { 1 });
    }
    let of = |id| &items.iter().find(|i| i.message.id == id).unwrap().token;
    assert_eq!(of(fresh[0]), of(fresh[1]));
}

/// PLT-3: what never started counts against a separate, higher limit.
async fn plt_3_a_crashing_neighbour_uses_nobodys_attempts_up(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 2})).await;
    t.put("orders", 1).await;
    // Lost in a batch of two, then alone but never started, more often than it has attempts.
    t.put("orders", 1).await;
    t.claim(lane, 2).await;
    for lost in 1..=5 {
        t.advance(LEASE).await;
        t.reap().await;
        t.advance(seconds(60)).await;
        let items = t.claim(lane, 2).await;
        assert_eq!(items.len(), 2, "alive after {lost} losses");
        assert_eq!((items[0].item.attempt(), items[0].item.unstarted()), (lost + 1, lost));
    }
    t.advance(LEASE).await;
    t.reap().await;
    t.advance(seconds(60)).await;
    let items = t.claim(lane, 1).await;
    t.say(&items, crate::bench::abandon("first real attempt")).await;
    assert_eq!(t.whereabouts().await[&items[0].message.id.0], ["waiting"], "one of two attempts");
}

/// PLT-3
async fn plt_3_a_suspect_that_was_started_counts_as_an_attempt(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 2})).await;
    let put = t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.say(&items[1..], SettleAction::Ack).await;
    t.advance(LEASE).await;
    t.reap().await;
    for _ in 0..2 {
        t.advance(seconds(60)).await;
        let item = t.claim_one(lane).await;
        assert!(t.store().mark_started(item.token).await.unwrap());
        t.advance(LEASE).await;
        t.reap().await;
    }
    let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].message.id), (1, put[0]));
    assert_eq!(letters[0].claims, 3, "claimed three times, one of them not started");
    assert_eq!(letters[0].attempts.len(), 3);
}

/// PLT-3
async fn plt_3_unstarted_losses_end_at_the_higher_limit(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 1})).await;
    t.put("orders", 2).await;
    let mut rounds = 0;
    while t.claim(lane, 2).await.len() == 2 {
        rounds += 1;
        t.advance(LEASE).await;
        t.reap().await;
        t.advance(seconds(60)).await;
    }
    assert_eq!(rounds, limits::UNSTARTED_FACTOR);
    assert_eq!(t.whereabouts().await.into_values().collect::<Vec<_>>(), [["dead"], ["dead"]]);
}

/// PLT-3
async fn plt_3_only_what_is_open_comes_back(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 3).await;
    let items = t.claim(lane, 3).await;
    t.say(&items[1..2], SettleAction::Ack).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.returned, 2);
    t.advance(seconds(60)).await;
    let back: BTreeSet<_> = ids(&t.claim(lane, 3).await).into_iter().collect();
    assert_eq!(back, BTreeSet::from([items[0].message.id, items[2].message.id]));
}

/// PLT-4: an item that kills its worker runs out after ten attempts; the others are done.
async fn plt_4_a_poison_item_dies_and_its_neighbours_complete(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 4).await;
    let poison = put[1];
    let mut done = BTreeSet::new();
    for _ in 0..40 {
        let items = t.claim(lane, 4).await;
        if items.is_empty() && t.whereabouts().await.values().all(|p| *p == ["dead"]) {
            break;
        }
        // The worker runs suspects alone and marks them first; the poison item kills it.
        for item in &items {
            let alone = items.iter().filter(|i| i.token == item.token).count() == 1;
            if alone {
                t.store().mark_started(item.token.clone()).await.unwrap();
            }
            if item.message.id == poison {
                break;
            }
            t.ack(item).await;
            assert!(done.insert(item.message.id), "nothing is done twice");
        }
        t.advance(LEASE).await;
        t.reap().await;
        t.advance(seconds(60)).await;
    }
    assert_eq!(done.len(), 3, "the neighbours completed");
    let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].message.id), (1, poison));
    assert_eq!(letters[0].claims, 11, "ten attempts, and one claim lost with the batch");
    assert_eq!(letters[0].attempts.len(), 11, "the whole history");
}

async fn a_reaping_tells_when_the_next_lease_ends(t: &Bench) {
    let lane = t.lane("orders").await;
    assert_eq!(t.reap().await.next, None);
    t.put("orders", 2).await;
    t.claim_one(lane).await;
    t.advance(seconds(10)).await;
    t.claim_one(lane).await;
    t.advance(seconds(20)).await;
    let reaped = t.reap().await;
    assert_eq!((reaped.claims, reaped.next), (1, Some(t.now().await.plus(seconds(10)))));
}

/// One transaction stays short, however many workers died.
async fn a_reaping_is_bounded(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 45).await;
    for _ in 0..45 {
        t.claim_one(lane).await;
    }
    t.advance(LEASE).await;
    let mut steps = Vec::new();
    loop {
        match t.reap().await.claims {
            0 => break,
            n => steps.push(n),
        }
    }
    assert_eq!(steps, [20, 20, 5]);
}
