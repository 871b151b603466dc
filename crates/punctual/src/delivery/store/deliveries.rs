//! Deliveries: one message to one address by one channel and template.
//!
//! | file | holds |
//! |---|---|
//! | [`planned_events`] | settled events, with the entries and deliveries that they lead to |
//! | `new_deliveries`, `key` | new deliveries, and the keys that let each through once |
//! | [`begin`], [`claim`] | claims: the intent to send |
//! | `settle`, `sent` | outcomes |
//! | `reaped` | deliveries of lost claims |
//! | [`duplicates`] | entries that are left with less to send than planned |
//! | `known` | what an event has led to already, and who has the keys of its deliveries |
//! | [`log`], [`schedule`] | lists |

pub mod begin;
pub mod claim;
pub mod delivery;
mod delivery_hook;
pub mod duplicates;
pub(crate) mod in_flight;
pub(crate) mod key;
pub(crate) mod known_deliveries;
pub mod log;
pub(crate) mod new_deliveries;
mod own_queue;
pub mod planned_events;
pub(crate) mod prune;
pub mod schedule;
mod sent;
pub(crate) mod settle;
pub mod source_events;

pub(crate) use crate::delivery::store::deliveries::delivery_hook::DeliveryHook;

/// The lane of a topic's events for the flows.
pub(crate) const FLOWS_LANE: &str = "/flows";
/// The reason of an entry that sent nothing because no recipient could be reached.
pub const NO_RECIPIENT: &str = "NoRecipient";
/// The reason of a delivery that waits for the end of its recipient's quiet hours.
pub const QUIET_HOURS: &str = "QuietHours";
