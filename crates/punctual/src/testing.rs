//! For tests: a ready store in a temporary place, on a clock that the test moves.
//!
//! Behind the feature `testing`. Nothing here is for production: the clock stands still, and
//! the PostgreSQL server neither flushes to disk nor asks for a password.

#[cfg(feature = "postgres")]
pub mod cluster;
pub mod place;

pub use place::{Backend, TemporaryStore};
