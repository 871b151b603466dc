//! What remembers: the only SQL of the engine.
//!
//! One public verb is one transaction; what it answers is an outcome, not a row count.
//! Statements are written once for both databases (see [`dialect`]); a verb is an async
//! function over a [`tx::Tx`]. No verb calls out to anything while its transaction is open.

pub mod answers;
pub mod census;
pub mod claims;
pub mod clock;
mod company;
pub mod dead_letters;
pub mod dialect;
pub mod fault;
pub mod jobs;
pub mod keys;
pub mod messages;
pub mod migrate;
pub mod plan;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod prune;
pub mod queues;
pub mod reap;
pub mod routes;
pub mod runs;
pub mod scout;
pub mod sequences;
pub mod settle;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod tenants;
pub mod tx;
pub mod value;
pub mod wake;

use crate::base::error::{Error, Result};
use dialect::Dialect;
use std::sync::Arc;
use tx::{Call, Steps, Tx};

/// A database, ready for verbs.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
    fault: fault::Fault,
    company: Arc<company::Company>,
}

#[derive(Clone, Debug)]
enum Backend {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Sqlite),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Postgres),
}

impl Store {
    /// Opens `sqlite:PATH`, `sqlite::memory:` or `postgres://…`; changes nothing yet.
    ///
    /// # Errors
    /// [`Error::Config`] when the URL or the file cannot be used.
    pub fn open(url: &str, pool_size: usize) -> Result<Self> {
        let _ = pool_size;
        let backend = match url.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", path)) => Backend::Sqlite(open_sqlite(path)?),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => {
                Backend::Postgres(postgres::Postgres::open(url, pool_size)?)
            }
            _ => return Err(unknown_url(url)),
        };
        Ok(Self { backend, fault: fault::Fault::default(), company: Arc::default() })
    }

    /// The same database, with nobody else waiting at its door.
    fn alone(&self) -> Self {
        Self { company: Arc::default(), ..self.clone() }
    }

    /// Which database this is.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a verb in one writing transaction.
    async fn write<R, T>(&self, request: R, run: for<'t> fn(&'t mut Tx, &'t R) -> Steps<'t, T>) -> Result<T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        let call = Call { request, run, fault: self.fault };
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(db) => db.write(call).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(db) => db.write(call).await,
        }
    }

    /// Runs a verb that, on Postgres, is one statement.
    async fn write_alone<R, T>(
        &self,
        request: R,
        run: for<'t> fn(&'t mut Tx, &'t R) -> Steps<'t, T>,
    ) -> Result<T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        let call = Call { request, run, fault: self.fault };
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(db) => db.write(call).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(db) => db.write_alone(call).await,
        }
    }

    /// Runs a verb that only reads.
    async fn read<R, T>(&self, request: R, run: for<'t> fn(&'t mut Tx, &'t R) -> Steps<'t, T>) -> Result<T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        let call = Call { request, run, fault: self.fault };
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(db) => db.read(call).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(db) => db.read(call).await,
        }
    }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(path: &str) -> Result<sqlite::Sqlite> {
    let path = path.strip_prefix("//").unwrap_or(path);
    match path {
        ":memory:" => sqlite::Sqlite::open(None),
        "" => Err(Error::Config("`sqlite:` needs a path, such as sqlite:punctual.db".into())),
        path => sqlite::Sqlite::open(Some(std::path::Path::new(path))),
    }
}

fn unknown_url(url: &str) -> Error {
    // The URL may hold a password: only its scheme is repeated.
    let scheme = url.split(':').next().unwrap_or_default();
    Error::Config(format!(
        "a database URL that begins with `{scheme}:` is not supported here; \
         write sqlite:PATH, sqlite::memory: or postgres://user:password@host/database"
    ))
}
