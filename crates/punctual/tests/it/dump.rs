//! All rows of all tables, to show that nothing changed.

use punctual::testing::place::Rows;
use punctual::testing::{Backend, TemporaryStore};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Table by table, the rows in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump(BTreeMap<String, Vec<String>>);

impl Dump {
    /// Reads every table.
    pub async fn of(place: &TemporaryStore, backend: Backend) -> Self {
        let names = match backend {
            Backend::Sqlite => {
                "select name from sqlite_master where type = 'table' and name like 'punctual_%'"
            }
            Backend::Postgres => {
                "select 'punctual.' || tablename from pg_tables where schemaname = 'punctual'"
            }
        };
        let tables: Vec<String> = first_column(&place.sql(&[names.to_owned()]).await.unwrap()[0]);
        assert!(tables.len() > 10, "the dump reads only {tables:?}");
        let all: Vec<String> = tables.iter().map(|t| format!("select * from {t}")).collect();
        let rows = place.sql(&all).await.unwrap();
        Self(tables.into_iter().zip(rows.iter().map(lines)).collect())
    }

    /// Fails with the rows that came and went.
    #[track_caller]
    pub fn assert_equals(&self, later: &Self, what: &str) {
        let mut said = String::new();
        for (table, before) in &self.0 {
            let after = &later.0[table];
            for row in before.iter().filter(|row| !after.contains(row)) {
                writeln!(said, "  {table} lost   {row}").unwrap();
            }
            for row in after.iter().filter(|row| !before.contains(row)) {
                writeln!(said, "  {table} gained {row}").unwrap();
            }
        }
        assert!(said.is_empty(), "{what} should change nothing, but\n{said}");
        assert_eq!(self, later, "{what} should change nothing");
    }
}

fn lines(rows: &Rows) -> Vec<String> {
    let mut lines: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    lines.sort();
    lines
}

/// The first value of each row.
pub fn first_column(rows: &Rows) -> Vec<String> {
    rows.iter().map(|row| row[0].clone().unwrap()).collect()
}
