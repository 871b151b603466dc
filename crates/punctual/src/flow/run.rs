//! Caches of definitions, kept fresh by a stamp.

pub mod cached_by_stamp;
pub(crate) mod entity_states;
pub mod event_kinds;
pub mod source_event;
