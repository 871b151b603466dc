//! A cluster starts, answers, and leaves nothing behind, dropped or killed.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use super::*;

const HOLD: &str = "PUNCTUAL_TEST_HOLDS_A_CLUSTER";

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

fn gone_within(folder: &Path, limit: Duration) -> bool {
    let start = monotonic();
    while folder.exists() && start.elapsed() < limit {
        nap();
    }
    !folder.exists()
}

#[test]
fn starts_and_leaves_nothing_when_dropped() -> Result {
    let cluster = Cluster::start(&ClusterOptions::fast())?;
    let (folder, port) = (cluster.folder().to_owned(), cluster.port);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    drop(cluster);
    assert!(!folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[test]
fn comes_back_after_a_restart_and_leaves_nothing_then() -> Result {
    let cluster = Cluster::start(&ClusterOptions::fast())?;
    let (folder, port) = (cluster.folder().to_owned(), cluster.port);
    for how in [ShutdownMode::Fast, ShutdownMode::Immediate] {
        cluster.restart(how)?;
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
    drop(cluster);
    assert!(!folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[test]
fn says_why_the_server_did_not_start() {
    let mut options = ClusterOptions::fast();
    options.settings.push(("no_such_setting".into(), "1".into()));
    let words = Cluster::start(&options).map(|_| ()).map_err(|error| error.to_string());
    assert!(words.is_err_and(|words| words.contains("no_such_setting")));
}

#[test]
fn leaves_nothing_when_killed() -> Result {
    let mut child = Command::new(env::current_exe()?)
        .args(["--exact", "testing::cluster::tests::holds_a_cluster_if_asked", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let folder = BufReader::new(output)
        .lines()
        .map_while(io::Result::ok)
        .find_map(|line| Some(PathBuf::from(line.split_once("folder=")?.1)))
        .ok_or("the child named no folder")?;
    assert!(folder.exists());
    child.kill()?;
    child.wait()?;
    assert!(gone_within(&folder, Duration::from_secs(10)));
    Ok(())
}

/// The child of the test above.
#[test]
fn holds_a_cluster_if_asked() -> Result {
    if env::var_os(HOLD).is_none() {
        return Ok(());
    }
    let cluster = Cluster::start(&ClusterOptions::fast())?;
    let start = monotonic();
    println!("folder={}", cluster.folder().display());
    while start.elapsed() < Duration::from_secs(60) {
        nap();
    }
    Ok(())
}
