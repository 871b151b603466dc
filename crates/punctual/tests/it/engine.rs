//! The engine as it runs in earnest: on the system's clock, with all its loops.
//!
//! Each case is one function that runs on both databases. Nothing here waits for a fixed
//! time: a case awaits what should happen, and fails when it has not by its deadline.

/// Makes a test for each database from each case; the slow ones only in the full run.
macro_rules! live {
    (quick: [$($quick:ident),* $(,)?], slow: [$($slow:ident),* $(,)?] $(,)?) => {
        mod sqlite {
            live!(@each punctual::testing::Backend::Sqlite, [$($quick)*], [$($slow)*]);
        }
        mod postgres {
            live!(@each punctual::testing::Backend::Postgres, [$($quick)*], [$($slow)*]);
        }
    };
    (@each $backend:path, [$($quick:ident)*], [$($slow:ident)*]) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $quick() {
            super::$quick(&crate::engine::Live::on($backend).await).await;
        })*
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "slow"]
        async fn $slow() {
            super::$slow(&crate::engine::Live::on($backend).await).await;
        })*
    };
}

mod guarding;
mod handling;
mod planning;
mod sharing;
mod stopping;
mod telling;
mod turns;
mod waking;

use crate::bench::{TENANT, message};
use punctual::base::clock::monotonic;
use punctual::engine::Builder;
use punctual::queue::rules::claim;
use punctual::queue::store::dead_letters::{DeadLetter, DeadLetterFilter};
use punctual::testing::Backend;
use punctual::testing::place::{Rows, TestDatabase};
use punctual::{Engine, HandlerResult, MessageId, NewMessage, Work};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// What should happen at once has happened by then, on however busy a machine.
pub const SOON: Duration = Duration::from_secs(20);
/// How often a table is looked at for what a case awaits.
const LOOK: Duration = Duration::from_millis(10);

/// A database of one's own on the system's clock.
pub struct Live {
    place: TestDatabase,
    pub backend: Backend,
}

impl Live {
    pub async fn on(backend: Backend) -> Self {
        let place = TestDatabase::empty(backend).await.expect("a database can be made");
        Self { place, backend }
    }

    pub fn url(&self) -> &str {
        self.place.url()
    }

    /// An engine to be, which polls as seldom as it may.
    pub fn builder(&self) -> Builder {
        Engine::builder(self.url()).pool_size(4).max_polling_interval(Duration::from_secs(30))
    }

    /// An engine without handlers, as a second process would have it.
    pub async fn producer(&self) -> Engine {
        start(self.builder()).await
    }

    /// Rows of a statement in PostgreSQL's words.
    pub async fn texts(&self, sql: &str) -> Rows {
        let words = match self.backend {
            Backend::Sqlite => punctual::database::dialect::for_sqlite(sql),
            Backend::Postgres => sql.to_owned(),
        };
        self.place.sql(&[words]).await.unwrap().remove(0)
    }

    pub async fn count(&self, sql: &str) -> usize {
        self.texts(sql).await[0][0].as_deref().unwrap().parse().unwrap()
    }

    /// Awaits that a count is as it should be.
    pub async fn until_count(&self, sql: &str, wanted: usize) {
        self.until_within(sql, wanted..=wanted).await;
    }

    pub async fn until_within(&self, sql: &str, wanted: std::ops::RangeInclusive<usize>) {
        let start = monotonic();
        loop {
            let count = self.count(sql).await;
            if wanted.contains(&count) {
                return;
            }
            assert!(start.elapsed() < SOON, "{sql} should be within {wanted:?}, but is {count}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Awaits that nothing waits or is in flight, at one moment.
    pub async fn until_drained(&self) {
        self.until_count(UNDONE, 0).await;
    }

    /// Enqueues messages of the topic `t` as if each had been in a crash.
    async fn enqueue_suspects(&self, engine: &Engine, messages: Vec<NewMessage>) {
        queue(engine, "t", serde_json::json!({"paused": true})).await;
        enqueue(engine, messages).await;
        self.texts(
            "insert into punctual.work (message_id, lane_id, due_at, attempts, unstarted) \
             select message_id, lane_id, due_at - 1, 1, 1 from punctual.work",
        )
        .await;
        self.texts("delete from punctual.work where unstarted = 0").await;
        queue(engine, "t", serde_json::json!({"paused": false})).await;
        engine.wake();
    }

    /// How often each message is under a claim that settled it: once, if all is well.
    pub async fn settled(&self) -> BTreeMap<MessageId, usize> {
        let mut settled = BTreeMap::new();
        let claims = "select items, open, ending from punctual.claim where finished_at is not null";
        for row in self.texts(claims).await {
            let lost = match row[2].as_deref() {
                Some("reaped") => claim::read(row[1].as_deref().unwrap()).unwrap(),
                _ => Vec::new(),
            };
            for item in claim::read(row[0].as_deref().unwrap()).unwrap() {
                if !lost.iter().any(|l| l.message() == item.message()) {
                    *settled.entry(item.message()).or_default() += 1;
                }
            }
        }
        settled
    }
}

pub const WORK: &str = "select count(*) from punctual.work";
pub const OPEN_CLAIMS: &str = "select count(*) from punctual.claim where finished_at is null";
/// Zero when all is done or dead: one statement, or an item could slip from table to table.
pub const UNDONE: &str = "select (select count(*) from (select 1 from punctual.work limit 1) w) \
    + (select count(*) from punctual.follower) \
    + (select count(*) from punctual.claim where finished_at is null)";
pub const DEAD_LETTERS: &str = "select count(*) from punctual.dead_letter";

/// Opens an engine and starts its loops.
pub async fn start(builder: Builder) -> Engine {
    let engine = builder.open().await.unwrap();
    engine.start();
    engine
}

/// Stops an engine that has nothing left to do.
async fn stop(engine: Engine) {
    let start = monotonic();
    engine.stop(SOON).await;
    assert!(start.elapsed() < SOON, "an idle engine should stop at once");
}

/// A queue with these settings.
pub async fn queue(engine: &Engine, topic: &str, settings: serde_json::Value) {
    let change = settings.as_object().unwrap().clone();
    engine.store().set_queue(TENANT, topic, change).await.unwrap();
}

/// `n` messages whose payloads are the numbers from 0.
fn numbered(topic: &str, n: usize) -> Vec<NewMessage> {
    (0..n).map(|n| NewMessage::new(topic, "happened", n.to_string())).collect()
}

async fn enqueue(engine: &Engine, messages: Vec<NewMessage>) -> Vec<MessageId> {
    let done = engine.enqueue(TENANT, messages).await.unwrap();
    done.iter().map(|d| d.id().expect("each message is new")).collect()
}

async fn enqueue_one(engine: &Engine, topic: &str) -> MessageId {
    engine.enqueue_one(TENANT, message(topic)).await.unwrap()
}

pub async fn dead_letters(engine: &Engine) -> Vec<DeadLetter> {
    engine.store().dead_letters(TENANT, DeadLetterFilter::default(), 100).await.unwrap()
}

/// Hears what handlers say.
struct Ear<T>(mpsc::UnboundedReceiver<T>);

fn ear<T>() -> (mpsc::UnboundedSender<T>, Ear<T>) {
    let (tell, heard) = mpsc::unbounded_channel();
    (tell, Ear(heard))
}

impl<T> Ear<T> {
    async fn next_within(&mut self, limit: Duration) -> T {
        let heard = tokio::time::timeout(limit, self.0.recv()).await;
        heard.unwrap_or_else(|_| panic!("nothing was handled within {limit:?}")).expect("a handler is there")
    }

    async fn next(&mut self) -> T {
        self.next_within(SOON).await
    }

    async fn take(&mut self, n: usize) -> Vec<T> {
        let mut all = Vec::with_capacity(n);
        while all.len() < n {
            all.push(self.next().await);
        }
        all
    }

    fn is_silent(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// A handler that tells which message it was given, and is content.
fn telling(
    tell: mpsc::UnboundedSender<Work>,
) -> impl Fn(Work) -> std::future::Ready<HandlerResult> + Send + Sync + 'static {
    move |work| {
        tell.send(work).ok();
        std::future::ready(Ok(()))
    }
}
