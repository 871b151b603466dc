//! Access: tenants, API keys, and the records of answered requests.

pub mod store;
