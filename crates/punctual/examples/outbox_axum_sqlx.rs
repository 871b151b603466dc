//! A shop on axum and sqlx: `POST /orders` writes the order and its message in one
//! transaction. The program starts, calls itself once, shows the handled message, and ends.
//!
//! `cargo run -p punctual --example outbox_axum_sqlx` runs it on a throw-away SQLite file,
//! with `-- postgres` on a throw-away PostgreSQL server, and with DATABASE_URL set on that.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use punctual::queue::outbox;
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use punctual::{Engine, NewMessage, Tenant, Work};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{PgPool, Row, SqlitePool};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    item: String,
}

/// The state of the shop's handlers.
#[derive(Clone)]
struct Shop<P> {
    pool: P,
    engine: Engine,
}

type Refused = (StatusCode, String);

const INSERT: &str = "insert into orders (item) values ($1) returning id";

async fn order_on_sqlite(
    State(shop): State<Shop<SqlitePool>>,
    Json(new): Json<NewOrder>,
) -> Result<Json<Order>, Refused> {
    let mut tx = shop.pool.begin_with("begin immediate").await.map_err(failed)?;
    let row = sqlx::query(INSERT).bind(&new.item).fetch_one(&mut *tx).await.map_err(failed)?;
    let order = Order { id: row.get("id"), item: new.item };
    outbox::sqlx_sqlite::enqueue(&mut tx, Tenant::DEFAULT, &[placed(&order)?]).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    shop.engine.wake();
    Ok(Json(order))
}

async fn order_on_postgres(
    State(shop): State<Shop<PgPool>>,
    Json(new): Json<NewOrder>,
) -> Result<Json<Order>, Refused> {
    let mut tx = shop.pool.begin().await.map_err(failed)?;
    let row = sqlx::query(INSERT).bind(&new.item).fetch_one(&mut *tx).await.map_err(failed)?;
    let order = Order { id: row.get("id"), item: new.item };
    outbox::sqlx_postgres::enqueue(&mut tx, Tenant::DEFAULT, &[placed(&order)?]).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    shop.engine.wake();
    Ok(Json(order))
}

/// Returns the message about an order; its id makes a second one a duplicate.
fn placed(order: &Order) -> Result<NewMessage, Refused> {
    let payload = serde_json::to_string(order).map_err(failed)?;
    Ok(NewMessage::new("orders", "order.placed", payload).id("shop", format!("order-{}", order.id)))
}

fn failed(error: impl Error) -> Refused {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

async fn routes(url: &str, engine: Engine) -> Result<Router, sqlx::Error> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(path)).await?;
        sqlx::query("create table if not exists orders (id integer primary key, item text not null)")
            .execute(&pool)
            .await?;
        return Ok(Router::new().route("/orders", post(order_on_sqlite)).with_state(Shop { pool, engine }));
    }
    let pool = PgPool::connect(url).await?;
    sqlx::query(
        "create table if not exists orders \
         (id bigint generated always as identity primary key, item text not null)",
    )
    .execute(&pool)
    .await?;
    Ok(Router::new().route("/orders", post(order_on_postgres)).with_state(Shop { pool, engine }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let postgres = std::env::args().nth(1).as_deref() == Some("postgres");
    let throw_away = TestDatabase::empty(if postgres { Backend::Postgres } else { Backend::Sqlite });
    let (url, _place) = match std::env::var("DATABASE_URL") {
        Ok(url) => (url, None),
        Err(_) => throw_away.await.map(|place| (place.url().to_owned(), Some(place)))?,
    };
    let (seen, mut handled) = mpsc::unbounded_channel();
    let engine = Engine::builder(&url)
        .handler("orders", move |work: Work| {
            let told = seen.send(format!("{} {}", work.message.kind, work.message.payload));
            async move { Ok(told?) }
        })
        .open()
        .await?;
    engine.start();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let served = axum::serve(listener, routes(&url, engine.clone()).await?);
    tokio::spawn(served.into_future());
    println!("answered: {}", order(address, r#"{"item": "book"}"#).await?);
    let told = tokio::time::timeout(Duration::from_secs(10), handled.recv()).await?;
    println!("handled: {}", told.ok_or("the engine stopped")?);
    engine.stop(Duration::from_secs(5)).await;
    Ok(())
}

/// Calls the shop as a customer would.
async fn order(address: SocketAddr, body: &str) -> Result<String, Box<dyn Error>> {
    let mut link = TcpStream::connect(address).await?;
    let request = format!(
        "POST /orders HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    link.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    link.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    if head.starts_with("HTTP/1.1 200") { Ok(body.to_owned()) } else { Err(answer.into()) }
}
