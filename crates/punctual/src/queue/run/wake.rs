//! Wake-ups: hints that there may be work.
//!
//! In this process a wake-up is immediate. To and from other processes a wake-up travels by LISTEN/NOTIFY on
//! Postgres, coalesced: one notification stands for all that follow it within `QUIET`, because each one
//! serialises commits on the whole server. On SQLite other connections are notified by the file's change
//! counter, looked at once a second. A lost wake-up delays work until the next poll; it never loses any.

use crate::base::error::Result;
use crate::database::store::Store;
use crate::queue::run::loop_health::LoopBody;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// After a notification, the next one waits at least this long.
const QUIET: Duration = Duration::from_millis(5);
/// How often an idle process looks whether another connection wrote to a SQLite file.
const CHANGE_POLL: Duration = Duration::from_secs(1);

/// Where wake-ups are given and awaited.
#[derive(Clone, Debug, Default)]
pub struct Wake {
    here: Arc<Notify>,
    long_polls: Arc<Notify>,
    elsewhere: Arc<Notify>,
    /// Whether one came since the last look at the tables.
    fresh: Arc<AtomicBool>,
    jobs: Arc<Notify>,
    receipts: Arc<Notify>,
}

impl Wake {
    /// There may be work: wakes this process at once and others soon.
    pub fn all(&self) {
        self.here();
        self.elsewhere.notify_one();
    }

    /// There may be work: wakes only this process.
    pub fn here(&self) {
        self.fresh.store(true, Ordering::Relaxed);
        self.here.notify_one();
        self.long_polls.notify_waiters();
    }

    /// Whether a wake-up came since the last look.
    #[must_use]
    pub fn has_wake_up(&self) -> bool {
        self.fresh.load(Ordering::Relaxed)
    }

    /// A look at the tables begins: it covers all earlier wake-ups.
    pub fn forget(&self) {
        self.fresh.store(false, Ordering::Relaxed);
    }

    /// A job has changed: wakes the planner of this process at once and others soon.
    pub fn jobs(&self) {
        self.jobs.notify_one();
        self.all();
    }

    /// Receipts wait for their messages: wakes the loop that looks for them in this process at once, others
    /// soon.
    pub fn receipts(&self) {
        self.receipts.notify_one();
        self.all();
    }

    /// Waits until receipts may wait for their messages.
    pub async fn wait_for_receipts(&self) {
        self.receipts.notified().await;
    }

    /// Another process has written something, whatever it was.
    fn heard_elsewhere(&self) {
        self.here();
        self.jobs.notify_one();
        self.receipts.notify_one();
    }

    /// Waits until a job may have changed.
    pub async fn job_changed(&self) {
        self.jobs.notified().await;
    }

    /// Waits for the next wake-up; one that came since the last wait counts.
    pub async fn wait(&self) {
        self.here.notified().await;
    }

    /// Waits with any number of others for the next wake-up from now on.
    pub async fn wait_shared(&self) {
        self.long_polls.notified().await;
    }
}

/// The loop that notifies other processes.
#[derive(Debug)]
pub struct WakeNotifier {
    /// The database through which they are notified.
    pub store: Store,
    /// The pending wake-ups.
    pub wake: Wake,
}

impl LoopBody for WakeNotifier {
    async fn tick(&mut self) -> Result<()> {
        self.store.notify().await
    }

    async fn wait(&mut self) {
        tokio::time::sleep(QUIET).await;
        self.wake.elsewhere.notified().await;
    }
}

/// The loop that receives notifications of other processes.
#[derive(Debug)]
pub struct WakeListener {
    /// The database.
    pub store: Store,
    /// The waiters to wake.
    pub wake: Wake,
    /// The subscription, while its connection is open.
    pub ear: Option<crate::database::wake::WakeSubscription>,
}

impl LoopBody for WakeListener {
    async fn tick(&mut self) -> Result<()> {
        if self.ear.is_none() {
            self.ear = Some(self.store.listen().await?);
            // Subscribed first, looked afterwards: this makes the loops look.
            self.wake.heard_elsewhere();
        }
        Ok(())
    }

    async fn wait(&mut self) {
        let Some(ear) = &mut self.ear else { return };
        if ear.must_poll() {
            tokio::time::sleep(CHANGE_POLL).await;
        }
        match ear.wait().await {
            Ok(true) => self.wake.heard_elsewhere(),
            Ok(false) => {}
            Err(error) => {
                tracing::info!(target: "punctual", %error, "listening again after a lost connection");
                self.ear = None;
            }
        }
    }
}
