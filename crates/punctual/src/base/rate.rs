//! A rate limit: so many sends a second, and so many under way at once.
//!
//! A bucket holds as many tokens as sends are allowed in a second. A send takes one, and the token comes back
//! one second later: so **no window of one second, wherever it begins, has more sends than the rate**, and a
//! burst of a whole second's worth at once is allowed. The limit costs eight bytes for each send of the last
//! second.
//!
//! The caller, which begins and ends sends, counts those under way. After a clock was set back, sends that
//! lie ahead of it are forgotten.

use crate::base::breaker::AdmissionDecision;
use crate::base::clock::Timestamp;
use crate::base::limits;
use std::collections::VecDeque;
use std::time::Duration;

/// A token comes back after this long.
const WINDOW: Duration = Duration::from_secs(1);
/// The same where others send beside: a call begins a little after its token is taken.
const SHARED_WINDOW: Duration = Duration::from_millis(1_015);

/// A bucket of one channel.
#[derive(Clone, Debug)]
pub struct Rate {
    per_second: usize,
    window: Duration,
    /// When the tokens that are out were taken, in order.
    taken: VecDeque<Timestamp>,
}

impl Rate {
    /// A full bucket. No send at all is not a rate: at least one is allowed.
    #[must_use]
    pub fn per_second(sends: u32) -> Self {
        let most = sends.clamp(1, limits::SENDS_PER_SECOND_MAX);
        Self { per_second: usize::try_from(most).unwrap_or(1), window: WINDOW, taken: VecDeque::new() }
    }

    /// A full bucket of a process that shares a rate with others.
    #[must_use]
    pub fn shared(sends: u32) -> Self {
        Self { window: SHARED_WINDOW, ..Self::per_second(sends) }
    }

    /// Allows so many sends a second from now on; tokens that are out come back as before. Zero allows none.
    pub fn change(&mut self, sends: u32) {
        self.per_second = usize::try_from(sends.min(limits::SENDS_PER_SECOND_MAX)).unwrap_or(0);
    }

    /// Returns how many sends may begin now.
    pub fn room(&mut self, now: Timestamp) -> usize {
        while self.taken.back().is_some_and(|taken| *taken > now) {
            self.taken.pop_back();
        }
        while self.taken.front().is_some_and(|taken| taken.plus(self.window) <= now) {
            self.taken.pop_front();
        }
        self.per_second - self.taken.len().min(self.per_second)
    }

    /// Returns whether a send may begin now, without a token being taken.
    pub fn look(&mut self, now: Timestamp) -> AdmissionDecision {
        if self.room(now) > 0 {
            return AdmissionDecision::Go;
        }
        self.taken
            .front()
            .map_or(AdmissionDecision::Go, |first| AdmissionDecision::WaitUntil(first.plus(self.window)))
    }

    /// Whether a send may begin now. With [`AdmissionDecision::Go`] a token is taken.
    pub fn ask(&mut self, now: Timestamp) -> AdmissionDecision {
        let may = self.look(now);
        if may == AdmissionDecision::Go {
            self.taken.push_back(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    /// NTF-17: a second's worth at once, then each as one second has passed since the one it follows.
    #[test]
    fn ntf_17_a_second_has_no_more_than_its_rate() {
        let mut rate = Rate::per_second(2);
        let asked = [(0, None), (300, None), (300, Some(1_000)), (999, Some(1_000)), (1_000, None)];
        for (now, wait) in asked {
            let want = wait.map_or(AdmissionDecision::Go, |end| AdmissionDecision::WaitUntil(at(end)));
            assert_eq!(rate.ask(at(now)), want, "at {now} ms");
        }
        assert_eq!((rate.room(at(1_299)), rate.room(at(1_300)), rate.room(at(2_000))), (0, 1, 2));
        assert_eq!(Rate::per_second(0).room(at(0)), 1, "none at all is not a rate");
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_no_send() {
        let mut rate = Rate::per_second(1);
        assert_eq!(rate.ask(at(1_000_000)), AdmissionDecision::Go);
        assert_eq!(
            (rate.ask(at(0)), rate.ask(at(0))),
            (AdmissionDecision::Go, AdmissionDecision::WaitUntil(at(1_000)))
        );
    }

    proptest! {
        /// NTF-17: never more than the rate in any window of one second, and no less than there is to
        /// send as soon as it is allowed.
        #[test]
        fn ntf_17_no_window_has_more_than_the_rate(
            per_second in 1_u32..20,
            steps in prop::collection::vec((0_i64..700, 1_usize..8), 1..60),
        ) {
            let mut rate = Rate::per_second(per_second);
            let (mut now, mut sent): (i64, Vec<i64>) = (0, Vec::new());
            for (pause, asks) in steps {
                now += pause;
                for _ in 0..asks {
                    match rate.ask(at(now)) {
                        AdmissionDecision::Go => sent.push(now),
                        AdmissionDecision::WaitUntil(end) => {
                            prop_assert!(end > at(now) && end <= at(now + 1_000));
                            let asked = rate.clone().ask(end);
                            prop_assert_eq!(asked, AdmissionDecision::Go, "a send that waits may go");
                            let full = sent.iter().filter(|at| **at > now - 1_000).count();
                            prop_assert_eq!(full, per_second as usize, "refused only when full");
                        }
                    }
                }
            }
            for begin in &sent {
                let window = sent.iter().filter(|at| (*begin..begin + 1_000).contains(*at)).count();
                prop_assert!(window <= per_second as usize, "{} in the second from {}", window, begin);
            }
        }
    }
}
