//! A database for simulations: SQLite in memory without any thread, and a [`SimulatedLink`] between it
//! and each of its users, on which anything may happen.
//!
//! Every call is one whole transaction on the caller's own task: first the link decides about the request (it
//! may be slow, get lost, or carry a fault), then the transaction runs at once, then the link decides about
//! the answer. The owner of the links decides about time, faults and wake-ups, so a run can be repeated
//! exactly.
//!
//! Not covered: two transactions inside each other's statements (they run one after the
//! other, as with SQLite's one writer), and the threads of the real driver.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::database::sqlite::threads::{finish, say, say_commit};
use crate::database::sqlite::{connect, trouble};
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbCall};
use rusqlite::Connection;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The future of a link's action.
pub type LinkFuture<'l, T> = Pin<Box<dyn Future<Output = T> + Send + 'l>>;

/// The place in the store that calls: it identifies a verb in a simulation.
pub type CallSite = &'static Location<'static>;

/// A request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedRequest {
    /// The statement of the transaction (from 1) that fails.
    pub fails_at: Option<usize>,
    /// How its commit fails. (One that stands, and whose answer is lost, is for [`SimulatedLink::answer`].)
    pub commit_fails: Option<CommitFailure>,
}

/// A commit that fails and leaves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailure {
    /// The caller gets the error that the commit did not happen.
    Refused,
    /// The caller gets the error that the commit may have happened.
    Unknown,
}

/// The result of a transaction at the database.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedReply {
    /// The request.
    pub request: SimulatedRequest,
    /// Whether it was committed.
    pub committed: bool,
    /// Whether rows were touched.
    pub wrote: bool,
    /// The database's time.
    pub now: Timestamp,
}

/// The link between one user and the database. A future of it that never ends is a user that waits for ever.
pub trait SimulatedLink: fmt::Debug + Send + Sync {
    /// The database's clock.
    fn now(&self) -> Timestamp;

    /// A request goes out.
    ///
    /// # Errors
    /// When it never reaches the database.
    fn request(&self, verb: CallSite) -> LinkFuture<'_, Result<SimulatedRequest>>;

    /// The transaction has ended, and its answer goes back. This is called before any other user can touch
    /// the database.
    ///
    /// # Errors
    /// When the answer is lost.
    fn answer(&self, verb: CallSite, answer: SimulatedReply) -> LinkFuture<'_, Result<()>>;

    /// Wakes the others.
    ///
    /// # Errors
    /// When that did not work; nothing is lost by it.
    fn notify(&self) -> LinkFuture<'_, Result<()>>;

    /// Waits until a notification wakes this user.
    ///
    /// # Errors
    /// When the subscription is broken.
    fn wait_for_wake(&self) -> LinkFuture<'_, Result<()>>;
}

/// A database in memory, shared by all its users.
#[derive(Clone, Debug)]
pub struct SimulatedDatabase(Arc<Mutex<Tx>>);

/// A user's way to the database.
#[derive(Clone, Debug)]
pub struct SimulatedConnection {
    database: SimulatedDatabase,
    pub(crate) link: Arc<dyn SimulatedLink>,
}

impl SimulatedDatabase {
    /// An empty database.
    ///
    /// # Errors
    /// When SQLite cannot be used.
    pub fn new() -> Result<Self> {
        let tx = connect(None, false, &Arc::new(AtomicBool::new(false)))?;
        Ok(Self(Arc::new(Mutex::new(Tx::Sqlite(tx)))))
    }

    /// A store on it without the parts of any domain, for the user at the other end of this link.
    pub(crate) fn connect(&self, link: Arc<dyn SimulatedLink>) -> Store {
        Store::simulated(SimulatedConnection { database: self.clone(), link })
    }

    /// Looks at the tables past every link, or writes as a host does in its own transaction.
    ///
    /// # Errors
    /// As the work.
    pub fn directly<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        let mut tx = self.lock();
        work(&mut sqlite(&mut tx).connection).map_err(trouble)
    }

    fn lock(&self) -> MutexGuard<'_, Tx> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, call: &mut VerbCall, request: SimulatedRequest, now: Timestamp) -> (Result<()>, bool) {
        let mut tx = self.lock();
        sqlite(&mut tx).now = Some(now);
        let before = sqlite(&mut tx).connection.total_changes();
        let result = transact(&mut tx, call, request.commit_fails);
        let wrote = sqlite(&mut tx).connection.total_changes() != before;
        match result {
            // A commit of nothing cannot be in doubt.
            Err(Error::Unknown(source)) if !wrote => (Err(Error::Unavailable(source)), false),
            other => (other, wrote),
        }
    }
}

fn transact(tx: &mut Tx, call: &mut VerbCall, fails: Option<CommitFailure>) -> Result<()> {
    say(tx, "begin immediate")?;
    let result = finish(call.steps(tx)).and_then(|()| match fails {
        None => Ok(()),
        Some(CommitFailure::Refused) => Err(Error::Unavailable("the commit was refused".into())),
        Some(CommitFailure::Unknown) => Err(Error::Unknown("the commit failed".into())),
    });
    if result.is_err() {
        say(tx, "rollback")?;
        return result;
    }
    say_commit(tx)
}

fn sqlite(tx: &mut Tx) -> &mut super::SqliteTx {
    match tx {
        Tx::Sqlite(tx) => tx,
        // invariant: `SimulatedDatabase::new` makes no other.
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => unreachable!("a simulated database is SQLite"),
    }
}

impl SimulatedConnection {
    /// Runs a verb in one transaction.
    pub(crate) async fn run(&self, mut call: VerbCall) -> Result<VerbCall> {
        let request = self.link.request(call.verb).await?;
        if let Some(n) = request.fails_at {
            call.fault = call.fault.failing_at(n);
        }
        let now = self.link.now();
        let (result, wrote) = self.database.run(&mut call, request, now);
        self.link
            .answer(call.verb, SimulatedReply { request, committed: result.is_ok(), wrote, now })
            .await?;
        result.map(|()| call)
    }
}
