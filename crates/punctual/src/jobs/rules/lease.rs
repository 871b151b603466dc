//! Leases: the checks of a request, the times of renewals, and how long a holder may believe in its lease.
//!
//! A holder counts from the moment *before* it asked. The database counts from the moment it
//! was asked, which is later, so the holder's count ends first; the margin makes up for
//! clocks that run at different speeds and for a process that is woken late, and is the time
//! that a holder has to stop its work.

use crate::base::error::{Error, Problems};
use crate::base::lease::check_duration;
use crate::base::limits;
use crate::base::name::check_name;
use std::time::Duration;

/// The pause between two tries to renew, as a part of the lease: one in so many.
const RETRY_PART: u32 = 20;
/// The margin at the end of a lease: one part in so many.
const MARGIN_PART: u32 = 10;
/// A renewal comes earlier by up to this part of its time, so that many holders spread out.
const JITTER_PART: u32 = 10;
/// The least time that one try to renew is given.
const TRY_MIN: Duration = Duration::from_millis(50);

/// The length of a lease, and when within it the guard renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    duration: Duration,
    renew_percent: u8,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self { duration: limits::LEASE_DEFAULT, renew_percent: limits::LEASE_RENEW_PERCENT }
    }
}

impl LeaseTiming {
    /// A lease of this length, renewed when this part of it has passed.
    ///
    /// # Errors
    /// [`Error::Invalid`] with both problems, if there are two.
    pub fn new(duration: Duration, renew_percent: u8) -> Result<Self, Error> {
        let mut problems = Problems::default();
        check_duration(duration, "duration", &mut problems);
        if !limits::LEASE_RENEW_PERCENT_RANGE.contains(&renew_percent) {
            let (least, most) =
                (limits::LEASE_RENEW_PERCENT_RANGE.start(), limits::LEASE_RENEW_PERCENT_RANGE.end());
            problems.push("renewPercent", format!("must be between {least} and {most}"));
        }
        problems.into_result()?;
        Ok(Self { duration, renew_percent })
    }

    /// The length.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// When to renew, counted from the last request: at the share named or a little earlier.
    #[must_use]
    pub fn renew_after(self, seed: u64) -> Duration {
        let whole = self.duration * u32::from(self.renew_percent) / 100;
        let thousandths = u32::try_from(seed % 1_001).unwrap_or(0);
        whole - whole / JITTER_PART * thousandths / 1_000
    }

    /// How long the holder may believe in the lease, counted from the last request that was
    /// granted.
    #[must_use]
    pub fn safe_for(self) -> Duration {
        self.duration - self.duration / MARGIN_PART
    }

    /// The pause after a try to renew that failed.
    #[must_use]
    pub fn retry_pause(self) -> Duration {
        self.duration / RETRY_PART
    }
}

/// How long one try to renew is waited for when `left` of the lease is left: a second one
/// must still fit in.
#[must_use]
pub fn patience(left: Duration) -> Duration {
    (left / 2).max(TRY_MIN)
}

/// Checks an acquisition.
///
/// # Errors
/// [`Error::Invalid`] with every problem.
pub fn check(name: &str, owner: &str, duration: Duration) -> Result<(), Error> {
    let mut problems = Problems::default();
    check_name(name, "name", &mut problems);
    check_name(owner, "owner", &mut problems);
    check_duration(duration, "seconds", &mut problems);
    problems.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    /// PLT-11: at the share named, or up to a tenth of that earlier.
    #[test]
    fn plt_11_a_renewal_comes_at_its_share_or_a_little_earlier() {
        let rhythm = LeaseTiming::new(SECONDS(100), 60).unwrap();
        for seed in 0..5_000 {
            let after = rhythm.renew_after(seed);
            assert!(after <= SECONDS(60) && after >= SECONDS(54), "{after:?}");
        }
        assert_eq!(rhythm.renew_after(0), SECONDS(60));
        assert_eq!(rhythm.renew_after(1_000), SECONDS(54));
        assert_eq!(LeaseTiming::default().renew_after(0), SECONDS(18), "60 % of 30 s");
    }

    /// PLT-11: whatever the share, a renewal and a second try fit in before the end is near.
    #[test]
    fn plt_11_a_second_try_fits_in() {
        for percent in limits::LEASE_RENEW_PERCENT_RANGE {
            for duration in [limits::LEASE_MIN, SECONDS(30), limits::LEASE_MAX] {
                let rhythm = LeaseTiming::new(duration, percent).unwrap();
                let left = rhythm.safe_for().checked_sub(rhythm.renew_after(0)).unwrap();
                assert!(patience(left) + rhythm.retry_pause() <= left, "{duration:?} at {percent} %");
                assert!(rhythm.safe_for() < duration);
            }
        }
    }

    #[test]
    fn a_lease_that_cannot_work_is_refused_with_every_problem() {
        let said = LeaseTiming::new(Duration::ZERO, 81).unwrap_err().to_string();
        assert!(said.contains("duration: must be between") && said.contains("renewPercent: "), "{said}");
        let said = check("", "x ", SECONDS(100_000)).unwrap_err().to_string();
        for part in ["name: ", "owner: ", "seconds: "] {
            assert!(said.contains(part), "{part} in {said}");
        }
        check("nightly-report", "host-1", SECONDS(30)).unwrap();
    }
}
