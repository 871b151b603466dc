//! Event kinds, entities, definitions and entries: what becomes due, and why.

pub mod rules;
pub mod run;
pub mod store;
