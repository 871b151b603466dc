//! The step between a delivery that is due and its channel: whether it goes on as it is.
//!
//! Consent, quiet hours and whether the entity still wants a message are asked here, right before the message
//! is made. Rules that merge deliveries into a digest, cap them or escalate them belong here as well: a
//! decision is all they have to make, and writing it down is done once.

use crate::base::clock::Timestamp;
use crate::base::id::DeliveryId;
use crate::store::deliveries::deliver::Ending;

/// The word for why a delivery was not sent by itself.
const MERGED: &str = "Merged";

/// What becomes of a delivery that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateDecision {
    /// It is rendered and sent now.
    Deliver,
    /// It comes again later, and no try is counted.
    Delay {
        /// When.
        until: Timestamp,
        /// The sentence for the log.
        said: String,
    },
    /// It is not sent.
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
    /// It goes by another channel.
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
    /// What becomes of the delivery instead.
    pub(super) fn into_ending(self) -> Result<(), Box<Ending>> {
        Err(Box::new(match self {
            Self::Deliver => return Ok(()),
            Self::Delay { until, said } => Ending::HeldBack { until, said },
            Self::Drop { reason, said } => Ending::Skipped { reason, said },
            Self::Merge { into } => {
                Ending::Skipped { reason: MERGED.to_owned(), said: format!("delivery {into} carries it") }
            }
            Self::Redirect { channel, address } => Ending::Moved { channel, address },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_delivery_that_goes_on_has_no_ending() {
        assert!(GateDecision::Deliver.into_ending().is_ok());
        let ending = |decision: GateDecision| *decision.into_ending().unwrap_err();
        let until = Timestamp::from_micros(7);
        let delay = GateDecision::Delay { until, said: "quiet".into() };
        assert_eq!(ending(delay), Ending::HeldBack { until, said: "quiet".into() });
        let merged = ending(GateDecision::Merge { into: DeliveryId(9) });
        assert_eq!(merged, Ending::Skipped { reason: MERGED.into(), said: "delivery 9 carries it".into() });
        let (channel, address) = ("sms:a".to_owned(), "+1".to_owned());
        let moved = GateDecision::Redirect { channel: channel.clone(), address: address.clone() };
        assert_eq!(ending(moved), Ending::Moved { channel, address });
    }
}
