//! PLT-17: completing inside the host's own transaction, the same cases for every driver.

use crate::outbox::hosts::{Host, ORDERS, sqlx_sqlite_connection, tokio_postgres_client};
use ::tokio_postgres::types::ToSql;
use punctual::database::dialect::Dialect;
use punctual::queue::inbox;
use punctual::queue::inbox::Completion;
use punctual::queue::outbox::{Param, Statement};
use punctual::queue::rules::inbox::InboxStatus;
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxFilter, InboxTicket, ProcessingOutcome};
use punctual::queue::store::settle::SettleOutcome;
use punctual::testing::{Backend, TemporaryStore};
use punctual::{Error, InboxDelivery, Result, Tenant};
use sqlx::Connection;
use std::time::Duration;

/// Every case on every host: `inbox::hosts::rusqlite::…`, `inbox::hosts::sqlx_postgres::…`.
macro_rules! on_every_host {
    ($($case:ident)*) => {
        on_every_host! { @host rusqlite Rusqlite; $($case)* }
        on_every_host! { @host sqlx_sqlite SqlxSqlite; $($case)* }
        on_every_host! { @host any_sqlite AnySqlite; $($case)* }
        on_every_host! { @host tokio_postgres TokioPostgres; $($case)* }
        on_every_host! { @host sqlx_postgres SqlxPostgres; $($case)* }
        on_every_host! { @host any_postgres AnyPostgres; $($case)* }
    };
    (@host $module:ident $host:ident; $($case:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $case() {
                    let host = super::Host::$host;
                    let place = punctual::testing::TemporaryStore::new(host.backend()).await.unwrap();
                    place.sql(&[super::ORDERS.to_owned()]).await.unwrap();
                    super::$case(host, &place).await;
                }
            )*
        }
    };
}

on_every_host! {
    plt_17_effect_and_mark_commit_together
    plt_17_what_is_rolled_back_is_not_processed
    plt_17_a_stale_ticket_is_told_so_that_the_host_rolls_back
}

const EFFECT: &str = "insert into orders (id) values (1)";

/// What the host does between the effect and the end of its transaction.
#[derive(Clone, Copy, PartialEq)]
enum Crash {
    No,
    Yes,
}

/// Writes an order and completes the message, in one transaction that is rolled back when
/// the ticket is refused, as `?` would have it.
async fn effect(host: Host, url: &str, ticket: &InboxTicket, crash: Crash) -> Result<()> {
    match host {
        Host::Rusqlite | Host::AnySqlite => effect_on_rusqlite(host, url, ticket, crash),
        Host::SqlxSqlite => {
            let mut connection = sqlx_sqlite_connection(url).await;
            let mut tx = connection.begin_with("begin immediate").await.unwrap();
            sqlx::query(EFFECT).execute(&mut *tx).await.unwrap();
            let result = inbox::sqlx_sqlite::complete(&mut tx, Tenant::DEFAULT, ticket).await;
            if result.is_ok() && crash == Crash::No {
                tx.commit().await.unwrap();
            }
            result
        }
        Host::SqlxPostgres => {
            let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
            let mut tx = connection.begin().await.unwrap();
            sqlx::query(EFFECT).execute(&mut *tx).await.unwrap();
            let result = inbox::sqlx_postgres::complete(&mut tx, Tenant::DEFAULT, ticket).await;
            if result.is_ok() && crash == Crash::No {
                tx.commit().await.unwrap();
            }
            result
        }
        Host::TokioPostgres | Host::AnyPostgres => {
            let mut client = tokio_postgres_client(url).await;
            let tx = client.transaction().await.unwrap();
            tx.batch_execute(EFFECT).await.unwrap();
            let result = if matches!(host, Host::TokioPostgres) {
                inbox::tokio_postgres::complete(&tx, Tenant::DEFAULT, ticket).await
            } else {
                any_postgres(&tx, ticket).await
            };
            if result.is_ok() && crash == Crash::No {
                tx.commit().await.unwrap();
            }
            result
        }
    }
}

fn effect_on_rusqlite(host: Host, url: &str, ticket: &InboxTicket, crash: Crash) -> Result<()> {
    let mut connection = ::rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    let tx = connection.transaction_with_behavior(::rusqlite::TransactionBehavior::Immediate).unwrap();
    tx.execute(EFFECT, []).unwrap();
    if matches!(host, Host::Rusqlite) {
        inbox::rusqlite::complete(&tx, Tenant::DEFAULT, ticket)?;
    } else {
        any_sqlite(&tx, ticket)?;
    }
    if crash == Crash::No {
        tx.commit().unwrap();
    }
    Ok(())
}

/// Only what any driver has: a text, integers and texts, and a number of rows.
fn any_sqlite(tx: &::rusqlite::Connection, ticket: &InboxTicket) -> Result<()> {
    let completion = Completion::new(Tenant::DEFAULT, ticket);
    let Statement { sql, params } = completion.statement(Dialect::Sqlite);
    let params = params.into_iter().map(|p| match p {
        Param::Int(v) => ::rusqlite::types::Value::from(v),
        Param::Text(v) => ::rusqlite::types::Value::from(v),
    });
    let mut prepared = tx.prepare(sql).unwrap();
    let rows = prepared.query_map(::rusqlite::params_from_iter(params), |_| Ok(())).unwrap().count();
    completion.outcome(rows)
}

async fn any_postgres(tx: &::tokio_postgres::Transaction<'_>, ticket: &InboxTicket) -> Result<()> {
    let completion = Completion::new(Tenant::DEFAULT, ticket);
    let Statement { sql, params } = completion.statement(Dialect::Postgres);
    let params: Vec<&(dyn ToSql + Sync)> = params
        .iter()
        .map(|p| match p {
            Param::Int(v) => v as &(dyn ToSql + Sync),
            Param::Text(v) => v,
        })
        .collect();
    completion.outcome(tx.query(sql, &params).await.unwrap().len())
}

async fn begin(place: &TemporaryStore) -> InboxBeginOutcome {
    let delivery = InboxDelivery::new("shop", "7").lease(Duration::from_secs(30));
    place.store().begin_inbox(Tenant::DEFAULT, delivery).await.unwrap()
}

async fn ticket(place: &TemporaryStore) -> InboxTicket {
    match begin(place).await {
        InboxBeginOutcome::Process { ticket, .. } => ticket,
        other => panic!("it should be processed, but {other:?}"),
    }
}

async fn orders(place: &TemporaryStore) -> usize {
    place.sql(&["select id from orders".to_owned()]).await.unwrap()[0].len()
}

/// PLT-17: at the authority's time, which here is set by hand.
async fn plt_17_effect_and_mark_commit_together(host: Host, place: &TemporaryStore) {
    let ticket = ticket(place).await;
    effect(host, place.url(), &ticket, Crash::No).await.unwrap();
    assert_eq!(orders(place).await, 1);
    assert_eq!(begin(place).await, InboxBeginOutcome::AlreadyProcessed { attempts: 1 });
    let row = place.store().inbox(Tenant::DEFAULT, InboxFilter::default(), 1).await.unwrap().remove(0);
    assert_eq!((row.status, row.finished_at), (InboxStatus::Processed, Some(TemporaryStore::START)));
    let again =
        place.store().mark_inbox(Tenant::DEFAULT, ticket, ProcessingOutcome::Processed).await.unwrap();
    assert_eq!(again, SettleOutcome::AlreadyFinished);
}

/// PLT-17: neither the effect is there nor the mark, and the ticket still holds.
async fn plt_17_what_is_rolled_back_is_not_processed(host: Host, place: &TemporaryStore) {
    let ticket = ticket(place).await;
    effect(host, place.url(), &ticket, Crash::Yes).await.unwrap();
    assert_eq!(orders(place).await, 0);
    assert_eq!(begin(place).await, InboxBeginOutcome::InProgress { attempts: 1 });
    effect(host, place.url(), &ticket, Crash::No).await.unwrap();
    assert_eq!(orders(place).await, 1);
    assert_eq!(begin(place).await, InboxBeginOutcome::AlreadyProcessed { attempts: 1 });
}

/// PLT-17: taken by another delivery, finished, or never begun.
async fn plt_17_a_stale_ticket_is_told_so_that_the_host_rolls_back(host: Host, place: &TemporaryStore) {
    let stale = ticket(place).await;
    place.advance(Duration::from_secs(30)).await.unwrap();
    let own = ticket(place).await;
    let refused = |result: Result<()>| {
        let said = result.unwrap_err();
        assert!(matches!(&said, Error::Conflict(text) if text.contains("roll back")), "{said}");
    };
    refused(effect(host, place.url(), &stale, Crash::No).await);
    assert_eq!(orders(place).await, 0, "rolled back");
    assert_eq!(begin(place).await, InboxBeginOutcome::InProgress { attempts: 2 }, "nothing has changed");
    effect(host, place.url(), &own, Crash::No).await.unwrap();
    refused(effect(host, place.url(), &own, Crash::No).await);
    refused(effect(host, place.url(), &InboxTicket { message_id: "8".into(), ..own }, Crash::No).await);
    assert_eq!(orders(place).await, 1, "one effect");
}

/// PLT-17: while the host's transaction is open, a delivery does not wait for it.
#[tokio::test]
async fn plt_17_a_delivery_does_not_wait_for_a_host_that_completes() {
    let place = TemporaryStore::new(Backend::Postgres).await.unwrap();
    let ticket = ticket(&place).await;
    let mut client = tokio_postgres_client(place.url()).await;
    let tx = client.transaction().await.unwrap();
    inbox::tokio_postgres::complete(&tx, Tenant::DEFAULT, &ticket).await.unwrap();
    place.advance(Duration::from_secs(60)).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(10), begin(&place)).await;
    assert_eq!(
        told.expect("an answer"),
        InboxBeginOutcome::InProgress { attempts: 1 },
        "although its lease has ended"
    );
    tx.commit().await.unwrap();
    assert_eq!(begin(&place).await, InboxBeginOutcome::AlreadyProcessed { attempts: 1 });
}
