//! SQLite: the only file of the store that names rusqlite.
//!
//! One writer thread owns the writing connection. It takes all requests that wait, runs
//! them in one `BEGIN IMMEDIATE … COMMIT` and answers them after the commit, so many
//! callers share one flush to disk (`synchronous=FULL`: an answered commit survives power
//! loss). Requests of a group are independent: when one fails, the group is rolled back
//! and run again with a savepoint around each. Readers have connections of their own.
//!
//! Other connections to the same file, also in other processes, are allowed for; a busy
//! database is waited for here and reaches a caller only after [`BUSY_PATIENCE`].

use super::dialect::for_sqlite;
use super::fault::Fault;
use super::planted::Bug;
use super::tx::{Call, Steps, Tx};
use super::value::{Cell, Row, Value};
use crate::base::clock::{Timestamp, host_now, monotonic};
use crate::base::error::{Error, Result};
use rusqlite::types::{Value as Owned, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;

#[cfg(feature = "testing")]
pub mod direct;
#[cfg(feature = "testing")]
pub mod simulated;

/// How long another connection's lock is waited for before a caller hears of it.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(30);
/// Requests that share one commit at most: bounds the memory and the wait of one group.
const GROUP_REQUESTS_MAX: usize = 512;
/// How long a busy writer waits for company (the timer makes of it what it can).
const COMPANY_PAUSE: Duration = Duration::from_micros(1);
/// Statements kept prepared per connection.
const STATEMENTS_CACHED: usize = 256;
/// Reading connections beside the writer.
const READERS: usize = 2;
/// The oldest SQLite without the WAL corruption bug.
const VERSION_MIN: i32 = 3_051_003;

/// An open SQLite database.
#[derive(Clone, Debug)]
pub struct Sqlite {
    writer: mpsc::Sender<Box<dyn Request>>,
    reader: mpsc::Sender<Box<dyn Request>>,
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
    pub(super) fault: Fault,
}

/// Something to run in a transaction and to answer afterwards.
trait Request: Send {
    fn run(&mut self, tx: &mut Tx) -> bool;
    fn answer(self: Box<Self>, trouble: Option<Error>);
    fn has(&self, bug: Bug) -> bool;
}

struct Asked<R, T> {
    call: Call<R, T>,
    result: Option<Result<T>>,
    reply: Option<oneshot::Sender<Result<T>>>,
}

impl<R, T> Asked<R, T> {
    /// A planted bug: nothing has committed yet.
    fn answer_now(&mut self) {
        if let (Some(reply), Some(result)) = (self.reply.take(), self.result.take()) {
            let _ = reply.send(result);
        }
    }
}

impl<R: Send, T: Send> Request for Asked<R, T> {
    fn run(&mut self, tx: &mut Tx) -> bool {
        // A verb that panics must not take the thread, and with it every other caller, along.
        let steps = AssertUnwindSafe(|| finish(self.call.steps(tx)));
        let result = catch_unwind(steps).unwrap_or_else(|_| Err(Error::Database("a verb panicked".into())));
        let fine = result.is_ok();
        self.result = Some(result);
        if tx.fault().fires_early() {
            self.answer_now();
        }
        fine
    }

    fn answer(self: Box<Self>, trouble: Option<Error>) {
        let result = match (trouble, self.result) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(result)) => result,
            (None, None) => Err(Error::Unavailable("the request was not run".into())),
        };
        // A caller that went away does not want the answer; its write stands.
        let _ = self.reply.map(|reply| reply.send(result));
    }

    fn has(&self, bug: Bug) -> bool {
        self.call.has(bug)
    }
}

/// Polls steps that never wait.
fn finish<T>(steps: Steps<'_, T>) -> Result<T> {
    match pin!(steps).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::Database("a verb waited for something else than its database".into())),
    }
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
    pub async fn write<R: Send + 'static, T: Send + 'static>(&self, call: Call<R, T>) -> Result<T> {
        ask(&self.writer, call).await
    }

    /// Runs a verb in a reading transaction.
    pub async fn read<R: Send + 'static, T: Send + 'static>(&self, call: Call<R, T>) -> Result<T> {
        ask(&self.reader, call).await
    }
}

async fn ask<R, T>(thread: &mpsc::Sender<Box<dyn Request>>, call: Call<R, T>) -> Result<T>
where
    R: Send + 'static,
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let gone = || Error::Unavailable("the database thread has stopped".into());
    thread.send(Box::new(Asked { call, result: None, reply: Some(reply) })).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

type Queue = Mutex<mpsc::Receiver<Box<dyn Request>>>;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Write,
    Read,
}

/// One thread per connection, all fed by one channel.
fn thread(name: &str, transactions: Vec<SqliteTx>, mode: Mode) -> Result<mpsc::Sender<Box<dyn Request>>> {
    let (sender, receiver) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    for tx in transactions {
        let receiver = Arc::clone(&receiver);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(Tx::Sqlite(tx), &receiver, mode))
            .map_err(|e| Error::Unavailable(e.into()))?;
    }
    Ok(sender)
}

#[allow(irrefutable_let_patterns, reason = "refutable with the postgres feature")]
fn serve(mut tx: Tx, receiver: &Queue, mode: Mode) {
    let mut last_group = 1;
    loop {
        let Some(group) = next_group(receiver, mode, last_group) else { return };
        last_group = group.len();
        let Tx::Sqlite(inner) = &mut tx else { return };
        inner.now = None;
        let deferred = group.iter().any(|request| request.has(Bug::DeferredBegin));
        let begin = if mode == Mode::Write && !deferred { "begin immediate" } else { "begin deferred" };
        serve_group(&mut tx, group, begin);
    }
}

/// Takes all that waits. When there was company last time, it waits a moment first: the
/// callers just answered are about to ask again, and would else form every other group.
fn next_group(receiver: &Queue, mode: Mode, last_group: usize) -> Option<Vec<Box<dyn Request>>> {
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let mut group = vec![receiver.recv().ok()?];
    if mode == Mode::Read {
        return Some(group);
    }
    take_waiting(&receiver, &mut group);
    if last_group > 1 || group.len() > 1 {
        std::thread::park_timeout(COMPANY_PAUSE);
        take_waiting(&receiver, &mut group);
    }
    Some(group)
}

fn take_waiting(receiver: &mpsc::Receiver<Box<dyn Request>>, group: &mut Vec<Box<dyn Request>>) {
    while group.len() < GROUP_REQUESTS_MAX {
        match receiver.try_recv() {
            Ok(request) => group.push(request),
            Err(_) => break,
        }
    }
}

fn serve_group(tx: &mut Tx, mut group: Vec<Box<dyn Request>>, begin: &str) {
    let trouble = match together(tx, &mut group, begin) {
        Ok(true) => return group.into_iter().for_each(|r| r.answer(None)),
        Ok(false) => one_by_one(tx, &mut group, begin).err(),
        Err(trouble) => Some(trouble),
    };
    let Some(trouble) = trouble else {
        return group.into_iter().for_each(|r| r.answer(None));
    };
    say(tx, "rollback").ok();
    let text = trouble.to_string();
    group.into_iter().for_each(|r| r.answer(Some(Error::Unavailable(text.clone().into()))));
}

/// All requests in one transaction; false (and rolled back) if one of them failed.
fn together(tx: &mut Tx, group: &mut [Box<dyn Request>], begin: &str) -> Result<bool> {
    say(tx, begin)?;
    if group.iter_mut().all(|request| request.run(tx)) {
        say(tx, "commit")?;
        return Ok(true);
    }
    say(tx, "rollback")?;
    Ok(false)
}

/// The same with a savepoint around each, so that the failing ones leave nothing.
fn one_by_one(tx: &mut Tx, group: &mut [Box<dyn Request>], begin: &str) -> Result<()> {
    say(tx, begin)?;
    for request in group {
        say(tx, "savepoint request")?;
        if !request.run(tx) {
            say(tx, "rollback to request")?;
        }
        say(tx, "release request")?;
    }
    say(tx, "commit")
}

/// A word of transaction control, said again while another connection is busy.
#[allow(irrefutable_let_patterns, reason = "refutable with the postgres feature")]
fn say(tx: &mut Tx, word: &str) -> Result<()> {
    let Tx::Sqlite(tx) = tx else { return Ok(()) };
    let start = monotonic();
    loop {
        let result = tx.connection.prepare_cached(word).and_then(|mut s| s.raw_execute());
        match result {
            Err(e) if is_busy(&e) && start.elapsed() < BUSY_PATIENCE => {}
            other => return other.map(drop).map_err(trouble),
        }
    }
}

fn is_busy(e: &rusqlite::Error) -> bool {
    matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
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
        _ => Error::Database(e.into()),
    }
}

fn connect(path: Option<&Path>, read_only: bool, manual: &Arc<AtomicBool>) -> Result<SqliteTx> {
    let connection = match path {
        None => Connection::open_in_memory(),
        Some(path) => {
            let how = if read_only {
                OpenFlags::SQLITE_OPEN_READ_ONLY
            } else {
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
            };
            Connection::open_with_flags(path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        }
    };
    let connection = connection.map_err(|e| cannot_open(path, &e))?;
    settle_in(&connection, read_only).map_err(|e| cannot_open(path, &e))?;
    let manual = Arc::clone(manual);
    Ok(SqliteTx { connection, words: HashMap::new(), manual, now: None, fault: Fault::default() })
}

fn settle_in(connection: &Connection, read_only: bool) -> rusqlite::Result<()> {
    rusqlite::vtab::array::load_module(connection)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.pragma_update(None, "cache_size", -16_000)?;
    if read_only {
        return Ok(());
    }
    use_wal(connection)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A larger WAL between checkpoints: fewer flushes of the main file under load.
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)
}

/// The first to open a new file changes its journal mode, alone. Who comes at the same
/// moment is told that the file is locked without being made to wait, so this waits.
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
            let rows = self.query("select now_us from punctual.clock where id = 1", &[])?;
            rows.first().map_or_else(|| Ok(host_now()), |row| row.time(0))?
        } else {
            host_now()
        };
        self.now = Some(now);
        Ok(now)
    }

    /// Rows of a statement.
    pub fn query(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<Vec<Row>> {
        let mut statement = prepare(&self.connection, &mut self.words, sql).map_err(trouble)?;
        bind(&mut statement, params).map_err(trouble)?;
        read_rows(&mut statement).map_err(trouble)
    }

    /// Runs a statement.
    pub fn execute(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<u64> {
        let mut statement = prepare(&self.connection, &mut self.words, sql).map_err(trouble)?;
        bind(&mut statement, params).map_err(trouble)?;
        statement.raw_execute().map(|n| n as u64).map_err(trouble)
    }

    /// Runs one prepared statement for many rows.
    pub fn each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<Vec<Vec<Row>>> {
        let mut statement = prepare(&self.connection, &mut self.words, sql).map_err(trouble)?;
        let mut all = Vec::with_capacity(rows.len());
        for params in rows {
            bind(&mut statement, params).map_err(trouble)?;
            all.push(read_rows(&mut statement).map_err(trouble)?);
        }
        Ok(all)
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

fn prepare<'c>(
    connection: &'c Connection,
    words: &mut HashMap<&'static str, String>,
    sql: &'static str,
) -> rusqlite::Result<rusqlite::CachedStatement<'c>> {
    connection.prepare_cached(words.entry(sql).or_insert_with(|| for_sqlite(sql)))
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
fn list<T: Into<Owned>>(values: impl Iterator<Item = Option<T>>) -> Rc<Vec<Owned>> {
    Rc::new(values.map(|v| v.map_or(Owned::Null, Into::into)).collect())
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
