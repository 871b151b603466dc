//! What operators see across all tenants.

pub mod outbox;
