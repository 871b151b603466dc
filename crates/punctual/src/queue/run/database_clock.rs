//! The present time of the database's clock: its last reading, and the time that has passed since by the
//! host's clock.
//!
//! A channel limiter that is asked some time after a reading must not use the time of that reading. A manual
//! clock does not advance between readings.

use crate::base::clock::{Monotonic, Timestamp, monotonic};

/// A reading of the database's clock, with the host's time at which it was received.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseClock {
    said: Timestamp,
    heard: Monotonic,
    by_hand: bool,
}

impl DatabaseClock {
    /// Creates the clock from a reading that was just received.
    #[must_use]
    pub fn new(said: Timestamp, by_hand: bool) -> Self {
        Self { said, heard: monotonic(), by_hand }
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(self) -> Timestamp {
        if self.by_hand { self.said } else { self.said.plus(self.heard.elapsed()) }
    }
}
