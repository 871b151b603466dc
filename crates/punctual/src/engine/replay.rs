//! Replay of failed entries, of every kind: deliveries that were given up are sent again, and a notification
//! that had no template when its event came is planned with the present templates. Also the preview of a
//! failed event.

use crate::base::error::Result;
use crate::base::id::{EntryId, MessageId};
use crate::base::limits;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::delivery::store::entries::actions::{
    ActionOutcome, EntryAction, EntryActionRequest, EntryReference,
};
use crate::delivery::store::entries::preview::PreviewedMessage;
use crate::delivery::store::entries::replan::UnplannedNotification;
use crate::delivery::store::entries::replay::{ReplayMode, ReplayOutcome, ReplaySelection};
use crate::engine::Engine;
use crate::flow::run::source_event::LoadedEvents;
use crate::flow::store::entries::history::ChangeAuthor;
use crate::notification::rules::notification::{EventToPlan, NotificationPlan, entity_of};
use crate::queue::rules::message::{Entity, Message};
use crate::survey::run::events::preview_event;
use crate::survey::run::ingest::preview::{PreviewedEvent, PreviewedInstance};
use std::sync::Arc;

/// The preview of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayPreview {
    /// The messages of its notification, as far as nothing stops them.
    pub messages: Vec<PreviewedMessage>,
    /// The survey instances that it begins, is a duplicate of, or stops.
    pub instances: Vec<PreviewedInstance>,
    /// The reason why it would fail again or have no effect.
    pub reason: Option<String>,
}

impl Engine {
    /// Requeues all failed entries that match, of every kind, in as many transactions as it takes; a dry run
    /// only counts and reports. The replay goes upwards by id, so that an entry that fails again meanwhile is
    /// left for the next call.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for too many ids.
    pub fn replay_failed(
        &self,
        tenant: Tenant,
        mut which: ReplaySelection,
        mode: ReplayMode,
    ) -> VerbFuture<'_, ReplayOutcome> {
        VerbFuture::new(async move {
            let mut all = ReplayOutcome::default();
            loop {
                let step = self.store().replay_failed(tenant, which.clone(), mode.clone()).await?;
                all.ids.extend(step.ids);
                all.instances.extend(step.instances);
                (all.again, all.stopped) = (all.again + step.again, all.stopped + step.stopped);
                all.told.extend(step.told);
                self.plan_anew(tenant, step.unplanned, &mode, &mut all).await?;
                all.told.truncate(limits::LIST_ITEMS_MAX);
                let Some(next) = step.next else { break };
                which.after = next;
            }
            all.ids.sort_unstable();
            self.inner.worker.wake.all();
            self.wake_all().await;
            Ok(all)
        })
    }

    /// Holds, releases, retries, cancels or deletes an entry of any kind. A retry of a failed entry replays
    /// it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn change_entry(&self, tenant: Tenant, change: EntryActionRequest) -> VerbFuture<'_, ActionOutcome> {
        VerbFuture::new(async move {
            let EntryActionRequest { name, action, author } = change.clone();
            let mut outcome = self.store().change_entry(tenant, change).await?;
            if matches!((&outcome, action), (ActionOutcome::Refused(_), EntryAction::Retry))
                && self.replay_one(tenant, name, author).await?
            {
                outcome = ActionOutcome::Done;
            }
            self.inner.worker.wake.all();
            self.wake_all().await;
            Ok(outcome)
        })
    }

    async fn replay_one(&self, tenant: Tenant, name: EntryReference, author: ChangeAuthor) -> Result<bool> {
        let which = match name {
            EntryReference::PublicId(id) => {
                ReplaySelection { public_ids: Some(vec![id]), ..ReplaySelection::default() }
            }
            EntryReference::Id(id) => ReplaySelection { ids: Some(vec![id]), ..ReplaySelection::default() },
        };
        Ok(self.replay_failed(tenant, which, ReplayMode::Real(author)).await?.again > 0)
    }

    async fn plan_anew(
        &self,
        tenant: Tenant,
        ids: Vec<EntryId>,
        mode: &ReplayMode,
        all: &mut ReplayOutcome,
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        for UnplannedNotification { id, event, entity } in
            self.store().unplanned_notifications(tenant, ids).await?
        {
            let set = self.templates().of(self.store(), tenant, &event.kind).await?;
            // An entry that still has no template, or is pointless by now, stays as it is.
            let (NotificationPlan::Deliveries(planned), _) =
                self.plan_event(&event, entity.as_ref(), &set, None).await?
            else {
                continue;
            };
            if *mode == ReplayMode::DryRun && all.told.len() < limits::LIST_ITEMS_MAX {
                let reached = planned.iter().filter(|one| one.address.is_some()).cloned().collect();
                let foreseen = self.store().preview_deliveries(tenant, reached).await?;
                all.told.extend(foreseen.into_iter().map(|one| PreviewedMessage { entry: Some(id), ..one }));
            }
            let (again, stopped) = self.store().plan_notification(tenant, id, planned, mode.clone()).await?;
            (all.again, all.stopped) = (all.again + again, all.stopped + stopped);
            all.ids.extend((again > 0).then_some(id));
        }
        Ok(())
    }

    /// Previews what an event comes to as of now, notifications and surveys; writes nothing. `None` if there
    /// is no such event.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn preview_event(&self, tenant: Tenant, event: MessageId) -> VerbFuture<'_, Option<ReplayPreview>> {
        VerbFuture::new(async move {
            let Some(event) = self.store().message(tenant, event).await? else { return Ok(None) };
            let set = self.templates().of(self.store(), tenant, &event.kind).await?;
            let about = self.about(tenant, &event).await?;
            let (plan, _) = self.plan_event(&event, about.as_ref(), &set, None).await?;
            let foretold = self.foretell_surveys(event).await?;
            let reason = reason(&plan, foretold.as_ref());
            let messages = match plan {
                NotificationPlan::Deliveries(planned) => {
                    self.store().preview_deliveries(tenant, planned).await?
                }
                _ => Vec::new(),
            };
            let instances = foretold.map(|foretold| foretold.instances).unwrap_or_default();
            Ok(Some(ReplayPreview { messages, instances, reason }))
        })
    }

    async fn foretell_surveys(&self, event: Message) -> Result<Option<PreviewedEvent>> {
        let loaded = LoadedEvents::load(self.store(), self.event_kinds(), vec![event]).await?;
        match loaded.source_events().first() {
            Some(event) => preview_event(&self.inner.surveys, *event).await,
            None => Ok(None),
        }
    }

    /// Returns the entity of an event.
    async fn about(&self, tenant: Tenant, event: &Message) -> Result<Option<Entity>> {
        let kinds = self.event_kinds().of(self.store(), tenant).await?;
        let payload = serde_json::from_str(&event.payload).unwrap_or_default();
        let shown = EventToPlan {
            id: event.id,
            topic: &event.topic,
            kind: &event.kind,
            payload: &payload,
            entity: event.entity.as_ref(),
        };
        Ok(entity_of(&shown, kinds.get(&event.kind).map(Arc::as_ref)))
    }
}

/// Why an event would fail again or come to nothing, by the plans of all kinds: the rules of
/// `delivery/run/event_planner.rs`, in words.
fn reason(plan: &NotificationPlan, surveys: Option<&PreviewedEvent>) -> Option<String> {
    let fails = |said: &String| format!("it would fail again: {said}");
    let begins = surveys.is_some_and(|surveys| !surveys.instances.is_empty());
    match (plan, surveys.map(|surveys| &surveys.problem)) {
        (NotificationPlan::Missing(said), _) => Some(fails(said)),
        (NotificationPlan::Pointless(_, said), _) => Some(said.clone()),
        (NotificationPlan::Deliveries(_), _) => None,
        (NotificationPlan::PassOver | NotificationPlan::NoTemplate, Some(_)) if begins => None,
        (NotificationPlan::PassOver | NotificationPlan::NoTemplate, Some(Some(said))) => Some(fails(said)),
        (NotificationPlan::PassOver | NotificationPlan::NoTemplate, Some(None)) => {
            Some("no published trigger of a survey matches the event".to_owned())
        }
        (NotificationPlan::NoTemplate, None) => Some("it would fail: Template not found".to_owned()),
        (NotificationPlan::PassOver, None) => {
            Some("no event kind, template or survey of this tenant covers the event".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveys(problem: Option<&str>) -> PreviewedEvent {
        PreviewedEvent { instances: Vec::new(), problem: problem.map(str::to_owned) }
    }

    /// NTF-22: the words follow the table of `delivery/run/event_planner.rs`.
    #[test]
    fn ntf_22_an_outlook_says_why_an_event_comes_to_nothing() {
        let (idle, wrong) = (surveys(None), surveys(Some("no address")));
        let missing = || NotificationPlan::Missing("no phone".to_owned());
        let fails = "it would fail again: no address";
        let table: [(NotificationPlan, Option<&PreviewedEvent>, Option<&str>); 8] = [
            (missing(), None, Some("it would fail again: no phone")),
            (missing(), Some(&wrong), Some("it would fail again: no phone")),
            (NotificationPlan::Deliveries(Vec::new()), Some(&wrong), None),
            (NotificationPlan::NoTemplate, Some(&wrong), Some(fails)),
            (NotificationPlan::PassOver, Some(&wrong), Some(fails)),
            (
                NotificationPlan::NoTemplate,
                Some(&idle),
                Some("no published trigger of a survey matches the event"),
            ),
            (NotificationPlan::NoTemplate, None, Some("it would fail: Template not found")),
            (
                NotificationPlan::Pointless("deleted", "it is gone".to_owned()),
                Some(&idle),
                Some("it is gone"),
            ),
        ];
        for (plan, surveys, want) in table {
            assert_eq!(reason(&plan, surveys).as_deref(), want, "{plan:?} {surveys:?}");
        }
    }
}
