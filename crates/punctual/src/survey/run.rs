//! Surveys in the pipeline: ingest, planning, rendering.

pub mod definition_cache;
mod event_facts;
pub(crate) mod events;
pub mod ingest;
pub mod kind;
pub mod renderer;
