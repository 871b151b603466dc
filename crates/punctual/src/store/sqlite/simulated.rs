//! A database for simulations: SQLite in memory without any thread, and a [`Link`] between it
//! and each of its users, on which anything may happen.
//!
//! Every call is one whole transaction on the caller's own task: first the link has its say
//! (the request may be slow, get lost, or carry a fault), then the transaction runs at once, then the
//! link has its say about the answer. Whoever owns the links decides about time, faults and
//! wake-ups, so a run can be repeated exactly.
//!
//! Not covered: two transactions inside each other's statements (they run one after the
//! other, as with SQLite's one writer), and the threads of the real driver.

use super::threads::{finish, say};
use super::{connect, trouble};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::store::Store;
use crate::store::tx::{Call, Tx};
use rusqlite::Connection;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a link does takes its time.
pub type Later<'l, T> = Pin<Box<dyn Future<Output = T> + Send + 'l>>;

/// The place in the store that calls: what a verb is known by in a simulation.
pub type Verb = &'static Location<'static>;

/// A request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// The statement of the transaction (from 1) that fails.
    pub fails_at: Option<usize>,
}

/// What became of a transaction at the database.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// How it had been asked for.
    pub request: Request,
    /// Whether it was committed.
    pub committed: bool,
    /// Whether rows were touched.
    pub wrote: bool,
    /// The database's time.
    pub now: Timestamp,
}

/// What stands between one user and the database. A future of it that never ends is a user
/// that waits for ever.
pub trait Link: fmt::Debug + Send + Sync {
    /// The database's clock.
    fn now(&self) -> Timestamp;

    /// A request goes out.
    ///
    /// # Errors
    /// When it never reaches the database.
    fn request(&self, verb: Verb) -> Later<'_, Result<Request>>;

    /// The transaction has ended, and its answer goes back. This is called before anybody else
    /// can touch the database.
    ///
    /// # Errors
    /// When the answer is lost.
    fn answer(&self, verb: Verb, answer: Answer) -> Later<'_, Result<()>>;

    /// Wakes the others.
    ///
    /// # Errors
    /// When that did not work; nothing is lost by it.
    fn notify(&self) -> Later<'_, Result<()>>;

    /// Waits until somebody wakes this one.
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
    pub(in crate::store) link: Arc<dyn Link>,
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

    /// A store on it, for the user at the other end of this link.
    #[must_use]
    pub fn store(&self, link: Arc<dyn Link>) -> Store {
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

    fn run<R, T>(&self, call: &Call<R, T>, now: Timestamp) -> (Result<T>, bool) {
        let mut tx = self.lock();
        sqlite(&mut tx).now = Some(now);
        let before = sqlite(&mut tx).connection.total_changes();
        let result = transact(&mut tx, call);
        let wrote = sqlite(&mut tx).connection.total_changes() != before;
        (result, wrote)
    }
}

fn transact<R, T>(tx: &mut Tx, call: &Call<R, T>) -> Result<T> {
    say(tx, "begin immediate")?;
    let result = finish(call.steps(tx));
    say(tx, if result.is_ok() { "commit" } else { "rollback" })?;
    result
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
    pub(in crate::store) async fn run<R, T>(&self, mut call: Call<R, T>) -> Result<T> {
        let request = self.link.request(call.verb).await?;
        if let Some(n) = request.fails_at {
            call.fault = call.fault.failing_at(n);
        }
        let now = self.link.now();
        let (result, wrote) = self.database.run(&call, now);
        self.link.answer(call.verb, Answer { request, committed: result.is_ok(), wrote, now }).await?;
        result
    }
}
