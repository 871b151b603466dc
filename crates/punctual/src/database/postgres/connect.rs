//! Errors of a server: which server, which database, and the cause.

use crate::base::error::{Error, ErrorSource, Result, with_sources};
use deadpool_postgres::{Object, Pool, PoolError};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The port of a server that does not name one.
const PORT_DEFAULT: u16 = 5432;
/// The cause when a time limit has passed.
pub(crate) const NO_ANSWER: &str = "the server did not answer in time";

/// No connection could be had.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {place}: {cause}")]
pub struct ConnectError {
    place: String,
    cause: String,
}

impl ConnectError {
    /// Describes why the server cannot be reached.
    pub(crate) fn new(config: &Config, cause: impl Into<String>) -> Self {
        Self { place: place(config), cause: cause.into() }
    }
}

/// A server refused something, or its connection broke.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct ServerError {
    place: String,
    cause: String,
}

/// Names the server in an error that does not name it yet.
pub(crate) fn at_server(config: &Config, error: Error) -> Error {
    let named = |source: ErrorSource| -> ErrorSource {
        if source.is::<ConnectError>() || source.is::<ServerError>() {
            return source;
        }
        let cause = match source.downcast_ref::<tokio_postgres::Error>() {
            Some(error) => driver_cause(error),
            None => with_sources(&*source),
        };
        ServerError { place: place(config), cause }.into()
    };
    match error {
        Error::Unavailable(source) => Error::Unavailable(named(source)),
        Error::Unknown(source) => Error::Unknown(named(source)),
        Error::Database(source) => Error::Database(named(source)),
        other => other,
    }
}

/// Takes a connection from the pool, or makes one.
pub(crate) async fn connection(pool: &Pool, config: &Config) -> Result<Object> {
    pool.get().await.map_err(|source| Error::Unavailable(ConnectError::new(config, cause(&source)).into()))
}

/// The server and the database, without the password.
fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |n: usize| ports.get(n).or_else(|| ports.first()).copied().unwrap_or(PORT_DEFAULT);
    let host = |(n, host): (usize, &Host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(n)),
        #[cfg(unix)]
        Host::Unix(folder) => format!("{}:{}", folder.display(), port(n)),
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or("postgres");
    format!("PostgreSQL at {}, database \"{database}\"", hosts.join(", "))
}

/// The innermost causes, which say more than the pool does.
fn cause(error: &PoolError) -> String {
    match error {
        PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
            "all connections of the pool are in use; raise pool_size, or the server is too slow".to_owned()
        }
        PoolError::Timeout(_) => NO_ANSWER.to_owned(),
        PoolError::Backend(inner) => driver_cause(inner),
        other => with_sources(other),
    }
}

/// The cause in the driver's error, which itself only says `db error` of what the server refused. The
/// server's detail may show a row, so it is left out.
pub(crate) fn driver_cause(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refused) => {
            format!("{}: {} (SQLSTATE {})", refused.severity(), refused.message(), refused.code().code())
        }
        None => with_sources(error),
    }
}

/// Connection trouble, shutting down, out of resources, a disk that fails, a read-only server, and a
/// transaction that was ended because it said nothing for too long.
pub(crate) fn is_unavailable(code: &str) -> bool {
    ["08", "57P", "53", "58030", "25006", "25P03"].iter().any(|class| code.starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRD-9: an error of an open connection names the server once.
    #[test]
    fn prd_9_an_error_of_a_connection_names_its_server() {
        let config: Config = "postgres://anna:hush@db.example:6543/shop".parse().unwrap();
        let named = at_server(&config, Error::Unavailable("connection closed".into()));
        let want = "the database is not available: PostgreSQL at db.example:6543, database \"shop\": \
                    connection closed";
        assert_eq!(named.to_string(), want);
        assert_eq!(at_server(&config, named).to_string(), want);
    }

    #[test]
    fn a_place_has_no_password() {
        for (url, want) in [
            ("postgres://anna:hush@db.example:6543/shop", "PostgreSQL at db.example:6543, database \"shop\""),
            ("postgres://anna:hush@a,b:2/shop", "PostgreSQL at a:5432, b:2, database \"shop\""),
            ("postgres://anna@localhost", "PostgreSQL at localhost:5432, database \"anna\""),
        ] {
            assert_eq!(place(&url.parse().unwrap()), want);
        }
    }
}
