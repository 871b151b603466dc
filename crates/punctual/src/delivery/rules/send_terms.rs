//! The terms of a claim of deliveries: what the process that claims them knows of its channels.

use std::collections::HashSet;

/// How the deliveries of one claim are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendTerms {
    /// How many of the claim may be begun before its mark is moved; all if `None`.
    pub window: Option<usize>,
    /// The channels whose providers recognise a repeated idempotency key. The claim keeps them, so that the
    /// process that reaps it, which may know no channels, can say what a lost send means.
    pub keyed_channels: HashSet<String>,
}
