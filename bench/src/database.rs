//! Databases in the cluster of a run, one for each contender, made anew for each round.
//!
//! Between enqueue and drain every database is brought to rest in the same way (vacuum, analyze,
//! checkpoint), so that no contender drains under the burden of its own or its neighbour's enqueue.
//! Where a measurement is about the lack of vacuum it does not call [`Database::settle`].

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls};

use crate::cluster::Cluster;

/// One database, by name; it exists from the first [`Database::recreate`] on.
#[derive(Debug, Clone)]
pub struct Database {
    cluster: Arc<Cluster>,
    name: String,
}

impl Database {
    /// Names a database; `name` is an identifier that needs no quoting.
    #[must_use]
    pub fn new(cluster: &Arc<Cluster>, name: &str) -> Self {
        Self { cluster: Arc::clone(cluster), name: name.to_owned() }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// Drops it, makes it anew and empty, and writes a checkpoint.
    pub async fn recreate(&self) -> Result<()> {
        self.remove().await?;
        let client = connect(&self.cluster.url("postgres")).await?;
        client.batch_execute(&format!("create database {}", self.name)).await?;
        client.batch_execute("checkpoint").await?;
        Ok(())
    }

    /// Drops it.
    pub async fn remove(&self) -> Result<()> {
        let client = connect(&self.cluster.url("postgres")).await?;
        let statement = format!("drop database if exists {} with (force)", self.name);
        Ok(client.batch_execute(&statement).await?)
    }

    /// A connection to it.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.url()).await
    }

    /// Vacuum, statistics, checkpoint.
    pub async fn settle(&self) -> Result<()> {
        let client = self.connect().await?;
        client.batch_execute("vacuum analyze").await?;
        client.batch_execute("checkpoint").await?;
        Ok(())
    }

    /// Bytes of WAL written since the cluster was made. They are the whole cluster's: contenders take
    /// turns, so that in a difference only its own and the server's housekeeping are counted.
    pub async fn wal(&self) -> Result<u64> {
        let client = self.connect().await?;
        let statement = "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        let bytes: i64 = client.query_one(statement, &[]).await?.try_get(0)?;
        Ok(bytes.unsigned_abs())
    }

    /// Transactions that ended in this database since its statistics began. Asked from another
    /// database, so that the question itself is not counted.
    pub async fn transactions(&self) -> Result<u64> {
        let client = connect(&self.cluster.url("postgres")).await?;
        let statement = "select xact_commit + xact_rollback from pg_stat_database where datname = $1";
        let count: i64 = client.query_one(statement, &[&self.name]).await?.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// The server's version, as it says it.
    pub async fn version(cluster: &Cluster) -> Result<String> {
        let client = connect(&cluster.url("postgres")).await?;
        Ok(client.query_one("show server_version", &[]).await?.try_get(0)?)
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.with_context(|| format!("connecting to {url}"))?;
    // It ends when the client is dropped; what goes wrong shows in the client's next statement.
    tokio::spawn(connection);
    Ok(client)
}
