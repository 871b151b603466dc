//! Notifications in the pipeline: planning from events, rendering.

pub mod planner;
pub mod renderer;
