//! Templates in memory, compiled, for as long as the tenant's stamp stays.
//!
//! A set is asked for by every batch of sends; reading and parsing it each time would cost more than the
//! sends. What is handed out may be older than the database by [`limits::TEMPLATES_FRESH`]; a message
//! that is worded meanwhile says which version it used. A change of the tenant's own language or zone is
//! seen with the next change of a template.

use super::keeper::Keeper;
use crate::base::error::Result;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::rules::template::{MessageTemplate, TemplateSet};
use crate::rules::zone::Zone;
use crate::store::Store;
use crate::store::templates::{Active, Template};
use std::sync::Arc;
use std::time::Duration;

/// The templates that this process has seen.
#[derive(Debug)]
pub struct Templates {
    keeper: Keeper<(Tenant, String), TemplateSet>,
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
        Self { keeper: Keeper::new(fresh, limits::TEMPLATE_SETS_MAX) }
    }

    /// A tenant's templates for one kind of events.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn of(&self, store: &Store, tenant: Tenant, event_type: &str) -> Result<Arc<TemplateSet>> {
        let read = || async {
            let active = store.active_templates(tenant, event_type).await?;
            Ok((active.stamp, compile(active)))
        };
        let key = (tenant, event_type.to_owned());
        self.keeper.of(key, || store.template_stamp(tenant), read).await
    }
}

/// What was kept was checked; what cannot be read all the same is left out, and told.
fn compile(active: Active) -> TemplateSet {
    let Active { templates, known, default_locale, time_zone, .. } = active;
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
    TemplateSet { templates: templates.collect(), known, default_locale, zone }
}
