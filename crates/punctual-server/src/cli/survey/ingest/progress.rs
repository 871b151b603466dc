//! The progress line of a terminal, rewritten in place.

use super::{Tally, pace, rows};
use punctual::base::clock::{Monotonic, monotonic};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The interval between two writes.
const EVERY: Duration = Duration::from_millis(250);
/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\u{1b}[K";

/// A progress line; silent without a terminal.
pub(super) struct Progress {
    size: Option<u64>,
    began: Monotonic,
    last: Monotonic,
    is_seen: bool,
    is_there: bool,
}

impl Progress {
    pub(super) fn new(size: Option<u64>) -> Self {
        let now = monotonic();
        let is_seen = std::io::stderr().is_terminal();
        Self { size, began: now, last: now, is_seen, is_there: false }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Writes the line, if the interval has passed.
    pub(super) fn show(&mut self, tally: &Tally, bytes: u64) {
        if !self.is_seen || self.last.elapsed() < EVERY {
            return;
        }
        self.last = monotonic();
        self.is_there = true;
        let line = line(tally, self.elapsed(), bytes, self.size);
        // A terminal that went away is no failure.
        let _ = write!(std::io::stderr(), "{CLEAR}{line}");
    }

    /// Clears the line, before other output.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write!(std::io::stderr(), "{CLEAR}");
        }
    }
}

fn line(tally: &Tally, elapsed: Duration, bytes: u64, size: Option<u64>) -> String {
    let share = |size: u64| format!("{:3.0} %  ", bytes as f64 / size as f64 * 100.0);
    let share = size.filter(|size| *size > 0).map(share).unwrap_or_default();
    format!("{share}{}, {} rows/s: {}", rows(tally.rows), pace(tally.rows, elapsed), tally.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_how_far_it_is() {
        let tally =
            Tally { rows: 3_000, created: 2_000, skipped: 997, stopped: 2, failed: 1, ..Tally::default() };
        let words = "3000 rows, 1500 rows/s: 2000 created, 997 skipped, 2 stopped, 1 failed, 0 unmatched";
        let elapsed = Duration::from_secs(2);
        assert_eq!(line(&tally, elapsed, 50, Some(200)), format!(" 25 %  {words}"));
        for size in [None, Some(0)] {
            assert_eq!(line(&tally, elapsed, 50, size), words, "a size that is not known: {size:?}");
        }
    }
}
