//! The loop that removes old history.

pub mod prune;
