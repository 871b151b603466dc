//! What surveys make of events that came by a topic.
//!
//! An event is for surveys if a published trigger names its kind: it begins the trigger's entries, or stops
//! them. Each of the people it names is a candidate ([`reached`]), as if somebody had handed it in. What the
//! kind's document says goes for surveys, too: an event of another topic is not of this kind, and one whose
//! entity makes a message pointless begins nothing (but stops what it stops).
//!
//! What surveys tell themselves, on their own topic, may begin other surveys; a send may not, nor does any of
//! it stop entries: a `stopOn` of such a kind means the entry's own moments, which whoever writes them looks
//! after.
//!
//! Not promised: an order between events, other than within one claim.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::rules::candidate::Candidate;
use crate::rules::candidate::reached::{Reached, reached};
use crate::rules::entity::Snapshot;
use crate::rules::event_kind::EventKind;
use crate::rules::message::{Entity, Message};
use crate::run::ingest::{Ingested, Item, Lot, ingest};
use crate::run::send::DeliveryContext;
use crate::store::entries::tell::{SENT, TOPIC};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An event, with what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Heard<'a> {
    pub(super) event: &'a Message,
    pub(super) payload: &'a Value,
    pub(super) kind: Option<&'a EventKind>,
    pub(super) entity: Option<&'a Entity>,
    pub(super) snapshot: &'a Snapshot,
}

/// What surveys made of an event of a kind that they look at.
#[derive(Debug, Default)]
pub(super) struct Surveyed {
    /// Whether it began an entry, now or before, or stopped one.
    pub(super) made: bool,
    /// Why a trigger that wants it could not be served.
    pub(super) error: Option<String>,
}

/// Events of one tenant that surveys look at, by kind.
type Wanted<'a> = BTreeMap<&'a str, Vec<Asked<'a>>>;

/// Lets events begin and stop entries; for each of them, what came of it, if surveys look at its kind.
///
/// # Errors
/// When the database does not answer: what was written until then is known the next time.
pub(super) async fn meet(post: &DeliveryContext, heard: &[Heard<'_>]) -> Result<Vec<Option<Surveyed>>> {
    let mut all: Vec<Option<Surveyed>> = heard.iter().map(|_| None).collect();
    for (tenant, wanted) in wanted(post, heard).await? {
        let lots: Vec<Lot<'_>> = wanted.iter().map(|(kind, asked)| lot(kind, asked)).collect();
        let met = ingest(post, tenant, &lots).await?;
        for (item, one) in lots.iter().flat_map(|lot| &lot.items).zip(met.into_iter().flatten()) {
            note(all[item.at].get_or_insert_default(), one);
        }
    }
    Ok(all)
}

fn lot<'a>(kind: &'a str, asked: &'a [Asked<'_>]) -> Lot<'a> {
    Lot { kind, items: asked.iter().map(Asked::item).collect() }
}

fn note(of: &mut Surveyed, one: Ingested) {
    of.made |= !one.instances.is_empty();
    if of.error.is_none() {
        of.error = one.error;
    }
}

/// The events that surveys look at.
async fn wanted<'a>(post: &DeliveryContext, heard: &[Heard<'a>]) -> Result<BTreeMap<Tenant, Wanted<'a>>> {
    let mut latest: BTreeMap<Tenant, Timestamp> = BTreeMap::new();
    for Heard { event, .. } in heard {
        let due = latest.entry(event.tenant).or_insert(event.due_at);
        *due = (*due).max(event.due_at).max(event.created_at);
    }
    let mut offered = BTreeMap::new();
    for (tenant, due) in latest {
        offered.insert(tenant, post.shelf.since(&post.store, tenant, due).await?);
    }
    let mut all: BTreeMap<Tenant, Wanted<'a>> = BTreeMap::new();
    for (at, one) in heard.iter().enumerate() {
        let (tenant, kind) = (one.event.tenant, one.event.kind.as_str());
        if offered.get(&tenant).is_some_and(|offered| offered.names(kind)) && one.is_for_surveys() {
            all.entry(tenant).or_default().entry(kind).or_default().extend(asked(at, one));
        }
    }
    Ok(all)
}

impl Heard<'_> {
    fn is_told_by_surveys(&self) -> bool {
        self.event.topic == TOPIC
    }

    fn is_for_surveys(&self) -> bool {
        let its_topic = self.kind.is_none_or(|kind| kind.comes_by(&self.event.topic));
        its_topic && !(self.is_told_by_surveys() && self.event.kind == SENT)
    }

    fn is_pointless(&self) -> bool {
        let kind = self.kind.unwrap_or_else(|| EventKind::undefined());
        kind.is_pointless(self.snapshot, self.payload).is_some()
    }
}

/// An event, for one of the people it names.
struct Asked<'a> {
    at: usize,
    of: Heard<'a>,
    who: Reached,
    entity: Option<Value>,
    begins: bool,
}

fn asked<'a>(at: usize, of: &Heard<'a>) -> Vec<Asked<'a>> {
    let begins = !of.is_pointless();
    let entity = of.entity.map(|entity| json!({"type": entity.kind, "id": entity.id}));
    let people = reached(of.payload, of.kind, of.snapshot).into_iter();
    people.map(|who| Asked { at, of: *of, who, entity: entity.clone(), begins }).collect()
}

impl Asked<'_> {
    fn item(&self) -> Item<'_> {
        let Heard { event, payload, .. } = self.of;
        let (who, entity) = (&self.who.recipient, self.entity.as_ref());
        let candidate = Candidate::of_event(payload, &event.payload, who, entity, event.occurred_at);
        let stops = !self.of.is_told_by_surveys();
        let (cause, ways) = (Some(event), Some(self.who.ways.as_slice()));
        Item { at: self.at, candidate, cause, ways, begins: self.begins, stops }
    }
}
