//! SQL statements: named constants, each of them prepared by a test on every database that runs it.
//!
//! [`statements!`] is the only place of the engine where a statement stands; `xtask tidy` refuses SQL in the
//! body of a function. A statement becomes a constant and, in a test build, a test of its own with its name:
//! `queue::store::claims::TAKE::prepares`. So a new statement cannot be forgotten. The test proves that the
//! statement parses, that its tables and columns exist and that its parameters have types; it does not prove
//! what the statement does, nor that the caller binds its parameters in the right order.
//!
//! The layout of statements is described in `docs/adr/0002-statements.md`.

/// Declares statements.
///
/// A statement for one database alone says which: `const SEEK for Postgres = "…";`. Pieces that several
/// statements share are macros that return text, between commas: `const LIST = "select ", columns!(), "…";`.
macro_rules! statements {
    ($(
        $(#[$meta:meta])*
        $visibility:vis const $name:ident $(for $dialect:ident)? = $($piece:expr),+ ;
    )+) => { $(
        $(#[$meta])*
        $visibility const $name: &str = concat!($($piece),+);

        #[cfg(test)]
        #[allow(non_snake_case, reason = "the test has the name of its statement")]
        mod $name {
            #[test]
            fn prepares() {
                let only = &[$($crate::database::dialect::Dialect::$dialect)?];
                $crate::database::statement::prepared::check(super::$name, only);
            }
        }
    )+ };
}
pub(crate) use statements;

/// One migrated database of each sort, for all tests of one process.
#[cfg(test)]
pub(crate) mod prepared {
    use crate::database::dialect::{Dialect, for_sqlite};
    use crate::database::postgres::direct_connection::DirectConnection;
    use crate::database::sqlite::direct;
    use crate::testing::place::{Backend, TestDatabase};
    use std::sync::LazyLock;
    use tokio::runtime::Runtime;

    struct Databases {
        sqlite: TestDatabase,
        /// In the runtime that drives its connection.
        postgres: (Runtime, DirectConnection),
        _place: TestDatabase,
    }

    static DATABASES: LazyLock<Databases> = LazyLock::new(|| {
        let runtime = Runtime::new().expect("a runtime starts");
        let sqlite = runtime.block_on(TestDatabase::migrated(Backend::Sqlite)).expect("SQLite is migrated");
        let place =
            runtime.block_on(TestDatabase::migrated(Backend::Postgres)).expect("PostgreSQL is migrated");
        let direct = runtime.block_on(DirectConnection::connect(place.url())).expect("PostgreSQL answers");
        Databases { sqlite, postgres: (runtime, direct), _place: place }
    });

    /// Panics unless the statement can be prepared on these databases, or on all when none is named.
    #[track_caller]
    pub(crate) fn check(sql: &str, only: &[Dialect]) {
        let all = [Dialect::Postgres, Dialect::Sqlite];
        for dialect in if only.is_empty() { &all } else { only } {
            if let Err(error) = prepare(sql, *dialect) {
                panic!("{dialect:?} cannot prepare this statement: {error}\n{sql}");
            }
        }
    }

    fn prepare(sql: &str, dialect: Dialect) -> Result<(), String> {
        match dialect {
            Dialect::Postgres => {
                let (runtime, direct) = &DATABASES.postgres;
                runtime.block_on(direct.prepare(sql)).map_err(|error| error.to_string())
            }
            Dialect::Sqlite => {
                let path = DATABASES.sqlite.url().trim_start_matches("sqlite:");
                direct::prepare(path.as_ref(), &for_sqlite(sql)).map_err(|error| error.to_string())
            }
        }
    }

    #[test]
    fn a_statement_that_names_a_missing_column_is_caught() {
        let wrong = "
            select no_such_column
            from punctual.message
        ";
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            let error = prepare(wrong, dialect).expect_err("the column does not exist");
            assert!(error.contains("no_such_column"), "{dialect:?} names the column: {error}");
        }
    }

    #[test]
    fn a_statement_is_prepared_on_both_databases_unless_it_says_which() {
        let of_sqlite = "select name from sqlite_master";
        check(of_sqlite, &[Dialect::Sqlite]);
        let caught = std::panic::catch_unwind(|| check(of_sqlite, &[]));
        assert!(caught.is_err(), "PostgreSQL has no sqlite_master");
    }
}
