//! Migrations: numbered, forward only, embedded in the binary, each of one component.
//!
//! Applied in one transaction under a lock, so that any number of instances may start at
//! once, with whatever components each of them asks for. The first of each component is its baseline, which
//! makes its tables; nothing is carried over from before it. The table of migrations says which component has
//! come how far. A migration looks at tables of its own component, of those that it needs, and of the core,
//! and those are migrated before it. Components that nobody asked for are left as they are. A
//! database with a newer schema than this binary knows is refused, and so is one of before the baseline.

mod status;

pub(crate) use crate::database::migrate::status::{SchemaGap, SchemaStatus, current, recorded};

use crate::base::clock::host_now;
use crate::base::component::{Component, Components};
use crate::base::digest;
use crate::base::error::{Error, Result};
use crate::database::dialect::Dialect;
use crate::database::migrate::status::check_known;
use crate::database::row_security::RAISE;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::params;

struct Migration {
    /// The component whose tables it makes; none for the core, which every database has.
    component: Option<Component>,
    version: i64,
    name: &'static str,
    postgres: &'static str,
    sqlite: &'static str,
}

macro_rules! baseline {
    ($component:expr, $name:literal) => {
        Migration {
            component: $component,
            version: BASELINE,
            name: "baseline",
            postgres: include_str!(concat!("../../migrations/postgres/0021_", $name, ".sql")),
            sqlite: include_str!(concat!("../../migrations/sqlite/0021_", $name, ".sql")),
        }
    };
}

/// In the order of their versions, and of one version each after those that it needs.
const MIGRATIONS: [Migration; 7] = [
    baseline!(None, "core"),
    baseline!(Some(Component::Access), "access"),
    baseline!(Some(Component::Outbox), "outbox"),
    baseline!(Some(Component::Inbox), "inbox"),
    baseline!(Some(Component::Leases), "leases"),
    baseline!(Some(Component::Jobs), "jobs"),
    baseline!(Some(Component::Flows), "flows"),
];

/// The first schema version that later ones are made from. Databases of older builds are refused.
const BASELINE: i64 = 21;

/// The schema version that this binary works with.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The name of the tables that belong to no component.
const CORE: &str = "core";

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationOutcome {
    /// The schema's version before, 0 when there was none.
    pub before: i64,
    /// The schema's version now.
    pub after: i64,
    /// The components whose tables were made.
    pub added: Components,
}

impl Store {
    /// Brings the schema of every component up to date; answers the version before and after.
    ///
    /// # Errors
    /// [`Error::Schema`] when the database is newer, or was migrated by other texts.
    pub fn migrate(&self) -> VerbFuture<'_, (i64, i64)> {
        VerbFuture::new(async move {
            let migrated = self.migrate_components(Components::ALL).await?;
            Ok((migrated.before, migrated.after))
        })
    }

    /// Brings the schema of these components up to date, and makes their tables if they are not there. Other
    /// components of the database are left alone.
    ///
    /// # Errors
    /// As [`Store::migrate`].
    pub fn migrate_components(&self, components: Components) -> VerbFuture<'_, MigrationOutcome> {
        VerbFuture::new(async move {
            let migrated = self.write(components, |tx, wanted| Box::pin(migrate(tx, *wanted))).await?;
            self.remember_components(components);
            self.refresh_row_security().await?;
            Ok(migrated)
        })
    }
}

/// The row of a migration in a script: the table, the component, the version, the name and the checksum.
macro_rules! ledger_row {
    () => {
        "
insert into {} (component, version, name, checksum, applied_at)
values ('{}', {}, '{}', '{}', 0);
"
    };
}

/// All migrations of these components as SQL, for those who apply it themselves to a new database.
#[must_use]
pub fn print(dialect: Dialect, components: Components) -> String {
    let mut out = String::from(dialect.pick(LEDGER_POSTGRES, LEDGER_SQLITE));
    for migration in of(components) {
        let text = migration.text(dialect);
        let row = format!(
            ledger_row!(),
            dialect.pick("punctual.migration", "punctual_migration"),
            migration.component(),
            migration.version,
            migration.name,
            digest::of([text.as_bytes()])
        );
        let title = format!("{} of {}", migration.name, migration.component());
        out.push_str(&format!("\n-- migration {}: {title}\n{text}{row}", migration.version));
    }
    if dialect == Dialect::Postgres {
        out.push_str(&format!("\n{};\n", RAISE.trim()));
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

/// All tables and indexes that the migrations of these components make.
pub(crate) fn relations(dialect: Dialect, components: Components) -> Vec<Relation> {
    let words = of(components).flat_map(|m| m.text(dialect).split_whitespace());
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

/// The component of a table, named without the schema or the prefix.
pub(crate) fn component_of(table: &str) -> Option<Component> {
    let made = format!("create table punctual.{table} ");
    MIGRATIONS.iter().find(|m| m.postgres.contains(&made)).and_then(|m| m.component)
}

/// The migrations of the core and of these components.
fn of(components: Components) -> impl Iterator<Item = &'static Migration> {
    MIGRATIONS.iter().filter(move |m| m.component.is_none_or(|component| components.has(component)))
}

impl Migration {
    const fn text(&self, dialect: Dialect) -> &'static str {
        dialect.pick(self.postgres, self.sqlite)
    }

    fn component(&self) -> &'static str {
        self.component.map_or(CORE, Component::name)
    }
}

async fn migrate(tx: &mut Tx, wanted: Components) -> Result<MigrationOutcome> {
    if tx.dialect() == Dialect::Postgres {
        tx.query(LOCK, &[]).await?;
    }
    let before = current(tx).await?;
    check_known(before)?;
    if before == 0 {
        script(tx, tx.dialect().pick(LEDGER_POSTGRES, LEDGER_SQLITE)).await?;
    }
    let mut added = Components::NONE;
    for migration in of(wanted) {
        if apply(tx, migration).await? && migration.version == BASELINE {
            added = migration.component.map_or(added, |component| added.with(component));
        }
    }
    if tx.dialect() == Dialect::Postgres {
        super::row_security::raise(tx).await?;
    }
    Ok(MigrationOutcome { before, after: SCHEMA_VERSION, added })
}

/// Applies a migration unless it was; answers whether it did.
async fn apply(tx: &mut Tx, migration: &Migration) -> Result<bool> {
    let text = migration.text(tx.dialect());
    let checksum = digest::of([text.as_bytes()]);
    let row = tx.first(CHECKSUM, params![migration.component(), migration.version]).await?;
    if let Some(known) = row.map(|row| row.text(0)).transpose()? {
        return verify(migration, &known, &checksum).map(|()| false);
    }
    script(tx, text).await?;
    let row =
        params![migration.component(), migration.version, migration.name, checksum.as_str(), host_now()];
    tx.execute(RECORD, row).await?;
    Ok(true)
}

fn verify(migration: &Migration, known: &str, checksum: &str) -> Result<()> {
    if known == checksum {
        return Ok(());
    }
    Err(Error::Schema(format!(
        "migration {} ({} of {}) was applied to this database in another form; \
         this binary and the database do not belong together",
        migration.version,
        migration.name,
        migration.component()
    )))
}

async fn script(tx: &mut Tx, sql: &str) -> Result<()> {
    match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(tx) => tx.script(sql).await,
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(tx) => tx.script(sql),
    }
}

const LEDGER_POSTGRES: &str = "\
create schema if not exists punctual;
create table punctual.migration (
    component text not null, version int not null, name text not null, checksum text not null, \
    applied_at bigint not null,
    primary key (component, version)
);
";
const LEDGER_SQLITE: &str = "\
create table punctual_migration (
    component text not null, version integer not null, name text not null, checksum text not null, \
    applied_at integer not null,
    primary key (component, version)
);
";

statements! {
    /// Two that migrate at the same time do it one after the other.
    const LOCK for Postgres = "
        select pg_advisory_xact_lock(7822091354)
    ";

    const CHECKSUM = "
        select checksum
        from punctual.migration
        where component = $1 and version = $2
    ";

    const RECORD = "
        insert into punctual.migration (component, version, name, checksum, applied_at)
        values ($1, $2, $3, $4, $5)
    ";
}
