//! A notification once more, because a person asks for it.
//!
//! The entity's latest event for which there is a template on the channel today is planned again, by the
//! templates and the state of today, under keys of the request's own: so it is sent although it was before. A
//! request that names a template or an event kind means the latest event of that kind. The earlier entries
//! stay as they are. Nothing is sent here: the deliveries wait for the dispatcher like all others, which
//! checks consent as always.

use crate::base::error::Result;
use crate::base::id::TemplateId;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::delivery::rules::delivery::PlannedDelivery;
use crate::delivery::rules::template::choose::is_named;
use crate::delivery::rules::template::{MessageTemplate, TemplateDefinition, TemplateSet};
use crate::delivery::store::deliveries::planned_events::{PlannedEntry, RequestedDelivery};
use crate::delivery::store::deliveries::schedule::LatestEvent;
use crate::delivery::store::templates::TemplateFilter;
use crate::engine::Engine;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::input_hash::EntryOrigin;
use crate::notification::rules::notification::NotificationPlan;
use crate::notification::run::planner::plan_one;
use crate::queue::rules::message::{Entity, Message};
use std::collections::BTreeSet;
use std::fmt;

/// Templates that are read at a time.
const PAGE: usize = 500;

/// A request to send a notification again.
#[derive(Clone, Debug)]
pub struct ResendRequest {
    /// The entity of the event; its type in upper or lower case.
    pub entity: Entity,
    /// The channel: a key, or a kind of channels.
    pub channel: String,
    /// Selects this template only.
    pub template: Option<TemplateId>,
    /// Selects the latest event of this kind only.
    pub event_type: Option<String>,
    /// The author of the request, for the log.
    pub requested_by: String,
}

/// The outcome of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResendOutcome {
    /// These wait to be sent.
    Asked {
        /// The name of the request, which is in their keys.
        request_id: String,
        /// The deliveries.
        deliveries: Vec<RequestedDelivery>,
    },
    /// Nothing was written.
    Refused(ResendRefusal),
}

/// The reason why no message is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResendRefusal {
    /// There is no notification of such an event.
    NoEvent,
    /// The event was dropped by age.
    EventDropped,
    /// There is no template in use that fits.
    NoTemplate,
    /// No recipient could be reached by that channel.
    NoRecipient,
    /// The message is pointless by now; with the reason.
    Pointless(String),
}

impl fmt::Display for ResendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvent => f.write_str(
                "no notification of such an event exists for this entity, so there is nothing to send again",
            ),
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
    /// Sends the notifications of the latest event about an entity once more.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn resend(&self, tenant: Tenant, resend: ResendRequest) -> VerbFuture<'_, ResendOutcome> {
        VerbFuture::new(async move {
            let Some(kinds) = self.resent_kinds(tenant, &resend).await? else {
                return Ok(ResendOutcome::Refused(ResendRefusal::NoTemplate));
            };
            let latest = |kinds| self.store().latest_event(tenant, resend.entity.clone(), kinds);
            let (event, about) = match latest(Some(kinds)).await? {
                LatestEvent::Never => {
                    // Of other kinds there may be some, for which nothing fits.
                    let unfit =
                        resend.event_type.is_none() && !matches!(latest(None).await?, LatestEvent::Never);
                    return Ok(ResendOutcome::Refused(if unfit {
                        ResendRefusal::NoTemplate
                    } else {
                        ResendRefusal::NoEvent
                    }));
                }
                LatestEvent::Dropped => return Ok(ResendOutcome::Refused(ResendRefusal::EventDropped)),
                LatestEvent::Event(event, about) => (*event, about),
            };
            let request_id = random::hex::<12>();
            let (deliveries, origin) = match self.plan_again(&event, &about, &resend, &request_id).await? {
                Ok(planned) => planned,
                Err(refused) => return Ok(ResendOutcome::Refused(refused)),
            };
            let request = Some((request_id.clone(), resend.requested_by));
            let notification = PlannedEntry {
                kind: EntryKind::Notification,
                entity: Some(about),
                ended: None,
                deliveries,
                request,
                origin,
            };
            let deliveries = self.store().write_resend(event, notification).await?;
            self.wake_all().await;
            Ok(ResendOutcome::Asked { request_id, deliveries })
        })
    }

    /// The kinds of events that are meant; `None` if a template is named that there is not.
    async fn resent_kinds(&self, tenant: Tenant, resend: &ResendRequest) -> Result<Option<Vec<String>>> {
        if let Some(kind) = &resend.event_type {
            return Ok(Some(vec![kind.clone()]));
        }
        if let Some(id) = resend.template {
            let template = self.store().template(tenant, id).await?;
            return Ok(template.map(|template| vec![template.definition.event_type]));
        }
        let (mut kinds, mut after) = (BTreeSet::new(), TemplateId(0));
        loop {
            let filter = TemplateFilter { active: Some(true), ..TemplateFilter::default() };
            let page = self.store().templates(tenant, filter, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            let fitting = page.into_iter().map(|template| template.definition);
            kinds.extend(fitting.filter(|of| self.serves(of, &resend.channel)).map(|of| of.event_type));
        }
        Ok(Some(kinds.into_iter().collect()))
    }

    /// Returns whether a template is for the named channel.
    fn serves(&self, of: &TemplateDefinition, channel: &str) -> bool {
        is_named(&of.channel, channel) || is_named(&self.channels().reach(&of.channel), channel)
    }

    async fn plan_again(
        &self,
        event: &Message,
        about: &Entity,
        resend: &ResendRequest,
        request_id: &str,
    ) -> Result<std::result::Result<(Vec<PlannedDelivery>, EntryOrigin), ResendRefusal>> {
        let set = self.templates().of(self.store(), event.tenant, &event.kind).await?;
        let is_meant = |id: TemplateId| resend.template.is_none_or(|meant| meant == id);
        let fits = |template: &MessageTemplate| {
            is_meant(template.id) && self.serves(&template.definition, &resend.channel)
        };
        let set = TemplateSet {
            templates: set.templates.iter().filter(|template| fits(template)).cloned().collect(),
            ..TemplateSet::clone(&set)
        };
        let (plan, origin) = self.plan_event(event, Some(about), &set, Some(request_id)).await?;
        Ok(match plan {
            NotificationPlan::Deliveries(mut planned) => {
                planned.retain(|one| one.address.is_some());
                if planned.is_empty() { Err(ResendRefusal::NoRecipient) } else { Ok((planned, origin)) }
            }
            NotificationPlan::NoTemplate | NotificationPlan::PassOver => Err(ResendRefusal::NoTemplate),
            NotificationPlan::Missing(said) | NotificationPlan::Pointless(_, said) => {
                Err(ResendRefusal::Pointless(said))
            }
        })
    }

    /// Plans an earlier event with the present templates.
    pub(crate) async fn plan_event(
        &self,
        event: &Message,
        about: Option<&Entity>,
        set: &TemplateSet,
        again: Option<&str>,
    ) -> Result<(NotificationPlan, EntryOrigin)> {
        let mut snapshot = EntitySnapshot::Unknown;
        if let Some(about) = about {
            let mut found = self.store().snapshots(event.tenant, vec![about.clone()]).await?;
            snapshot = found.remove(about).unwrap_or_default();
        }
        plan_one(&self.inner.delivery, event, &snapshot, set, again).await
    }
}
