//! PLT-2: a claim that was lost changes nothing, whatever its holder says.

use crate::bench::{Bench, LEASE, SEED, abandon, fail, seconds, settle_with};
use punctual::base::id::LaneId;
use punctual::queue::store::claims::ClaimedItem;
use punctual::queue::store::settle::{SettleAction, SettleOutcome};
use serde_json::json;

cases![
    plt_2_a_stale_ack_changes_nothing,
    plt_2_a_stale_ack_of_the_whole_changes_nothing,
    plt_2_a_stale_abandon_changes_nothing,
    plt_2_a_stale_fail_changes_nothing,
    plt_2_a_stale_release_changes_nothing,
    plt_2_a_stale_extension_changes_nothing,
    plt_2_a_stale_start_changes_nothing,
    plt_2_reaping_twice_changes_nothing,
];

/// A claim of three keyed and plain items, one of them settled, that ran out, and whose
/// items are claimed by somebody else.
async fn lost(t: &Bench) -> (LaneId, Vec<ClaimedItem>) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 5})).await;
    t.put("orders", 3).await;
    t.put_keyed("orders", &["k", "k"]).await;
    let items = t.claim(lane, 5).await;
    assert_eq!(items.len(), 4, "three plain ones and a head");
    t.say(&items[..1], SettleAction::Ack).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.returned, 3);
    t.advance(seconds(60)).await;
    assert_eq!(t.claim(lane, 5).await.len(), 3, "somebody else has them now");
    (lane, items)
}

async fn says(t: &Bench, word: SettleAction) {
    let (_, items) = lost(t).await;
    let before = t.dump().await;
    let lost = [SettleOutcome::LostClaim; 3];
    assert_eq!(t.say(&items[1..], word.clone()).await, lost, "in whole");
    for item in &items[1..] {
        let words = vec![(item.message.id, word.clone())];
        assert_eq!(settle_with(t.store(), item.token.clone(), words).await, lost[..1], "in part");
    }
    assert_eq!(t.say(&items[..1], word).await, [SettleOutcome::AlreadyFinished], "the settled one");
    before.assert_equals(&t.dump().await, "a word about a lost claim");
}

/// PLT-2
async fn plt_2_a_stale_ack_changes_nothing(t: &Bench) {
    says(t, SettleAction::Ack).await;
}

/// PLT-2
async fn plt_2_a_stale_abandon_changes_nothing(t: &Bench) {
    says(t, abandon("no")).await;
}

/// PLT-2
async fn plt_2_a_stale_fail_changes_nothing(t: &Bench) {
    says(t, fail("no")).await;
}

/// PLT-2
async fn plt_2_a_stale_release_changes_nothing(t: &Bench) {
    says(t, SettleAction::Release).await;
}

/// PLT-2
async fn plt_2_a_stale_ack_of_the_whole_changes_nothing(t: &Bench) {
    let (_, items) = lost(t).await;
    let before = t.dump().await;
    let held = t.store().ack_whole(vec![items[0].token.clone()]).await.unwrap();
    assert!(held.is_empty(), "the claim is lost");
    before.assert_equals(&t.dump().await, "an ack of a lost claim");
}

/// PLT-2
async fn plt_2_a_stale_extension_changes_nothing(t: &Bench) {
    let (_, items) = lost(t).await;
    let before = t.dump().await;
    let held = t.store().extend(vec![items[0].token.clone()], seconds(60)).await.unwrap();
    assert!(held.is_empty(), "the claim is lost");
    before.assert_equals(&t.dump().await, "an extension of a lost claim");
}

/// PLT-2
async fn plt_2_a_stale_start_changes_nothing(t: &Bench) {
    let (_, items) = lost(t).await;
    let before = t.dump().await;
    assert!(!t.store().mark_started(items[0].token.clone()).await.unwrap(), "the claim is lost");
    before.assert_equals(&t.dump().await, "a mark on a lost claim");
}

/// PLT-3: a claim is reaped once, and a settled or fresh one never.
async fn plt_2_reaping_twice_changes_nothing(t: &Bench) {
    lost(t).await;
    let before = t.dump().await;
    let reaped = t.store().reap(SEED).await.unwrap();
    assert_eq!((reaped.claims, reaped.returned, reaped.dead), (0, 0, 0));
    before.assert_equals(&t.dump().await, "a second reaping");
}
