//! The entries of surveys: their creation by events, the visits of recipients, and the messages about them.

pub mod admit;
pub mod instance;
pub(crate) mod prune;
pub mod publish;
pub mod results;
pub mod surveys;
pub mod visits;
