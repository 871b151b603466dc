//! A consumer behind an inbox: a broker delivers each payment several times, some deliveries
//! at once and one to a worker that crashes, and each payment is booked once. The booking and
//! the mark that the message was processed commit together.
//!
//! `cargo run -p punctual --example inbox_consumer`

use punctual::queue::inbox;
use punctual::queue::store::inbox::{InboxBeginOutcome, ProcessingOutcome};
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use punctual::{Engine, InboxDelivery, Tenant};
use rusqlite::{Connection, TransactionBehavior};
use std::time::Duration;

/// The answer to the broker about a delivery.
#[derive(Debug, PartialEq)]
enum Reply {
    /// The message is done: forget it.
    Ack,
    /// Deliver the message again, later.
    Later,
}

async fn deliver(engine: &Engine, file: &str, payment: u32, crash: bool) -> Result<Reply, punctual::Error> {
    let delivery = InboxDelivery::new("bank", format!("payment-{payment}")).lease(Duration::from_secs(1));
    match engine.store().begin_inbox(Tenant::DEFAULT, delivery).await? {
        InboxBeginOutcome::Process { ticket, attempts, .. } => {
            if crash {
                println!("payment {payment}: the worker crashes");
                return Ok(Reply::Later);
            }
            println!("payment {payment}: booked by attempt {attempts}");
            let booked = book(file, payment, |tx| inbox::rusqlite::complete(tx, Tenant::DEFAULT, &ticket));
            if let Err(error) = booked {
                // Rolled back. The next delivery tries again, unless it was the last attempt.
                let mark = ProcessingOutcome::Failed { error: error.to_string() };
                engine.store().mark_inbox(Tenant::DEFAULT, ticket, mark).await?;
                return Ok(Reply::Later);
            }
            Ok(Reply::Ack)
        }
        InboxBeginOutcome::AlreadyProcessed { .. } | InboxBeginOutcome::Dead { .. } => Ok(Reply::Ack),
        InboxBeginOutcome::InProgress { .. } | InboxBeginOutcome::Conflict { .. } => Ok(Reply::Later),
    }
}

/// Writes the effect and the mark, or neither.
fn book(
    file: &str,
    payment: u32,
    complete: impl Fn(&Connection) -> Result<(), punctual::Error>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute("insert into booking (payment) values (?1)", [payment])?;
    complete(&tx)?;
    Ok(tx.commit()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let place = TestDatabase::empty(Backend::Sqlite).await?;
    let file = place.url().trim_start_matches("sqlite:").to_owned();
    let engine = Engine::builder(place.url()).open().await?;
    Connection::open(&file)?.execute("create table booking (payment integer not null)", [])?;

    assert_eq!(deliver(&engine, &file, 1, true).await?, Reply::Later);
    let mut deliveries = tokio::task::JoinSet::new();
    for n in 0..30 {
        let (engine, file) = (engine.clone(), file.clone());
        deliveries.spawn(async move {
            // A broker delivers again until it is told to forget.
            while deliver(&engine, &file, n % 3 + 1, false).await? == Reply::Later {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<_, punctual::Error>(())
        });
    }
    for done in deliveries.join_all().await {
        done?;
    }
    let bookings: i64 =
        Connection::open(&file)?.query_row("select count(*) from booking", [], |row| row.get(0))?;
    assert_eq!(bookings, 3, "31 deliveries of 3 payments");
    println!("31 deliveries, {bookings} bookings");
    Ok(())
}
