//! The keeper of the inbox: forgets messages whose last attempt ended long ago, and reports stuck ones.

use crate::base::error::Result;
use crate::base::limits;
use crate::database::store::Store;
use crate::queue::run::gauge;
use crate::queue::run::loop_health::LoopBody;
use crate::queue::store::inbox::InboxRetention;
use std::time::Duration;

/// Between two steps of a pass, so that handlers do not notice it.
const STEP_PAUSE: Duration = Duration::from_millis(50);

/// How the inbox is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxSettings {
    /// How long processed and failed messages are remembered: as long as a sender may deliver again. Dead
    /// ones stay for the retention of messages, if that is longer.
    pub retention: Duration,
    /// A message in progress this far past its lease is stuck.
    pub stuck_after: Duration,
    /// How often a pass begins.
    pub every: Duration,
}

impl Default for InboxSettings {
    fn default() -> Self {
        Self {
            retention: limits::INBOX_RETENTION,
            stuck_after: limits::INBOX_STUCK_AFTER,
            every: limits::INBOX_EVERY,
        }
    }
}

/// The loop that keeps the inbox.
#[derive(Debug)]
pub struct InboxPruner {
    store: Store,
    settings: InboxSettings,
    retention: InboxRetention,
    rest: Duration,
}

impl InboxPruner {
    /// A keeper with these settings, which keeps dead messages for `message_retention` at least.
    #[must_use]
    pub fn new(store: Store, settings: InboxSettings, message_retention: Duration) -> Self {
        let dead = settings.retention.max(message_retention);
        let retention = InboxRetention { finished: settings.retention, dead };
        Self { store, settings, retention, rest: settings.every }
    }

    /// A whole pass, at once; answers how many messages were forgotten.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn pass(&mut self) -> Result<u64> {
        let mut forgotten = 0;
        loop {
            match self.step().await? {
                0 => return Ok(forgotten),
                n => forgotten += n,
            }
        }
    }

    async fn step(&self) -> Result<u64> {
        let forgotten = self.store.prune_inbox(self.retention).await?;
        gauge::count_pruned_inbox(forgotten);
        Ok(forgotten)
    }

    async fn look_for_stuck(&self) -> Result<()> {
        let counts = self.store.count_inbox(self.settings.stuck_after).await?;
        if counts.stuck > 0 {
            tracing::warn!(target: "punctual", stuck = counts.stuck,
                "messages in the inbox are long past their lease and were not delivered again");
        }
        Ok(())
    }
}

impl LoopBody for InboxPruner {
    async fn tick(&mut self) -> Result<()> {
        let more = self.step().await? > 0;
        if !more {
            self.look_for_stuck().await?;
        }
        self.rest = if more { STEP_PAUSE } else { self.settings.every };
        Ok(())
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.rest).await;
    }
}
