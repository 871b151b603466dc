//! Temporary stores: migrated, on a manual clock, and gone when they are dropped.
//!
//! A SQLite store is a file in a folder of its own, in memory where the system offers that. A
//! PostgreSQL store is a database of its own in one throw-away cluster per process, copied
//! from a template that was migrated once; the cluster goes when the process ends, however
//! it ends.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::random;
use crate::database::clock::ClockMode;
use crate::database::store::Store;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "postgres")]
use crate::database::postgres::direct_connection::DirectConnection;
#[cfg(feature = "sqlite")]
use crate::database::sqlite::direct as sqlite;
#[cfg(feature = "postgres")]
use crate::testing::cluster::{Cluster, ClusterOptions};

/// The rows of one statement, each value as text.
pub type Rows = Vec<Vec<Option<String>>>;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A file.
    #[cfg(feature = "sqlite")]
    Sqlite,
    /// A database in a throw-away cluster.
    #[cfg(feature = "postgres")]
    Postgres,
}

impl Backend {
    /// All that are built in.
    pub const ALL: &'static [Self] = &[
        #[cfg(feature = "sqlite")]
        Self::Sqlite,
        #[cfg(feature = "postgres")]
        Self::Postgres,
    ];
}

/// A store that is there for one test.
#[derive(Debug)]
pub struct TemporaryStore {
    store: Store,
    place: TestDatabase,
}

impl TemporaryStore {
    /// The moment at which every temporary store's clock stands at first:
    /// 2026-05-14T05:13:00Z.
    pub const START: Timestamp = Timestamp::from_micros(1_778_735_580_000_000);

    /// A store on the database named.
    ///
    /// # Errors
    /// When there is no place for one, such as without PostgreSQL's server programs.
    pub async fn new(backend: Backend) -> Result<Self> {
        let place = TestDatabase::migrated(backend).await?;
        Ok(Self { store: place.open().await?, place })
    }

    /// A store in a SQLite file.
    ///
    /// # Errors
    /// When no file can be made.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite() -> Result<Self> {
        Self::new(Backend::Sqlite).await
    }

    /// A store in a PostgreSQL database.
    ///
    /// # Errors
    /// When no server can be started.
    #[cfg(feature = "postgres")]
    pub async fn postgres() -> Result<Self> {
        Self::new(Backend::Postgres).await
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// A second handle on the same database, as another process would have it.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn another(&self) -> Result<Store> {
        self.place.open().await
    }

    /// The address of the database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.place.url
    }

    /// Moves the clock on.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn advance(&self, by: Duration) -> Result<Timestamp> {
        let to = self.store.now().await?.plus(by);
        self.store.set_clock(to).await?;
        Ok(to)
    }

    /// Runs statements past the store, each for itself, on a connection of their own.
    ///
    /// # Errors
    /// When the database refuses one.
    pub async fn sql(&self, statements: &[String]) -> Result<Vec<Rows>> {
        self.place.sql(statements).await
    }
}

/// An empty or migrated database that goes when it is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    backend: Backend,
    url: String,
    remains: PathBuf,
    #[cfg(feature = "postgres")]
    direct: tokio::sync::OnceCell<DirectConnection>,
}

impl TestDatabase {
    fn at(backend: Backend, url: String, remains: PathBuf) -> Self {
        Self {
            backend,
            url,
            remains,
            #[cfg(feature = "postgres")]
            direct: tokio::sync::OnceCell::new(),
        }
    }

    /// A database without any schema.
    ///
    /// # Errors
    /// As for [`TemporaryStore::new`].
    pub async fn empty(backend: Backend) -> Result<Self> {
        match backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => file(),
            #[cfg(feature = "postgres")]
            Backend::Postgres => database("template0").await,
        }
    }

    /// A database with the schema, whose manual clock stands at [`TemporaryStore::START`].
    ///
    /// # Errors
    /// As for [`TemporaryStore::new`].
    pub async fn migrated(backend: Backend) -> Result<Self> {
        match backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => {
                let place = file()?;
                prepare(&Store::open(&place.url, 1)?).await?;
                Ok(place)
            }
            #[cfg(feature = "postgres")]
            Backend::Postgres => database(TEMPLATE).await,
        }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which database it is.
    #[must_use]
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// Runs statements past the store, each for itself, on a connection of their own.
    ///
    /// # Errors
    /// When the database refuses one.
    pub async fn sql(&self, statements: &[String]) -> Result<Vec<Rows>> {
        match self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => sqlite::run(&self.remains.join(FILE), statements),
            #[cfg(feature = "postgres")]
            Backend::Postgres => {
                let connect = || DirectConnection::connect(&self.url);
                self.direct.get_or_try_init(connect).await?.run(statements).await
            }
        }
    }

    async fn open(&self) -> Result<Store> {
        let store = Store::open(&self.url, POOL_SIZE)?;
        store.use_clock(ClockMode::Manual, false).await?;
        Ok(store)
    }
}

/// Connections of one temporary store's pool.
const POOL_SIZE: usize = 8;
#[cfg(feature = "sqlite")]
const FILE: &str = "punctual.db";

async fn prepare(store: &Store) -> Result<()> {
    store.migrate().await?;
    store.use_clock(ClockMode::Manual, false).await?;
    store.set_clock(TemporaryStore::START).await
}

fn fresh_name() -> String {
    format!("punctual_test_{}_{}", std::process::id(), random::hex::<6>())
}

#[cfg(feature = "sqlite")]
fn file() -> Result<TestDatabase> {
    // A test's commits need not survive a power cut: in memory they cost nothing.
    let memory = PathBuf::from("/dev/shm").join(fresh_name());
    let disk = std::env::temp_dir().join(fresh_name());
    let made = std::fs::create_dir(&memory).map(|()| memory);
    let folder = made.or_else(|_| std::fs::create_dir_all(&disk).map(|()| disk));
    let folder = folder.map_err(|e| Error::Config(format!("no temporary folder can be made: {e}")))?;
    let url = format!("sqlite:{}", folder.join(FILE).display());
    Ok(TestDatabase::at(Backend::Sqlite, url, folder))
}

/// The database that PostgreSQL stores are copied from.
#[cfg(feature = "postgres")]
const TEMPLATE: &str = "punctual_template";

/// The one cluster of this process. A static is never dropped; the cluster's own watchdog
/// ends it with the process.
#[cfg(feature = "postgres")]
static CLUSTER: tokio::sync::OnceCell<Cluster> = tokio::sync::OnceCell::const_new();

/// Databases whose stores are gone: dropped when the next one is made.
#[cfg(feature = "postgres")]
static LEFT_BEHIND: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

#[cfg(feature = "postgres")]
async fn cluster() -> Result<&'static Cluster> {
    CLUSTER
        .get_or_try_init(|| async {
            let started = Cluster::start(&ClusterOptions::fast());
            let cluster = started.map_err(|e| Error::Config(e.to_string()))?;
            let make = format!("create database {TEMPLATE} template template0");
            DirectConnection::connect(&cluster.url("postgres")).await?.run(&[make]).await?;
            prepare(&Store::open(&cluster.url(TEMPLATE), 1)?).await?;
            Ok(cluster)
        })
        .await
}

#[cfg(feature = "postgres")]
async fn database(template: &str) -> Result<TestDatabase> {
    let cluster = cluster().await?;
    let name = fresh_name();
    let mut statements: Vec<String> = left_behind().drain(..).map(drop_database).collect();
    statements.push(format!("create database {name} template {template}"));
    DirectConnection::connect(&cluster.url("postgres")).await?.run(&statements).await?;
    let url = cluster.url(&name);
    Ok(TestDatabase::at(Backend::Postgres, url, PathBuf::from(name)))
}

#[cfg(feature = "postgres")]
fn drop_database(name: String) -> String {
    format!("drop database if exists {name} with (force)")
}

#[cfg(feature = "postgres")]
fn left_behind() -> std::sync::MutexGuard<'static, Vec<String>> {
    LEFT_BEHIND.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        match self.backend {
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => {
                std::fs::remove_dir_all(&self.remains).ok();
            }
            #[cfg(feature = "postgres")]
            Backend::Postgres => left_behind().push(self.remains.display().to_string()),
        }
    }
}
