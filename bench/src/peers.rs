//! Peers: other queues on PostgreSQL, each with the settings its own authors use to be fast.
//!
//! They run as processes of their own, on a database of their own in the same cluster, taking turns
//! with everybody else. `bench/peers/install` brings them; one that is not there is named in the
//! report and left out. They time themselves, without the start of their process: enqueue in bulks of
//! 5000; drain from the first handler call (pg-boss `fetch`: the first fetch) until no job is left.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::process::Command;

use crate::contender::{Contender, Step};
use crate::database::Database;

/// No turn of a peer takes this long; one that hangs is left out.
const PATIENCE: Duration = Duration::from_secs(600);

/// A peer we have a driver for.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// How it is called in the report.
    pub name: &'static str,
    /// The name of its database.
    pub database: &'static str,
    /// The program, in the folder of the peers.
    program: &'static str,
    /// What it is given before the operation, in the folder of the peers.
    script: Option<&'static str>,
    /// What it is given after the operation.
    way: Option<&'static str>,
}

/// Every peer we have a driver for.
pub const KNOWN: &[Known] = &[
    Known {
        name: "graphile_worker (Rust)",
        database: "peer_graphile_rust",
        program: "gw/target/release/gw",
        script: None,
        way: None,
    },
    Known {
        name: "graphile-worker (Node, batch)",
        database: "peer_graphile_node",
        program: "node/node_modules/.bin/node",
        script: Some("node/graphile.mjs"),
        way: None,
    },
    Known {
        name: "pg-boss (fetch)",
        database: "peer_pgboss_fetch",
        program: "node/node_modules/.bin/node",
        script: Some("node/pgboss.mjs"),
        way: Some("fetch"),
    },
    Known {
        name: "pg-boss (work, burst)",
        database: "peer_pgboss_burst",
        program: "node/node_modules/.bin/node",
        script: Some("node/pgboss.mjs"),
        way: Some("burst"),
    },
];

impl Known {
    /// Whether it is in the folder of the peers.
    #[must_use]
    pub fn is_installed(&self, folder: &Path) -> bool {
        folder.join(self.program).is_file()
    }
}

/// A peer that is installed, with its database.
#[derive(Debug)]
pub struct Peer {
    known: Known,
    folder: PathBuf,
    database: Database,
}

/// The one line a driver prints.
#[derive(Debug, Deserialize)]
struct Answer {
    op: String,
    n: usize,
    seconds: f64,
}

impl Peer {
    /// A peer from the folder of the peers.
    #[must_use]
    pub fn new(known: Known, folder: &Path, database: Database) -> Self {
        Self { known, folder: folder.to_owned(), database }
    }

    async fn run(&self, op: &'static str, n: usize) -> Result<Duration> {
        let child = self.command(op, n).spawn().context("starting the driver")?;
        let ended = tokio::time::timeout(PATIENCE, child.wait_with_output());
        let output = ended.await.with_context(|| format!("{op} took over {PATIENCE:?}"))??;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(answer) = text.lines().rev().find_map(|line| parse(line, op, n)) else {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("{op} ended with {} and no answer: {}", output.status, words.trim());
        };
        Ok(Duration::try_from_secs_f64(answer.seconds)?)
    }

    fn command(&self, op: &str, n: usize) -> Command {
        let mut command = Command::new(self.folder.join(self.known.program));
        command.args(self.known.script.map(|script| self.folder.join(script)));
        command.arg(op).args(self.known.way);
        command.env("DATABASE_URL", self.database.url()).env("N", n.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }
}

fn parse(line: &str, op: &str, n: usize) -> Option<Answer> {
    let answer: Answer = serde_json::from_str(line).ok()?;
    (answer.op == op && answer.n == n).then_some(answer)
}

impl Contender for Peer {
    fn name(&self) -> &str {
        self.known.name
    }

    fn prepare(&self) -> Step<'_, ()> {
        // Its tables are made by its own migration, at the start of `enqueue`.
        Box::pin(self.database.recreate())
    }

    fn enqueue(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.run("enqueue", n))
    }

    fn settle(&self) -> Step<'_, ()> {
        Box::pin(self.database.settle())
    }

    fn drain(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.run("drain", n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_line_that_fits_the_question() {
        let line = r#"{"op":"drain","n":5,"seconds":0.5}"#;
        assert!(parse(line, "drain", 5).is_some_and(|answer| answer.seconds == 0.5));
        assert!(parse(line, "enqueue", 5).is_none());
        assert!(parse(line, "drain", 6).is_none());
        assert!(parse("worker started", "drain", 5).is_none());
    }
}
