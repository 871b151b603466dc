//! Punctual.
pub mod base;
pub mod rules;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use base::error::{Error, Problem, Problems, Result};
pub use rules::message::NewMessage;
