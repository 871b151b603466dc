//! A connection past the store, for tests that look at the tables themselves.

use crate::base::error::Result;
use crate::database::sqlite::{BUSY_PATIENCE, trouble};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::path::Path;

/// Runs each text for itself; one that begins with `select` gives its rows.
pub fn run(path: &Path, texts: &[String]) -> Result<Vec<Vec<Vec<Option<String>>>>> {
    let connection = Connection::open(path).map_err(trouble)?;
    connection.busy_timeout(BUSY_PATIENCE).map_err(trouble)?;
    texts.iter().map(|text| run_one(&connection, text).map_err(trouble)).collect()
}

/// Prepares a text of SQLite's, and runs nothing.
#[cfg(test)]
pub(crate) fn prepare(path: &Path, text: &str) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    rusqlite::vtab::array::load_module(&connection)?;
    connection.prepare(text).map(|_| ())
}

fn run_one(connection: &Connection, text: &str) -> rusqlite::Result<Vec<Vec<Option<String>>>> {
    if !text.trim_start().starts_with("select") {
        return connection.execute_batch(text).map(|()| Vec::new());
    }
    let mut statement = connection.prepare(text)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns).map(|n| row.get_ref(n).map(as_text)).collect::<rusqlite::Result<Vec<_>>>()
    })?;
    rows.collect()
}

fn as_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(v) => Some(v.to_string()),
        ValueRef::Real(v) => Some(v.to_string()),
        ValueRef::Text(v) | ValueRef::Blob(v) => Some(String::from_utf8_lossy(v).into_owned()),
    }
}
