//! PLT-4: a message that takes its whole process down dies of it; its neighbours do not.
//!
//! The worker is a process of its own: this test program again, told by its environment to
//! be one. It is started anew each time it dies.

use crate::bench::{TENANT, message};
use crate::engine::{DEAD_LETTERS, Live, SOON, dead_letters, queue, start};
use punctual::base::clock::monotonic;
use punctual::testing::Backend;
use punctual::{Engine, HandlerResult, Work};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const NEIGHBOURS: usize = 20;
const ATTEMPTS: usize = 3;

/// A worker process, killed when dropped.
pub struct Worker {
    child: Child,
}

/// The database of a worker process; without it, it is none.
pub const DATABASE: &str = "PUNCTUAL_TEST_WORKER_DATABASE";
/// Where it notes which messages it handled.
pub const EFFECTS: &str = "PUNCTUAL_TEST_WORKER_EFFECTS";

impl Worker {
    /// Starts this test program again, as the worker that `test` is if asked.
    pub fn start(test: &str, database: &str, effects: &Path) -> Self {
        Self::spawn(test, &[(DATABASE, database.into()), (EFFECTS, effects.into())])
    }

    /// The same with an environment of its own.
    pub fn spawn(test: &str, environment: &[(&str, OsString)]) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker process can be started");
        Self { child }
    }

    /// Says a line on its standard input; one that has ended does not hear it.
    pub fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.child.stdin {
            input.write_all(format!("{line}\n").as_bytes()).ok();
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends it a signal: STOP freezes it, CONT lets it go on.
    pub fn signal(&mut self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success(), "a worker can be sent {name}");
    }

    /// Ends it without a warning, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A folder in which each worker process notes what it did, gone when dropped.
pub struct Notes(PathBuf);

impl Notes {
    pub fn new() -> Self {
        let name = format!("punctual_notes_{}", punctual::base::random::hex::<6>());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// All messages that were noted, as often as they were.
    pub fn read(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for file in std::fs::read_dir(&self.0).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            all.extend(text.lines().map(|line| line.parse::<i64>().unwrap()));
        }
        all
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// One process's own file of notes: a line is there as soon as it is written, whatever
/// becomes of the process.
pub struct Pen(File);

impl Pen {
    pub fn note(&self, work: &Work) {
        self.line(work.message.id.0);
    }

    pub fn line(&self, number: i64) {
        // One write for the whole line, so that no process leaves half of one.
        (&self.0).write_all(format!("{number}\n").as_bytes()).unwrap();
    }
}

/// In a worker process: the database and the pen. Elsewhere nothing.
pub fn hired() -> Option<(String, Arc<Pen>)> {
    let database = std::env::var(DATABASE).ok()?;
    let folder = PathBuf::from(std::env::var_os(EFFECTS)?);
    let path = folder.join(std::process::id().to_string());
    let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // The test's end of the pipe closes with it: no worker outlives its test.
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    Some((database, Arc::new(Pen(file))))
}

/// The worker of these tests: a message of the kind "poison" aborts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Some((database, pen)) = hired() else { return };
    let handler = move |work: Work| drink(Arc::clone(&pen), work);
    let builder = Engine::builder(database).pool_size(4).without_migrations().lease(Duration::from_secs(1));
    let _engine = start(builder.handler_with("t", 2 * NEIGHBOURS, handler)).await;
    std::future::pending().await
}

async fn drink(pen: Arc<Pen>, work: Work) -> HandlerResult {
    if work.message.kind == "poison" {
        std::process::abort();
    }
    // Neighbours take a moment, so that the first batch is still at it when the poison works.
    tokio::time::sleep(Duration::from_millis(20)).await;
    pen.note(&work);
    Ok(())
}

async fn poison(backend: Backend) {
    let live = Live::on(backend).await;
    let engine = live.builder().open().await.unwrap();
    let settings = serde_json::json!({"maxAttempts": ATTEMPTS, "backoff": {"from": "10ms", "to": "10ms"}});
    queue(&engine, "t", settings).await;
    let mut batch = vec![message("t"); NEIGHBOURS + 1];
    batch[NEIGHBOURS / 2].kind = "poison".into();
    let ids = engine.enqueue(TENANT, batch).await.unwrap();
    let mut ids: Vec<i64> = ids.iter().map(|e| e.id().unwrap().0).collect();
    let poison = ids.remove(NEIGHBOURS / 2);

    let notes = Notes::new();
    let hire = || Worker::start("poison::worker_process", live.url(), notes.folder());
    let (mut worker, mut deaths) = (hire(), 0);
    let begun = monotonic();
    while live.count(DEAD_LETTERS).await == 0 {
        if worker.has_ended() {
            deaths += 1;
            worker = hire();
        }
        assert!(begun.elapsed() < SOON * 3, "after {deaths} deaths the poison still works");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.until_drained().await;
    assert!(!worker.has_ended(), "the worker lives on");

    println!("{backend:?}: {deaths} deaths, {:?}", begun.elapsed());
    assert_eq!(deaths, ATTEMPTS + 1, "once with its neighbours, then alone as often as it may");
    let letters = dead_letters(&engine).await;
    assert_eq!(letters.len(), 1, "nobody else died");
    assert_eq!((letters[0].message.id.0, letters[0].message.kind.as_str()), (poison, "poison"));
    assert_eq!(letters[0].attempts.len(), deaths, "each death is in its history");
    assert!(letters[0].attempts.iter().all(|a| a.outcome == "reaped" && a.error.contains("ran out")));
    assert_eq!(notes.read().into_iter().collect::<BTreeSet<_>>(), ids.iter().copied().collect());
    let settled = live.settled().await;
    assert!(ids.iter().all(|id| settled[&punctual::MessageId(*id)] == 1), "each neighbour is done once");
}

/// PLT-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_4_poison_dies_alone_on_sqlite() {
    poison(Backend::Sqlite).await;
}

/// PLT-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow"]
async fn plt_4_poison_dies_alone_on_postgres() {
    poison(Backend::Postgres).await;
}
