//! A circuit breaker: a provider that is down is probed, not hammered.
//!
//! | state | before a send | a send succeeds | a send fails |
//! |---|---|---|---|
//! | closed | go | the count begins anew | one more; with the last of `failures` in a row: open |
//! | open | one probe each `probe_every`, the others wait until the next | closed | stays open |
//!
//! Opening counts as the first probe: the next send goes `probe_every` later. A probe without a result costs
//! one interval, never the channel. Sends that were under way when the breaker opened count, too: any success
//! closes it.
//!
//! The caller decides what counts as a failure: no answer, or one that blames the provider. "This number does
//! not exist" is an answer of a provider that works. When the clock is set back, no send waits for longer
//! than one interval.

use crate::base::clock::Timestamp;
use crate::base::limits;
use std::time::Duration;

/// The settings of a breaker: the failures that open it, and the interval of its probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it, at least 1.
    pub failures: u32,
    /// The time between two probes.
    pub probe_every: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: limits::BREAKER_FAILURES_DEFAULT, probe_every: limits::BREAKER_PROBE_EVERY }
    }
}

/// Whether something may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// At once. The send counts as begun.
    Go,
    /// Not before this moment, which is later; ask again then.
    WaitUntil(Timestamp),
}

/// A breaker of one channel.
#[derive(Clone, Copy, Debug)]
pub struct CircuitBreaker {
    settings: BreakerSettings,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// With so many failures in a row.
    Closed(u32),
    /// With the moment of the next probe.
    Open(Timestamp),
}

impl CircuitBreaker {
    /// A breaker that is closed.
    #[must_use]
    pub const fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: State::Closed(0) }
    }

    /// Returns whether the breaker is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether a send may begin now. With [`AdmissionDecision::Go`] from an open breaker the probe is taken.
    pub fn ask(&mut self, now: Timestamp) -> AdmissionDecision {
        let State::Open(next) = self.state else { return AdmissionDecision::Go };
        let next = next.min(now.plus(self.settings.probe_every));
        let taken = next <= now;
        self.state = State::Open(if taken { now.plus(self.settings.probe_every) } else { next });
        if taken { AdmissionDecision::Go } else { AdmissionDecision::WaitUntil(next) }
    }

    /// A send went well, or the provider answered as one that works.
    pub const fn succeeded(&mut self) {
        self.state = State::Closed(0);
    }

    /// A send failed, at this moment.
    pub fn failed(&mut self, now: Timestamp) {
        if let State::Closed(before) = self.state {
            let failures = before.saturating_add(1);
            self.state = if failures >= self.settings.failures {
                State::Open(now.plus(self.settings.probe_every))
            } else {
                State::Closed(failures)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn breaker(failures: u32) -> CircuitBreaker {
        CircuitBreaker::new(BreakerSettings { failures, probe_every: Duration::from_secs(30) })
    }

    /// NTF-17: twenty in a row by default, and one that goes well in between begins the count anew.
    #[test]
    fn ntf_17_a_breaker_opens_after_twenty_failures_in_a_row() {
        let mut breaker = CircuitBreaker::new(BreakerSettings::default());
        for round in 0..3 {
            (0..19).for_each(|_| breaker.failed(at(round)));
            assert_eq!(breaker.ask(at(round)), AdmissionDecision::Go, "19 are not enough");
            breaker.succeeded();
        }
        (0..20).for_each(|_| breaker.failed(at(9)));
        assert!(breaker.is_open());
        assert_eq!(breaker.ask(at(9)), AdmissionDecision::WaitUntil(at(39)));
    }

    /// NTF-17: an open breaker lets one through each interval, and a success closes it.
    #[test]
    fn ntf_17_an_open_breaker_probes_and_closes_on_success() {
        let mut breaker = breaker(1);
        breaker.failed(at(0));
        let asked = [(0, Some(30)), (29, Some(30)), (30, None), (30, Some(60)), (59, Some(60)), (75, None)];
        for (now, wait) in asked {
            let want = wait.map_or(AdmissionDecision::Go, |end| AdmissionDecision::WaitUntil(at(end)));
            assert_eq!(breaker.ask(at(now)), want, "at {now} s");
        }
        breaker.failed(at(80));
        assert_eq!(
            breaker.ask(at(104)),
            AdmissionDecision::WaitUntil(at(105)),
            "a failed probe changes nothing"
        );
        assert_eq!(breaker.ask(at(105)), AdmissionDecision::Go);
        breaker.succeeded();
        assert_eq!(
            (breaker.is_open(), breaker.ask(at(105)), breaker.ask(at(105))),
            (false, AdmissionDecision::Go, AdmissionDecision::Go)
        );
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_it_shut() {
        let mut breaker = breaker(1);
        breaker.failed(at(1_000_000));
        assert_eq!(breaker.ask(at(0)), AdmissionDecision::WaitUntil(at(30)));
        assert_eq!(breaker.ask(at(30)), AdmissionDecision::Go);
    }

    #[derive(Clone, Copy, Debug)]
    enum Action {
        Pass(u16),
        Ask,
        Fail,
        Succeed,
    }

    fn actions() -> impl Strategy<Value = Vec<Action>> {
        let one = prop_oneof![
            (0_u16..40_000).prop_map(Action::Pass),
            Just(Action::Ask),
            Just(Action::Ask),
            Just(Action::Fail),
            Just(Action::Fail),
            Just(Action::Fail),
            Just(Action::Succeed),
        ];
        prop::collection::vec(one, 1..200)
    }

    proptest! {
        /// NTF-17: never more than one probe in an interval while it is open; a send that waits until the
        /// given time is let through; and a success lets every send through.
        #[test]
        fn ntf_17_one_probe_per_interval_and_no_endless_wait(failures in 1_u32..5, actions in actions()) {
            let mut breaker = breaker(failures);
            let (mut now, mut last_probe) = (at(0), None::<Timestamp>);
            for action in actions {
                match action {
                    Action::Pass(millis) => now = now.plus(Duration::from_millis(millis.into())),
                    Action::Fail => {
                        let was = breaker.is_open();
                        breaker.failed(now);
                        if breaker.is_open() && !was {
                            last_probe = Some(now);
                        }
                    }
                    Action::Succeed => {
                        breaker.succeeded();
                        prop_assert_eq!(breaker.ask(now), AdmissionDecision::Go);
                    }
                    Action::Ask => {
                        let was = breaker.is_open();
                        match breaker.ask(now) {
                            AdmissionDecision::Go if was => {
                                let since = last_probe.map(|last| now.since(last));
                                prop_assert!(since.is_none_or(|since| since >= Duration::from_secs(30)));
                                last_probe = Some(now);
                            }
                            AdmissionDecision::Go => {}
                            AdmissionDecision::WaitUntil(end) => {
                                prop_assert!(was && end > now && end <= now.plus(Duration::from_secs(30)));
                                let mut other = breaker;
                                let asked = other.ask(end);
                                prop_assert_eq!(asked, AdmissionDecision::Go, "a send that waits may go");
                            }
                        }
                    }
                }
            }
        }
    }
}
