//! The real engine behind the two traits of [`crate::ours`].
//!
//! It chooses its batches and its one or two claimers itself: of the settings only the number of
//! connections reaches it, as the size of its pool.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::punctual::access::store::tenants::NewTenant;
use ::punctual::{LaneId, NewMessage, Tenant, Work};
use anyhow::Result;

use crate::contender::Step;
use crate::ours::{Engine, EngineSettings, Handler, Message, System};

const TOPIC: &str = "orders";
const KIND: &str = "order.created";
/// Lanes that a look at what is left visits at the most.
const LANES_SEEN: usize = 10_000;

/// Punctual itself.
#[derive(Debug, Clone, Copy)]
pub struct Punctual;

struct Open {
    engine: ::punctual::Engine,
    handler: Arc<OnceLock<Handler>>,
}

impl System for Punctual {
    fn open<'a>(&'a self, url: &'a str, settings: EngineSettings) -> Step<'a, Arc<dyn Engine>> {
        Box::pin(async move {
            let handler: Arc<OnceLock<Handler>> = Arc::default();
            let seen = Arc::clone(&handler);
            let engine = ::punctual::Engine::builder(url)
                .pool_size(settings.claimers + 2)
                .handler(TOPIC, move |work: Work| {
                    let seen = Arc::clone(&seen);
                    async move {
                        if let Some(handler) = seen.get() {
                            handler(&work.message.payload);
                        }
                        Ok(())
                    }
                })
                .open()
                .await?;
            engine.store().ensure_routes(Tenant::DEFAULT, vec![TOPIC.to_owned()]).await?;
            Ok(Arc::new(Open { engine, handler }) as Arc<dyn Engine>)
        })
    }
}

impl Open {
    /// Tenant 0 is the default one; the others are made when they first appear.
    async fn tenant(&self, number: usize) -> Result<Tenant> {
        if number == 0 {
            return Ok(Tenant::DEFAULT);
        }
        let slug = format!("tenant-{number}");
        if let Some(row) = self.engine.store().tenant(&slug).await? {
            return Ok(row.tenant);
        }
        let new = NewTenant { name: slug.clone(), slug, ..NewTenant::default() };
        Ok(self.engine.store().create_tenant(new).await?.tenant)
    }

    async fn is_idle(&self) -> Result<bool> {
        if self.engine.store().peek_leases().await?.next.is_some() {
            return Ok(false);
        }
        let view = self.engine.store().ready_lanes(LaneId(-1), LANES_SEEN).await?;
        Ok(view.lanes.iter().all(|lane| lane.first_due > view.now))
    }
}

impl Engine for Open {
    fn enqueue(&self, tenant: usize, messages: Vec<Message>) -> Step<'_, ()> {
        Box::pin(async move {
            let tenant = self.tenant(tenant).await?;
            let delayed = messages.iter().any(|m| !m.delay.is_zero());
            let now = if delayed { Some(self.engine.store().now().await?) } else { None };
            let new = |m: Message| {
                let message = NewMessage::new(TOPIC, KIND, m.payload);
                match now.filter(|_| !m.delay.is_zero()) {
                    Some(now) => message.due_at(now.plus(m.delay)),
                    None => message,
                }
            };
            self.engine.enqueue(tenant, messages.into_iter().map(new).collect()).await?;
            Ok(())
        })
    }

    fn start(&self, handler: Handler) -> Step<'_, ()> {
        Box::pin(async move {
            let _ = self.handler.set(handler);
            self.engine.start();
            Ok(())
        })
    }

    fn idle(&self) -> Step<'_, bool> {
        Box::pin(self.is_idle())
    }

    fn stop(&self) -> Step<'_, ()> {
        Box::pin(async {
            self.engine.stop(Duration::from_secs(30)).await;
            Ok(())
        })
    }
}
