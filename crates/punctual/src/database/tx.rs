//! One transaction, on either database.
//!
//! A verb is an async function over a [`Tx`]. On Postgres its statements travel to the
//! server; on SQLite they run at once on the writer's own thread, so the same function
//! is polled there exactly once and is then done. A verb must therefore await nothing
//! but its `Tx`.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::fault::Fault;
use crate::database::parts::Parts;
use crate::database::value::{Row, Value};
use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The future of a verb: its statements, on their way.
pub type TxFuture<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// A verb: the statements of one transaction for one request.
pub type Verb<R, T> = for<'t> fn(&'t mut Tx, &'t R) -> TxFuture<'t, T>;

/// A verb with its request, on its way into a transaction, where it is run again if the whole must be
/// tried again.
///
/// The types of the request and the result are erased here, so that everything between a verb and the
/// database (retries, tasks, threads, group commits) is compiled once and not once per verb.
pub struct VerbCall {
    body: Box<dyn Body>,
    /// The tenant of a verb that belongs to one.
    pub tenant: Option<Tenant>,
    /// Planned faults, in tests.
    pub fault: Fault,
    /// The parts of the store.
    parts: Parts,
    /// The place in the store that calls, in simulations.
    #[cfg(feature = "testing")]
    pub verb: &'static std::panic::Location<'static>,
}

impl VerbCall {
    /// A call of `verb` with `request`.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn new<R, T>(request: R, verb: Verb<R, T>, fault: Fault, parts: Parts) -> Self
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        Self {
            body: Box::new(VerbBody { request, verb, result: None }),
            tenant: None,
            fault,
            parts,
            #[cfg(feature = "testing")]
            verb: std::panic::Location::caller(),
        }
    }

    /// The statements of one try. The result stays in the call.
    pub fn steps<'t>(&'t mut self, tx: &'t mut Tx) -> TxFuture<'t, ()> {
        *tx.fault() = self.fault;
        *tx.parts() = self.parts.clone();
        self.body.steps(tx)
    }

    /// The result of the last try.
    fn into_result<T: 'static>(mut self) -> Result<T> {
        let mut result: Option<T> = None;
        self.body.move_result(&mut result);
        result.ok_or_else(no_result)
    }
}

fn no_result() -> Error {
    Error::Database("a verb left no result".into())
}

/// A verb of unknown types.
trait Body: Send {
    fn steps<'t>(&'t mut self, tx: &'t mut Tx) -> TxFuture<'t, ()>;
    /// Moves the result into an `Option` of its type.
    fn move_result(&mut self, to: &mut dyn Any);
}

struct VerbBody<R, T> {
    request: R,
    verb: Verb<R, T>,
    result: Option<T>,
}

impl<R: Send + Sync + 'static, T: Send + 'static> Body for VerbBody<R, T> {
    fn steps<'t>(&'t mut self, tx: &'t mut Tx) -> TxFuture<'t, ()> {
        store_result((self.verb)(tx, &self.request), &mut self.result)
    }

    fn move_result(&mut self, to: &mut dyn Any) {
        if let Some(to) = to.downcast_mut::<Option<T>>() {
            *to = self.result.take();
        }
    }
}

/// The same steps, with their result put into a slot.
fn store_result<'t, T: Send>(steps: TxFuture<'t, T>, slot: &'t mut Option<T>) -> TxFuture<'t, ()> {
    Box::pin(async move {
        *slot = Some(steps.await?);
        Ok(())
    })
}

/// The future of a verb of [`Store`](super::store::Store) or [`Engine`](crate::engine::Engine).
///
/// Its type depends on the result alone, so a verb is compiled where it is written, and not again in every
/// crate that awaits it.
#[must_use = "a verb does nothing unless it is awaited"]
pub struct VerbFuture<'s, T>(Inner<'s, T>);

enum Inner<'s, T> {
    Call { carried: TxFuture<'s, VerbCall>, unpack: fn(VerbCall) -> Result<T> },
    Other(TxFuture<'s, T>),
}

impl<'s, T> VerbFuture<'s, T> {
    /// A verb that is more than one transaction, or checks its request before.
    pub(crate) fn new(verb: impl Future<Output = Result<T>> + Send + 's) -> Self {
        Self(Inner::Other(Box::pin(verb)))
    }

    /// A verb that is one transaction, which is on its way.
    pub(crate) fn from_call(carried: TxFuture<'s, VerbCall>) -> Self
    where
        T: 'static,
    {
        Self(Inner::Call { carried, unpack: VerbCall::into_result::<T> })
    }
}

impl<T> Future for VerbFuture<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        match &mut self.0 {
            Inner::Call { carried, unpack } => {
                carried.as_mut().poll(cx).map(|carried| carried.and_then(*unpack))
            }
            Inner::Other(verb) => verb.as_mut().poll(cx),
        }
    }
}

impl<T> std::fmt::Debug for VerbFuture<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VerbFuture")
    }
}

/// An open transaction.
#[derive(Debug)]
pub enum Tx {
    /// On a pooled connection.
    #[cfg(feature = "postgres")]
    Postgres(super::postgres::PostgresTx),
    /// On the writer's or a reader's thread.
    #[cfg(feature = "sqlite")]
    Sqlite(super::sqlite::SqliteTx),
}

macro_rules! on_each {
    ($self:ident, $tx:ident => $postgres:expr, $sqlite:expr) => {
        match $self {
            #[cfg(feature = "postgres")]
            Tx::Postgres($tx) => $postgres,
            #[cfg(feature = "sqlite")]
            Tx::Sqlite($tx) => $sqlite,
        }
    };
}

impl Tx {
    /// Whether an earlier try of this transaction lost against another one. A statement that expects no known
    /// row may be the plain one in the first try, and must bear with known rows in this one.
    pub(crate) fn is_rerun(&self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.is_rerun,
        }
    }

    /// Which words this transaction speaks.
    pub const fn dialect(&self) -> Dialect {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Dialect::Postgres,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    pub(crate) const fn fault(&mut self) -> &mut Fault {
        on_each!(self, tx => &mut tx.fault, &mut tx.fault)
    }

    const fn parts(&mut self) -> &mut Parts {
        on_each!(self, tx => &mut tx.parts, &mut tx.parts)
    }

    /// Returns the part of a type that the store was opened with.
    pub(crate) fn part<T: Default + Send + Sync + 'static>(&mut self) -> Arc<T> {
        self.parts().get()
    }

    /// The authority's time, the same for the whole transaction.
    pub async fn now(&mut self) -> Result<Timestamp> {
        self.fault().check()?;
        on_each!(self, tx => tx.now().await, tx.now())
    }

    /// Rows of a statement.
    pub async fn query(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<Vec<Row>> {
        self.fault().check()?;
        on_each!(self, tx => tx.query(sql, params).await, tx.query(sql, params))
    }

    /// The first row of a statement, if there is one.
    pub async fn first(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<Option<Row>> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs a statement; answers how many rows it touched.
    pub async fn execute(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<u64> {
        self.fault().check()?;
        on_each!(self, tx => tx.execute(sql, params).await, tx.execute(sql, params))
    }

    /// Several statements that do not depend on each other, as the last of the transaction:
    /// on Postgres they travel together, and the commit with them.
    pub async fn finish(&mut self, all: &[(&'static str, Vec<Value<'_>>)]) -> Result<Vec<Vec<Row>>> {
        for _ in all {
            self.fault().check()?;
        }
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.finish(all).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => all.iter().map(|(sql, params)| tx.query(sql, params)).collect(),
        }
    }

    /// The id that the last insert on SQLite gave.
    #[cfg(feature = "sqlite")]
    pub fn last_id(&self) -> i64 {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => 0,
            Self::Sqlite(tx) => tx.last_id(),
        }
    }

    /// Runs one statement for many rows: in one flight on Postgres, prepared once on SQLite.
    pub async fn each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<Vec<Vec<Row>>> {
        self.fault().check()?;
        on_each!(self, tx => tx.each(sql, rows).await, tx.each(sql, rows))
    }
}
