//! The base of all domains: ids, time, limits, errors, tenants and randomness, and the pure rules
//! that every domain shares: conditions, facts, paths, canonical JSON, backoff, rates, zones.
//!
//! This domain depends on no other part of the engine and on no async runtime.

pub mod backoff;
pub mod base64;
pub mod breaker;
pub mod canonical;
pub mod clock;
pub mod component;
pub mod condition;
pub mod csv;
pub mod decimal;
pub mod digest;
pub mod document;
pub mod duration;
pub mod error;
pub mod facts;
pub mod id;
pub mod lease;
pub mod limits;
pub mod locale;
pub mod name;
pub mod number;
pub mod outcome;
pub mod path;
pub mod random;
pub mod rate;
pub mod reason_class;
pub mod redaction;
pub mod rehearsal;
pub mod schema;
pub mod sealing;
pub mod storage_fault;
pub mod suggestion;
pub mod tenant;
pub mod zone;
