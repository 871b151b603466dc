//! Ingest: events in, entries out, whether somebody hands them in or they come by a topic.
//!
//! Events are matched in memory against what is published in the tenant, and those of one kind are written in
//! transactions of at most [`ENTRY_KEYS_PER_TRANSACTION`] keys. If what is published has changed meanwhile, a
//! transaction writes nothing, and the events that are left are matched again. An item that cannot be read
//! fails alone. The dedup key lets one entry through, so a caller who does not know what was written hands in
//! all of it again.
//!
//! Events of several kinds come in lots: all that they begin is written first, and then they stop what they
//! stop, save what an event that came after them has just begun.

mod matched;

use crate::base::error::{Error, Problems, Result};
use crate::base::id::FlowId;
use crate::base::limits::ENTRY_KEYS_PER_TRANSACTION;
use crate::base::tenant::Tenant;
use crate::delivery::rules::address::AddressKind;
use crate::delivery::rules::consent::{Asked, Verdict};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::key::Key;
use crate::queue::rules::message::Message;
use crate::survey::rules::candidate::Candidate;
use crate::survey::rules::invitation;
use crate::survey::rules::survey::Trigger;
use crate::survey::run::definition_cache::{ActiveTriggers, Place};
use crate::survey::run::ingest::matched::{Batch, Stops, Which};
use crate::survey::run::kind::SurveyKind;
use crate::survey::store::admit::{AdmitOutcome, InstanceOutcome, NewInstance};
use crate::survey::store::visits::StopRequest;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// How often a batch is matched again because somebody published meanwhile.
const MATCHES_MAX: usize = 10;

/// What became of one event, for one trigger or in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Outcome {
    /// An entry was made.
    Created,
    /// There is one already.
    Skipped,
    /// An entry was withdrawn, because its trigger says that such an event stops it.
    Stopped,
    /// It cannot be read.
    Failed,
    /// No trigger wanted it.
    NoMatch,
}

/// An entry that an event was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The survey.
    pub flow: FlowId,
    /// The trigger.
    pub trigger_id: Arc<str>,
    /// The entry.
    pub public_id: PublicId,
    /// Whether it was made by this event.
    pub outcome: Outcome,
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// In all.
    pub outcome: Outcome,
    /// For each trigger that wanted it.
    pub instances: Vec<Instance>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A trigger that somebody chose by hand.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The survey.
    pub flow: FlowId,
    /// The trigger.
    pub trigger_id: String,
    /// Who chose it.
    pub by: String,
    /// Only to see what would happen.
    pub dry_run: bool,
}

/// An event for one recipient.
#[derive(Debug)]
pub struct Item<'a> {
    /// Its place among all that come together: the lower, the earlier.
    pub at: usize,
    /// What is known of it.
    pub candidate: std::result::Result<Candidate<'a>, Problems>,
    /// The event of a topic that it comes from; none if it was handed in.
    pub cause: Option<&'a Message>,
    /// Only triggers whose channels need one of these look at it; none is all.
    pub ways: Option<&'a [AddressKind]>,
    /// Whether it may begin entries.
    pub begins: bool,
    /// Whether it may stop them.
    pub stops: bool,
}

impl<'a> Item<'a> {
    /// One that was handed in, by its place.
    #[must_use]
    pub const fn handed_in(at: usize, candidate: std::result::Result<Candidate<'a>, Problems>) -> Self {
        Self { at, candidate, cause: None, ways: None, begins: true, stops: true }
    }

    fn is_for(&self, trigger: &Trigger) -> bool {
        self.ways.is_none_or(|ways| ways.contains(&AddressKind::of(&trigger.channel)))
    }
}

/// Events of one kind, in their order.
#[derive(Debug)]
pub struct Lot<'a> {
    /// The kind.
    pub kind: &'a str,
    /// The events.
    pub items: Vec<Item<'a>>,
}

/// What a lot came to so far.
#[derive(Default)]
struct Met {
    /// What its items stop, with what was published when they were matched: one for each transaction.
    stops: Vec<(Arc<ActiveTriggers>, Stops)>,
    report: Vec<Ingested>,
}

impl Met {
    fn stops_something(&self) -> bool {
        self.stops.iter().any(|(_, stops)| !stops.0.is_empty())
    }
}

/// Lets events begin and stop what is published for them; answers for each lot, in the order of its items.
///
/// # Errors
/// When the database does not answer, or surveys are published over and over meanwhile.
pub async fn ingest(surveys: &SurveyKind, tenant: Tenant, lots: &[Lot<'_>]) -> Result<Vec<Vec<Ingested>>> {
    let mut all = Vec::with_capacity(lots.len());
    for lot in lots {
        all.push(begin(surveys, tenant, lot).await?);
    }
    if all.iter().any(Met::stops_something) {
        let made = made_at(lots, &all);
        for (lot, met) in lots.iter().zip(&mut all) {
            stop(surveys, tenant, lot, met, &made).await?;
        }
        surveys.wake.all();
    }
    Ok(all.into_iter().map(|met| met.report).collect())
}

/// Writes what the events of a lot begin, a transaction after the other.
async fn begin(surveys: &SurveyKind, tenant: Tenant, lot: &Lot<'_>) -> Result<Met> {
    let by = format!("event:{}", lot.kind);
    let mut met = Met::default();
    while met.report.len() < lot.items.len() {
        begin_next(surveys, tenant, lot, &by, &mut met).await?;
    }
    Ok(met)
}

/// Writes what the next events of a lot begin, in one transaction.
async fn begin_next(
    surveys: &SurveyKind,
    tenant: Tenant,
    lot: &Lot<'_>,
    by: &str,
    met: &mut Met,
) -> Result<()> {
    let from = met.report.len();
    for _ in 0..MATCHES_MAX {
        let offered = surveys.cache.known(&surveys.store, tenant).await?;
        let which = Which::OfKind(lot.kind);
        let mut batch = Batch::matched(&lot.items[from..], &offered, which, ENTRY_KEYS_PER_TRANSACTION);
        let stops = Stops::matched(lot, from..from + batch.items, &offered);
        let made = if batch.entries.is_empty() && stops.0.is_empty() {
            // No transaction would notice that something was published since.
            let current = surveys.cache.current(&surveys.store, tenant).await?;
            (current.stamp == offered.stamp).then(Vec::new)
        } else {
            admit(surveys, tenant, &offered, by, &mut batch).await?
        };
        let Some(made) = made else { continue };
        met.report.extend(batch.report(&made, &offered));
        met.stops.push((offered, stops));
        return Ok(());
    }
    Err(changing())
}

/// Sends a survey to people that somebody chose; `None` when no such trigger is published.
///
/// # Errors
/// When the database does not answer, or surveys are published over and over meanwhile.
pub async fn send_chosen(
    surveys: &SurveyKind,
    tenant: Tenant,
    chosen: &Chosen,
    items: &[Item<'_>],
) -> Result<Option<Vec<Ingested>>> {
    // Nobody to send to: the answer still says whether there is such a trigger.
    if chosen.dry_run || items.is_empty() {
        return foretell_chosen(surveys, tenant, chosen, items).await;
    }
    let mut report = Vec::with_capacity(items.len());
    while report.len() < items.len() {
        match send_next(surveys, tenant, chosen, &items[report.len()..]).await? {
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
    chosen: &Chosen,
    items: &[Item<'_>],
) -> Result<Option<Vec<Ingested>>> {
    let by = format!("user:{}", chosen.by);
    for _ in 0..MATCHES_MAX {
        let offered = surveys.cache.current(&surveys.store, tenant).await?;
        let Some(place) = offered.find(chosen.flow, &chosen.trigger_id) else { return Ok(None) };
        let which = Which::Chosen(place);
        let mut batch = Batch::matched(items, &offered, which, ENTRY_KEYS_PER_TRANSACTION);
        let Some(made) = admit(surveys, tenant, &offered, &by, &mut batch).await? else { continue };
        return Ok(Some(batch.report(&made, &offered)));
    }
    Err(changing())
}

/// What sending would come to; nothing is written.
async fn foretell_chosen(
    surveys: &SurveyKind,
    tenant: Tenant,
    chosen: &Chosen,
    items: &[Item<'_>],
) -> Result<Option<Vec<Ingested>>> {
    let offered = surveys.cache.current(&surveys.store, tenant).await?;
    let Some(place) = offered.find(chosen.flow, &chosen.trigger_id) else { return Ok(None) };
    let batch = Batch::matched(items, &offered, Which::Chosen(place), usize::MAX);
    let made = foretold(surveys, tenant, &batch).await?;
    let mut report = batch.report(&made, &offered);
    foretell_refusals(surveys, tenant, &offered.at(place).2.channel, items, &mut report).await?;
    Ok(Some(report))
}

/// Somebody withdrew the survey after some of its recipients were written.
fn unpublished() -> Ingested {
    let error = Some("the survey was withdrawn meanwhile: its trigger is published no more".to_owned());
    Ingested { outcome: Outcome::Failed, instances: Vec::new(), error }
}

/// Who of a dry run would not be sent anything by this channel, and why.
async fn foretell_refusals(
    surveys: &SurveyKind,
    tenant: Tenant,
    channel: &str,
    items: &[Item<'_>],
    report: &mut [Ingested],
) -> Result<()> {
    let address = |item: &Item<'_>| item.candidate.as_ref().ok().map(|one| one.address.to_owned());
    let known = items.iter().filter_map(address).map(|address| (tenant, address));
    let consent = surveys.store.consent(known.collect()).await?;
    let (kind, now) = (invitation::EVENT_TYPE, surveys.store.now().await?);
    let asked = Asked { channel, kind, now, redirected: false, zone: None };
    for (item, one) in items.iter().zip(report) {
        let verdict = address(item).map(|address| consent.verdict(tenant, &address, &asked));
        let (Some(Verdict::Suppressed(why)), Outcome::Created) = (verdict, one.outcome) else { continue };
        (one.outcome, one.error) = (Outcome::Skipped, Some(why.to_string()));
        one.instances.iter_mut().for_each(|instance| instance.outcome = Outcome::Skipped);
    }
    Ok(())
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
    batch: &mut Batch,
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

/// What writing it would come to.
async fn foretold(surveys: &SurveyKind, tenant: Tenant, batch: &Batch) -> Result<Vec<InstanceOutcome>> {
    let keys: Vec<Key> = batch.entries.iter().map(|entry| entry.key).collect();
    let mut known: HashMap<Key, PublicId> = surveys.store.known_keys(tenant, keys).await?;
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
fn made_at(lots: &[Lot<'_>], all: &[Met]) -> HashMap<PublicId, usize> {
    let told = lots.iter().zip(all).flat_map(|(lot, met)| lot.items.iter().zip(&met.report));
    let made = told.flat_map(|(item, one)| {
        let created = one.instances.iter().filter(|instance| instance.outcome == Outcome::Created);
        created.map(|instance| (instance.public_id, item.at))
    });
    made.collect()
}

/// Withdraws what the events of a lot stop, in one transaction for each of their batches.
async fn stop(
    surveys: &SurveyKind,
    tenant: Tenant,
    lot: &Lot<'_>,
    met: &mut Met,
    made: &HashMap<PublicId, usize>,
) -> Result<()> {
    for (offered, Stops(stops)) in std::mem::take(&mut met.stops) {
        if stops.is_empty() {
            continue;
        }
        let keys: Vec<Key> = stops.iter().map(|(_, _, key)| *key).collect();
        let known = surveys.store.known_keys(tenant, keys).await?;
        let mut asked: BTreeMap<PublicId, (usize, Place)> = BTreeMap::new();
        for (n, place, key) in stops {
            let Some(public_id) = known.get(&key) else { continue };
            let came_later = made.get(public_id).is_some_and(|at| *at > lot.items[n].at);
            if !came_later {
                asked.entry(*public_id).or_insert((n, place));
            }
        }
        let event = |n: usize| lot.items[n].cause.map(|event| event.id);
        let requests = asked.iter().map(|(id, (n, _))| StopRequest { public_id: *id, event: event(*n) });
        let requests: Vec<StopRequest> = requests.collect();
        for public_id in surveys.store.stop_entries(tenant, lot.kind.to_owned(), requests).await? {
            let Some((n, place)) = asked.get(&public_id) else { continue };
            note_stopped(&mut met.report[*n], &offered, *place, public_id);
        }
    }
    Ok(())
}

/// Notes that an event has stopped an entry of a trigger.
fn note_stopped(one: &mut Ingested, offered: &ActiveTriggers, place: Place, public_id: PublicId) {
    let (edition, _, shared) = offered.at(place);
    let (flow, trigger_id) = (edition.flow, Arc::clone(&shared.trigger_id));
    let outcome = Outcome::Stopped;
    one.instances.push(Instance { flow, trigger_id, public_id, outcome });
    if one.outcome == Outcome::NoMatch {
        one.outcome = outcome;
    }
}
