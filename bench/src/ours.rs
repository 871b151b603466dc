//! Punctual as a contender: bulk enqueue, and a drain by the real engine with one handler that does
//! nothing.
//!
//! What is asked of the engine are the two small traits [`System`] and [`Engine`]. A drain is timed
//! from the call that starts the engine's loops until the last message is *settled*, not merely
//! handled: the database holds neither due work nor a claim. Opening an engine (connecting, checking
//! the schema) is not timed. Peers are timed from their first handler call, a little in their favour.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::contender::{Contender, Extra, Step, payload};
use crate::database::Database;
use crate::raw_sqlite;

/// Longer than any measurement may wait for the engine to finish what it was given.
const PATIENCE: Duration = Duration::from_secs(600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
/// Messages per call when rows are added that are not measured.
const FILL_BATCH: usize = 10_000;

/// A message to enqueue.
#[derive(Debug, Clone)]
pub struct Message {
    /// JSON.
    pub payload: String,
    /// How far in the future it is due.
    pub delay: Duration,
}

/// Called with the payload of each message, from any thread; never fails and never waits.
pub type Handler = Arc<dyn Fn(&str) + Send + Sync>;

/// The system under test.
pub trait System: Send + Sync {
    /// An engine on a database that is empty or was used before; brings the schema up to date.
    fn open<'a>(&'a self, url: &'a str, settings: EngineSettings) -> Step<'a, Arc<dyn Engine>>;
}

/// How an engine works.
#[derive(Debug, Clone, Copy)]
pub struct EngineSettings {
    /// The largest batch it may claim.
    pub batch: usize,
    /// How many connections claim side by side.
    pub claimers: usize,
}

/// An engine that is open.
pub trait Engine: Send + Sync {
    /// Enqueues all of `messages` in one transaction, for one tenant. Tenants are numbered from 0,
    /// and made when they first appear.
    fn enqueue(&self, tenant: usize, messages: Vec<Message>) -> Step<'_, ()>;

    /// Starts the loops, with `handler` for the one topic of all messages.
    fn start(&self, handler: Handler) -> Step<'_, ()>;

    /// Whether nothing that is due waits and nothing is claimed.
    fn idle(&self) -> Step<'_, bool>;

    /// Ends the loops and closes the database. Called once, started or not.
    fn stop(&self) -> Step<'_, ()>;
}

/// Where an engine keeps its queue.
#[derive(Debug, Clone)]
pub enum Place {
    /// A database in the run's cluster.
    Postgres(Database),
    /// A file.
    Sqlite(PathBuf),
}

impl Place {
    /// The address an engine takes.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Postgres(database) => database.url(),
            Self::Sqlite(file) => format!("sqlite:{}", file.display()),
        }
    }

    /// Empties it.
    pub async fn recreate(&self) -> Result<()> {
        match self {
            Self::Postgres(database) => database.recreate().await,
            Self::Sqlite(file) => {
                raw_sqlite::remove(file);
                Ok(())
            }
        }
    }

    async fn settle(&self) -> Result<()> {
        match self {
            Self::Postgres(database) => database.settle().await,
            Self::Sqlite(file) => raw_sqlite::settle(file).await,
        }
    }

    async fn wal(&self) -> Result<Option<u64>> {
        match self {
            Self::Postgres(database) => database.wal().await.map(Some),
            Self::Sqlite(_) => Ok(None),
        }
    }
}

/// Punctual on a place.
pub struct Ours {
    /// The system under test.
    pub system: Arc<dyn System>,
    /// Where its queue is.
    pub place: Place,
    /// How its engines work.
    pub settings: EngineSettings,
}

impl Ours {
    /// An engine on our place.
    pub async fn open(&self) -> Result<Arc<dyn Engine>> {
        self.system.open(&self.place.url(), self.settings).await
    }

    async fn enqueue_all(&self, n: usize) -> Result<Duration> {
        let engine = self.open().await?;
        let batches = batches(n, self.settings.batch);
        let start = Instant::now();
        for batch in batches {
            engine.enqueue(0, batch).await?;
        }
        let took = start.elapsed();
        engine.stop().await?;
        Ok(took)
    }

    async fn drain_all(&self, n: usize) -> Result<Duration> {
        let engine = self.open().await?;
        let handled = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&handled);
        let start = Instant::now();
        engine.start(Arc::new(move |_| _ = counter.fetch_add(1, Ordering::Relaxed))).await?;
        while handled.load(Ordering::Relaxed) < n || !engine.idle().await? {
            ensure!(start.elapsed() < PATIENCE, "{handled:?} of {n} were handled, then nothing");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let took = start.elapsed();
        engine.stop().await?;
        let handled = handled.load(Ordering::Relaxed);
        ensure!(handled == n, "{handled} messages were handled, {n} were enqueued");
        Ok(took)
    }

    async fn fill_with(&self, extra: Extra) -> Result<()> {
        self.enqueue_due(extra.finished, Duration::ZERO).await?;
        self.drain_all(extra.finished).await?;
        self.enqueue_due(extra.not_due, MONTH).await?;
        self.settle().await
    }

    /// Enqueues without keeping all payloads in memory.
    async fn enqueue_due(&self, n: usize, delay: Duration) -> Result<()> {
        let engine = self.open().await?;
        for first in (0..n).step_by(FILL_BATCH) {
            let count = FILL_BATCH.min(n - first);
            engine.enqueue(0, messages(first..first + count, delay)).await?;
        }
        engine.stop().await
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        "punctual"
    }

    fn prepare(&self) -> Step<'_, ()> {
        Box::pin(async {
            self.place.recreate().await?;
            self.open().await?.stop().await
        })
    }

    fn enqueue(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.enqueue_all(n))
    }

    fn settle(&self) -> Step<'_, ()> {
        Box::pin(self.place.settle())
    }

    fn drain(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.drain_all(n))
    }

    fn wal(&self) -> Step<'_, Option<u64>> {
        Box::pin(self.place.wal())
    }

    fn fill(&self, extra: Extra) -> Step<'_, ()> {
        Box::pin(self.fill_with(extra))
    }
}

/// Messages with the numbers of `range`.
pub fn messages(range: std::ops::Range<usize>, delay: Duration) -> Vec<Message> {
    range.map(|i| Message { payload: payload(i), delay }).collect()
}

/// `n` messages that are due, cut into batches.
#[must_use]
pub fn batches(n: usize, batch: usize) -> Vec<Vec<Message>> {
    let starts = (0..n).step_by(batch.max(1));
    starts.map(|first| messages(first..n.min(first + batch), Duration::ZERO)).collect()
}
