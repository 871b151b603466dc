//! SQLite: the only file of the store that names rusqlite.
//!
//! One writer thread owns the writing connection and serves its callers in groups (see
//! `threads.rs`), so many of them share one flush to disk (`synchronous=FULL`: an answered commit
//! survives power loss). Readers have connections of their own.
//!
//! Other connections to the same file, also in other processes, are allowed for; a busy
//! database is waited for here and reaches a caller only after [`BUSY_PATIENCE`].

use crate::base::clock::{Timestamp, host_now, monotonic};
use crate::base::error::{Error, Result};
use crate::database::components::missing_in_sqlite;
use crate::database::dialect::for_sqlite;
use crate::database::fault::Fault;
use crate::database::parts::Parts;
use crate::database::sqlite::threads::{Mode, WriterRequest, ask, ended_transaction, is_busy, thread};
use crate::database::statement::statements;
use crate::database::tx::VerbCall;
use crate::database::value::{Cell, Row, Value};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSql, ToSqlOutput, Value as Owned, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[cfg(feature = "testing")]
pub mod direct;
#[cfg(feature = "testing")]
pub mod simulated;
pub(crate) mod threads;

/// How long a caller waits for another connection's lock before it gets an error.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two tries for another connection's lock, at first and after [`LOCK_EAGER_TRIES`].
const LOCK_EAGER_INTERVAL: Duration = Duration::from_micros(50);
const LOCK_INTERVAL: Duration = Duration::from_millis(1);
const LOCK_EAGER_TRIES: i32 = 2_000;
/// Tries for a lock within one statement. They take about five seconds.
const LOCK_TRIES: i32 = 7_000;
/// Statements kept prepared per connection.
const STATEMENTS_CACHED: usize = 256;
/// Reading connections beside the writer.
const READERS: usize = 2;
/// The oldest SQLite without the WAL corruption bug.
const VERSION_MIN: i32 = 3_051_003;

statements! {
    const MANUAL_NOW = "
        select now_us
        from punctual.clock
        where id = 1
    ";
}

/// An open SQLite database.
#[derive(Clone, Debug)]
pub struct Sqlite {
    writer: mpsc::Sender<Box<dyn WriterRequest>>,
    reader: mpsc::Sender<Box<dyn WriterRequest>>,
    manual: Arc<AtomicBool>,
    path: Option<PathBuf>,
}

/// A transaction on one of the threads.
#[derive(Debug)]
pub struct SqliteTx {
    connection: Connection,
    words: HashMap<&'static str, String>,
    manual: Arc<AtomicBool>,
    now: Option<Timestamp>,
    pub(crate) fault: Fault,
    pub(crate) parts: Parts,
}

impl Sqlite {
    /// Opens or creates the database at `path`; `None` is a database in memory.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        if rusqlite::version_number() < VERSION_MIN {
            return Err(Error::Config(format!(
                "SQLite {} is linked, but versions before 3.51.3 can corrupt a WAL database; \
                 build with the bundled SQLite",
                rusqlite::version()
            )));
        }
        let manual = Arc::new(AtomicBool::new(false));
        let writer = thread("punctual-writer", vec![connect(path, false, &manual)?], Mode::Write)?;
        let reader = match path {
            None => writer.clone(),
            Some(_) => {
                let all: Result<Vec<_>> = (0..READERS).map(|_| connect(path, true, &manual)).collect();
                thread("punctual-reader", all?, Mode::Read)?
            }
        };
        Ok(Self { writer, reader, manual, path: path.map(Path::to_owned) })
    }

    /// The file, unless the database is in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// From now on time is what the database's clock row says.
    pub fn use_manual_clock(&self, yes: bool) {
        self.manual.store(yes, Ordering::SeqCst);
    }

    /// Runs a verb in a writing transaction.
    pub async fn write(&self, call: VerbCall) -> Result<VerbCall> {
        ask(&self.writer, call, Error::Unknown).await
    }

    /// Has the writer answer this request itself; returns whether it can.
    pub(crate) fn hand_to_writer(&self, request: Box<dyn WriterRequest>) -> bool {
        self.writer.send(request).is_ok()
    }

    /// Runs a verb in a reading transaction.
    pub async fn read(&self, call: VerbCall) -> Result<VerbCall> {
        ask(&self.reader, call, Error::Unavailable).await
    }
}

pub(crate) fn trouble(e: rusqlite::Error) -> Error {
    match e.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory,
        ) => Error::Unavailable(e.into()),
        _ => missing_in_sqlite(&e.to_string()).unwrap_or_else(|| Error::Database(e.into())),
    }
}

fn connect(path: Option<&Path>, read_only: bool, manual: &Arc<AtomicBool>) -> Result<SqliteTx> {
    let connection = match path {
        None => Connection::open_in_memory(),
        Some(path) => {
            let how = if read_only {
                OpenFlags::SQLITE_OPEN_READ_ONLY
            } else {
                create_private(path);
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
            };
            Connection::open_with_flags(path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        }
    };
    let connection = connection.map_err(|e| cannot_open(path, &e))?;
    settle_in(&connection, read_only).map_err(|e| cannot_open(path, &e))?;
    let manual = Arc::clone(manual);
    Ok(SqliteTx {
        connection,
        words: HashMap::new(),
        manual,
        now: None,
        fault: Fault::default(),
        parts: Parts::default(),
    })
}

/// A WAL that grew beyond this because of a long reader is cut back after its checkpoint. Otherwise it would
/// keep its size until the last process closes the file.
const WAL_BYTES_KEPT: i64 = 64 << 20;

/// Creates a missing database file that only its owner may read; SQLite gives its journals the same mode.
/// SQLite reports the error if the file cannot be made, and an existing file keeps its mode.
fn create_private(path: &Path) {
    let mut how = std::fs::OpenOptions::new();
    how.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut how, 0o600);
    let _ = how.open(path);
}

/// Waits for another connection's lock. SQLite's own handler waits up to 100 ms between two tries, and a busy
/// writer in another process leaves the lock only for a moment between two transactions: many tries would
/// miss that moment.
fn wait_for_lock(tries: i32) -> bool {
    std::thread::park_timeout(if tries < LOCK_EAGER_TRIES { LOCK_EAGER_INTERVAL } else { LOCK_INTERVAL });
    tries < LOCK_TRIES
}

fn settle_in(connection: &Connection, read_only: bool) -> rusqlite::Result<()> {
    rusqlite::vtab::array::load_module(connection)?;
    connection.busy_handler(Some(wait_for_lock))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.pragma_update(None, "cache_size", -16_000)?;
    // One plan for all parameters. Else partial indexes make SQLite compile a statement anew
    // whenever its parameters change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if read_only {
        return Ok(());
    }
    use_wal(connection)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A larger WAL between checkpoints: fewer flushes of the main file under load.
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)
}

/// The first to open a new file changes its journal mode, alone. A connection that comes at the same moment
/// gets the error that the file is locked, without a wait, so this waits.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let start = monotonic();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            Err(e) if is_busy(&e) && start.elapsed() < BUSY_PATIENCE => {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

fn cannot_open(path: Option<&Path>, e: &rusqlite::Error) -> Error {
    let name = path.map_or_else(|| ":memory:".to_owned(), |p| p.display().to_string());
    Error::Config(format!("cannot open the SQLite database {name}: {e}"))
}

impl SqliteTx {
    /// The host's time, or the manual clock's, once per transaction.
    pub fn now(&mut self) -> Result<Timestamp> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let now = if self.manual.load(Ordering::SeqCst) {
            let rows = self.query(MANUAL_NOW, &[])?;
            rows.first().map_or_else(|| Ok(host_now()), |row| row.time(0))?
        } else {
            host_now()
        };
        self.now = Some(now);
        Ok(now)
    }

    /// Rows of a statement.
    pub fn query(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<Vec<Row>> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, params).map_err(trouble)?;
        read_rows(&mut statement).map_err(trouble)
    }

    /// Runs a statement.
    pub fn execute(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<u64> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, params).map_err(trouble)?;
        statement.raw_execute().map(|n| n as u64).map_err(trouble)
    }

    /// Runs one prepared statement for many rows.
    pub fn each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<Vec<Vec<Row>>> {
        let mut statement = self.prepare(sql)?;
        let mut all = Vec::with_capacity(rows.len());
        for params in rows {
            bind(&mut statement, params).map_err(trouble)?;
            all.push(read_rows(&mut statement).map_err(trouble)?);
        }
        Ok(all)
    }

    /// Prepares a statement of the open transaction. SQLite itself rolls a transaction back when the disk
    /// is full or cannot be read; a statement after that would be a transaction of its own, and commit.
    fn prepare(&mut self, sql: &'static str) -> Result<rusqlite::CachedStatement<'_>> {
        if self.connection.is_autocommit() {
            return Err(ended_transaction());
        }
        let text = self.words.entry(sql).or_insert_with(|| for_sqlite(sql));
        self.connection.prepare_cached(text).map_err(trouble)
    }

    /// The id that the last insert gave.
    pub fn last_id(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// Runs a script of several statements, for migrations.
    pub fn script(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(trouble)
    }
}

fn bind(statement: &mut rusqlite::CachedStatement<'_>, params: &[Value<'_>]) -> rusqlite::Result<()> {
    for (n, value) in params.iter().enumerate() {
        match value {
            Value::Null => statement.raw_bind_parameter(n + 1, rusqlite::types::Null)?,
            Value::Int(v) => statement.raw_bind_parameter(n + 1, v)?,
            Value::Text(v) => statement.raw_bind_parameter(n + 1, v)?,
            Value::Ints(v) => statement.raw_bind_parameter(n + 1, list(v.iter().map(|n| Some(*n))))?,
            Value::MaybeInts(v) => statement.raw_bind_parameter(n + 1, list(v.iter().copied()))?,
            Value::Texts(v) => {
                statement.raw_bind_parameter(n + 1, list(v.iter().map(|t| t.map(str::to_owned))))?;
            }
        }
    }
    Ok(())
}

/// A list is bound as a table of its own, which statements read as `rarray(?1)`.
fn list<T: Into<Owned>>(values: impl Iterator<Item = Option<T>>) -> BoundList {
    BoundList(RefCell::new(values.map(|v| v.map_or(Owned::Null, Into::into)).collect()))
}

/// A list to be bound once. The list type of rusqlite 0.39 is never freed: its destructor does not know what
/// it frees, and drops nothing. The destructor of a box does, and the table reads the same vector.
struct BoundList(RefCell<Vec<Owned>>);

impl ToSql for BoundList {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::new_boxed(self.0.take(), c"rarray"))
    }
}

fn read_rows(statement: &mut rusqlite::CachedStatement<'_>) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let mut cells = Vec::with_capacity(columns);
        for n in 0..columns {
            cells.push(cell(row.get_ref(n)?));
        }
        all.push(Row::Cells(cells));
    }
    Ok(all)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(v) => Cell::Int(v),
        #[allow(clippy::cast_possible_truncation, reason = "no column of ours holds a fraction")]
        ValueRef::Real(v) => Cell::Int(v as i64),
        ValueRef::Text(v) | ValueRef::Blob(v) => Cell::Text(match std::str::from_utf8(v) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(v).into_owned(),
        }),
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::expect_used, reason = "test code")]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
    }

    /// PRD-14: lists that were bound are freed; 100 lists of 8 MiB would be 800.
    #[test]
    fn prd_14_a_bound_list_is_freed() {
        let mut tx = connect(None, false, &Arc::default()).expect("it opens");
        tx.script("begin").expect("it begins");
        let text = "x".repeat(1024 * 1024);
        let texts = [Some(text.as_str()); 8];
        let before = resident_kib();
        for _ in 0..100 {
            let sql = "select count(*) from rarray($1) where length(value) > 5";
            let rows = tx.query(sql, &[Value::Texts(&texts)]).expect("it reads");
            assert_eq!(rows[0].int(0).expect("a number"), 8);
        }
        let grown = resident_kib().saturating_sub(before) / 1024;
        assert!(grown < 200, "100 lists took {grown} MiB, and nobody needs them any more");
    }

    /// Some milliseconds with the lock.
    const LONG_TRANSACTION: &str = "begin immediate;
        with recursive many(n) as (select 1 union all select n + 1 from many where n < 5000)
        insert into seen select n from many;
        delete from seen;
        commit";

    /// Times that a connection takes the lock, in transactions that a busy connection commits meanwhile.
    fn turns_of_the_busy_one(path: &Path, rounds: usize) -> Vec<usize> {
        let (over, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
        let patient = connect(Some(path), false, &Arc::default()).expect("it opens");
        let mut waits = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let busy = connect(Some(path), false, &Arc::default()).expect("it opens").connection;
                while !over.load(Ordering::Relaxed) {
                    busy.execute_batch(LONG_TRANSACTION).expect("it writes");
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..rounds {
                let before = turns.load(Ordering::Relaxed);
                while turns.load(Ordering::Relaxed) < before + 3 {
                    std::thread::yield_now();
                }
                let before = turns.load(Ordering::Relaxed);
                patient.script("begin immediate").expect("it gets the lock");
                waits.push(turns.load(Ordering::Relaxed) - before);
                patient.script("commit").expect("it commits");
            }
            over.store(true, Ordering::Relaxed);
        });
        waits
    }

    /// PLT-9: a second process writes to a file beside one that never pauses between two transactions. With
    /// SQLite's own handler such a wait lasts for thousands of them, and ends with "database is locked".
    #[test]
    fn plt_9_a_busy_writer_does_not_keep_the_lock_from_other_connections() {
        let folder = std::env::temp_dir().join(format!("punctual-busy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("busy.db");
        let tx = connect(Some(&path), false, &Arc::default()).expect("it opens");
        tx.script("create table seen (n integer)").expect("it creates");
        let mut waits = turns_of_the_busy_one(&path, 31);
        std::fs::remove_dir_all(&folder).expect("the folder goes");
        waits.sort_unstable();
        assert!(waits[15] < 200, "the lock was taken after so many transactions of the other: {waits:?}");
    }
}
