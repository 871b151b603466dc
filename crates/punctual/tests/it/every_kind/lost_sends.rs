//! Deliveries whose sends were lost in crashes, and which are not sent again.

use crate::bench::{Bench, seconds};
use crate::every_kind::{Desk, Kind};
use punctual::base::limits::ATTEMPTS_DEFAULT;
use punctual::delivery::rules::channel::ChannelPolicy;
use punctual::delivery::rules::delivery::DeliveryStatus;
use punctual::delivery::store::entries::actions::{ActionOutcome, EntryAction};
use punctual::queue::rules::attempt::RetryPolicy;

cases![
    ntf_4_a_send_that_is_lost_too_often_is_uncertain_only_without_the_key,
    ntf_4_a_send_that_is_lost_at_its_entrys_end_is_uncertain_only_without_the_key,
];

const SEED: u64 = 7;

impl Desk {
    /// Loses the next send: its process is gone before the channel answers, and the reaper finds its claim.
    async fn lose_send(&self, t: &Bench) {
        let taken = self.mailbox.messages().len();
        self.mailbox.never_answer(true);
        tokio::select! {
            done = self.engine.tick(1_000) => panic!("a tick ends without its channel's answer: {done:?}"),
            () = self.mailbox.wait_for(taken + 1) => {}
        }
        self.mailbox.never_answer(false);
        // The tick is gone, and its hold of the clock would last for 30 s.
        t.texts("update punctual.clock set held_until = 0 where id = 1").await;
        self.move_clock(t, 3_600).await;
    }

    async fn reap(&self, t: &Bench) {
        self.engine.store().reap(SEED).await.unwrap();
        self.move_clock(t, 3_600).await;
    }

    /// Moves the clock, and does nothing of what becomes due.
    async fn move_clock(&self, t: &Bench, by: u64) {
        self.engine.travel(t.now().await.plus(seconds(by)), false).await.unwrap();
    }

    /// The status of the only delivery, and its error.
    async fn ending(&self) -> (DeliveryStatus, String) {
        let one = self.log().await.remove(0);
        (one.status, one.error.unwrap_or_default())
    }
}

/// A desk whose provider takes our key, or does not.
async fn desk(t: &Bench, kind: Kind, takes_key: bool) -> Desk {
    // A sender gives up by its channel's patience; the reaper, which knows no channels, by a queue's.
    let patience = Some(RetryPolicy { max_attempts: 1_000, ..RetryPolicy::default() });
    let desk = Desk::open(t, kind, ChannelPolicy { patience, ..ChannelPolicy::default() }).await;
    if takes_key {
        desk.mailbox.take_keys();
    }
    desk.event("1").await;
    desk
}

/// What a delivery that may have gone out and is given up is called.
const fn given_up(takes_key: bool) -> DeliveryStatus {
    if takes_key { DeliveryStatus::Failed } else { DeliveryStatus::Uncertain }
}

/// NTF-4: the reaper gives up what was lost as often as a queue's item is tried. Where the provider takes our
/// key the delivery has failed, and a retry of its entry sends it under the same key.
async fn ntf_4_a_send_that_is_lost_too_often_is_uncertain_only_without_the_key(t: &Bench) {
    for kind in Kind::ALL {
        for takes_key in [true, false] {
            let t = &Bench::on(t.backend).await;
            let desk = desk(t, kind, takes_key).await;
            for _ in 0..ATTEMPTS_DEFAULT {
                desk.lose_send(t).await;
                desk.reap(t).await;
            }
            let (status, said) = desk.ending().await;
            assert_eq!(status, given_up(takes_key), "{kind:?}, the key is taken: {takes_key}: {said}");
            assert!(said.contains("lost too often; it may have gone out"), "{kind:?}: {said}");
            desk.tick().await;
            let sends = desk.keys().len();
            assert_eq!(
                sends, ATTEMPTS_DEFAULT as usize,
                "{kind:?}: what was given up is not sent again by itself"
            );
            if takes_key {
                assert_eq!(desk.change(EntryAction::Retry).await, ActionOutcome::Done, "{kind:?}");
                desk.tick().await;
                assert_eq!(desk.ending().await.0, DeliveryStatus::Sent, "{kind:?}");
                let (keys, key) = (desk.keys(), desk.log().await[0].idempotency_key.clone());
                assert_eq!(keys, vec![key; sends + 1], "{kind:?}: the provider sees one message");
            }
        }
    }
}

/// NTF-4: an entry that ends while its send is lost stops that send, and the delivery is called what it is.
async fn ntf_4_a_send_that_is_lost_at_its_entrys_end_is_uncertain_only_without_the_key(t: &Bench) {
    for kind in Kind::ALL {
        for takes_key in [true, false] {
            let t = &Bench::on(t.backend).await;
            let desk = desk(t, kind, takes_key).await;
            desk.lose_send(t).await;
            assert_eq!(desk.change(EntryAction::Cancel).await, ActionOutcome::Done, "{kind:?}");
            desk.reap(t).await;
            desk.tick().await;
            let (status, said) = desk.ending().await;
            assert_eq!(status, given_up(takes_key), "{kind:?}, the key is taken: {takes_key}: {said}");
            assert_eq!(said, "its send was lost, and its entry has ended; it may have gone out", "{kind:?}");
            assert_eq!(desk.keys().len(), 1, "{kind:?}: nothing is sent after the end");
        }
    }
}
