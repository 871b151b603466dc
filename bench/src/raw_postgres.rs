//! Hand-written SQL on PostgreSQL: what a careful person would write without any library.
//!
//! Two shapes. *Conventional*: one table, a claim marks rows and an acknowledgement deletes them.
//! *One row per batch*: facts and waiting work apart, a claim moves a batch of work into one row. The
//! second is the shape Punctual uses; against it the cost of being an engine shows (fences, fairness,
//! wake-ups, settlements in parts), against the first the worth of the shape.
//!
//! Timed: statements only, prepared, on connections that are open. Nothing is parsed or handled: the
//! loops look at every payload's length and go on.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Row, Statement};

use crate::contender::{Contender, Extra, Step, payloads};
use crate::database::Database;

/// A way to keep a queue in tables.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    name: &'static str,
    tables: &'static str,
    /// Takes the payloads of a batch.
    enqueue: &'static str,
    /// Takes a limit; gives claim, id, payload.
    claim: &'static str,
    /// Takes the claim (0 where claims have no row) and the ids of what it held.
    ack: &'static str,
    /// Takes how many are not due, how many are finished.
    fill: &'static str,
}

/// One table with a JSON payload; a claim updates each row, an acknowledgement deletes it.
pub const CONVENTIONAL: Shape = Shape {
    name: "conventional",
    tables: "
        create table job (
            id bigint generated always as identity primary key,
            due_at timestamptz not null default now(),
            status smallint not null default 0,
            owner int,
            locked_until timestamptz,
            attempts smallint not null default 0,
            payload jsonb not null);
        create index job_due on job (due_at) where status = 0;",
    enqueue: "insert into job (payload) select p::jsonb from unnest($1::text[]) p",
    claim: "
        with due as materialized (
            select id from job where status = 0 and due_at <= now()
            order by due_at limit $1 for update skip locked)
        update job set status = 1, owner = 1, attempts = attempts + 1,
            locked_until = now() + interval '30 seconds'
        from due where job.id = due.id
        returning 0::bigint, job.id, job.payload::text",
    ack: "delete from job where owner = 1 and id = any($2::bigint[]) and $1::bigint = 0",
    fill: "
        insert into job (payload, due_at, status)
        select jsonb_build_object('i', i, 'pad', repeat('x', 150)),
            now() + case when i <= $1::bigint then interval '30 days' else interval '-30 days' end,
            case when i <= $1::bigint then 0 else 2 end
        from generate_series(1::bigint, $1::bigint + $2::bigint) i",
};

/// Messages and narrow work apart; a claim deletes work by its place and is itself one row.
pub const ONE_ROW_PER_BATCH: Shape = Shape {
    name: "one row per batch",
    tables: "
        create table message (
            id bigint generated always as identity primary key,
            tenant int not null,
            topic text not null,
            kind text not null,
            key text,
            occurred_at timestamptz not null default now(),
            payload text not null);
        create table work (
            message_id bigint not null,
            lane int not null,
            due_at timestamptz not null default now(),
            attempts smallint not null default 0);
        create index work_due on work (lane, due_at);
        create table claim (
            id bigint generated always as identity primary key,
            owner int not null,
            lease_until timestamptz not null,
            items bigint[] not null);",
    enqueue: "
        with written as (
            insert into message (tenant, topic, kind, payload)
            select 1, 'orders', 'order.created', p from unnest($1::text[]) p returning id)
        insert into work (message_id, lane) select id, 7 from written",
    claim: "
        with due as materialized (
            select ctid as place, message_id from work where lane = 7 and due_at <= now()
            order by due_at limit $1 for update skip locked),
        taken as (delete from work where ctid = any(array(select place from due))),
        held as (
            insert into claim (owner, lease_until, items)
            select 1, now() + interval '30 seconds', array_agg(message_id) from due
            having count(*) > 0 returning id)
        select (select id from held), id, payload from message
        where id = any(array(select message_id from due))",
    ack: "
        delete from claim where owner = 1 and id = $1::bigint
            and cardinality(items) = cardinality($2::bigint[])",
    fill: "
        with written as (
            insert into message (tenant, topic, kind, payload)
            select 1, 'orders', 'order.created', format('{\"i\":%s,\"pad\":\"%s\"}', i, repeat('x', 150))
            from generate_series(1::bigint, $1::bigint + $2::bigint) i returning id)
        insert into work (message_id, lane, due_at)
        select id, 7, now() + interval '30 days' from written limit $1::bigint",
};

/// A shape on a database, driven by a number of connections.
#[derive(Debug)]
pub struct RawPostgres {
    shape: Shape,
    database: Database,
    batch: usize,
    connections: usize,
}

impl RawPostgres {
    /// Batches of `batch` for enqueue and claim; `connections` drain side by side.
    #[must_use]
    pub fn new(shape: Shape, database: Database, batch: usize, connections: usize) -> Self {
        Self { shape, database, batch, connections }
    }

    async fn enqueue_all(&self, n: usize) -> Result<Duration> {
        let client = self.database.connect().await?;
        let statement = client.prepare(self.shape.enqueue).await?;
        let payloads = payloads(n);
        let start = Instant::now();
        for batch in payloads.chunks(self.batch) {
            client.execute(&statement, &[&batch]).await?;
        }
        Ok(start.elapsed())
    }

    async fn drain_all(&self, n: usize) -> Result<Duration> {
        let mut loops = Vec::new();
        for _ in 0..self.connections {
            loops.push(Loop::open(&self.database, self.shape, self.batch).await?);
        }
        let start = Instant::now();
        let mut running: JoinSet<_> = loops.into_iter().map(Loop::run).collect();
        let mut drained = 0;
        while let Some(count) = running.join_next().await {
            drained += count??;
        }
        let took = start.elapsed();
        ensure!(drained == n, "{drained} of {n} were drained");
        Ok(took)
    }

    async fn fill_with(&self, extra: Extra) -> Result<()> {
        let client = self.database.connect().await?;
        let (not_due, finished) = (i64::try_from(extra.not_due)?, i64::try_from(extra.finished)?);
        client.execute(self.shape.fill, &[&not_due, &finished]).await?;
        Ok(())
    }
}

impl Contender for RawPostgres {
    fn name(&self) -> &str {
        self.shape.name
    }

    fn prepare(&self) -> Step<'_, ()> {
        Box::pin(async {
            self.database.recreate().await?;
            let client = self.database.connect().await?;
            client.batch_execute(self.shape.tables).await?;
            Ok(client.batch_execute("checkpoint").await?)
        })
    }

    fn enqueue(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.enqueue_all(n))
    }

    fn settle(&self) -> Step<'_, ()> {
        Box::pin(self.database.settle())
    }

    fn drain(&self, n: usize) -> Step<'_, Duration> {
        Box::pin(self.drain_all(n))
    }

    fn wal(&self) -> Step<'_, Option<u64>> {
        Box::pin(async { Ok(Some(self.database.wal().await?)) })
    }

    fn fill(&self, extra: Extra) -> Step<'_, ()> {
        Box::pin(self.fill_with(extra))
    }
}

/// One connection that claims and acknowledges until nothing is left.
struct Loop {
    client: Client,
    claim: Statement,
    ack: Statement,
    batch: i64,
}

impl Loop {
    async fn open(database: &Database, shape: Shape, batch: usize) -> Result<Self> {
        let client = database.connect().await?;
        let (claim, ack) = (client.prepare(shape.claim).await?, client.prepare(shape.ack).await?);
        Ok(Self { client, claim, ack, batch: i64::try_from(batch)? })
    }

    async fn run(self) -> Result<usize> {
        let mut drained = 0;
        loop {
            let rows = self.client.query(&self.claim, &[&self.batch]).await?;
            let Some(first) = rows.first() else {
                return Ok(drained);
            };
            let claim: i64 = first.try_get(0)?;
            let ids = rows.iter().map(handle).collect::<Result<Vec<i64>>>()?;
            let gone = self.client.execute(&self.ack, &[&claim, &ids]).await?;
            ensure!(gone > 0, "a claim was lost");
            drained += ids.len();
        }
    }
}

/// The handler: looks at the payload and does nothing.
fn handle(row: &Row) -> Result<i64> {
    let payload: &str = row.try_get(2)?;
    ensure!(payload.len() > 100, "a payload is missing");
    Ok(row.try_get(1)?)
}
