//! Templates in memory, compiled, for as long as the tenant's stamp stays.
//!
//! A set is asked for by every batch of sends; reading and parsing it each time would cost more than the
//! sends. What is handed out may be older than the database by [`limits::TEMPLATES_FRESH`]; a message
//! that is worded meanwhile says which version it used. A change of the tenant's own language or zone is
//! seen with the next change of a template.

use crate::base::clock::{Moment, monotonic};
use crate::base::error::Result;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::template::{MessageTemplate, TemplateSet};
use crate::rules::zone::Zone;
use crate::store::Store;
use crate::store::templates::{Active, Template};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The templates that this process has seen.
#[derive(Debug)]
pub struct Templates {
    fresh: Duration,
    kept: Mutex<HashMap<(Tenant, String), Kept>>,
}

#[derive(Clone, Debug)]
struct Kept {
    set: Arc<TemplateSet>,
    stamp: i64,
    looked: Moment,
}

impl Default for Templates {
    fn default() -> Self {
        Self::new(limits::TEMPLATES_FRESH)
    }
}

impl Templates {
    /// Templates that are looked at again when they were last looked at longer than `fresh` ago. Zero
    /// asks each time, as it must be where time stands still between two changes.
    #[must_use]
    pub fn new(fresh: Duration) -> Self {
        Self { fresh, kept: Mutex::default() }
    }

    /// A tenant's templates for one kind of events.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn of(&self, store: &Store, tenant: Tenant, event_type: &str) -> Result<Arc<TemplateSet>> {
        let key = (tenant, event_type.to_owned());
        let looked = monotonic();
        let known = self.all().get(&key).cloned();
        if let Some(kept) = known {
            if looked.since(kept.looked) < self.fresh {
                return Ok(kept.set);
            }
            if store.template_stamp(tenant).await? == kept.stamp {
                let set = Arc::clone(&kept.set);
                self.keep(key, Kept { looked, ..kept });
                return Ok(set);
            }
        }
        let active = store.active_templates(tenant, event_type).await?;
        let stamp = active.stamp;
        let set = Arc::new(compile(active));
        self.keep(key, Kept { set: Arc::clone(&set), stamp, looked });
        Ok(set)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<(Tenant, String), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a set, unless another caller has brought a newer one meanwhile.
    fn keep(&self, key: (Tenant, String), new: Kept) {
        let mut all = self.all();
        if all.len() >= limits::TEMPLATE_SETS_MAX && !all.contains_key(&key) {
            all.clear();
        }
        if all.get(&key).is_none_or(|old| old.stamp <= new.stamp) {
            all.insert(key, new);
        }
    }
}

/// What was kept was checked; what cannot be read all the same is left out, and told.
fn compile(active: Active) -> TemplateSet {
    let Active { templates, default_locale, time_zone, .. } = active;
    let zone = Zone::find(&time_zone).unwrap_or_else(|_| Zone::utc());
    let templates = templates.into_iter().filter_map(|template| {
        let Template { id, version, definition, .. } = template;
        match definition.compile() {
            Ok(texts) => Some(MessageTemplate { id, version, definition, texts }),
            Err(error) => {
                tracing::warn!(template = %id, version, %error, "a message template cannot be used");
                None
            }
        }
    });
    TemplateSet { templates: templates.collect(), default_locale, zone }
}
