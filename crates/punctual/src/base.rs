//! What everything else stands on: ids, time, limits, errors, tenants, randomness.
//!
//! This room knows nothing of the rest of the engine and nothing of an async runtime.

pub mod clock;
pub mod error;
pub mod id;
pub mod limits;
pub mod random;
pub mod rehearsal;
pub mod tenant;
