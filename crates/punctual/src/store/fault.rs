//! Planned faults: with the feature `testing`, the n-th statement of a handle's transactions
//! fails, so that a test can show what an error leaves behind, and a handle may have one of the
//! bugs of [`super::planted`]. Without it, nothing.

use crate::base::error::Result;

/// What is to go wrong: which statement of a transaction fails, and which bug is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    #[cfg(feature = "testing")]
    at: Option<usize>,
    #[cfg(feature = "testing")]
    seen: usize,
    #[cfg(feature = "testing")]
    bug: Option<super::planted::Bug>,
    #[cfg(feature = "testing")]
    early: bool,
}

#[cfg(not(feature = "testing"))]
impl Fault {
    /// A statement is about to run.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with planned faults")]
    pub(super) const fn check(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(feature = "testing")]
impl Fault {
    /// The `n`-th statement fails, too.
    pub(super) const fn failing_at(self, n: usize) -> Self {
        Self { at: Some(n), seen: 0, ..self }
    }

    /// A statement is about to run.
    pub(super) fn check(&mut self) -> Result<()> {
        self.seen += 1;
        if self.at == Some(self.seen) {
            return Err(crate::base::error::Error::Unavailable("a planned fault".into()));
        }
        Ok(())
    }

    pub(super) const fn has(&self, bug: super::planted::Bug) -> bool {
        matches!(self.bug, Some(planted) if planted as u8 == bug as u8)
    }

    pub(super) const fn fire_early(&mut self) {
        self.early = true;
    }

    pub(super) const fn fires_early(&self) -> bool {
        self.early
    }

    pub(super) const fn with_bug(self, bug: super::planted::Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }
}

#[cfg(feature = "testing")]
impl super::Store {
    /// The same database, where the `n`-th statement (from 1) of each transaction fails.
    #[must_use]
    pub fn failing_at(&self, n: usize) -> Self {
        Self { fault: self.fault.failing_at(n), ..self.alone() }
    }
}
