//! What decides: pure, synchronous, without I/O, clocks or randomness.
//!
//! Everything here is tested by tables of cases. What a rule needs to know (the time, a
//! random seed) is handed to it.

pub mod attempt;
pub mod backoff;
pub mod claim;
pub mod cron;
pub mod digest;
pub mod duration;
pub mod entry;
pub mod inbox;
pub mod job;
pub mod lease;
pub mod message;
pub mod pace;
pub mod public_id;
pub mod queue;
pub mod share;
pub mod timer;
pub mod timetable;
pub mod zone;
