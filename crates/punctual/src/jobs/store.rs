//! The tables of jobs, runs and leases.

pub mod jobs;
pub mod leases;
pub mod plan;
pub mod runs;
