//! Deliveries of notifications: each is checked once more, then rendered and sent.
//!
//! The checks before a message is rendered, in this order: its event still exists, its entity does not make
//! it pointless, the recipient wants it (and by this channel, and now). A delivery that fails a check ends
//! with the reason; one that is only held back is due again later, and no try is counted.
//!
//! The recipient of a delivery is found again by its address, not by the place in a list when it was planned
//! (`delivery/rules/event_recipients.rs`); for a recipient who is not in the event any more, the
//! stored identity is used.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{DeliveryId, EntryId};
use crate::delivery::rules::address::address_for;
use crate::delivery::rules::consent::ConsentQuestion;
use crate::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use crate::delivery::rules::event_recipients::EventRecipients;
use crate::delivery::rules::event_values::EventValues;
use crate::delivery::rules::template::{MessageTemplate, TemplateSet};
use crate::delivery::run::channel::RenderedMessage;
use crate::delivery::run::channel::is_worded_for;
use crate::delivery::run::consent::{ClaimRecipients, MessageRecipient};
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::definitions::Definitions;
use crate::delivery::run::delivery_gate::GateDecision;
use crate::delivery::run::kinds::{RenderOutcome, Renderer};
use crate::delivery::run::source_events;
use crate::delivery::run::source_events::{ParsedSourceEvent, SourceEventByEntry};
use crate::delivery::run::templates::TemplateVersions;
use crate::delivery::store::deliveries::delivery::{Delivery, DeliveryOutcome, DueDelivery};
use crate::delivery::store::deliveries::source_events::NotificationCause;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{EventKind, Recipient};
use crate::flow::run::entity_states::EntityStates;
use crate::notification::rules::notification::fallback::RefusedDelivery;
use crate::notification::rules::notification::scopes_of;
use crate::queue::rules::message::{Entity, Message};
use crate::queue::run::executor::BoxFuture;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The deliveries of one claim, with all that is known about them.
#[derive(Debug, Default)]
pub struct NotificationRenderer {
    definitions: Definitions,
    causes: Arc<SourceEventByEntry>,
    states: EntityStates,
    people: HashMap<DeliveryId, Recipient<'static>>,
    versions: TemplateVersions,
    recipients: ClaimRecipients,
    forecast: Option<Arc<ForecastContext>>,
}

/// What a forecast assumes, and what the database does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForecastContext {
    /// States that come with the event.
    pub(crate) states: HashMap<Entity, EntitySnapshot>,
    /// What the deliveries would keep of their recipients.
    pub(crate) recipients: HashMap<DeliveryId, RecipientIdentity>,
}

impl NotificationRenderer {
    /// Makes a renderer for deliveries that are not written.
    pub(crate) fn foreseeing(causes: SourceEventByEntry, world: ForecastContext) -> Self {
        Self { causes: Arc::new(causes), forecast: Some(Arc::new(world)), ..Self::default() }
    }

    /// Reads their events and entities, without their recipients' consent.
    async fn about(
        context: &DeliveryContext,
        deliveries: &[&Delivery],
        causes: Arc<SourceEventByEntry>,
        forecast: Option<Arc<ForecastContext>>,
    ) -> Result<Self> {
        let source = deliveries.iter().filter_map(|of| causes.get(&of.entry));
        let events = source.map(|source| source.cause.event.as_ref());
        let definitions = Definitions::of(context, events).await?;
        let mut known = Self { definitions, causes, forecast, ..Self::default() };
        known.read_versions(context, deliveries).await?;
        known.read_entities(context, deliveries).await?;
        known.find_people(context, deliveries).await?;
        Ok(known)
    }

    /// Reads the versions of templates that deliveries have and that are not in use any more.
    async fn read_versions(&mut self, context: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let mut wanted = BTreeSet::new();
        for of in deliveries {
            let set = self.causes.get(&of.entry).and_then(|source| self.definitions.set(&source.cause.event));
            if set.is_some_and(|set| set.find_version(of.template, of.template_version).is_none()) {
                wanted.insert((of.template, of.template_version));
            }
        }
        self.versions = context.templates.versions(context.store(), wanted).await?;
        Ok(())
    }

    /// The entities that events are about, then those that they lead to.
    async fn read_entities(&mut self, context: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let own = deliveries.iter().filter_map(|of| Some((of.tenant, self.entity_of(of)?.clone())));
        self.states.read(context.store(), own.collect()).await?;
        self.assume(deliveries);
        let mut related = BTreeSet::new();
        for of in deliveries {
            let Some(source) = self.causes.get(&of.entry) else { continue };
            let Some(kind) = self.definitions.kind(&source.cause.event) else { continue };
            if !kind.related.is_empty() {
                let found = kind.related_ids(&source.payload, self.snapshot(of));
                related.extend(found.into_iter().map(|(_, entity)| (of.tenant, entity)));
            }
        }
        self.states.read(context.store(), related).await?;
        self.assume(deliveries);
        Ok(())
    }

    /// In a forecast, the states that come with the event stand in for those that are known.
    fn assume(&mut self, deliveries: &[&Delivery]) {
        if let (Some(forecast), Some(of)) = (&self.forecast, deliveries.first()) {
            self.states.assume(of.tenant, &forecast.states);
        }
    }

    /// Finds the recipients of deliveries. A stored identity is read only if no recipient of the event has
    /// the address any more.
    async fn find_people(&mut self, context: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let strangers = self.match_recipients(deliveries, &HashMap::new());
        if strangers.is_empty() {
            return Ok(());
        }
        let kept = match &self.forecast {
            Some(forecast) => forecast.recipients.clone(),
            None => context.store().kept_recipients(strangers.iter().map(|of| of.id).collect()).await?,
        };
        for of in self.match_recipients(&strangers, &kept) {
            let whom = kept.get(&of.id).cloned().unwrap_or_default();
            self.people.insert(of.id, whom.with(&of.channel, &of.address));
        }
        Ok(())
    }

    /// Finds the recipients of these deliveries, reading each event once; returns the deliveries without a
    /// match.
    fn match_recipients<'d>(
        &mut self,
        deliveries: &[&'d Delivery],
        kept: &HashMap<DeliveryId, RecipientIdentity>,
    ) -> Vec<&'d Delivery> {
        let mut by_notification: BTreeMap<EntryId, Vec<&'d Delivery>> = BTreeMap::new();
        for of in deliveries {
            by_notification.entry(of.entry).or_default().push(*of);
        }
        let (mut met, mut strangers) = (Vec::with_capacity(deliveries.len()), Vec::new());
        for of_one in by_notification.values() {
            let Some(people) = of_one.first().and_then(|of| self.people_of(of)) else { continue };
            for of in of_one {
                let known_as = || people.known_as(kept.get(&of.id)?);
                match people.at(of.part, &of.address).or_else(known_as) {
                    Some(who) => met.push((of.id, who.owned())),
                    None => strangers.push(*of),
                }
            }
        }
        self.people.extend(met);
        strangers
    }

    /// Returns the recipients of a delivery's event, by its present data.
    fn people_of(&self, of: &Delivery) -> Option<EventRecipients<'_>> {
        let source = self.causes.get(&of.entry)?;
        Some(EventRecipients::of(self.kind_of(&source.cause.event), &source.payload, self.snapshot(of)))
    }

    fn kind_of(&self, event: &Message) -> &EventKind {
        self.definitions.kind(event).unwrap_or_else(|| EventKind::undefined())
    }

    /// Returns the entity of a delivery's event.
    fn entity_of(&self, of: &Delivery) -> Option<&Entity> {
        self.causes.get(&of.entry)?.cause.entity.as_ref()
    }

    fn snapshot(&self, of: &Delivery) -> &EntitySnapshot {
        self.states.of(of.tenant, self.entity_of(of))
    }

    /// RecipientIdentity a delivery is for, in the language that they want.
    fn recipient(&self, of: &Delivery) -> Cow<'_, Recipient<'static>> {
        let mut recipient = self.people.get(&of.id).map(Cow::Borrowed).unwrap_or_default();
        if let Some(locale) = self.recipients.locale(of.tenant, &of.address) {
            recipient.to_mut().locale = Some(locale.to_owned());
        }
        recipient
    }

    /// Renders a delivery, or returns its outcome if there is no message.
    fn weigh(
        &self,
        context: &DeliveryContext,
        due: &DueDelivery,
        now: Timestamp,
    ) -> std::result::Result<RenderOutcome, Box<DeliveryOutcome>> {
        let of = &due.delivery;
        let Some(source) = self.causes.get(&of.entry) else { return Err(gone("its event is gone").into()) };
        let ParsedSourceEvent { cause: NotificationCause { event, entity, .. }, payload } = source;
        let set = self.definitions.set(event);
        let found = set.and_then(|set| Some((set, self.template(set, of)?)));
        let Some((set, template)) = found else { return Err(gone("Template not found").into()) };
        let (kind, snapshot) = (self.kind_of(event), self.snapshot(of));
        let recipient = &self.recipient(of);
        let related = self.states.related(of.tenant, kind, payload, snapshot);
        let locale = template.locale_for(recipient.locale.as_deref());
        let to = MessageRecipient {
            tenant: of.tenant,
            address: &of.address,
            channel: &of.channel,
            kind: &event.kind,
        };
        let unsubscribe_url = self.recipients.unsubscribe_url(context, &to, locale);
        let given: Vec<(&str, &str)> =
            unsubscribe_url.iter().map(|url| ("unsubscribeUrl", url.as_str())).collect();
        let occasion = EventValues {
            payload,
            entity: entity.as_ref(),
            snapshot,
            recipient,
            related: &related,
            given: &given,
            payload_prefix: None,
        };
        let filled = kind.word(template, &occasion, set);
        let warnings =
            filled.warnings.iter().map(|said| format!("{}: {}", said.path, said.message)).collect();
        // One provider's own template means nothing to another.
        let provider = filled.provider.filter(|_| is_worded_for(&context.channels, template, &of.channel));
        let message = RenderedMessage {
            tenant: of.tenant,
            channel: of.channel.clone(),
            to: of.address.clone(),
            locale: locale.to_owned(),
            attempt: of.send,
            public_id: None,
            survey_url: None,
            subject: filled.subject,
            body: filled.body,
            html: filled.html,
            unsubscribe_url,
            provider_template: provider.map(|own| Arc::new(own.to_json())),
            payload: Arc::clone(payload),
            idempotency_key: of.key.clone(),
            sent_at: now,
        };
        Ok(RenderOutcome { message, warnings })
    }

    /// The template of a delivery, in the version that was fixed when it was written.
    fn template<'t>(&'t self, set: &'t TemplateSet, of: &Delivery) -> Option<&'t MessageTemplate> {
        self.versions.find(set, of.template, of.template_version)
    }

    /// Returns the delivery for another channel if this one refuses for good.
    fn plan_fallback(&self, context: &DeliveryContext, of: &Delivery) -> Option<PlannedDelivery> {
        let channel = context.policy(&of.channel).fallback.as_deref()?;
        let ParsedSourceEvent { cause: NotificationCause { event, entity, by_hand }, payload } =
            self.causes.get(&of.entry)?;
        let (set, kind) = (self.definitions.set(event)?, self.kind_of(event));
        let scopes = scopes_of(entity.as_ref(), kind, payload, self.snapshot(of));
        let refused = RefusedDelivery {
            key: &of.key,
            by_hand: *by_hand,
            event: event.id,
            kind: &event.kind,
            each: kind.recipients.each.is_some(),
            entity: entity.as_ref(),
            scopes: &scopes,
            template: self.template(set, of)?,
            part: of.part,
        };
        self.people.get(&of.id)?;
        Some(refused.to_fallback(channel, set, &self.recipient(of)))
    }

    /// Whether the recipient wants it, so and now.
    fn ask(
        &self,
        context: &DeliveryContext,
        of: &Delivery,
        event: &Message,
        template: &MessageTemplate,
        now: Timestamp,
    ) -> GateDecision {
        let recipient = &self.recipient(of);
        let redirected = of.channel != context.channels.reach(&template.definition.channel);
        let zone = recipient.zone.as_deref();
        let asked = ConsentQuestion { channel: &of.channel, kind: &event.kind, now, redirected, zone };
        self.recipients
            .check(context, (of.tenant, &of.address), &asked, |channel| address_for(channel, recipient))
    }

    /// Whether what a delivery is about is still worth a message, and its recipient wants it.
    fn decide(&self, context: &DeliveryContext, of: &Delivery, now: Timestamp) -> Option<GateDecision> {
        let ParsedSourceEvent { cause: NotificationCause { event, .. }, payload } =
            self.causes.get(&of.entry)?;
        let template = self.template(self.definitions.set(event)?, of)?;
        Some(match self.kind_of(event).is_pointless(self.snapshot(of), payload) {
            Some(reason) => GateDecision::Drop { reason: reason.code().to_owned(), said: reason.to_string() },
            None => self.ask(context, of, event, template, now),
        })
    }
}

fn gone(error: &str) -> DeliveryOutcome {
    DeliveryOutcome::Failed { outcome: None, error: error.to_owned(), fallback: None }
}

impl Renderer for NotificationRenderer {
    fn know_events(&mut self, events: Arc<SourceEventByEntry>) {
        self.causes = events;
    }

    fn load<'f>(
        &'f mut self,
        context: &'f DeliveryContext,
        due: &'f [DueDelivery],
    ) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            let deliveries: Vec<&Delivery> = due.iter().map(|one| &one.delivery).collect();
            let mut causes = Arc::clone(&self.causes);
            if causes.is_empty() {
                let entries = deliveries.iter().map(|of| of.entry).collect();
                causes = Arc::new(source_events::read(context.store(), entries).await?);
            }
            *self = Self::about(context, &deliveries, causes, self.forecast.take()).await?;
            let recipients =
                due.iter().map(|one| (one.delivery.tenant, one.delivery.address.clone())).collect();
            self.recipients = match self.forecast {
                Some(_) => ClaimRecipients::foreseen(context, recipients).await?,
                None => ClaimRecipients::of(context, recipients).await?,
            };
            Ok(())
        })
    }

    fn load_fallbacks<'f>(
        &'f mut self,
        context: &'f DeliveryContext,
        of: &'f [Delivery],
    ) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            let with_other: Vec<&Delivery> =
                of.iter().filter(|of| context.policy(&of.channel).fallback.is_some()).collect();
            let causes =
                source_events::read(context.store(), with_other.iter().map(|of| of.entry).collect()).await?;
            *self = Self::about(context, &with_other, Arc::new(causes), None).await?;
            // The recipient's language decides which text the other channel sends.
            let recipients = with_other.iter().map(|of| (of.tenant, of.address.clone()));
            self.recipients = ClaimRecipients::of(context, recipients.collect()).await?;
            Ok(())
        })
    }

    fn gate(&self, context: &DeliveryContext, due: &DueDelivery, now: Timestamp) -> GateDecision {
        // Without its event or template there is nothing to ask, and nothing to render.
        self.decide(context, &due.delivery, now).unwrap_or(GateDecision::Deliver)
    }

    fn render(
        &self,
        context: &DeliveryContext,
        due: &DueDelivery,
        now: Timestamp,
    ) -> std::result::Result<RenderOutcome, Box<DeliveryOutcome>> {
        self.weigh(context, due, now)
    }

    fn fallback(&self, context: &DeliveryContext, of: &Delivery) -> Option<PlannedDelivery> {
        self.plan_fallback(context, of)
    }
}
