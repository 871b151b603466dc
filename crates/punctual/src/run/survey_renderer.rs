//! Surveys in the pipeline: which delivery a due entry gets, and what its message says.
//!
//! A send is planned before its entry is taken: template and key are fixed when the delivery is written,
//! so that a retry asks the provider for the same message, whatever has changed since. Before a message
//! is made the recipient is asked for, as for every kind. An entry has one address, so another channel is
//! used in the place of its own only if that takes such an address.

use super::channel::RenderedMessage;
use super::consent::{Recipients, To};
use super::definition_cache::LoadedSurvey;
use super::delivery_gate::GateDecision;
use super::kinds::{BoxFuture, Planner, Rendered, Renderer};
use super::notification_renderer::is_worded_for;
use super::send::DeliveryContext;
use super::survey_entities::SurveyEntities;
use super::templates::TemplateVersions;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{EntryId, FlowId, TemplateId};
use crate::base::tenant::Tenant;
use crate::rules::consent::Asked;
use crate::rules::event_kind::Recipient;
use crate::rules::invitation::{self, Invitation, Words};
use crate::rules::notification::{self, Planned, Whom};
use crate::rules::template::TemplateSet;
use crate::store::deliveries::deliver::{Delivery, Due, Ending};
use crate::store::entries::Entry;
use crate::store::entries::advance::{PeekedEntries, PlannedSend};
use crate::store::entries::step::SurveyContext;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Versions of surveys, and templates of their tenants.
#[derive(Debug, Default)]
struct Surveys {
    editions: HashMap<(FlowId, u32), Option<Arc<LoadedSurvey>>>,
    sets: HashMap<Tenant, Arc<TemplateSet>>,
}

impl Surveys {
    async fn of(post: &DeliveryContext, entries: impl Iterator<Item = &Arc<Entry>>) -> Result<Self> {
        let mut known = Self::default();
        for entry in entries {
            let version = (entry.flow, entry.number);
            if let std::collections::hash_map::Entry::Vacant(new) = known.editions.entry(version) {
                new.insert(post.shelf.edition(&post.store, entry.flow, entry.number).await?);
            }
            if let std::collections::hash_map::Entry::Vacant(new) = known.sets.entry(entry.tenant) {
                new.insert(post.templates.of(&post.store, entry.tenant, invitation::EVENT_TYPE).await?);
            }
        }
        Ok(known)
    }

    fn edition(&self, entry: &Entry) -> Option<&Arc<LoadedSurvey>> {
        self.editions.get(&(entry.flow, entry.number))?.as_ref()
    }

    /// The kind of the events that the entry's trigger looks at.
    fn event_kind(&self, entry: &Entry) -> Option<&str> {
        let mut triggers = self.edition(entry)?.survey.triggers.iter();
        triggers.find(|trigger| trigger.id == entry.trigger_id).map(|trigger| trigger.event_kind.as_str())
    }

    /// The entry with its timetable; one whose version is gone has no reminders left.
    fn context(&self, entry: &Arc<Entry>) -> SurveyContext {
        let schedule = self.edition(entry).and_then(|edition| edition.schedule(&entry.trigger_id)).cloned();
        SurveyContext { entry: Arc::clone(entry), schedule: schedule.unwrap_or_default() }
    }

    /// The template of a send. A text of our own is template 0, and its version says in which language.
    fn template(&self, entry: &Entry, channel: &str, send: u32, wanted: Option<&str>) -> (TemplateId, u32) {
        let known = self.edition(entry).zip(self.sets.get(&entry.tenant));
        // Without its version a survey sends nothing, so its words do not matter.
        let Some((edition, set)) = known else { return (TemplateId(0), 0) };
        let survey = &edition.survey;
        let (locale, default) = (Some(survey.locale_for(wanted)), survey.default_locale.as_str());
        match invitation::template_for(set, entry.flow, default, channel, locale, send) {
            Some(template) => (template.id, template.version),
            None => (TemplateId(0), invitation::own_version(set, default, locale)),
        }
    }
}

/// Plans the invitations and reminders of surveys.
#[derive(Debug)]
pub struct SurveyPlanner;

impl Planner for SurveyPlanner {
    fn plan_sends<'f>(
        &'f self,
        post: &'f DeliveryContext,
        peeked: &'f PeekedEntries,
    ) -> BoxFuture<'f, Result<Vec<PlannedSend>>> {
        Box::pin(plan_sends(post, peeked))
    }

    fn renderer_of(&self, contexts: Vec<SurveyContext>) -> Box<dyn Renderer> {
        Box::new(SurveyRenderer::knowing(contexts))
    }
}

async fn plan_sends(post: &DeliveryContext, peeked: &PeekedEntries) -> Result<Vec<PlannedSend>> {
    let surveys = Surveys::of(post, peeked.due.iter().map(|(_, entry)| entry)).await?;
    // Texts of our own are in several languages, too.
    let is_multilingual = |entry: &Entry| {
        let has_own = || surveys.template(entry, &entry.channel, entry.attempt(), None).0 == TemplateId(0);
        surveys.sets.get(&entry.tenant).is_some_and(|set| set.is_multilingual()) || has_own()
    };
    let readers = peeked.due.iter().filter(|(_, entry)| is_multilingual(entry));
    let readers: Vec<_> = readers.map(|(_, entry)| (entry.tenant, entry.address.clone())).collect();
    let consent = if readers.is_empty() { None } else { Some(post.store.consent(readers).await?) };
    let planned = peeked.due.iter().map(|(work, entry)| {
        let preferred = consent.as_ref().and_then(|consent| consent.locale(entry.tenant, &entry.address));
        let send = entry.attempt();
        let wanted = preferred.or(entry.locale.as_deref());
        let (template, version) = surveys.template(entry, &entry.channel, send, wanted);
        let planned = Planned {
            key: entry.send_key(),
            channel: entry.channel.clone(),
            address: Some(entry.address.clone()),
            send,
            part: 0,
            template,
            version,
            whom: Whom { name: None, reference: entry.customer_ref.clone() },
        };
        PlannedSend { work: *work, context: surveys.context(entry), planned }
    });
    Ok(planned.collect())
}

/// Renders the invitations and reminders of one claim.
#[derive(Debug, Default)]
pub struct SurveyRenderer {
    surveys: Surveys,
    /// In order of their ids: definitions are loaded by this order, the same in every run of a seed.
    entries: BTreeMap<EntryId, Arc<Entry>>,
    versions: TemplateVersions,
    entities: SurveyEntities,
    recipients: Recipients,
}

impl SurveyRenderer {
    /// A renderer of deliveries that were just written for these entries.
    fn knowing(contexts: Vec<SurveyContext>) -> Self {
        let entries = contexts.into_iter().map(|context| (context.entry.id, context.entry)).collect();
        Self { entries, ..Self::default() }
    }

    async fn read_entries(&mut self, post: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let unknown = deliveries.iter().map(|of| of.entry).filter(|id| !self.entries.contains_key(id));
        let unknown: Vec<EntryId> = unknown.collect();
        if !unknown.is_empty() {
            let found = post.store.entries_by_id(unknown).await?;
            self.entries.extend(found.into_iter().map(|entry| (entry.id, Arc::new(entry))));
        }
        self.surveys = Surveys::of(post, self.entries.values()).await?;
        Ok(())
    }

    /// Reads the versions of templates that deliveries have and that are not in use any more.
    async fn read_versions(&mut self, post: &DeliveryContext, deliveries: &[&Delivery]) -> Result<()> {
        let mut wanted = BTreeSet::new();
        for of in deliveries.iter().filter(|of| of.template != TemplateId(0)) {
            let set = self.surveys.sets.get(&of.tenant);
            if set.is_none_or(|set| set.find_version(of.template, of.template_version).is_none()) {
                wanted.insert((of.template, of.template_version));
            }
        }
        self.versions = post.templates.versions(&post.store, wanted).await?;
        Ok(())
    }

    /// Whether the recipient wants it, so and now.
    fn ask(&self, post: &DeliveryContext, of: &Delivery, entry: &Entry, now: Timestamp) -> GateDecision {
        let redirected = of.channel != entry.channel;
        let asked = Asked { channel: &of.channel, kind: invitation::EVENT_TYPE, now, redirected, zone: None };
        let address = |channel: &str| notification::address(channel, &recipient(&of.address));
        self.recipients.check(post, of, &asked, address)
    }

    fn letter(
        &self,
        post: &DeliveryContext,
        of: &Delivery,
        entry: &Entry,
        edition: &LoadedSurvey,
        now: Timestamp,
    ) -> Option<Rendered> {
        let (survey, empty) = (&edition.survey, TemplateSet::default());
        let set = self.surveys.sets.get(&entry.tenant).map_or(&empty, Arc::as_ref);
        let public_id = entry.public_id.to_string();
        let url = post.survey_url.replace("{publicId}", &public_id);
        let payload: serde_json::Value = serde_json::from_str(&entry.payload).unwrap_or_default();
        let wanted = self.recipients.locale(entry.tenant, &entry.address).or(entry.locale.as_deref());
        let locale = survey.locale_for(wanted);
        let (tenant, address) = (entry.tenant, of.address.as_str());
        let to = To { tenant, address, channel: &of.channel, kind: invitation::EVENT_TYPE };
        let unsubscribe_url = self.recipients.unsubscribe_url(post, &to, locale);
        let words = match of.template {
            TemplateId(0) => Words::Own(of.template_version),
            id => Words::Template(self.versions.find(set, id, of.template_version)?),
        };
        let wording = invitation::word(
            set,
            words,
            &Invitation {
                flow: entry.flow,
                title: &survey.title,
                default_locale: &survey.default_locale,
                channel: &of.channel,
                attempt: of.send,
                public_id: &public_id,
                survey_url: &url,
                unsubscribe_url: unsubscribe_url.as_deref(),
                address,
                locale: Some(locale),
                customer_ref: entry.customer_ref.as_deref(),
                payload: &payload,
            },
        );
        // What is one provider's own means nothing to another.
        let is_for = |words| match words {
            Words::Template(template) => is_worded_for(post, template, &of.channel),
            Words::Own(_) => true,
        };
        let own = wording.provider.filter(|_| is_for(words));
        let letter = RenderedMessage {
            tenant,
            channel: of.channel.clone(),
            to: address.to_owned(),
            locale: wording.locale,
            attempt: of.send,
            public_id: Some(entry.public_id),
            subject: wording.subject,
            body: wording.body,
            html: wording.html,
            survey_url: Some(url),
            unsubscribe_url,
            provider_template: own.map(|own| Arc::new(own.to_json())),
            payload: Arc::new(payload),
            idempotency_key: of.key.clone(),
            sent_at: now,
        };
        Some(Rendered { letter, warnings: wording.warnings })
    }
}

/// Somebody of whom only an address is known.
fn recipient(address: &str) -> Recipient<'static> {
    let address_of = Some(address.to_owned());
    match address.contains('@') {
        true => Recipient { email: address_of, ..Recipient::default() },
        false => Recipient { phone: address_of, ..Recipient::default() },
    }
}

impl Renderer for SurveyRenderer {
    fn load<'f>(&'f mut self, post: &'f DeliveryContext, due: &'f [Due]) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move {
            let deliveries: Vec<&Delivery> = due.iter().map(|one| &one.delivery).collect();
            self.read_entries(post, &deliveries).await?;
            self.read_versions(post, &deliveries).await?;
            let about =
                self.entries.values().filter_map(|entry| Some((&**entry, self.surveys.event_kind(entry)?)));
            self.entities = SurveyEntities::of(post, about.collect()).await?;
            let recipients = due.iter().map(|one| (one.delivery.tenant, one.delivery.address.clone()));
            self.recipients = Recipients::of(post, recipients.collect()).await?;
            Ok(())
        })
    }

    fn load_fallbacks<'f>(
        &'f mut self,
        post: &'f DeliveryContext,
        of: &'f [Delivery],
    ) -> BoxFuture<'f, Result<()>> {
        Box::pin(async move { self.read_entries(post, &of.iter().collect::<Vec<_>>()).await })
    }

    fn gate(&self, post: &DeliveryContext, due: &Due, now: Timestamp) -> GateDecision {
        // Without its entry there is nothing to ask, and nothing to render.
        let Some(entry) = self.entries.get(&due.delivery.entry) else { return GateDecision::Deliver };
        match self.entities.find_cancel_reason(entry) {
            Some(reason) => GateDecision::Drop { reason: reason.code().to_owned(), said: reason.to_string() },
            None => self.ask(post, &due.delivery, entry, now),
        }
    }

    fn render(
        &self,
        post: &DeliveryContext,
        due: &Due,
        now: Timestamp,
    ) -> std::result::Result<Rendered, Box<Ending>> {
        let of = &due.delivery;
        let gone = |error: &str| {
            let (outcome, error) = (Some("permanent"), error.to_owned());
            Box::new(Ending::Failed { outcome, error, instead: None })
        };
        let entry = self.entries.get(&of.entry).ok_or_else(|| gone("its entry is gone"))?;
        let edition = self.surveys.edition(entry);
        let edition = edition.ok_or_else(|| gone("the version of the survey that it belongs to is gone"))?;
        self.letter(post, of, entry, edition, now).ok_or_else(|| gone("Template not found"))
    }

    fn fallback(&self, post: &DeliveryContext, of: &Delivery) -> Option<Planned> {
        let channel = post.policy(&of.channel).fallback.as_deref()?;
        let entry = self.entries.get(&of.entry)?;
        let wanted = self.recipients.locale(entry.tenant, &entry.address).or(entry.locale.as_deref());
        let (template, version) = self.surveys.template(entry, channel, of.send, wanted);
        Some(Planned {
            key: format!("survey:{}:{}:{channel}", entry.public_id, of.send),
            channel: channel.to_owned(),
            address: notification::address(channel, &recipient(&of.address)),
            send: of.send,
            part: of.part,
            template,
            version,
            whom: Whom { name: None, reference: entry.customer_ref.clone() },
        })
    }

    fn survey(&self, of: &Delivery) -> Option<SurveyContext> {
        self.entries.get(&of.entry).map(|entry| self.surveys.context(entry))
    }
}
