//! Settling: the holder of a claim says what became of its items.

use crate::bench::{Bench, LEASE, SEED, TENANT, abandon, fail, ids, message, seconds, settle_with};
use punctual::base::backoff::Backoff;
use punctual::base::id::{MessageId, Token};
use punctual::queue::rules::attempt::Retry;
use punctual::queue::store::dead_letters::DeadLetterFilter;
use punctual::queue::store::settle::{SettleAction, SettleOutcome, Settlement};
use serde_json::json;

cases![
    plt_2_an_acked_item_is_gone_for_good,
    plt_2_a_whole_claim_is_acked_at_once,
    plt_2_a_claim_is_settled_in_parts,
    plt_2_a_second_word_is_already_finished,
    plt_2_a_word_twice_in_one_settlement_counts_once,
    plt_2_an_unknown_item_is_not_found,
    plt_2_an_unknown_claim_is_lost,
    plt_2_a_reaped_item_is_lost_and_a_settled_one_finished,
    plt_2_a_token_holds_until_it_is_reaped,
    plt_2_many_claims_are_settled_in_one_call,
    items_of_another_lane_are_not_found,
    plt_5_an_abandoned_item_waits_by_the_policy,
    plt_5_a_retry_after_is_exact_and_a_not_before_wins_when_longer,
    plt_5_after_its_last_step_an_item_is_held,
    plt_4_after_the_limit_an_item_is_dead_with_its_history,
    plt_2_a_failed_item_is_dead_at_once,
    a_released_item_is_as_if_never_claimed,
    a_released_retry_keeps_its_time_and_attempts,
    an_error_text_is_cut_and_cleaned,
];

/// PLT-2
async fn plt_2_an_acked_item_is_gone_for_good(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 1).await;
    let item = t.claim_one(lane).await;
    assert_eq!(t.ack(&item).await, SettleOutcome::Done);
    t.advance(seconds(86_400)).await;
    t.reap().await;
    assert!(t.claim(lane, 10).await.is_empty());
    assert!(t.whereabouts().await.is_empty());
    let kept = t.store().message(TENANT, item.message.id).await.unwrap();
    assert_eq!(kept, Some(item.message), "the fact stays");
}

/// PLT-2
async fn plt_2_a_whole_claim_is_acked_at_once(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 3).await;
    let items = t.claim(lane, 3).await;
    let token = items[0].token.clone();
    let held = t.store().ack_whole(vec![token.clone(), Token::fresh()]).await.unwrap();
    assert_eq!(held.into_iter().collect::<Vec<_>>(), [token]);
    assert!(t.whereabouts().await.is_empty());
    assert_eq!(t.say(&items, SettleAction::Ack).await, [SettleOutcome::AlreadyFinished; 3]);
}

/// PLT-2
async fn plt_2_a_claim_is_settled_in_parts(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 5).await;
    let items = t.claim(lane, 5).await;
    assert_eq!(t.say(&items[1..2], SettleAction::Ack).await, [SettleOutcome::Done]);
    assert_eq!(t.say(&items[2..3], abandon("no")).await, [SettleOutcome::Done]);
    assert_eq!(t.say(&items[3..4], fail("never")).await, [SettleOutcome::Done]);
    assert_eq!(t.say(&items[4..5], SettleAction::Release).await, [SettleOutcome::Done]);
    let places = t.whereabouts().await;
    let place = |n: usize| places.get(&items[n].message.id.0).map(|p| p[0]);
    assert_eq!(place(0), Some("in flight"));
    assert_eq!(place(1), None);
    assert_eq!((place(2), place(3), place(4)), (Some("waiting"), Some("dead"), Some("waiting")));
    let said = t.say(&items, SettleAction::Ack).await;
    assert_eq!(said[0], SettleOutcome::Done);
    assert_eq!(said[1..], [SettleOutcome::AlreadyFinished; 4]);
    t.assert_sound().await;
}

/// PLT-2: a repeated ack is told from a lost claim, and changes nothing.
async fn plt_2_a_second_word_is_already_finished(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.say(&items, SettleAction::Ack).await;
    let before = t.dump().await;
    for word in [SettleAction::Ack, abandon("no"), fail("no"), SettleAction::Release] {
        assert_eq!(t.say(&items, word.clone()).await, [SettleOutcome::AlreadyFinished; 2], "{word:?}");
    }
    before.assert_equals(&t.dump().await, "a second settlement");
}

/// PLT-2
async fn plt_2_a_word_twice_in_one_settlement_counts_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 1).await;
    let item = t.claim_one(lane).await;
    let words = vec![(put[0], abandon("no")), (put[0], SettleAction::Ack)];
    let said = settle_with(t.store(), item.token, words).await;
    assert_eq!(said, [SettleOutcome::Done, SettleOutcome::AlreadyFinished]);
    assert_eq!(t.whereabouts().await[&put[0].0], ["waiting"]);
}

/// PLT-2
async fn plt_2_an_unknown_item_is_not_found(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 3).await;
    let (mine, theirs) = (t.claim_one(lane).await, t.claim_one(lane).await);
    let before = t.dump().await;
    let strangers = [theirs.message.id, put[2], MessageId(4_711)];
    let words = strangers.map(|id| (id, SettleAction::Ack)).to_vec();
    let said = settle_with(t.store(), mine.token, words).await;
    assert_eq!(said, [SettleOutcome::NotFound; 3]);
    before.assert_equals(&t.dump().await, "a word about somebody else's items");
}

/// PLT-2
async fn plt_2_an_unknown_claim_is_lost(t: &Bench) {
    let put = t.put("orders", 1).await;
    let said = settle_with(t.store(), Token::fresh(), vec![(put[0], SettleAction::Ack)]).await;
    assert_eq!(said, [SettleOutcome::LostClaim]);
}

/// PLT-2
async fn plt_2_a_reaped_item_is_lost_and_a_settled_one_finished(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.say(&items[..1], SettleAction::Ack).await;
    t.advance(LEASE).await;
    assert_eq!(t.reap().await.returned, 1);
    let said = t.say(&items, SettleAction::Ack).await;
    assert_eq!(said, [SettleOutcome::AlreadyFinished, SettleOutcome::LostClaim]);
}

/// PLT-2: work done while nobody else took it is not done again.
async fn plt_2_a_token_holds_until_it_is_reaped(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 1).await;
    let item = t.claim_one(lane).await;
    t.advance(LEASE * 3).await;
    assert_eq!(t.ack(&item).await, SettleOutcome::Done);
    assert_eq!(t.reap().await.claims, 0);
}

/// PLT-2: batches; one lost claim does not spoil the others.
async fn plt_2_many_claims_are_settled_in_one_call(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 6).await;
    let mut claims = Vec::new();
    for _ in 0..3 {
        claims.push(t.claim(lane, 2).await);
    }
    let mut settlements: Vec<Settlement> = claims
        .iter()
        .map(|items| Settlement {
            token: items[0].token.clone(),
            words: ids(items).into_iter().map(|id| (id, SettleAction::Ack)).collect(),
        })
        .collect();
    settlements[1].token = Token::fresh();
    let said = t.store().settle(settlements, None, SEED).await.unwrap();
    let done = vec![SettleOutcome::Done; 2];
    assert_eq!(said, [done.clone(), vec![SettleOutcome::LostClaim; 2], done], "in the order given");
    assert_eq!(t.whereabouts().await.len(), 2);
}

/// PLT-15: a worker of one topic cannot settle another's items.
async fn items_of_another_lane_are_not_found(t: &Bench) {
    let (a, b) = (t.lane("a").await, t.lane("b").await);
    t.put("a", 1).await;
    let item = t.claim_one(a).await;
    let settlement =
        || Settlement { token: item.token.clone(), words: vec![(item.message.id, SettleAction::Ack)] };
    let before = t.dump().await;
    let said = t.store().settle(vec![settlement()], Some(b), SEED).await.unwrap();
    assert_eq!(said, [[SettleOutcome::NotFound]]);
    before.assert_equals(&t.dump().await, "a word from another lane");
    let said = t.store().settle(vec![settlement()], Some(a), SEED).await.unwrap();
    assert_eq!(said, [[SettleOutcome::Done]]);
}

/// PLT-5: 1 s, 2 s, 4 s … as the rule says, counted by attempts.
async fn plt_5_an_abandoned_item_waits_by_the_policy(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 1).await;
    for attempt in 1..=5 {
        let item = t.claim_one(lane).await;
        assert_eq!(item.item.attempt(), attempt);
        t.say(&[item], abandon("no")).await;
        let wait = Backoff::default().wait(attempt, SEED ^ put[0].0.unsigned_abs()).unwrap();
        let due = t.ints("select due_at, attempts, unstarted from punctual.work").await;
        let expected = t.now().await.plus(wait).as_micros();
        assert_eq!(due, [[Some(expected), Some(i64::from(attempt)), Some(0)]]);
        t.advance(wait).await;
    }
}

/// PLT-5: a provider's Retry-After wins when longer.
async fn plt_5_a_retry_after_is_exact_and_a_not_before_wins_when_longer(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 4).await;
    let items = t.claim(lane, 4).await;
    let now = t.now().await;
    let retries = [
        Retry::After(seconds(0)),
        Retry::After(seconds(3_600)),
        Retry::NotBefore(seconds(120)),
        Retry::NotBefore(std::time::Duration::from_millis(1)),
    ];
    for (item, retry) in items.iter().zip(retries) {
        let word = SettleAction::Abandon { error: "no".into(), retry };
        t.say(std::slice::from_ref(item), word).await;
    }
    let rows = t.ints("select due_at from punctual.work order by message_id").await;
    let due: Vec<i64> = rows.iter().map(|row| row[0].unwrap() - now.as_micros()).collect();
    assert_eq!(due[..3], [0, 3_600_000_000, 120_000_000]);
    assert!((900_000..=1_000_000).contains(&due[3]), "the policy's second wins: {}", due[3]);
}

/// PLT-5: explicit steps, then hold.
async fn plt_5_after_its_last_step_an_item_is_held(t: &Bench) {
    let lane = t.lane_with("orders", json!({"backoff": ["5m", "15m"]})).await;
    t.put("orders", 1).await;
    for minutes in [5, 15] {
        let item = t.claim_one(lane).await;
        t.say(&[item], abandon("no")).await;
        t.advance(seconds(minutes * 60 * 9 / 10 - 1)).await;
        assert!(t.claim(lane, 1).await.is_empty(), "at most a tenth earlier");
        t.advance(seconds(minutes * 60 / 10 + 1)).await;
    }
    let item = t.claim_one(lane).await;
    t.say(&[item], abandon("no")).await;
    assert_eq!(t.whereabouts().await.into_values().collect::<Vec<_>>(), [["dead"]]);
    // An explicit retry time is stronger than steps that are used up.
    t.put("orders", 1).await;
    for _ in 0..5 {
        let item = t.claim_one(lane).await;
        let word = SettleAction::Abandon { error: "no".into(), retry: Retry::After(seconds(0)) };
        t.say(&[item], word).await;
    }
}

/// PLT-4
async fn plt_4_after_the_limit_an_item_is_dead_with_its_history(t: &Bench) {
    let lane = t.lane_with("orders", json!({"maxAttempts": 3})).await;
    let put = t.put("orders", 1).await;
    let mut ends = Vec::new();
    for n in 1..=3 {
        let item = t.claim_one(lane).await;
        assert_eq!(item.item.attempt(), n);
        t.say(&[item], abandon(&format!("error {n}"))).await;
        ends.push(t.now().await);
        t.advance(seconds(60)).await;
    }
    assert!(t.claim(lane, 10).await.is_empty(), "never retried by itself");
    let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.message.id, letter.claims), (put[0], 3));
    assert_eq!((letter.topic.as_str(), letter.error.as_str()), ("orders", "error 3"));
    assert_eq!(letter.died_at, ends[2]);
    let history: Vec<_> = letter.attempts.iter().map(|a| (a.number, a.at, a.error.as_str())).collect();
    assert_eq!(history, [(1, ends[0], "error 1"), (2, ends[1], "error 2"), (3, ends[2], "error 3")]);
    assert!(letter.attempts.iter().all(|a| a.owner == "tester" && a.outcome == "abandoned"));
}

/// PLT-2: fail is final until replayed.
async fn plt_2_a_failed_item_is_dead_at_once(t: &Bench) {
    let lane = t.lane("orders").await;
    let put = t.put("orders", 2).await;
    let items = t.claim(lane, 2).await;
    t.say(&items[..1], fail("unknown recipient")).await;
    t.advance(seconds(86_400)).await;
    let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].message.id), (1, put[0]));
    assert_eq!(letters[0].error, "unknown recipient");
    assert_eq!(letters[0].attempts[0].outcome, "failed");
    assert_eq!(t.whereabouts().await[&put[1].0], ["in flight"]);
}

async fn a_released_item_is_as_if_never_claimed(t: &Bench) {
    let lane = t.lane("orders").await;
    let due = t.now().await.minus(seconds(30));
    t.enqueue(vec![message("orders"), message("orders").due_at(due), message("orders").key("k")]).await;
    let work = t.texts("select * from punctual.work order by message_id").await;
    let items = t.claim(lane, 10).await;
    t.advance(seconds(5)).await;
    t.say(&items, SettleAction::Release).await;
    assert_eq!(t.texts("select * from punctual.work order by message_id").await, work);
    assert_eq!(t.count("select count(*) from punctual.attempt").await, 0);
    assert_eq!(t.claim(lane, 10).await[0].item.attempt(), 1);
}

async fn a_released_retry_keeps_its_time_and_attempts(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 1).await;
    let item = t.claim_one(lane).await;
    t.say(&[item], abandon("no")).await;
    let work = t.ints("select due_at, attempts, unstarted from punctual.work").await;
    t.advance(seconds(2)).await;
    let item = t.claim_one(lane).await;
    t.say(&[item], SettleAction::Release).await;
    assert_eq!(t.ints("select due_at, attempts, unstarted from punctual.work").await, work);
}

async fn an_error_text_is_cut_and_cleaned(t: &Bench) {
    let lane = t.lane("orders").await;
    t.put("orders", 1).await;
    let item = t.claim_one(lane).await;
    let error = format!("nul\0 {}", "ü".repeat(5_000));
    assert_eq!(t.say(&[item], fail(&error)).await, [SettleOutcome::Done]);
    let letters = t.store().dead_letters(TENANT, DeadLetterFilter::default(), 1).await.unwrap();
    assert!(letters[0].error.starts_with("nul ü"));
    assert_eq!(letters[0].error.chars().count(), 4_000);
}
