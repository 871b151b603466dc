//! The context that every part of the worker of one process shares.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::database::store::Store;
use crate::queue::run::wake::Wake;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The state of the worker of one process.
#[derive(Debug)]
pub struct WorkerContext {
    /// The database.
    pub store: Store,
    /// The name under which this process claims.
    pub owner: String,
    /// How long a claim is held before it must be renewed.
    pub lease: Duration,
    /// The longest pause between polls.
    pub poll_max: Duration,
    /// Whether the database's clock is a manual one.
    pub manual_clock: bool,
    /// Wake-ups.
    pub wake: Wake,
    /// Notified when an executor has room again.
    pub room: Arc<Notify>,
    /// Notified when there is more work than one loop can claim.
    pub help: Notify,
    /// Batches that are running.
    pub batches: AtomicUsize,
    /// The last error of a batch beside the loop.
    pub trouble: Mutex<Option<Error>>,
    /// When the first lane opens that had no room at the last look.
    pub opens_at: Mutex<Option<Timestamp>>,
}

impl WorkerContext {
    /// Remembers an error of work beside the loop: the loop's next tick fails with it.
    pub fn note_trouble(&self, error: Error) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Returns the error that was noted, once.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn take_trouble(&self) -> Result<()> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        trouble.map_or(Ok(()), Err)
    }

    /// Returns when the first lane opens that had no room at the last look, for a manual clock.
    #[must_use]
    pub fn opens_at(&self) -> Option<Timestamp> {
        *self.opens_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_opening(&self, at: Timestamp) {
        let mut opens_at = self.opens_at.lock().unwrap_or_else(PoisonError::into_inner);
        *opens_at = Some(opens_at.map_or(at, |known| known.min(at)));
    }

    pub(crate) fn forget_openings(&self) {
        *self.opens_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Counts a batch as running until it is dropped, and then makes room known.
#[derive(Debug)]
pub struct BatchGuard(Arc<WorkerContext>);

impl BatchGuard {
    /// Counts one more.
    #[must_use]
    pub fn new(context: &Arc<WorkerContext>) -> Self {
        context.batches.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(context))
    }
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        self.0.batches.fetch_sub(1, Ordering::Relaxed);
        self.0.room.notify_one();
    }
}
