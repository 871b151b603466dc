//! The messages of surveys: invitations and reminders.
//!
//! Before a message is made the recipient's consent is asked for, as for every kind. An instance has one
//! address, so another channel is used in the place of its own only if that takes such an address.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{EntryId, TemplateId};
use crate::delivery::rules::address::address_for;
use crate::delivery::rules::consent::ConsentQuestion;
use crate::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use crate::delivery::rules::event_values::EventValues;
use crate::delivery::rules::template::{MessageTemplate, TemplateSet};
use crate::delivery::run::channel::{RenderedMessage, is_worded_for};
use crate::delivery::run::consent::{ClaimRecipients, MessageRecipient};
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::delivery_gate::GateDecision;
use crate::delivery::run::kinds::{RenderOutcome, Renderer};
use crate::delivery::run::templates::TemplateVersions;
use crate::delivery::store::deliveries::delivery::{Delivery, DeliveryOutcome, DueDelivery};
use crate::delivery::store::entries::step::EntryContext;
use crate::flow::rules::event_kind::Recipient;
use crate::flow::store::entries::Entry;
use crate::queue::run::executor::BoxFuture;
use crate::survey::rules::candidate::recipients::{reader, recipient_at};
use crate::survey::rules::invitation::{self, Invitation, InvitationWords};
use crate::survey::run::definition_cache::LoadedSurvey;
use crate::survey::run::event_facts::{EventFacts, PlannedInstance};
use crate::survey::run::kind::{LoadedSurveys, SurveyKind};
use crate::survey::store::instance::SurveyInstance;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Renders the invitations and reminders of one claim.
#[derive(Debug)]
pub struct SurveyRenderer {
    kind: Arc<SurveyKind>,
    surveys: LoadedSurveys,
    /// In order of their ids: definitions are loaded by this order, the same in every run of a seed.
    entries: BTreeMap<EntryId, Arc<Entry>>,
    versions: TemplateVersions,
    facts: EventFacts,
    recipients: ClaimRecipients,
}

impl SurveyRenderer {
    pub(crate) fn new(kind: &Arc<SurveyKind>) -> Self {
        Self {
            kind: Arc::clone(kind),
            surveys: LoadedSurveys::default(),
            entries: BTreeMap::new(),
            versions: TemplateVersions::default(),
            facts: EventFacts::default(),
            recipients: ClaimRecipients::default(),
        }
    }

    async fn read_entries(&mut self, context: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let unknown = deliveries.iter().map(|of| of.entry).filter(|id| !self.entries.contains_key(id));
        let unknown: Vec<EntryId> = unknown.collect();
        if !unknown.is_empty() {
            let found = context.store().entries_by_id(unknown).await?;
            self.entries.extend(found.into_iter().map(|entry| (entry.id, Arc::new(entry))));
        }
        self.surveys = LoadedSurveys::load(&self.kind, context, self.entries.values()).await?;
        Ok(())
    }

    /// Reads the versions of templates that deliveries have and that are not in use any more.
    async fn read_versions(&mut self, context: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let mut wanted = BTreeSet::new();
        for of in deliveries.iter().filter(|of| of.template != TemplateId::BUILT_IN) {
            let set = self.surveys.sets.get(&of.tenant);
            if set.is_none_or(|set| set.find_version(of.template, of.template_version).is_none()) {
                wanted.insert((of.template, of.template_version));
            }
        }
        self.versions = context.templates.versions(context.store(), wanted).await?;
        Ok(())
    }

    /// Reads what is known of the events that deliveries are about.
    async fn read_facts(&mut self, context: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let wanted = deliveries.iter().filter_map(|delivery| {
            let of = SurveyInstance::of(self.entries.get(&delivery.entry)?)?;
            let (event_kind, template) = (self.surveys.event_kind(&of), self.template(delivery));
            Some(PlannedInstance { of, event_kind, template })
        });
        let facts = EventFacts::of(context, &wanted.collect::<Vec<_>>()).await?;
        self.facts = facts;
        Ok(())
    }

    /// The template of a delivery, in the version that was fixed when it was written; none for our own words.
    fn template(&self, of: &Delivery) -> Option<&MessageTemplate> {
        let set = self.surveys.sets.get(&of.tenant)?;
        self.versions.find(set, of.template, of.template_version)
    }

    /// Whether the recipient wants it, so and now.
    fn ask(
        &self,
        context: &DeliveryContext,
        of: &Delivery,
        instance: &SurveyInstance<'_>,
        now: Timestamp,
    ) -> GateDecision {
        let redirected = of.channel != instance.channel;
        let zone = self.facts.person(of.entry).and_then(|who| who.zone.as_deref());
        let kind = invitation::EVENT_TYPE;
        let asked = ConsentQuestion { channel: &of.channel, kind, now, redirected, zone };
        let address = |channel: &str| address_for(channel, &recipient_at(&of.address));
        self.recipients.check(context, (of.tenant, &of.address), &asked, address)
    }

    fn message(
        &self,
        context: &DeliveryContext,
        of: &Delivery,
        instance: &SurveyInstance<'_>,
        version: &LoadedSurvey,
        now: Timestamp,
    ) -> Option<RenderOutcome> {
        let (tenant, empty) = (instance.entry.tenant, TemplateSet::default());
        let set = self.surveys.sets.get(&tenant).map_or(&empty, Arc::as_ref);
        let address = of.address.as_str();
        let to = MessageRecipient { tenant, address, channel: &of.channel, kind: invitation::EVENT_TYPE };
        let words = match of.template {
            TemplateId::BUILT_IN => InvitationWords::Own(of.template_version),
            _ => InvitationWords::Template(self.template(of)?),
        };
        let sources = self.sources(of, instance);
        let said = self.invitation(of, instance, version, &sources);
        let unsubscribe_url = self.recipients.unsubscribe_url(context, &to, words.locale(set, &said));
        let said = Invitation { unsubscribe_url: unsubscribe_url.as_deref(), ..said };
        let wording = invitation::word(set, words, &said);
        // One provider's own template means nothing to another.
        let is_for = |words| match words {
            InvitationWords::Template(template) => is_worded_for(&context.channels, template, &of.channel),
            InvitationWords::Own(_) => true,
        };
        let own = wording.provider.filter(|_| is_for(words));
        let message = RenderedMessage {
            tenant,
            channel: of.channel.clone(),
            to: address.to_owned(),
            locale: wording.locale,
            attempt: of.send,
            public_id: Some(instance.public_id),
            subject: wording.subject,
            body: wording.body,
            html: wording.html,
            survey_url: Some(sources.url),
            unsubscribe_url,
            provider_template: own.map(|own| Arc::new(own.to_json())),
            payload: sources.payload,
            idempotency_key: of.key.clone(),
            sent_at: now,
        };
        Some(RenderOutcome { message, warnings: wording.warnings })
    }

    fn sources(&self, of: &Delivery, instance: &SurveyInstance<'_>) -> TextSources<'_> {
        let (entry, public_id) = (instance.entry, instance.public_id.to_string());
        let wanted = self.recipients.locale(entry.tenant, instance.address).or(instance.locale);
        let person = self.facts.person(entry.id);
        TextSources {
            url: self.kind.url.replace("{publicId}", &public_id),
            public_id,
            payload: self.facts.payload(entry.id),
            related: self.facts.related(entry.id),
            reader: reader(person, &of.address, wanted, instance.customer_ref),
        }
    }

    fn invitation<'a>(
        &'a self,
        of: &'a Delivery,
        instance: &SurveyInstance<'a>,
        version: &'a LoadedSurvey,
        sources: &'a TextSources<'a>,
    ) -> Invitation<'a> {
        let (survey, id) = (&version.survey, instance.entry.id);
        Invitation {
            flow: instance.flow,
            title: &survey.title,
            default_locale: &survey.default_locale,
            survey_locale: survey.locale_for(sources.reader.locale.as_deref()),
            channel: &of.channel,
            attempt: of.send,
            public_id: &sources.public_id,
            survey_url: &sources.url,
            unsubscribe_url: None,
            address: &of.address,
            kind: self.facts.kind(id),
            occasion: EventValues {
                payload: &sources.payload,
                entity: instance.entry.entity.as_ref(),
                snapshot: self.facts.snapshot(id),
                recipient: &sources.reader,
                related: &sources.related,
                given: &[],
                payload_prefix: None,
            },
        }
    }
}

/// What the text of one send is made from, beside what stands elsewhere.
struct TextSources<'r> {
    public_id: String,
    url: String,
    payload: Arc<Value>,
    related: Vec<(&'r str, Value)>,
    reader: Recipient<'static>,
}

impl Renderer for SurveyRenderer {
    fn know_entries(&mut self, entries: Vec<EntryContext>) {
        self.entries = entries.into_iter().map(|known| (known.entry.id, known.entry)).collect();
    }

    fn load<'f>(
        &'f mut self,
        context: &'f DeliveryContext,
        due: &'f [DueDelivery],
    ) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            let deliveries: Vec<&Delivery> = due.iter().map(|one| &one.delivery).collect();
            self.read_entries(context, &deliveries).await?;
            self.read_versions(context, &deliveries).await?;
            self.read_facts(context, &deliveries).await?;
            let recipients = due.iter().map(|one| (one.delivery.tenant, one.delivery.address.clone()));
            self.recipients = ClaimRecipients::of(context, recipients.collect()).await?;
            Ok(())
        })
    }

    fn load_fallbacks<'f>(
        &'f mut self,
        context: &'f DeliveryContext,
        of: &'f [Delivery],
    ) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            self.read_entries(context, &of.iter().collect::<Vec<_>>()).await?;
            // The recipient's language decides which text the other channel sends.
            let recipients = of.iter().map(|one| (one.tenant, one.address.clone()));
            self.recipients = ClaimRecipients::of(context, recipients.collect()).await?;
            Ok(())
        })
    }

    fn gate(&self, context: &DeliveryContext, due: &DueDelivery, now: Timestamp) -> GateDecision {
        // Without its entry there is nothing to ask, and nothing to render.
        let instance = self.entries.get(&due.delivery.entry).and_then(|entry| SurveyInstance::of(entry));
        let Some(instance) = instance else { return GateDecision::Deliver };
        match self.facts.find_cancel_reason(due.delivery.entry) {
            Some(reason) => GateDecision::Drop { reason: reason.code().to_owned(), said: reason.to_string() },
            None => self.ask(context, &due.delivery, &instance, now),
        }
    }

    fn render(
        &self,
        context: &DeliveryContext,
        due: &DueDelivery,
        now: Timestamp,
    ) -> std::result::Result<RenderOutcome, Box<DeliveryOutcome>> {
        let of = &due.delivery;
        // No try was made, so one that was made before decides whether it may have gone out.
        let gone = |error: &str| {
            let (outcome, error) = (None, error.to_owned());
            Box::new(DeliveryOutcome::Failed { outcome, error, fallback: None })
        };
        let instance = self.entries.get(&of.entry).and_then(|entry| SurveyInstance::of(entry));
        let instance = instance.ok_or_else(|| gone("its entry is gone"))?;
        let version = self.surveys.version(&instance);
        let version = version.ok_or_else(|| gone("the version of the survey that it belongs to is gone"))?;
        self.message(context, of, &instance, version, now).ok_or_else(|| gone("Template not found"))
    }

    fn fallback(&self, context: &DeliveryContext, of: &Delivery) -> Option<PlannedDelivery> {
        let channel = context.policy(&of.channel).fallback.as_deref()?;
        let instance = SurveyInstance::of(self.entries.get(&of.entry)?)?;
        let wanted = self.recipients.locale(of.tenant, instance.address).or(instance.locale);
        let (template, version) = self.surveys.template(&instance, channel, of.send, wanted);
        Some(PlannedDelivery {
            key: format!("survey:{}:{}:{channel}", instance.public_id, of.send),
            channel: channel.to_owned(),
            address: address_for(channel, &recipient_at(&of.address)),
            send: of.send,
            part: of.part,
            template,
            version,
            recipient: RecipientIdentity { name: None, reference: instance.customer_ref.map(str::to_owned) },
        })
    }

    fn entry(&self, of: &Delivery) -> Option<EntryContext> {
        self.entries.get(&of.entry).map(|entry| self.surveys.context(entry))
    }
}
