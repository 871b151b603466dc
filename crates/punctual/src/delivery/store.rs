//! The tables of templates, consent, deliveries, attempts and receipts.

pub mod channel_shares;
pub mod consent;
pub mod deliveries;
pub mod entries;
pub mod receipts;
pub mod templates;
