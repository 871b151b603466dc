//! The definition cache: published flows, parsed once.
//!
//! A version never changes, so it is kept by its number. The active triggers of a tenant are valid for the
//! tenant's stamp: an ingest writes nothing under an old stamp, so that a publish is seen by the next ingest
//! of every process, and no notification is needed.
//!
//! Events that come by topics are many, and most of their kinds no trigger names. For these events a cached
//! value is good enough if it was read after the event, by the database's clock, and not long ago
//! ([`DefinitionCache::since`]).

use crate::base::clock::{Monotonic, Timestamp, monotonic};
use crate::base::condition::Condition;
use crate::base::error::{Error, Problems, Result};
use crate::base::facts::Facts;
use crate::base::id::{FlowId, LaneId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::base::zone::Zone;
use crate::database::store::Store;
use crate::flow::rules::entry::schedule::SendSchedule;
use crate::flow::store::flows::{FlowVersion, PublishedFlows};
use crate::survey::rules::candidate::TEMPLATE_ID;
use crate::survey::rules::survey::{Survey, Trigger};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Versions that are kept beside those that are published.
const EDITIONS_MAX: usize = 1_000;

/// One version of a survey, ready for use.
#[derive(Debug)]
pub struct LoadedSurvey {
    /// The flow.
    pub flow: FlowId,
    /// The version.
    pub number: u32,
    /// The survey.
    pub survey: Arc<Survey>,
    /// The data that each trigger's entries share, in the order of the triggers.
    pub shared: Vec<TriggerData>,
}

/// The data that all entries of a trigger share.
#[derive(Clone, Debug)]
pub struct TriggerData {
    /// The trigger's id.
    pub trigger_id: Arc<str>,
    /// The key of its channel.
    pub channel: Arc<str>,
    /// Its timetable.
    pub schedule: Arc<SendSchedule>,
}

impl LoadedSurvey {
    fn new(version: &FlowVersion) -> Result<Self> {
        let (mut problems, mut warnings) = (Problems::default(), Problems::default());
        let survey = Survey::read(&version.definition, &mut problems, &mut warnings);
        let unreadable = || {
            let (flow, number) = (version.flow, version.number);
            Error::Database(format!("version {number} of survey {flow} cannot be read: {problems}").into())
        };
        let survey = survey.ok_or_else(unreadable)?;
        let shared = survey.triggers.iter().map(TriggerData::of).collect();
        Ok(Self { flow: version.flow, number: version.number, survey: Arc::new(survey), shared })
    }

    /// The timetable of a trigger; an entry without one halts.
    #[must_use]
    pub fn schedule(&self, trigger_id: &str) -> Option<&Arc<SendSchedule>> {
        self.shared.iter().find(|shared| &*shared.trigger_id == trigger_id).map(|shared| &shared.schedule)
    }
}

impl TriggerData {
    fn of(trigger: &Trigger) -> Self {
        Self {
            trigger_id: trigger.id.as_str().into(),
            channel: trigger.channel.as_str().into(),
            schedule: Arc::new(trigger.schedule.clone()),
        }
    }
}

/// Where a trigger stands: the number of an edition, and that of a trigger in it.
pub type TriggerIndex = (usize, usize);

/// The triggers of one kind of events, by what their filters need, so that an event asks only those
/// that may want it.
#[derive(Debug, Default)]
struct TriggersByNeed {
    all: Vec<TriggerIndex>,
    /// Triggers that need one of some strings at a path.
    needing: Vec<(String, HashMap<String, Vec<TriggerIndex>>)>,
    /// All others.
    rest: Vec<TriggerIndex>,
}

impl TriggersByNeed {
    fn add(&mut self, trigger: &Trigger, place: TriggerIndex) {
        self.all.push(place);
        // The template's id is the trigger's own, and not among the event's facts.
        let needs =
            trigger.filter.as_ref().and_then(Condition::needs).filter(|(path, _)| *path != TEMPLATE_ID);
        let Some((path, values)) = needs else { return self.rest.push(place) };
        let at = self.needing.iter().position(|(known, _)| known == path).unwrap_or_else(|| {
            self.needing.push((path.to_owned(), HashMap::new()));
            self.needing.len() - 1
        });
        for value in values {
            let places = self.needing[at].1.entry(value.to_owned()).or_default();
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
    }

    fn pass(&self, facts: &Facts<'_>) -> Vec<TriggerIndex> {
        let mut places = self.rest.clone();
        for (path, by_value) in &self.needing {
            let value = facts.get(path).and_then(serde_json::Value::as_str);
            places.extend(value.and_then(|value| by_value.get(value)).into_iter().flatten());
        }
        places.sort_unstable();
        places
    }
}

/// The active triggers of a tenant.
#[derive(Debug)]
pub struct ActiveTriggers {
    /// The tenant's stamp for which the value is valid.
    pub stamp: i64,
    /// The published editions.
    pub editions: Vec<Arc<LoadedSurvey>>,
    /// Where entries wait for their next send, once something was published.
    pub lane: Option<LaneId>,
    /// The tenant's zone.
    pub zone: Zone,
    /// The share of duplicates among the events of the last batch.
    pub lately: DuplicateShare,
    begin: HashMap<String, TriggersByNeed>,
    stop: HashMap<String, Vec<TriggerIndex>>,
}

/// The share of events of the last batch that had an entry already. A hint: it decides how the next batch is
/// written, not the result.
#[derive(Debug, Default)]
pub struct DuplicateShare(AtomicBool);

impl DuplicateShare {
    /// Whether a lookup of known entries before writing new ones pays off: from a quarter on.
    #[must_use]
    pub fn many_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Remembers a batch.
    pub fn note(&self, known: usize, all: usize) {
        self.0.store(known * 4 > all, Ordering::Relaxed);
    }
}

impl ActiveTriggers {
    fn new(published: PublishedFlows) -> Result<Self> {
        let editions = published
            .versions
            .iter()
            .map(|v| LoadedSurvey::new(v).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        let (mut begin, mut stop): (HashMap<String, TriggersByNeed>, HashMap<String, Vec<TriggerIndex>>) =
            Default::default();
        for (e, edition) in editions.iter().enumerate() {
            for (t, trigger) in edition.survey.triggers.iter().enumerate() {
                begin.entry(trigger.event_kind.clone()).or_default().add(trigger, (e, t));
                for one in &trigger.stop_on {
                    let places = stop.entry(one.event_kind.clone()).or_default();
                    if places.last() != Some(&(e, t)) {
                        places.push((e, t));
                    }
                }
            }
        }
        let lately = DuplicateShare::default();
        let zone = Zone::find(&published.time_zone).unwrap_or_else(|_| Zone::utc());
        Ok(Self { stamp: published.stamp, editions, lane: published.lane, zone, lately, begin, stop })
    }

    /// Whether a trigger looks at events of a kind: they begin its entries, or stop them.
    #[must_use]
    pub fn names(&self, kind: &str) -> bool {
        self.begin.contains_key(kind) || self.stop.contains_key(kind)
    }

    /// The kinds that triggers look at, in order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        let kinds: BTreeSet<&str> = self.begin.keys().chain(self.stop.keys()).map(String::as_str).collect();
        kinds.into_iter()
    }

    /// The triggers that look at events of a kind, enabled or not.
    #[must_use]
    pub fn begun_by(&self, kind: &str) -> &[TriggerIndex] {
        self.begin.get(kind).map_or(&[], |sieve| &sieve.all)
    }

    /// Those of them that may want an event of these facts, in their order: the filters of all others
    /// do not hold.
    #[must_use]
    pub fn wanted_by(&self, kind: &str, facts: &Facts<'_>) -> Vec<TriggerIndex> {
        self.begin.get(kind).map_or_else(Vec::new, |sieve| sieve.pass(facts))
    }

    /// The triggers whose entries events of a kind may stop.
    #[must_use]
    pub fn stopped_by(&self, kind: &str) -> &[TriggerIndex] {
        self.stop.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Where a trigger stands.
    #[must_use]
    pub fn find(&self, flow: FlowId, trigger_id: &str) -> Option<TriggerIndex> {
        let edition = self.editions.iter().position(|edition| edition.flow == flow)?;
        let triggers = &self.editions[edition].survey.triggers;
        Some((edition, triggers.iter().position(|trigger| trigger.id == trigger_id)?))
    }

    /// The edition and the trigger at a place.
    #[must_use]
    pub fn at(&self, (edition, trigger): TriggerIndex) -> (&LoadedSurvey, &Trigger, &TriggerData) {
        let edition = &self.editions[edition];
        (edition, &edition.survey.triggers[trigger], &edition.shared[trigger])
    }
}

/// The active triggers as of the last read.
#[derive(Clone, Debug)]
struct CachedTriggers {
    offered: Arc<ActiveTriggers>,
    /// The database's time of that look.
    at: Timestamp,
    looked: Monotonic,
}

/// The definition cache of a process.
#[derive(Debug, Default)]
pub struct DefinitionCache {
    offered: Mutex<HashMap<Tenant, CachedTriggers>>,
    editions: Mutex<HashMap<(FlowId, u32), Arc<LoadedSurvey>>>,
}

impl DefinitionCache {
    /// Returns the active triggers as of the last read; they may have changed.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn known(&self, store: &Store, tenant: Tenant) -> Result<Arc<ActiveTriggers>> {
        match self.seen(tenant) {
            Some(seen) => Ok(seen.offered),
            None => self.current(store, tenant).await,
        }
    }

    /// Returns active triggers for events that were due at a time of the database's clock: no older than that
    /// time, nor than [`limits::FLOWS_FRESH`].
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn since(&self, store: &Store, tenant: Tenant, due: Timestamp) -> Result<Arc<ActiveTriggers>> {
        match self.seen(tenant) {
            Some(seen) if seen.at > due && seen.looked.elapsed() < limits::FLOWS_FRESH => Ok(seen.offered),
            _ => self.current(store, tenant).await,
        }
    }

    /// Returns the active triggers as they are now.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn current(&self, store: &Store, tenant: Tenant) -> Result<Arc<ActiveTriggers>> {
        let looked = monotonic();
        let known = self.seen(tenant).map(|seen| seen.offered);
        let stamp = known.as_ref().map(|known| known.stamp);
        let (at, published) = store.published(tenant, stamp).await?;
        let offered = match (published, known) {
            (Some(published), _) => Arc::new(ActiveTriggers::new(published)?),
            (None, Some(known)) => known,
            (None, None) => return Err(Error::Database("the stamp of no flows is not known".into())),
        };
        self.keep(tenant, CachedTriggers { offered: Arc::clone(&offered), at, looked });
        Ok(offered)
    }

    fn seen(&self, tenant: Tenant) -> Option<CachedTriggers> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).get(&tenant).cloned()
    }

    /// Keeps it, unless another caller has brought something newer meanwhile.
    fn keep(&self, tenant: Tenant, new: CachedTriggers) {
        let mut all = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(&tenant).is_none_or(|old| old.offered.stamp <= new.offered.stamp) {
            all.insert(tenant, new);
        }
    }

    /// One version; `None` if there is no such.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn edition(
        &self,
        store: &Store,
        flow: FlowId,
        number: u32,
    ) -> Result<Option<Arc<LoadedSurvey>>> {
        if let Some(known) = self.editions().get(&(flow, number)) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(version) = store.flow_version(flow, number).await? else { return Ok(None) };
        let edition = Arc::new(LoadedSurvey::new(&version)?);
        let mut editions = self.editions();
        if editions.len() >= EDITIONS_MAX {
            editions.clear();
        }
        editions.insert((flow, number), Arc::clone(&edition));
        Ok(Some(edition))
    }

    fn editions(&self) -> std::sync::MutexGuard<'_, HashMap<(FlowId, u32), Arc<LoadedSurvey>>> {
        self.editions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
