//! The verbs of subscriptions.

use crate::base::error::{Error, Result};
use crate::base::outcome::PutOutcome;
use crate::base::tenant::Tenant;
use crate::database::tx::VerbFuture;
use crate::engine::Engine;
use crate::queue::rules::subscription::{NewSubscription, SubscriptionTarget};
use crate::queue::run::handlers::HandlerKey;
use crate::queue::run::subscription::LoadedSubscription;
use crate::queue::store::queues::Lane;
use crate::queue::store::subscriptions::Subscription;
use std::sync::Arc;

/// The data that was dropped with a deleted subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedSubscription {
    /// Items that waited and were dropped.
    pub waiting: usize,
    /// Items that are in flight and end by themselves.
    pub in_flight: i64,
}

impl Engine {
    /// The names under which subscriptions are handled here.
    #[must_use]
    pub fn subscribers(&self) -> Vec<String> {
        let names = self.inner.handlers.slots.iter().filter_map(|slot| match &slot.key {
            HandlerKey::Topic(_) => None,
            HandlerKey::Subscriber(name) => Some(name.clone()),
        });
        names.collect()
    }

    /// Makes a subscription, or changes it into this. The same again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the names cannot be.
    pub fn put_subscription<'a>(
        &'a self,
        tenant: Tenant,
        topic: &'a str,
        name: &'a str,
        new: NewSubscription,
    ) -> VerbFuture<'a, (PutOutcome, Subscription)> {
        VerbFuture::new(async move {
            let put = self.store().put_subscription(tenant, topic, name, new).await?;
            self.inner.handlers.subscriptions.forget();
            self.wake_all().await;
            Ok(put)
        })
    }

    /// Deletes a subscription with its waiting messages. Messages in flight complete, dead letters stay until
    /// they are purged.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn delete_subscription<'a>(
        &'a self,
        tenant: Tenant,
        topic: &'a str,
        name: &'a str,
    ) -> VerbFuture<'a, DeletedSubscription> {
        VerbFuture::new(async move {
            let left = self.store().delete_subscription(tenant, topic, name).await?;
            self.inner.handlers.subscriptions.forget();
            let mut deleted = DeletedSubscription { waiting: 0, in_flight: left.in_flight };
            loop {
                match self.store().drop_orphaned(left.lane).await? {
                    0 => break,
                    some => deleted.waiting += some,
                }
            }
            self.wake_all().await;
            Ok(deleted)
        })
    }

    /// The subscription of a lane that workers may claim from.
    pub(crate) async fn claimable(&self, lane: &Lane) -> Result<Arc<LoadedSubscription>> {
        let name = format!("{}/{}", lane.topic, lane.subscription);
        let served = self.inner.handlers.subscriptions.of(self.store(), &[lane.id]).await?.remove(&lane.id);
        match served {
            None => Err(Error::NotFound(format!("there is no subscription `{name}`"))),
            Some(served) if served.target == SubscriptionTarget::Queue => Ok(served),
            Some(_) => Err(Error::Conflict(format!(
                "the subscription `{name}` goes to a handler in a process; \
                 only those with the target queue can be claimed"
            ))),
        }
    }
}
