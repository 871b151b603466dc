//! The planner of jobs, and lease guards.

pub(crate) mod gauge;
pub mod lease;
pub mod plan;
