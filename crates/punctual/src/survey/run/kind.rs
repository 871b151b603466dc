//! The kind *survey* in the pipeline: which delivery a due instance gets.
//!
//! A send is planned before its entry is taken: template and key are fixed when the delivery is written, so
//! that a retry asks the provider for the same message, whatever has changed since.

use crate::base::error::Result;
use crate::base::id::{FlowId, TemplateId};
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::delivery::rules::delivery::{PlannedDelivery, RecipientIdentity};
use crate::delivery::rules::template::TemplateSet;
use crate::delivery::run::context::DeliveryContext;
use crate::delivery::run::kinds::{EventPlan, Planner, Renderer};
use crate::delivery::store::entries::advance::{PeekedEntries, PlannedSend};
use crate::delivery::store::entries::step::EntryContext;
use crate::flow::rules::entry::EntryKind;
use crate::flow::run::source_event::SourceEvent;
use crate::flow::store::entries::Entry;
use crate::queue::run::executor::BoxFuture;
use crate::queue::run::wake::Wake;
use crate::survey::rules::invitation;
use crate::survey::run::definition_cache::{DefinitionCache, LoadedSurvey};
use crate::survey::run::events;
use crate::survey::run::renderer::SurveyRenderer;
use crate::survey::store::instance::SurveyInstance;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// Published surveys, and where their entries are written.
#[derive(Debug)]
pub struct SurveyKind {
    /// The database.
    pub store: Store,
    /// Wake-ups.
    pub wake: Wake,
    /// Published surveys, parsed.
    pub cache: DefinitionCache,
    /// The link to a survey, with `{publicId}` in it.
    pub url: String,
}

/// Versions of surveys, and templates of their tenants, loaded for some entries.
#[derive(Debug, Default)]
pub(crate) struct LoadedSurveys {
    versions: HashMap<(FlowId, u32), Option<Arc<LoadedSurvey>>>,
    pub(crate) sets: HashMap<Tenant, Arc<TemplateSet>>,
}

impl LoadedSurveys {
    /// Loads the versions and templates of entries.
    pub(crate) async fn load(
        kind: &SurveyKind,
        context: &DeliveryContext,
        entries: impl Iterator<Item = &Arc<Entry>>,
    ) -> Result<Self> {
        let mut loaded = Self::default();
        for entry in entries {
            let Some(of) = SurveyInstance::of(entry) else { continue };
            let version = (of.flow, of.number);
            if let std::collections::hash_map::Entry::Vacant(new) = loaded.versions.entry(version) {
                new.insert(kind.cache.edition(&kind.store, of.flow, of.number).await?);
            }
            if let std::collections::hash_map::Entry::Vacant(new) = loaded.sets.entry(entry.tenant) {
                let (store, event_type) = (context.store(), invitation::EVENT_TYPE);
                new.insert(context.templates.of(store, entry.tenant, event_type).await?);
            }
        }
        Ok(loaded)
    }

    /// The version that an instance was made with; `None` if it is gone.
    pub(crate) fn version(&self, of: &SurveyInstance<'_>) -> Option<&Arc<LoadedSurvey>> {
        self.versions.get(&(of.flow, of.number))?.as_ref()
    }

    /// The kind of the events that the instance's trigger looks at.
    pub(crate) fn event_kind(&self, of: &SurveyInstance<'_>) -> Option<&str> {
        let mut triggers = self.version(of)?.survey.triggers.iter();
        triggers.find(|trigger| trigger.id == of.trigger_id).map(|trigger| trigger.event_kind.as_str())
    }

    /// The entry with its timetable; one whose version is gone has no reminders left.
    pub(crate) fn context(&self, entry: &Arc<Entry>) -> EntryContext {
        let schedule =
            SurveyInstance::of(entry).and_then(|of| self.version(&of)?.schedule(of.trigger_id).cloned());
        EntryContext { entry: Arc::clone(entry), schedule: schedule.unwrap_or_default() }
    }

    /// The template of a send, for a reader of the locale `wanted`. A text of our own is template 0, and its
    /// version says in which language.
    pub(crate) fn template(
        &self,
        of: &SurveyInstance<'_>,
        channel: &str,
        send: u32,
        wanted: Option<&str>,
    ) -> (TemplateId, u32) {
        let known = self.version(of).zip(self.sets.get(&of.entry.tenant));
        // Without its version a survey sends nothing, so its words do not matter.
        let Some((version, set)) = known else { return (TemplateId::BUILT_IN, 0) };
        let survey = &version.survey;
        let default = survey.default_locale.as_str();
        match invitation::template_for(set, of.flow, default, channel, wanted, send) {
            Some(template) => (template.id, template.version),
            None => {
                let own = invitation::own_version(set, default, survey.locale_for(wanted));
                (TemplateId::BUILT_IN, own)
            }
        }
    }

    /// Whether the language of the recipient decides which text is sent. Texts of our own are in several
    /// languages, too.
    fn is_multilingual(&self, of: &SurveyInstance<'_>) -> bool {
        let has_own = || self.template(of, of.channel, of.entry.next_send(), None).0 == TemplateId::BUILT_IN;
        self.sets.get(&of.entry.tenant).is_some_and(|set| set.is_multilingual()) || has_own()
    }
}

/// Plans the invitations and reminders of surveys.
#[derive(Debug)]
pub struct SurveyPlanner(pub Arc<SurveyKind>);

impl Planner for SurveyPlanner {
    fn kind(&self) -> EntryKind {
        EntryKind::Survey
    }

    fn plan_events<'f>(
        &'f self,
        _: &'f DeliveryContext,
        events: &'f [SourceEvent<'f>],
    ) -> BoxFuture<'f, Result<Vec<EventPlan>>> {
        Box::pin(events::plan_events(&self.0, events))
    }

    fn plan_sends<'f>(
        &'f self,
        context: &'f DeliveryContext,
        peeked: &'f PeekedEntries,
    ) -> BoxFuture<'f, Result<Vec<PlannedSend>>> {
        Box::pin(plan_sends(&self.0, context, peeked))
    }

    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(SurveyRenderer::new(&self.0))
    }
}

async fn plan_sends(
    kind: &SurveyKind,
    context: &DeliveryContext,
    peeked: &PeekedEntries,
) -> Result<Vec<PlannedSend>> {
    let surveys = LoadedSurveys::load(kind, context, peeked.due.iter().map(|(_, entry)| entry)).await?;
    let instances =
        || peeked.due.iter().filter_map(|(work, entry)| Some((work, entry, SurveyInstance::of(entry)?)));
    let readers = instances().filter(|(.., of)| surveys.is_multilingual(of));
    let readers: Vec<_> = readers.map(|(_, entry, of)| (entry.tenant, of.address.to_owned())).collect();
    let consent = if readers.is_empty() { None } else { Some(context.store().consent(readers).await?) };
    let planned = instances().map(|(work, entry, of)| {
        let preferred = consent.as_ref().and_then(|consent| consent.locale(entry.tenant, of.address));
        let (send, wanted) = (entry.next_send(), preferred.or(of.locale));
        let (template, version) = surveys.template(&of, of.channel, send, wanted);
        let planned = PlannedDelivery {
            key: entry.send_key(),
            channel: of.channel.to_owned(),
            address: Some(of.address.to_owned()),
            send,
            part: 0,
            template,
            version,
            recipient: RecipientIdentity { name: None, reference: of.customer_ref.map(str::to_owned) },
        };
        // The rest of the plan stands in the delivery.
        let trace = preferred.map(|locale| json!({"send": send, "preferredLocale": locale}).to_string());
        PlannedSend { work: *work, context: surveys.context(entry), planned, trace }
    });
    Ok(planned.collect())
}
