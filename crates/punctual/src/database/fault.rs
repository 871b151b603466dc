//! Planned faults: with the feature `testing`, the n-th statement of a handle's transactions
//! fails, so that a test can show what an error leaves behind, the way to the database can be
//! cut, and a handle may have one of the bugs of [`super::planted_bugs`]. Without it, nothing.

use crate::base::error::Result;
#[cfg(all(feature = "testing", feature = "sqlite"))]
use crate::database::statement::statements;

/// A fault to inject: the statement of a transaction that fails, and the planted bug.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    #[cfg(feature = "testing")]
    at: Option<usize>,
    #[cfg(feature = "testing")]
    seen: usize,
    #[cfg(feature = "testing")]
    bug: Option<super::planted_bugs::PlantedBug>,
    #[cfg(feature = "testing")]
    early: bool,
    #[cfg(feature = "testing")]
    panics: bool,
}

#[cfg(not(feature = "testing"))]
impl Fault {
    /// A statement is about to run.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with planned faults")]
    pub(crate) const fn check(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(feature = "testing")]
impl Fault {
    /// The `n`-th statement fails, too.
    pub(crate) const fn failing_at(self, n: usize) -> Self {
        Self { at: Some(n), seen: 0, ..self }
    }

    /// A statement is about to run.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.seen += 1;
        if self.at == Some(self.seen) {
            assert!(!self.panics, "a planned panic");
            return Err(crate::base::error::Error::Unavailable("a planned fault".into()));
        }
        Ok(())
    }

    pub(crate) const fn has(&self, bug: super::planted_bugs::PlantedBug) -> bool {
        matches!(self.bug, Some(planted) if planted as u8 == bug as u8)
    }

    pub(crate) const fn fire_early(&mut self) {
        self.early = true;
    }

    pub(crate) const fn fires_early(&self) -> bool {
        self.early
    }

    pub(crate) const fn with_bug(self, bug: super::planted_bugs::PlantedBug) -> Self {
        Self { bug: Some(bug), ..self }
    }
}

#[cfg(feature = "testing")]
impl super::store::Store {
    /// The same database, where the `n`-th statement (from 1) of each transaction fails.
    #[must_use]
    pub fn failing_at(&self, n: usize) -> Self {
        Self { fault: self.fault.failing_at(n), ..self.alone() }
    }

    /// The same database, where the `n`-th statement (from 1) of each transaction panics.
    #[must_use]
    pub fn panicking_at(&self, n: usize) -> Self {
        Self { fault: Fault { at: Some(n), seen: 0, panics: true, ..self.fault }, ..self.alone() }
    }
}

#[cfg(all(feature = "testing", feature = "sqlite"))]
impl super::store::Store {
    /// From now on the file of this handle's database cannot grow, as on a full disk; or it can again.
    /// (PostgreSQL's disk is not ours to fill.)
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn fill_disk(&self, full: bool) -> super::tx::VerbFuture<'_, ()> {
        super::tx::VerbFuture::new(async move {
            if self.dialect() != super::dialect::Dialect::Sqlite {
                return Ok(());
            }
            self.write(full, |tx, full| {
                Box::pin(async move { tx.query(if *full { FULL } else { ROOMY }, &[]).await.map(drop) })
            })
            .await
        })
    }
}

#[cfg(all(feature = "testing", feature = "sqlite"))]
statements! {
    /// Not less than there are, says SQLite, and takes the number of pages there are.
    const FULL for Sqlite = "
        pragma max_page_count = 1
    ";

    const ROOMY for Sqlite = "
        pragma max_page_count = 1000000000
    ";
}

/// The fate of calls on their way to the database.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// They arrive, and are answered.
    #[default]
    Open,
    /// They fail at once.
    Refused,
    /// They never arrive, without an error.
    Cut,
    /// They arrive and are carried out, but no answer comes back.
    Deaf,
}

/// The way of one handle to its database, which a test can cut while it is used.
#[cfg(feature = "testing")]
#[derive(Clone, Debug, Default)]
pub struct ConnectionSwitch(std::sync::Arc<std::sync::Mutex<ConnectionStatus>>);

#[cfg(feature = "testing")]
impl ConnectionSwitch {
    /// From now on calls fare like this.
    pub fn set(&self, way: ConnectionStatus) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = way;
    }

    fn way(&self) -> ConnectionStatus {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A call on its way there.
    pub(crate) async fn there(&self) -> Result<()> {
        match self.way() {
            ConnectionStatus::Open | ConnectionStatus::Deaf => Ok(()),
            ConnectionStatus::Refused => Err(crate::base::error::Error::Unavailable("the way is cut".into())),
            ConnectionStatus::Cut => std::future::pending().await,
        }
    }

    /// Its answer on the way back.
    pub(crate) async fn back(&self) {
        if self.way() == ConnectionStatus::Deaf {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(feature = "testing")]
impl super::store::Store {
    /// The same database, over a way of its own that can be cut.
    #[must_use]
    pub fn with_cut(&self) -> (Self, ConnectionSwitch) {
        let cut = ConnectionSwitch::default();
        (Self { cut: cut.clone(), ..self.alone() }, cut)
    }
}

/// The way to the database, which nothing cuts.
#[cfg(not(feature = "testing"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionSwitch;

#[cfg(not(feature = "testing"))]
#[allow(
    clippy::unused_async,
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "as with planned faults"
)]
impl ConnectionSwitch {
    pub(crate) async fn there(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) async fn back(&self) {}
}
