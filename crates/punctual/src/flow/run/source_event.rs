//! Events of a topic on their way to the planners of kinds, with what is known of each.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::EventKind;
use crate::flow::run::event_kinds::{EventKindSet, EventKinds};
use crate::queue::rules::message::{Entity, Message};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An event, with what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct SourceEvent<'a> {
    /// The event.
    pub event: &'a Message,
    /// Its payload, parsed; null if that is no JSON.
    pub payload: &'a Arc<Value>,
    /// The definition of its kind, if the tenant has one.
    pub kind: Option<&'a EventKind>,
    /// The entity of the event.
    pub entity: Option<&'a Entity>,
    /// The state of that.
    pub snapshot: &'a EntitySnapshot,
}

impl SourceEvent<'_> {
    /// The definition of its kind, or an empty one.
    #[must_use]
    pub fn kind_or_undefined(&self) -> &EventKind {
        self.kind.unwrap_or_else(|| EventKind::undefined())
    }
}

/// Returns the payload as JSON; a text that is not JSON counts as null.
#[must_use]
pub fn payload_of(event: &Message) -> Value {
    serde_json::from_str(&event.payload).unwrap_or_default()
}

/// Events with what was loaded for them: once for all, not once for each.
#[derive(Debug)]
pub struct LoadedEvents {
    /// The events.
    pub events: Vec<Message>,
    /// Their payloads, in the same order.
    pub payloads: Vec<Arc<Value>>,
    /// The entities of the events, in the same order.
    pub entities: Vec<Option<Entity>>,
    kinds: HashMap<Tenant, Arc<EventKindSet>>,
    states: HashMap<Tenant, HashMap<Entity, EntitySnapshot>>,
}

impl LoadedEvents {
    /// Loads the kinds and the entities of events.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn load(store: &Store, event_kinds: &EventKinds, events: Vec<Message>) -> Result<Self> {
        let mut kinds = HashMap::new();
        for event in &events {
            if let std::collections::hash_map::Entry::Vacant(new) = kinds.entry(event.tenant) {
                new.insert(event_kinds.of(store, event.tenant).await?);
            }
        }
        let payloads: Vec<Arc<Value>> = events.iter().map(|event| Arc::new(payload_of(event))).collect();
        let mut loaded = Self { events, payloads, entities: Vec::new(), kinds, states: HashMap::new() };
        let about = |(event, payload): (&Message, &Arc<Value>)| match loaded.kind(event) {
            Some(kind) => kind.entity_of(event.entity.as_ref(), payload),
            None => event.entity.clone(),
        };
        loaded.entities = loaded.events.iter().zip(&loaded.payloads).map(about).collect();
        loaded.states = loaded.read_states(store).await?;
        Ok(loaded)
    }

    async fn read_states(&self, store: &Store) -> Result<HashMap<Tenant, HashMap<Entity, EntitySnapshot>>> {
        let mut wanted: BTreeMap<Tenant, Vec<Entity>> = BTreeMap::new();
        for (event, entity) in self.events.iter().zip(&self.entities) {
            wanted.entry(event.tenant).or_default().extend(entity.clone());
        }
        let mut states = HashMap::with_capacity(wanted.len());
        for (tenant, entities) in wanted {
            states.insert(tenant, store.snapshots(tenant, entities).await?.into_iter().collect());
        }
        Ok(states)
    }

    fn kind(&self, event: &Message) -> Option<&EventKind> {
        self.kinds.get(&event.tenant)?.get(&event.kind).map(Arc::as_ref)
    }

    /// Takes a state for known that no transaction has written yet.
    pub fn assume(&mut self, tenant: Tenant, entity: Entity, snapshot: EntitySnapshot) {
        self.states.entry(tenant).or_default().insert(entity, snapshot);
    }

    /// The events as planners see them, in their order.
    #[must_use]
    pub fn source_events(&self) -> Vec<SourceEvent<'_>> {
        let read = self.events.iter().zip(&self.payloads).zip(&self.entities);
        read.map(|((event, payload), entity)| {
            let entity = entity.as_ref();
            let state = entity.and_then(|entity| self.states.get(&event.tenant)?.get(entity));
            let snapshot = state.unwrap_or(&EntitySnapshot::Unknown);
            SourceEvent { event, payload, kind: self.kind(event), entity, snapshot }
        })
        .collect()
    }
}
