//! Dead letters: listed, replayed, purged.

use crate::bench::{Bench, LEASE, TENANT, abandon, fail, ids, seconds};
use punctual::base::id::{DeadLetterId, MessageId};
use punctual::queue::store::dead_letters::DeadLetterFilter;
use serde_json::json;

cases![
    plt_4_a_replayed_letter_is_work_again,
    a_purged_letter_is_gone,
    a_dry_run_tells_and_changes_nothing,
    letters_are_chosen_by_id_topic_and_place,
    an_unknown_letter_moves_nothing,
    plt_4_a_history_survives_a_second_death,
    plt_3_a_letter_tells_of_reaped_attempts,
];

async fn dead(t: &Bench, topic: &str, n: usize) -> Vec<MessageId> {
    let lane = t.lane(topic).await;
    let put = t.put(topic, n).await;
    let items = t.claim(lane, n).await;
    t.say(&items, fail("no")).await;
    put
}

async fn letters(t: &Bench, which: DeadLetterFilter) -> Vec<(DeadLetterId, MessageId)> {
    let all = t.store().dead_letters(TENANT, which, 100).await.unwrap();
    all.iter().map(|l| (l.id, l.message.id)).collect()
}

/// PLT-4: an operator replays; attempts begin anew, and it is due at once.
async fn plt_4_a_replayed_letter_is_work_again(t: &Bench) {
    let put = dead(t, "orders", 2).await;
    t.advance(seconds(3_600)).await;
    let known = letters(t, DeadLetterFilter::default()).await;
    let which = DeadLetterFilter { ids: Some(vec![known[0].0]), ..DeadLetterFilter::default() };
    let moved = t.store().replay(TENANT, which.clone(), false).await.unwrap();
    assert_eq!((moved.ids, moved.more), (vec![known[0].0], false));
    let items = t.claim(t.lane("orders").await, 10).await;
    assert_eq!(ids(&items), put[..1]);
    assert_eq!((items[0].item.attempt(), items[0].item.unstarted()), (1, 0));
    assert_eq!(letters(t, DeadLetterFilter::default()).await, known[1..]);
    let again = t.store().replay(TENANT, which, false).await.unwrap();
    assert_eq!(again.ids, [], "a letter is replayed once");
    t.assert_sound().await;
}

async fn a_purged_letter_is_gone(t: &Bench) {
    dead(t, "orders", 2).await;
    let moved = t.store().purge(TENANT, DeadLetterFilter::default(), false).await.unwrap();
    assert_eq!(moved.ids.len(), 2);
    assert!(t.whereabouts().await.is_empty());
    assert_eq!(t.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap().ids, []);
}

async fn a_dry_run_tells_and_changes_nothing(t: &Bench) {
    dead(t, "orders", 3).await;
    let before = t.dump().await;
    let would = t.store().replay(TENANT, DeadLetterFilter::default(), true).await.unwrap();
    assert_eq!(would.ids.len(), 3);
    assert_eq!(t.store().purge(TENANT, DeadLetterFilter::default(), true).await.unwrap(), would);
    before.assert_equals(&t.dump().await, "a dry run");
}

async fn letters_are_chosen_by_id_topic_and_place(t: &Bench) {
    let (a, b) = (dead(t, "a", 2).await, dead(t, "b", 1).await);
    let all = letters(t, DeadLetterFilter::default()).await;
    assert_eq!(all.iter().map(|l| l.1).collect::<Vec<_>>(), [a[0], a[1], b[0]], "oldest first");
    let topic = |topic: &str| DeadLetterFilter { topic: Some(topic.into()), ..DeadLetterFilter::default() };
    assert_eq!(letters(t, topic("b")).await, all[2..]);
    assert_eq!(letters(t, topic("c")).await, []);
    let after = DeadLetterFilter { after: all[0].0.0, ..DeadLetterFilter::default() };
    assert_eq!(letters(t, after).await, all[1..]);
    let none = DeadLetterFilter { ids: Some(vec![]), ..DeadLetterFilter::default() };
    assert_eq!(letters(t, none.clone()).await, [], "no ids are not all ids");
    assert_eq!(t.store().purge(TENANT, none, false).await.unwrap().ids, []);
    let both = DeadLetterFilter { ids: Some(vec![all[0].0, all[2].0]), ..topic("a") };
    assert_eq!(letters(t, both).await, all[..1], "every condition must hold");
    let own = DeadLetterFilter { subscription: Some(String::new()), ..DeadLetterFilter::default() };
    assert_eq!(letters(t, own).await, all);
}

async fn an_unknown_letter_moves_nothing(t: &Bench) {
    let before = t.dump().await;
    let which = DeadLetterFilter { ids: Some(vec![DeadLetterId(99)]), ..DeadLetterFilter::default() };
    assert_eq!(t.store().replay(TENANT, which.clone(), false).await.unwrap().ids, []);
    assert_eq!(t.store().purge(TENANT, which, false).await.unwrap().ids, []);
    before.assert_equals(&t.dump().await, "replaying nothing");
}

/// PLT-4: the whole history, over all lives.
async fn plt_4_a_history_survives_a_second_death(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 2})).await;
    t.put("orders", 1).await;
    for life in 1..=2 {
        for n in 1..=2 {
            let item = t.claim_one(lane).await;
            t.say(&[item], abandon(&format!("life {life}, error {n}"))).await;
            t.advance(seconds(60)).await;
        }
        let all = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
        assert_eq!((all.len(), all[0].claims, all[0].attempts.len()), (1, 2, 2 * life));
        if life == 1 {
            t.store().replay(TENANT, DeadLetterFilter::default(), false).await.unwrap();
        }
    }
}

/// PLT-3
async fn plt_3_a_letter_tells_of_reaped_attempts(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 1})).await;
    t.put("orders", 1).await;
    t.claim_one(lane).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.dead, 1);
    let all = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!(all[0].error, "the lease of tester ran out");
    assert_eq!(all[0].attempts[0].outcome, "reaped");
}
