//! The loop that tells people of events: what goes wrong beside it is its own trouble.

use super::{LOOK, Live, SOON, start, stop};
use crate::bench::TENANT;
use crate::notification::{confirm, define, template};
use punctual::base::clock::monotonic;
use punctual::{AcceptedMessage, Engine, RenderedMessage};
use std::sync::Arc;
use tokio::sync::Semaphore;

live! {
    quick: [
        ntf_2_a_letter_is_on_its_way_since_its_event_was_told,
        ntf_4_a_loop_whose_letters_cannot_be_read_pauses_and_says_so,
    ],
    slow: [],
}

/// What health says of the loop that sends.
async fn trouble(engine: &Engine) -> Option<String> {
    let health = engine.health().await;
    health.loops.into_iter().find(|of| of.name == "worker").and_then(|of| of.trouble)
}

/// Awaits that health says something of it, or nothing.
async fn until_trouble(engine: &Engine, wanted: bool) {
    let begun = monotonic();
    while trouble(engine).await.is_some() != wanted {
        assert!(begun.elapsed() < SOON, "trouble should be told: {wanted}");
        tokio::time::sleep(LOOK).await;
    }
}

/// NTF-2, NTF-4: the claim under which a letter is sent was written in one transaction with it.
async fn ntf_2_a_letter_is_on_its_way_since_its_event_was_told(live: &Live) {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let answer = move |_: Arc<RenderedMessage>| {
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.unwrap().forget();
            Ok(AcceptedMessage { message_id: None, answer: None })
        }
    };
    let engine = start(live.builder().channel("sms:slow", answer)).await;
    define(&engine, TENANT, |_| {}).await;
    template(&engine, TENANT, "sms:slow", "x").await;
    confirm(&engine, "1").await;
    let begun = "select count(*) from punctual.delivery d \
        join punctual.claim c on c.claimed_at = d.created_at and c.purpose = 'send'";
    live.until_count(begun, 1).await;
    gate.add_permits(1);
    live.until_count("select count(*) from punctual.delivery where status = 1", 1).await;
    stop(engine).await;
}

/// NTF-4: letters are read beside the loop that claims them. When that fails, they go back untried, the loop
/// pauses instead of claiming them at once again, and health says why; in the end they go out.
async fn ntf_4_a_loop_whose_letters_cannot_be_read_pauses_and_says_so(live: &Live) {
    // It has not the channel, and leaves the letter to one that has.
    let teller = start(live.builder()).await;
    define(&teller, TENANT, |_| {}).await;
    template(&teller, TENANT, "sms:late", "x").await;
    confirm(&teller, "1").await;
    live.until_count("select count(*) from punctual.delivery", 1).await;
    stop(teller).await;
    live.texts("update punctual.event_kind set document = '{' || document").await;
    let answer = |_: Arc<RenderedMessage>| async { Ok(AcceptedMessage { message_id: None, answer: None }) };
    let sender = start(live.builder().channel("sms:late", answer)).await;
    until_trouble(&sender, true).await;
    let tries = "select count(*) from punctual.delivery_attempt";
    assert_eq!(live.count(tries).await, 0, "nothing was tried");
    live.texts("update punctual.event_kind set document = substr(document, 2)").await;
    live.until_count("select count(*) from punctual.delivery where status = 1", 1).await;
    until_trouble(&sender, false).await;
    assert_eq!(live.count(tries).await, 1, "one letter went out");
    stop(sender).await;
}
