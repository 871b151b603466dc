//! The loop that sends, its executors, and the channels that it calls.

pub(crate) mod begin_allowance;
pub mod channel;
pub mod channel_limiter;
pub mod channel_shares;
pub mod consent;
pub mod context;
pub(crate) mod definitions;
pub mod delivery_batch;
pub mod delivery_gate;
pub(crate) mod event_planner;
pub mod executors;
pub(crate) mod gauge;
pub mod kinds;
pub mod receipts;
pub mod sandbox;
pub mod send_outcome;
pub mod source_events;
mod template_review;
pub mod templates;
