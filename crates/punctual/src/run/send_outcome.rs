//! What a channel's answer makes of a delivery: sent, tried again, given up, or uncertain. The same for
//! every kind.

use super::channel::{Accepted, NotSent, Sent};
use crate::base::clock::Timestamp;
use crate::base::random;
use crate::rules::attempt::Patience;
use crate::rules::channel::{ChannelPolicy, OnUnknown};
use crate::rules::entry::failure::{self, Failure, Verdict};
use crate::rules::notification::Planned;
use crate::store::deliveries::deliver::{Due, Ending};

/// A transient failure without a wish for a wait.
const SILENT: Failure = Failure::Transient { retry_after: None };

/// What a channel answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// Its words.
    pub(super) sent: Sent,
    /// Whether the channel was known to be down, and this message was to show whether it is so still.
    pub(super) probe: bool,
    /// When it came.
    pub(super) now: Timestamp,
}

impl Answer {
    /// What becomes of the delivery; `fallback` is asked where its channel refuses it for good.
    pub(super) fn ending(
        self,
        due: &Due,
        policy: &ChannelPolicy,
        fallback: impl FnOnce() -> Option<Planned>,
    ) -> Ending {
        let Self { sent, probe, now } = self;
        let next =
            Next { due, patience: policy.patience.clone().unwrap_or_else(failure::patience), probe, now };
        match sent {
            Ok(Accepted { message_id, answer }) => Ending::Sent { provider_id: message_id, answer },
            Err(NotSent::Transient { error, retry_after }) => {
                next.again("transient", Failure::Transient { retry_after }, error)
            }
            Err(NotSent::NoAnswer { error }) if policy.unknown == OnUnknown::Hold => {
                Ending::Uncertain { outcome: Some("timeout"), error }
            }
            Err(NotSent::NoAnswer { error }) => next.again("timeout", SILENT, error),
            Err(NotSent::Unknown { error }) => next.after_unknown(policy, error),
            Err(NotSent::Permanent { error }) => {
                Ending::Failed { outcome: Some("permanent"), error, instead: fallback() }
            }
        }
    }
}

/// What follows a try that did not go well.
struct Next<'a> {
    due: &'a Due,
    patience: Patience,
    probe: bool,
    now: Timestamp,
}

impl Next<'_> {
    fn again(&self, outcome: &'static str, failure: Failure, error: String) -> Ending {
        let (tries, seed) = (self.due.item.attempt(), random::seed());
        let verdict = match self.probe {
            true => failure::after_probe(failure, (tries, self.due.number()), &self.patience, self.now, seed),
            false => failure::after_failure(failure, tries, &self.patience, self.now, seed),
        };
        match verdict {
            Verdict::RetryAt(at) => {
                Ending::Again { outcome, error, wait: at.since(self.now), counted: !self.probe }
            }
            Verdict::GiveUp | Verdict::Halt => {
                Ending::Failed { outcome: Some(outcome), error, instead: None }
            }
        }
    }

    /// What may have gone out counts, probe or not.
    fn after_unknown(&self, policy: &ChannelPolicy, error: String) -> Ending {
        let tries = self.due.item.attempt();
        match failure::after_failure(SILENT, tries, &self.patience, self.now, random::seed()) {
            Verdict::RetryAt(at) if policy.resends_unknown(self.due.unknown) => {
                Ending::Again { outcome: "unknown", error, wait: at.since(self.now), counted: true }
            }
            _ => Ending::Uncertain { outcome: Some("unknown"), error },
        }
    }
}

/// What is not sent any more after a try that may have gone out: nobody must take it for never sent.
pub(super) fn doubted(ending: Ending) -> Ending {
    match ending {
        Ending::Skipped { said, .. } | Ending::Failed { outcome: None, error: said, .. } => {
            let error = format!("a try before may have gone out; it is not sent again: {said}");
            Ending::Uncertain { outcome: None, error }
        }
        other => other,
    }
}

/// There is no such channel in this process.
pub(super) fn no_channel(key: &str) -> Box<Ending> {
    let error = format!("there is no channel `{key}` in this process; configure it and replay");
    Ending::Failed { outcome: Some("no-channel"), error, instead: None }.into()
}
