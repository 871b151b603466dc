//! The bodies of requests as types: the OpenAPI document has its schemas from them, and the readers the names
//! of the fields that they know. Readers that find every problem at once read the values themselves.

#![allow(dead_code, reason = "readers take the names of the fields; nothing makes a value")]

mod access;
mod choices;
mod fields;
mod messages;
mod notifications;
mod surveys;
mod time;

pub use access::*;
pub use fields::fields_of;
pub use messages::*;
pub use notifications::*;
pub use surveys::*;
pub use time::*;
