//! A PostgreSQL server of one's own: found, initialised in a temporary folder, started on a free
//! port, and gone again when the value is dropped.
//!
//! Promises: once it runs, nothing is left of it, neither process nor folder, when the value is
//! dropped, the process panics, or it is killed. The server is the child of a small shell that waits
//! on a pipe; the pipe closes with us, whatever the reason. As root the server runs as `postgres` (or
//! `nobody`), because PostgreSQL refuses root. It listens on 127.0.0.1 only, trusting every caller.
//!
//! Not promised: that the disk under the folder is a real one. A temporary folder in memory makes
//! every commit free; see [`ClusterOptions::folder`].
//!
//! Nothing but `std` is used, and of this crate only the clock: the module can be taken elsewhere.

mod host;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::base::clock::monotonic;
use crate::testing::cluster::host::{Account, buffers_mb, command_as, find_programs, make_folder, memory};

/// How long a server may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Another process may take a free port between finding it and using it.
const PORT_TRIES: u32 = 5;

/// Runs the server (`$2` and on) and stops it at once when standard input ends, then removes the folder `$1`.
/// A server that ends by itself leaves its log, and the mark `ended`, until then, or until the file `again`
/// exists: then it is run once more.
const WATCHDOG: &str = r#"
folder=$1; shift
exec 3<&0
( cat <&3 >/dev/null; : >"$folder/over"; kill -QUIT "$(cat "$folder/server")" 2>/dev/null ) &
while [ ! -e "$folder/over" ]; do
  rm -f "$folder/again" "$folder/ended"
  "$@" </dev/null >>"$folder/log" 2>&1 3<&- & server=$!
  echo $server >"$folder/server"
  if [ -e "$folder/over" ]; then kill -QUIT $server; fi
  wait $server
  : >"$folder/ended"
  until [ -e "$folder/again" ] || [ -e "$folder/over" ]; do sleep 0.02; done
done
rm -rf "$folder"
"#;

/// Whether a commit survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// `fsync` and `synchronous_commit` on: for measurements.
    Durable,
    /// Neither: for tests, several times as fast.
    Fast,
}

/// How a cluster is started.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Whether a commit survives a power cut.
    pub durability: Durability,
    /// Where the cluster's folder is made; the system's temporary folder if not given.
    pub folder: Option<PathBuf>,
    /// Further settings, `(name, value)`; they win over ours.
    pub settings: Vec<(String, String)>,
}

impl ClusterOptions {
    /// Settings for measurements: durable, a quarter of the memory (at most 1 GB) as buffers.
    #[must_use]
    pub fn durable() -> Self {
        Self { durability: Durability::Durable, folder: None, settings: Vec::new() }
    }

    /// Settings for tests: small, not durable, and in memory where there is plenty of it.
    #[must_use]
    pub fn fast() -> Self {
        Self { durability: Durability::Fast, folder: memory(), settings: Vec::new() }
    }

    /// Every setting given to the server beyond its defaults, except where it listens.
    #[must_use]
    pub fn all_settings(&self) -> Vec<(String, String)> {
        let ours: &[(&str, String)] = match self.durability {
            Durability::Durable => &[
                ("fsync", "on".into()),
                ("synchronous_commit", "on".into()),
                ("shared_buffers", format!("{}MB", buffers_mb())),
                ("max_wal_size", "4GB".into()),
                ("max_connections", "200".into()),
            ],
            Durability::Fast => &[
                ("fsync", "off".into()),
                ("synchronous_commit", "off".into()),
                ("full_page_writes", "off".into()),
                ("shared_buffers", "64MB".into()),
                ("max_connections", "200".into()),
            ],
        };
        let mut all: Vec<_> = ours.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        all.extend(self.settings.iter().cloned());
        all
    }
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Connections are ended, and everything is written down.
    Fast,
    /// At once, as in a crash: the next start repairs what was left.
    Immediate,
}

/// A running server. Dropping it stops the server and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    watchdog: Child,
    /// Closing it is what stops the server.
    leash: Option<ChildStdin>,
    folder: PathBuf,
    port: u16,
}

/// Why no cluster could be had.
#[derive(Debug)]
pub enum ClusterError {
    /// No `initdb` and `postgres` were found.
    NotInstalled,
    /// A program ended badly; its words.
    Failed(String),
    /// The system refused something.
    Io(io::Error),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => write!(
                f,
                "PostgreSQL is not installed: no initdb and postgres in PATH or /usr/lib/postgresql"
            ),
            Self::Failed(words) => write!(f, "PostgreSQL did not start: {words}"),
            Self::Io(error) => write!(f, "PostgreSQL did not start: {error}"),
        }
    }
}

impl std::error::Error for ClusterError {}

impl From<io::Error> for ClusterError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Cluster {
    /// Initialises and starts a server; returns when it accepts connections.
    pub fn start(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let programs = find_programs().ok_or(ClusterError::NotInstalled)?;
        let mut tries = 1;
        loop {
            match Self::start_once(&programs, options) {
                Err(ClusterError::Failed(words))
                    if tries < PORT_TRIES && words.contains("could not bind") =>
                {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    fn start_once(programs: &Path, options: &ClusterOptions) -> Result<Self, ClusterError> {
        let (folder, account) = make_folder(options.folder.as_deref())?;
        let started = initialise(programs, &folder, account)
            .and_then(|()| Self::launch(programs, &folder, account, options));
        match started {
            Ok(cluster) => cluster.when_ready(),
            Err(error) => {
                fs::remove_dir_all(&folder).ok();
                Err(error)
            }
        }
    }

    fn launch(
        programs: &Path,
        folder: &Path,
        account: Option<Account>,
        options: &ClusterOptions,
    ) -> Result<Self, ClusterError> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = command_as(account, "sh");
        command.args(["-c", WATCHDOG, "watchdog"]).arg(folder).arg(programs.join("postgres"));
        command.arg("-D").arg(folder.join("data")).arg("-p").arg(port.to_string());
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        for (name, value) in options.all_settings() {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.current_dir(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut watchdog = command.spawn()?;
        let leash = watchdog.stdin.take();
        Ok(Self { watchdog, leash, folder: folder.to_owned(), port })
    }

    /// Waits until the server says in its own file that it is ready.
    fn when_ready(self) -> Result<Self, ClusterError> {
        let start = monotonic();
        while !self.is_ready() {
            if self.folder.join("ended").exists() || start.elapsed() > START_LIMIT {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(ClusterError::Failed(log));
            }
            nap();
        }
        Ok(self)
    }

    fn is_ready(&self) -> bool {
        let text = fs::read_to_string(self.folder.join("data/postmaster.pid"));
        text.is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"))
    }

    /// The address of one of its databases; `postgres` always exists.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Stops the server and starts it again; returns when it accepts connections. A connection that
    /// was there before is gone.
    ///
    /// # Errors
    /// When it does not come back.
    pub fn restart(&self, how: ShutdownMode) -> Result<(), ClusterError> {
        self.stop(how)?;
        self.start_again()
    }

    /// Stops the server, and leaves it so until [`Cluster::start_again`].
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(&self, how: ShutdownMode) -> Result<(), ClusterError> {
        let pid = fs::read_to_string(self.folder.join("server"))?;
        let name = if how == ShutdownMode::Fast { "-INT" } else { "-QUIT" };
        Command::new("kill").arg(name).arg(pid.trim()).status()?;
        self.until("stop", || self.folder.join("ended").exists())
    }

    /// Starts the server that was stopped.
    ///
    /// # Errors
    /// When it does not come back.
    pub fn start_again(&self) -> Result<(), ClusterError> {
        fs::write(self.folder.join("again"), "")?;
        self.until("start again", || !self.folder.join("ended").exists() && self.is_ready())
    }

    fn until(&self, what: &str, reached: impl Fn() -> bool) -> Result<(), ClusterError> {
        let start = monotonic();
        while !reached() {
            if start.elapsed() > START_LIMIT {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(ClusterError::Failed(format!("it did not {what}: {log}")));
            }
            nap();
        }
        Ok(())
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.leash.take());
        self.watchdog.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// A server reports that it is ready only in a file, so the file must be polled.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait on but a file")]
fn nap() {
    thread::sleep(Duration::from_millis(10));
}

fn initialise(programs: &Path, folder: &Path, account: Option<Account>) -> Result<(), ClusterError> {
    let output = command_as(account, programs.join("initdb"))
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        .arg("--no-sync")
        .arg("-D")
        .arg(folder.join("data"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(ClusterError::Failed(String::from_utf8_lossy(&output.stderr).into_owned()))
}
