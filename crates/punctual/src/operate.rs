//! Views over all domains for people who operate the engine: outbox, census, retention.

pub mod run;
pub mod store;
