//! The publisher: does a round's operations, and writes down what it asked and what it was told.
//!
//! What was asked before a crash is not asked again, except messages with an id and events that are
//! handed in, which are asked until they are acknowledged: that is what the id and the dedup key are for.

use super::customers::{self, Customer};
use super::definitions;
use super::history::{Event, Reader, whole};
use super::operation::{Operation, PUBLISHERS};
use super::worker::Hired;
use crate::bench::TENANT;
use punctual::queue::outbox::EnqueueBatch;
use punctual::queue::store::messages::EnqueueOutcome;
use punctual::{DueTime, Engine, Error, MessageId, NewMessage, NewTimer, Tenant};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// After trouble a publisher pauses, or a whole round would be refused in one outage.
const PAUSE: Duration = Duration::from_millis(60);
/// A host's own transaction takes no longer.
const HOST_PATIENCE: Duration = Duration::from_secs(2);

/// A timer that is cancelled is due, and cancelled, within this.
const CANCELLED_MS: u64 = 150;

/// A round's operations.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub first: u64,
    pub count: u64,
    pub seed: u64,
    /// Only these, if not all kinds.
    pub only: Option<Operation>,
    /// The least pause between two operations of one publisher, in milliseconds.
    pub pace_ms: u64,
}

impl Order {
    pub fn text(&self) -> String {
        let only = self.only.map_or_else(|| "-".into(), Operation::name);
        format!("{} {} {} {only} {}", self.first, self.count, self.seed, self.pace_ms)
    }

    pub fn read(text: &str) -> Self {
        let parts: Vec<&str> = text.split(' ').collect();
        let number = |n: usize| parts[n].parse().unwrap();
        let only = Operation::named(parts[3]);
        Self { first: number(0), count: number(1), seed: number(2), only, pace_ms: number(4) }
    }
}

pub async fn publish(hired: Arc<Hired>, engine: Engine, order: Order) {
    let before = Reader::default().news(&hired.folder);
    let asked = before.iter().filter_map(|e| if let Event::Asked { op, .. } = e { Some(*op) } else { None });
    let answered = before.iter().filter_map(|e| match e {
        Event::Answered { op, .. } | Event::Begun { op, .. } => Some(*op),
        _ => None,
    });
    let past = Arc::new((asked.collect::<HashSet<u64>>(), answered.collect::<HashSet<u64>>()));
    let customers = tenant_of_customers(&engine).await;
    let mut publishers = tokio::task::JoinSet::new();
    for n in 0..PUBLISHERS {
        let (hired, engine, acting) = (Arc::clone(&hired), engine.clone(), tokio::task::JoinSet::new());
        let publisher = Publisher { hired, engine, order, host: None, customers, acting };
        publishers.spawn(publisher.work(n, Arc::clone(&past)));
    }
    publishers.join_all().await;
    hired.pen.note(&Event::Published { first: order.first });
}

/// The tenant of events that lead to sends; asked until the database is there.
async fn tenant_of_customers(engine: &Engine) -> Tenant {
    loop {
        match engine.store().tenant(definitions::SLUG).await {
            Ok(Some(row)) => return row.tenant,
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

struct Publisher {
    hired: Arc<Hired>,
    engine: Engine,
    order: Order,
    host: Option<tokio_postgres::Client>,
    customers: Tenant,
    /// Customers who answer or withdraw meanwhile.
    acting: tokio::task::JoinSet<()>,
}

impl Publisher {
    async fn work(mut self, n: u64, past: Arc<(HashSet<u64>, HashSet<u64>)>) {
        let (asked, answered) = &*past;
        for op in (self.order.first..self.order.first + self.order.count).filter(|op| op % PUBLISHERS == n) {
            let what = self.order.only.unwrap_or_else(|| Operation::of(op, self.order.seed));
            let again = what.is_repeated() && !answered.contains(&op);
            if asked.contains(&op) && !again {
                continue;
            }
            self.hired.pen.note(&Event::Asked { op, what });
            while !self.once(op, what).await && what.is_repeated() {}
            if self.order.pace_ms > 0 {
                tokio::time::sleep(Duration::from_millis(self.order.pace_ms)).await;
            }
        }
        self.acting.join_all().await;
    }

    /// Does one operation; answers whether it was acknowledged.
    async fn once(&mut self, op: u64, what: Operation) -> bool {
        let result = match what {
            Operation::Ingested => return self.hand_in(op).await,
            Operation::Host | Operation::RolledBack => self.in_own_transaction(op, what).await,
            _ => self.through_engine(op, what).await,
        };
        let event = match result {
            Ok(Some(message)) => Event::Answered { op, message },
            Ok(None) => Event::Refused { op, why: "rolled back".into() },
            Err(Error::Unknown(_)) => Event::Unsure { op },
            Err(error) => Event::Refused { op, why: whole(&error) },
        };
        let fine = matches!(event, Event::Answered { .. }) || what == Operation::RolledBack;
        self.hired.pen.note(&event);
        if let (Operation::Cancelled, Event::Answered { message, .. }) = (what, event) {
            self.cancel(op, MessageId(message)).await;
        }
        if !fine {
            tokio::time::sleep(PAUSE).await;
        }
        fine
    }

    /// Hands in an event that begins a survey; its customer may act on it. Answers whether it was
    /// acknowledged.
    async fn hand_in(&mut self, op: u64) -> bool {
        let (tenant, seed) = (self.customers, self.order.seed);
        let event = match customers::ingest(&self.engine, tenant, op, seed).await {
            Ok(instance) => {
                let (hired, engine) = (Arc::clone(&self.hired), self.engine.clone());
                self.hired.pen.note(&Event::Begun { op, instance: instance.to_string() });
                self.acting.spawn(Customer { hired, engine, tenant, op, instance }.act(seed));
                return true;
            }
            Err(Error::Unknown(_)) => Event::Unsure { op },
            Err(error) => Event::Refused { op, why: whole(&error) },
        };
        self.hired.pen.note(&event);
        tokio::time::sleep(PAUSE).await;
        false
    }

    /// Cancels a timer about when it is due. One whose answer is lost may be cancelled or not.
    async fn cancel(&self, op: u64, timer: MessageId) {
        let wait = super::dice(!self.order.seed, op) % CANCELLED_MS;
        tokio::time::sleep(Duration::from_millis(wait)).await;
        match self.engine.cancel_timer(TENANT, timer).await {
            Ok(in_time) => self.hired.pen.note(&Event::Cancelled { op, in_time }),
            Err(why) => self.hired.pen.note(&Event::Trouble { why: whole(&why) }),
        }
    }

    async fn through_engine(&self, op: u64, what: Operation) -> punctual::Result<Option<i64>> {
        if what.is_sent() {
            let event = customers::event(op, what, self.order.seed);
            return Ok(Some(self.engine.enqueue_one(self.customers, event).await?.0));
        }
        let mut message = new(op, what);
        if what == Operation::Cancelled {
            let when = DueTime::In(Duration::from_millis(super::dice(self.order.seed, op) % CANCELLED_MS));
            let scheduled = self.engine.schedule_one(TENANT, NewTimer { message, when }).await?;
            return Ok(Some(scheduled.id.0));
        }
        if what == Operation::Later {
            let away = Duration::from_millis(100 + super::dice(self.order.seed, op) % 900);
            message.due_at = Some(self.engine.store().now().await?.plus(away));
        }
        let done = self.engine.enqueue(TENANT, vec![message]).await?;
        Ok(done[0].id().map(|id| id.0))
    }

    /// As a host would: its own connection, its own transaction, and no word to the engine.
    async fn in_own_transaction(&mut self, op: u64, what: Operation) -> punctual::Result<Option<i64>> {
        let commit = what == Operation::Host;
        if let Some(path) = self.hired.database.strip_prefix("sqlite:") {
            let path = path.to_owned();
            return tokio::task::spawn_blocking(move || on_sqlite(&path, op, what, commit)).await.unwrap();
        }
        match tokio::time::timeout(HOST_PATIENCE, self.on_postgres(op, what, commit)).await {
            Ok(Ok(done)) => Ok(done),
            // Nothing was said to the server yet: that is known.
            Ok(Err(Trouble::Before(why))) => Err(Error::Unavailable(why.into())),
            Ok(Err(Trouble::Amid(why))) => self.unsure(why),
            Err(_) => self.unsure("no answer in time".into()),
        }
    }

    fn unsure(&mut self, why: String) -> punctual::Result<Option<i64>> {
        self.host = None;
        Err(Error::Unknown(why.into()))
    }

    async fn on_postgres(&mut self, op: u64, what: Operation, commit: bool) -> Result<Option<i64>, Trouble> {
        let mut client = match self.host.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let connecting = tokio_postgres::connect(&self.hired.database, tokio_postgres::NoTls);
                let (client, connection) = connecting.await.map_err(|e| Trouble::Before(whole(&e)))?;
                tokio::spawn(connection);
                let said = client.batch_execute(super::world::HOST_SILENCE).await;
                said.map_err(|e| Trouble::Before(whole(&e)))?;
                client
            }
        };
        let transaction = client.transaction().await.map_err(|e| Trouble::Before(whole(&e)))?;
        let batch = EnqueueBatch::new(TENANT, &[new(op, what)]).unwrap().quiet();
        let done = punctual::queue::outbox::tokio_postgres::run(&transaction, &batch).await;
        // Without a commit there is nothing, whatever went wrong.
        let done = done.map_err(|e| Trouble::Before(whole(&e)))?;
        let ended = if commit { transaction.commit().await } else { transaction.rollback().await };
        match ended {
            Ok(()) => {}
            Err(e) if commit => return Err(Trouble::Amid(e.to_string())),
            Err(e) => return Err(Trouble::Before(whole(&e))),
        }
        self.host = Some(client);
        Ok(if commit { done[0].id().map(|id| id.0) } else { None })
    }
}

/// What went wrong in a host's transaction.
enum Trouble {
    /// Before the commit.
    Before(String),
    /// During it: nobody knows.
    Amid(String),
}

fn on_sqlite(path: &str, op: u64, what: Operation, commit: bool) -> punctual::Result<Option<i64>> {
    let refused = |e: rusqlite::Error| Error::Unavailable(e.into());
    let mut connection = rusqlite::Connection::open(path).map_err(refused)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(refused)?;
    let begin = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(begin).map_err(refused)?;
    let done: Vec<EnqueueOutcome> =
        punctual::queue::outbox::rusqlite::enqueue(&transaction, TENANT, &[new(op, what)])?;
    if !commit {
        transaction.rollback().map_err(refused)?;
        return Ok(None);
    }
    transaction.commit().map_err(|e| Error::Unknown(e.into()))?;
    Ok(done[0].id().map(|id| id.0))
}

fn new(op: u64, what: Operation) -> NewMessage {
    let mut message = NewMessage::new(what.topic(), "happened", op.to_string());
    message.key = what.key(op);
    if what == Operation::Named {
        message = message.id("chaos", op.to_string());
    }
    message
}
