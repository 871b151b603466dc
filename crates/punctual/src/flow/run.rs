//! Caches of definitions, kept fresh by a stamp.

pub(crate) mod entity_states;
pub mod event_kinds;
pub mod keeper;
pub mod source_event;
