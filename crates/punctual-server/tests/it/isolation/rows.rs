//! All rows of the database, to show that what one tenant has stays as it was.

use super::THEIRS;
use crate::world::Base;
use punctual::testing::TemporaryStore;
use std::collections::BTreeMap;

/// Table by table: the other tenant's rows, or all where no column says whose they are.
#[derive(Debug)]
pub struct Rows(BTreeMap<String, (bool, Vec<String>)>);

/// Tables that may be empty: nothing in them is any tenant's, only retention writes them, or nothing writes
/// them yet (`entry_trace`).
const MAY_BE_EMPTY: [&str; 10] = [
    "channel_share",
    "clock",
    "early_receipt",
    "entry_key",
    "entry_trace",
    "handled_topic",
    "lease_floor",
    "migration",
    "resumption",
    "secret",
];

impl Rows {
    pub async fn of(place: &TemporaryStore, base: Base) -> Self {
        let (names, prefix) = match base {
            Base::Sqlite => (SQLITE, "punctual_"),
            Base::Postgres => (POSTGRES, "punctual."),
        };
        let tables = place.sql(&[names.to_owned()]).await.unwrap().remove(0);
        let tables: Vec<(String, bool)> =
            tables.into_iter().map(|row| (row[0].clone().unwrap(), row[1].as_deref() == Some("1"))).collect();
        assert!(tables.len() > 30, "only these tables were found: {tables:?}");
        let select = |(name, owned): &(String, bool)| match owned {
            true => format!(
                "select * from {prefix}{name} where tenant_id = \
                 (select t.id from {prefix}tenant t where t.slug = '{THEIRS}')"
            ),
            false => format!("select * from {prefix}{name}"),
        };
        let rows = place.sql(&tables.iter().map(select).collect::<Vec<_>>()).await.unwrap();
        let lines = rows.iter().map(|rows| {
            let mut lines: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            lines.sort();
            lines
        });
        Self(tables.into_iter().zip(lines).map(|((name, owned), lines)| (name, (owned, lines))).collect())
    }

    /// Fails for a table in which the other tenant has nothing: the test would not notice what goes
    /// there.
    pub fn hold_something_everywhere(&self) {
        let empty: Vec<&String> =
            self.0.iter().filter(|(_, (_, rows))| rows.is_empty()).map(|(n, _)| n).collect();
        let missed: Vec<_> =
            empty.into_iter().filter(|name| !MAY_BE_EMPTY.contains(&name.as_str())).collect();
        assert!(missed.is_empty(), "{THEIRS} has nothing in {missed:?}: make something in `seed.rs`");
    }

    /// Fails with what came to or went from the other tenant. Where no column says whose a row is, only what
    /// went can be told.
    pub fn stand_in(&self, later: &Self, what: &str) {
        for (table, (owned, before)) in &self.0 {
            let after = &later.0[table].1;
            let lost: Vec<_> = before.iter().filter(|row| !after.contains(row)).collect();
            assert!(lost.is_empty(), "{what} changed {table}, which lost {lost:#?}");
            let came: Vec<_> = after.iter().filter(|row| *owned && !before.contains(row)).collect();
            assert!(came.is_empty(), "{what} changed {table}, which gained {came:#?}");
        }
    }
}

const SQLITE: &str = "select substr(t.name, 10), exists (select 1 from pragma_table_info(t.name) c \
    where c.name = 'tenant_id') from sqlite_master t \
    where t.type = 'table' and substr(t.name, 1, 9) = 'punctual_' order by 1";
const POSTGRES: &str = "select c.relname, exists (select 1 from pg_attribute a \
    where a.attrelid = c.oid and a.attname = 'tenant_id')::int from pg_class c \
    where c.relnamespace = 'punctual'::regnamespace and c.relkind = 'r' order by 1";
