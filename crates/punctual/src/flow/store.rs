//! The tables of event kinds, entities, flows and entries.

pub mod entities;
pub mod entries;
pub mod event_kinds;
pub mod flows;
