//! Notifications in the pipeline: planning from events, rendering, and what both would come to.

pub(crate) mod forecast;
pub mod planner;
pub mod renderer;
