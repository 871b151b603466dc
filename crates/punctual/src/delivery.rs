//! Templates, channels, consent, deliveries, attempts and receipts: the messages that are sent, and their
//! outcomes.

pub mod rules;
pub mod run;
pub mod store;
