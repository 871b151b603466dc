//! Event kinds in memory, read and compiled once, for as long as the tenant's stamp stays.
//!
//! Kinds that are handed out may be older than the database by [`limits::EVENT_KINDS_FRESH`], but not older
//! than a change that this process has made.

use crate::base::document::quote;
use crate::base::error::Result;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::flow::rules::event_kind::EventKind;
use crate::flow::run::cached_by_stamp::CachedByStamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The event kinds that this process has seen.
#[derive(Debug)]
pub struct EventKinds {
    keeper: CachedByStamp<Tenant, EventKindSet>,
}

/// The event kinds of one tenant, by name.
#[derive(Debug, Default)]
pub struct EventKindSet {
    kinds: BTreeMap<String, Arc<EventKind>>,
    has_schemas: bool,
    has_topics: bool,
}

impl EventKindSet {
    /// A kind by its name.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Arc<EventKind>> {
        self.kinds.get(kind)
    }

    /// The names of all kinds.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Whether one of them says by which topic its events come.
    #[must_use]
    pub const fn has_topics(&self) -> bool {
        self.has_topics
    }

    /// A warning about an event of a kind that is defined for another topic: neither surveys nor
    /// notifications see it.
    #[must_use]
    pub fn topic_warning(&self, kind: &str, topic: &str) -> Option<String> {
        let defined = self.get(kind).filter(|defined| !defined.comes_by(topic))?;
        let wanted = defined.topic.as_deref().unwrap_or_default();
        Some(format!(
            "event kind `{}` is defined for topic `{wanted}`: surveys and notifications ignore it here",
            quote(kind)
        ))
    }

    /// Whether one of them says what form its payload has.
    #[must_use]
    pub const fn has_schemas(&self) -> bool {
        self.has_schemas
    }
}

impl Default for EventKinds {
    fn default() -> Self {
        Self::new(limits::EVENT_KINDS_FRESH)
    }
}

impl EventKinds {
    /// Kinds that are looked at again when they were last looked at longer than `fresh` ago. Zero asks each
    /// time, as it must be where time stands still between two changes.
    #[must_use]
    pub fn new(fresh: Duration) -> Self {
        Self { keeper: CachedByStamp::new(fresh, limits::TEMPLATE_SETS_MAX) }
    }

    /// A tenant's kinds.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn of(&self, store: &Store, tenant: Tenant) -> Result<Arc<EventKindSet>> {
        let read = || async {
            let all = store.all_event_kinds(tenant).await?;
            let read = |kept: crate::flow::store::event_kinds::StoredEventKind| {
                let mut kind = EventKind::kept(&kept.document);
                kind.version = kept.version;
                (kept.kind, Arc::new(kind))
            };
            let kinds: BTreeMap<_, _> = all.kinds.into_iter().map(read).collect();
            let has_schemas = kinds.values().any(|kind| kind.schema.is_some());
            let has_topics = kinds.values().any(|kind| kind.topic.is_some());
            Ok((all.stamp, EventKindSet { kinds, has_schemas, has_topics }))
        };
        self.keeper.of(tenant, || store.event_kind_stamp(tenant), read).await
    }

    /// Sees a change of a tenant's kinds at once. A caller that changes one in this process calls this.
    pub fn changed(&self, tenant: Tenant) {
        self.keeper.forget(&tenant);
    }
}
