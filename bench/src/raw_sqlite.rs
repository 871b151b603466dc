//! Hand-written SQL on SQLite through rusqlite, with the durability Punctual has there: WAL and
//! `synchronous=FULL`, so that an answered commit survives a power cut.
//!
//! The rows are those of the shape in `raw_postgres` that Punctual uses: message, work, one claim row
//! per batch. Statements are prepared and run per row inside transactions of a batch; there is one
//! connection, and nothing else writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::contender::{Contender, Step, payload, payloads};

const TABLES: &str = "
    create table message (
        id integer primary key, tenant integer not null, topic text not null, kind text not null,
        key text, occurred_at integer not null, payload text not null);
    create table work (
        message_id integer not null, lane integer not null, due_at integer not null,
        attempts integer not null default 0);
    create index work_due on work (lane, due_at);
    create table claim (
        id integer primary key, owner integer not null, lease_until integer not null,
        items text not null);";

const MESSAGE: &str = "
    insert into message (tenant, topic, kind, occurred_at, payload)
    values (1, 'orders', 'order.created', ?1, ?2)";
const WORK: &str = "insert into work (message_id, lane, due_at) values (?1, 7, ?2)";
const DUE: &str = "
    select w.rowid, m.id, m.payload from work w join message m on m.id = w.message_id
    where w.lane = 7 and w.due_at <= ?1 order by w.due_at limit ?2";
const TAKE: &str = "delete from work where rowid = ?1";
const HOLD: &str = "insert into claim (owner, lease_until, items) values (1, ?1, ?2)";
const ACK: &str = "delete from claim where id = ?1 and owner = 1";

/// Any moment will do; nothing here waits for one.
const NOW: i64 = 1_700_000_000_000_000;

/// The shape on a file.
#[derive(Debug)]
pub struct RawSqlite {
    file: PathBuf,
    batch: usize,
}

impl RawSqlite {
    /// Keeps its queue in `file`, which is made anew for each round.
    #[must_use]
    pub fn new(file: PathBuf, batch: usize) -> Self {
        Self { file, batch }
    }

    /// Enqueues `n` messages, each in a commit of its own.
    pub async fn enqueue_singly(&self, n: usize) -> Result<Duration> {
        self.blocking(move |connection, _| {
            let start = Instant::now();
            for i in 0..n {
                insert(connection, &[payload(i)])?;
            }
            Ok(start.elapsed())
        })
        .await
    }

    /// Runs `work` on a thread that may block, with a connection and the batch size.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, usize) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (file, batch) = (self.file.clone(), self.batch);
        tokio::task::spawn_blocking(move || work(&mut open(&file)?, batch)).await?
    }
}

impl Contender for RawSqlite {
    fn name(&self) -> &'static str {
        "rusqlite by hand"
    }

    fn prepare(&self) -> Step<'_, ()> {
        Box::pin(async {
            remove(&self.file);
            self.blocking(|connection, _| Ok(connection.execute_batch(TABLES)?)).await
        })
    }

    fn enqueue(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.blocking(move |connection, batch| {
            let payloads = payloads(n);
            let start = Instant::now();
            for batch in payloads.chunks(batch) {
                insert(connection, batch)?;
            }
            Ok(start.elapsed())
        }))
    }

    fn settle(&self) -> Step<'_, ()> {
        Box::pin(settle(&self.file))
    }

    fn drain(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.blocking(move |connection, batch| {
            let start = Instant::now();
            let mut drained = 0;
            while let Some(count) = claim_and_ack(connection, batch)? {
                drained += count;
            }
            let took = start.elapsed();
            ensure!(drained == n, "{drained} of {n} were drained");
            Ok(took)
        }))
    }
}

/// Moves the write-ahead log of `file` into it and refreshes statistics, from outside.
pub async fn settle(file: &Path) -> Result<()> {
    let file = file.to_owned();
    let work = move || -> Result<()> {
        Ok(open(&file)?.execute_batch("pragma optimize; pragma wal_checkpoint(truncate);")?)
    };
    tokio::task::spawn_blocking(work).await?
}

/// Waits until the disk has nothing left to do of what was written and removed before, so that
/// nobody's flushes wait for somebody else's.
pub async fn calm_disk() -> Result<()> {
    let sync = || std::process::Command::new("sync").status();
    ensure!(tokio::task::spawn_blocking(sync).await??.success(), "`sync` failed");
    Ok(())
}

/// Removes a database with its companions.
pub fn remove(file: &Path) {
    for companion in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(companion);
        fs::remove_file(name).ok();
    }
}

fn open(file: &Path) -> Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}

/// One transaction with a message and its work for each payload.
fn insert(connection: &mut Connection, payloads: &[String]) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut message = transaction.prepare_cached(MESSAGE)?;
        let mut work = transaction.prepare_cached(WORK)?;
        for payload in payloads {
            let id = message.insert(params![NOW, payload])?;
            work.execute(params![id, NOW])?;
        }
    }
    Ok(transaction.commit()?)
}

/// A claim and its acknowledgement, two transactions; `None` when nothing was due.
fn claim_and_ack(connection: &mut Connection, batch: usize) -> Result<Option<usize>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let ids = take(&transaction, batch)?;
    if ids.is_empty() {
        return Ok(None);
    }
    let items = serde_json::to_string(&ids)?;
    let claim = transaction.prepare_cached(HOLD)?.insert(params![NOW + 30_000_000, items])?;
    transaction.commit()?;
    let gone = connection.prepare_cached(ACK)?.execute(params![claim])?;
    ensure!(gone == 1, "a claim was lost");
    Ok(Some(ids.len()))
}

fn take(connection: &Connection, batch: usize) -> Result<Vec<i64>> {
    let mut due = connection.prepare_cached(DUE)?;
    let mut rows = due.query(params![NOW, i64::try_from(batch)?])?;
    let (mut places, mut ids) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
    while let Some(row) = rows.next()? {
        ensure!(row.get::<_, String>(2)?.len() > 100, "a payload is missing");
        places.push(row.get::<_, i64>(0)?);
        ids.push(row.get::<_, i64>(1)?);
    }
    let mut take = connection.prepare_cached(TAKE)?;
    for place in places {
        take.execute(params![place])?;
    }
    Ok(ids)
}
