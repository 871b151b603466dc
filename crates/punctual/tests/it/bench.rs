//! What a case works at: a temporary store, and short words for what cases do all the time.

use crate::dump::{Dump, first_column};
use punctual::NewMessage;
use punctual::base::clock::Timestamp;
use punctual::base::id::{LaneId, MessageId, Token};
use punctual::base::tenant::Tenant;
use punctual::database::store::Store;
use punctual::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use punctual::delivery::store::entries::replay::ReplayMode;
use punctual::flow::rules::public_id::PublicId;
use punctual::flow::store::entries::history::ChangeAuthor;
use punctual::queue::rules::claim;
use punctual::queue::rules::share::LaneQuota;
use punctual::queue::store::claims::{ClaimRequest, ClaimedItem};
use punctual::queue::store::messages::EnqueueOutcome;
use punctual::queue::store::reap::ReapOutcome;
use punctual::queue::store::settle::{SettleAction, SettleOutcome, Settlement};
use punctual::testing::place::Rows;
use punctual::testing::{Backend, TemporaryStore};
use std::collections::BTreeMap;
use std::time::Duration;

/// The lease of a claim that does not say.
/// Work of the pipeline, in lanes of entries and deliveries.
pub const WORK_BESIDE_MESSAGES: &str = "select count(*) from punctual.work w \
    join punctual.lane l on l.id = w.lane_id where l.purpose <> 'dispatch'";

pub const LEASE: Duration = Duration::from_secs(30);
/// The tenant of everything that does not say.
pub const TENANT: Tenant = Tenant::DEFAULT;
/// Jitter is drawn from this.
pub const SEED: u64 = 7;

pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub struct Bench {
    pub place: TemporaryStore,
    pub backend: Backend,
}

impl Bench {
    pub async fn on(backend: Backend) -> Self {
        let place = TemporaryStore::new(backend).await.expect("a temporary store can be made");
        Self { place, backend }
    }

    pub async fn sqlite() -> Self {
        Self::on(Backend::Sqlite).await
    }

    pub async fn postgres() -> Self {
        Self::on(Backend::Postgres).await
    }

    pub const fn store(&self) -> &Store {
        self.place.store()
    }

    pub async fn another(&self) -> Store {
        self.place.another().await.unwrap()
    }

    pub async fn now(&self) -> Timestamp {
        self.store().now().await.unwrap()
    }

    pub async fn advance(&self, by: Duration) -> Timestamp {
        self.place.advance(by).await.unwrap()
    }

    /// The topic's own lane.
    pub async fn lane(&self, topic: &str) -> LaneId {
        self.store().declare_queue(TENANT, topic).await.unwrap().id
    }

    /// The topic's own lane, with these settings.
    pub async fn lane_with(&self, topic: &str, settings: serde_json::Value) -> LaneId {
        let change = settings.as_object().unwrap().clone();
        self.store().set_queue(TENANT, topic, change).await.unwrap().id
    }

    pub async fn pause(&self, topic: &str, paused: bool) {
        self.lane_with(topic, serde_json::json!({ "paused": paused })).await;
    }

    pub async fn enqueue(&self, messages: Vec<NewMessage>) -> Vec<MessageId> {
        let done = self.store().enqueue(TENANT, messages).await.unwrap();
        done.iter().map(|d| d.id().expect("each message is new")).collect()
    }

    /// `n` plain messages.
    pub async fn put(&self, topic: &str, n: usize) -> Vec<MessageId> {
        self.enqueue((0..n).map(|_| message(topic)).collect()).await
    }

    /// Messages of these keys, in this order.
    pub async fn put_keyed(&self, topic: &str, keys: &[&str]) -> Vec<MessageId> {
        self.enqueue(keys.iter().map(|k| message(topic).key(*k)).collect()).await
    }

    pub async fn claim(&self, lane: LaneId, quota: usize) -> Vec<ClaimedItem> {
        claim_from(self.store(), lane, quota).await
    }

    /// Claims exactly one item.
    pub async fn claim_one(&self, lane: LaneId) -> ClaimedItem {
        let mut items = self.claim(lane, 1).await;
        assert_eq!(items.len(), 1, "one item should be claimable");
        items.remove(0)
    }

    /// Says the same word about each item of one claim.
    pub async fn say(&self, items: &[ClaimedItem], word: SettleAction) -> Vec<SettleOutcome> {
        let token = items[0].token.clone();
        settle_with(self.store(), token, items.iter().map(|i| (i.message.id, word.clone())).collect()).await
    }

    pub async fn ack(&self, item: &ClaimedItem) -> SettleOutcome {
        self.say(std::slice::from_ref(item), SettleAction::Ack).await[0]
    }

    pub async fn reap(&self) -> ReapOutcome {
        self.store().reap(SEED).await.unwrap()
    }

    pub async fn dump(&self) -> Dump {
        Dump::of(&self.place, self.backend).await
    }

    /// Integers of a statement in PostgreSQL's words.
    pub async fn ints(&self, sql: &str) -> Vec<Vec<Option<i64>>> {
        let rows = self.texts(sql).await;
        let int = |v: Option<String>| v.map(|v| v.parse().unwrap());
        rows.into_iter().map(|row| row.into_iter().map(int).collect()).collect()
    }

    /// Rows of a statement in PostgreSQL's words.
    pub async fn texts(&self, sql: &str) -> Rows {
        self.all_texts(&[sql]).await.remove(0)
    }

    /// Rows of several statements in PostgreSQL's words.
    pub async fn all_texts(&self, sql: &[&str]) -> Vec<Rows> {
        let words = |sql: &&str| match self.backend {
            Backend::Sqlite => punctual::database::dialect::for_sqlite(sql),
            Backend::Postgres => (*sql).to_owned(),
        };
        let sql: Vec<String> = sql.iter().map(words).collect();
        self.place.sql(&sql).await.unwrap()
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.ints(sql).await[0][0].unwrap()
    }

    /// Where each message is that is not done: in as many places as it has words.
    pub async fn whereabouts(&self) -> BTreeMap<i64, Vec<&'static str>> {
        let mut places: BTreeMap<i64, Vec<&'static str>> = BTreeMap::new();
        let tables = [
            "select message_id from punctual.work",
            "select message_id from punctual.follower",
            "select message_id from punctual.dead_letter",
            "select coalesce(open, items) from punctual.claim where finished_at is null",
        ];
        let rows = self.all_texts(&tables).await;
        for (place, rows) in ["waiting", "following", "dead"].into_iter().zip(&rows) {
            for id in first_column(rows) {
                places.entry(id.parse().unwrap()).or_default().push(place);
            }
        }
        for items in first_column(&rows[3]) {
            for item in claim::read(&items).unwrap() {
                places.entry(item.message().0).or_default().push("in flight");
            }
        }
        places
    }

    /// No message is in two places, and no follower waits for a head that is gone.
    pub async fn assert_sound(&self) {
        let places = self.whereabouts().await;
        for (message, places) in &places {
            assert_eq!(places.len(), 1, "message {message} should be in one place, but is {places:?}");
        }
        let heads = "select f.message_id, s.head from punctual.follower f left join punctual.sequence s \
            on s.lane_id = f.lane_id and s.key = f.key";
        for row in self.ints(heads).await {
            let (follower, head) = (row[0].unwrap(), row[1]);
            let head = head.unwrap_or_else(|| panic!("follower {follower} should have a head"));
            let place = places.get(&head);
            assert!(place.is_some(), "follower {follower} waits for {head}, which is done");
            assert_ne!(place, Some(&vec!["following"]), "{head} should be head, not a follower");
        }
    }
}

/// The person who changes entries in tests.
pub fn author() -> ChangeAuthor {
    ChangeAuthor::new("sue", "asked for")
}

/// A replay that is carried out.
pub fn replay() -> ReplayMode {
    ReplayMode::Real(author())
}

/// Cancels or deletes a survey, as a person does.
pub async fn change(
    store: &Store,
    tenant: Tenant,
    id: PublicId,
    action: EntryAction,
) -> punctual::Result<ActionOutcome> {
    let name = EntryReference::PublicId(id);
    store.change_entry(tenant, EntryActionRequest { name, action, author: author() }).await
}

/// A plain message.
pub fn message(topic: &str) -> NewMessage {
    NewMessage::new(topic, "happened", "{}")
}

pub fn wish(takes: &[(LaneId, usize)]) -> ClaimRequest {
    let takes =
        takes.iter().map(|(lane, quota)| LaneQuota { lane: *lane, since: Timestamp::MIN, quota: *quota });
    ClaimRequest { owner: "tester".into(), lease: LEASE, takes: takes.collect() }
}

pub async fn claim_from(store: &Store, lane: LaneId, quota: usize) -> Vec<ClaimedItem> {
    store.claim(wish(&[(lane, quota)])).await.unwrap().items
}

pub async fn settle_with(
    store: &Store,
    token: Token,
    words: Vec<(MessageId, SettleAction)>,
) -> Vec<SettleOutcome> {
    let all = store.settle(vec![Settlement { token, words }], None, SEED).await.unwrap();
    all.into_iter().next().unwrap()
}

pub fn ids(items: &[ClaimedItem]) -> Vec<MessageId> {
    items.iter().map(|i| i.message.id).collect()
}

pub fn new_ids(done: &[EnqueueOutcome]) -> Vec<MessageId> {
    let new = |d: &EnqueueOutcome| {
        if let EnqueueOutcome::New(id) = d { Some(*id) } else { None }
    };
    done.iter().filter_map(new).collect()
}

pub fn abandon(error: &str) -> SettleAction {
    SettleAction::Abandon { error: error.into(), retry: punctual::queue::rules::attempt::Retry::Policy }
}

pub fn fail(error: &str) -> SettleAction {
    SettleAction::Fail { error: error.into() }
}
