//! The outcome of a delivery after a channel's answer: sent, tried again, given up, or uncertain. The same
//! for every kind.

use crate::base::clock::Timestamp;
use crate::base::random;
use crate::delivery::rules::channel::ChannelPolicy;
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::run::channel::{AcceptedMessage, ChannelResult, SendError};
use crate::delivery::store::deliveries::delivery::{DeliveryOutcome, DueDelivery};
use crate::flow::rules::entry::failure;
use crate::flow::rules::entry::failure::{FailureDecision, SendFailure};
use crate::queue::rules::attempt::RetryPolicy;

/// A transient failure without a wish for a wait.
const SILENT: SendFailure = SendFailure::Transient { retry_after: None };

/// The answer of a channel.
#[derive(Debug)]
pub(crate) struct TryAnswer {
    /// Its words.
    pub(crate) sent: ChannelResult,
    /// Whether the channel was known to be down, and this message was to show whether it is so still.
    pub(crate) probe: bool,
    /// When it came.
    pub(crate) now: Timestamp,
}

impl TryAnswer {
    /// Returns the outcome of the delivery; `fallback` is asked where its channel refuses it for good.
    pub(crate) fn ending(
        self,
        due: &DueDelivery,
        policy: &ChannelPolicy,
        fallback: impl FnOnce() -> Option<PlannedDelivery>,
    ) -> DeliveryOutcome {
        let Self { sent, probe, now } = self;
        let next =
            NextTry { due, patience: policy.patience.clone().unwrap_or_else(failure::patience), probe, now };
        match sent {
            Ok(AcceptedMessage { message_id, answer }) => {
                DeliveryOutcome::Sent { provider_id: message_id, answer }
            }
            Err(SendError::Transient { error, retry_after }) => {
                next.again("transient", SendFailure::Transient { retry_after }, error)
            }
            Err(SendError::NoAnswer { error }) if !policy.resends_in_doubt(due.takes_key) => {
                DeliveryOutcome::Uncertain { outcome: Some("timeout"), error }
            }
            Err(SendError::NoAnswer { error }) => next.again("timeout", SILENT, error),
            Err(SendError::Unknown { error }) => next.after_unknown(policy, error),
            Err(SendError::Permanent { error }) => {
                DeliveryOutcome::Failed { outcome: Some("permanent"), error, fallback: fallback() }
            }
        }
    }
}

/// The next step after a failed try.
struct NextTry<'a> {
    due: &'a DueDelivery,
    patience: RetryPolicy,
    probe: bool,
    now: Timestamp,
}

impl NextTry<'_> {
    fn again(&self, outcome: &'static str, failure: SendFailure, error: String) -> DeliveryOutcome {
        let (tries, seed) = (self.due.item.attempt(), random::seed());
        let verdict = match self.probe {
            true => failure::after_probe(failure, (tries, self.due.number()), &self.patience, self.now, seed),
            false => failure::after_failure(failure, tries, &self.patience, self.now, seed),
        };
        match verdict {
            FailureDecision::RetryAt(at) => {
                DeliveryOutcome::Retry { outcome, error, wait: at.since(self.now), counted: !self.probe }
            }
            // A try before was not answered and may have gone out, so the delivery cannot be called unsent.
            FailureDecision::GiveUp | FailureDecision::Halt if self.due.unknown > 0 => {
                self.due.given_up_in_doubt(Some(outcome), error)
            }
            FailureDecision::GiveUp | FailureDecision::Halt => {
                DeliveryOutcome::Failed { outcome: Some(outcome), error, fallback: None }
            }
        }
    }

    /// A message that may have gone out counts as a try, also if it was a probe.
    fn after_unknown(&self, policy: &ChannelPolicy, error: String) -> DeliveryOutcome {
        let tries = self.due.item.attempt();
        match failure::after_failure(SILENT, tries, &self.patience, self.now, random::seed()) {
            FailureDecision::RetryAt(at) if policy.resends_unknown(self.due.unknown, self.due.takes_key) => {
                DeliveryOutcome::Retry { outcome: "unknown", error, wait: at.since(self.now), counted: true }
            }
            _ => self.due.given_up_in_doubt(Some("unknown"), error),
        }
    }
}

/// Marks a delivery that is not sent any more after a try that may have gone out, so that it does not count
/// as never sent.
pub(crate) fn mark_uncertain(due: &DueDelivery, ending: DeliveryOutcome) -> DeliveryOutcome {
    match ending {
        DeliveryOutcome::Skipped { said, .. }
        | DeliveryOutcome::Failed { outcome: None, error: said, .. } => {
            let error = format!("a try before may have gone out; it is not sent again: {said}");
            due.given_up_in_doubt(None, error)
        }
        other => other,
    }
}

/// There is no such channel in this process.
pub(crate) fn no_channel(key: &str) -> Box<DeliveryOutcome> {
    let error = format!("there is no channel `{key}` in this process; configure it and retry");
    DeliveryOutcome::Failed { outcome: Some("no-channel"), error, fallback: None }.into()
}
