//! What remembers: the only SQL of the engine.
//!
//! One public verb is one transaction; what it answers is an outcome, not a row count.
//! Statements are written once for both databases (see [`dialect`]); a verb is an async
//! function over a [`tx::Tx`]. No verb calls out to anything while its transaction is open.

pub mod answers;
pub mod census;
pub mod claims;
pub mod clock;
mod columns;
mod company;
pub mod consent;
pub mod dead_letters;
pub mod deliveries;
pub mod dialect;
pub mod dispatches;
pub mod entities;
pub mod entries;
pub mod event_kinds;
pub mod fault;
pub mod flows;
pub mod inbox;
pub mod jobs;
pub mod journal;
pub mod keys;
pub mod leases;
pub mod messages;
pub mod migrate;
pub mod outbox;
pub mod plan;
pub mod planted;
pub mod points;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod prune;
pub mod queues;
pub mod ready_lanes;
pub mod reap;
pub mod receipts;
pub mod routes;
pub mod runs;
pub mod sequences;
pub mod settle;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod subscriptions;
pub mod templates;
pub mod tenants;
pub mod timers;
pub mod tx;
pub mod value;
pub mod wake;
pub mod wall;

use crate::base::error::{Error, Result};
use crate::rules::unsubscribe::Secret;
use dialect::Dialect;
use settle::hooks::{SettlementHook, SettlementHooks};
use std::sync::Arc;
use tx::{Call, Steps, Verb, VerbFuture};

/// A database, ready for verbs.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
    fault: fault::Fault,
    cut: fault::Cut,
    company: Arc<company::Company>,
    keyed_lanes: Arc<claims::KeyedLanes>,
    hooks: SettlementHooks,
    link_secret: Arc<tokio::sync::OnceCell<Secret>>,
}

#[derive(Clone, Debug)]
enum Backend {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Sqlite),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Postgres),
    #[cfg(all(feature = "testing", feature = "sqlite"))]
    Simulated(sqlite::simulated::Simulated),
}

/// What a verb needs of its database.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    WriteAlone,
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
        Ok(Self::on(backend))
    }

    fn on(backend: Backend) -> Self {
        let (fault, cut) = Default::default();
        let (keyed_lanes, link_secret) = Default::default();
        let hooks = SettlementHooks::new(settlement_hooks());
        Self { backend, fault, cut, company: Arc::default(), keyed_lanes, hooks, link_secret }
    }

    #[cfg(all(feature = "testing", feature = "sqlite"))]
    pub(crate) fn simulated(user: sqlite::simulated::Simulated) -> Self {
        Self::on(Backend::Simulated(user))
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
            #[cfg(all(feature = "testing", feature = "sqlite"))]
            Backend::Simulated(_) => Dialect::Sqlite,
        }
    }

    /// Runs a verb in one writing transaction.
    #[cfg_attr(feature = "testing", track_caller)]
    fn write<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(self.carry(Call::new(request, verb, self.fault), Kind::Write))
    }

    /// Runs a verb that, on Postgres, is one statement.
    #[cfg_attr(feature = "testing", track_caller)]
    fn write_alone<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(self.carry(Call::new(request, verb, self.fault), Kind::WriteAlone))
    }

    /// Runs a verb that only reads.
    #[cfg_attr(feature = "testing", track_caller)]
    fn read<R, T>(&self, request: R, verb: Verb<R, T>) -> VerbFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        VerbFuture::from_call(self.carry(Call::new(request, verb, self.fault), Kind::Read))
    }

    /// Takes a call to the database, and back with its result.
    fn carry(&self, call: Call, kind: Kind) -> Steps<'_, Call> {
        Box::pin(async move {
            self.cut.there().await?;
            let answer = match (&self.backend, kind) {
                #[cfg(feature = "sqlite")]
                (Backend::Sqlite(db), Kind::Read) => db.read(call).await,
                #[cfg(feature = "sqlite")]
                (Backend::Sqlite(db), _) => db.write(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), Kind::Read) => db.read(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), Kind::Write) => db.write(call).await,
                #[cfg(feature = "postgres")]
                (Backend::Postgres(db), Kind::WriteAlone) => db.write_alone(call).await,
                #[cfg(all(feature = "testing", feature = "sqlite"))]
                (Backend::Simulated(db), _) => db.run(call).await,
            };
            self.cut.back().await;
            answer
        })
    }
}

/// What commits with settlements beside the queue's own rows, in every process alike.
fn settlement_hooks() -> Vec<Box<dyn SettlementHook>> {
    vec![Box::new(runs::RunHook), Box::new(deliveries::DeliveryHook)]
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
