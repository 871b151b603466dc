//! Cron patterns, timetables, misfire and overlap policies, leases.

pub mod cron;
pub mod job;
pub mod lease;
pub mod timetable;
