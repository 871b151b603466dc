//! The present moment, by the database's clock: what that said last, and what has passed since by the host's.
//!
//! A gate must not take what is asked late for as old as the look that led to it. Where the clock is moved by
//! hand, only a hand moves it.

use crate::base::clock::{Moment, Timestamp, monotonic};

/// What the database's clock said, and when that was heard.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseClock {
    said: Timestamp,
    heard: Moment,
    by_hand: bool,
}

impl DatabaseClock {
    /// It has just said so.
    #[must_use]
    pub fn new(said: Timestamp, by_hand: bool) -> Self {
        Self { said, heard: monotonic(), by_hand }
    }

    /// What it says now.
    #[must_use]
    pub fn now(self) -> Timestamp {
        if self.by_hand { self.said } else { self.said.plus(self.heard.elapsed()) }
    }
}
