//! Hosts: applications with a transaction of their own, one for each driver.

use punctual::database::dialect::Dialect;
use punctual::queue::outbox;
use punctual::queue::outbox::{AdmittedId, EnqueueBatch, InsertedMessage, Param, Statement};
use punctual::testing::Backend;
use punctual::{EnqueueOutcome, Error, NewMessage, Result, Tenant};
use sqlx::{Connection, Row};
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;

/// What the host's transaction writes besides messages.
const ORDER: &str = "insert into orders (id) values (1)";
pub const ORDERS: &str = "create table orders (id int not null)";

/// How the host's transaction ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Commit,
    RollBack,
}

/// A host, named by how it enqueues.
#[derive(Clone, Copy, Debug)]
pub enum Host {
    Rusqlite,
    SqlxSqlite,
    AnySqlite,
    TokioPostgres,
    SqlxPostgres,
    AnyPostgres,
}

impl Host {
    pub fn backend(self) -> Backend {
        match self {
            Self::Rusqlite | Self::SqlxSqlite | Self::AnySqlite => Backend::Sqlite,
            Self::TokioPostgres | Self::SqlxPostgres | Self::AnyPostgres => Backend::Postgres,
        }
    }

    /// Writes an order and messages in one transaction. When the messages are refused, the
    /// transaction still ends as it was asked to.
    pub async fn transact(self, url: &str, messages: &[NewMessage], end: End) -> Result<Vec<EnqueueOutcome>> {
        match self {
            Self::Rusqlite => rusqlite_host(url, messages, end, outbox::rusqlite::enqueue),
            Self::AnySqlite => rusqlite_host(url, messages, end, any_sqlite),
            Self::SqlxSqlite => sqlx_sqlite(url, messages, end).await,
            Self::TokioPostgres => tokio_postgres_host(url, messages, end).await,
            Self::SqlxPostgres => sqlx_postgres(url, messages, end).await,
            Self::AnyPostgres => any_postgres(url, messages, end).await,
        }
    }
}

type Enqueuer = fn(&rusqlite::Connection, Tenant, &[NewMessage]) -> Result<Vec<EnqueueOutcome>>;

fn rusqlite_host(
    url: &str,
    messages: &[NewMessage],
    end: End,
    enqueue: Enqueuer,
) -> Result<Vec<EnqueueOutcome>> {
    let mut connection = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    tx.execute(ORDER, []).unwrap();
    let result = enqueue(&tx, Tenant::DEFAULT, messages);
    match end {
        End::Commit => tx.commit().unwrap(),
        End::RollBack => tx.rollback().unwrap(),
    }
    result
}

/// Only what any driver has: a text, integers and texts, rows.
fn any_sqlite(
    tx: &rusqlite::Connection,
    tenant: Tenant,
    messages: &[NewMessage],
) -> Result<Vec<EnqueueOutcome>> {
    fn rows<T>(
        tx: &rusqlite::Connection,
        statement: &Statement,
        read: impl Fn(&rusqlite::Row<'_>) -> T,
    ) -> Vec<T> {
        let params = statement.params.iter().map(|p| match p {
            Param::Int(v) => rusqlite::types::Value::from(*v),
            Param::Text(v) => rusqlite::types::Value::from(v.clone()),
        });
        let mut prepared = tx.prepare(statement.sql).unwrap();
        let rows = prepared.query_map(rusqlite::params_from_iter(params), |row| Ok(read(row))).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }
    let enqueue = EnqueueBatch::new(tenant, messages)?;
    let mut written = Vec::new();
    for statement in enqueue.statements(Dialect::Sqlite) {
        written.extend(rows(tx, &statement, |row| InsertedMessage {
            id: row.get("id").unwrap(),
            source: row.get("source").unwrap(),
            external_id: row.get("external_id").unwrap(),
        }));
    }
    let known = enqueue.duplicates(Dialect::Sqlite, &written).map(|statement| {
        rows(tx, &statement, |row| AdmittedId {
            source: row.get(0).unwrap(),
            external_id: row.get(1).unwrap(),
            digest: row.get(2).unwrap(),
            message_id: row.get(3).unwrap(),
        })
    });
    enqueue.outcome(&written, &known.unwrap_or_default())
}

pub async fn sqlx_sqlite_connection(url: &str) -> sqlx::SqliteConnection {
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(url.strip_prefix("sqlite:").unwrap());
    sqlx::SqliteConnection::connect_with(&file).await.unwrap()
}

async fn sqlx_sqlite(url: &str, messages: &[NewMessage], end: End) -> Result<Vec<EnqueueOutcome>> {
    let mut connection = sqlx_sqlite_connection(url).await;
    let mut tx = connection.begin_with("begin immediate").await.unwrap();
    sqlx::query(ORDER).execute(&mut *tx).await.unwrap();
    let result = outbox::sqlx_sqlite::enqueue(&mut tx, Tenant::DEFAULT, messages).await;
    match end {
        End::Commit => tx.commit().await.unwrap(),
        End::RollBack => tx.rollback().await.unwrap(),
    }
    result
}

async fn sqlx_postgres(url: &str, messages: &[NewMessage], end: End) -> Result<Vec<EnqueueOutcome>> {
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    sqlx::query(ORDER).execute(&mut *tx).await.unwrap();
    let result = outbox::sqlx_postgres::enqueue(&mut tx, Tenant::DEFAULT, messages).await;
    match end {
        End::Commit => tx.commit().await.unwrap(),
        End::RollBack => tx.rollback().await.unwrap(),
    }
    connection.close().await.unwrap();
    result
}

/// A connection whose every statement must end within two seconds.
pub async fn tokio_postgres_client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set statement_timeout = '2s'").await.unwrap();
    client
}

async fn tokio_postgres_host(url: &str, messages: &[NewMessage], end: End) -> Result<Vec<EnqueueOutcome>> {
    let mut client = tokio_postgres_client(url).await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute(ORDER).await.unwrap();
    let result = outbox::tokio_postgres::enqueue(&tx, Tenant::DEFAULT, messages).await;
    match end {
        End::Commit => tx.commit().await.unwrap(),
        End::RollBack => tx.rollback().await.unwrap(),
    }
    result
}

/// Prepared statements with types that the server infers, and no transaction object.
async fn any_postgres(url: &str, messages: &[NewMessage], end: End) -> Result<Vec<EnqueueOutcome>> {
    let client = tokio_postgres_client(url).await;
    client.batch_execute("begin").await.unwrap();
    client.batch_execute(ORDER).await.unwrap();
    let result = any_postgres_statements(&client, messages).await;
    client.batch_execute(if end == End::Commit { "commit" } else { "rollback" }).await.unwrap();
    result
}

async fn any_postgres_statements(
    client: &tokio_postgres::Client,
    messages: &[NewMessage],
) -> Result<Vec<EnqueueOutcome>> {
    let enqueue = EnqueueBatch::new(Tenant::DEFAULT, messages)?;
    let mut written = Vec::new();
    for statement in enqueue.statements(Dialect::Postgres) {
        for row in any_rows(client, &statement).await? {
            written.push(InsertedMessage {
                id: row.get("id"),
                source: row.get("source"),
                external_id: row.get("external_id"),
            });
        }
    }
    let mut known = Vec::new();
    if let Some(statement) = enqueue.duplicates(Dialect::Postgres, &written) {
        for row in any_rows(client, &statement).await? {
            let (source, external_id, digest) = (row.get(0), row.get(1), row.get(2));
            known.push(AdmittedId { source, external_id, digest, message_id: row.get(3) });
        }
    }
    enqueue.outcome(&written, &known)
}

async fn any_rows(
    client: &tokio_postgres::Client,
    statement: &Statement,
) -> Result<Vec<tokio_postgres::Row>> {
    let params: Vec<&(dyn ToSql + Sync)> = statement
        .params
        .iter()
        .map(|p| match p {
            Param::Int(v) => v as &(dyn ToSql + Sync),
            Param::Text(v) => v,
        })
        .collect();
    client.query(statement.sql, &params).await.map_err(|e| Error::Database(e.into()))
}

/// How many rows a sqlx connection sees.
pub async fn sqlx_sqlite_count(connection: &mut sqlx::SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(connection).await.unwrap().get(0)
}
