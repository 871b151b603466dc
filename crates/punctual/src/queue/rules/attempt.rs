//! The decision about an item whose attempt failed: retried, or dead.

use crate::base::backoff::Backoff;
use crate::base::limits;
use crate::queue::rules::claim::ClaimItem;
use std::time::Duration;

/// When a given-back item should be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// By the queue's policy.
    Policy,
    /// Exactly after this long.
    After(Duration),
    /// By the policy, but not before this long (a provider's Retry-After wins when longer). For a message
    /// this is a snooze, see [`RetryPolicy::after_abandon`].
    NotBefore(Duration),
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// The item waits this long and is due again.
    Again(Duration),
    /// The item is dead-lettered.
    Dead,
}

/// The retry policy of a queue or a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most attempts of an item before it is dead-lettered.
    pub max_attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: limits::ATTEMPTS_DEFAULT, backoff: Backoff::default() }
    }
}

impl RetryPolicy {
    /// Decides about an item that was given back with an error, after `snoozes` earlier snoozes.
    ///
    /// A snooze is an attempt whose handler asked for a wait ([`Retry::NotBefore`]). The first
    /// [`limits::SNOOZES_MAX`] snoozes of an item use up no attempt; later ones count like any other, so that
    /// an item cannot be put off without end.
    #[must_use]
    pub fn after_abandon(&self, item: &ClaimItem, snoozes: u32, retry: Retry, seed: u64) -> RetryDecision {
        let counted = item.attempt().saturating_sub(item.unstarted()).saturating_sub(snoozes);
        match retry {
            Retry::NotBefore(least) if is_snooze(snoozes, retry) => {
                let wait = self.backoff.wait(counted.saturating_sub(1).max(1), seed);
                RetryDecision::Again(wait.unwrap_or_default().max(least))
            }
            _ => self.after(counted, retry, seed),
        }
    }

    /// Decides after attempt number `started` (from 1) of an item or a send has failed.
    #[must_use]
    pub fn after(&self, started: u32, retry: Retry, seed: u64) -> RetryDecision {
        if started >= self.max_attempts {
            return RetryDecision::Dead;
        }
        match (retry, self.backoff.wait(started.max(1), seed)) {
            (Retry::After(wait), _) => RetryDecision::Again(wait),
            (_, None) => RetryDecision::Dead,
            (Retry::Policy, Some(wait)) => RetryDecision::Again(wait),
            (Retry::NotBefore(least), Some(wait)) => RetryDecision::Again(wait.max(least)),
        }
    }

    /// An item's lease ran out. `started`: whether it is known to have been running; if
    /// not, it counts against the higher limit for items of a lost claim that may never have run.
    #[must_use]
    pub fn after_reap(&self, item: &ClaimItem, snoozes: u32, started: bool, seed: u64) -> RetryDecision {
        if started {
            return self.after_abandon(item, snoozes, Retry::Policy, seed);
        }
        let lost = item.unstarted() + 1;
        if lost >= self.max_attempts.saturating_mul(limits::UNSTARTED_FACTOR) {
            return RetryDecision::Dead;
        }
        // The item did not fail: it is due again as soon as after a first failure.
        RetryDecision::Again(self.backoff.wait(1, seed).unwrap_or_default())
    }
}

/// Whether a wait that was asked for uses up no attempt, after so many that did not.
#[must_use]
pub const fn is_snooze(snoozes: u32, retry: Retry) -> bool {
    matches!(retry, Retry::NotBefore(_)) && snoozes < limits::SNOOZES_MAX
}

/// An error text as it is kept: not too long, and without the zero characters that PostgreSQL
/// does not take.
#[must_use]
pub fn kept_error(error: &str) -> String {
    error.chars().filter(|c| *c != '\0').take(limits::ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::{LaneId, MessageId};

    fn item(attempts: u32, unstarted: u32) -> ClaimItem {
        ClaimItem(MessageId(1), LaneId(1), attempts, unstarted, None)
    }

    fn three() -> RetryPolicy {
        RetryPolicy { max_attempts: 3, backoff: Backoff::default() }
    }

    /// PLT-4: the last allowed attempt is the last one.
    #[test]
    fn plt_4_an_item_dies_with_its_last_attempt() {
        let verdicts: Vec<_> =
            (1..=3).map(|n| three().after_abandon(&item(n, 0), 0, Retry::Policy, 0)).collect();
        assert!(matches!(
            verdicts[..],
            [RetryDecision::Again(_), RetryDecision::Again(_), RetryDecision::Dead]
        ));
    }

    /// PLT-3: a claim lost before the start does not use up an attempt.
    #[test]
    fn plt_3_unstarted_losses_have_a_higher_limit_of_their_own() {
        for lost in 0..14 {
            assert!(
                matches!(three().after_reap(&item(lost + 1, lost), 0, false, 0), RetryDecision::Again(_)),
                "{lost}"
            );
        }
        assert_eq!(three().after_reap(&item(15, 14), 0, false, 0), RetryDecision::Dead);
        let after_losses = three().after_abandon(&item(12, 10), 0, Retry::Policy, 0);
        assert!(matches!(after_losses, RetryDecision::Again(_)), "two started attempts of three");
    }

    /// PLT-5: a Retry-After wins when it is longer; an explicit retry time is exact.
    #[test]
    fn plt_5_retry_after_wins_when_longer() {
        let hour = Duration::from_secs(3_600);
        let moment = Duration::from_millis(1);
        let ask = |retry| three().after_abandon(&item(1, 0), 0, retry, 0);
        assert_eq!(ask(Retry::NotBefore(hour)), RetryDecision::Again(hour));
        assert_ne!(ask(Retry::NotBefore(moment)), RetryDecision::Again(moment));
        assert_eq!(ask(Retry::After(moment)), RetryDecision::Again(moment));
    }

    /// PLT-4: a wait that the handler asks for uses up no attempt, and cannot be asked for without end.
    #[test]
    fn plt_4_a_snooze_uses_up_no_attempt_up_to_its_limit() {
        let snooze = |attempt, snoozes| {
            let retry = Retry::NotBefore(Duration::from_secs(60));
            three().after_abandon(&item(attempt, 0), snoozes, retry, 0)
        };
        for snoozes in 0..limits::SNOOZES_MAX {
            assert_eq!(snooze(snoozes + 1, snoozes), RetryDecision::Again(Duration::from_secs(60)));
            assert_eq!(snooze(snoozes + 3, snoozes), RetryDecision::Again(Duration::from_secs(60)));
        }
        let most = limits::SNOOZES_MAX;
        assert!(matches!(snooze(most + 2, most), RetryDecision::Again(_)), "it counts from now on");
        assert_eq!(snooze(most + 3, most), RetryDecision::Dead);
        let failed = |attempt, snoozes| three().after_abandon(&item(attempt, 0), snoozes, Retry::Policy, 0);
        assert!(matches!(failed(7, 5), RetryDecision::Again(_)), "two of three attempts");
        assert_eq!(failed(8, 5), RetryDecision::Dead);
    }
}
