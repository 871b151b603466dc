//! Ingest: the verbs that take events in, or send a survey to chosen people.

use crate::base::document::quote;
use crate::base::error::{Error, Problems, Result};
use crate::base::limits;
use crate::base::name::check_name;
use crate::base::suggestion::hint;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::flow::rules::event_kind::EventKind;
use crate::flow::run::entity_states::EntityStates;
use crate::survey::rules::candidate::Candidate;
use crate::survey::run::ingest;
use crate::survey::run::ingest::{ChosenTrigger, IngestBatch, IngestItem, IngestReport};
use serde_json::Value;
use std::sync::Arc;

/// Events of one kind.
#[derive(Clone, Debug)]
pub struct IngestRequest {
    /// The kind.
    pub event_kind: String,
    /// The events: `{payload, recipient{address, locale, customerRef}, occurredAt?, entity?}`.
    pub items: Vec<Value>,
}

impl Engine {
    /// Ingests events: they begin and stop entries of published surveys. Answers in the given order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a kind that is no name, or too many items.
    pub fn ingest<'a>(
        &'a self,
        tenant: Tenant,
        ingest: &'a IngestRequest,
    ) -> VerbFuture<'a, Vec<IngestReport>> {
        VerbFuture::new(async move {
            ingest.check()?;
            let items = self.read_items(tenant, &ingest.event_kind, ingest).await?;
            let lot = IngestBatch { kind: &ingest.event_kind, items };
            let report = ingest::ingest(&self.inner.surveys, tenant, &[lot]).await?;
            self.notify_others().await;
            Ok(report.into_iter().flatten().collect())
        })
    }

    /// A warning about events of a kind that neither begins nor stops anything.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn ingest_warning<'a>(&'a self, tenant: Tenant, kind: &'a str) -> VerbFuture<'a, Option<String>> {
        VerbFuture::new(async move {
            let offered = self.inner.surveys.cache.current(self.store(), tenant).await?;
            if offered.names(kind) {
                return Ok(None);
            }
            let kinds: Vec<&str> = offered.kinds().collect();
            let known = if kinds.is_empty() {
                "; no survey with a trigger is published".to_owned()
            } else {
                hint(kind, &kinds)
            };
            Ok(Some(format!("no published trigger is about events of kind `{}`{known}", quote(kind))))
        })
    }

    /// Returns the doubtful parts of a draft, including channels that this process does not have.
    #[must_use]
    pub fn find_draft_warnings(&self, draft: &crate::flow::store::flows::FlowDraft) -> Problems {
        let (_, mut warnings) = draft.check();
        let (mut problems, mut doubts) = (Problems::default(), Problems::default());
        if let Some(survey) = crate::survey::rules::survey::Survey::read(
            &draft.definition,
            &mut problems,
            &mut Problems::default(),
        ) {
            survey.check_channels(|key| self.inner.delivery.channels.get(key).is_some(), &mut doubts);
        }
        for doubt in doubts.0 {
            warnings.push(crate::base::document::join("definition", &doubt.path), doubt.message);
        }
        warnings
    }

    /// Sends a survey to chosen people: the trigger's filter is not evaluated, its dedup recipe is. A dry run
    /// writes nothing and reports who would get the survey and who would not.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no such trigger is published.
    pub fn send_by_hand<'a>(
        &'a self,
        tenant: Tenant,
        chosen: &'a ChosenTrigger,
        items: Vec<Value>,
    ) -> VerbFuture<'a, Vec<IngestReport>> {
        VerbFuture::new(async move {
            let ingest = IngestRequest { event_kind: "by-hand".to_owned(), items };
            ingest.check()?;
            let offered = self.inner.surveys.cache.current(self.store(), tenant).await?;
            let place = offered.find(chosen.flow, &chosen.trigger_id);
            let place = place.ok_or_else(|| nothing_to_send(chosen))?;
            let items = self.read_items(tenant, &offered.at(place).1.event_kind, &ingest).await?;
            let sent = ingest::send_chosen(&self.inner.surveys, tenant, chosen, &items).await?;
            self.notify_others().await;
            sent.ok_or_else(|| nothing_to_send(chosen))
        })
    }

    /// Reads items as events of a kind: the kind says which entity they are about, and whether its state
    /// makes them pointless. Where no item has an entity, no state is read.
    async fn read_items<'a>(
        &self,
        tenant: Tenant,
        kind: &str,
        ingest: &'a IngestRequest,
    ) -> Result<Vec<IngestItem<'a>>> {
        let kinds = self.inner.delivery.event_kinds.of(self.store(), tenant).await?;
        let kind = kinds.get(kind).map_or_else(|| EventKind::undefined(), Arc::as_ref);
        let items = ingest.read(kind);
        let entities = items.iter().flatten().filter_map(|one| Some((tenant, one.entity()?)));
        let mut states = EntityStates::default();
        states.read(self.store(), entities.collect()).await?;
        let pointless =
            |one: &Candidate<'_>| one.find_cancel_reason(kind, states.of(tenant, one.entity().as_ref()));
        let read = items.into_iter().enumerate().map(|(at, read)| {
            let reason = read.as_ref().ok().and_then(pointless);
            IngestItem::from_submission(at, read, reason)
        });
        Ok(read.collect())
    }
}

fn nothing_to_send(chosen: &ChosenTrigger) -> Error {
    let ChosenTrigger { flow, trigger_id, .. } = chosen;
    Error::NotFound(format!("no trigger `{trigger_id}` of survey {flow} is published"))
}

impl IngestRequest {
    pub(crate) fn check(&self) -> Result<()> {
        let mut problems = Problems::default();
        check_name(&self.event_kind, "eventKind", &mut problems);
        let most = limits::BATCH_ITEMS_MAX;
        if self.items.len() > most {
            problems.push("items", format!("has {} items, at most {most} are allowed", self.items.len()));
        }
        problems.into_result()
    }

    /// Reads the items as events of this kind.
    pub(crate) fn read(&self, kind: &EventKind) -> Vec<std::result::Result<Candidate<'_>, Problems>> {
        let read = |item| {
            let mut candidate = Candidate::read(item)?;
            candidate.complete_entity(kind);
            Ok(candidate)
        };
        self.items.iter().map(read).collect()
    }
}
