//! The command line, by running the binary: what it prints, and the code it ends with.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

mod bench;
mod channels;
mod commands;
mod exposure;
mod guards;
mod guides;
mod memory;
pub mod process;
mod relations;
mod serving;
mod settings;
mod shutdown;
mod subscriptions;
mod surveys;
mod timers;
