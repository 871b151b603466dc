//! Rehearsals: settings that a test gives a whole process through its environment.
//!
//! With the feature `testing`, the wall clock can be hours off (`PUNCTUAL_TEST_CLOCK_OFFSET_S`), and the
//! pauses after trouble can be shorter (`PUNCTUAL_TEST_HASTE`, a divisor), so that a test which breaks things
//! a thousand times ends soon. Without the feature both are nothing.

use std::time::Duration;

/// Returns how far off the wall clock is made to be, in microseconds.
#[cfg(not(feature = "testing"))]
#[inline]
#[must_use]
pub const fn clock_offset_us() -> i64 {
    0
}

/// A pause as this process makes it.
#[cfg(not(feature = "testing"))]
#[inline]
#[must_use]
pub const fn hastened(pause: Duration) -> Duration {
    pause
}

/// Returns how far off the wall clock is made to be, in microseconds.
#[cfg(feature = "testing")]
#[must_use]
pub fn clock_offset_us() -> i64 {
    static OFFSET: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *OFFSET.get_or_init(|| number(CLOCK_OFFSET_S).unwrap_or(0).saturating_mul(1_000_000))
}

/// A pause as this process makes it.
#[cfg(feature = "testing")]
#[must_use]
pub fn hastened(pause: Duration) -> Duration {
    static HASTE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let divisor = HASTE.get_or_init(|| number(HASTE_NAME).and_then(|n| n.try_into().ok()).unwrap_or(1));
    pause / (*divisor).max(1)
}

/// Names the offset of the wall clock, in seconds.
#[cfg(feature = "testing")]
pub const CLOCK_OFFSET_S: &str = "PUNCTUAL_TEST_CLOCK_OFFSET_S";
/// Names the divisor of pauses after trouble.
#[cfg(feature = "testing")]
pub const HASTE_NAME: &str = "PUNCTUAL_TEST_HASTE";

#[cfg(feature = "testing")]
fn number(name: &str) -> Option<i64> {
    std::env::var(name).ok()?.parse().ok()
}
