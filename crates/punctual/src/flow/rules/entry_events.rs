//! Kinds of events that the engine publishes about entries.

/// The topic that they are published on.
pub const ENTRY_EVENTS: &str = "survey.responses";
/// A send went out. This event comes without an action of a person.
pub const INSTANCE_SENT: &str = "instance-sent";
/// The kinds that a person or the passing of time causes: these may begin another survey. [`INSTANCE_SENT`]
/// may not, because two surveys could go on sending because of each other.
pub const BEGINNINGS: [&str; 4] =
    ["response-completed", "instance-opened", "instance-expired", "instance-cancelled"];

/// Whether the engine publishes events of this kind about entries.
#[must_use]
pub fn is_entry_event(kind: &str) -> bool {
    kind == INSTANCE_SENT || BEGINNINGS.contains(&kind)
}
