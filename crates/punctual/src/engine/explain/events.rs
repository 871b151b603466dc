//! Explanations of events of a topic, recorded or not published yet: what surveys and notifications make of
//! them.
//!
//! An event that was not published is looked at as if it were published now: with the state that comes with
//! it, if nothing newer is known of its entity, and with no number of its own. Where a key or a text has that
//! number it shows `{eventId}`.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::MessageId;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::engine::explain::candidate_facts::CandidateFacts;
use crate::engine::explain::{EventExplanation, ExplainContext};
use crate::flow::rules::entity::{EntitySnapshot, NewEntityState};
use crate::flow::run::source_event::{LoadedEvents, SourceEvent};
use crate::queue::rules::message::{Entity, Message, NewMessage};
use crate::queue::store::messages::EnqueueOutcome;
use crate::survey::run::events::{find_candidates, is_for_surveys};
use crate::survey::store::admit::INGEST_TOPIC;
use std::collections::HashMap;

/// The number of an event that was not published.
pub(super) const UNPUBLISHED: MessageId = MessageId(0);

/// An event that is to be explained.
#[derive(Clone, Debug)]
pub enum EventToExplain {
    /// An event that was not published.
    New {
        /// The event.
        message: Box<NewMessage>,
        /// The state of its entity that comes with it.
        state: Option<Box<NewEntityState>>,
    },
    /// An event that was published.
    Recorded(MessageId),
}

/// The states that come with an event and are not written.
pub(super) type AssumedStates = HashMap<Entity, EntitySnapshot>;

impl Engine {
    /// Explains an event of a topic: the entries of surveys and the notification that it leads to. Writes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem of the event, or where there is no event with this number.
    pub fn explain_event(&self, tenant: Tenant, event: EventToExplain) -> VerbFuture<'_, EventExplanation> {
        VerbFuture::new(async move {
            let mut explained = EventExplanation::new();
            let (message, states) = match event {
                EventToExplain::Recorded(id) => {
                    let found = self.store().message(tenant, id).await?;
                    let none = || Error::invalid("eventId", format!("there is no event {id}"));
                    (found.ok_or_else(none)?, AssumedStates::new())
                }
                EventToExplain::New { message, state } => {
                    check(&message, state.as_deref())?;
                    let known = self.store().find_duplicate(tenant, (*message).clone()).await?;
                    if let Some(EnqueueOutcome::Duplicate { of, .. }) = known {
                        let said = "an event with its id was published before, so nothing comes of this one";
                        explained.error = Some(said.to_owned());
                        explained.duplicate_of = of.map(|id| id.to_string());
                        return Ok(explained);
                    }
                    let states = self.assumed(tenant, state).await?;
                    (unpublished(tenant, *message, self.store().now().await?), states)
                }
            };
            if message.topic == INGEST_TOPIC {
                let said = "the event was handed in to an ingest, which has decided about it already";
                explained.error = Some(said.to_owned());
                return Ok(explained);
            }
            self.explain_source(tenant, message, states, &mut explained).await?;
            Ok(explained)
        })
    }

    /// The state that comes with an event, unless a newer one is known.
    async fn assumed(&self, tenant: Tenant, state: Option<Box<NewEntityState>>) -> Result<AssumedStates> {
        let Some(state) = state else { return Ok(AssumedStates::new()) };
        let known = self.store().entity(tenant, state.entity.clone()).await?;
        if known.is_some_and(|known| !state.replaces(&known.snapshot, known.version)) {
            return Ok(AssumedStates::new());
        }
        let snapshot = EntitySnapshot::State(serde_json::from_str(&state.state).unwrap_or_default());
        Ok(AssumedStates::from([(state.entity, snapshot)]))
    }

    async fn explain_source(
        &self,
        tenant: Tenant,
        message: Message,
        states: AssumedStates,
        explained: &mut EventExplanation,
    ) -> Result<()> {
        let kinds = &self.inner.delivery.event_kinds;
        let mut loaded = LoadedEvents::load(self.store(), kinds, vec![message]).await?;
        for (entity, snapshot) in &states {
            loaded.assume(tenant, entity.clone(), snapshot.clone());
        }
        let Some(of) = loaded.source_events().pop() else { return Ok(()) };
        let candidates = find_candidates(0, &of);
        let addresses =
            candidates.iter().filter_map(|one| Some(one.item().candidate.ok()?.address.to_owned()));
        let sight = self.sight(tenant, addresses.collect()).await?;
        let is_for_surveys = sight.offered.names(&of.event.kind) && is_for_surveys(&of);
        if is_for_surveys {
            self.explain_surveys(&sight, &of, &states, explained).await?;
        }
        explained.notification =
            Some(self.explain_notification(&sight, &of, (is_for_surveys, states)).await?);
        Ok(())
    }

    async fn explain_surveys(
        &self,
        sight: &ExplainContext,
        of: &SourceEvent<'_>,
        assumed: &AssumedStates,
        explained: &mut EventExplanation,
    ) -> Result<()> {
        let candidates = find_candidates(0, of);
        let items: Vec<_> = candidates.iter().map(|one| one.item()).collect();
        let read: Vec<_> = items.iter().map(|item| item.candidate.as_ref().ok()).collect();
        let (about, sees) = ((sight.tenant, of.kind), (&sight.recipients, true));
        let facts = CandidateFacts::of_all(self.store(), about, &read, sees, assumed).await?;
        for (item, facts) in items.iter().zip(facts) {
            let (candidate, facts) = match (&item.candidate, facts) {
                (Ok(candidate), Some(facts)) => (candidate, facts),
                (Err(problems), _) => {
                    explained.error.get_or_insert_with(|| problems.to_string());
                    continue;
                }
                (Ok(_), None) => continue,
            };
            for place in sight.offered.begun_by(&of.event.kind) {
                if item.is_for(sight.offered.at(*place).1) {
                    explained.triggers.push(self.explain_one(sight, *place, (candidate, &facts)).await?);
                }
            }
        }
        Ok(())
    }
}

fn check(message: &NewMessage, state: Option<&NewEntityState>) -> Result<()> {
    let mut problems = Problems::default();
    message.check("", &mut problems);
    if let Some(state) = state {
        state.check("entity", &mut problems);
    }
    problems.into_result()
}

/// The message that would be written now.
fn unpublished(tenant: Tenant, new: NewMessage, now: Timestamp) -> Message {
    Message {
        id: UNPUBLISHED,
        tenant,
        topic: new.topic,
        kind: new.kind,
        payload: new.payload,
        key: new.key,
        entity: new.entity,
        correlation_id: new.correlation_id,
        headers: new.headers,
        created_at: now,
        occurred_at: new.occurred_at.unwrap_or(now),
        due_at: new.due_at.unwrap_or(now),
    }
}
