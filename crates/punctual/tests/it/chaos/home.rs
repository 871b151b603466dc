//! Where a world's database is: a file, or a server of its own.

use super::disk::SmallDisk;
use super::injector::Injection;
use super::tally::Tally;
use punctual::database::postgres::direct_connection::DirectConnection;
use punctual::testing::cluster::{Cluster, ClusterOptions};
use punctual::testing::place::TestDatabase;

/// Where the database is.
pub enum Home {
    File(TestDatabase),
    Server { cluster: Cluster, url: String, disk: Option<SmallDisk> },
}

impl Home {
    pub fn url(&self) -> &str {
        match self {
            Self::File(place) => place.url(),
            Self::Server { url, .. } => url,
        }
    }
}

/// A server of one's own, whose answered commits survive its crash (not the machine's).
pub async fn server(small_disk: bool, tally: &mut Tally) -> Home {
    let mut options = ClusterOptions::fast();
    let settings =
        [("synchronous_commit", "on"), ("shared_buffers", "32MB"), ("track_commit_timestamp", "on")];
    for (name, value) in settings {
        options.settings.push((name.into(), value.into()));
    }
    let cluster = tokio::task::block_in_place(|| Cluster::start(&options)).unwrap();
    let mut disk = None;
    if small_disk {
        match SmallDisk::new() {
            Ok(made) => disk = Some(made),
            Err(why) => _ = tally.not_run.insert(Injection::FullDisk.name(), why),
        }
    }
    let postgres = DirectConnection::connect(&cluster.url("postgres")).await.unwrap();
    let mut statements = Vec::new();
    let mut place = "";
    if let Some(disk) = &disk {
        // The server's account must own it.
        let like = format!("--reference={}", cluster.folder().display());
        let given = std::process::Command::new("chown").arg(like).arg(disk.folder()).status();
        assert!(given.unwrap().success(), "a disk can be given to the server");
        statements.push(format!("create tablespace small location '{}'", disk.folder().display()));
        place = " tablespace small";
    }
    statements.push(format!("create database chaos{place}"));
    postgres.run(&statements).await.unwrap();
    let url = cluster.url("chaos");
    Home::Server { cluster, url, disk }
}

/// The port in `postgres://postgres@127.0.0.1:PORT/database`.
pub fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap()
}
