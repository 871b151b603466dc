//! What is known of the events that surveys are about: the definition of their kind, the payload, the states
//! of their entities, and the person whom the entry is for.
//!
//! A survey asks and names what a notification of the same event does, by the same rules
//! ([`EventKind::is_pointless`], [`EventKind::values`]). All of it is read once for the deliveries that are
//! about to begin: the states in one query for each tenant, those of related entities in another. States
//! are read only where the event kind has a definition, or where a template names more than the survey
//! itself; those of related entities only for templates. An entry without an entity costs no query.
//!
//! Not promised: that an entity without a definition of its event's kind stops a survey when it is deleted.

use crate::base::error::Result;
use crate::base::id::{EntryId, MessageId};
use crate::base::tenant::Tenant;
use crate::delivery::rules::template::MessageTemplate;
use crate::delivery::run::context::DeliveryContext;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::{CancelReason, EventKind, Recipient};
use crate::flow::run::entity_states::EntityStates;
use crate::flow::run::event_kinds::EventKindSet;
use crate::queue::rules::message::Entity;
use crate::survey::rules::candidate::recipients::DescribedRecipients;
use crate::survey::rules::invitation;
use crate::survey::store::instance::SurveyInstance;
use serde_json::Value;
use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An instance with what a send of it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedInstance<'a> {
    /// The instance.
    pub(crate) of: SurveyInstance<'a>,
    /// The kind of its trigger's events, if its version is still there.
    pub(crate) event_kind: Option<&'a str>,
    /// The template that words it; none is a text of our own.
    pub(crate) template: Option<&'a MessageTemplate>,
}

/// The facts of some instances.
#[derive(Debug, Default)]
pub(crate) struct EventFacts {
    known: BTreeMap<EntryId, InstanceFacts>,
    states: EntityStates,
}

#[derive(Debug)]
struct InstanceFacts {
    tenant: Tenant,
    entity: Option<Entity>,
    message: Option<MessageId>,
    /// The definition of the event's kind, if the tenant has one.
    defined: Option<Arc<EventKind>>,
    payload: Arc<Value>,
    address: String,
    /// Whether a template words it.
    has_template: bool,
    /// Whether a template names more than the survey itself.
    names_more: bool,
    person: Option<Recipient<'static>>,
}

impl EventFacts {
    /// Reads what is known of these instances.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn of(context: &DeliveryContext, wanted: &[PlannedInstance<'_>]) -> Result<Self> {
        let mut facts = Self::default();
        let (mut kinds, mut payloads) = (BTreeMap::new(), HashMap::new());
        for one in wanted {
            let tenant = one.of.entry.tenant;
            if let MapEntry::Vacant(new) = kinds.entry(tenant) {
                new.insert(context.event_kinds.of(context.store(), tenant).await?);
            }
            let defined = kinds.get(&tenant).and_then(|kinds: &Arc<EventKindSet>| kinds.get(one.event_kind?));
            facts.add(one, defined.cloned(), &mut payloads);
        }
        let own = facts.known.values().filter(|one| one.defined.is_some() || one.names_more);
        let own = own.filter_map(|one| Some((one.tenant, one.entity.clone()?))).collect();
        facts.states.read(context.store(), own).await?;
        let related = facts.known.values().flat_map(|one| one.related(&facts.states)).collect();
        facts.states.read(context.store(), related).await?;
        facts.find_people();
        Ok(facts)
    }

    /// Entries of one event share its payload, so it is parsed once.
    fn add(
        &mut self,
        wanted: &PlannedInstance<'_>,
        defined: Option<Arc<EventKind>>,
        payloads: &mut HashMap<MessageId, Arc<Value>>,
    ) {
        let PlannedInstance { of, template, .. } = wanted;
        let parse = || Arc::new(serde_json::from_str(of.payload).unwrap_or_default());
        let payload = match of.entry.message {
            Some(message) => Arc::clone(payloads.entry(message).or_insert_with(parse)),
            None => parse(),
        };
        let names_more = template.is_some_and(invitation::names_the_event);
        let new = InstanceFacts {
            tenant: of.entry.tenant,
            entity: of.entry.entity.clone(),
            message: of.entry.message,
            defined,
            payload,
            address: of.address.to_owned(),
            has_template: template.is_some(),
            names_more,
            person: None,
        };
        let known = self.known.entry(of.entry.id).or_insert(new);
        known.has_template |= template.is_some();
        known.names_more |= names_more;
    }

    /// Finds each instance's person among those whom its event names, reading each event once.
    fn find_people(&mut self) {
        let mut known: Vec<&mut InstanceFacts> = self.known.values_mut().collect();
        let same = |a: &&mut InstanceFacts, b: &&mut InstanceFacts| {
            a.message.is_some() && a.message == b.message && a.entity == b.entity
        };
        for of_one in known.chunk_by_mut(same) {
            let Some(first) = of_one.first() else { continue };
            let (payload, defined) = (Arc::clone(&first.payload), first.defined.clone());
            let snapshot = self.states.of(first.tenant, first.entity.as_ref());
            let described = DescribedRecipients::of(&payload, defined.as_deref(), snapshot);
            for one in of_one.iter_mut() {
                one.person = described.find(&one.address).map(Recipient::owned);
            }
        }
    }

    /// The definition of the event's kind, or an empty one.
    pub(crate) fn kind(&self, id: EntryId) -> &EventKind {
        let defined = self.known.get(&id).and_then(|one| one.defined.as_deref());
        defined.unwrap_or_else(|| EventKind::undefined())
    }

    /// The payload of an instance's event.
    pub(crate) fn payload(&self, id: EntryId) -> Arc<Value> {
        self.known.get(&id).map(|one| Arc::clone(&one.payload)).unwrap_or_default()
    }

    /// The state of an instance's entity, as far as it was read.
    pub(crate) fn snapshot(&self, id: EntryId) -> &EntitySnapshot {
        self.known.get(&id).map_or(&EntitySnapshot::Unknown, |one| one.snapshot(&self.states))
    }

    /// The states of the entities that an instance's event leads to, by the kind's names.
    pub(crate) fn related(&self, id: EntryId) -> Vec<(&str, Value)> {
        let Some(one) = self.known.get(&id) else { return Vec::new() };
        self.states.related(one.tenant, self.kind(id), &one.payload, one.snapshot(&self.states))
    }

    /// The person whom an instance is for, as its event describes them.
    pub(crate) fn person(&self, id: EntryId) -> Option<&Recipient<'static>> {
        self.known.get(&id)?.person.as_ref()
    }

    /// Why a message of this instance would be pointless, if it would be.
    pub(crate) fn find_cancel_reason(&self, id: EntryId) -> Option<CancelReason> {
        let one = self.known.get(&id)?;
        one.defined.as_ref()?.is_pointless(one.snapshot(&self.states), &one.payload)
    }
}

impl InstanceFacts {
    fn snapshot<'s>(&self, states: &'s EntityStates) -> &'s EntitySnapshot {
        states.of(self.tenant, self.entity.as_ref())
    }

    /// The related entities that a template may name.
    fn related(&self, states: &EntityStates) -> BTreeSet<(Tenant, Entity)> {
        let defined = self.defined.as_ref().filter(|kind| self.has_template && !kind.related.is_empty());
        let ids = defined.map(|kind| kind.related_ids(&self.payload, self.snapshot(states)));
        ids.into_iter().flatten().map(|(_, entity)| (self.tenant, entity)).collect()
    }
}
