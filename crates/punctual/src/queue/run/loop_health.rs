//! Background loops: [`drive`] runs one until it is stopped, and [`LoopHealth`] says how it fares.
//!
//! A loop ticks, waits and ticks again. After an error it pauses, longer each time, and goes on. A loop that
//! panics is counted, made anew from nothing, and goes on in the same way: its state may be half changed.
//! Every tick is bounded, so a tick that takes longer than [`HUNG_AFTER`] is hung. Nothing can end it from
//! within the process: health says so, and `/health/live` fails so that the process is started again.
//!
//! Not promised: that work which a panic cut short is settled. The work is due again when its lease ends.

use crate::base::clock::{Monotonic, monotonic};
use crate::base::error::{Error, Result};
use crate::base::limits::{TROUBLE_PAUSE, TROUBLE_PAUSE_MAX};
use crate::base::rehearsal::hastened;
use crate::queue::run::gauge;
use crate::queue::run::panics::catch_panic;
use crate::queue::run::stop::{StopPhase, StopSignal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A tick that takes longer than this is hung; only tests say otherwise.
pub const HUNG_AFTER: Duration = Duration::from_secs(120);

/// How one loop fares.
#[derive(Clone, Debug)]
pub struct LoopHealth(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    name: &'static str,
    hung_after: Duration,
    since: Monotonic,
    last_success: Option<Monotonic>,
    /// When the tick began that is not over.
    began: Option<Monotonic>,
    trouble: Option<String>,
    ticks: u64,
    panics: u64,
}

/// The status of a loop, as health shows it.
#[derive(Clone, Debug)]
pub struct LoopStatus {
    /// The loop.
    pub name: &'static str,
    /// How long ago its last tick went well; since its start if none has.
    pub since_success: Duration,
    /// How long the tick has taken that is not over; zero between ticks.
    pub busy_for: Duration,
    /// A tick that takes longer than this is hung.
    pub hung_after: Duration,
    /// The error since the last successful tick.
    pub trouble: Option<String>,
    /// Ticks so far.
    pub ticks: u64,
    /// How often it panicked.
    pub panics: u64,
}

impl LoopStatus {
    /// Whether its tick takes so long that it will not end by itself.
    #[must_use]
    pub fn is_hung(&self) -> bool {
        self.busy_for > self.hung_after
    }
}

impl LoopHealth {
    /// Describes a loop that has not ticked yet, and whose ticks are hung after this long.
    #[must_use]
    pub fn new(name: &'static str, hung_after: Duration) -> Self {
        let (since, last_success, began, trouble) = (monotonic(), None, None, None);
        let (ticks, panics) = (0, 0);
        let state = State { name, hung_after, since, last_success, began, trouble, ticks, panics };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the status that health shows.
    #[must_use]
    pub fn status(&self) -> LoopStatus {
        self.with(|state| LoopStatus {
            name: state.name,
            since_success: state.last_success.unwrap_or(state.since).elapsed(),
            busy_for: state.began.map_or(Duration::ZERO, |began| began.elapsed()),
            hung_after: state.hung_after,
            trouble: state.trouble.clone(),
            ticks: state.ticks,
            panics: state.panics,
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin_tick(&self) {
        self.with(|state| state.began = Some(monotonic()));
    }

    fn end_tick(&self, trouble: Option<&Error>) {
        self.with(|state| {
            state.began = None;
            state.ticks += 1;
            state.trouble = trouble.map(ToString::to_string);
            match trouble {
                None => state.last_success = Some(monotonic()),
                Some(error) => {
                    let name = state.name;
                    tracing::warn!(target: "punctual", r#loop = name, %error, "a loop pauses after an error");
                }
            }
        });
    }

    fn note_panic(&self, panic: &str) {
        self.with(|state| {
            state.began = None;
            state.panics += 1;
            let name = state.name;
            tracing::error!(target: "punctual", r#loop = name, panic, "a loop panicked and starts again");
            state.trouble = Some(format!("it panicked: {panic}"));
            gauge::loop_panicked(state.name);
        });
    }
}

/// Something that is done again and again.
pub trait LoopBody: Send {
    /// One bounded round, never cut short: a stop is obeyed between rounds.
    fn tick(&mut self) -> impl Future<Output = Result<()>> + Send;
    /// The wait before the next one, cut short by a stop.
    fn wait(&mut self) -> impl Future<Output = ()> + Send;
}

/// Runs what `make` makes until it is stopped; makes it again after a panic.
pub async fn drive<T: LoopBody>(make: impl Fn() -> T + Send, health: LoopHealth, stop: StopSignal) {
    let (mut ticks, mut pause) = (make(), TROUBLE_PAUSE);
    while !stop.is_asked() {
        match catch_panic(tick_and_wait(&mut ticks, &health, &stop)).await {
            Ok(Ok(())) => {
                pause = TROUBLE_PAUSE;
                continue;
            }
            Ok(Err(_)) => {}
            Err(panic) => {
                health.note_panic(&panic);
                ticks = make();
            }
        }
        tokio::select! {
            biased;
            () = stop.wait_for(StopPhase::Finishing) => {}
            () = tokio::time::sleep(hastened(pause)) => {}
        }
        pause = (pause * 2).min(TROUBLE_PAUSE_MAX);
    }
}

async fn tick_and_wait(ticks: &mut impl LoopBody, health: &LoopHealth, stop: &StopSignal) -> Result<()> {
    health.begin_tick();
    let done = ticks.tick().await;
    health.end_tick(done.as_ref().err());
    done?;
    tokio::select! {
        biased;
        () = stop.wait_for(StopPhase::Finishing) => {}
        () = ticks.wait() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::run::stop;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Panics in its first ticks, then stops itself; each maker counts.
    struct PanickingLoop {
        ticks: Arc<AtomicUsize>,
        stopper: Arc<stop::StopSender>,
        is_spoilt: bool,
    }

    impl LoopBody for PanickingLoop {
        async fn tick(&mut self) -> Result<()> {
            assert!(!self.is_spoilt, "a loop that panicked was used again");
            self.is_spoilt = true;
            match self.ticks.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("out of luck"),
                1 => {}
                _ => self.stopper.signal(StopPhase::Finishing),
            }
            self.is_spoilt = false;
            Ok(())
        }

        async fn wait(&mut self) {
            assert!(self.ticks.load(Ordering::Relaxed) != 2, "out of patience");
        }
    }

    /// PLT-7, PLT-25: a loop that panics in a tick or in a wait is counted, made anew, and goes on.
    #[tokio::test(start_paused = true)]
    async fn plt_7_a_loop_that_panics_is_made_anew_and_goes_on() {
        let (stopper, stop) = stop::channel();
        let (ticks, stopper) = (Arc::new(AtomicUsize::new(0)), Arc::new(stopper));
        let health = LoopHealth::new("frail", HUNG_AFTER);
        let make =
            || PanickingLoop { ticks: Arc::clone(&ticks), stopper: Arc::clone(&stopper), is_spoilt: false };
        let began = tokio::time::Instant::now();
        drive(make, health.clone(), stop).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5 + 10), "each pause is longer than the one before");
        let status = health.status();
        assert_eq!((status.ticks, status.panics), (2, 2), "one panic in a tick, one in a wait");
        assert_eq!(status.trouble, None, "its last tick went well");
    }

    /// PLT-25: a tick that does not end is a loop that hangs; between ticks no loop does.
    #[test]
    fn plt_25_a_tick_that_does_not_end_hangs() {
        let health = LoopHealth::new("stuck", HUNG_AFTER);
        let after = |busy_for| LoopStatus { busy_for, ..health.status() };
        assert!(!after(HUNG_AFTER).is_hung());
        assert!(after(HUNG_AFTER + Duration::from_secs(1)).is_hung());
        health.begin_tick();
        assert!(health.status().busy_for > Duration::ZERO, "a tick has begun");
        health.end_tick(None);
        assert_eq!(health.status().busy_for, Duration::ZERO);
    }

    /// PLT-25: a tick that fails is no success.
    #[test]
    fn plt_25_a_loop_knows_its_last_success() {
        let last_success = |health: &LoopHealth| health.with(|state| state.last_success);
        let health = LoopHealth::new("lucky", HUNG_AFTER);
        health.begin_tick();
        health.end_tick(Some(&Error::Conflict("no".into())));
        assert_eq!(last_success(&health), None, "it has not succeeded yet");
        health.end_tick(None);
        let first = last_success(&health).expect("a success is remembered");
        health.end_tick(Some(&Error::Conflict("no".into())));
        assert_eq!(last_success(&health), Some(first), "a failure changes nothing about it");
        health.end_tick(None);
        assert!(last_success(&health) > Some(first), "the next success counts");
    }
}
