//! The tables of tenants, keys and idempotency records.

pub mod idempotency;
pub mod keys;
pub mod tenants;
