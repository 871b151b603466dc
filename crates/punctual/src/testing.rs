//! The test kit: for those who build on Punctual, and for our own tests.
//!
//! Behind the feature `testing`, of which `cluster` is the PostgreSQL server alone. Start with a
//! `Stage`: an engine on a temporary database (a SQLite file, or a PostgreSQL server of its
//! own) on a clock that the test moves. A `Recorder` is a handler that keeps what it was given
//! and fails when told to. Sentences about what was enqueued begin with
//! `Stage::assert_enqueued`. For less than an engine there is `TemporaryStore`.
//!
//! Nothing here is for production: the clock stands still, and the PostgreSQL server neither
//! flushes to disk nor asks for a password.

#[cfg(feature = "postgres")]
pub mod cluster;
#[cfg(feature = "testing")]
mod expect;
#[cfg(feature = "testing")]
pub mod place;
#[cfg(feature = "testing")]
mod recorder;
#[cfg(feature = "testing")]
mod stage;

#[cfg(feature = "testing")]
pub use crate::testing::expect::MessageExpectation;
#[cfg(feature = "testing")]
pub use crate::testing::place::{Backend, TemporaryStore};
#[cfg(feature = "testing")]
pub use crate::testing::recorder::Recorder;
#[cfg(feature = "testing")]
pub use crate::testing::stage::{Stage, StageBuilder};

#[cfg(all(doctest, feature = "testing", feature = "sqlite", feature = "sqlx-postgres"))]
mod guides;
