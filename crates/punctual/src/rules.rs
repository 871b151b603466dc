//! What decides: pure, synchronous, without I/O, clocks or randomness.
//!
//! Everything here is tested by tables of cases. What a rule needs to know (the time, a
//! random seed) is handed to it.

pub mod answers;
pub mod attempt;
pub mod backoff;
pub mod breaker;
pub mod candidate;
pub mod canonical;
pub mod channel;
pub mod claim;
pub mod condition;
pub mod consent;
pub mod cron;
pub mod csv;
pub mod dedup;
pub mod digest;
pub mod document;
pub mod duration;
pub mod entity;
pub mod entry;
pub mod event_kind;
pub mod facts;
pub mod inbox;
pub mod invitation;
pub mod job;
pub mod lease;
pub mod locale;
pub mod masked;
pub mod message;
pub mod nearest;
pub mod notification;
pub mod number;
pub mod pace;
pub mod path;
pub mod public_id;
pub mod purpose;
pub mod queue;
pub mod rate;
pub mod receipt;
pub mod results;
pub mod schema;
pub mod script;
pub mod share;
pub mod subscription;
pub mod survey;
pub mod template;
pub mod timer;
pub mod timetable;
pub mod unsubscribe;
pub mod zone;
