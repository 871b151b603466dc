//! Stopping: one word that every loop hears.

use tokio::sync::watch;

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
pub struct Stopper(watch::Sender<Phase>);

/// The side that is stopped.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Phase>);

/// A pair of both sides.
#[must_use]
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(Phase::Running);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Says how far it is.
    pub fn say(&self, phase: Phase) {
        self.0.send_modify(|now| *now = phase.max(*now));
    }
}

impl Stop {
    /// Whether nothing new may be begun.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.0.borrow() >= Phase::Finishing
    }

    /// Waits until it is at least this far; for ever if the stopper is gone without a word.
    pub async fn reached(&mut self, phase: Phase) {
        if self.0.wait_for(|now| *now >= phase).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
