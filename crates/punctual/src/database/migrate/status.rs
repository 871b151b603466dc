//! Whether a schema fits this binary: read from the table of migrations.

use crate::base::component::{Component, Components};
use crate::base::error::{Error, Result};
use crate::database::migrate::{BASELINE, CORE, SCHEMA_VERSION, of};
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use std::collections::BTreeMap;

/// Whether the schema fits this binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaStatus {
    /// It does.
    Current,
    /// A migration brings it up to date.
    Behind(SchemaGap),
}

/// What a schema lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchemaGap {
    /// The version of what is furthest behind, 0 when there is no schema.
    pub(crate) version: i64,
    /// The components that were asked for and have no tables.
    pub(crate) lacks: Components,
}

impl Store {
    /// Checks that the schema of every component that the database has is the one of this binary.
    ///
    /// # Errors
    /// [`Error::Schema`] when the database is newer than this binary, or older.
    pub fn check_schema(&self) -> VerbFuture<'_, ()> {
        VerbFuture::new(async move {
            match self.schema_status(Components::NONE).await? {
                SchemaStatus::Current => Ok(()),
                SchemaStatus::Behind(behind) => Err(behind.refused("")),
            }
        })
    }

    /// Returns whether the schema of these components, and of no others, fits this binary or waits for a
    /// migration. Without any, those that the database has are looked at.
    ///
    /// # Errors
    /// [`Error::Schema`] when no migration of this binary mends it: it is newer, or from before the baseline.
    pub(crate) async fn schema_status(&self, wanted: Components) -> Result<SchemaStatus> {
        let (newest, applied) = self.read((), |tx, ()| Box::pin(read(tx))).await?;
        check_known(newest)?;
        let there = components_of(&applied);
        self.remember_components(there);
        let wanted = if wanted == Components::NONE { there } else { wanted };
        let lacks = wanted.iter().filter(|component| !there.has(*component));
        let lacks = lacks.fold(Components::NONE, Components::with);
        // The last migration of each component is the one that counts.
        let needed: BTreeMap<&str, i64> = of(wanted).map(|m| (m.component(), m.version)).collect();
        let old = needed.iter().filter_map(|(name, needed)| {
            let version = applied.get(*name).copied().unwrap_or(0);
            (version < *needed && (version > 0 || *name == CORE)).then_some(version)
        });
        let oldest = old.min();
        if oldest.is_none() && lacks == Components::NONE {
            return Ok(SchemaStatus::Current);
        }
        Ok(SchemaStatus::Behind(SchemaGap { version: oldest.unwrap_or(newest), lacks }))
    }
}

impl SchemaGap {
    /// Describes a schema that does not fit, with what was done about it.
    pub(crate) fn refused(self, tried: &str) -> Error {
        let Self { version, lacks } = self;
        Error::Schema(if version < SCHEMA_VERSION {
            format!(
                "the schema is at version {version}, but version {SCHEMA_VERSION} is needed{tried}; \
                 run `punctual migrate`"
            )
        } else {
            let names = lacks.to_string().replace(", ", ",");
            format!(
                "the database has no tables of the components {lacks}{tried}; \
                 run `punctual migrate --components {names}`"
            )
        })
    }
}

/// The newest version that the table of migrations names, 0 when there is no such table.
pub(crate) async fn current(tx: &mut Tx) -> Result<i64> {
    Ok(read(tx).await?.0)
}

/// The components that the table of migrations names.
pub(crate) async fn recorded(tx: &mut Tx) -> Result<Components> {
    let (_, applied) = read(tx).await?;
    Ok(components_of(&applied))
}

fn components_of(applied: &BTreeMap<String, i64>) -> Components {
    let known = applied.keys().filter_map(|name| Component::from_name(name));
    known.fold(Components::NONE, Components::with)
}

/// The newest version of all, and that of each component.
async fn read(tx: &mut Tx) -> Result<(i64, BTreeMap<String, i64>)> {
    let row = tx.first(tx.dialect().pick(LEDGER_POSTGRES, LEDGER_SQLITE), &[]).await?;
    let Some(row) = row else { return Ok((0, BTreeMap::new())) };
    // The table of an older build has no components.
    let sql = if row.flag(0)? { VERSIONS } else { OLD_VERSION };
    let rows = tx.query(sql, &[]).await?;
    let versions =
        rows.iter().map(|row| Ok((row.text(0)?, row.int(1)?))).collect::<Result<BTreeMap<_, _>>>()?;
    Ok((versions.values().copied().max().unwrap_or(0), versions))
}

/// Refuses a schema that is newer than this binary, or from before the baseline.
pub(crate) fn check_known(newest: i64) -> Result<()> {
    match newest {
        v if v > SCHEMA_VERSION => Err(too_new(v)),
        v if v > 0 && v < BASELINE => Err(too_old(v)),
        _ => Ok(()),
    }
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

statements! {
    /// Whether the table of migrations has components; no row where it is not there.
    const LEDGER_POSTGRES for Postgres = "
        select
            case
                when exists (
                    select 1
                    from pg_catalog.pg_attribute a
                    where a.attrelid = c.oid and a.attname = 'component'
                ) then 1
                else 0
            end
        from pg_catalog.pg_class c
        where c.relname = 'migration'
            and c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = 'punctual')
    ";

    const LEDGER_SQLITE for Sqlite = "
        select case when sql like '%component%' then 1 else 0 end
        from sqlite_master
        where name = 'punctual_migration'
    ";

    const VERSIONS = "
        select component, max(version)
        from punctual.migration
        group by component
    ";

    const OLD_VERSION = "
        select 'core', max(version)
        from punctual.migration
    ";
}
