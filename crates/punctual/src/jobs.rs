//! Work that recurs, and work that one process does at a time: cron jobs with their runs, and leases.

pub mod rules;
pub mod run;
pub mod store;
