//! Event kinds, and events that carry the state of their entity.

use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::flow::rules::entity::NewEntityState;
use crate::flow::run::event_kinds::EventKinds;
use crate::flow::store::event_kinds::StoredEventKind;
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages::{EnqueueOutcome, check};
use serde_json::Value;

impl Engine {
    /// The event kinds that this process keeps ready.
    #[must_use]
    pub fn event_kinds(&self) -> &EventKinds {
        &self.inner.delivery.event_kinds
    }

    /// Makes an event kind, or makes it this from now on; this process sees it at once.
    ///
    /// # Errors
    /// As [`crate::Store::put_event_kind`].
    pub fn put_event_kind<'a>(
        &'a self,
        tenant: Tenant,
        kind: &'a str,
        document: Value,
    ) -> VerbFuture<'a, StoredEventKind> {
        VerbFuture::new(async move {
            let kept = self.store().put_event_kind(tenant, kind, document).await;
            self.event_kinds().changed(tenant);
            kept
        })
    }

    /// Forgets an event kind; this process sees it at once. Answers whether there was one.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn delete_event_kind<'a>(&'a self, tenant: Tenant, kind: &'a str) -> VerbFuture<'a, bool> {
        VerbFuture::new(async move {
            let deleted = self.store().delete_event_kind(tenant, kind).await;
            self.event_kinds().changed(tenant);
            deleted
        })
    }

    /// Writes messages as [`Engine::enqueue`] does and, in the same transaction, the states that come with
    /// those of them that are new: each with the number of its message.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] with every problem; nothing is written then.
    pub fn enqueue_with_states(
        &self,
        tenant: Tenant,
        messages: Vec<NewMessage>,
        states: Vec<(usize, NewEntityState)>,
    ) -> VerbFuture<'_, Vec<EnqueueOutcome>> {
        VerbFuture::new(async move {
            if states.is_empty() {
                return self.enqueue(tenant, messages).await;
            }
            check(&messages)?;
            self.route(tenant, &messages).await?;
            let enqueued = self.store().enqueue_with_states(tenant, messages, states).await?;
            crate::queue::run::gauge::enqueued(enqueued.len());
            self.wake_all().await;
            Ok(enqueued)
        })
    }
}
