//! Backoff: the waits between attempts, in one place for the whole engine.

use crate::base::duration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A policy for the wait before the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Doubles from `from` up to `to`, for ever.
    Exponential {
        /// The wait after the first attempt.
        from: Duration,
        /// The longest wait.
        to: Duration,
    },
    /// The given waits one after the other. When they are used up, the item is dead-lettered.
    Steps(Vec<Duration>),
}

/// The part of a wait that is subtracted at random, so that items that failed together do not
/// come back together. A wait gets only shorter, never longer than the policy's.
const JITTER_PERCENT: u64 = 10;
/// Steps that a policy may list.
const STEPS_MAX: usize = 100;

impl Default for Backoff {
    /// 1 s, 2 s, 4 s … 60 s.
    fn default() -> Self {
        Self::Exponential { from: Duration::from_secs(1), to: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after attempt number `attempt` (from 1), spread by `seed`; `None` when no wait is
    /// left.
    #[must_use]
    pub fn wait(&self, attempt: u32, seed: u64) -> Option<Duration> {
        let full = match self {
            Self::Exponential { from, to } => {
                let doublings = attempt.saturating_sub(1).min(40);
                from.checked_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).unwrap_or(*to).min(*to)
            }
            Self::Steps(steps) => *steps.get(attempt.saturating_sub(1) as usize)?,
        };
        let micros = u64::try_from(full.as_micros()).unwrap_or(u64::MAX);
        let most_off = micros / 100 * JITTER_PERCENT;
        Some(Duration::from_micros(micros - mix(seed) % (most_off + 1)))
    }

    /// Reads a policy: `["5m","15m","1h"]` or `{"from":"1s","to":"60s"}`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, String> {
        let form = Form::deserialize(json).map_err(|_| {
            "write a list of waits such as [\"5m\",\"15m\",\"1h\"], or {\"from\":\"1s\",\"to\":\"60s\"}"
                .to_owned()
        })?;
        match form {
            Form::Steps(steps) | Form::Named { steps } => Self::steps(&steps),
            Form::Exponential { from, to } => Self::exponential(&from, &to),
        }
    }

    /// The policy as JSON, in the form that [`Backoff::from_json`] reads.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Exponential { from, to } => {
                serde_json::json!({"from": duration::write(*from), "to": duration::write(*to)})
            }
            Self::Steps(steps) => steps.iter().map(|s| duration::write(*s)).collect(),
        }
    }

    fn steps(steps: &[String]) -> Result<Self, String> {
        if steps.is_empty() || steps.len() > STEPS_MAX {
            return Err(format!("give between 1 and {STEPS_MAX} waits"));
        }
        steps.iter().map(|s| duration::parse(s)).collect::<Result<_, _>>().map(Self::Steps)
    }

    fn exponential(from: &str, to: &str) -> Result<Self, String> {
        let (from, to) = (duration::parse(from)?, duration::parse(to)?);
        if from.is_zero() || to < from {
            return Err("`from` must be more than zero and not longer than `to`".to_owned());
        }
        Ok(Self::Exponential { from, to })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Form {
    Steps(Vec<String>),
    Named { steps: Vec<String> },
    Exponential { from: String, to: String },
}

/// Spreads a seed over all bits (the finaliser of splitmix64).
const fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// PLT-5: 1 s, 2 s, 4 s … 60 s, each at most a tenth shorter.
    #[test]
    fn plt_5_exponential_waits_double_up_to_the_cap() {
        let table = [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60), (1_000, 60)];
        for (attempt, seconds) in table {
            for seed in 0..200 {
                let wait = Backoff::default().wait(attempt, seed).unwrap();
                let full = Duration::from_secs(seconds);
                assert!(wait <= full && wait >= full * 9 / 10, "attempt {attempt}: {wait:?}");
            }
        }
    }

    /// PLT-5: explicit steps, then hold.
    #[test]
    fn plt_5_steps_end_in_a_hold() {
        let policy = Backoff::from_json(&json!(["5m", "15m", "1h"])).unwrap();
        let minutes = |n: u32| policy.wait(n, 7).map(|w| w.as_secs_f64() / 60.0);
        assert!((4.5..=5.0).contains(&minutes(1).unwrap()));
        assert!((13.5..=15.0).contains(&minutes(2).unwrap()));
        assert!((54.0..=60.0).contains(&minutes(3).unwrap()));
        assert_eq!(minutes(4), None);
    }

    #[test]
    fn jitter_spreads_equal_failures() {
        let waits: std::collections::BTreeSet<_> = (0..100).map(|s| Backoff::default().wait(7, s)).collect();
        assert!(waits.len() > 90, "{} different waits of 100", waits.len());
    }

    #[test]
    fn a_policy_reads_what_it_writes() {
        for json in [json!(["5m", "15m", "1h"]), json!({"from": "1s", "to": "1m"})] {
            assert_eq!(Backoff::from_json(&json).unwrap().to_json(), json);
        }
    }

    /// PLT-29: broken policies are refused.
    #[test]
    fn plt_29_broken_policies_are_refused() {
        let table = [
            json!([]),
            json!(["soon"]),
            json!({"from": "0s", "to": "1s"}),
            json!({"from": "2s", "to": "1s"}),
            json!("often"),
            json!(5),
            json!({"from": "1s"}),
            json!({"from": "1s", "to": "1m", "most": 9}),
        ];
        for json in table {
            assert!(Backoff::from_json(&json).is_err(), "{json}");
        }
    }
}
