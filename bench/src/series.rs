//! Figures of one kind, one from each round: median, smallest, largest.

use std::time::Duration;

/// The figures of several rounds.
#[derive(Debug, Clone, Default)]
pub struct Series {
    samples: Vec<f64>,
}

impl Series {
    /// Adds the figure of one more round.
    pub fn push(&mut self, value: f64) {
        self.samples.push(value);
    }

    /// Adds `n` things done in a time, as a rate per second.
    pub fn push_rate(&mut self, n: usize, took: Duration) {
        self.push(rate(n, took));
    }

    /// All of them, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.samples.iter().copied()
    }

    /// The figure of the latest round.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.samples.last().copied().unwrap_or(f64::NAN)
    }

    /// How many rounds there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there was no round.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The middle one, or the mean of the two in the middle.
    #[must_use]
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
        }
    }

    /// The smallest one.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.samples.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The largest one.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.samples.iter().copied().fold(f64::NAN, f64::max)
    }

    /// The figure that the share `p` of all does not exceed.
    #[must_use]
    pub fn percentile(&self, p: f64) -> f64 {
        let sorted = self.sorted();
        let place = ((sorted.len() as f64 * p).ceil() as usize).saturating_sub(1);
        sorted.get(place).or(sorted.last()).copied().unwrap_or(f64::NAN)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// `n` things done in a time, per second.
#[must_use]
pub fn rate(n: usize, took: Duration) -> f64 {
    n as f64 / took.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[f64]) -> Series {
        Series { samples: samples.to_vec() }
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(series(&[9.0, 1.0, 5.0]).median(), 5.0);
        assert_eq!(series(&[4.0, 1.0, 2.0, 9.0]).median(), 3.0);
        assert!(Series::default().median().is_nan());
    }

    #[test]
    fn percentiles_are_samples() {
        let hundred = series(&(1..=100).map(f64::from).collect::<Vec<_>>());
        assert_eq!(hundred.percentile(0.5), 50.0);
        assert_eq!(hundred.percentile(0.99), 99.0);
        assert_eq!(hundred.percentile(1.0), 100.0);
        assert_eq!((hundred.min(), hundred.max()), (1.0, 100.0));
    }
}
