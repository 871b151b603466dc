//! The cost of being idle: a `punctual serve` that nobody asks for anything, on an empty database.
//!
//! Queries are counted as the server counts transactions of that database, which includes a few of
//! its own housekeeping; resident memory is read from the system at the end. Not measured: processor
//! time, and what an idle process costs that had been busy before.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::database::Database;
use crate::machine::resident;

/// Until then the start's own queries have been counted by the server.
const CALM: Duration = Duration::from_secs(15);
const READY_LIMIT: Duration = Duration::from_secs(30);

/// What an idle process costs.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// Transactions per second.
    pub queries: f64,
    /// Resident memory in megabytes (of 2^20 bytes).
    pub memory: f64,
}

/// Serves an empty database with the program `punctual` for `time` and a while before.
pub async fn idle(punctual: &Path, database: &Database, time: Duration) -> Result<Idle> {
    database.recreate().await?;
    let mut server = serve(punctual, &database.url()).await?;
    tokio::time::sleep(CALM).await;
    let before = database.transactions().await?;
    tokio::time::sleep(time).await;
    let count = database.transactions().await? - before;
    let process = server.id().context("the server has ended")?;
    let memory = resident(process).context("the server's memory cannot be read")?;
    server.kill().await?;
    let (count, memory) = (count as f64, memory as f64);
    Ok(Idle { queries: count / time.as_secs_f64(), memory: memory / f64::from(1 << 20) })
}

/// Starts the server and waits for the line it prints when it is ready.
async fn serve(punctual: &Path, url: &str) -> Result<Child> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let mut server = Command::new(punctual)
        .args(["serve", "--database", url, "--listen", &address])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting {}", punctual.display()))?;
    let output = server.stdout.take().context("the server has no output")?;
    let mut lines = BufReader::new(output).lines();
    let line = tokio::time::timeout(READY_LIMIT, lines.next_line()).await;
    line.context("the server did not become ready")??.context("the server ended at once")?;
    // Whatever else it says must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(server)
}
