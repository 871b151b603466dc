//! The entries of surveys: how events make them, what recipients do to them, and the messages about that.

pub mod admit;
pub mod instance;
pub(crate) mod prune;
pub mod publish;
pub mod results;
pub mod surveys;
pub mod visits;
