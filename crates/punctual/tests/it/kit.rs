//! The test kit: a stage, a recorder, sentences about what was enqueued.

use crate::bench::{Bench, TENANT, message, seconds};
use punctual::testing::{Recorder, Stage};
use punctual::{HandlerError, NewMessage, NewTimer, Tenant};
use serde_json::json;
use std::time::Duration;

cases![
    plt_28_a_stage_does_what_is_due_and_nothing_else,
    plt_28_a_recorder_keeps_what_it_was_given_and_fails_when_told,
    plt_28_a_sentence_that_is_not_true_says_what_was_enqueued,
    plt_28_a_host_transaction_is_drained_too,
    plt_28_a_failing_store_leaves_nothing_half_done,
];

async fn stage(t: &Bench, recorder: &Recorder) -> Stage {
    Stage::on(t.backend).handler("orders", recorder.clone()).open().await.unwrap()
}

/// PLT-28
async fn plt_28_a_stage_does_what_is_due_and_nothing_else(t: &Bench) {
    let orders = Recorder::new();
    let stage = stage(t, &orders).await;
    let engine = stage.engine();
    let start = stage.now().await.unwrap();
    engine.enqueue_one(TENANT, NewMessage::new("orders", "placed", "0")).await.unwrap();
    for n in [2, 1, 3] {
        let timer = NewTimer::after(seconds(n * 60), "orders", n.to_string());
        engine.schedule_one(TENANT, timer).await.unwrap();
    }
    assert!(orders.works().is_empty(), "nothing happens by itself");
    assert_eq!(stage.drain().await.unwrap().handled, 1);
    assert_eq!(orders.payloads(), ["0"]);
    assert_eq!(stage.advance(seconds(120)).await.unwrap().handled, 2);
    assert_eq!(orders.payloads(), ["0", "1", "2"], "in the order they were due");
    assert_eq!(orders.works()[1].due_at, start.plus(seconds(60)));
    assert_eq!(stage.now().await.unwrap(), start.plus(seconds(120)));
    assert_eq!(stage.drain().await.unwrap().handled, 0);
}

/// PLT-28
async fn plt_28_a_recorder_keeps_what_it_was_given_and_fails_when_told(t: &Bench) {
    let orders = Recorder::new();
    let stage = stage(t, &orders).await;
    orders.fail_next(2, "the mail server is away");
    orders.next(Err(HandlerError::fail("no such customer")));
    let id = stage.engine().enqueue_one(TENANT, message("orders")).await.unwrap();
    assert_eq!(stage.drain().await.unwrap().handler_failures, 1);
    stage.advance(Duration::from_secs(3_600)).await.unwrap();
    let attempts: Vec<u32> = orders.works().iter().map(|work| work.attempt).collect();
    assert_eq!((orders.ids(), attempts), (vec![id; 3], vec![1, 2, 3]));
    let dead = stage.engine().store().dead_letters(TENANT, Default::default(), 9).await.unwrap();
    assert_eq!(dead[0].error, "no such customer");
    orders.clear();
    assert!(orders.works().is_empty());
}

async fn complaint(sentence: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(sentence).await.expect_err("this sentence is not true").into_panic();
    panic.downcast_ref::<String>().expect("it panics with a text").clone()
}

/// PLT-28
async fn plt_28_a_sentence_that_is_not_true_says_what_was_enqueued(t: &Bench) {
    let stage = stage(t, &Recorder::new()).await;
    let nothing = stage.assert_enqueued("mails");
    let said = complaint(async { drop(nothing.once().await) }).await;
    assert_eq!(
        said,
        "1 message to `mails` should have been enqueued, but 0 were.\nNothing was enqueued at all."
    );
    let welcome = NewMessage::new("mails", "welcome", r#"{"to": "ada", "n": 1}"#).key("ada");
    stage.engine().enqueue(TENANT, vec![welcome.clone(), welcome, message("orders")]).await.unwrap();
    let mails = || stage.assert_enqueued("mails").with_kind("welcome");
    assert_eq!(mails().with_key("ada").count(2).await.len(), 2);
    mails().with_payload(json!({"n": 1, "to": "ada"})).count(2).await;
    mails().with_key("bob").never().await;
    mails().with_correlation_id("story").never().await;
    stage.assert_enqueued("orders").once().await;
    stage.drain().await.unwrap();
    stage.assert_enqueued("orders").once().await;
    let wrong = mails().with_key("ada");
    let said = complaint(async { drop(wrong.once().await) }).await;
    let expected = [
        "1 message to `mails` with kind `welcome` with key `ada` should have been enqueued, but 2 were.",
        "Those:",
        "kind `welcome`, key `ada`: {\"to\": \"ada\", \"n\": 1}",
        "Enqueued besides:",
        "to `orders`, kind `happened`: {}",
    ];
    for part in expected {
        assert!(said.contains(part), "`{part}` should be in: {said}");
    }
}

/// PLT-28, PLT-12: what another connection wrote is found as well.
async fn plt_28_a_host_transaction_is_drained_too(t: &Bench) {
    let orders = Recorder::new();
    let stage = stage(t, &orders).await;
    let host = punctual::Store::open(stage.url(), 2).unwrap();
    host.use_clock(punctual::ClockMode::Manual, false).await.unwrap();
    host.enqueue(Tenant::DEFAULT, vec![message("orders")]).await.unwrap();
    assert_eq!(stage.drain().await.unwrap().handled, 1);
    stage.assert_enqueued("orders").once().await;
}

/// PLT-28
async fn plt_28_a_failing_store_leaves_nothing_half_done(t: &Bench) {
    let stage = stage(t, &Recorder::new()).await;
    stage.engine().store().declare_queue(TENANT, "orders").await.unwrap();
    let broken = stage.failing_at(1).enqueue(TENANT, vec![message("orders").id("shop", "1")]).await;
    assert!(broken.unwrap_err().to_string().contains("a planned fault"));
    stage.assert_enqueued("orders").never().await;
}
