//! Templates, channels, consent, deliveries, attempts and receipts: what is sent, and its outcome.

pub mod rules;
pub mod run;
pub mod store;
