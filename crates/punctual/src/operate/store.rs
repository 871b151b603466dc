//! Reads and deletions that span domains.

pub mod census;
pub mod lag;
pub mod outbox;
pub mod prune;
pub mod storage;
