//! How much to claim at once: as much as is worked off in a short while.
//!
//! Large batches are cheap, but items that are claimed and not started make a newcomer wait and must be
//! settled well within its lease. So the room grows with the speed at which items are finished, up to what
//! one claim row may hold.

use crate::base::limits;
use std::time::Duration;

/// Claimed work should be worked off in about this time.
const HORIZON: Duration = Duration::from_millis(50);
/// Unfinished items at once: two full claims being worked off and two on their way.
const ROOM_MAX: usize = 4 * limits::CLAIM_ITEMS_MAX;
/// How much a new measurement counts against what was known.
const FRESH_WEIGHT: f64 = 0.3;

/// The speed of one handler.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandlerSpeed {
    seconds_per_item: Option<f64>,
}

impl HandlerSpeed {
    /// Items were worked off: `count` in `busy`, with `concurrency` at a time.
    pub fn learn(&mut self, count: usize, busy: Duration) {
        if count == 0 {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "a count of items")]
        let fresh = busy.as_secs_f64() / count as f64;
        self.seconds_per_item = Some(match self.seconds_per_item {
            None => fresh,
            Some(known) => known + FRESH_WEIGHT * (fresh - known),
        });
    }

    /// The time one item takes, with all slots busy; `None` while nothing is known.
    #[must_use]
    pub fn per_item(&self) -> Option<Duration> {
        self.seconds_per_item.map(Duration::from_secs_f64)
    }

    /// How many items may be claimed and unfinished at once.
    #[must_use]
    pub fn room(&self, concurrency: usize) -> usize {
        let Some(per_item) = self.seconds_per_item else {
            return concurrency;
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let horizon = (HORIZON.as_secs_f64() / per_item.max(1e-9)).min(1e9) as usize;
        horizon.clamp(concurrency, ROOM_MAX.max(concurrency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_handler_gets_large_batches_and_a_slow_one_small() {
        let mut fast = HandlerSpeed::default();
        assert_eq!(fast.room(16), 16, "nothing known: what can run at once");
        fast.learn(1_000, Duration::from_millis(5));
        assert_eq!(fast.room(16), ROOM_MAX);
        let mut slow = HandlerSpeed::default();
        slow.learn(10, Duration::from_secs(1));
        assert_eq!(slow.room(16), 16);
    }

    #[test]
    fn the_pace_follows_a_change() {
        let mut pace = HandlerSpeed::default();
        pace.learn(1_000, Duration::from_millis(1));
        (0..30).for_each(|_| pace.learn(10, Duration::from_secs(1)));
        assert_eq!(pace.room(4), 4);
        (0..60).for_each(|_| pace.learn(1_000, Duration::from_millis(1)));
        assert_eq!(pace.room(4), ROOM_MAX);
    }
}
