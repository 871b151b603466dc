//! What the machine offers a cluster: programs, a folder, an account, memory.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::testing::cluster::ClusterError;

/// Who the server runs as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    user: u32,
    group: u32,
}

pub(crate) fn command_as(account: Option<Account>, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(account) = account {
        command.uid(account.user).gid(account.group);
    }
    command
}

/// Makes a folder of our own; if that shows us to be root, gives it to the server's account.
pub(crate) fn make_folder(base: Option<&Path>) -> Result<(PathBuf, Option<Account>), ClusterError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let base = base.map_or_else(env::temp_dir, Path::to_owned);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = base.join(format!("punctual-postgres-{}-{count}", std::process::id()));
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder)?;
    if fs::metadata(&folder)?.uid() != 0 {
        return Ok((folder, None));
    }
    let account = find_account(&["postgres", "nobody"]).ok_or_else(|| {
        ClusterError::Failed("we are root, and there is no account postgres or nobody".into())
    })?;
    chown(&folder, Some(account.user), Some(account.group))?;
    Ok((folder, Some(account)))
}

/// What has to be free in memory before clusters are put there.
const MEMORY_FREE_MIN_KB: u64 = 8 * 1024 * 1024;

/// A folder in memory, if it has plenty of room. Tests make and drop a database each, of hundreds of
/// files: on a disk with ext4 that alone takes a third of two cores, since inodes that were just freed are
/// sought again and again.
pub(crate) fn memory() -> Option<PathBuf> {
    let folder = Path::new("/dev/shm");
    let told = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let free: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    (free >= MEMORY_FREE_MIN_KB).then(|| folder.to_owned())
}

fn find_account(names: &[&str]) -> Option<Account> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let find = |name: &&str| {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(|number| number.parse().ok());
        Some(Account { user: numbers.next()??, group: numbers.next()?? })
    };
    names.iter().find_map(find)
}

/// The folder that holds `initdb` and `postgres`: in `PATH`, else the newest installed one.
pub(crate) fn find_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = env::split_paths(&path).collect();
    places.extend(installed_versions());
    places.into_iter().find(|place| place.join("initdb").is_file() && place.join("postgres").is_file())
}

/// `/usr/lib/postgresql/VERSION/bin`, the newest first.
fn installed_versions() -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = folders
        .filter_map(Result::ok)
        .filter_map(|folder| {
            let version = folder.file_name().to_str()?.parse().ok()?;
            Some((version, folder.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, place)| place).collect()
}

/// A quarter of the memory, at most 1 GB.
pub(crate) fn buffers_mb() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kb: Option<u64> = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kb.map_or(256, |kb| (kb / 1024 / 4).min(1024))
}
