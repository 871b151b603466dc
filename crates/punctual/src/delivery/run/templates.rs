//! Templates in memory, compiled, for as long as the tenant's stamp stays.
//!
//! A set is asked for by every batch of sends; reading and parsing it each time would cost more than the
//! sends. A set that is handed out may be older than the database by [`limits::TEMPLATES_FRESH`]; a delivery
//! that is planned meanwhile says which version it has. A change of the tenant's own language or zone is seen
//! with the next change of a template.
//!
//! A delivery is rendered by the version that was fixed when it was written. If that version is not in use
//! any more, it is read from the database, in one query for all deliveries of a claim. Versions never
//! change, so they are kept until there are too many.

use crate::base::error::Result;
use crate::base::id::TemplateId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::base::zone::Zone;
use crate::database::store::Store;
use crate::delivery::rules::template::{MessageTemplate, TemplateDefinition, TemplateSet};
use crate::delivery::store::templates::{ActiveTemplates, StoredTemplate};
use crate::flow::run::cached_by_stamp::CachedByStamp;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The templates that this process has seen.
#[derive(Debug)]
pub struct TemplateCache {
    keeper: CachedByStamp<(Tenant, String), TemplateSet>,
    versions: Mutex<VersionMap>,
}

type VersionMap = HashMap<(TemplateId, u32), Arc<MessageTemplate>>;

/// Versions of templates that deliveries of one claim are rendered by and that are not in use any more.
#[derive(Debug, Default)]
pub(crate) struct TemplateVersions(VersionMap);

impl TemplateVersions {
    /// The version of a template, from the templates in use or from the others.
    pub(crate) fn find<'t>(
        &'t self,
        set: &'t TemplateSet,
        id: TemplateId,
        version: u32,
    ) -> Option<&'t MessageTemplate> {
        set.find_version(id, version).or_else(|| self.0.get(&(id, version)).map(Arc::as_ref))
    }
}

impl Default for TemplateCache {
    fn default() -> Self {
        Self::new(limits::TEMPLATES_FRESH)
    }
}

impl TemplateCache {
    /// Templates that are looked at again when they were last looked at longer than `fresh` ago. Zero
    /// asks each time, as it must be where time stands still between two changes.
    #[must_use]
    pub fn new(fresh: Duration) -> Self {
        Self { keeper: CachedByStamp::new(fresh, limits::TEMPLATE_SETS_MAX), versions: Mutex::default() }
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

    /// Reads versions of templates that are not in use. A version that cannot be compiled is left out.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn versions(
        &self,
        store: &Store,
        mut wanted: BTreeSet<(TemplateId, u32)>,
    ) -> Result<TemplateVersions> {
        let mut found = VersionMap::new();
        if wanted.is_empty() {
            return Ok(TemplateVersions(found));
        }
        {
            let kept = self.kept_versions();
            wanted.retain(|key| kept.get(key).is_none_or(|of| found.insert(*key, Arc::clone(of)).is_some()));
        }
        if !wanted.is_empty() {
            let read = store.template_versions(wanted).await?;
            let mut kept = self.kept_versions();
            for (id, version, definition) in read {
                let Some(template) = compile_one(id, version, definition).map(Arc::new) else { continue };
                if kept.len() >= limits::TEMPLATE_VERSIONS_MAX {
                    kept.clear();
                }
                kept.insert((id, version), Arc::clone(&template));
                found.insert((id, version), template);
            }
        }
        Ok(TemplateVersions(found))
    }

    fn kept_versions(&self) -> MutexGuard<'_, VersionMap> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compile_one(id: TemplateId, version: u32, definition: TemplateDefinition) -> Option<MessageTemplate> {
    match definition.compile() {
        Ok(texts) => Some(MessageTemplate { id, version, definition, texts }),
        Err(error) => {
            tracing::warn!(template = %id, version, %error, "a message template cannot be used");
            None
        }
    }
}

/// Stored templates were checked; one that cannot be read all the same is left out and logged.
fn compile(active: ActiveTemplates) -> TemplateSet {
    let ActiveTemplates { templates, known, default_locale, time_zone, .. } = active;
    let zone = Zone::find(&time_zone).unwrap_or_else(|_| Zone::utc());
    let templates = templates.into_iter().filter_map(|template| {
        let StoredTemplate { id, version, definition, .. } = template;
        compile_one(id, version, definition)
    });
    TemplateSet { templates: templates.collect(), known, default_locale, zone }
}
