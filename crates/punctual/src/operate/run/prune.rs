//! The pruner: lets history go, a little at a time.

use crate::base::component::{Component, Components};
use crate::base::error::Result;
use crate::base::limits;
use crate::database::planted_bugs::PlantedBug;
use crate::database::store::Store;
use crate::operate::store::prune::EntryRetention;
use crate::queue::run::loop_health::LoopBody;
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
    /// Whose history goes, as far as the database has their tables.
    components: Components,
    cursor: i64,
    /// How far the pass through the entries has got, which follows that through the messages.
    entries: Option<i64>,
    rest: Duration,
}

impl Pruner {
    /// Returns a pruner of all components that keeps history as the settings say.
    #[must_use]
    pub const fn new(store: Store, retention: RetentionSettings) -> Self {
        let components = Components::ALL;
        Self { store, retention, components, cursor: 0, entries: None, rest: PASS_EVERY }
    }

    /// Leaves the history of all other components alone.
    #[must_use]
    pub const fn only(mut self, components: Components) -> Self {
        self.components = components;
        self
    }

    /// Whose history goes and whose tables are there.
    async fn present(&self) -> Result<Components> {
        Ok(self.components.both(self.store.components().await?))
    }

    /// A whole pass, at once.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn pass(&mut self) -> Result<usize> {
        let present = self.present().await?;
        let mut dropped = 0;
        self.cursor = 0;
        while present.has(Component::Outbox) {
            let step = self.store.prune_messages(self.cursor, self.retention.messages).await?;
            dropped += step.messages;
            self.cursor = step.cursor;
            if step.finished {
                break;
            }
        }
        while self.prune_rest(present).await? > 0 {}
        if present.has(Component::Outbox) {
            self.drop_orphaned().await?;
        }
        if present.has(Component::Flows) {
            self.prune_entries().await?;
        }
        self.cursor = 0;
        Ok(dropped)
    }

    /// A step of each sort that has one table.
    async fn prune_rest(&self, present: Components) -> Result<u64> {
        let (kept, mut dropped) = (&self.retention, 0);
        if present.has(Component::Outbox) || present.has(Component::Access) {
            dropped += self.store.prune_rest(kept.messages, kept.message_ids).await?;
        }
        if present.has(Component::Jobs) {
            dropped += self.store.prune_runs(kept.runs).await?;
        }
        if present.has(Component::Leases) {
            dropped += self.store.prune_leases(kept.leases).await?;
        }
        Ok(dropped)
    }

    /// Drops messages that came back, or came late, into the lanes of deleted subscriptions.
    async fn drop_orphaned(&self) -> Result<()> {
        for lane in self.store.orphaned_lanes().await? {
            while self.store.drop_orphaned(lane).await? > 0 {}
        }
        Ok(())
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
}

impl Pruner {
    /// One step of the pass: through the messages first, then through the entries. Answers whether it was the
    /// last.
    async fn step_pass(&mut self, present: Components) -> Result<bool> {
        let Some(cursor) = self.entries else {
            if present.has(Component::Outbox) {
                let step = self.store.prune_messages(self.cursor, self.retention.messages).await?;
                self.cursor = if step.finished { 0 } else { step.cursor };
                self.entries = step.finished.then_some(0);
                return Ok(false);
            }
            return Ok(true);
        };
        if !present.has(Component::Flows) {
            self.entries = None;
            return Ok(true);
        }
        let step = self.store.prune_entries(cursor, self.retention.entries()).await?;
        self.entries = (!step.finished).then_some(step.cursor);
        Ok(step.finished)
    }

    /// One step through everything else; answers how many rows went.
    async fn step_beside(&self, present: Components) -> Result<u64> {
        let mut dropped = self.prune_rest(present).await?;
        if present.has(Component::Outbox) {
            // Messages that came back, or came late, into the lanes of deleted subscriptions.
            for lane in self.store.orphaned_lanes().await? {
                dropped += self.store.drop_orphaned(lane).await? as u64;
            }
        }
        Ok(dropped)
    }
}

/// A tick is one step of each kind: it must stay short, however much there is to drop.
impl LoopBody for Pruner {
    async fn tick(&mut self) -> Result<()> {
        if self.store.has(PlantedBug::StuckLoop) {
            std::future::pending::<()>().await;
        }
        let present = self.present().await?;
        let is_last = self.step_pass(present).await?;
        let dropped = self.step_beside(present).await?;
        self.rest = if is_last && dropped == 0 { PASS_EVERY } else { STEP_PAUSE };
        Ok(())
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.rest).await;
    }
}
