//! The pulse of a loop: when it last did its work, and what went wrong since.
//!
//! [`drive`] is the one loop around every tick: run it, wait, run it again; after an error
//! pause, longer each time.

use crate::base::clock::{Moment, monotonic};
use crate::base::error::{Error, Result};
use crate::base::limits::{TROUBLE_PAUSE, TROUBLE_PAUSE_MAX};
use crate::base::rehearsal::hastened;
use crate::queue::run::stop::{Phase, Stop};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The state of one loop, for health.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    name: &'static str,
    since: Moment,
    last_success: Option<Moment>,
    trouble: Option<String>,
    ticks: u64,
}

/// What health shows of a loop.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The loop.
    pub name: &'static str,
    /// How long ago its last tick went well; since its start if none has.
    pub since_success: Duration,
    /// What went wrong since.
    pub trouble: Option<String>,
    /// Ticks so far.
    pub ticks: u64,
}

impl Pulse {
    /// A loop that has not ticked yet.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        let state = State { name, since: monotonic(), last_success: None, trouble: None, ticks: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    /// What health shows.
    #[must_use]
    pub fn beat(&self) -> Beat {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Beat {
            name: state.name,
            since_success: state.last_success.unwrap_or(state.since).elapsed(),
            trouble: state.trouble.clone(),
            ticks: state.ticks,
        }
    }

    fn fine(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.last_success = Some(monotonic());
        state.trouble = None;
        state.ticks += 1;
    }

    fn trouble(&self, error: &Error) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::warn!(target: "punctual", r#loop = state.name, %error, "a loop pauses after an error");
        state.trouble = Some(error.to_string());
        state.ticks += 1;
    }
}

/// Something that is done again and again.
pub trait Ticks: Send {
    /// One bounded round, never cut short: a stop is heard between rounds.
    fn tick(&mut self) -> impl Future<Output = Result<()>> + Send;
    /// The wait before the next one, cut short by a stop.
    fn wait(&mut self) -> impl Future<Output = ()> + Send;
}

/// Ticks until stopped.
pub async fn drive(mut ticks: impl Ticks, pulse: Pulse, stop: Stop) {
    let mut pause = TROUBLE_PAUSE;
    while !stop.is_asked() {
        match ticks.tick().await {
            Ok(()) => {
                pulse.fine();
                pause = TROUBLE_PAUSE;
                tokio::select! {
                    biased;
                    () = stop.reached(Phase::Finishing) => {}
                    () = ticks.wait() => {}
                }
            }
            Err(error) => {
                pulse.trouble(&error);
                tokio::select! {
                    biased;
                    () = stop.reached(Phase::Finishing) => {}
                    () = tokio::time::sleep(hastened(pause)) => {}
                }
                pause = (pause * 2).min(TROUBLE_PAUSE_MAX);
            }
        }
    }
}
