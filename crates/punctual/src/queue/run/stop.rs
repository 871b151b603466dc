//! Stopping: one signal that every loop receives.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everything runs.
    Running,
    /// Nothing new is begun; running work may finish.
    Finishing,
    /// Running work is given up.
    Over,
}

/// The side that stops.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Word>);

/// The side that is stopped.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Word>);

/// The last signal. Waiters are woken in the order in which they came, which a watch channel does not
/// promise, and a simulation needs.
#[derive(Debug)]
struct Word {
    phase: Mutex<Phase>,
    said: Notify,
}

impl Word {
    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pair of both sides.
#[must_use]
pub fn channel() -> (Stopper, Stop) {
    let word = Arc::new(Word { phase: Mutex::new(Phase::Running), said: Notify::new() });
    (Stopper(Arc::clone(&word)), Stop(word))
}

impl Stopper {
    /// Says how far it is.
    pub fn say(&self, phase: Phase) {
        {
            let mut now = self.0.phase.lock().unwrap_or_else(PoisonError::into_inner);
            *now = phase.max(*now);
        }
        self.0.said.notify_waiters();
    }
}

impl Stop {
    /// Whether nothing new may be begun.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.phase() >= Phase::Finishing
    }

    /// Waits until it is at least this far; for ever if the stopper is gone without a word.
    pub async fn reached(&self, phase: Phase) {
        loop {
            // Listens first, looks afterwards: a word in between is not missed.
            let said = self.0.said.notified();
            if self.0.phase() >= phase {
                return;
            }
            said.await;
        }
    }
}
