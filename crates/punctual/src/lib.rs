//! Punctual turns business events into messages and work that happen on time, once, and
//! provably.
//!
//! Start with [`Engine`]. To enqueue inside a transaction of your own, see [`outbox`]. The
//! verbs for a worker loop of your own begin with [`Engine::claim`]. One holder at a time: [`run::lease`]. A
//! received message processed once: [`inbox`].
//!
//! Rooms, top to bottom, each using only what stands above it: [`base`], [`rules`] (which
//! decide), [`store`] (which remembers), [`outbox`], [`inbox`], [`run`] (which repeats), [`engine`].

pub mod base;
pub mod rules;
pub mod store;
#[cfg(feature = "cluster")]
pub mod testing;

pub mod inbox;
pub mod outbox;

pub mod engine;
pub mod run;

pub use base::clock::Timestamp;
pub use base::error::{Error, Problem, Problems, Result};
pub use base::id::{
    DeadLetterId, DeliveryId, EntryId, FencingToken, FlowId, InboxId, JobId, KeyId, LaneId, MessageId, RunId,
    SuppressionId, TemplateId, Token,
};
pub use base::tenant::Tenant;
pub use engine::Engine;
pub use rules::inbox::Delivery;
pub use rules::job::{Misfire, NewJob, Overlap};
pub use rules::message::{Entity, Message, NewMessage};
pub use rules::subscription::NewSubscription;
pub use rules::timer::{NewTimer, Scheduled, When};
pub use run::channel::{Accepted, Channel, NotSent, RenderedMessage};
pub use run::handler::{Handled, Handler, HandlerError, Work};
pub use run::lease::LeaseGuard;
pub use run::sandbox::Sandbox;
pub use store::Store;
pub use store::clock::ClockMode;
pub use store::messages::Enqueued;
