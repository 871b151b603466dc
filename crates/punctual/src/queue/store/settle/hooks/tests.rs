//! A hook of the tests' own is called for every settlement and reaping that it wants, and for no other.

use super::*;
use crate::base::id::{LaneId, MessageId, Token};
use crate::base::tenant::Tenant;
use crate::database::clock::ClockMode;
use crate::database::store::Store;
use crate::queue::rules::attempt::Retry;
use crate::queue::rules::message::NewMessage;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::claims::ClaimRequest;
use crate::queue::store::settle::{SettleAction, Settlement};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

type EndingLog = Arc<Mutex<Vec<(MessageId, ItemEnding)>>>;

/// Wants claims of one message alone.
#[derive(Debug)]
struct Listener(EndingLog);

impl SettlementHook for Listener {
    fn component(&self) -> Component {
        Component::Outbox
    }

    fn condition(&self) -> &'static str {
        "c.first_id = c.last_id"
    }

    fn before_write<'t>(&'t self, _: &'t mut Tx, settled: &'t mut SettledItems<'_>) -> TxFuture<'t, ()> {
        for (_, ending) in &mut settled.items {
            if *ending == ItemEnding::Released {
                *ending = ItemEnding::Done(Some("changed".to_owned()));
            }
        }
        Box::pin(async { Ok(()) })
    }

    fn after_write<'t>(&'t self, _: &'t mut Tx, settled: &'t SettledItems<'_>) -> TxFuture<'t, ()> {
        let heard = settled.items.iter().map(|(item, ending)| (item.message(), ending.clone()));
        self.0.lock().unwrap().extend(heard);
        Box::pin(async { Ok(()) })
    }
}

struct Queue {
    store: Store,
    heard: EndingLog,
    lane: LaneId,
}

impl Queue {
    async fn with(messages: usize) -> Self {
        let heard = EndingLog::default();
        let store = Store::connect("sqlite::memory:", 1).unwrap();
        let store = store.with(SettlementHooks::new(vec![Box::new(Listener(Arc::clone(&heard)))]));
        store.migrate().await.unwrap();
        store.use_clock(ClockMode::Manual, false).await.unwrap();
        let lane = store.declare_queue(Tenant::DEFAULT, "t").await.unwrap().id;
        let new = (0..messages).map(|_| NewMessage::new("t", "k", "{}")).collect();
        store.enqueue(Tenant::DEFAULT, new).await.unwrap();
        Self { store, heard, lane }
    }

    async fn claim(&self, quota: usize) -> (Token, Vec<MessageId>) {
        let takes = vec![LaneQuota { lane: self.lane, since: Timestamp::MIN, quota }];
        let catch = self.store.claim(ClaimRequest { owner: "o".into(), lease: LEASE, takes }).await.unwrap();
        (catch.items[0].token.clone(), catch.items.iter().map(|c| c.message.id).collect())
    }

    async fn settle(&self, token: Token, ids: &[MessageId], word: SettleAction) {
        let words = ids.iter().map(|id| (*id, word.clone())).collect();
        self.store.settle(vec![Settlement { token, words }], None, 0).await.unwrap();
    }

    fn heard(&self) -> Vec<(MessageId, ItemEnding)> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

#[tokio::test]
async fn a_hook_hears_how_items_end() {
    let queue = Queue::with(3).await;
    let (token, ids) = queue.claim(1).await;
    queue.settle(token, &ids, SettleAction::Done { output: "1".into() }).await;
    assert_eq!(queue.heard(), [(ids[0], ItemEnding::Done(Some("1".into())))]);
    let (token, ids) = queue.claim(1).await;
    queue.settle(token, &ids, SettleAction::Fail { error: "no".into() }).await;
    assert_eq!(queue.heard(), [(ids[0], ItemEnding::Dead("no".into()))]);
    let (token, ids) = queue.claim(1).await;
    let retry = Retry::After(Duration::from_secs(1));
    queue.settle(token, &ids, SettleAction::Abandon { error: "later".into(), retry }).await;
    let heard = queue.heard();
    assert!(
        matches!(&heard[..], [(id, ItemEnding::Retry { error, .. })] if *id == ids[0] && error == "later")
    );
}

#[tokio::test]
async fn a_hook_hears_of_reaped_items() {
    let queue = Queue::with(1).await;
    let (_, ids) = queue.claim(1).await;
    let past = queue.store.now().await.unwrap().plus(LEASE * 2);
    queue.store.set_clock(past).await.unwrap();
    assert_eq!(queue.store.reap(0).await.unwrap().returned, 1);
    assert!(matches!(&queue.heard()[..], [(id, ItemEnding::Retry { .. })] if *id == ids[0]));
}

#[tokio::test]
async fn a_hook_is_not_called_for_claims_that_it_does_not_want() {
    let queue = Queue::with(2).await;
    let (token, ids) = queue.claim(2).await;
    queue.settle(token, &ids, SettleAction::Ack).await;
    assert_eq!(queue.heard(), []);
}

#[tokio::test]
async fn a_hook_may_change_how_an_item_ends() {
    let queue = Queue::with(1).await;
    let (token, ids) = queue.claim(1).await;
    queue.settle(token, &ids, SettleAction::Release).await;
    assert_eq!(queue.heard(), [(ids[0], ItemEnding::Done(Some("changed".into())))]);
    let takes = vec![LaneQuota { lane: queue.lane, since: Timestamp::MIN, quota: 1 }];
    let catch = queue.store.claim(ClaimRequest { owner: "o".into(), lease: LEASE, takes }).await.unwrap();
    assert!(catch.items.is_empty(), "the queue wrote no work for it");
}

#[test]
fn a_text_is_kept_once() {
    let twice = [interned("select 1".to_owned()), interned("select 1".to_owned())];
    assert!(std::ptr::eq(twice[0], twice[1]));
}
