//! The tables of the queue: messages, lanes, work, claims, dead letters, subscriptions, timers, inbox.

pub mod claims;
pub mod dead_letters;
pub mod dispatches;
pub mod group_commit;
pub mod inbox;
pub mod interest;
pub mod journal;
pub mod messages;
pub mod queues;
pub mod ready_lanes;
pub mod reap;
pub mod routes;
pub mod sequences;
pub mod settle;
pub mod subscriptions;
pub mod timers;
pub mod waiting_work;
