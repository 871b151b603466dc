//! The definitions of tenants for some events: their kinds and templates, read once for all of them.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::delivery::rules::template::TemplateSet;
use crate::delivery::run::context::DeliveryContext;
use crate::flow::rules::event_kind::EventKind;
use crate::flow::run::event_kinds::EventKindSet;
use crate::queue::rules::message::Message;
use std::collections::HashMap;
use std::sync::Arc;

/// Kinds by tenant, and templates by tenant and kind.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    kinds: HashMap<Tenant, Arc<EventKindSet>>,
    sets: HashMap<Tenant, HashMap<String, Arc<TemplateSet>>>,
}

impl Definitions {
    /// Those of these events.
    pub async fn of(context: &DeliveryContext, events: impl Iterator<Item = &Message>) -> Result<Self> {
        let mut known = Self::default();
        for event in events {
            if known.set(event).is_some() {
                continue;
            }
            let set = context.templates.of(context.store(), event.tenant, &event.kind).await?;
            known.sets.entry(event.tenant).or_default().insert(event.kind.clone(), set);
            if let std::collections::hash_map::Entry::Vacant(new) = known.kinds.entry(event.tenant) {
                new.insert(context.event_kinds.of(context.store(), event.tenant).await?);
            }
        }
        Ok(known)
    }

    /// Returns the kind of an event, if its tenant has defined one.
    pub fn kind(&self, event: &Message) -> Option<&EventKind> {
        self.kinds.get(&event.tenant)?.get(&event.kind).map(Arc::as_ref)
    }

    /// The templates for an event.
    pub fn set(&self, event: &Message) -> Option<&Arc<TemplateSet>> {
        self.sets.get(&event.tenant)?.get(&event.kind)
    }
}
