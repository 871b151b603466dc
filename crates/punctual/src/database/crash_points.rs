//! Named points: places in the code where a crash or a pause shows most.
//!
//! With the feature `testing`, a process can be armed ([`arm`]) to end itself without a warning
//! (`claimed-before-commit:3:abort`), or to pause (`…:3:pause-400`, in milliseconds), when it reaches a point
//! for the third time. Without the feature a point is nothing. A trap belongs to the process and not to a
//! store, because so does a crash.

/// A point at which a process may be armed to end itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// A message with an id is written, its transaction still open.
    EnqueuedBeforeCommit,
    /// Messages are committed, and their publisher does not know it yet.
    EnqueuedBeforeAnswer,
    /// Work is taken out of its table, or deliveries are written without any, and no claim holds them yet.
    ClaimedBeforeCommit,
    /// A claim is committed, and its claimer does not know it yet.
    ClaimedBeforeAnswer,
    /// A suspect is marked as started, and has not.
    MarkedBeforeStart,
    /// Handlers are through with a batch, and no result is stored yet.
    HandledBeforeSettle,
    /// A settlement is written, its transaction still open.
    SettledBeforeCommit,
    /// A settlement is committed, and the settler does not know it yet.
    SettledBeforeAnswer,
    /// Claims whose lease ran out are chosen, and nothing is written yet.
    ReapingChosen,
    /// Lost claims are closed and their items back, the transaction still open.
    ReapedBeforeCommit,
}

impl CrashPoint {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::EnqueuedBeforeCommit,
        Self::EnqueuedBeforeAnswer,
        Self::ClaimedBeforeCommit,
        Self::ClaimedBeforeAnswer,
        Self::MarkedBeforeStart,
        Self::HandledBeforeSettle,
        Self::SettledBeforeCommit,
        Self::SettledBeforeAnswer,
        Self::ReapingChosen,
        Self::ReapedBeforeCommit,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EnqueuedBeforeCommit => "enqueued-before-commit",
            Self::EnqueuedBeforeAnswer => "enqueued-before-answer",
            Self::ClaimedBeforeCommit => "claimed-before-commit",
            Self::ClaimedBeforeAnswer => "claimed-before-answer",
            Self::MarkedBeforeStart => "marked-before-start",
            Self::HandledBeforeSettle => "handled-before-settle",
            Self::SettledBeforeCommit => "settled-before-commit",
            Self::SettledBeforeAnswer => "settled-before-answer",
            Self::ReapingChosen => "reaping-chosen",
            Self::ReapedBeforeCommit => "reaped-before-commit",
        }
    }
}

/// The process is at this point.
#[cfg(not(feature = "testing"))]
#[inline]
pub(crate) const fn reach(_: CrashPoint) {}

#[cfg(feature = "testing")]
pub use armed::arm;
#[cfg(feature = "testing")]
pub(crate) use armed::reach;

#[cfg(feature = "testing")]
mod armed {
    use super::CrashPoint;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    struct ArmedPoint {
        point: CrashPoint,
        /// Zero: the process ends. Else it pauses for so many milliseconds, each time from then on.
        pause_ms: u64,
        left: u64,
    }

    static TRAP: Mutex<Option<ArmedPoint>> = Mutex::new(None);
    /// Whether there is one: most processes have none, and ask often.
    static ARMED: AtomicBool = AtomicBool::new(false);

    /// Sets the trap that a text describes (`POINT:COUNT:abort` or `POINT:COUNT:pause-MILLISECONDS`);
    /// an empty text takes it away.
    ///
    /// # Errors
    /// A sentence about a text that describes none.
    pub fn arm(text: &str) -> Result<(), String> {
        let trap = if text.is_empty() { None } else { Some(read(text)?) };
        ARMED.store(trap.is_some(), Ordering::SeqCst);
        *TRAP.lock().unwrap_or_else(PoisonError::into_inner) = trap;
        Ok(())
    }

    fn read(text: &str) -> Result<ArmedPoint, String> {
        let wrong = || format!("`{text}` is not POINT:COUNT:abort or POINT:COUNT:pause-MILLISECONDS");
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let point = CrashPoint::ALL.iter().copied().find(|p| p.name() == name).ok_or_else(wrong)?;
        let left = parts.next().and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
        let pause_ms = match parts.next().ok_or_else(wrong)? {
            "abort" => 0,
            pause => pause.strip_prefix("pause-").and_then(|n| n.parse().ok()).ok_or_else(wrong)?,
        };
        Ok(ArmedPoint { point, pause_ms, left })
    }

    /// The process is at this point.
    #[inline]
    pub(crate) fn reach(point: CrashPoint) {
        if ARMED.load(Ordering::Relaxed) {
            spring(point);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "holding everything up is what a pause is for")]
    fn spring(point: CrashPoint) {
        let pause = {
            let mut trap = TRAP.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(trap) = trap.as_mut().filter(|trap| trap.point == point) else { return };
            trap.left = trap.left.saturating_sub(1);
            if trap.left > 0 {
                return;
            }
            trap.pause_ms
        };
        if pause == 0 {
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(pause));
    }
}
