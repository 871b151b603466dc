//! The entities that surveys are about, in the state that they have when a survey is sent.
//!
//! An entry asks its event kind, as a notification does: a message about something that was deleted, or that
//! `cancelWhen` makes pointless, is not sent. Entries without an entity, and those whose event kind has no
//! definition, are not asked for and cost no query.

use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::delivery::run::context::DeliveryContext;
use crate::flow::rules::entity::Snapshot;
use crate::flow::rules::event_kind::{CancelReason, EventKind};
use crate::queue::rules::message::Entity;
use crate::survey::store::instance::Instance;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Event kinds and entities' states, by entry.
#[derive(Debug, Default)]
pub(crate) struct SurveyEntities(HashMap<EntryId, (Arc<EventKind>, Snapshot)>);

impl SurveyEntities {
    /// Reads the states of what these instances are about, each given with the event kind of its trigger.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn of(context: &DeliveryContext, instances: Vec<(Instance<'_>, &str)>) -> Result<Self> {
        let mut kinds = BTreeMap::new();
        let mut asked: BTreeMap<Tenant, Vec<(EntryId, Arc<EventKind>, Entity)>> = BTreeMap::new();
        for (of, name) in instances {
            let tenant = of.entry.tenant;
            let Some(entity) = &of.entry.entity else { continue };
            if let std::collections::btree_map::Entry::Vacant(new) = kinds.entry(tenant) {
                new.insert(context.event_kinds.of(context.store(), tenant).await?);
            }
            if let Some(kind) = kinds.get(&tenant).and_then(|set| set.get(name)) {
                asked.entry(tenant).or_default().push((of.entry.id, Arc::clone(kind), entity.clone()));
            }
        }
        let mut known = HashMap::new();
        for (tenant, asked) in asked {
            let wanted = asked.iter().map(|(.., entity)| entity.clone()).collect();
            let states = context.store().snapshots(tenant, wanted).await?;
            known.extend(asked.into_iter().map(|(id, kind, entity)| {
                (id, (kind, states.get(&entity).cloned().unwrap_or(Snapshot::Unknown)))
            }));
        }
        Ok(Self(known))
    }

    /// Why a message of this instance would be pointless, if it would be.
    pub(crate) fn find_cancel_reason(&self, of: &Instance<'_>) -> Option<CancelReason> {
        let (kind, snapshot) = self.0.get(&of.entry.id)?;
        let payload = serde_json::from_str(of.payload).unwrap_or_default();
        kind.is_pointless(snapshot, &payload)
    }
}
