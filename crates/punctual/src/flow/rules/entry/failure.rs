//! The decision after a failed try of a send: try again, give this send up, or halt the entry.
//!
//! | failure | decision |
//! |---|---|
//! | no channel of that name | [`FailureDecision::Halt`]: no next send, and the entry expires later |
//! | the channel refused for good | [`FailureDecision::GiveUp`]: this send is not tried again, reminders go |
//! | an error, or no answer in time | [`FailureDecision::RetryAt`] by the backoff, until the tries run out |
//!
//! A try without an answer may have gone out. It is tried again under the same idempotency key;
//! a channel that wants to hold it instead does not ask here.

use crate::base::backoff::Backoff;
use crate::base::clock::Timestamp;
use crate::base::limits;
use crate::queue::rules::attempt;
use crate::queue::rules::attempt::{Retry, RetryPolicy};
use std::time::Duration;

/// How a try of a send went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// There is no channel of that name.
    NoChannel,
    /// The channel will never take it.
    Permanent,
    /// A later try may succeed, but not before the time that the provider asked for.
    Transient {
        /// How long the provider wants to be left alone.
        retry_after: Option<Duration>,
    },
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureDecision {
    /// The same send is tried again then.
    RetryAt(Timestamp),
    /// This send is given up. Later reminders still go.
    GiveUp,
    /// Nothing is sent any more.
    Halt,
}

/// How patient a channel's sends are, unless it says otherwise: 5 tries, 1, 2, 4 and 8 minutes apart.
#[must_use]
pub fn patience() -> RetryPolicy {
    let backoff = Backoff::Exponential { from: limits::SEND_WAIT_MIN, to: limits::SEND_WAIT_MAX };
    RetryPolicy { max_attempts: limits::SEND_TRIES_DEFAULT, backoff }
}

/// Decides after the failure at `now` of try number `tries` (from 1) of one send. `seed` spreads the retries
/// of sends that failed together.
#[must_use]
pub fn after_failure(
    failure: SendFailure,
    tries: u32,
    patience: &RetryPolicy,
    now: Timestamp,
    seed: u64,
) -> FailureDecision {
    let retry = match failure {
        SendFailure::NoChannel => return FailureDecision::Halt,
        SendFailure::Permanent => return FailureDecision::GiveUp,
        SendFailure::Transient { retry_after: None } => Retry::Policy,
        SendFailure::Transient { retry_after: Some(wait) } => Retry::NotBefore(wait),
    };
    match patience.after(tries, retry, seed) {
        attempt::RetryDecision::Again(wait) => FailureDecision::RetryAt(now.plus(wait)),
        attempt::RetryDecision::Dead => FailureDecision::GiveUp,
    }
}

/// Decides after a failed probe of a channel that is down: the failure is the channel's and not the
/// message's, so the try does not count. No message is a probe for ever: after `calls` in all, a multiple of
/// its tries, the send is given up as well.
#[must_use]
pub fn after_probe(
    failure: SendFailure,
    (tries, calls): (u32, u32),
    patience: &RetryPolicy,
    now: Timestamp,
    seed: u64,
) -> FailureDecision {
    if calls >= patience.max_attempts.saturating_mul(limits::UNSTARTED_FACTOR) {
        return FailureDecision::GiveUp;
    }
    after_failure(failure, tries.min(patience.max_attempts.saturating_sub(1)), patience, now, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_778_735_580_000_000);
    const ERROR: SendFailure = SendFailure::Transient { retry_after: None };

    fn minutes(failure: SendFailure, tries: u32) -> Option<f64> {
        match after_failure(failure, tries, &patience(), NOW, 7) {
            FailureDecision::RetryAt(at) => Some(at.since(NOW).as_secs_f64() / 60.0),
            FailureDecision::GiveUp | FailureDecision::Halt => None,
        }
    }

    /// TRG-15: an error is tried again, later and later, until the limit.
    #[test]
    fn trg_15_a_send_is_tried_again_with_backoff_and_then_given_up() {
        for (tries, full) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)] {
            let wait = minutes(ERROR, tries).unwrap();
            assert!((full * 0.9..=full).contains(&wait), "after try {tries}: {wait} min");
        }
        for tries in [5, 6, u32::MAX] {
            assert_eq!(
                after_failure(ERROR, tries, &patience(), NOW, 7),
                FailureDecision::GiveUp,
                "try {tries}"
            );
        }
        assert!(minutes(ERROR, 0).is_some(), "a try that was not counted is the first");
    }

    /// TRG-15: a send that cannot succeed is not tried again.
    #[test]
    fn trg_15_no_channel_halts_and_a_refusal_ends_this_send() {
        for tries in [0, 1, 4, 5] {
            assert_eq!(
                after_failure(SendFailure::NoChannel, tries, &patience(), NOW, 7),
                FailureDecision::Halt
            );
            assert_eq!(
                after_failure(SendFailure::Permanent, tries, &patience(), NOW, 7),
                FailureDecision::GiveUp
            );
        }
    }

    #[test]
    fn a_provider_may_ask_for_more_time_but_not_for_more_tries() {
        let asks = |seconds| SendFailure::Transient { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(minutes(asks(1_800), 1), Some(30.0));
        assert_eq!(minutes(asks(1), 1), minutes(ERROR, 1));
        assert_eq!(minutes(asks(1_800), 5), None);
        let for_ever = SendFailure::Transient { retry_after: Some(Duration::MAX) };
        assert_eq!(after_failure(for_ever, 1, &patience(), NOW, 7), FailureDecision::RetryAt(Timestamp::MAX));
    }

    /// NTF-17: a probe does not count as a try, and one message is not a probe for ever.
    #[test]
    fn ntf_17_a_failed_probe_does_not_count() {
        let after = |tries, calls| after_probe(ERROR, (tries, calls), &patience(), NOW, 7);
        for (tries, calls) in [(1, 1), (4, 9), (5, 5), (5, 24)] {
            let like = after_failure(ERROR, tries.min(4), &patience(), NOW, 7);
            assert_eq!(after(tries, calls), like, "try {tries}, call {calls}");
        }
        assert_eq!(after(1, 25), FailureDecision::GiveUp);
    }

    /// A list of waits that is used up gives up before the limit.
    #[test]
    fn a_list_of_waits_ends_in_giving_up() {
        let steps = RetryPolicy { max_attempts: 9, backoff: Backoff::Steps(vec![Duration::from_secs(60)]) };
        assert!(matches!(after_failure(ERROR, 1, &steps, NOW, 7), FailureDecision::RetryAt(_)));
        assert_eq!(after_failure(ERROR, 2, &steps, NOW, 7), FailureDecision::GiveUp);
    }
}
