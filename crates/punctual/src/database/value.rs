//! The parameters and rows of statements, without naming a driver.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};

/// One parameter. Borrowed, so that a batch of payloads is never copied on its way in.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// SQL null.
    Null,
    /// Any integer column.
    Int(i64),
    /// A text column.
    Text(&'a str),
    /// A list of integers: an array on Postgres, a table of its own on SQLite.
    Ints(&'a [i64]),
    /// A list of texts, some of them null.
    Texts(&'a [Option<&'a str>]),
    /// A list of integers, some of them null.
    MaybeInts(&'a [Option<i64>]),
}

impl From<i64> for Value<'_> {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(v: Option<i64>) -> Self {
        v.map_or(Self::Null, Self::Int)
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(v: Timestamp) -> Self {
        Self::Int(v.as_micros())
    }
}

impl From<Option<Timestamp>> for Value<'_> {
    fn from(v: Option<Timestamp>) -> Self {
        v.map_or(Self::Null, Into::into)
    }
}

impl From<bool> for Value<'_> {
    fn from(v: bool) -> Self {
        Self::Int(i64::from(v))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(v: &'a str) -> Self {
        Self::Text(v)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(v: &'a String) -> Self {
        Self::Text(v)
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(v: Option<&'a str>) -> Self {
        v.map_or(Self::Null, Self::Text)
    }
}

/// Builds a parameter list: `params![tenant.id(), topic, now]`.
macro_rules! params {
    ($($v:expr),* $(,)?) => { &[$($crate::database::value::Value::from($v)),*] };
}
pub(crate) use params;

/// One value that came back from SQLite.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// SQL null.
    Null,
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
}

/// One row. The columns are read by position, in the order the statement names them.
#[derive(Debug)]
pub enum Row {
    /// A row in the driver's own form, decoded on demand.
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Row),
    /// Cells that were read on the database's thread.
    Cells(Vec<Cell>),
}

impl Row {
    /// An integer that may be null.
    pub fn maybe_int(&self, n: usize) -> Result<Option<i64>> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => super::postgres::int(row, n),
            Self::Cells(cells) => match cells.get(n) {
                Some(Cell::Int(v)) => Ok(Some(*v)),
                Some(Cell::Null) => Ok(None),
                other => Err(unexpected(n, "an integer", other)),
            },
        }
    }

    /// An integer.
    pub fn int(&self, n: usize) -> Result<i64> {
        self.maybe_int(n)?.ok_or_else(|| unexpected(n, "an integer", Some(&Cell::Null)))
    }

    /// A list of integers, which only Postgres returns.
    #[cfg(feature = "postgres")]
    pub fn maybe_ints(&self, n: usize) -> Result<Option<Vec<i64>>> {
        match self {
            Self::Postgres(row) => super::postgres::ints(row, n),
            Self::Cells(cells) => Err(unexpected(n, "a list of integers", cells.get(n))),
        }
    }

    /// A list of integers, empty for null.
    #[cfg(feature = "postgres")]
    pub fn ints(&self, n: usize) -> Result<Vec<i64>> {
        Ok(self.maybe_ints(n)?.unwrap_or_default())
    }

    /// A small count.
    pub fn count(&self, n: usize) -> Result<u32> {
        Ok(u32::try_from(self.int(n)?).unwrap_or(0))
    }

    /// A moment.
    pub fn time(&self, n: usize) -> Result<Timestamp> {
        self.int(n).map(Timestamp::from_micros)
    }

    /// A moment that may be null.
    pub fn maybe_time(&self, n: usize) -> Result<Option<Timestamp>> {
        Ok(self.maybe_int(n)?.map(Timestamp::from_micros))
    }

    /// A yes or no.
    pub fn flag(&self, n: usize) -> Result<bool> {
        Ok(self.int(n)? != 0)
    }

    /// A text that may be null.
    pub fn maybe_text(&self, n: usize) -> Result<Option<String>> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => super::postgres::text(row, n),
            Self::Cells(cells) => match cells.get(n) {
                Some(Cell::Text(v)) => Ok(Some(v.clone())),
                Some(Cell::Null) => Ok(None),
                other => Err(unexpected(n, "a text", other)),
            },
        }
    }

    /// A text.
    pub fn text(&self, n: usize) -> Result<String> {
        self.maybe_text(n)?.ok_or_else(|| unexpected(n, "a text", Some(&Cell::Null)))
    }
}

impl Row {
    /// A text that may be null, moved out of the row.
    pub fn take_maybe_text(&mut self, n: usize) -> Result<Option<String>> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => super::postgres::text(row, n),
            Self::Cells(cells) => match cells.get_mut(n).map(|cell| std::mem::replace(cell, Cell::Null)) {
                Some(Cell::Text(v)) => Ok(Some(v)),
                Some(Cell::Null) => Ok(None),
                other => Err(unexpected(n, "a text", other.as_ref())),
            },
        }
    }

    /// A text, moved out of the row.
    pub fn take_text(&mut self, n: usize) -> Result<String> {
        self.take_maybe_text(n)?.ok_or_else(|| unexpected(n, "a text", Some(&Cell::Null)))
    }
}

fn unexpected(n: usize, wanted: &str, got: Option<&Cell>) -> Error {
    Error::Database(format!("column {n} should be {wanted} but is {got:?}").into())
}
