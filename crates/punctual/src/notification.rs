//! The kind *notification*: one entry for each event that has templates.

pub mod rules;
pub mod run;
