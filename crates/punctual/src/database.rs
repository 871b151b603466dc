//! The two databases behind one seam: drivers, dialect, transactions, values, migrations, row security, and
//! the places where tests make them fail.
//!
//! [`store::Store`] is the handle that every domain's verbs hang on. One public verb is one transaction; its
//! result is an outcome, not a row count. Statements are written once for both databases (see [`dialect`]); a
//! verb is an async function over a [`tx::Tx`]. No verb calls out to anything while its transaction is open.

pub mod clock;
pub mod columns;
pub mod components;
pub mod crash_points;
pub mod dialect;
pub mod fault;
pub mod migrate;
pub(crate) mod parts;
pub mod planted_bugs;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod row_security;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub(crate) mod statement;
pub mod store;
pub mod tx;
pub mod value;
pub mod wake;
