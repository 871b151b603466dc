//! A disk for tests: writes and flushes of SQLite's write-ahead log fail on demand.
//!
//! [`install`] puts a virtual file system before the default one of the process. It passes every call
//! through, except writes and syncs of the `-wal` file of a database that a test has [planned](plan) a
//! fault for. A test can so fail a commit at each of its steps, and look what is in the file afterwards.
//!
//! Not covered: the database file itself (a checkpoint that fails loses nothing, the log is kept), the shared
//! memory beside the log, and what a disk forgets that said it had flushed.

mod vfs;

pub use vfs::install;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not carried out.
    NotDone,
    /// Half of it is: of a write the first half, of a sync nothing.
    HalfDone,
    /// It is carried out, and reported as failed.
    Done,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NotDone, Self::HalfDone, Self::Done];
}

/// An operation on a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A write of so many bytes.
    Write(usize),
    /// A flush.
    Sync,
}

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// Only the n-th write or sync from now on, from 1.
    Nth(usize),
    /// Every sync.
    Syncs,
}

#[derive(Debug)]
struct Plan {
    target: FaultTarget,
    fault: Fault,
    seen: usize,
    failed: Vec<Operation>,
}

static PLANS: Mutex<BTreeMap<PathBuf, Plan>> = Mutex::new(BTreeMap::new());

fn plans() -> MutexGuard<'static, BTreeMap<PathBuf, Plan>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plans a fault for the write-ahead log of the database at `database`, in place of an earlier one.
///
/// # Panics
/// When the folder of the database does not exist.
pub fn plan(database: &Path, target: FaultTarget, fault: Fault) {
    plans().insert(log_of(database), Plan { target, fault, seen: 0, failed: Vec::new() });
}

/// Ends a plan. Returns the operations that failed by it.
///
/// # Panics
/// When the folder of the database does not exist.
pub fn heal(database: &Path) -> Vec<Operation> {
    plans().remove(&log_of(database)).map(|plan| plan.failed).unwrap_or_default()
}

/// The log's path as SQLite opens it.
fn log_of(database: &Path) -> PathBuf {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push("-wal");
    folder.join(name)
}

/// Whether an operation on a log is to fail, and how.
fn verdict(log: &Path, operation: Operation) -> Option<Fault> {
    let mut plans = plans();
    let plan = plans.get_mut(log)?;
    plan.seen += 1;
    let fails = match plan.target {
        FaultTarget::Nth(n) => plan.seen == n,
        FaultTarget::Syncs => operation == Operation::Sync,
    };
    fails.then(|| {
        plan.failed.push(operation);
        plan.fault
    })
}
