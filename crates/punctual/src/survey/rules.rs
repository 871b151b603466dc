//! Surveys as documents, answers in their canonical form, results, and the texts of invitations.

pub mod answers;
pub mod candidate;
pub mod invitation;
pub mod results;
pub mod survey;
