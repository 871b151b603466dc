//! Which components a database has.
//!
//! A component is there when its tables are, whoever made them: a statement of one component that looks at
//! the tables of another, such as the pruning of messages at the entries that refer to them, goes by what the
//! database has, and not by what this process was asked to run. A component never goes, so what was seen once
//! is known from then on and costs nothing; one that was not there is looked for again, in the transaction
//! that wants to know, because another process may have added it meanwhile.
//!
//! A verb whose tables are not there fails in the database. The seam turns that error into
//! [`Error::MissingComponent`], so no verb can be forgotten.

use crate::base::component::{Component, Components};
use crate::base::error::{Error, Result};
use crate::database::migrate;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::Value;
use std::sync::atomic::{AtomicU8, Ordering};

/// The components that a database was seen to have.
#[derive(Debug, Default)]
pub(crate) struct KnownComponents(AtomicU8);

impl KnownComponents {
    fn seen(&self) -> Components {
        Components::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn add(&self, found: Components) {
        self.0.fetch_or(found.bits(), Ordering::Relaxed);
    }
}

impl Store {
    /// Returns the components that the database has the tables of. A database that is known to have all of
    /// them is not asked.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn components(&self) -> VerbFuture<'_, Components> {
        VerbFuture::new(async move {
            if self.part::<KnownComponents>().seen() == Components::ALL {
                return Ok(Components::ALL);
            }
            self.read((), |tx, ()| Box::pin(async move { tx.components().await })).await
        })
    }

    /// Remembers components that a committed transaction has made or found.
    pub(crate) fn remember_components(&self, found: Components) {
        self.part::<KnownComponents>().add(found);
    }
}

impl Tx {
    /// Returns the components that the database has the tables of.
    pub(crate) async fn components(&mut self) -> Result<Components> {
        self.components_beside(Components::ALL).await
    }

    /// Whether the database has the tables of a component.
    pub(crate) async fn has_component(&mut self, component: Component) -> Result<bool> {
        let wanted = Components::NONE.with(component);
        Ok(self.components_beside(wanted).await?.has(component))
    }

    /// Returns the components that the database has, and looks only if one of `wanted` was not seen before.
    pub(crate) async fn components_beside(&mut self, wanted: Components) -> Result<Components> {
        let known = self.part::<KnownComponents>();
        if known.seen().covers(wanted) {
            return Ok(known.seen());
        }
        let found = look(self).await?;
        known.add(found);
        Ok(found)
    }
}

/// Roles of tenants cannot read the table of migrations, but every role can read the catalogue.
async fn look(tx: &mut Tx) -> Result<Components> {
    let tables = Component::ALL.map(|component| tx.dialect().pick(marker(component).0, marker(component).1));
    let names = tables.map(Some);
    let rows = tx.query(tx.dialect().pick(LOOK_POSTGRES, LOOK_SQLITE), &[Value::Texts(&names)]).await?;
    let mut found = Components::NONE;
    for row in rows {
        let name = row.text(0)?;
        let component = tables.iter().position(|table| **table == name);
        found = component.map_or(found, |n| found.with(Component::ALL[n]));
    }
    Ok(found)
}

/// A table of the component, on PostgreSQL and on SQLite. A migration makes all tables of one or none.
const fn marker(component: Component) -> (&'static str, &'static str) {
    match component {
        Component::Access => ("api_key", "punctual_api_key"),
        Component::Outbox => ("message", "punctual_message"),
        Component::Inbox => ("inbox", "punctual_inbox"),
        Component::Leases => ("lease", "punctual_lease"),
        Component::Jobs => ("job", "punctual_job"),
        Component::Flows => ("entry", "punctual_entry"),
    }
}

statements! {
    const LOOK_POSTGRES for Postgres = "
        select relname::text
        from pg_catalog.pg_class
        where relnamespace = (select oid from pg_catalog.pg_namespace where nspname = 'punctual')
            and relkind = 'r'
            and relname::text = any($1::text[])
    ";

    const LOOK_SQLITE for Sqlite = "
        select name
        from sqlite_master
        where type = 'table' and name = any($1)
    ";
}

/// The error of a statement that named a table which is not there, if the table is a component's.
#[cfg(feature = "sqlite")]
pub(crate) fn missing_in_sqlite(message: &str) -> Option<Error> {
    message.contains("no such table").then(|| missing(message, "punctual_")).flatten()
}

/// The same on PostgreSQL. The server says it in its own language, but with the name of the table.
#[cfg(feature = "postgres")]
pub(crate) fn missing_in_postgres(code: &str, message: &str) -> Option<Error> {
    /// The code of an undefined table.
    const UNDEFINED_TABLE: &str = "42P01";
    (code == UNDEFINED_TABLE).then(|| missing(message, "punctual.")).flatten()
}

fn missing(message: &str, prefix: &str) -> Option<Error> {
    let (_, named) = message.split_once(prefix)?;
    let end = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(named.len());
    migrate::component_of(&named[..end]).map(Error::MissingComponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::dialect::Dialect;

    #[test]
    fn every_marker_is_a_table_of_its_component() {
        for component in Component::ALL {
            let (postgres, sqlite) = marker(component);
            assert_eq!(migrate::component_of(postgres), Some(component));
            assert_eq!(sqlite, format!("punctual_{postgres}"));
            let of_it = migrate::relations(Dialect::Sqlite, Components::NONE.with(component));
            assert!(of_it.iter().any(|relation| relation.name == sqlite), "{component}");
        }
    }

    #[test]
    fn a_missing_table_names_its_component() {
        let named = |error: Option<Error>| match error {
            Some(Error::MissingComponent(component)) => Some(component),
            _ => None,
        };
        #[cfg(feature = "postgres")]
        for (message, component) in [
            ("relation \"punctual.lease\" does not exist", Some(Component::Leases)),
            ("Relation »punctual.work« existiert nicht", Some(Component::Outbox)),
            ("relation \"punctual.clock\" does not exist", None),
            ("relation \"orders\" does not exist", None),
        ] {
            assert_eq!(named(missing_in_postgres("42P01", message)), component, "{message}");
            assert_eq!(named(missing_in_postgres("42703", message)), None, "{message}");
        }
        #[cfg(feature = "sqlite")]
        for (message, component) in [
            ("no such table: punctual_lease_floor", Some(Component::Leases)),
            ("no such table: main.punctual_run in select 1", Some(Component::Jobs)),
            ("no such table: orders", None),
            ("no such column: punctual_lease", None),
        ] {
            assert_eq!(named(missing_in_sqlite(message)), component, "{message}");
        }
    }
}
