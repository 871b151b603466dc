//! The work queue: messages, lanes, work, claims, settlement, timers, subscriptions, outbox and inbox.
//!
//! Everything durable that waits, waits here. The queue names nothing that stands on it: jobs and deliveries
//! commit with a settlement through [hooks](store::settle).

pub mod inbox;
pub mod outbox;
pub mod rules;
pub mod run;
pub mod store;
