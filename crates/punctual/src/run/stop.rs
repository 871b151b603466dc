//! Stopping: one word that every loop hears, in the order in which they began to wait for it: a
//! simulation rests on that, and a `watch` channel wakes in an order of its own.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everything runs.
    Running,
    /// Nothing new is begun; what runs may finish.
    Finishing,
    /// What still runs is given up.
    Over,
}

/// The side that stops.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Word>);

/// The side that is stopped.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Word>);

#[derive(Debug)]
struct Word {
    phase: Mutex<Phase>,
    said: Notify,
}

/// A pair of both sides.
#[must_use]
pub fn channel() -> (Stopper, Stop) {
    let word = Arc::new(Word { phase: Mutex::new(Phase::Running), said: Notify::new() });
    (Stopper(Arc::clone(&word)), Stop(word))
}

impl Word {
    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    pub async fn reached(&mut self, phase: Phase) {
        loop {
            let mut said = std::pin::pin!(self.0.said.notified());
            // Listens before it looks, so that no word is missed in between.
            said.as_mut().enable();
            if self.0.phase() >= phase {
                return;
            }
            said.await;
        }
    }
}
