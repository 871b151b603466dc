//! The pruner: lets history go, a little at a time.

use crate::base::error::Result;
use crate::base::limits;
use crate::database::planted::Bug;
use crate::database::store::Store;
use crate::operate::store::prune::EntryRetention;
use crate::queue::run::loop_health::Ticks;
use std::time::Duration;

/// A pass begins this often.
const PASS_EVERY: Duration = Duration::from_secs(600);
/// Between two steps of a pass, so that the workers never notice it.
const STEP_PAUSE: Duration = Duration::from_millis(50);

/// How long each sort of history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Finished messages, unless their queue says otherwise: 30 days.
    pub messages: Duration,
    /// Notifications and the communication log, after their last event: 400 days.
    pub log: Duration,
    /// Survey entries with their answers, after their last event: 400 days.
    pub surveys: Duration,
    /// Runs of jobs, after their end: 30 days.
    pub runs: Duration,
    /// Leases, after their end: 30 days.
    pub leases: Duration,
    /// The ids of messages that were admitted once: 800 days.
    pub message_ids: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            messages: limits::MESSAGE_RETENTION,
            log: limits::ENTRY_RETENTION,
            surveys: limits::ENTRY_RETENTION,
            runs: limits::RUN_RETENTION,
            leases: limits::LEASE_RETENTION,
            message_ids: limits::ADMITTED_RETENTION,
        }
    }
}

impl RetentionSettings {
    /// Every setting with its name.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, Duration); 6] {
        [
            ("retention", self.messages),
            ("logRetention", self.log),
            ("surveyRetention", self.surveys),
            ("runRetention", self.runs),
            ("leaseRetention", self.leases),
            ("messageIdRetention", self.message_ids),
        ]
    }

    const fn entries(&self) -> EntryRetention {
        EntryRetention { surveys: self.surveys, log: self.log }
    }
}

/// The loop that prunes.
#[derive(Debug)]
pub struct Pruner {
    store: Store,
    retention: RetentionSettings,
    cursor: i64,
    /// How far the pass through the entries has got, which follows that through the messages.
    entries: Option<i64>,
    rest: Duration,
}

impl Pruner {
    /// Returns a pruner that keeps history as the settings say.
    #[must_use]
    pub const fn new(store: Store, retention: RetentionSettings) -> Self {
        Self { store, retention, cursor: 0, entries: None, rest: PASS_EVERY }
    }

    /// A whole pass, at once.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn pass(&mut self) -> Result<usize> {
        let mut dropped = 0;
        self.cursor = 0;
        loop {
            let step = self.store.prune_messages(self.cursor, self.retention.messages).await?;
            dropped += step.messages;
            self.cursor = step.cursor;
            if step.finished {
                break;
            }
        }
        while self.prune_rest().await? > 0 {}
        self.drop_orphaned().await?;
        self.prune_entries().await?;
        self.cursor = 0;
        Ok(dropped)
    }

    /// A step of each sort that has one table.
    async fn prune_rest(&self) -> Result<u64> {
        let kept = &self.retention;
        Ok(self.store.prune_rest(kept.messages, kept.message_ids).await?
            + self.store.prune_runs(kept.runs).await?
            + self.store.prune_leases(kept.leases).await?)
    }

    /// Entries that ended long ago, a step at a time.
    async fn prune_entries(&self) -> Result<()> {
        let mut cursor = 0;
        loop {
            let step = self.store.prune_entries(cursor, self.retention.entries()).await?;
            if step.finished {
                return Ok(());
            }
            cursor = step.cursor;
        }
    }

    /// Drops messages that came back, or came late, into the lanes of deleted subscriptions.
    async fn drop_orphaned(&self) -> Result<()> {
        for lane in self.store.orphaned_lanes().await? {
            while self.store.drop_orphaned(lane).await? > 0 {}
        }
        Ok(())
    }
}

impl Pruner {
    /// One step of the pass: through the messages first, then through the entries. Answers whether it was the
    /// last.
    async fn step_pass(&mut self) -> Result<bool> {
        let Some(cursor) = self.entries else {
            let step = self.store.prune_messages(self.cursor, self.retention.messages).await?;
            self.cursor = if step.finished { 0 } else { step.cursor };
            self.entries = step.finished.then_some(0);
            return Ok(false);
        };
        let step = self.store.prune_entries(cursor, self.retention.entries()).await?;
        self.entries = (!step.finished).then_some(step.cursor);
        Ok(step.finished)
    }

    /// One step through everything else; answers how many rows went.
    async fn step_beside(&self) -> Result<u64> {
        let mut dropped = self.prune_rest().await?;
        for lane in self.store.orphaned_lanes().await? {
            dropped += self.store.drop_orphaned(lane).await? as u64;
        }
        Ok(dropped)
    }
}

/// A tick is one step of each kind: it must stay short, however much there is to drop.
impl Ticks for Pruner {
    async fn tick(&mut self) -> Result<()> {
        if self.store.has(Bug::StuckLoop) {
            std::future::pending::<()>().await;
        }
        let is_last = self.step_pass().await?;
        let dropped = self.step_beside().await?;
        self.rest = if is_last && dropped == 0 { PASS_EVERY } else { STEP_PAUSE };
        Ok(())
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.rest).await;
    }
}
