//! The consent of the recipients of one claim: whether, how and when they want messages, in which language,
//! and the links that unsubscribe. Read once for all recipients, not once for each.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::delivery::rules::consent::address::normal;
use crate::delivery::rules::consent::{ConsentDecision, ConsentQuestion, channel_kind};
use crate::delivery::rules::unsubscribe::{UnsubscribeLink, UnsubscribeSecret};
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_gate::GateDecision;
use crate::delivery::store::consent::Consent;
use crate::delivery::store::deliveries::{NO_RECIPIENT, QUIET_HOURS};

/// The recipients of one claim.
#[derive(Debug, Default)]
pub struct ClaimRecipients {
    consent: Consent,
    links: UnsubscribeLinks,
}

/// What stands in messages for the links that unsubscribe.
#[derive(Debug, Default)]
enum UnsubscribeLinks {
    /// Nothing: this process has no address for them.
    #[default]
    None,
    /// Links that work.
    Sealed(UnsubscribeSecret),
    /// The address without a token, in a forecast: it makes no links, and writes no secret for them.
    Foreseen,
}

/// One message to one of the recipients.
#[derive(Clone, Copy, Debug)]
pub struct MessageRecipient<'a> {
    /// The tenant of the message.
    pub tenant: Tenant,
    /// The address, however it is written.
    pub address: &'a str,
    /// The key of the channel.
    pub channel: &'a str,
    /// The kind of the event.
    pub kind: &'a str,
}

impl ClaimRecipients {
    /// Reads what is known of these.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn of(context: &DeliveryContext, recipients: Vec<(Tenant, String)>) -> Result<Self> {
        if recipients.is_empty() {
            return Ok(Self::default());
        }
        let consent = context.store().consent(recipients).await?;
        let links = match &context.unsubscribe_url {
            Some(_) => UnsubscribeLinks::Sealed(context.store().link_secret().await?),
            None => UnsubscribeLinks::None,
        };
        Ok(Self { consent, links })
    }

    /// The same for a forecast, which writes nothing.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn foreseen(
        context: &DeliveryContext,
        recipients: Vec<(Tenant, String)>,
    ) -> Result<Self> {
        let consent = match recipients.is_empty() {
            true => Consent::default(),
            false => context.store().consent(recipients).await?,
        };
        Ok(Self { consent, links: UnsubscribeLinks::Foreseen })
    }

    /// Whether, how and when an address may be sent something.
    #[must_use]
    pub fn verdict(&self, tenant: Tenant, address: &str, asked: &ConsentQuestion<'_>) -> ConsentDecision {
        self.consent.verdict(tenant, address, asked)
    }

    /// Decides whether a message to an address of a tenant may be sent, so and now; `address` is where
    /// another channel would reach its recipient.
    pub(crate) fn check(
        &self,
        context: &DeliveryContext,
        (tenant, to): (Tenant, &str),
        asked: &ConsentQuestion<'_>,
        address: impl FnOnce(&str) -> Option<String>,
    ) -> GateDecision {
        match self.verdict(tenant, to, asked) {
            ConsentDecision::Send => GateDecision::Deliver,
            ConsentDecision::Suppressed(why) => {
                GateDecision::Drop { reason: why.word().to_owned(), said: why.to_string() }
            }
            ConsentDecision::ShiftTo(until) => {
                let said = format!("{QUIET_HOURS}: it is quiet where the recipient is until {until}");
                GateDecision::Delay { until, said }
            }
            ConsentDecision::UseChannel(channel) => {
                let channel = context.channels.reach(&channel);
                match address(&channel) {
                    Some(address) => GateDecision::Redirect { channel, address },
                    None => {
                        let said = format!("No recipient: there is no address for `{channel}`");
                        GateDecision::Drop { reason: NO_RECIPIENT.to_owned(), said }
                    }
                }
            }
        }
    }

    /// The locale that the owner of an address wants, if they said so.
    #[must_use]
    pub fn locale(&self, tenant: Tenant, address: &str) -> Option<&str> {
        self.consent.locale(tenant, address)
    }

    /// Returns the link that unsubscribes this address from messages of this kind; in a forecast, one with
    /// `{token}` in it.
    #[must_use]
    pub fn unsubscribe_url(
        &self,
        context: &DeliveryContext,
        to: &MessageRecipient<'_>,
        locale: &str,
    ) -> Option<String> {
        let url = context.unsubscribe_url.as_ref()?;
        let secret = match &self.links {
            UnsubscribeLinks::None => return None,
            UnsubscribeLinks::Sealed(secret) => secret,
            UnsubscribeLinks::Foreseen => return Some(url.clone()),
        };
        let token = secret.seal(&UnsubscribeLink {
            tenant: to.tenant,
            address: normal(to.address),
            channel: channel_kind(to.channel),
            kind: Some(to.kind.to_owned()),
            locale: Some(locale.to_owned()),
        });
        Some(url.replace("{token}", &token))
    }
}
