//! Which deliveries an event leads to, for whom, and under which keys.

pub mod notification;
