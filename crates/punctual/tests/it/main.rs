//! The integration tests of the engine, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

mod outbox;
