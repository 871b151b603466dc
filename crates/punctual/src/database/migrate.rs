//! Migrations: numbered, forward only, embedded in the binary.
//!
//! Applied in one transaction under a lock, so that any number of instances may start at
//! once. The first one is the baseline, which makes every table; nothing is carried over from before it. A
//! database with a newer schema than this binary knows is refused, and so is one of before the baseline.

use crate::base::clock::host_now;
use crate::base::digest;
use crate::base::error::{Error, Result};
use crate::database::dialect::Dialect;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::params;

struct Migration {
    version: i64,
    name: &'static str,
    postgres: &'static str,
    sqlite: &'static str,
}

const MIGRATIONS: [Migration; 1] = [Migration {
    version: BASELINE,
    name: "baseline",
    postgres: include_str!("../../migrations/postgres/0020_baseline.sql"),
    sqlite: include_str!("../../migrations/sqlite/0020_baseline.sql"),
}];

/// The first schema version that later ones are made from. Databases of older builds are refused.
const BASELINE: i64 = 20;

/// The schema version that this binary works with.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Whether the schema fits this binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaStatus {
    /// It does.
    Current,
    /// It has this older version, 0 when there is none, and a migration brings it up to date.
    Behind(i64),
}

impl Store {
    /// Brings the schema up to date; answers the version before and after.
    ///
    /// # Errors
    /// [`Error::Schema`] when the database is newer, or was migrated by other texts.
    pub fn migrate(&self) -> VerbFuture<'_, (i64, i64)> {
        VerbFuture::new(async move {
            let versions = self.write((), |tx, ()| Box::pin(migrate(tx))).await?;
            self.look_at_wall().await?;
            Ok(versions)
        })
    }

    /// Checks that the schema is the one of this binary.
    ///
    /// # Errors
    /// [`Error::Schema`] when the database is newer than this binary, or older.
    pub fn check_schema(&self) -> VerbFuture<'_, ()> {
        VerbFuture::new(async move {
            match self.schema_status().await? {
                SchemaStatus::Current => Ok(()),
                SchemaStatus::Behind(version) => Err(behind(version)),
            }
        })
    }

    /// Returns whether the schema fits this binary or waits for a migration.
    ///
    /// # Errors
    /// [`Error::Schema`] when no migration of this binary mends it: it is newer, or from before the baseline.
    pub(crate) async fn schema_status(&self) -> Result<SchemaStatus> {
        match self.read((), |tx, ()| Box::pin(current(tx))).await? {
            v if v > SCHEMA_VERSION => Err(too_new(v)),
            v if is_before_baseline(v) => Err(too_old(v)),
            v if v < SCHEMA_VERSION => Ok(SchemaStatus::Behind(v)),
            _ => Ok(SchemaStatus::Current),
        }
    }
}

/// All migrations as SQL, for those who apply it themselves.
#[must_use]
pub fn print(dialect: Dialect) -> String {
    let mut out = String::from(dialect.pick(LEDGER_POSTGRES, LEDGER_SQLITE));
    for migration in &MIGRATIONS {
        let text = migration.text(dialect);
        let row = format!(
            "insert into {} (version, name, checksum, applied_at) values ({}, '{}', '{}', 0);\n",
            dialect.pick("punctual.migration", "punctual_migration"),
            migration.version,
            migration.name,
            digest::of([text.as_bytes()])
        );
        out.push_str(&format!("\n-- migration {}: {}\n{text}{row}", migration.version, migration.name));
    }
    out
}

/// A table or an index that the migrations make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    /// Its name in the catalogue of the database.
    pub name: String,
    pub is_table: bool,
}

/// All tables and indexes that the migrations make.
pub(crate) fn relations(dialect: Dialect) -> Vec<Relation> {
    let words = MIGRATIONS.iter().flat_map(|m| m.text(dialect).split_whitespace());
    // A unique index is an index.
    let words: Vec<&str> = words.filter(|word| *word != "unique").collect();
    let relation = |w: &[&str]| Relation {
        name: w[2].strip_prefix("punctual.").unwrap_or(w[2]).to_owned(),
        is_table: w[1] == "table",
    };
    words
        .windows(3)
        .filter(|w| w[0] == "create" && (w[1] == "table" || w[1] == "index"))
        .map(relation)
        .collect()
}

impl Migration {
    const fn text(&self, dialect: Dialect) -> &'static str {
        dialect.pick(self.postgres, self.sqlite)
    }
}

/// The schema's version, 0 when there is none.
pub(crate) async fn current(tx: &mut Tx) -> Result<i64> {
    let sql = tx.dialect().pick(HAS_LEDGER_POSTGRES, HAS_LEDGER_SQLITE);
    if tx.first(sql, &[]).await?.is_none() {
        return Ok(0);
    }
    let row = tx.first("select coalesce(max(version), 0) from punctual.migration", &[]).await?;
    row.map_or(Ok(0), |row| row.int(0))
}

async fn migrate(tx: &mut Tx) -> Result<(i64, i64)> {
    if tx.dialect() == Dialect::Postgres {
        tx.query("select pg_advisory_xact_lock(7822091354)", &[]).await?;
    }
    let before = current(tx).await?;
    if before > SCHEMA_VERSION {
        return Err(too_new(before));
    }
    if is_before_baseline(before) {
        return Err(too_old(before));
    }
    if before == 0 {
        script(tx, tx.dialect().pick(LEDGER_POSTGRES, LEDGER_SQLITE)).await?;
    }
    for migration in &MIGRATIONS {
        let text = migration.text(tx.dialect());
        let checksum = digest::of([text.as_bytes()]);
        if migration.version <= before {
            verify(tx, migration, &checksum).await?;
            continue;
        }
        script(tx, text).await?;
        let row = params![migration.version, migration.name, &checksum, host_now()];
        tx.execute(RECORD, row).await?;
    }
    if tx.dialect() == Dialect::Postgres {
        super::wall::raise(tx).await?;
    }
    Ok((before, SCHEMA_VERSION))
}

async fn verify(tx: &mut Tx, migration: &Migration, checksum: &str) -> Result<()> {
    let row = tx.first(CHECKSUM, params![migration.version]).await?;
    match row.map(|row| row.text(0)).transpose()? {
        Some(known) if known == checksum => Ok(()),
        _ => Err(Error::Schema(format!(
            "migration {} ({}) was applied to this database in another form; \
             this binary and the database do not belong together",
            migration.version, migration.name
        ))),
    }
}

/// Whether a build from before the first release made this schema.
const fn is_before_baseline(version: i64) -> bool {
    version > 0 && version < BASELINE
}

/// Describes a schema that has an older version than this binary needs.
pub(crate) fn behind(version: i64) -> Error {
    Error::Schema(format!(
        "the schema is at version {version}, but version {SCHEMA_VERSION} is needed; run `punctual migrate`"
    ))
}

fn too_old(version: i64) -> Error {
    Error::Schema(format!(
        "the database has schema version {version} of a build from before the first release, and this binary \
         begins with version {BASELINE}: start with an empty database, or use the build that made this one"
    ))
}

fn too_new(version: i64) -> Error {
    Error::Schema(format!(
        "the database's schema is at version {version}, but this binary knows only {SCHEMA_VERSION}; \
         use a newer punctual"
    ))
}

async fn script(tx: &mut Tx, sql: &str) -> Result<()> {
    match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(tx) => tx.script(sql).await,
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(tx) => tx.script(sql),
    }
}

const LEDGER_POSTGRES: &str = "create schema if not exists punctual;\n\
    create table punctual.migration (\n    version int primary key, name text not null, \
    checksum text not null, applied_at bigint not null\n);\n";
const LEDGER_SQLITE: &str = "create table punctual_migration (\n    version integer primary key, \
    name text not null, checksum text not null, applied_at integer not null\n);\n";
const HAS_LEDGER_POSTGRES: &str = "select 1 from pg_catalog.pg_class where relname = 'migration' \
    and relnamespace = (select oid from pg_catalog.pg_namespace where nspname = 'punctual')";
const HAS_LEDGER_SQLITE: &str = "select 1 from sqlite_master where name = 'punctual_migration'";
const CHECKSUM: &str = "select checksum from punctual.migration where version = $1";
const RECORD: &str =
    "insert into punctual.migration (version, name, checksum, applied_at) values ($1, $2, $3, $4)";
