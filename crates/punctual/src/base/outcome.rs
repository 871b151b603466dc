//! Outcomes that verbs of several domains share.

/// What writing a definition did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The definition is new.
    Created,
    /// The definition was another before.
    Changed,
    /// The definition was the same before; nothing was written.
    Same,
}
