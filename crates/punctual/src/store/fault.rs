//! Planned faults: with the feature `testing`, the n-th statement of a handle's transactions
//! fails, so that a test can show what an error leaves behind, and the way to the database can
//! be cut. Without it, nothing.

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

/// What becomes of calls on their way to the database.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// They arrive, and are answered.
    #[default]
    Open,
    /// They fail at once.
    Refused,
    /// They never arrive, and nobody says so.
    Cut,
    /// They arrive and are carried out, but no answer comes back.
    Deaf,
}

/// The way of one handle to its database, which a test can cut while it is used.
#[cfg(feature = "testing")]
#[derive(Clone, Debug, Default)]
pub struct Cut(std::sync::Arc<std::sync::Mutex<Way>>);

#[cfg(feature = "testing")]
impl Cut {
    /// From now on calls fare like this.
    pub fn set(&self, way: Way) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = way;
    }

    fn way(&self) -> Way {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A call on its way there.
    pub(super) async fn there(&self) -> Result<()> {
        match self.way() {
            Way::Open | Way::Deaf => Ok(()),
            Way::Refused => Err(crate::base::error::Error::Unavailable("the way is cut".into())),
            Way::Cut => std::future::pending().await,
        }
    }

    /// Its answer on the way back.
    pub(super) async fn back(&self) {
        if self.way() == Way::Deaf {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(feature = "testing")]
impl super::Store {
    /// The same database, over a way of its own that can be cut.
    #[must_use]
    pub fn with_cut(&self) -> (Self, Cut) {
        let cut = Cut::default();
        (Self { cut: cut.clone(), ..self.alone() }, cut)
    }
}

/// The way to the database, which nothing cuts.
#[cfg(not(feature = "testing"))]
#[derive(Clone, Debug, Default)]
pub(super) struct Cut;

#[cfg(not(feature = "testing"))]
#[allow(
    clippy::unused_async,
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "as with planned faults"
)]
impl Cut {
    pub(super) async fn there(&self) -> Result<()> {
        Ok(())
    }

    pub(super) async fn back(&self) {}
}
