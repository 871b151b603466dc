//! Event kinds, entities, definitions and entries: the work that becomes due, and its cause.

pub mod rules;
pub mod run;
pub mod store;
