//! The fallback: the delivery by another channel when one has refused it for good.
//!
//! The fallback uses the template for that channel that planning would choose, with the key that planning
//! would give it: a recipient who is sent that delivery anyway is not sent it twice. Without such a template
//! it uses the template that was refused. Not promised: that a provider takes that text; the refusing
//! provider's own template is left out when it is sent.

use crate::base::id::MessageId;
use crate::delivery::rules::address::address_for;
use crate::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use crate::delivery::rules::template::{MessageTemplate, TemplateSet};
use crate::flow::rules::event_kind::Recipient;
use crate::notification::rules::notification::{KeyParts, fitting, stand_in};
use crate::queue::rules::message::Entity;

/// A delivery that its channel has refused.
#[derive(Clone, Copy, Debug)]
pub struct RefusedDelivery<'a> {
    /// Its key.
    pub key: &'a str,
    /// Whether a person asked for it again.
    pub by_hand: bool,
    /// Its event.
    pub event: MessageId,
    /// The event's kind.
    pub kind: &'a str,
    /// Whether that kind has several recipients.
    pub each: bool,
    /// The entity of the event.
    pub entity: Option<&'a Entity>,
    /// The entities whose own templates fit the event, the most specific first.
    pub scopes: &'a [Entity],
    /// The template of the refused delivery.
    pub template: &'a MessageTemplate,
    /// Which of the event's recipients it was for.
    pub part: usize,
}

impl RefusedDelivery<'_> {
    /// Returns the delivery by this channel in its place.
    #[must_use]
    pub fn to_fallback(&self, channel: &str, set: &TemplateSet, to: &Recipient<'_>) -> PlannedDelivery {
        // One that was moved to where it was refused may have had this channel's own words, and so their key.
        let own = fitting(set, channel, channel, self.scopes, to.locale.as_deref())
            .filter(|own| own.id != self.template.id);
        let of_whom = self.entity.map_or_else(|| stand_in(self.event), |entity| entity.id.clone());
        let naming = KeyParts { entity: &of_whom, kind: self.kind, each: self.each, again: None };
        let template = match own {
            Some(own) if !self.by_hand => return naming.planned(own, channel, to, self.part),
            Some(own) => own,
            None => self.template,
        };
        let address = address_for(channel, to);
        let key = match self.by_hand {
            true => format!("{}:{channel}", self.key),
            false => naming.key(channel, template.id, address.as_deref()),
        };
        PlannedDelivery {
            key,
            channel: channel.to_owned(),
            address,
            send: 1,
            part: self.part,
            template: template.id,
            version: template.version,
            recipient: RecipientIdentity::of(to),
        }
    }
}
