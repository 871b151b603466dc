//! The survey plans for events that came by a topic.
//!
//! An event is for surveys if a published trigger names its kind: it begins the trigger's entries, or stops
//! them. Each of the people it names is a candidate ([`reached`]), as if it came by an ingest call. The
//! kind's document applies to surveys, too: an event of another topic is not of this kind, and one whose
//! entity makes a message pointless begins nothing (but stops what it stops).
//!
//! The messages that surveys publish on their own topic may begin other surveys; an `instance-sent` may not,
//! and none of them stops entries through this module: a `stopOn` of such a kind means the entry's own
//! moments, and the transaction that writes the moment handles it.
//!
//! Not promised: an order between events, other than within one claim.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::delivery::run::kinds::EventPlan;
use crate::flow::rules::entry_events::INSTANCE_SENT;
use crate::flow::rules::event_kind::CancelReason;
use crate::flow::run::source_event::SourceEvent;
use crate::survey::rules::candidate::Candidate;
use crate::survey::rules::candidate::recipients::{CandidateRecipient, resolve_recipients};
use crate::survey::run::ingest::preview::{PreviewedEvent, preview_batch};
use crate::survey::run::ingest::{IngestBatch, IngestItem, IngestOutcome, IngestReport, ingest};
use crate::survey::run::kind::SurveyKind;
use crate::survey::store::publish::TOPIC;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Events of one tenant that surveys look at, by kind.
type CandidatesByKind<'a> = BTreeMap<&'a str, Vec<EventCandidate<'a>>>;

/// Lets events begin and stop entries; returns the plan of each.
///
/// # Errors
/// When the database does not answer: entries that were written until then are known the next time.
pub(crate) async fn plan_events(surveys: &SurveyKind, events: &[SourceEvent<'_>]) -> Result<Vec<EventPlan>> {
    let mut all: Vec<EventPlan> = events.iter().map(|_| EventPlan::Ignored).collect();
    for (tenant, wanted) in select_candidates(surveys, events).await? {
        let lots: Vec<IngestBatch<'_>> = wanted.iter().map(|(kind, asked)| lot(kind, asked)).collect();
        let met = ingest(surveys, tenant, &lots).await?;
        for (item, one) in lots.iter().flat_map(|lot| &lot.items).zip(met.into_iter().flatten()) {
            note(&mut all[item.at], one);
        }
    }
    Ok(all)
}

/// Previews the plan of one event; writes nothing. `None` if surveys do not look at it.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn preview_event(
    surveys: &SurveyKind,
    event: SourceEvent<'_>,
) -> Result<Option<PreviewedEvent>> {
    let mut foretold = None;
    for (tenant, wanted) in select_candidates(surveys, &[event]).await? {
        for (kind, asked) in &wanted {
            foretold = Some(preview_batch(surveys, tenant, &lot(kind, asked)).await?);
        }
    }
    Ok(foretold)
}

fn lot<'a>(kind: &'a str, asked: &'a [EventCandidate<'_>]) -> IngestBatch<'a> {
    IngestBatch { kind, items: asked.iter().map(EventCandidate::item).collect() }
}

/// Adds the outcome of an event for one of its recipients.
fn note(plan: &mut EventPlan, one: IngestReport) {
    let (made, problem) = match std::mem::replace(plan, EventPlan::Ignored) {
        EventPlan::Taken { made, problem } => (made, problem),
        _ => (false, None),
    };
    // An event that is pointless fails nothing.
    let failed = one.error.filter(|_| one.outcome == IngestOutcome::Failed);
    *plan = EventPlan::Taken { made: made || !one.instances.is_empty(), problem: problem.or(failed) };
}

/// The events that surveys look at.
async fn select_candidates<'a>(
    surveys: &SurveyKind,
    heard: &[SourceEvent<'a>],
) -> Result<BTreeMap<Tenant, CandidatesByKind<'a>>> {
    let mut latest: BTreeMap<Tenant, Timestamp> = BTreeMap::new();
    for SourceEvent { event, .. } in heard {
        let due = latest.entry(event.tenant).or_insert(event.due_at);
        *due = (*due).max(event.due_at).max(event.created_at);
    }
    let mut offered = BTreeMap::new();
    for (tenant, due) in latest {
        offered.insert(tenant, surveys.cache.since(&surveys.store, tenant, due).await?);
    }
    let mut all: BTreeMap<Tenant, CandidatesByKind<'a>> = BTreeMap::new();
    for (at, one) in heard.iter().enumerate() {
        let (tenant, kind) = (one.event.tenant, one.event.kind.as_str());
        if offered.get(&tenant).is_some_and(|offered| offered.names(kind)) && is_for_surveys(one) {
            all.entry(tenant).or_default().entry(kind).or_default().extend(find_candidates(at, one));
        }
    }
    Ok(all)
}

fn is_told_by_surveys(of: &SourceEvent<'_>) -> bool {
    of.event.topic == TOPIC
}

/// Whether surveys look at events of this topic at all, where a trigger names their kind.
pub(crate) fn is_for_surveys(of: &SourceEvent<'_>) -> bool {
    let its_topic = of.kind.is_none_or(|kind| kind.comes_by(&of.event.topic));
    its_topic && !(is_told_by_surveys(of) && of.event.kind == INSTANCE_SENT)
}

/// An event, for one of the people it names.
pub(crate) struct EventCandidate<'a> {
    at: usize,
    of: SourceEvent<'a>,
    who: CandidateRecipient,
    entity: Option<Value>,
    pointless: Option<CancelReason>,
}

/// The candidates of an event: one for each address of the people it names.
pub(crate) fn find_candidates<'a>(at: usize, of: &SourceEvent<'a>) -> Vec<EventCandidate<'a>> {
    let pointless = of.kind_or_undefined().is_pointless(of.snapshot, of.payload);
    let entity = of.entity.map(|entity| json!({"type": entity.kind, "id": entity.id}));
    let people = resolve_recipients(of.payload, of.kind, of.snapshot).into_iter();
    let one = |who| EventCandidate { at, of: *of, who, entity: entity.clone(), pointless: pointless.clone() };
    people.map(one).collect()
}

impl EventCandidate<'_> {
    /// The candidate, as an ingest takes it.
    pub(crate) fn item(&self) -> IngestItem<'_> {
        let SourceEvent { event, payload, .. } = self.of;
        let (who, entity) = (&self.who.recipient, self.entity.as_ref());
        let candidate = Candidate::of_event(payload, &event.payload, who, entity, event.occurred_at);
        let stops = !is_told_by_surveys(&self.of);
        let (cause, ways) = (Some(event), Some(self.who.ways.as_slice()));
        IngestItem { at: self.at, candidate, cause, ways, pointless: self.pointless.clone(), stops }
    }
}
