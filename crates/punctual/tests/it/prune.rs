//! Retention: only what is done and old goes.

use crate::bench::{Bench, TENANT, abandon, fail, message, seconds};
use crate::notification;
use punctual::access::store::idempotency::IdempotencyStatus;
use punctual::base::limits;
use punctual::operate::run::prune::{Pruner, RetentionSettings};
use punctual::queue::rules::attempt::Retry;
use punctual::queue::run::loop_health::LoopBody;
use punctual::queue::store::messages::EnqueueOutcome;
use punctual::queue::store::settle::SettleAction;
use punctual::{ClockMode, Engine, NewJob};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

cases![
    plt_8_only_what_is_done_and_old_goes,
    plt_8_nothing_that_is_left_to_do_goes,
    plt_8_a_replayed_message_stays_and_then_goes,
    plt_8_a_queue_keeps_its_messages_as_long_as_it_says,
    plt_8_a_pass_goes_in_small_steps,
    plt_8_finished_claims_go_and_open_ones_stay,
    plt_8_answers_and_admitted_ids_have_their_own_time,
    plt_8_admitted_ids_go_in_small_steps,
    plt_8_each_sort_of_history_is_kept_as_long_as_configured,
    plt_8_the_loop_prunes_messages_and_entries_a_step_at_a_time,
];

const DAY: Duration = Duration::from_secs(86_400);

async fn kept(t: &Bench) -> BTreeSet<i64> {
    let rows = t.ints("select id from punctual.message").await;
    rows.into_iter().map(|row| row[0].unwrap()).collect()
}

/// A whole pass; answers how many went.
async fn prune(t: &Bench, retention: Duration) -> usize {
    let (mut cursor, mut gone) = (0, 0);
    loop {
        let step = t.store().prune_messages(cursor, retention).await.unwrap();
        gone += step.messages;
        if step.finished {
            return gone;
        }
        cursor = step.cursor;
    }
}

/// PLT-8
async fn plt_8_only_what_is_done_and_old_goes(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.say(&items[..1], SettleAction::Ack).await;
    t.say(&items[1..], abandon("once")).await;
    t.advance(seconds(5)).await;
    let item = t.claim_one(lane).await;
    t.ack(&item).await;
    t.advance(DAY).await;
    t.put("orders", 1).await;
    let young = t.claim_one(lane).await;
    t.ack(&young).await;
    t.advance(seconds(5)).await;
    assert_eq!(prune(t, DAY * 2).await, 0, "nothing is old enough");
    assert_eq!(prune(t, DAY).await, 2);
    assert_eq!(kept(t).await, BTreeSet::from([young.message.id.0]));
    assert_eq!(t.count("select count(*) from punctual.attempt").await, 0, "the history went along");
}

/// PLT-8: a timer, a retry, a follower, a claim, a dead letter and an unrouted message stay.
async fn plt_8_nothing_that_is_left_to_do_goes(t: &Bench) {
    let lane = t.lane("orders").await;
    let far = t.now().await.plus(DAY * 1_000);
    let put = t.put("orders", 5).await;
    let items = t.claim(lane, 5).await;
    t.say(&items[..1], SettleAction::Abandon { error: "no".into(), retry: Retry::After(DAY * 900) }).await;
    t.say(&items[1..2], fail("no")).await;
    t.say(&items[2..3], SettleAction::Ack).await;
    t.say(&items[3..4], SettleAction::Release).await;
    t.enqueue(vec![message("orders").due_at(far)]).await;
    t.put("unrouted", 1).await;
    t.enqueue(vec![message("unrouted").due_at(far)]).await;
    let head = t.put_keyed("orders", &["k", "k", "k"]).await[0];
    let claimed = t.claim(lane, 10).await;
    let head = claimed.iter().find(|i| i.message.id == head).expect("the head is claimed").clone();
    t.ack(&head).await;
    t.claim(lane, 1).await;
    t.advance(DAY * 400).await;
    let left: BTreeSet<i64> = t.whereabouts().await.into_keys().collect();
    assert_eq!(left.len(), 9, "what is left to do");
    prune(t, DAY).await;
    assert_eq!(kept(t).await.intersection(&left).count(), 9, "all of it stays");
    // The claim's range of ids protects its neighbours too; when it is over, they go.
    t.reap().await;
    let dead_and_waiting: BTreeSet<i64> = t.whereabouts().await.into_keys().collect();
    prune(t, DAY).await;
    assert_eq!(kept(t).await, dead_and_waiting);
    assert!(!kept(t).await.contains(&put[2].0), "the acked one is gone");
}

/// PLT-8
async fn plt_8_a_replayed_message_stays_and_then_goes(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 2})).await;
    t.put("orders", 1).await;
    for _ in 0..2 {
        let item = t.claim_one(lane).await;
        t.say(&[item], abandon("no")).await;
        t.advance(seconds(60)).await;
    }
    t.store().replay(TENANT, Default::default(), false).await.unwrap();
    t.advance(DAY * 2).await;
    assert_eq!(prune(t, DAY).await, 0, "a replayed message waits");
    let item = t.claim_one(lane).await;
    t.ack(&item).await;
    assert_eq!(prune(t, DAY).await, 1);
}

/// PLT-8: configurable.
async fn plt_8_a_queue_keeps_its_messages_as_long_as_it_says(t: &Bench) {
    for (topic, retention) in [("short", "1h"), ("long", "30d")] {
        let lane = t.lane_with(topic, json!({ "retention": retention })).await;
        t.put(topic, 1).await;
        let item = t.claim_one(lane).await;
        t.ack(&item).await;
    }
    t.advance(DAY).await;
    assert_eq!(prune(t, DAY * 7).await, 1, "the short one");
    t.advance(DAY * 28).await;
    assert_eq!(prune(t, DAY * 7).await, 0);
    t.advance(DAY * 2).await;
    assert_eq!(prune(t, DAY * 7).await, 1, "the long one");
}

/// PLT-8: removed in small batches.
async fn plt_8_a_pass_goes_in_small_steps(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", limits::PRUNE_ROWS + 200).await;
    let items = t.claim(lane, limits::PRUNE_ROWS + 200).await;
    let tokens: BTreeSet<_> = items.iter().map(|i| i.token.clone()).collect();
    t.store().ack_whole(tokens.into_iter().collect()).await.unwrap();
    t.advance(DAY).await;
    let first = t.store().prune_messages(0, seconds(60)).await.unwrap();
    assert_eq!((first.messages, first.finished), (limits::PRUNE_ROWS, false));
    let second = t.store().prune_messages(first.cursor, seconds(60)).await.unwrap();
    assert_eq!((second.messages, second.finished), (200, true));
}

/// PLT-8
async fn plt_8_finished_claims_go_and_open_ones_stay(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 3).await;
    let settled = t.claim_one(lane).await;
    t.ack(&settled).await;
    t.claim_one(lane).await;
    t.advance(seconds(30)).await;
    t.reap().await;
    let open = t.claim_one(lane).await;
    assert_eq!(t.store().prune_rest(seconds(60), limits::ADMITTED_RETENTION).await.unwrap(), 0);
    t.advance(seconds(31)).await;
    assert_eq!(
        t.store().prune_rest(seconds(60), limits::ADMITTED_RETENTION).await.unwrap(),
        1,
        "the settled one"
    );
    t.advance(seconds(60)).await;
    assert_eq!(
        t.store().prune_rest(seconds(60), limits::ADMITTED_RETENTION).await.unwrap(),
        1,
        "the reaped one"
    );
    let left = t.texts("select token from punctual.claim").await;
    assert_eq!(left, [[Some(open.token.text().to_owned())]]);
}

/// PLT-8
async fn plt_8_answers_and_admitted_ids_have_their_own_time(t: &Bench) {
    t.store().reserve_answer(TENANT, "key", "d").await.unwrap();
    t.store().keep_answer(TENANT, "key", 200, "x").await.unwrap();
    let first = t.enqueue(vec![message("orders").id("shop", "a")]).await[0];
    let enqueue = || t.store().enqueue(TENANT, vec![message("orders").id("shop", "a")]);
    t.advance(limits::ANSWER_RETENTION).await;
    assert_eq!(t.store().prune_rest(DAY, limits::ADMITTED_RETENTION).await.unwrap(), 0);
    t.advance(seconds(1)).await;
    assert_eq!(t.store().prune_rest(DAY, limits::ADMITTED_RETENTION).await.unwrap(), 1, "the answer");
    let asked = t.store().reserve_answer(TENANT, "key", "e").await.unwrap();
    assert!(matches!(asked, IdempotencyStatus::First { .. }), "{asked:?}");
    t.store().free_answer(TENANT, "key").await.unwrap();
    t.advance(limits::ADMITTED_RETENTION - DAY - seconds(1)).await;
    assert_eq!(t.store().prune_rest(DAY, limits::ADMITTED_RETENTION).await.unwrap(), 0);
    let again = enqueue().await.unwrap();
    assert_eq!(again, [EnqueueOutcome::Duplicate { of: Some(first), same: true }]);
    t.advance(seconds(1)).await;
    assert_eq!(t.store().prune_rest(DAY, limits::ADMITTED_RETENTION).await.unwrap(), 1, "the admitted id");
    assert!(matches!(enqueue().await.unwrap()[..], [EnqueueOutcome::New(_)]));
}

/// PLT-8: also what many publishers left at once.
async fn plt_8_admitted_ids_go_in_small_steps(t: &Bench) {
    let many = limits::PRUNE_ROWS + 200;
    t.enqueue((0..many).map(|n| message("orders").id("shop", n.to_string())).collect()).await;
    t.advance(limits::ADMITTED_RETENTION + seconds(1)).await;
    for step in [limits::PRUNE_ROWS, 200, 0] {
        assert_eq!(t.store().prune_rest(DAY, limits::ADMITTED_RETENTION).await.unwrap(), step as u64);
    }
}

/// PLT-8: by the settings of the engine; another test has surveys.
async fn plt_8_each_sort_of_history_is_kept_as_long_as_configured(t: &Bench) {
    let defaults = RetentionSettings::default();
    let settings = RetentionSettings { runs: DAY, leases: 2 * DAY, message_ids: 3 * DAY, ..defaults };
    let builder = Engine::builder("given").on_store(t.store().clone()).clock(ClockMode::Manual);
    let engine = builder.retentions(settings).open().await.unwrap();
    t.store().put_job(TENANT, "yearly", NewJob::new("reports", "0 0 0 1 1 *")).await.unwrap();
    t.store().trigger_job(TENANT, "yearly").await.unwrap();
    let lane = t.lane("reports").await;
    let run = t.claim_one(lane).await;
    t.ack(&run).await;
    t.store().acquire_lease(TENANT, "report", "a", seconds(1)).await.unwrap();
    t.enqueue(vec![message("orders").id("shop", "a")]).await;
    let mut left = Vec::new();
    for _ in 0..4 {
        engine.travel(t.now().await.plus(DAY - seconds(1)), true).await.unwrap();
        engine.travel(t.now().await.plus(seconds(3)), true).await.unwrap();
        let mut counts = Vec::new();
        for table in ["run", "lease", "admitted"] {
            counts.push(t.count(&format!("select count(*) from punctual.{table}")).await);
        }
        left.push(counts);
    }
    assert_eq!(left, [[0, 1, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]], "runs, leases and ids, day by day");
}

/// PLT-8: a tick of the loop is one step, so that it never looks hung; a pass reaches the entries, too.
async fn plt_8_the_loop_prunes_messages_and_entries_a_step_at_a_time(t: &Bench) {
    let engine = notification::engine(t).await;
    notification::define(&engine, TENANT, |_| {}).await;
    notification::template(&engine, TENANT, "SMS", "Hello").await;
    notification::confirm(&engine, "B1").await;
    notification::tick(&engine).await;
    t.enqueue((0..limits::PRUNE_ROWS).map(|_| message("orders")).collect()).await;
    t.texts("delete from punctual.work").await;
    t.advance(limits::ENTRY_RETENTION + DAY).await;
    let kept = RetentionSettings { messages: DAY, ..RetentionSettings::default() };
    let mut pruner = Pruner::new(t.store().clone(), kept);
    let mut seen = Vec::new();
    for _ in 0..3 {
        pruner.tick().await.unwrap();
        let entries = t.count("select count(*) from punctual.entry").await;
        seen.push((t.count("select count(*) from punctual.message").await, entries));
    }
    assert_eq!(seen, [(1, 1), (0, 1), (0, 0)]);
}
