//! Many rows in one statement: columns on Postgres, row after row on SQLite.
//!
//! On Postgres the columns travel as arrays behind the shared parameters, and the statement unnests
//! them: `select unnest($1), unnest($2)` goes through its arrays side by side, where `from unnest($1, $2)`
//! would first write each of them into a store of its own. On SQLite the statement is prepared once and run
//! for each row, with the row's cells behind the shared parameters. The two texts stand side by side where
//! they are used.

use crate::base::error::Result;
use crate::database::dialect::Dialect;
use crate::database::tx::Tx;
use crate::database::value::{Row, Value};

/// One column of rows that go in together.
#[derive(Debug)]
pub(crate) enum Column<'a> {
    Ints(Vec<i64>),
    MaybeInts(Vec<Option<i64>>),
    Texts(Vec<Option<&'a str>>),
}

impl Column<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Ints(all) => all.len(),
            Self::MaybeInts(all) => all.len(),
            Self::Texts(all) => all.len(),
        }
    }

    fn whole(&self) -> Value<'_> {
        match self {
            Self::Ints(all) => Value::Ints(all),
            Self::MaybeInts(all) => Value::MaybeInts(all),
            Self::Texts(all) => Value::Texts(all),
        }
    }

    fn cell(&self, row: usize) -> Value<'_> {
        match self {
            Self::Ints(all) => all[row].into(),
            Self::MaybeInts(all) => all[row].into(),
            Self::Texts(all) => all[row].into(),
        }
    }
}

impl Tx {
    /// The integers of a column of a result. On Postgres the statement aggregates them into one list, which
    /// is much cheaper to send and to read than a row for each; on SQLite each has its row.
    pub(crate) fn listed(&self, rows: &[Row], column: usize) -> Result<Vec<i64>> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => rows.first().map_or_else(|| Ok(Vec::new()), |row| row.ints(column)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => rows.iter().map(|row| row.int(column)).collect(),
        }
    }

    /// Runs a statement for all rows of these columns; the results are in the order of the rows on SQLite and
    /// in any order on Postgres.
    pub(crate) async fn in_columns(
        &mut self,
        (postgres, sqlite): (&'static str, &'static str),
        shared: &[Value<'_>],
        columns: &[Column<'_>],
    ) -> Result<Vec<Row>> {
        let count = columns.first().map_or(0, Column::len);
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.dialect() == Dialect::Postgres {
            let all: Vec<Value<'_>> =
                shared.iter().copied().chain(columns.iter().map(Column::whole)).collect();
            return self.query(postgres, &all).await;
        }
        let rows: Vec<Vec<Value<'_>>> = (0..count)
            .map(|n| shared.iter().copied().chain(columns.iter().map(|column| column.cell(n))).collect())
            .collect();
        Ok(self.each(sqlite, &rows).await?.into_iter().flatten().collect())
    }
}
