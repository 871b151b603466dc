//! What goes on beside the messages of a round: leases that workers compete for, and deliveries that
//! several of them receive at once.
//!
//! What a lease protects, and what a delivery causes, are rows that the worker writes over a
//! connection of its own, as a host would.

use super::history::{Event, whole};
use super::worker::{Hired, LEASE};
use crate::bench::TENANT;
use punctual::jobs::run::lease::{CandidateOutcome, LeaseGuard};
use punctual::queue::store::inbox::{InboxBeginOutcome, InboxTicket, ProcessingOutcome};
use punctual::{Engine, Error, InboxDelivery};
use std::sync::Arc;
use std::time::Duration;

/// Leases that workers compete for.
pub const LEASES: [&str; 2] = ["left", "right"];
/// The sender of all deliveries.
pub const SOURCE: &str = "chaos";
/// Effects that a holder writes before it gives its lease back.
const EFFECTS: u64 = 3;
/// Between two effects, and between two tries for a lease.
const PAUSE: Duration = Duration::from_millis(40);
const AGAIN: Duration = Duration::from_millis(150);
/// A host's own transaction takes no longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Attempts of a delivery: none of them dies.
const ATTEMPTS: u32 = 90;

/// What a round's receivers are told: these messages are delivered to each of them.
#[derive(Clone, Copy, Debug)]
pub struct Deliveries {
    pub first: u64,
    pub count: u64,
}

impl Deliveries {
    pub fn text(&self) -> String {
        format!("{} {}", self.first, self.count)
    }

    pub fn read(text: &str) -> Self {
        let (first, count) = text.split_once(' ').unwrap();
        Self { first: first.parse().unwrap(), count: count.parse().unwrap() }
    }
}

/// What became of a host's own transaction.
enum Ended {
    Committed(usize),
    RolledBack,
    /// Nobody knows.
    Unknown,
}

/// Competes for the leases, for ever.
pub async fn compete(hired: Arc<Hired>, engine: Engine) {
    let mut host = Host::new(Arc::clone(&hired));
    for n in 0.. {
        let name = LEASES[n % LEASES.len()];
        match engine.lease(TENANT, name).duration(LEASE).try_acquire().await {
            Ok(CandidateOutcome::Acquired(guard)) => hold(&hired, &mut host, guard).await,
            Ok(CandidateOutcome::Held(_)) => {}
            Err(why) => hired.pen.note(&Event::Trouble { why: whole(&why) }),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Writes a few effects under the lease, and one more when it is given back: too late, perhaps.
async fn hold(hired: &Hired, host: &mut Host, guard: LeaseGuard) {
    let (name, token) = (guard.name().to_owned(), guard.token().0);
    let from = hired.wall();
    for n in 0..EFFECTS {
        // Read before it is asked: it was held then, and not only a moment later.
        let until = hired.wall();
        if guard.is_lost() {
            break;
        }
        hired.pen.note(&Event::Held { name: name.clone(), token, from, until });
        fenced(hired, host, &name, token, n).await;
        tokio::time::sleep(PAUSE).await;
    }
    if let Err(why) = guard.release().await {
        hired.pen.note(&Event::Trouble { why: whole(&why) });
    }
    tokio::time::sleep(AGAIN).await;
    fenced(hired, host, &name, token, EFFECTS).await;
}

async fn fenced(hired: &Hired, host: &mut Host, name: &str, token: i64, n: u64) {
    let effect = format!("{}-{n}", std::process::id());
    let fence = format!(
        "update chaos_fence set token = {token}, effect = '{effect}' \
         where name = '{name}' and token <= {token}"
    );
    let told = match host.transaction(&fence, None).await {
        Ended::Committed(1) => "accepted",
        Ended::Committed(_) => "refused",
        Ended::RolledBack => "nothing",
        Ended::Unknown => "unknown",
    };
    hired.pen.note(&Event::Fenced { name: name.to_owned(), token, effect, told: told.to_owned() });
}

/// Receives all these messages until each of them is processed, by whomever.
pub async fn receive(hired: Arc<Hired>, engine: Engine, deliveries: Deliveries) {
    let mut host = Host::new(Arc::clone(&hired));
    let mut left: Vec<u64> = (deliveries.first..deliveries.first + deliveries.count).collect();
    while !left.is_empty() {
        let mut still = Vec::new();
        for message in left {
            match receive_one(&hired, &mut host, &engine, message).await {
                Ok(true) => {}
                Ok(false) => still.push(message),
                Err(why) => {
                    hired.pen.note(&Event::Trouble { why: whole(&why) });
                    tokio::time::sleep(AGAIN).await;
                    still.push(message);
                }
            }
        }
        left = still;
        tokio::time::sleep(AGAIN).await;
    }
}

/// One delivery; answers whether the message is processed.
async fn receive_one(
    hired: &Hired,
    host: &mut Host,
    engine: &Engine,
    message: u64,
) -> punctual::Result<bool> {
    let delivery = InboxDelivery::new(SOURCE, message.to_string()).lease(LEASE).max_attempts(ATTEMPTS);
    let note = |token: &str, told: &str| {
        let (token, told) = (token.to_owned(), told.to_owned());
        hired.pen.note(&Event::Received { message, token, told });
    };
    let (ticket, attempt) = match engine.store().begin_inbox(TENANT, delivery).await? {
        InboxBeginOutcome::Process { ticket, attempts, .. } => (ticket, attempts),
        InboxBeginOutcome::AlreadyProcessed { .. } => {
            note("-", "already");
            return Ok(true);
        }
        InboxBeginOutcome::InProgress { .. } => return Ok(false),
        other => return Err(Error::Conflict(format!("a delivery was told {other:?}"))),
    };
    let token = ticket.token.text().to_owned();
    note(&token, "process");
    match super::dice(message, attempt.into()) % 8 {
        // Somebody who fails says so, and the next delivery tries again.
        0 => {
            let error = "as planned".to_owned();
            engine.store().mark_inbox(TENANT, ticket, ProcessingOutcome::Failed { error }).await?;
            return Ok(false);
        }
        // Past its lease: whether another has it by now is a race.
        1 if attempt == 1 => tokio::time::sleep(LEASE + Duration::from_millis(100)).await,
        _ => tokio::time::sleep(PAUSE / 4).await,
    }
    let effect = format!("insert into chaos_received (message, token) values ('{message}', '{token}')");
    let told = match host.transaction(&effect, Some(&ticket)).await {
        Ended::Committed(_) => "completed",
        Ended::RolledBack => "refused",
        Ended::Unknown => "unknown",
    };
    note(&token, told);
    Ok(told == "completed")
}

/// A host's own connection.
struct Host {
    hired: Arc<Hired>,
    client: Option<tokio_postgres::Client>,
}

impl Host {
    const fn new(hired: Arc<Hired>) -> Self {
        Self { hired, client: None }
    }

    /// Runs a statement, and completes a received message, in one transaction.
    async fn transaction(&mut self, statement: &str, ticket: Option<&InboxTicket>) -> Ended {
        if let Some(path) = self.hired.database.strip_prefix("sqlite:") {
            let (path, statement, ticket) = (path.to_owned(), statement.to_owned(), ticket.cloned());
            let done = move || on_sqlite(&path, &statement, ticket.as_ref());
            return match tokio::task::spawn_blocking(done).await.unwrap() {
                Ok(ended) => ended,
                Err(why) => self.rolled_back(&why),
            };
        }
        match tokio::time::timeout(PATIENCE, self.on_postgres(statement, ticket)).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(why)) => self.rolled_back(&why),
            Err(_) => {
                self.client = None;
                Ended::Unknown
            }
        }
    }

    fn rolled_back(&self, why: &Error) -> Ended {
        if !matches!(why, Error::Conflict(_)) {
            self.hired.pen.note(&Event::Trouble { why: whole(why) });
        }
        Ended::RolledBack
    }

    async fn on_postgres(
        &mut self,
        statement: &str,
        ticket: Option<&InboxTicket>,
    ) -> punctual::Result<Ended> {
        let trouble = |e: tokio_postgres::Error| Error::Unavailable(whole(&e).into());
        let mut client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let connecting = tokio_postgres::connect(&self.hired.database, tokio_postgres::NoTls);
                let (client, connection) = connecting.await.map_err(trouble)?;
                tokio::spawn(connection);
                client.batch_execute(super::world::HOST_SILENCE).await.map_err(trouble)?;
                client
            }
        };
        let transaction = client.transaction().await.map_err(trouble)?;
        let rows = transaction.execute(statement, &[]).await.map_err(trouble)?;
        if let Some(ticket) = ticket {
            punctual::queue::inbox::tokio_postgres::complete(&transaction, TENANT, ticket).await?;
        }
        if transaction.commit().await.is_err() {
            return Ok(Ended::Unknown);
        }
        self.client = Some(client);
        Ok(Ended::Committed(usize::try_from(rows).unwrap()))
    }
}

fn on_sqlite(path: &str, statement: &str, ticket: Option<&InboxTicket>) -> punctual::Result<Ended> {
    let trouble = |e: rusqlite::Error| Error::Unavailable(e.into());
    let mut connection = rusqlite::Connection::open(path).map_err(trouble)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(trouble)?;
    let begin = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(begin).map_err(trouble)?;
    let rows = transaction.execute(statement, []).map_err(trouble)?;
    if let Some(ticket) = ticket {
        punctual::queue::inbox::rusqlite::complete(&transaction, TENANT, ticket)?;
    }
    // A commit that failed may be there when the file is recovered.
    Ok(if transaction.commit().is_ok() { Ended::Committed(rows) } else { Ended::Unknown })
}
