//! What repeats: loops, each a `tick` plus a wait.
//!
//! | loop | file | does |
//! |---|---|---|
//! | dispatch | [`dispatch`] | looks, claims, hands batches to [`batch`] |
//! | send | [`send`] | plans events, advances, sends ([`delivery_batch`]) and expires |
//! | plan | [`plan`] | makes runs of jobs that are due |
//! | reap | [`reap`] | brings back what crashed |
//! | prune | [`prune`] | lets history go |
//! | inbox | [`inbox`] | forgets what was processed long ago, says what is stuck |
//! | listen | [`wake`] | hears wake-ups of other processes |
//!
//! A loop knows verbs of the store, never SQL. Wake-ups make it fast; its own polling only makes it safe. A
//! tick that fails pauses its loop, says so in health, and goes on. [`channel`]s are called by loops,
//! through a [limiter](channel_limiter) each; the [`sandbox`] is one that only keeps what it was given. A
//! [`lease`] guard has a task of its own, whether loops run or not.

pub mod batch;
pub mod channel;
pub mod channel_limiter;
pub mod consent;
mod database_clock;
pub mod definition_cache;
mod definitions;
pub mod delivery_batch;
pub mod delivery_gate;
pub mod dispatch;
pub mod event_kinds;
pub mod event_planner;
mod executor;
mod executors;
pub(crate) mod gauge;
pub mod handler;
pub mod inbox;
pub mod ingest;
mod keeper;
pub mod kinds;
pub mod lease;
pub mod line;
pub mod notification_renderer;
pub mod plan;
pub mod prune;
pub mod pulse;
pub mod reap;
pub mod receipts;
pub mod sandbox;
pub mod send;
pub mod send_outcome;
mod source_events;
pub mod stop;
pub mod subscription;
mod survey_entities;
pub mod survey_renderer;
pub mod templates;
pub mod wake;
