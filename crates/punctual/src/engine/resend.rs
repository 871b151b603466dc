//! A notice once more, because a person asks for it.
//!
//! The entity's latest event that people were told of is planned again, by the templates and the state of
//! today, under keys of the request's own: so it is sent although it was before. What was written then stays
//! as it is. Nothing is sent here: the deliveries wait for the sender like all others, and it asks for
//! consent like always.

use super::Engine;
use crate::base::error::Result;
use crate::base::id::TemplateId;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::entity::Snapshot;
use crate::rules::message::{Entity, Message};
use crate::rules::notice::{Plan, Planned};
use crate::rules::template::choose::is_named;
use crate::rules::template::{MessageTemplate, TemplateSet};
use crate::run::notify;
use crate::store::notices::look::notice::Noticed;
use crate::store::notices::{Asked, NewNotice};
use std::fmt;

/// What is to be sent again, and who asks.
#[derive(Clone, Debug)]
pub struct Resend {
    /// What the event was about; its type in any case of letters.
    pub entity: Entity,
    /// The channel: a key, or a kind of channels.
    pub channel: String,
    /// Only by this template.
    pub template: Option<TemplateId>,
    /// Only the latest event of this kind.
    pub event_type: Option<String>,
    /// Who asks, for the log.
    pub requested_by: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resent {
    /// These wait to be sent.
    Asked {
        /// The name of the request, which is in their keys.
        request_id: String,
        /// The deliveries.
        deliveries: Vec<Asked>,
    },
    /// Nothing was written.
    Refused(NotResent),
}

/// Why nothing is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotResent {
    /// Nobody was ever told of such an event.
    NoEvent,
    /// The event was dropped by age.
    EventDropped,
    /// There is no template in use that fits.
    NoTemplate,
    /// Nobody could be reached by that channel.
    NoRecipient,
    /// It makes no sense any more; with the sentence why.
    Pointless(String),
}

impl fmt::Display for NotResent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvent => {
                f.write_str("nobody was told of any such event about it, so there is nothing to send again")
            }
            Self::EventDropped => {
                f.write_str("the event was dropped by age; publish it again to have it sent")
            }
            Self::NoTemplate => f.write_str("no active template for its kind of events fits"),
            Self::NoRecipient => f.write_str("the event has no recipient whom this channel could reach"),
            Self::Pointless(said) => write!(f, "it is not to be sent: {said}"),
        }
    }
}

impl Engine {
    /// Has the latest event about an entity told once more.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn resend(&self, tenant: Tenant, resend: Resend) -> Result<Resent> {
        let (entity, kind) = (resend.entity.clone(), resend.event_type.clone());
        let (event, about) = match self.store().latest_noticed(tenant, entity, kind).await? {
            Noticed::Never => return Ok(Resent::Refused(NotResent::NoEvent)),
            Noticed::Dropped => return Ok(Resent::Refused(NotResent::EventDropped)),
            Noticed::Event(event, about) => (*event, about),
        };
        let request_id = random::hex::<12>();
        let deliveries = match self.plan_again(&event, &about, &resend, &request_id).await? {
            Ok(deliveries) => deliveries,
            Err(refused) => return Ok(Resent::Refused(refused)),
        };
        let request = Some((request_id.clone(), resend.requested_by));
        let notice = NewNotice { entity: Some(about), ended: None, deliveries, request };
        let deliveries = self.store().ask_for_notice(event, notice).await?;
        self.tell().await;
        Ok(Resent::Asked { request_id, deliveries })
    }

    async fn plan_again(
        &self,
        event: &Message,
        about: &Entity,
        resend: &Resend,
        request_id: &str,
    ) -> Result<std::result::Result<Vec<Planned>, NotResent>> {
        let set = self.templates().of(self.store(), event.tenant, &event.kind).await?;
        let fits = |template: &MessageTemplate| resend.fits(template, &|named| self.channels().reach(named));
        let set = TemplateSet {
            templates: set.templates.iter().filter(|template| fits(template)).cloned().collect(),
            default_locale: set.default_locale.clone(),
            zone: set.zone.clone(),
        };
        Ok(match self.plan_event(event, Some(about), &set, Some(request_id)).await? {
            Plan::Deliveries(mut planned) => {
                planned.retain(|one| one.address.is_some());
                if planned.is_empty() { Err(NotResent::NoRecipient) } else { Ok(planned) }
            }
            Plan::NoTemplate | Plan::PassOver => Err(NotResent::NoTemplate),
            Plan::Missing(said) | Plan::Pointless(_, said) => Err(NotResent::Pointless(said)),
        })
    }

    /// What an event that was comes to now.
    pub(super) async fn plan_event(
        &self,
        event: &Message,
        about: Option<&Entity>,
        set: &TemplateSet,
        again: Option<&str>,
    ) -> Result<Plan> {
        let mut snapshot = Snapshot::Unknown;
        if let Some(about) = about {
            let mut found = self.store().snapshots(event.tenant, vec![about.clone()]).await?;
            snapshot = found.remove(about).unwrap_or_default();
        }
        notify::plan(&self.inner.post, event, &snapshot, set, again).await
    }
}

impl Resend {
    fn fits(&self, template: &MessageTemplate, reach: &dyn Fn(&str) -> String) -> bool {
        let named = &template.definition.channel;
        let by_channel = is_named(named, &self.channel) || is_named(&reach(named), &self.channel);
        by_channel && self.template.is_none_or(|id| id == template.id)
    }
}
