//! One transaction, on either database.
//!
//! A verb is an async function over a [`Tx`]. On Postgres its statements travel to the
//! server; on SQLite they run at once on the writer's own thread, so the same function
//! is polled there exactly once and is then done. A verb must therefore await nothing
//! but its `Tx`.

use super::dialect::Dialect;
use super::fault::Fault;
use super::value::{Row, Value};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use std::pin::Pin;

/// What a verb returns: its statements, on their way.
pub type Steps<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// A verb with its request: what is run in a transaction, again if the whole must be
/// tried again.
pub struct Call<R, T> {
    /// What was asked for.
    pub request: R,
    /// The verb.
    pub run: for<'t> fn(&'t mut Tx, &'t R) -> Steps<'t, T>,
    /// Whose it is, if it is for one tenant.
    pub tenant: Option<Tenant>,
    /// What is to go wrong, in tests.
    pub fault: Fault,
    /// Which verb it is, in simulations.
    #[cfg(feature = "testing")]
    pub verb: &'static std::panic::Location<'static>,
}

impl<R, T> Call<R, T> {
    /// The verb's statements for one try.
    pub fn steps<'t>(&'t self, tx: &'t mut Tx) -> Steps<'t, T> {
        *tx.fault() = self.fault;
        (self.run)(tx, &self.request)
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
    /// Which words this transaction speaks.
    pub const fn dialect(&self) -> Dialect {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Dialect::Postgres,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    pub(super) const fn fault(&mut self) -> &mut Fault {
        on_each!(self, tx => &mut tx.fault, &mut tx.fault)
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
