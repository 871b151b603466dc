//! The entities that surveys are about, in the state that they have when a survey is sent.
//!
//! An entry asks its event kind, as a notification does: a message about something that was deleted, or that
//! `cancelWhen` makes pointless, is not sent. Entries without an entity, and those whose event kind has no
//! definition, are not asked for and cost no query.

use super::send::DeliveryContext;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::rules::entity::Snapshot;
use crate::rules::event_kind::{CancelReason, EventKind};
use crate::rules::message::Entity;
use crate::store::entries::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Event kinds and entities' states, by entry.
#[derive(Debug, Default)]
pub(super) struct SurveyEntities(HashMap<EntryId, (Arc<EventKind>, Snapshot)>);

impl SurveyEntities {
    /// Reads the states of what these entries are about, each given with the event kind of its trigger.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn of(post: &DeliveryContext, entries: Vec<(&Entry, &str)>) -> Result<Self> {
        let kinds = defined_kinds(post, entries).await?;
        if kinds.is_empty() {
            return Ok(Self::default());
        }
        let ids = kinds.keys().copied().collect();
        let mut by_tenant: BTreeMap<Tenant, BTreeMap<EntryId, Entity>> = BTreeMap::new();
        for (id, tenant, entity) in post.store.entities_of_entries(ids).await? {
            by_tenant.entry(tenant).or_default().insert(id, entity);
        }
        let mut known = HashMap::new();
        for (tenant, entities) in by_tenant {
            let wanted = entities.values().cloned().collect();
            let states = post.store.snapshots(tenant, wanted).await?;
            for (id, entity) in entities {
                let Some(kind) = kinds.get(&id) else { continue };
                let state = states.get(&entity).cloned().unwrap_or(Snapshot::Unknown);
                known.insert(id, (Arc::clone(kind), state));
            }
        }
        Ok(Self(known))
    }

    /// Why a message of this entry would be pointless, if it would be.
    pub(super) fn find_cancel_reason(&self, entry: &Entry) -> Option<CancelReason> {
        let (kind, snapshot) = self.0.get(&entry.id)?;
        let payload = serde_json::from_str(&entry.payload).unwrap_or_default();
        kind.is_pointless(snapshot, &payload)
    }
}

/// The event kinds of entries, where their tenants have defined them.
async fn defined_kinds(
    post: &DeliveryContext,
    entries: Vec<(&Entry, &str)>,
) -> Result<BTreeMap<EntryId, Arc<EventKind>>> {
    let (mut sets, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for (entry, name) in entries {
        if let std::collections::btree_map::Entry::Vacant(new) = sets.entry(entry.tenant) {
            new.insert(post.event_kinds.of(&post.store, entry.tenant).await?);
        }
        if let Some(kind) = sets.get(&entry.tenant).and_then(|set| set.get(name)) {
            kinds.insert(entry.id, Arc::clone(kind));
        }
    }
    Ok(kinds)
}
