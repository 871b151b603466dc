//! Planned faults: with the feature `testing`, the n-th statement of a handle's transactions
//! fails, so that a test can show what an error leaves behind. Without it, nothing.

use crate::base::error::Result;

/// Which statement of a transaction fails, and how many have been.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    #[cfg(feature = "testing")]
    at: Option<usize>,
    #[cfg(feature = "testing")]
    seen: usize,
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
    /// The `n`-th statement fails.
    #[cfg(feature = "sqlite")]
    pub(super) const fn at(n: usize) -> Self {
        Self { at: Some(n), seen: 0 }
    }

    /// A statement is about to run.
    pub(super) fn check(&mut self) -> Result<()> {
        self.seen += 1;
        if self.at == Some(self.seen) {
            return Err(crate::base::error::Error::Unavailable("a planned fault".into()));
        }
        Ok(())
    }
}

#[cfg(feature = "testing")]
impl super::Store {
    /// The same database, where the `n`-th statement (from 1) of each transaction fails.
    #[must_use]
    pub fn failing_at(&self, n: usize) -> Self {
        Self { fault: Fault { at: Some(n), seen: 0 }, ..self.alone() }
    }
}
