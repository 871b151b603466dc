//! The states of the entities that messages of one claim are about, and of those that they lead to: read once
//! for all of them, in one query for each tenant.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::EventKind;
use crate::queue::rules::message::Entity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// States by tenant and entity.
#[derive(Debug, Default)]
pub(crate) struct EntityStates(HashMap<Tenant, HashMap<Entity, EntitySnapshot>>);

impl EntityStates {
    /// Reads the states of these entities, beside those that are known. Without any, nothing is read.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn read(&mut self, store: &Store, wanted: BTreeSet<(Tenant, Entity)>) -> Result<()> {
        let mut by_tenant: BTreeMap<Tenant, Vec<Entity>> = BTreeMap::new();
        for (tenant, entity) in wanted {
            by_tenant.entry(tenant).or_default().push(entity);
        }
        for (tenant, entities) in by_tenant {
            let found = store.snapshots(tenant, entities).await?;
            self.0.entry(tenant).or_default().extend(found);
        }
        Ok(())
    }

    /// Puts these states in the place of those that are known.
    pub(crate) fn assume(&mut self, tenant: Tenant, states: &HashMap<Entity, EntitySnapshot>) {
        let states = states.iter().map(|(entity, state)| (entity.clone(), state.clone()));
        self.0.entry(tenant).or_default().extend(states);
    }

    /// The state of an entity; `Unknown` if it was never reported, or was not asked for.
    pub(crate) fn of(&self, tenant: Tenant, entity: Option<&Entity>) -> &EntitySnapshot {
        let known = entity.and_then(|entity| self.0.get(&tenant)?.get(entity));
        known.unwrap_or(&EntitySnapshot::Unknown)
    }

    /// The states of the entities that an event leads to, by the names that its kind gives them.
    pub(crate) fn related<'k>(
        &self,
        tenant: Tenant,
        kind: &'k EventKind,
        payload: &Value,
        snapshot: &EntitySnapshot,
    ) -> Vec<(&'k str, Value)> {
        let ids = kind.related_ids(payload, snapshot).into_iter();
        ids.filter_map(|(name, entity)| Some((name, self.of(tenant, Some(&entity)).state()?.clone())))
            .collect()
    }
}
