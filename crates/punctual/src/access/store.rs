//! The tables of tenants, keys and idempotency records.

pub mod answers;
pub mod keys;
pub mod tenants;
