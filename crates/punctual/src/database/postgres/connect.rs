//! Why there is no connection: which server, which database, and the cause.

use crate::base::error::{Error, Result, with_sources};
use deadpool_postgres::{Object, Pool, PoolError};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The port of a server that does not name one.
const PORT_DEFAULT: u16 = 5432;

/// No connection could be had.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {place}: {cause}")]
pub struct ConnectError {
    place: String,
    cause: String,
    source: PoolError,
}

/// Takes a connection from the pool, or makes one.
pub(crate) async fn connection(pool: &Pool, config: &Config) -> Result<Object> {
    pool.get().await.map_err(|source| {
        let cause = cause(&source);
        Error::Unavailable(ConnectError { place: place(config), cause, source }.into())
    })
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
        PoolError::Timeout(_) => "the server did not answer in time".to_owned(),
        PoolError::Backend(inner) => with_sources(inner),
        other => with_sources(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
