//! The matches of events against the published flows: entries to write, and keys of entries to stop.

use crate::base::digest;
use crate::base::facts::Facts;
use crate::base::limits;
use crate::base::random;
use crate::flow::rules::dedup;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::{KeyDigestHalf, key_of};
use crate::queue::rules::message::Message;
use crate::survey::rules::candidate::{Candidate, of_flow};
use crate::survey::rules::survey::Trigger;
use crate::survey::run::definition_cache::{ActiveTriggers, TriggerIndex};
use crate::survey::run::ingest::{
    IngestBatch, IngestItem, IngestOutcome, IngestReport, IngestedInstance, describe_pointless,
};
use crate::survey::store::admit::{InstanceOutcome, InstanceSource, NewInstance};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Which triggers a batch meets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TriggerSelection<'a> {
    /// Those of a kind, if they are enabled and their filters hold.
    OfKind(&'a str),
    /// A trigger that a person chose: its filter and `enabled` are not looked at.
    Chosen(TriggerIndex),
}

impl TriggerSelection<'_> {
    /// The triggers that may want an item of these facts.
    fn places(self, offered: &ActiveTriggers, facts: &Facts<'_>) -> Vec<TriggerIndex> {
        match self {
            Self::OfKind(kind) => offered.wanted_by(kind, facts),
            Self::Chosen(place) => vec![place],
        }
    }

    /// The kind of the events that the triggers look at.
    fn kind(self, offered: &ActiveTriggers) -> Arc<str> {
        match self {
            Self::OfKind(kind) => kind.into(),
            Self::Chosen(place) => offered.at(place).1.event_kind.as_str().into(),
        }
    }

    fn wants(self, trigger: &Trigger, facts: &Facts<'_>) -> bool {
        let holds = || trigger.filter.as_ref().is_none_or(|filter| filter.holds(facts));
        matches!(self, Self::Chosen(_)) || (trigger.enabled && holds())
    }
}

/// The matches of a batch.
pub(crate) struct MatchedBatch {
    /// Random bytes for the public ids of its entries, drawn at once.
    names: std::vec::IntoIter<[u8; 16]>,
    /// The kind of its events.
    kind: Arc<str>,
    pub(crate) entries: Vec<NewInstance>,
    /// For each entry, the item and the trigger it comes from.
    origins: Vec<(usize, TriggerIndex)>,
    failed: BTreeMap<usize, String>,
    /// Items that a trigger wants and that begin nothing; with the reason.
    pointless: BTreeMap<usize, String>,
    /// How many items it has taken.
    pub(crate) items: usize,
}

impl MatchedBatch {
    /// Matches the first of some items: as many as come to at most so many entries, and at least one. The
    /// entries of one item are never divided.
    pub(crate) fn matched(
        items: &[IngestItem<'_>],
        offered: &ActiveTriggers,
        which: TriggerSelection<'_>,
        most: usize,
    ) -> Self {
        let room = items.len().min(most);
        let mut batch = Self {
            names: random::many(room).into_iter(),
            kind: which.kind(offered),
            entries: Vec::with_capacity(room),
            origins: Vec::with_capacity(room),
            failed: BTreeMap::new(),
            pointless: BTreeMap::new(),
            items: 0,
        };
        for (n, item) in items.iter().enumerate() {
            let before = batch.entries.len();
            let added = batch.add(n, item, offered, which);
            if n > 0 && batch.entries.len() > most {
                batch.entries.truncate(before);
                batch.origins.truncate(before);
                break;
            }
            if let Err(said) = added {
                batch.failed.insert(n, said);
            }
            batch.items += 1;
        }
        batch
    }

    fn add(
        &mut self,
        n: usize,
        item: &IngestItem<'_>,
        offered: &ActiveTriggers,
        which: TriggerSelection<'_>,
    ) -> Result<(), String> {
        let candidate = item.candidate.as_ref().map_err(ToString::to_string)?;
        // A person may send what an event would not.
        let pointless = item.pointless.as_ref().filter(|_| matches!(which, TriggerSelection::OfKind(_)));
        let mut facts = match candidate.facts() {
            Err(_) if pointless.is_some() => return Ok(()),
            facts => facts?,
        };
        let (mut source, mut flow) = (None, None);
        for place in which.places(offered, &facts) {
            let (edition, trigger, _) = offered.at(place);
            if !item.is_for(trigger) {
                continue;
            }
            if flow != Some(edition.flow) {
                of_flow(&mut facts, edition.flow);
                flow = Some(edition.flow);
            }
            if !which.wants(trigger, &facts) {
                continue;
            }
            if let Some(reason) = pointless {
                self.pointless.insert(n, describe_pointless(reason));
                return Ok(());
            }
            if candidate.address.is_empty() {
                return Err(unreachable(offered, place));
            }
            let source = source.get_or_insert_with(|| source_of(candidate, &self.kind, item.cause));
            let public_id = PublicId::from_random(self.names.next().unwrap_or_else(random::bytes));
            self.entries.push(new_entry(candidate, source, &facts, offered, place, public_id)?);
            self.origins.push((n, place));
        }
        Ok(())
    }

    /// Returns the results of its items, given the outcomes of their entries.
    pub(crate) fn report(self, made: &[InstanceOutcome], offered: &ActiveTriggers) -> Vec<IngestReport> {
        let none = || IngestReport { outcome: IngestOutcome::NoMatch, instances: Vec::new(), error: None };
        let mut report: Vec<IngestReport> = std::iter::repeat_with(none).take(self.items).collect();
        for (n, said) in self.failed {
            report[n] = IngestReport { outcome: IngestOutcome::Failed, error: Some(said), ..none() };
        }
        for (n, said) in self.pointless {
            report[n].error = Some(said);
        }
        for ((n, place), made) in self.origins.iter().zip(made) {
            let (edition, _, shared) = offered.at(*place);
            let (public_id, outcome) = match made {
                InstanceOutcome::Created(id) => (*id, IngestOutcome::Created),
                InstanceOutcome::Duplicate(id) => (*id, IngestOutcome::Skipped),
            };
            let (flow, trigger_id) = (edition.flow, Arc::clone(&shared.trigger_id));
            report[*n].instances.push(IngestedInstance { flow, trigger_id, public_id, outcome });
            if report[*n].outcome != IngestOutcome::Created {
                report[*n].outcome = outcome;
            }
        }
        report
    }
}

/// A trigger wants an event that names no address for its channel.
fn unreachable(offered: &ActiveTriggers, place: TriggerIndex) -> String {
    let (edition, trigger, _) = offered.at(place);
    let (flow, id, channel) = (edition.flow, &trigger.id, &trigger.channel);
    format!("trigger `{id}` of survey {flow} sends by {channel}, for which the event has no address")
}

/// Returns the data that all instances of one item share.
fn source_of(candidate: &Candidate<'_>, kind: &Arc<str>, cause: Option<&Message>) -> Arc<InstanceSource> {
    Arc::new(InstanceSource {
        message: cause.map(|event| event.id),
        kind: Arc::clone(kind),
        payload: candidate.payload_text.as_str().into(),
        payload_digest: OnceLock::new(),
        entity: candidate.entity(),
        correlation_id: cause.and_then(|event| event.correlation_id.clone()),
        occurred_at: candidate.occurred_at,
        address: candidate.address.into(),
        locale: candidate.locale.map(Into::into),
        customer_ref: candidate.customer_ref.map(Into::into),
    })
}

fn new_entry(
    candidate: &Candidate<'_>,
    source: &Arc<InstanceSource>,
    facts: &Facts<'_>,
    offered: &ActiveTriggers,
    place: TriggerIndex,
    public_id: PublicId,
) -> Result<NewInstance, String> {
    let (edition, trigger, shared) = offered.at(place);
    dedup::check(&trigger.dedup_recipe, facts)?;
    let digest = dedup::digest(&trigger.dedup_recipe, facts);
    Ok(NewInstance {
        flow: edition.flow,
        number: edition.number,
        trigger_id: Arc::clone(&shared.trigger_id),
        lane: offered.lane.ok_or("has no lane: publish the survey again")?,
        channel: Arc::clone(&shared.channel),
        schedule: Arc::clone(&shared.schedule),
        grace: trigger.expiry.unwrap_or(limits::EXPIRY_GRACE_DEFAULT),
        public_id,
        key: key_of(&digest),
        unique_hash: digest::hex(&digest),
        listeners: candidate.listeners(&edition.survey, trigger).map(|names| json!(names).to_string().into()),
        zone: offered.zone.clone(),
        source: Arc::clone(source),
    })
}

/// The keys of entries that items stop: each with the item's number and the trigger.
pub(crate) struct StopKeys(pub(crate) Vec<(usize, TriggerIndex, KeyDigestHalf)>);

impl StopKeys {
    /// Of the items in this part of a lot.
    pub(crate) fn matched(lot: &IngestBatch<'_>, part: Range<usize>, offered: &ActiveTriggers) -> Self {
        let places = offered.stopped_by(lot.kind);
        let mut stops = Vec::new();
        for n in part.filter(|n| lot.items[*n].stops && !places.is_empty()) {
            let item = &lot.items[n];
            let Some(Ok(mut facts)) = item.candidate.as_ref().ok().map(Candidate::facts) else { continue };
            for place in places {
                let (edition, trigger, _) = offered.at(*place);
                of_flow(&mut facts, edition.flow);
                if item.is_for(trigger) && stopped(trigger, lot.kind, &facts) {
                    stops.push((n, *place, key_of(&dedup::digest(&trigger.dedup_recipe, &facts))));
                }
            }
        }
        Self(stops)
    }
}

fn stopped(trigger: &Trigger, kind: &str, facts: &Facts<'_>) -> bool {
    let mut stops = trigger.stop_on.iter().filter(|stop| stop.event_kind == kind);
    stops.any(|stop| stop.filter.as_ref().is_none_or(|filter| filter.holds(facts)))
}
