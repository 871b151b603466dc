//! Stopping: one signal that every loop receives.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    /// Everything runs.
    Running,
    /// Nothing new is begun; running work may finish.
    Finishing,
    /// Running work is given up.
    Over,
}

/// The side that stops.
#[derive(Clone, Debug)]
pub struct StopSender(Arc<StopState>);

/// The side that is stopped.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<StopState>);

/// The last signal. Waiters are woken in the order in which they came, which a watch channel does not
/// promise, and a simulation needs.
#[derive(Debug)]
struct StopState {
    phase: Mutex<StopPhase>,
    said: Notify,
}

impl StopState {
    fn phase(&self) -> StopPhase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pair of both sides.
#[must_use]
pub fn channel() -> (StopSender, StopSignal) {
    let word = Arc::new(StopState { phase: Mutex::new(StopPhase::Running), said: Notify::new() });
    (StopSender(Arc::clone(&word)), StopSignal(word))
}

impl StopSender {
    /// Says how far it is.
    pub fn signal(&self, phase: StopPhase) {
        {
            let mut now = self.0.phase.lock().unwrap_or_else(PoisonError::into_inner);
            *now = phase.max(*now);
        }
        self.0.said.notify_waiters();
    }
}

impl StopSignal {
    /// Whether nothing new may be begun.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.phase() >= StopPhase::Finishing
    }

    /// Waits until it is at least this far; for ever if the stopper is gone without a word.
    pub async fn wait_for(&self, phase: StopPhase) {
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
