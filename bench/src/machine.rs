//! What the figures were measured on. A figure without this cannot be compared with anything.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde::Serialize;

/// The machine and the software.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Machine {
    /// Processor cores we may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// How many tasks ran or wanted to in the minute before: much over 0, and others were at work.
    pub load: Option<f64>,
    /// Operating system and architecture.
    pub system: String,
    /// The kind of file system the databases are on; in memory (`tmpfs`) nothing is durable.
    pub file_system: Option<String>,
    /// The server's version, if it was measured.
    pub postgres: Option<String>,
    /// The version of the SQLite that is built in.
    pub sqlite: String,
    /// The commit in whose work tree the run was started.
    pub commit: Option<String>,
}

impl Machine {
    /// Looks around; `folder` is where the databases are.
    #[must_use]
    pub fn here(folder: &Path) -> Self {
        Self {
            cores: thread::available_parallelism().map_or(0, std::num::NonZero::get),
            memory: memory().unwrap_or(0),
            load: load(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            file_system: file_system(folder),
            postgres: None,
            sqlite: rusqlite::version().to_owned(),
            commit: commit(),
        }
    }

    /// One line about all of it.
    #[must_use]
    pub fn line(&self) -> String {
        let mut parts =
            vec![format!("{} cores", self.cores), format!("{} GiB", self.memory >> 30), self.system.clone()];
        parts.extend(self.file_system.iter().map(|kind| format!("on {kind}")));
        parts.extend(self.postgres.iter().map(|version| format!("PostgreSQL {version}")));
        parts.push(format!("SQLite {}", self.sqlite));
        parts.extend(self.load.iter().map(|load| format!("load before {load}")));
        parts.extend(self.commit.iter().map(|commit| format!("commit {commit}")));
        parts.join(", ")
    }
}

fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kb * 1024)
}

fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// The kind of the mount with the longest matching path.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let text = fs::read_to_string("/proc/mounts").ok()?;
    let mounts = text.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let fitting = mounts.filter(|(place, _)| folder.starts_with(place));
    fitting.max_by_key(|(place, _)| place.len()).map(|(_, kind)| kind.to_owned())
}

fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The resident memory of a process in bytes.
#[must_use]
pub fn resident(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kb: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kb * 1024)
}
