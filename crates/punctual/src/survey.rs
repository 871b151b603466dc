//! The kind *survey*: documents, answers, results, invitations.

pub mod rules;
pub mod run;
pub mod store;
