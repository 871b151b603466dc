//! Ingest: events in, entries out, whether the events come by a call or by a topic.
//!
//! Events are matched in memory against the published flows of the tenant, and those of one kind are written
//! in transactions of at most [`ENTRY_KEYS_PER_TRANSACTION`] keys. If the published flows have changed
//! meanwhile, a transaction writes nothing, and the remaining events are matched again. An item that cannot
//! be read fails alone. The dedup key lets one entry through, so a caller who does not know what was written
//! hands in all of it again.
//!
//! Events of several kinds come in lots: all that they begin is written first, and then they stop what they
//! stop, save what an event that came after them has just begun.

mod matching;
pub mod preview;

use crate::base::error::{Error, Problems, Result};
use crate::base::id::FlowId;
use crate::base::limits::ENTRY_KEYS_PER_TRANSACTION;
use crate::base::tenant::Tenant;
use crate::delivery::rules::address::AddressKind;
use crate::delivery::rules::consent::{ConsentDecision, ConsentQuestion};
use crate::flow::rules::event_kind::CancelReason;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::KeyDigestHalf;
use crate::queue::rules::message::Message;
use crate::survey::rules::candidate::Candidate;
use crate::survey::rules::invitation;
use crate::survey::rules::survey::Trigger;
use crate::survey::run::definition_cache::{ActiveTriggers, TriggerIndex};
use crate::survey::run::ingest::matching::{MatchedBatch, StopKeys, TriggerSelection};
use crate::survey::run::kind::SurveyKind;
use crate::survey::store::admit::{AdmitOutcome, InstanceOutcome, NewInstance};
use crate::survey::store::visits::StopRequest;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// How often a batch is matched again because a flow was published meanwhile.
const MATCHES_MAX: usize = 10;

/// The outcome of one event, for one trigger or in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum IngestOutcome {
    /// An entry was made.
    Created,
    /// There is one already.
    Skipped,
    /// An entry was withdrawn, because its trigger says that such an event stops it.
    Stopped,
    /// The event cannot be read.
    Failed,
    /// No trigger wanted it.
    NoMatch,
}

/// An entry that an event was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestedInstance {
    /// The survey.
    pub flow: FlowId,
    /// The trigger.
    pub trigger_id: Arc<str>,
    /// The entry.
    pub public_id: PublicId,
    /// Whether this event made the entry.
    pub outcome: IngestOutcome,
}

/// The result of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestReport {
    /// In all.
    pub outcome: IngestOutcome,
    /// For each trigger that wanted it.
    pub instances: Vec<IngestedInstance>,
    /// Why it failed, or why it begins nothing although a trigger wants it.
    pub error: Option<String>,
}

/// A trigger that a person chose.
#[derive(Clone, Debug)]
pub struct ChosenTrigger {
    /// The survey.
    pub flow: FlowId,
    /// The trigger.
    pub trigger_id: String,
    /// The id of the person or the key that chose it.
    pub by: String,
    /// Only to see what would happen.
    pub dry_run: bool,
}

/// An event for one recipient.
#[derive(Debug)]
pub struct IngestItem<'a> {
    /// Its place among all that come together: the lower, the earlier.
    pub at: usize,
    /// The candidate, or the problems of the event.
    pub candidate: std::result::Result<Candidate<'a>, Problems>,
    /// The event of a topic that it comes from; none if it was handed in.
    pub cause: Option<&'a Message>,
    /// Only triggers whose channels need one of these look at it; none is all.
    pub ways: Option<&'a [AddressKind]>,
    /// Why a message about the event would be pointless, if it would be: then it begins nothing.
    pub pointless: Option<CancelReason>,
    /// Whether the event may stop entries.
    pub stops: bool,
}

impl<'a> IngestItem<'a> {
    /// One that was handed in, by its place.
    #[must_use]
    pub const fn from_submission(
        at: usize,
        candidate: std::result::Result<Candidate<'a>, Problems>,
        pointless: Option<CancelReason>,
    ) -> Self {
        Self { at, candidate, cause: None, ways: None, pointless, stops: true }
    }

    /// Whether a trigger looks at it.
    pub(crate) fn is_for(&self, trigger: &Trigger) -> bool {
        self.ways.is_none_or(|ways| ways.contains(&AddressKind::of(&trigger.channel)))
    }
}

/// Events of one kind, in their order.
#[derive(Debug)]
pub struct IngestBatch<'a> {
    /// The kind.
    pub kind: &'a str,
    /// The events.
    pub items: Vec<IngestItem<'a>>,
}

/// The progress of a lot.
#[derive(Default)]
struct BatchProgress {
    /// The entries that its items stop, with the active triggers when they were matched: one for each
    /// transaction.
    stops: Vec<(Arc<ActiveTriggers>, StopKeys)>,
    report: Vec<IngestReport>,
}

impl BatchProgress {
    fn stops_something(&self) -> bool {
        self.stops.iter().any(|(_, stops)| !stops.0.is_empty())
    }
}

/// Lets events begin and stop entries of the published flows; returns the results of each lot, in the order
/// of its items.
///
/// # Errors
/// When the database does not answer, or surveys are published over and over meanwhile.
pub async fn ingest(
    surveys: &SurveyKind,
    tenant: Tenant,
    lots: &[IngestBatch<'_>],
) -> Result<Vec<Vec<IngestReport>>> {
    let mut all = Vec::with_capacity(lots.len());
    for lot in lots {
        let is_first = all.is_empty();
        all.push(begin(surveys, tenant, lot).await.map_err(|error| after_part(error, is_first))?);
    }
    if all.iter().any(BatchProgress::stops_something) {
        let made = made_at(lots, &all);
        for (lot, progress) in lots.iter().zip(&mut all) {
            stop(surveys, tenant, lot, progress, &made).await.map_err(|error| after_part(error, false))?;
        }
        surveys.wake.all();
    }
    Ok(all.into_iter().map(|progress| progress.report).collect())
}

/// Writes the entries that the events of a lot begin, a transaction after the other.
async fn begin(surveys: &SurveyKind, tenant: Tenant, lot: &IngestBatch<'_>) -> Result<BatchProgress> {
    let by = format!("event:{}", lot.kind);
    let mut progress = BatchProgress::default();
    while progress.report.len() < lot.items.len() {
        let is_first = progress.report.is_empty();
        let begun = begin_next(surveys, tenant, lot, &by, &mut progress).await;
        begun.map_err(|error| after_part(error, is_first))?;
    }
    Ok(progress)
}

/// Returns the error of a call of which a part was written already: it must not say that nothing was changed.
fn after_part(error: Error, is_first: bool) -> Error {
    match error {
        Error::Unavailable(source) if !is_first => Error::Unknown(source),
        other => other,
    }
}

/// Writes the entries that the next events of a lot begin, in one transaction.
async fn begin_next(
    surveys: &SurveyKind,
    tenant: Tenant,
    lot: &IngestBatch<'_>,
    by: &str,
    progress: &mut BatchProgress,
) -> Result<()> {
    let from = progress.report.len();
    for _ in 0..MATCHES_MAX {
        let offered = surveys.cache.known(&surveys.store, tenant).await?;
        let which = TriggerSelection::OfKind(lot.kind);
        let mut batch =
            MatchedBatch::matched(&lot.items[from..], &offered, which, ENTRY_KEYS_PER_TRANSACTION);
        let stops = StopKeys::matched(lot, from..from + batch.items, &offered);
        let made = if batch.entries.is_empty() && stops.0.is_empty() {
            // No transaction would notice that something was published since.
            let current = surveys.cache.current(&surveys.store, tenant).await?;
            (current.stamp == offered.stamp).then(Vec::new)
        } else {
            admit(surveys, tenant, &offered, by, &mut batch).await?
        };
        let Some(made) = made else { continue };
        progress.report.extend(batch.report(&made, &offered));
        progress.stops.push((offered, stops));
        return Ok(());
    }
    Err(changing())
}

/// Sends a survey to chosen people; `None` when no such trigger is published.
///
/// # Errors
/// When the database does not answer, or surveys are published over and over meanwhile.
pub async fn send_chosen(
    surveys: &SurveyKind,
    tenant: Tenant,
    chosen: &ChosenTrigger,
    items: &[IngestItem<'_>],
) -> Result<Option<Vec<IngestReport>>> {
    // No recipient: the answer still says whether there is such a trigger.
    if chosen.dry_run || items.is_empty() {
        return foretell_chosen(surveys, tenant, chosen, items).await;
    }
    let mut report = Vec::with_capacity(items.len());
    while report.len() < items.len() {
        let next = send_next(surveys, tenant, chosen, &items[report.len()..]).await;
        match next.map_err(|error| after_part(error, report.is_empty()))? {
            Some(next) => report.extend(next),
            None if report.is_empty() => return Ok(None),
            None => report.resize_with(items.len(), unpublished),
        }
    }
    Ok(Some(report))
}

/// Sends a survey to the first of some people, in one transaction; `None` when no such trigger is published.
async fn send_next(
    surveys: &SurveyKind,
    tenant: Tenant,
    chosen: &ChosenTrigger,
    items: &[IngestItem<'_>],
) -> Result<Option<Vec<IngestReport>>> {
    let by = format!("user:{}", chosen.by);
    for _ in 0..MATCHES_MAX {
        let offered = surveys.cache.current(&surveys.store, tenant).await?;
        let Some(place) = offered.find(chosen.flow, &chosen.trigger_id) else { return Ok(None) };
        let which = TriggerSelection::Chosen(place);
        let mut batch = MatchedBatch::matched(items, &offered, which, ENTRY_KEYS_PER_TRANSACTION);
        let Some(made) = admit(surveys, tenant, &offered, &by, &mut batch).await? else { continue };
        return Ok(Some(batch.report(&made, &offered)));
    }
    Err(changing())
}

/// Previews the sends; nothing is written.
async fn foretell_chosen(
    surveys: &SurveyKind,
    tenant: Tenant,
    chosen: &ChosenTrigger,
    items: &[IngestItem<'_>],
) -> Result<Option<Vec<IngestReport>>> {
    let offered = surveys.cache.current(&surveys.store, tenant).await?;
    let Some(place) = offered.find(chosen.flow, &chosen.trigger_id) else { return Ok(None) };
    let batch = MatchedBatch::matched(items, &offered, TriggerSelection::Chosen(place), usize::MAX);
    let made = preview_entries(surveys, tenant, &batch).await?;
    let mut report = batch.report(&made, &offered);
    foretell_refusals(surveys, tenant, &offered.at(place).2.channel, items, &mut report).await?;
    Ok(Some(report))
}

/// The result for the remaining recipients when the survey was unpublished after some were written.
fn unpublished() -> IngestReport {
    let error = Some("the survey was withdrawn meanwhile: its trigger is published no more".to_owned());
    IngestReport { outcome: IngestOutcome::Failed, instances: Vec::new(), error }
}

/// Finds the recipients of a dry run that would not be sent a message by this channel, and the reasons.
async fn foretell_refusals(
    surveys: &SurveyKind,
    tenant: Tenant,
    channel: &str,
    items: &[IngestItem<'_>],
    report: &mut [IngestReport],
) -> Result<()> {
    let address = |item: &IngestItem<'_>| item.candidate.as_ref().ok().map(|one| one.address.to_owned());
    let known = items.iter().filter_map(address).map(|address| (tenant, address));
    let consent = surveys.store.consent(known.collect()).await?;
    let (kind, now) = (invitation::EVENT_TYPE, surveys.store.now().await?);
    let asked = ConsentQuestion { channel, kind, now, redirected: false, zone: None };
    for (item, one) in items.iter().zip(report) {
        let pointless = item.pointless.clone().filter(|_| one.outcome == IngestOutcome::Created);
        let verdict = address(item).map(|address| consent.verdict(tenant, &address, &asked));
        let suppressed = match (verdict, one.outcome) {
            (Some(ConsentDecision::Suppressed(why)), IngestOutcome::Created) => Some(why.to_string()),
            _ => None,
        };
        let Some(why) = pointless.map(|reason| reason.to_string()).or(suppressed) else { continue };
        (one.outcome, one.error) = (IngestOutcome::Skipped, Some(why));
        one.instances.iter_mut().for_each(|instance| instance.outcome = IngestOutcome::Skipped);
    }
    Ok(())
}

/// Says why an event that a trigger wants begins nothing.
#[must_use]
pub fn describe_pointless(reason: &CancelReason) -> String {
    format!("nothing begins: {reason}")
}

fn changing() -> Error {
    Error::Conflict("surveys were published over and over meanwhile; try again".into())
}

/// Writes what was matched; `None` if it was matched against what is published no more.
async fn admit(
    surveys: &SurveyKind,
    tenant: Tenant,
    offered: &ActiveTriggers,
    by: &str,
    batch: &mut MatchedBatch,
) -> Result<Option<Vec<InstanceOutcome>>> {
    let entries = std::mem::take(&mut batch.entries);
    let look_first = offered.lately.many_known();
    match surveys.store.admit(tenant, offered.stamp, by.to_owned(), entries, look_first).await? {
        AdmitOutcome::Stale => {
            surveys.cache.current(&surveys.store, tenant).await?;
            Ok(None)
        }
        AdmitOutcome::Done(made) => {
            let known = made.iter().filter(|made| matches!(made, InstanceOutcome::Duplicate(_))).count();
            offered.lately.note(known, made.len());
            surveys.wake.all();
            Ok(Some(made))
        }
    }
}

/// Previews the outcome of writing a batch.
async fn preview_entries(
    surveys: &SurveyKind,
    tenant: Tenant,
    batch: &MatchedBatch,
) -> Result<Vec<InstanceOutcome>> {
    let keys: Vec<KeyDigestHalf> = batch.entries.iter().map(|entry| entry.key).collect();
    let mut known: HashMap<KeyDigestHalf, PublicId> = surveys.store.known_keys(tenant, keys).await?;
    let foretell = |entry: &NewInstance| match known.get(&entry.key) {
        Some(owner) => InstanceOutcome::Duplicate(*owner),
        None => {
            known.insert(entry.key, entry.public_id);
            InstanceOutcome::Created(entry.public_id)
        }
    };
    Ok(batch.entries.iter().map(foretell).collect())
}

/// The places of the events that made entries just now.
fn made_at(lots: &[IngestBatch<'_>], all: &[BatchProgress]) -> HashMap<PublicId, usize> {
    let reports = lots.iter().zip(all).flat_map(|(lot, progress)| lot.items.iter().zip(&progress.report));
    let made = reports.flat_map(|(item, one)| {
        let created = one.instances.iter().filter(|instance| instance.outcome == IngestOutcome::Created);
        created.map(|instance| (instance.public_id, item.at))
    });
    made.collect()
}

/// Withdraws what the events of a lot stop, in one transaction for each of their batches.
async fn stop(
    surveys: &SurveyKind,
    tenant: Tenant,
    lot: &IngestBatch<'_>,
    progress: &mut BatchProgress,
    made: &HashMap<PublicId, usize>,
) -> Result<()> {
    for (offered, StopKeys(stops)) in std::mem::take(&mut progress.stops) {
        if stops.is_empty() {
            continue;
        }
        let keys: Vec<KeyDigestHalf> = stops.iter().map(|(_, _, key)| *key).collect();
        let known = surveys.store.known_keys(tenant, keys).await?;
        let mut asked: BTreeMap<PublicId, (usize, TriggerIndex)> = BTreeMap::new();
        for (n, place, key) in stops {
            let Some(public_id) = known.get(&key) else { continue };
            let came_later = made.get(public_id).is_some_and(|at| *at > lot.items[n].at);
            if !came_later {
                // The latest event decides: an earlier one may have come before the entry.
                asked.insert(*public_id, (n, place));
            }
        }
        let event = |n: usize| lot.items[n].cause.map(|event| event.id);
        let requests = asked.iter().map(|(id, (n, _))| StopRequest { public_id: *id, event: event(*n) });
        let requests: Vec<StopRequest> = requests.collect();
        for public_id in surveys.store.stop_entries(tenant, lot.kind.to_owned(), requests).await? {
            let Some((n, place)) = asked.get(&public_id) else { continue };
            note_stopped(&mut progress.report[*n], &offered, *place, public_id);
        }
    }
    Ok(())
}

/// Notes that an event has stopped an entry of a trigger.
fn note_stopped(one: &mut IngestReport, offered: &ActiveTriggers, place: TriggerIndex, public_id: PublicId) {
    let (edition, _, shared) = offered.at(place);
    let (flow, trigger_id) = (edition.flow, Arc::clone(&shared.trigger_id));
    let outcome = IngestOutcome::Stopped;
    one.instances.push(IngestedInstance { flow, trigger_id, public_id, outcome });
    if one.outcome == IngestOutcome::NoMatch {
        one.outcome = outcome;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TRG-5: whatever of a call is written already, its error does not say that nothing was changed.
    #[test]
    fn trg_5_a_call_that_fails_after_a_part_was_written_has_an_unknown_outcome() {
        let away = || Error::Unavailable("the server is away".into());
        assert!(matches!(after_part(away(), true), Error::Unavailable(_)));
        assert!(matches!(after_part(away(), false), Error::Unknown(_)));
        assert!(matches!(after_part(changing(), false), Error::Conflict(_)), "its own sentence is true");
    }
}
