//! The step between a delivery that is due and its channel: whether it goes on as it is.
//!
//! Consent, quiet hours and whether the entity still wants a message are asked here, right before the message
//! is made. Rules that merge deliveries into a digest, cap them or escalate them belong here as well: a
//! decision is all they have to make, and writing it down is done once.

use crate::base::clock::Timestamp;
use crate::base::id::DeliveryId;
use crate::delivery::store::deliveries::delivery::DeliveryOutcome;

/// The word for why a delivery was not sent by itself.
const MERGED: &str = "Merged";

/// The decision about a delivery that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateDecision {
    /// The delivery is rendered and sent now.
    Deliver,
    /// The delivery is due again later, and no try is counted.
    Delay {
        /// When.
        until: Timestamp,
        /// The sentence for the log.
        said: String,
    },
    /// The delivery is not sent.
    Drop {
        /// The word for why, in lists.
        reason: String,
        /// The sentence for the log.
        said: String,
    },
    /// Another delivery carries its content, such as a digest.
    Merge {
        /// That delivery.
        into: DeliveryId,
    },
    /// The delivery goes by another channel.
    Redirect {
        /// The key of the channel.
        channel: String,
        /// The recipient's address there.
        address: String,
    },
}

impl GateDecision {
    /// Ends the delivery as decided; `Ok` if it goes on to its channel.
    ///
    /// # Errors
    /// The outcome of the delivery instead.
    pub(crate) fn into_outcome(self) -> Result<(), Box<DeliveryOutcome>> {
        Err(Box::new(match self {
            Self::Deliver => return Ok(()),
            Self::Delay { until, said } => DeliveryOutcome::Delayed { until, said },
            Self::Drop { reason, said } => DeliveryOutcome::Skipped { reason, said },
            Self::Merge { into } => DeliveryOutcome::Skipped {
                reason: MERGED.to_owned(),
                said: format!("delivery {into} carries it"),
            },
            Self::Redirect { channel, address } => DeliveryOutcome::Redirected { channel, address },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_delivery_that_goes_on_has_no_outcome() {
        assert!(GateDecision::Deliver.into_outcome().is_ok());
        let outcome = |decision: GateDecision| *decision.into_outcome().unwrap_err();
        let until = Timestamp::from_micros(7);
        let delay = GateDecision::Delay { until, said: "quiet".into() };
        assert_eq!(outcome(delay), DeliveryOutcome::Delayed { until, said: "quiet".into() });
        let merged = outcome(GateDecision::Merge { into: DeliveryId(9) });
        assert_eq!(
            merged,
            DeliveryOutcome::Skipped { reason: MERGED.into(), said: "delivery 9 carries it".into() }
        );
        let (channel, address) = ("sms:a".to_owned(), "+1".to_owned());
        let moved = GateDecision::Redirect { channel: channel.clone(), address: address.clone() };
        assert_eq!(outcome(moved), DeliveryOutcome::Redirected { channel, address });
    }
}
