//! The preview of an ingest: the entries that an event would begin and stop, and those that dedup keys keep
//! it from beginning. Nothing is written.
//!
//! Not promised: that an ingest a moment later does the same, since surveys and entries change meanwhile.

use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::base::tenant::Tenant;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::KeyDigestHalf;
use crate::survey::run::definition_cache::ActiveTriggers;
use crate::survey::run::ingest::matching::{MatchedBatch, StopKeys, TriggerSelection};
use crate::survey::run::ingest::{IngestBatch, IngestOutcome, preview_entries};
use crate::survey::run::kind::SurveyKind;
use crate::survey::store::admit::InstanceOutcome;
use crate::survey::store::visits::StopRequest;
use std::collections::HashSet;
use std::sync::Arc;

/// The preview of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedEvent {
    /// The entries that it begins, is a duplicate of, or stops.
    pub instances: Vec<PreviewedInstance>,
    /// Why a trigger that wants the event could not be served.
    pub problem: Option<String>,
}

/// The preview of an entry that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedInstance {
    /// The survey.
    pub flow: FlowId,
    /// The trigger.
    pub trigger_id: Arc<str>,
    /// The dedup key of one that it begins, as a digest; empty otherwise.
    pub unique_hash: String,
    /// The entry, if it is there already.
    pub public_id: Option<PublicId>,
    /// `Created`, `Skipped` or `Stopped`.
    pub outcome: IngestOutcome,
}

/// Previews what the items of one event begin and stop.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn preview_batch(
    surveys: &SurveyKind,
    tenant: Tenant,
    lot: &IngestBatch<'_>,
) -> Result<PreviewedEvent> {
    let offered = surveys.cache.current(&surveys.store, tenant).await?;
    let batch = MatchedBatch::matched(&lot.items, &offered, TriggerSelection::OfKind(lot.kind), usize::MAX);
    let made = preview_entries(surveys, tenant, &batch).await?;
    let mut instances = begun(&batch, &made);
    let created: HashSet<KeyDigestHalf> = batch
        .entries
        .iter()
        .zip(&made)
        .filter(|(_, made)| matches!(made, InstanceOutcome::Created(_)))
        .map(|(entry, _)| entry.key)
        .collect();
    let stops = StopKeys::matched(lot, 0..lot.items.len(), &offered);
    instances.extend(stopped(surveys, tenant, lot, (&offered, stops), &created).await?);
    let problem = batch.report(&made, &offered).into_iter().find_map(|one| one.error);
    Ok(PreviewedEvent { instances, problem })
}

fn begun(batch: &MatchedBatch, made: &[InstanceOutcome]) -> Vec<PreviewedInstance> {
    // What the event itself begins is not there yet.
    let fresh: HashSet<PublicId> = batch.entries.iter().map(|entry| entry.public_id).collect();
    let begun = batch.entries.iter().zip(made).map(|(entry, made)| {
        let (public_id, outcome) = match made {
            InstanceOutcome::Created(_) => (None, IngestOutcome::Created),
            InstanceOutcome::Duplicate(id) => (Some(*id), IngestOutcome::Skipped),
        };
        PreviewedInstance {
            flow: entry.flow,
            trigger_id: Arc::clone(&entry.trigger_id),
            unique_hash: entry.unique_hash.clone(),
            public_id: public_id.filter(|id| !fresh.contains(id)),
            outcome,
        }
    });
    begun.collect()
}

/// The entries that the items stop: those that are there, and those that the event itself begins.
async fn stopped(
    surveys: &SurveyKind,
    tenant: Tenant,
    lot: &IngestBatch<'_>,
    (offered, StopKeys(stops)): (&ActiveTriggers, StopKeys),
    created: &HashSet<KeyDigestHalf>,
) -> Result<Vec<PreviewedInstance>> {
    if stops.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<KeyDigestHalf> = stops.iter().map(|(.., key)| *key).collect();
    let known = surveys.store.known_keys(tenant, keys).await?;
    let event = |n: usize| lot.items[n].cause.map(|event| event.id);
    let asked = stops
        .iter()
        .filter_map(|(n, _, key)| known.get(key).map(|id| StopRequest { public_id: *id, event: event(*n) }));
    let ended = surveys.store.preview_stops(tenant, asked.collect()).await?;
    let mut seen = HashSet::new();
    let ends = stops.iter().filter(|(.., key)| {
        let is_there = known.get(key).is_some_and(|id| ended.contains(id));
        (is_there || created.contains(key)) && seen.insert(*key)
    });
    let shown = ends.map(|(_, place, key)| {
        let (edition, _, shared) = offered.at(*place);
        PreviewedInstance {
            flow: edition.flow,
            trigger_id: Arc::clone(&shared.trigger_id),
            unique_hash: String::new(),
            public_id: known.get(key).copied(),
            outcome: IngestOutcome::Stopped,
        }
    });
    Ok(shown.collect())
}
