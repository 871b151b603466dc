//! The census: the state of the tables, for health and metrics.

use crate::base::clock::{Timestamp, host_now};
use crate::base::component::{Component, Components};
use crate::base::error::Result;
use crate::database::dialect::Dialect;
use crate::database::migrate::{self, Relation};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use crate::operate::store::lag::{JobLag, WorkerLag, job_lags, worker_lags};
use std::time::Duration;

/// A claim that is this far past its lease is stuck: the reaper is not running.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The state of the tables at one moment. Where a table is missing, nothing is counted.
#[derive(Clone, Debug)]
pub struct Census {
    /// The authority's time.
    pub now: Timestamp,
    /// How far the host's clock is from it, in microseconds (positive: the host is ahead).
    pub host_skew_us: i64,
    /// The schema's version.
    pub schema_version: i64,
    /// The components that the database was migrated for.
    pub components: Components,
    /// Tables and indexes of these components that should be there and are not.
    pub missing: Vec<String>,
    /// Claims in flight.
    pub open_claims: i64,
    /// Claims that should have been reaped long ago.
    pub stuck_claims: i64,
    /// Dead letters.
    pub dead_letters: i64,
    /// The lag of the workers of each purpose.
    pub workers: Vec<WorkerLag>,
    /// The lags of the jobs that are due first, at most 20.
    pub jobs: Vec<JobLag>,
}

impl Census {
    /// Returns the oldest due time of work that is not claimed and not paused.
    #[must_use]
    pub fn oldest_due(&self) -> Option<Timestamp> {
        self.workers.iter().filter_map(|lag| lag.oldest_due).min()
    }

    /// Returns when the first job is due; in the past if no planner runs.
    #[must_use]
    pub fn next_job(&self) -> Option<Timestamp> {
        self.jobs.first().map(|job| job.next_due)
    }
}

impl Store {
    /// Reads the database's settings: its version, and the durability of a commit.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn settings(&self) -> VerbFuture<'_, Vec<(String, String)>> {
        self.read((), |tx, ()| {
            Box::pin(async move {
                let rows = tx.query(tx.dialect().pick(SETTINGS_POSTGRES, SETTINGS_SQLITE), &[]).await?;
                rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
            })
        })
    }

    /// Takes the census.
    pub fn census(&self) -> VerbFuture<'_, Census> {
        self.read((), |tx, ()| Box::pin(census(tx)))
    }
}

async fn census(tx: &mut Tx) -> Result<Census> {
    let now = tx.now().await?;
    let host_skew_us = host_now().as_micros() - now.as_micros();
    let schema_version = migrate::current(tx).await?;
    let components = migrate::recorded(tx).await?;
    let missing = missing(tx, components).await?;
    let lacks_table = missing.iter().any(|relation| relation.is_table);
    let mut census = Census {
        components,
        now,
        host_skew_us,
        schema_version,
        missing: missing.into_iter().map(|relation| relation.name).collect(),
        open_claims: 0,
        stuck_claims: 0,
        dead_letters: 0,
        workers: Vec::new(),
        jobs: Vec::new(),
    };
    // The name of a table that is gone says more than the error of a statement that reads it.
    if !lacks_table {
        count(tx, &mut census).await?;
    }
    Ok(census)
}

async fn count(tx: &mut Tx, census: &mut Census) -> Result<()> {
    if census.components.has(Component::Outbox) {
        let row = tx.first(COUNTS, params![census.now.minus(STUCK_AFTER)]).await?;
        let int = |n| row.as_ref().map_or(Ok(0), |row| row.int(n));
        (census.open_claims, census.stuck_claims, census.dead_letters) = (int(0)?, int(1)?, int(2)?);
        census.workers = worker_lags(tx, census.now).await?;
    }
    if census.components.has(Component::Jobs) {
        census.jobs = job_lags(tx).await?;
    }
    Ok(())
}

statements! {
    const COUNTS = "
        select (select count(*) from punctual.claim where finished_at is null),
            (select count(*) from punctual.claim where finished_at is null and lease_until < $1),
            (select count(*) from punctual.dead_letter)
    ";
}

async fn missing(tx: &mut Tx, components: Components) -> Result<Vec<Relation>> {
    let wanted = migrate::relations(tx.dialect(), components);
    let names: Vec<Option<&str>> = wanted.iter().map(|relation| Some(relation.name.as_str())).collect();
    let sql = tx.dialect().pick(RELATIONS_POSTGRES, RELATIONS_SQLITE);
    let rows = tx.query(sql, &[Value::Texts(&names)]).await?;
    let there = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    Ok(wanted.into_iter().filter(|relation| !there.contains(&relation.name)).collect())
}

statements! {
    const SETTINGS_POSTGRES for Postgres = "
        select name::text, setting::text
        from pg_catalog.pg_settings
        where name in (
            'server_version_num', 'server_version', 'fsync', 'synchronous_commit', 'full_page_writes'
        )
        order by name
    ";

    const SETTINGS_SQLITE for Sqlite = "
        select 'version', sqlite_version()
        union all
        select 'journal_mode', journal_mode
        from pragma_journal_mode
    ";

    const RELATIONS_POSTGRES for Postgres = "
        select relname::text
        from pg_catalog.pg_class
        where relnamespace = (select oid from pg_catalog.pg_namespace where nspname = 'punctual')
            and relname::text = any($1::text[])
    ";

    const RELATIONS_SQLITE for Sqlite = "
        select name
        from sqlite_master
        where name = any($1)
    ";
}

impl Dialect {
    /// The database's name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.pick("PostgreSQL", "SQLite")
    }
}
