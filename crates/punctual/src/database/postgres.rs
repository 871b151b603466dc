//! PostgreSQL: with its submodules and `database/value.rs` the only part of the store that names the driver.
//!
//! A transaction runs in a task of its own: a caller that goes away neither cuts a write in half nor leaves
//! a connection inside an open transaction. `BEGIN` travels with the first statement, and so does the
//! tenant of a verb that is for one, for the policies of the tables (`database/row_security.rs`). Deadlocks
//! and serialisation failures are tried again as a whole. [`listen::Listener`] receives wake-ups on a
//! connection of its own; they are hints, and a lost connection costs time, never work.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::random;
use crate::base::rehearsal::hastened;
use crate::base::tenant::Tenant;
use crate::database::components::missing_in_postgres;
use crate::database::fault::Fault;
use crate::database::parts::Parts;
use crate::database::planted_bugs::PlantedBug;
use crate::database::postgres::connect::{at_server, connection};
use crate::database::postgres::pooled_connection::PooledConnection;
use crate::database::statement::statements;
use crate::database::tx::{Tx, VerbCall};
use crate::database::value::{Row, Value};
use deadpool_postgres::{Hook, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::try_join_all;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, NoTls};

mod cells;
mod connect;
#[cfg(feature = "testing")]
pub mod direct_connection;
pub mod listen;
mod pooled_connection;
mod role;

pub(crate) use cells::{int, ints, text};
pub(crate) use connect::is_unavailable;

/// Connections of one process when the configuration does not say.
pub const POOL_SIZE_DEFAULT: usize = 8;
/// How long a caller waits for a free connection before it gets an error.
const POOL_PATIENCE: Duration = Duration::from_secs(10);
/// A connection attempt ends after this.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// A statement that has no answer by then has lost its link, even without an error (a pooler or a proxy in
/// between may keep the connection and drop its packets). No statement of ours takes nearly as long, except
/// migrations, which wait for ever.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// The server ends a transaction of ours that is silent for so long: a client that vanished in the middle of
/// one (a host without power, a link that drops packets) must not keep its row locks.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How often a deadlocked transaction is tried as a whole.
const TRIES_MAX: usize = 5;

statements! {
    const NOW for Postgres = "
        select punctual.now_us()
    ";
}

/// A pool of connections to one database.
#[derive(Clone)]
pub struct Postgres {
    pool: Pool,
    config: Arc<Config>,
    /// The name with which this process signs its notifications, so as not to wake itself.
    name: Arc<str>,
    /// Whether tenants' verbs can change their role. Each new connection says what it may.
    wall: Arc<AtomicBool>,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("hosts", &self.config.get_hosts()).finish_non_exhaustive()
    }
}

/// A transaction on a pooled connection.
pub struct PostgresTx {
    client: PooledConnection,
    state: State,
    tenant: Option<Tenant>,
    now: Option<Timestamp>,
    /// Whether a try before this one lost against another transaction.
    pub(crate) is_rerun: bool,
    pub(crate) fault: Fault,
    pub(crate) parts: Parts,
}

impl PostgresTx {
    fn new(client: Object, state: State, tenant: Option<Tenant>) -> Self {
        Self {
            client: PooledConnection::new(client),
            state,
            tenant,
            now: None,
            is_rerun: false,
            fault: Fault::default(),
            parts: Parts::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// `BEGIN` travels with the first statement.
    Fresh,
    /// The same, without waiting for its end.
    FreshToRead,
    /// Inside a transaction.
    Begun,
    /// Inside a transaction that its connection ends when it goes back.
    BegunToRead,
    /// Each statement stands for itself.
    Alone,
    /// The commit travelled with the last statements.
    Committed,
}

impl std::fmt::Debug for PostgresTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresTx").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Prepares a pool; the first connection is made by the first statement.
    pub fn open(url: &str, pool_size: usize) -> Result<Self> {
        let mut config: Config =
            url.parse().map_err(|e| Error::Config(format!("the database URL cannot be used: {e}")))?;
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        config.connect_timeout(CONNECT_PATIENCE);
        config.keepalives_idle(Duration::from_secs(15));
        config.tcp_user_timeout(Duration::from_secs(20));
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let wall = Arc::new(AtomicBool::new(false));
        let looked = wall.clone();
        let pool = Pool::builder(Manager::from_config(config.clone(), NoTls, recycling))
            .max_size(pool_size.max(2))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(hastened(POOL_PATIENCE)))
            .create_timeout(Some(hastened(CONNECT_PATIENCE)))
            .post_create(Hook::async_fn(move |client, _| {
                let wall = looked.clone();
                Box::pin(async move { role::prepare(client, &wall).await })
            }))
            .build()
            .map_err(|e| Error::Config(format!("the connection pool cannot be made: {e}")))?;
        Ok(Self { pool, config: Arc::new(config), name: random::hex::<8>().into(), wall })
    }

    /// Runs a verb in a writing transaction, to its end even if the caller goes away.
    pub async fn write(&self, mut call: VerbCall) -> Result<VerbCall> {
        let db = self.clone();
        let task = tokio::spawn(async move { db.write_until_done(&mut call).await.map(|()| call) });
        task.await.unwrap_or_else(|e| Err(Error::Unknown(e.into()))).map_err(|e| self.named(e))
    }

    /// Runs a verb of one writing statement, which needs no transaction around it.
    pub async fn write_alone(&self, mut call: VerbCall) -> Result<VerbCall> {
        let db = self.clone();
        let task = tokio::spawn(async move {
            let result = db.alone(&mut call).await?;
            result.map(|()| call).map_err(unless_refused)
        });
        task.await.unwrap_or_else(|e| Err(Error::Unknown(e.into()))).map_err(|e| self.named(e))
    }

    /// Runs a verb that only reads. Its statements stand each for itself, but a tenant's are in a
    /// transaction, because only there can they be that tenant's.
    pub async fn read(&self, mut call: VerbCall) -> Result<VerbCall> {
        self.alone(&mut call).await?.map(|()| call).map_err(|e| self.named(e))
    }

    /// Runs a verb that locks what it reads, and writes nothing: the transaction is rolled back, since a
    /// commit would wait for the disk because of the locks.
    pub async fn read_locked(&self, mut call: VerbCall) -> Result<VerbCall> {
        let client = connection(&self.pool, &self.config).await?;
        let mut tx = Tx::Postgres(PostgresTx::new(client, State::Fresh, self.walled(call.tenant)));
        let result = call.steps(&mut tx).await;
        #[allow(irrefutable_let_patterns, reason = "refutable with the sqlite feature")]
        if let Tx::Postgres(tx) = tx {
            tx.roll_back().await;
        }
        result.map(|()| call).map_err(|e| self.named(e))
    }

    /// The error, with the name of this server.
    fn named(&self, error: Error) -> Error {
        at_server(&self.config, error)
    }

    /// Runs a verb whose statements stand each for itself. The outer error is that of one that was
    /// never begun.
    async fn alone(&self, call: &mut VerbCall) -> Result<Result<()>> {
        let client = connection(&self.pool, &self.config).await?;
        let tenant = self.walled(call.tenant);
        let state = if tenant.is_some() { State::FreshToRead } else { State::Alone };
        let mut tx = Tx::Postgres(PostgresTx::new(client, state, tenant));
        let result = call.steps(&mut tx).await;
        #[allow(irrefutable_let_patterns, reason = "refutable with the sqlite feature")]
        if let (Tx::Postgres(tx), Err(Error::Unavailable(_))) = (&mut tx, &result) {
            // An answer for which no caller waits may still arrive.
            tx.client.unclean = true;
        }
        Ok(result)
    }

    async fn write_until_done(&self, call: &mut VerbCall) -> Result<()> {
        let mut tries = 1;
        loop {
            match self.write_once(call, tries > 1).await {
                Err(e) if tries < TRIES_MAX && clashed(&e) => tries += 1,
                other => return other,
            }
        }
    }

    async fn write_once(&self, call: &mut VerbCall, is_rerun: bool) -> Result<()> {
        let client = connection(&self.pool, &self.config).await?;
        let tx = PostgresTx { is_rerun, ..PostgresTx::new(client, State::Fresh, self.walled(call.tenant)) };
        let mut tx = Tx::Postgres(tx);
        let result = call.steps(&mut tx).await;
        #[allow(irrefutable_let_patterns, reason = "refutable with the sqlite feature")]
        let Tx::Postgres(tx) = tx else { return result };
        match result {
            #[cfg(feature = "testing")]
            Ok(()) if tx.fault.fires_early() => {
                tokio::spawn(tx.commit_late());
                Ok(())
            }
            Ok(()) => tx.commit().await,
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    /// The tenant whose rows alone are to be seen, if the server can see to that.
    fn walled(&self, tenant: Option<Tenant>) -> Option<Tenant> {
        tenant.filter(|_| self.wall.load(Ordering::Relaxed))
    }

    /// Looks again whether tenants' verbs can change their role, for those who have just made it so.
    pub async fn refresh_row_security(&self) -> Result<()> {
        let client = connection(&self.pool, &self.config).await?;
        let answers = heard(client.simple_query(role::IS_READY)).await.map_err(|e| self.named(e))?;
        self.wall.store(role::says_yes(&answers), Ordering::Relaxed);
        Ok(())
    }

    /// Notifies the listeners of every process that there may be work.
    pub async fn notify(&self) -> Result<()> {
        let client = connection(&self.pool, &self.config).await?;
        let asked = heard(client.batch_execute(&format!("notify punctual, '{}'", self.name))).await;
        asked.map_err(|e| self.named(e))
    }
}

impl PostgresTx {
    async fn commit(mut self) -> Result<()> {
        if self.state != State::Begun {
            return Ok(());
        }
        heard(self.client.batch_execute("commit")).await.map_err(unless_refused)?;
        self.client.unclean = false;
        Ok(())
    }

    /// Sends statements and the commit together. If one of them fails, the server turns the
    /// commit into a rollback.
    pub async fn finish(&mut self, all: &[(&'static str, Vec<Value<'_>>)]) -> Result<Vec<Vec<Row>>> {
        self.begin().await?;
        let mut statements = Vec::with_capacity(all.len());
        for (sql, _) in all {
            statements.push(heard(self.client.prepare_cached(sql)).await?);
        }
        let values: Vec<Vec<&(dyn ToSql + Sync)>> =
            all.iter().map(|(_, row)| row.iter().map(|v| v as _).collect()).collect();
        let asked = statements.iter().zip(&values).map(|(s, v)| self.client.query(s, v));
        let last = if self.fault.has(PlantedBug::TimerFiredBeforeCommit) { "select" } else { "commit" };
        let (answers, committed) =
            tokio::join!(heard(try_join_all(asked)), heard(self.client.batch_execute(last)));
        if last == "commit" {
            self.state = State::Committed;
            self.client.unclean = committed.is_err();
        }
        let answers = answers.map_err(unless_refused)?;
        committed.map_err(unless_refused)?;
        Ok(answers.into_iter().map(|rows| rows.into_iter().map(Row::Postgres).collect()).collect())
    }

    /// A planted bug: the caller has been answered already.
    #[cfg(feature = "testing")]
    async fn commit_late(self) {
        tokio::time::sleep(super::planted_bugs::LATE).await;
        self.commit().await.ok();
    }

    /// Rolls back; a connection that cannot even do that leaves the pool.
    async fn roll_back(mut self) {
        if self.state != State::Begun {
            return;
        }
        let patience = hastened(CONNECT_PATIENCE);
        let done = tokio::time::timeout(patience, self.client.batch_execute("rollback")).await;
        self.client.unclean = !matches!(done, Ok(Ok(())));
    }

    /// The server's time, once per transaction.
    pub async fn now(&mut self) -> Result<Timestamp> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let rows = self.query(NOW, &[]).await?;
        let row = rows.first().ok_or_else(|| Error::Database("the clock gave no time".into()))?;
        let now = row.time(0)?;
        self.now = Some(now);
        Ok(now)
    }

    /// Rows of a statement.
    pub async fn query(&mut self, sql: &str, params: &[Value<'_>]) -> Result<Vec<Row>> {
        let statement = heard(self.client.prepare_cached(sql)).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|v| v as _).collect();
        let begin = self.begins();
        let asked = self.client.query(&statement, &values);
        let rows = match begin {
            Some(begin) => heard(after(self.client.batch_execute(&begin), asked)).await,
            None => heard(asked).await,
        };
        Ok(rows?.into_iter().map(Row::Postgres).collect())
    }

    /// Runs a statement.
    pub async fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64> {
        let statement = heard(self.client.prepare_cached(sql)).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|v| v as _).collect();
        let begin = self.begins();
        let asked = self.client.execute(&statement, &values);
        match begin {
            Some(begin) => heard(after(self.client.batch_execute(&begin), asked)).await,
            None => heard(asked).await,
        }
    }

    /// All statements are sent before the first answer is awaited.
    pub async fn each(&mut self, sql: &str, rows: &[Vec<Value<'_>>]) -> Result<Vec<Vec<Row>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.begin().await?;
        let statement = heard(self.client.prepare_cached(sql)).await?;
        let mut answers = Vec::with_capacity(rows.len());
        for flight in rows.chunks(FLIGHT_STATEMENTS) {
            answers.extend(self.fly(&statement, flight).await?);
        }
        Ok(answers)
    }

    async fn fly(
        &self,
        statement: &tokio_postgres::Statement,
        flight: &[Vec<Value<'_>>],
    ) -> Result<Vec<Vec<Row>>> {
        let values: Vec<Vec<&(dyn ToSql + Sync)>> =
            flight.iter().map(|row| row.iter().map(|v| v as _).collect()).collect();
        let asked = values.iter().map(|v| self.client.query(statement, v));
        let answers = heard(try_join_all(asked)).await?;
        Ok(answers.into_iter().map(|rows| rows.into_iter().map(Row::Postgres).collect()).collect())
    }

    async fn begin(&mut self) -> Result<()> {
        if let Some(begin) = self.begins() {
            heard(self.client.batch_execute(&begin)).await?;
        }
        Ok(())
    }

    /// Returns the statement that begins the transaction, if it must be begun now. From then on its
    /// connection is not clean.
    fn begins(&mut self) -> Option<Cow<'static, str>> {
        match self.state {
            State::Fresh => {
                self.state = State::Begun;
                self.client.unclean = true;
            }
            State::FreshToRead => {
                self.state = State::BegunToRead;
                self.client.reads = true;
            }
            _ => return None,
        }
        let Some(tenant) = self.tenant else { return Some(Cow::Borrowed("begin")) };
        let role = "set local role punctual_tenant";
        Some(Cow::Owned(format!("begin; {role}; set local punctual.tenant = '{tenant}'")))
    }

    /// Runs a script of several statements, for migrations.
    pub async fn script(&mut self, sql: &str) -> Result<()> {
        self.begin().await?;
        self.client.batch_execute(sql).await.map_err(trouble)
    }
}

/// Statements in flight at once: bounds what the server must buffer.
const FLIGHT_STATEMENTS: usize = 256;

/// Whether the transaction lost against another one and may simply be tried again: by a deadlock, a failed
/// serialization, a row that another wrote first ([`Tx::is_rerun`]), or an object that is not there yet. A
/// role belongs to all databases of a server: while one makes ours, another's `grant` may not see it.
fn clashed(e: &Error) -> bool {
    let Error::Database(source) = e else { return false };
    let code = source.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    code.is_some_and(|code| ["40P01", "40001", "23505", "42704"].contains(&code.code()))
}

/// A commit, or a statement that is its own, whose answer was lost may have happened. So may one when the
/// server was shut down meanwhile: the server can report the shutdown after it has committed.
pub(crate) fn unless_refused(e: Error) -> Error {
    let Error::Unavailable(source) = e else { return e };
    let said = source.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    let refused = said.is_some_and(|code| !code.code().starts_with("08") && !code.code().starts_with("57P"));
    if refused { Error::Unavailable(source) } else { Error::Unknown(source) }
}

/// Awaits an answer, but not for ever.
async fn heard<T>(asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
    match tokio::time::timeout(hastened(ANSWER_PATIENCE), asked).await {
        Ok(answer) => answer.map_err(trouble),
        Err(_) => Err(Error::Unavailable("the server did not answer, so its connection was given up".into())),
    }
}

/// Two questions in one flight; the second one's answer counts if the first went well.
async fn after<T>(
    first: impl Future<Output = Result<(), tokio_postgres::Error>>,
    second: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    let (first, second) = tokio::join!(first, second);
    first.and(second)
}

pub(crate) fn trouble(e: tokio_postgres::Error) -> Error {
    if e.code() == Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE) {
        return Error::invalid("", "a text holds the character NUL, which nothing here can");
    }
    let Some(db) = e.as_db_error() else { return Error::Unavailable(e.into()) };
    match missing_in_postgres(db.code().code(), db.message()) {
        Some(missing) => missing,
        None if is_unavailable(db.code().code()) => Error::Unavailable(e.into()),
        None => Error::Database(e.into()),
    }
}
