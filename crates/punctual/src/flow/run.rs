//! Caches of definitions, kept fresh by a stamp.

pub mod event_kinds;
pub mod keeper;
pub mod source_event;
