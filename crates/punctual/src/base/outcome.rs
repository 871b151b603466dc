//! Outcomes that verbs of several domains share.

/// The outcome of writing a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The definition is new.
    Created,
    /// The definition was another before.
    Changed,
    /// The definition was the same before; nothing was written.
    Same,
}
