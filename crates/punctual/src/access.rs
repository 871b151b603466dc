//! Who may do what: tenants, API keys, and the records of answered requests.

pub mod store;
