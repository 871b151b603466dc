//! What is required of the figures that `punctual bench` measures of timers, fairness, rendering and
//! evaluations.
//!
//! Each is decided here and nowhere else, from a series alone: the full runs and the short one ask the same.
//! A build without optimisation is measured, too (`./test` has no other). It may take [`UNOPTIMISED_TIMES`]
//! as long where nothing but this code runs, and single timers may be [`UNOPTIMISED_LATENESS_TIMES`] as late,
//! since some of this code runs between their due time and their handler. What waits for polls, or stands
//! behind a backlog, is still far beyond.

use crate::report::{Bound, Report};
use crate::series::Series;

/// How much longer code takes that was compiled without optimisation, at most.
pub const UNOPTIMISED_TIMES: f64 = 10.0;
/// How much later its single timers are, at most.
pub const UNOPTIMISED_LATENESS_TIMES: f64 = 2.5;

/// A figure of which something is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// How late single timers are on an idle system, in milliseconds.
    LatenessIdle,
    /// How late timers are of which very many are due at one moment, in milliseconds; on PostgreSQL.
    LatenessBurst,
    /// How long others wait beside one tenant's backlog, as a share of the time in which it is drained. In a
    /// queue that serves in order of arrival it is what is left of the backlog, at first nearly 1.
    WaitBesideBacklog,
    /// How long a message takes to be rendered, in microseconds.
    Rendering,
    /// One million evaluations of triggers, with the index over what filters need, in milliseconds.
    EvaluationsIndexed,
    /// The same, when each filter is asked.
    EvaluationsEach,
}

impl Wanted {
    /// The value of a series that counts.
    #[must_use]
    pub fn value(self, series: &Series) -> f64 {
        match self {
            Self::LatenessIdle | Self::LatenessBurst => series.percentile(0.99),
            Self::WaitBesideBacklog => series.max(),
            Self::Rendering | Self::EvaluationsIndexed | Self::EvaluationsEach => series.median(),
        }
    }

    /// The most that it may be; `unoptimised` says how this program was compiled.
    #[must_use]
    pub const fn bound(self, unoptimised: bool) -> Bound {
        let (times, late) =
            if unoptimised { (UNOPTIMISED_TIMES, UNOPTIMISED_LATENESS_TIMES) } else { (1.0, 1.0) };
        Bound::AtMost(match self {
            Self::LatenessIdle => 20.0 * late,
            Self::LatenessBurst => 3_000.0,
            Self::WaitBesideBacklog => 0.1,
            Self::Rendering => 20.0 * times,
            Self::EvaluationsIndexed => 50.0 * times,
            Self::EvaluationsEach => 200.0 * times,
        })
    }

    /// What of the series is meant, for the line in the report.
    const fn word(self) -> &'static str {
        match self {
            Self::LatenessIdle | Self::LatenessBurst => "p99 (ms)",
            Self::WaitBesideBacklog => "longest / drain of the backlog",
            Self::Rendering => "median (us)",
            Self::EvaluationsIndexed | Self::EvaluationsEach => "median (ms)",
        }
    }

    /// Adds the value to a report, with what is required of it.
    pub fn judge(self, name: &str, series: &Series, report: &mut Report) {
        let bound = self.bound(cfg!(debug_assertions));
        report.require(&format!("{name}: {}", self.word()), self.value(series), bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many times one value, and others that are planted among them.
    fn series(many: usize, value: f64, planted: &[f64]) -> Series {
        let mut series = Series::default();
        (0..many).for_each(|_| series.push(value));
        planted.iter().for_each(|value| series.push(*value));
        series
    }

    /// A slowness that was planted in a series of measurements is a failed run, and none is not.
    #[test]
    fn planted_slowness_is_caught() {
        let table = [
            ("timers on time", Wanted::LatenessIdle, series(299, 4.0, &[19.0]), true),
            ("one late timer of 300", Wanted::LatenessIdle, series(299, 4.0, &[400.0]), true),
            ("one late timer of 30 by polling", Wanted::LatenessIdle, series(29, 4.0, &[30.0]), false),
            ("timers found by polling each 250 ms", Wanted::LatenessIdle, series(300, 125.0, &[]), false),
            ("a burst handled at once", Wanted::LatenessBurst, series(5_000, 900.0, &[]), true),
            ("a burst that waits for a poll", Wanted::LatenessBurst, series(5_000, 30_000.0, &[]), false),
            ("others served beside a backlog", Wanted::WaitBesideBacklog, series(500, 0.01, &[0.05]), true),
            ("one of 500 left behind it", Wanted::WaitBesideBacklog, series(499, 0.01, &[0.6]), false),
            ("all of them behind it", Wanted::WaitBesideBacklog, series(500, 0.7, &[]), false),
            ("a template compiled for all messages", Wanted::Rendering, series(5, 0.8, &[]), true),
            ("a template compiled for each message", Wanted::Rendering, series(5, 45.0, &[]), false),
            ("filters by index", Wanted::EvaluationsIndexed, series(5, 15.0, &[]), true),
            ("an index that is not used", Wanted::EvaluationsIndexed, series(5, 60.0, &[]), false),
            ("each filter asked", Wanted::EvaluationsEach, series(5, 40.0, &[900.0]), true),
            ("a query for each filter", Wanted::EvaluationsEach, series(5, 100_000.0, &[]), false),
        ];
        for (what, wanted, series, met) in table {
            assert_eq!(wanted.bound(false).allows(wanted.value(&series)), met, "{what}");
        }
    }

    /// A build without optimisation has more time for what it computes; polling and starving are caught in
    /// it, too.
    #[test]
    fn only_computing_may_take_longer_without_optimisation() {
        for wanted in [Wanted::LatenessBurst, Wanted::WaitBesideBacklog] {
            assert_eq!(wanted.bound(true), wanted.bound(false), "{wanted:?}");
        }
        assert_eq!(Wanted::Rendering.bound(true), Bound::AtMost(200.0));
        let polled = (0..100).map(|n| f64::from(n) * 2.5).fold(Series::default(), |mut all, late| {
            all.push(late);
            all
        });
        assert!(!Wanted::LatenessIdle.bound(true).allows(Wanted::LatenessIdle.value(&polled)));
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        for wanted in [Wanted::LatenessIdle, Wanted::WaitBesideBacklog, Wanted::Rendering] {
            let mut report = Report::default();
            wanted.judge("nothing", &Series::default(), &mut report);
            assert!(!report.all_met(), "{wanted:?}");
        }
    }
}
