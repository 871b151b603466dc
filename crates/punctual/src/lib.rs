//! Punctual.
pub mod base;
pub mod rules;
pub mod store;

pub use base::error::{Error, Problem, Problems, Result};
pub use rules::message::NewMessage;
