//! Ingest: events in, entries out.
//!
//! A batch is matched in memory against what is published in the tenant, and written in one
//! transaction. If that has changed meanwhile, nothing was written, and the batch is matched
//! again. An item that cannot be read fails alone.

use super::Engine;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::FlowId;
use crate::base::limits;
use crate::base::random;
use crate::base::tenant::Tenant;
use crate::rules::candidate::{Candidate, of_flow};
use crate::rules::digest;
use crate::rules::facts::Facts;
use crate::rules::message::check_name;
use crate::rules::public_id::PublicId;
use crate::rules::{dedup, survey::Trigger};
use crate::run::shelf::{Offered, Place};
use crate::store::entries::admit::{Admitted, Made, NewEntry};
use crate::store::entries::owner::{Key, key_of};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// How often a batch is matched again because somebody published meanwhile.
const MATCHES_MAX: usize = 10;

/// Events of one kind.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The kind.
    pub event_kind: String,
    /// The events: `{payload, recipient{address, locale, customerRef}, occurredAt?, entity?}`.
    pub items: Vec<Value>,
}

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

impl Engine {
    /// Lets events begin (and stop) what is published for them; answers in the order given.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a kind that is no name, or too many items.
    pub async fn ingest(&self, tenant: Tenant, ingest: &Ingest) -> Result<Vec<Ingested>> {
        ingest.check()?;
        let by = format!("event:{}", ingest.event_kind);
        let read = ingest.read();
        for _ in 0..MATCHES_MAX {
            let offered = self.inner.post.shelf.known(self.store(), tenant).await?;
            let mut batch = Batch::matched(&read, &offered, Which::OfKind(&ingest.event_kind));
            let stops = Stops::matched(&read, &offered, &ingest.event_kind);
            if batch.entries.is_empty() && stops.0.is_empty() {
                // Nothing would notice that something was published since.
                let current = self.inner.post.shelf.current(self.store(), tenant).await?;
                if current.stamp != offered.stamp {
                    continue;
                }
                return Ok(batch.report(&read, &[], &offered));
            }
            let Some(made) = self.admit(tenant, &offered, &by, &mut batch).await? else { continue };
            let mut report = batch.report(&read, &made, &offered);
            self.stop_entries(tenant, &offered, stops, &mut report).await?;
            return Ok(report);
        }
        Err(Error::Conflict("surveys were published over and over meanwhile; try again".into()))
    }

    /// What is doubtful about a draft, channels that this process does not have included.
    #[must_use]
    pub fn doubts(&self, draft: &crate::store::flows::FlowDraft) -> Problems {
        let (_, mut warnings) = draft.check();
        let (mut problems, mut doubts) = (Problems::default(), Problems::default());
        if let Some(survey) =
            crate::rules::survey::Survey::read(&draft.definition, &mut problems, &mut Problems::default())
        {
            survey.check_channels(|key| self.inner.post.channels.get(key).is_some(), &mut doubts);
        }
        for doubt in doubts.0 {
            warnings.push(crate::rules::document::join("definition", &doubt.path), doubt.message);
        }
        warnings
    }

    /// Sends a survey to people that somebody chose: the trigger's filter is not asked, its dedup
    /// recipe is. A dry run writes nothing and tells who would get it and who would not.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no such trigger is published.
    pub async fn send_by_hand(
        &self,
        tenant: Tenant,
        chosen: &Chosen,
        items: Vec<Value>,
    ) -> Result<Vec<Ingested>> {
        let ingest = Ingest { event_kind: "by-hand".to_owned(), items };
        ingest.check()?;
        let read = ingest.read();
        for _ in 0..MATCHES_MAX {
            let offered = self.inner.post.shelf.current(self.store(), tenant).await?;
            let place =
                offered.find(chosen.flow, &chosen.trigger_id).ok_or_else(|| nothing_to_send(chosen))?;
            let mut batch = Batch::matched(&read, &offered, Which::Chosen(place));
            if chosen.dry_run {
                let made = self.foretold(tenant, &batch).await?;
                let mut report = batch.report(&read, &made, &offered);
                let to: Vec<_> = read.iter().map(|one| one.as_ref().ok().map(|one| one.address)).collect();
                let channel = &offered.at(place).2.channel;
                self.foretell_refusals(tenant, channel, &to, &mut report).await?;
                return Ok(report);
            }
            let by = format!("user:{}", chosen.by);
            let Some(made) = self.admit(tenant, &offered, &by, &mut batch).await? else { continue };
            return Ok(batch.report(&read, &made, &offered));
        }
        Err(Error::Conflict("surveys were published over and over meanwhile; try again".into()))
    }

    /// Writes what was matched; `None` if it was matched against what is published no more.
    async fn admit(
        &self,
        tenant: Tenant,
        offered: &Offered,
        by: &str,
        batch: &mut Batch,
    ) -> Result<Option<Vec<Made>>> {
        let entries = std::mem::take(&mut batch.entries);
        let look_first = offered.lately.many_known();
        match self.store().admit(tenant, offered.stamp, by.to_owned(), entries, look_first).await? {
            Admitted::Stale => {
                self.inner.post.shelf.current(self.store(), tenant).await?;
                Ok(None)
            }
            Admitted::Done(made) => {
                let known = made.iter().filter(|made| matches!(made, Made::Duplicate(_))).count();
                offered.lately.note(known, made.len());
                self.inner.shop.wake.entries();
                if self.is_silent() {
                    // A lost word delays the work and loses none.
                    self.store().notify().await.ok();
                }
                Ok(Some(made))
            }
        }
    }

    /// What writing it would come to.
    async fn foretold(&self, tenant: Tenant, batch: &Batch) -> Result<Vec<Made>> {
        let keys: Vec<Key> = batch.entries.iter().map(|entry| entry.key).collect();
        let mut known: HashMap<Key, PublicId> = self.store().known_keys(tenant, keys).await?;
        let foretell = |entry: &NewEntry| match known.get(&entry.key) {
            Some(owner) => Made::Duplicate(*owner),
            None => {
                known.insert(entry.key, entry.public_id);
                Made::Created(entry.public_id)
            }
        };
        Ok(batch.entries.iter().map(foretell).collect())
    }

    async fn stop_entries(
        &self,
        tenant: Tenant,
        offered: &Offered,
        stops: Stops,
        report: &mut [Ingested],
    ) -> Result<()> {
        if stops.0.is_empty() {
            return Ok(());
        }
        let keys: Vec<Key> = stops.0.iter().map(|(_, _, key)| *key).collect();
        let known = self.store().known_keys(tenant, keys).await?;
        for (n, place, key) in stops.0 {
            let Some(public_id) = known.get(&key) else { continue };
            let deeded = self.store().cancel_entry(tenant, *public_id).await?;
            if !matches!(deeded, crate::store::entries::deed::Deeded::Done(_)) {
                continue;
            }
            let (edition, _, shared) = offered.at(place);
            let (flow, trigger_id) = (edition.flow, Arc::clone(&shared.trigger_id));
            let outcome = Outcome::Stopped;
            report[n].instances.push(Instance { flow, trigger_id, public_id: *public_id, outcome });
            if report[n].outcome == Outcome::NoMatch {
                report[n].outcome = outcome;
            }
        }
        self.tell().await;
        Ok(())
    }
}

fn nothing_to_send(chosen: &Chosen) -> Error {
    let Chosen { flow, trigger_id, .. } = chosen;
    Error::NotFound(format!("no trigger `{trigger_id}` of survey {flow} is published"))
}

/// Items as they were read.
type Read<'a> = [std::result::Result<Candidate<'a>, Problems>];

impl Ingest {
    pub(super) fn check(&self) -> Result<()> {
        let mut problems = Problems::default();
        check_name(&self.event_kind, "eventKind", &mut problems);
        let most = limits::BATCH_ITEMS_MAX;
        if self.items.len() > most {
            problems.push("items", format!("has {} items, at most {most} are allowed", self.items.len()));
        }
        problems.into_result()
    }

    pub(super) fn read(&self) -> Vec<std::result::Result<Candidate<'_>, Problems>> {
        self.items.iter().map(Candidate::read).collect()
    }
}

/// Which triggers a batch meets.
#[derive(Clone, Copy, Debug)]
enum Which<'a> {
    /// Those of a kind, if they are enabled and their filters hold.
    OfKind(&'a str),
    /// One that somebody chose: nothing is asked.
    Chosen(Place),
}

/// What a batch comes to.
struct Batch {
    /// Random bytes for the names of its entries.
    names: std::vec::IntoIter<[u8; 16]>,
    entries: Vec<NewEntry>,
    /// For each entry, the item and the trigger it comes from.
    origins: Vec<(usize, Place)>,
    failed: BTreeMap<usize, String>,
}

impl Batch {
    fn matched(read: &Read<'_>, offered: &Offered, which: Which<'_>) -> Self {
        let mut batch = Self {
            names: names(read.len()),
            entries: Vec::with_capacity(read.len()),
            origins: Vec::with_capacity(read.len()),
            failed: BTreeMap::new(),
        };
        for (n, item) in read.iter().enumerate() {
            if let Err(said) = batch.add(n, item, offered, which) {
                batch.failed.insert(n, said);
            }
        }
        batch
    }

    fn add(
        &mut self,
        n: usize,
        item: &std::result::Result<Candidate<'_>, Problems>,
        offered: &Offered,
        which: Which<'_>,
    ) -> std::result::Result<(), String> {
        let candidate = item.as_ref().map_err(ToString::to_string)?;
        let mut facts = candidate.facts()?;
        let places = match which {
            Which::OfKind(kind) => offered.wanted_by(kind, &facts),
            Which::Chosen(place) => vec![place],
        };
        let (mut texts, mut flow) = (None, None);
        for place in places {
            let (edition, trigger, _) = offered.at(place);
            if flow != Some(edition.flow) {
                of_flow(&mut facts, edition.flow);
                flow = Some(edition.flow);
            }
            let wanted = || trigger.filter.as_ref().is_none_or(|filter| filter.holds(&facts));
            if matches!(which, Which::OfKind(_)) && !(trigger.enabled && wanted()) {
                continue;
            }
            let texts = texts.get_or_insert_with(|| Texts::of(candidate));
            let public_id = PublicId::from_random(self.names.next().unwrap_or_else(random::bytes));
            self.entries.push(new_entry(candidate, texts, &facts, offered, place, public_id)?);
            self.origins.push((n, place));
        }
        Ok(())
    }

    /// What is told of a batch whose entries came to this.
    fn report(self, read: &Read<'_>, made: &[Made], offered: &Offered) -> Vec<Ingested> {
        let none = || Ingested { outcome: Outcome::NoMatch, instances: Vec::new(), error: None };
        let mut report: Vec<Ingested> = read.iter().map(|_| none()).collect();
        for (n, said) in self.failed {
            report[n] = Ingested { outcome: Outcome::Failed, error: Some(said), ..none() };
        }
        for ((n, place), made) in self.origins.iter().zip(made) {
            let (edition, _, shared) = offered.at(*place);
            let (public_id, outcome) = match made {
                Made::Created(id) => (*id, Outcome::Created),
                Made::Duplicate(id) => (*id, Outcome::Skipped),
            };
            let (flow, trigger_id) = (edition.flow, Arc::clone(&shared.trigger_id));
            report[*n].instances.push(Instance { flow, trigger_id, public_id, outcome });
            if report[*n].outcome != Outcome::Created {
                report[*n].outcome = outcome;
            }
        }
        report
    }
}

/// Random bytes for names that begin alike, so that the index of names takes a batch in one place. What
/// is left of a name to guess is 90 bits.
fn names(count: usize) -> std::vec::IntoIter<[u8; 16]> {
    let mut names: Vec<[u8; 16]> = random::many(count);
    let beginning: [u8; 4] = random::bytes();
    for name in &mut names {
        name[..beginning.len()].copy_from_slice(&beginning);
    }
    names.into_iter()
}

/// What all entries of one item share.
struct Texts {
    address: Arc<str>,
    locale: Option<Arc<str>>,
    customer_ref: Option<Arc<str>>,
    payload: Arc<str>,
}

impl Texts {
    fn of(candidate: &Candidate<'_>) -> Self {
        Self {
            address: candidate.address.into(),
            locale: candidate.locale.map(Into::into),
            customer_ref: candidate.customer_ref.map(Into::into),
            payload: candidate.payload_text.as_str().into(),
        }
    }
}

fn new_entry(
    candidate: &Candidate<'_>,
    texts: &Texts,
    facts: &Facts<'_>,
    offered: &Offered,
    place: Place,
    public_id: PublicId,
) -> std::result::Result<NewEntry, String> {
    let (edition, trigger, shared) = offered.at(place);
    let digest = dedup::digest(&trigger.dedup_recipe, facts);
    let lane = offered.lanes.get(&*shared.channel).copied();
    Ok(NewEntry {
        flow: edition.flow,
        number: edition.number,
        trigger_id: Arc::clone(&shared.trigger_id),
        lane: lane.ok_or("has no lane: publish the survey again")?,
        channel: Arc::clone(&shared.channel),
        schedule: Arc::clone(&shared.schedule),
        grace: trigger.expiry.unwrap_or(limits::EXPIRY_GRACE_DEFAULT),
        public_id,
        key: key_of(&digest),
        unique_hash: digest::hex(&digest),
        address: Arc::clone(&texts.address),
        locale: texts.locale.clone(),
        customer_ref: texts.customer_ref.clone(),
        payload: Arc::clone(&texts.payload),
        occurred_at: candidate.occurred_at,
    })
}

/// The keys of entries that these items stop.
struct Stops(Vec<(usize, Place, Key)>);

impl Stops {
    fn matched(read: &Read<'_>, offered: &Offered, kind: &str) -> Self {
        let places = offered.stopped_by(kind);
        let mut stops = Vec::new();
        for (n, item) in read.iter().enumerate().filter(|_| !places.is_empty()) {
            let Some(Ok(mut facts)) = item.as_ref().ok().map(Candidate::facts) else { continue };
            for place in places {
                let (edition, trigger, _) = offered.at(*place);
                of_flow(&mut facts, edition.flow);
                if stopped(trigger, kind, &facts) {
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
