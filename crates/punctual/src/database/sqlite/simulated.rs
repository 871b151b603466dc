//! A database for simulations: SQLite in memory without any thread, and a [`Link`] between it
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
use crate::database::tx::{Call, Tx};
use rusqlite::Connection;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The future of a link's action.
pub type Later<'l, T> = Pin<Box<dyn Future<Output = T> + Send + 'l>>;

/// The place in the store that calls: it identifies a verb in a simulation.
pub type Verb = &'static Location<'static>;

/// A request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// The statement of the transaction (from 1) that fails.
    pub fails_at: Option<usize>,
    /// How its commit fails. (One that stands, and whose answer is lost, is for [`Link::answer`].)
    pub commit_fails: Option<FailedCommit>,
}

/// A commit that fails and leaves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCommit {
    /// The caller gets the error that the commit did not happen.
    Refused,
    /// The caller gets the error that the commit may have happened.
    Unknown,
}

/// The result of a transaction at the database.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The request.
    pub request: Request,
    /// Whether it was committed.
    pub committed: bool,
    /// Whether rows were touched.
    pub wrote: bool,
    /// The database's time.
    pub now: Timestamp,
}

/// The link between one user and the database. A future of it that never ends is a user that waits for ever.
pub trait Link: fmt::Debug + Send + Sync {
    /// The database's clock.
    fn now(&self) -> Timestamp;

    /// A request goes out.
    ///
    /// # Errors
    /// When it never reaches the database.
    fn request(&self, verb: Verb) -> Later<'_, Result<Request>>;

    /// The transaction has ended, and its answer goes back. This is called before any other user can touch
    /// the database.
    ///
    /// # Errors
    /// When the answer is lost.
    fn answer(&self, verb: Verb, answer: Answer) -> Later<'_, Result<()>>;

    /// Wakes the others.
    ///
    /// # Errors
    /// When that did not work; nothing is lost by it.
    fn notify(&self) -> Later<'_, Result<()>>;

    /// Waits until a notification wakes this user.
    ///
    /// # Errors
    /// When the subscription is broken.
    fn heard(&self) -> Later<'_, Result<()>>;
}

/// A database in memory, shared by all its users.
#[derive(Clone, Debug)]
pub struct Database(Arc<Mutex<Tx>>);

/// A user's way to the database.
#[derive(Clone, Debug)]
pub struct Simulated {
    database: Database,
    pub(crate) link: Arc<dyn Link>,
}

impl Database {
    /// An empty database.
    ///
    /// # Errors
    /// When SQLite cannot be used.
    pub fn new() -> Result<Self> {
        let tx = connect(None, false, &Arc::new(AtomicBool::new(false)))?;
        Ok(Self(Arc::new(Mutex::new(Tx::Sqlite(tx)))))
    }

    /// A store on it without the parts of any domain, for the user at the other end of this link.
    pub(crate) fn connect(&self, link: Arc<dyn Link>) -> Store {
        Store::simulated(Simulated { database: self.clone(), link })
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

    fn run(&self, call: &mut Call, request: Request, now: Timestamp) -> (Result<()>, bool) {
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

fn transact(tx: &mut Tx, call: &mut Call, fails: Option<FailedCommit>) -> Result<()> {
    say(tx, "begin immediate")?;
    let result = finish(call.steps(tx)).and_then(|()| match fails {
        None => Ok(()),
        Some(FailedCommit::Refused) => Err(Error::Unavailable("the commit was refused".into())),
        Some(FailedCommit::Unknown) => Err(Error::Unknown("the commit failed".into())),
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
        // invariant: `Database::new` makes no other.
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => unreachable!("a simulated database is SQLite"),
    }
}

impl Simulated {
    /// Runs a verb in one transaction.
    pub(crate) async fn run(&self, mut call: Call) -> Result<Call> {
        let request = self.link.request(call.verb).await?;
        if let Some(n) = request.fails_at {
            call.fault = call.fault.failing_at(n);
        }
        let now = self.link.now();
        let (result, wrote) = self.database.run(&mut call, request, now);
        self.link.answer(call.verb, Answer { request, committed: result.is_ok(), wrote, now }).await?;
        result.map(|()| call)
    }
}
