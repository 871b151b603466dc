//! How much a request may bring, decided by its route before anything of it is parsed.
//!
//! A value in memory takes several times the bytes of its text, and most of all where the text is shortest:
//! `0,` becomes 32 bytes. So the number of values is bounded beside the bytes, and counted while the body
//! arrives.

use crate::auth::Need;
use punctual::access::store::keys::Role;

const MIB: usize = 1024 * 1024;
/// For callers who only look: one payload of the largest size.
const LOOK_BYTES_MAX: usize = 2 * MIB;
/// For definitions and single things.
const USUAL_BYTES_MAX: usize = 4 * MIB;
/// For lists: a full batch of small events, or a few payloads of the largest size.
pub const BATCH_BYTES_MAX: usize = 32 * MIB;
/// Text that stands for one value, at least: real bodies have more for each.
const BYTES_PER_VALUE: usize = 16;

/// Routes that take lists.
const BATCHES: [&str; 5] = [
    "POST /api/events",
    "POST /api/timers",
    "POST /api/triggers/ingest",
    "POST /api/Surveys/Triggers/ingest",
    "POST /api/surveys/{id}/triggers/{triggerId}/send",
];
/// What workers say about many items at once.
const SETTLEMENTS: [&str; 4] = ["/ack", "/abandon", "/fail", "/extend"];

/// The bounds of one route's bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimit {
    /// The most bytes.
    pub bytes_max: usize,
}

impl Default for BodyLimit {
    fn default() -> Self {
        Self { bytes_max: LOOK_BYTES_MAX }
    }
}

impl BodyLimit {
    /// The bounds of a route.
    #[must_use]
    pub fn of(route: &str, need: Need) -> Self {
        let settles = route.contains("/api/queues/") && SETTLEMENTS.iter().any(|verb| route.ends_with(verb));
        let bytes_max = match need {
            _ if settles || BATCHES.contains(&route) => BATCH_BYTES_MAX,
            Need::Key(role) if role > Role::Viewer => USUAL_BYTES_MAX,
            _ => LOOK_BYTES_MAX,
        };
        Self { bytes_max }
    }

    /// The most JSON values.
    #[must_use]
    pub const fn values_max(self) -> usize {
        self.bytes_max / BYTES_PER_VALUE
    }
}

/// Counts the values of a JSON text that comes in pieces, or a few more: a comma or an opening bracket stands
/// before each but the first.
#[derive(Clone, Copy, Debug)]
pub struct ValueCounter {
    /// The values so far.
    pub values: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Default for ValueCounter {
    fn default() -> Self {
        Self { values: 1, in_text: false, is_escaped: false }
    }
}

impl ValueCounter {
    /// Counts the values of the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                b',' | b'[' | b'{' if !self.in_text => self.values += 1,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        for (text, want) in [("1", 1), ("[1,2]", 3), (r#"{"a,[":"\",[{"}"#, 2), ("[[],[]]", 5)] {
            let mut whole = ValueCounter::default();
            whole.add(text.as_bytes());
            let mut pieces = ValueCounter::default();
            text.as_bytes().chunks(1).for_each(|piece| pieces.add(piece));
            assert_eq!((whole.values, pieces.values), (want, want), "{text}");
        }
    }

    #[test]
    fn a_viewer_brings_less_than_a_publisher() {
        let limit = |route: &str, need| BodyLimit::of(route, need).bytes_max;
        assert_eq!(limit("POST /api/events", Need::Key(Role::Support)), BATCH_BYTES_MAX);
        assert_eq!(limit("POST /api/queues/{topic}/ack", Need::Key(Role::Support)), BATCH_BYTES_MAX);
        assert_eq!(limit("PUT /api/surveys/{id}", Need::Key(Role::Author)), USUAL_BYTES_MAX);
        assert_eq!(limit("POST /api/triggers/explain", Need::Key(Role::Viewer)), LOOK_BYTES_MAX);
        assert_eq!(limit("POST /s/{publicId}", Need::Nothing), LOOK_BYTES_MAX);
    }
}
