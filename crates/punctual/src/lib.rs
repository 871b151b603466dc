//! Punctual turns business events into messages and work that happen on time, once, and
//! provably.
//!
//! Start with [`Engine`]. To enqueue inside a transaction of your own, use [`outbox`]. A worker loop of
//! your own begins with [`Engine::claim`]. [`jobs::run::lease`] has leases with one holder at a time,
//! and [`inbox`] processes a received message once.
//!
//! The crate has a folder for each domain, from the bottom up: [`base`], [`database`], [`access`], [`queue`],
//! [`jobs`], [`flow`], [`delivery`], [`survey`], [`notification`], [`operate`], [`engine`]. A domain uses
//! only those before it. Inside a domain, `rules` decide, `store` holds the SQL and `run` has the loops.

pub mod base;

pub mod database;

pub mod access;
pub mod delivery;
pub mod engine;
pub mod flow;
pub mod jobs;
pub mod notification;
pub mod operate;
pub mod queue;
pub mod survey;
#[cfg(feature = "cluster")]
pub mod testing;

pub use base::clock::Timestamp;
pub use base::component::{Component, Components};
pub use base::error::{Error, Problem, Problems, Result};
pub use base::id::{
    DeadLetterId, DeliveryId, EntryId, FencingToken, FlowId, InboxId, JobId, KeyId, LaneId, MessageId, RunId,
    SuppressionId, TemplateId, Token,
};
pub use base::tenant::Tenant;
pub use database::clock::ClockMode;
pub use database::store::Store;
pub use delivery::run::channel::{AcceptedMessage, Channel, RenderedMessage, SendError};
pub use delivery::run::sandbox::Sandbox;
pub use engine::Engine;
pub use jobs::rules::job::{MisfirePolicy, NewJob, OverlapPolicy};
pub use jobs::run::lease::LeaseGuard;
pub use queue::rules::inbox::InboxDelivery;
pub use queue::rules::message::{Entity, Message, NewMessage};
pub use queue::rules::subscription::NewSubscription;
pub use queue::rules::timer::{DueTime, NewTimer, ScheduledTimer};
pub use queue::run::handler::{Handler, HandlerError, HandlerResult, Work};
pub use queue::store::messages::EnqueueOutcome;
pub use queue::{inbox, outbox};
