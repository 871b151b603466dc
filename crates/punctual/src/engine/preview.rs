//! Previews of a template: with a payload, a real event, or its kind's sample. Nothing is written.

use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::delivery::rules::event_values::EventValues;
use crate::delivery::rules::template::MessageTemplate;
use crate::delivery::rules::template::set::FilledTemplate;
use crate::engine::Engine;
use crate::flow::rules::entity::EntitySnapshot;
use crate::flow::rules::event_kind::EventKind;
use crate::queue::rules::message::Entity;
use crate::survey::rules::invitation;
use serde_json::{Value, json};
use std::sync::Arc;

/// The input of a preview.
#[derive(Clone, Debug, Default)]
pub struct PreviewRequest {
    /// The payload; the kind's sample, if there is none.
    pub payload: Option<Value>,
    /// The kind of the event, where the template is for events of every kind; else the template says it.
    pub event_kind: Option<String>,
    /// The entity of the event, if the event names it.
    pub entity: Option<Entity>,
    /// The reader's locale; the recipient's own, if it is not said.
    pub locale: Option<String>,
    /// Whether the states of entities may be shown; without, the payload stands in for them.
    pub open: bool,
}

/// The rendered text of a template, and its locale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePreview {
    /// The texts.
    pub filled: FilledTemplate,
    /// The locale of dates and numbers in them.
    pub locale: String,
}

impl Engine {
    /// Words one message by a template, to the first recipient that the payload names.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn try_template<'a>(
        &'a self,
        tenant: Tenant,
        template: &'a MessageTemplate,
        trial: PreviewRequest,
    ) -> VerbFuture<'a, TemplatePreview> {
        VerbFuture::new(async move {
            let event_type = &template.definition.event_type;
            let kinds = self.event_kinds().of(self.store(), tenant).await?;
            let is_invitation = event_type == invitation::EVENT_TYPE;
            let kind = if is_invitation { trial.event_kind.as_deref() } else { Some(event_type.as_str()) };
            let kind = kind.and_then(|kind| kinds.get(kind)).cloned();
            let kind = kind.unwrap_or_else(|| Arc::new(EventKind::undefined().clone()));
            let payload = trial.payload.or_else(|| kind.sample.clone()).unwrap_or_else(|| json!({}));
            let entity = kind.entity_of(trial.entity.as_ref(), &payload);
            let mut snapshot = EntitySnapshot::Unknown;
            if let Some(entity) = entity.as_ref().filter(|_| trial.open) {
                let mut found = self.store().snapshots(tenant, vec![entity.clone()]).await?;
                // The message about a deleted entity is still worth a preview.
                snapshot = found.remove(entity).filter(|found| found.state().is_some()).unwrap_or_default();
            }
            let related =
                if trial.open { self.related(tenant, &kind, &payload, &snapshot).await? } else { vec![] };
            let mut recipient = kind.recipients(&payload, &snapshot).next().unwrap_or_default();
            recipient.locale = trial.locale.or(recipient.locale);
            let of = EventValues {
                payload: &payload,
                entity: entity.as_ref(),
                snapshot: &snapshot,
                recipient: &recipient,
                related: &related,
                given: &[],
                payload_prefix: None,
            };
            let set = self.templates().of(self.store(), tenant, event_type).await?;
            let locale = template.locale_for(recipient.locale.as_deref()).to_owned();
            let filled = match is_invitation {
                true => invitation::preview(&set, template, &kind, of),
                false => kind.word(template, &of, &set),
            };
            Ok(TemplatePreview { filled, locale })
        })
    }

    /// The states of the entities that an event leads to.
    async fn related<'k>(
        &self,
        tenant: Tenant,
        kind: &'k EventKind,
        payload: &Value,
        snapshot: &EntitySnapshot,
    ) -> Result<Vec<(&'k str, Value)>> {
        let ids = kind.related_ids(payload, snapshot);
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = ids.iter().map(|(_, entity)| entity.clone()).collect();
        let found = self.store().snapshots(tenant, wanted).await?;
        let state = |entity: &Entity| found.get(entity).and_then(EntitySnapshot::state).cloned();
        Ok(ids.into_iter().filter_map(|(name, entity)| Some((name, state(&entity)?))).collect())
    }
}
