//! The decisions about templates, channels, consent, receipts and the sandbox's scripts.

pub mod address;
pub mod channel;
pub mod channel_share;
pub mod consent;
pub mod delivery;
pub mod event_recipients;
pub mod event_values;
pub mod receipt;
pub mod script;
pub mod send_capacity;
pub mod send_terms;
pub mod template;
pub mod unsubscribe;
