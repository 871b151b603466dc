//! The decisions about events, entities, dedup keys and the states of entries.

pub mod dedup;
pub mod entity;
pub mod entry;
pub mod entry_events;
pub mod event_kind;
pub mod input_hash;
pub mod public_id;
