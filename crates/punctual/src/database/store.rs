//! The handle that every domain's verbs hang on.

use crate::base::error::{Error, Result};
use crate::database::components::KnownComponents;
use crate::database::dialect::Dialect;
use crate::database::fault;
use crate::database::parts::Parts;
#[cfg(feature = "postgres")]
use crate::database::postgres;
#[cfg(feature = "sqlite")]
use crate::database::sqlite;
use crate::database::tx::{TxFuture, Verb, VerbCall, VerbFuture};
use std::path::Path;
use std::sync::Arc;

/// A database, ready for verbs.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) backend: Backend,
    pub(crate) fault: fault::Fault,
    pub(crate) cut: fault::ConnectionSwitch,
    pub(crate) parts: Parts,
}

#[derive(Clone, Debug)]
pub(crate) enum Backend {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Sqlite),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Postgres),
    #[cfg(all(feature = "testing", feature = "sqlite"))]
    Simulated(sqlite::simulated::SimulatedConnection),
}

/// The access that a verb needs to its database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransactionKind {
    Read,
    ReadLocked,
    Write,
    WriteAlone,
}

impl Store {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://…` without the parts of any domain.
    ///
    /// # Errors
    /// [`Error::Config`] when the URL or the file cannot be used.
    pub(crate) fn connect(url: &str, pool_size: usize) -> Result<Self> {
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
        Ok(Self::on(backend))
    }

    fn on(backend: Backend) -> Self {
        let (fault, cut) = Default::default();
        Self { backend, fault, cut, parts: Parts::default() }.with(KnownComponents::default())
    }

    /// Gives the store a part that its copies keep.
    #[must_use]
    pub(crate) fn with<T: Send + Sync + 'static>(mut self, part: T) -> Self {
        self.parts.give(part);
        self
    }

    /// Returns the part of a type, made by its default if there is none.
    pub(crate) fn part<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.parts.get()
    }

    #[cfg(all(feature = "testing", feature = "sqlite"))]
    pub(crate) fn simulated(user: sqlite::simulated::SimulatedConnection) -> Self {
        Self::on(Backend::Simulated(user))
    }

    /// The same database, without the state that other callers share.
    pub(crate) fn alone(&self) -> Self {
        Self { parts: self.parts.given(), ..self.clone() }
    }

    /// Which database this is.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => Dialect::Postgres,
            #[cfg(all(feature = "testing", feature = "sqlite"))]
            Backend::Simulated(_) => Dialect::Sqlite,
        }
    }

    /// The file of the database, where it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(db) => db.path(),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => None,
            #[cfg(all(feature = "testing", feature = "sqlite"))]
            Backend::Simulated(_) => None,
        }
    }

    /// Runs a verb in one writing transaction.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn write<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(
            self.carry(VerbCall::new(request, verb, self.fault, self.parts.clone()), TransactionKind::Write),
        )
    }

    /// Runs a verb that, on Postgres, is one statement.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn write_alone<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(
            self.carry(
                VerbCall::new(request, verb, self.fault, self.parts.clone()),
                TransactionKind::WriteAlone,
            ),
        )
    }

    /// Runs a verb that only reads.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn read<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(
            self.carry(VerbCall::new(request, verb, self.fault, self.parts.clone()), TransactionKind::Read),
        )
    }

    /// Runs a verb that only reads and, on Postgres, locks the rows that it reads until it ends.
    #[cfg_attr(feature = "testing", track_caller)]
    pub(crate) fn read_locked<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(
            self.carry(
                VerbCall::new(request, verb, self.fault, self.parts.clone()),
                TransactionKind::ReadLocked,
            ),
        )
    }

    /// Takes a call to the database, and back with its result.
    pub(crate) fn carry(&self, call: VerbCall, kind: TransactionKind) -> TxFuture<'_, VerbCall> {
        Box::pin(async move {
            self.cut.there().await?;
            let answer = match (&self.backend, kind) {
                #[cfg(feature = "sqlite")]
                (Backend::Sqlite(db), TransactionKind::Read | TransactionKind::ReadLocked) => {
                    db.read(call).await
                }
                #[cfg(feature = "sqlite")]
                (Backend::Sqlite(db), _) => db.write(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), TransactionKind::Read) => db.read(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), TransactionKind::ReadLocked) => db.read_locked(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), TransactionKind::Write) => db.write(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), TransactionKind::WriteAlone) => db.write_alone(call).await,
                #[cfg(all(feature = "testing", feature = "sqlite"))]
                (Backend::Simulated(db), _) => db.run(call).await,
            };
            self.cut.back().await;
            answer
        })
    }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(path: &str) -> Result<sqlite::Sqlite> {
    let path = path.strip_prefix("//").unwrap_or(path);
    match path {
        ":memory:" => sqlite::Sqlite::open(None),
        "" => Err(Error::Config("`sqlite:` needs a path, such as sqlite:punctual.db".into())),
        path => sqlite::Sqlite::open(Some(Path::new(path))),
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
