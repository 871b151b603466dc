//! The loops of the queue, each a `tick` plus a wait.
//!
//! A loop knows verbs of the store, never SQL. Wake-ups make it fast; its own polling only makes it safe. A
//! tick that fails pauses its loop, reports to health, and goes on.

pub mod context;
pub mod database_clock;
pub mod executor;
pub mod gauge;
pub mod handler;
pub mod handler_batch;
pub mod handlers;
pub mod inbox;
pub mod loop_health;
pub(crate) mod panics;
pub mod quarantine;
pub mod reap;
pub mod stop;
pub mod subscription;
pub mod wake;
pub mod worker;
