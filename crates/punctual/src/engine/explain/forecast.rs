//! The sends that an entry would have: the rules of the real send, applied to future moments.
//!
//! Consent and quiet hours are those of today. A send that goes out moves the next one by the
//! schedule, exactly as [`EntryState`] does it when the outcome is real.
//!
//! Not promised: that a channel accepts the message, or that consent stays the same until it is due.

use crate::base::clock::Timestamp;
use crate::base::tenant::Tenant;
use crate::database::planted_bugs::PlantedBug;
use crate::delivery::rules::address::address_for;
use crate::delivery::rules::consent::ConsentQuestion;
use crate::delivery::run::consent::ClaimRecipients;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_gate::GateDecision;
use crate::flow::rules::entry::schedule::SendSchedule;
use crate::flow::rules::entry::state::EntryState;
use crate::survey::rules::candidate::recipients::recipient_at;
use crate::survey::rules::invitation;
use std::time::Duration;

/// Times that one send may be delayed by quiet hours before the forecast gives up on it.
const DELAYS_MAX: usize = 8;

/// The subject of a forecast.
pub(super) struct Forecast<'a> {
    pub(super) context: &'a DeliveryContext,
    pub(super) recipients: &'a ClaimRecipients,
    pub(super) tenant: Tenant,
    /// The address of the recipient.
    pub(super) address: &'a str,
    /// The channel of the trigger.
    pub(super) channel: &'a str,
    pub(super) schedule: &'a SendSchedule,
    /// The time zone that the event names for the recipient.
    pub(super) zone: Option<&'a str>,
}

/// A send that would be made, or that would be skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForecastSend {
    /// 1 is the invitation.
    pub(super) number: u32,
    /// The due time by the schedule.
    pub(super) planned_at: Timestamp,
    /// The time of the send or the skip.
    pub(super) at: Timestamp,
    /// The channel that is used.
    pub(super) channel: String,
    /// The address there.
    pub(super) address: String,
    /// The word for why it is skipped, and the sentence; `None` if it goes out.
    pub(super) skipped: Option<(String, String)>,
    /// The sentence for why it goes out later than planned.
    pub(super) delayed: Option<String>,
}

/// The sends of an entry in their order, and its state after the last of them.
pub(super) struct ForecastSends {
    pub(super) sends: Vec<ForecastSend>,
    pub(super) state: EntryState,
}

impl ForecastSends {
    /// The time at which the entry expires without an answer.
    pub(super) fn expires_at(&self, grace: Duration) -> Option<Timestamp> {
        self.state.expires_at(grace).map(|at| at.minus(Duration::from_micros(1)))
    }
}

impl Forecast<'_> {
    /// Plays the sends of an entry that is made now.
    pub(super) fn play(&self, occurred_at: Option<Timestamp>, now: Timestamp) -> ForecastSends {
        let mut state = EntryState::new(self.schedule, occurred_at, now);
        let mut sends = Vec::new();
        while let Some(due) = state.next_send_at {
            let send = self.ask(self.schedule.attempt(state.remaining), due, due.max(now));
            let next = match &send.skipped {
                None => state.sent(self.schedule, send.at),
                Some(_) => state.refused(),
            };
            sends.push(send);
            match next {
                Ok(next) if next != state => state = next,
                _ => break,
            }
        }
        ForecastSends { sends, state }
    }

    /// Asks about one send, again after each delay and once after a redirection.
    fn ask(&self, number: u32, planned_at: Timestamp, at: Timestamp) -> ForecastSend {
        let (channel, address) = (self.channel.to_owned(), self.address.to_owned());
        let mut send =
            ForecastSend { number, planned_at, at, channel, address, skipped: None, delayed: None };
        for _ in 0..DELAYS_MAX {
            match self.gate(&send) {
                GateDecision::Delay { until, said } => (send.at, send.delayed) = (until, Some(said)),
                GateDecision::Redirect { channel, address } => {
                    (send.channel, send.address) = (channel, address)
                }
                GateDecision::Drop { reason, said } => {
                    send.skipped = Some((reason, said));
                    break;
                }
                GateDecision::Deliver | GateDecision::Merge { .. } => break,
            }
        }
        send
    }

    fn gate(&self, send: &ForecastSend) -> GateDecision {
        if self.context.store().has(PlantedBug::ForecastAsksNobody) {
            return GateDecision::Deliver;
        }
        let asked = ConsentQuestion {
            channel: &send.channel,
            kind: invitation::EVENT_TYPE,
            now: send.at,
            redirected: send.channel != self.channel,
            zone: self.zone,
        };
        let other = |channel: &str| address_for(channel, &recipient_at(&send.address));
        self.recipients.check(self.context, (self.tenant, &send.address), &asked, other)
    }
}
