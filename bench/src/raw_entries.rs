//! Hand-written ingest and send on PostgreSQL: what a careful person would write without any library.
//!
//! Entries are unique by a key, work stands beside them, a claim is one row for a batch, and an intent
//! is written before a letter goes out. Timed: statements only, prepared, on connections that are open;
//! nothing is parsed, matched, hashed, worded or handed to a channel.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

use crate::database::Database;

/// Rows in a batch.
pub const BATCH: usize = 1_000;

const TABLES: &str = "
    create table entry (
        id bigint generated always as identity primary key,
        public_id uuid not null default gen_random_uuid(),
        tenant int not null, flow bigint not null, version int not null, trigger_id text not null,
        key bytea not null, channel text not null, address text not null, locale text, customer_ref text,
        payload text not null, triggered_at timestamptz not null default now(),
        state smallint not null default 0, last_sent_at timestamptz, remaining smallint not null,
        changes int not null default 0) with (fillfactor = 80);
    create unique index entry_key on entry (tenant, key);
    create unique index entry_public_id on entry (public_id);
    create table work (
        entry bigint not null, queue int not null, tenant int not null, due_at timestamptz not null,
        attempts smallint not null default 0);
    create index work_due on work (queue, due_at);
    create table claim (
        id bigint generated always as identity primary key, queue int not null, owner text not null,
        lease_until timestamptz not null, items bigint[] not null);
    create table delivery (
        id bigint generated always as identity primary key, tenant int not null, entry bigint not null,
        idempotency_key text not null, channel text not null, address text not null,
        attempt smallint not null,
        created_at timestamptz not null default now());
    create unique index delivery_idempotency_key on delivery (tenant, idempotency_key);
    create index delivery_entry on delivery (entry);
    create table outcome (
        delivery bigint not null, at timestamptz not null default now(), status smallint not null,
        provider_id text, error text);
    create index outcome_delivery on outcome (delivery);";

const INGEST: &str = "
    with made as (
        insert into entry (tenant, flow, version, trigger_id, key, channel, address, locale, customer_ref,
            payload, remaining)
        select 1, 7, 1, 'after-a-visit', k, 'memory:default', a, 'ar', 'customer', p, 1
        from unnest($1::bytea[], $2::text[], $3::text[]) x (k, a, p)
        on conflict (tenant, key) do nothing returning id, key, public_id),
    waiting as (insert into work (entry, queue, tenant, due_at) select id, 3, 1, now() from made)
    select key, public_id::text from made";

const CLAIM: &str = "
    with due as materialized (
        select entry, ctid as place from work where queue = 3 and due_at <= now()
        order by due_at limit $1 for update skip locked),
    taken as (delete from work where ctid = any(array(select place from due))),
    held as (
        insert into claim (queue, owner, lease_until, items)
        select 3, 'sender', now() + interval '30 seconds', array_agg(entry) from due
        having count(*) > 0 returning id)
    select e.id, e.address, e.payload, e.public_id::text, e.changes, e.remaining, (select id from held)
    from entry e where e.id = any(array(select entry from due)) and e.state in (0, 1, 2)";

const INTEND: &str = "
    insert into delivery (tenant, entry, idempotency_key, channel, address, attempt)
    select 1, e, e || ':' || n, 'memory:default', a, n
    from unnest($1::bigint[], $2::text[], $3::smallint[]) x (e, a, n)
    on conflict (tenant, idempotency_key) do nothing returning id, entry";

const SETTLE: &str = "
    with held as (delete from claim where id = $1 returning id),
    told as (
        insert into outcome (delivery, status, provider_id)
        select d, 1, p from unnest($2::bigint[], $3::text[]) x (d, p) where exists (select 1 from held)),
    moved as (
        update entry set state = 1, last_sent_at = now(), remaining = greatest(remaining - 1, 0),
            changes = changes + 1
        where id = any($4::bigint[]) and state in (0, 1, 2) and exists (select 1 from held) returning id)
    insert into work (entry, queue, tenant, due_at) select id, 3, 1, now() + interval '1 day' from moved";

/// The hand-written shape on a database.
#[derive(Debug)]
pub struct RawEntries {
    database: Database,
}

/// One event, as its columns.
#[derive(Debug, Clone)]
pub struct RawEvent {
    /// The digest that makes it the same as another.
    pub key: Vec<u8>,
    /// Where it goes.
    pub address: String,
    /// What happened.
    pub payload: String,
}

impl RawEntries {
    /// On an empty database.
    pub async fn new(database: Database) -> Result<Self> {
        database.recreate().await?;
        database.connect().await?.batch_execute(TABLES).await?;
        Ok(Self { database })
    }

    /// Writes all events in batches; answers how many were new.
    pub async fn ingest(&self, events: &[RawEvent]) -> Result<(usize, Duration)> {
        let client = self.database.connect().await?;
        let statement = client.prepare(INGEST).await?;
        let (mut new, begun) = (0, Instant::now());
        for batch in events.chunks(BATCH) {
            let keys: Vec<&[u8]> = batch.iter().map(|e| e.key.as_slice()).collect();
            let addresses: Vec<&str> = batch.iter().map(|e| e.address.as_str()).collect();
            let payloads: Vec<&str> = batch.iter().map(|e| e.payload.as_str()).collect();
            new += client.query(&statement, &[&keys, &addresses, &payloads]).await?.len();
        }
        Ok((new, begun.elapsed()))
    }

    /// Brings the database to rest.
    pub async fn settle(&self) -> Result<()> {
        self.database.settle().await
    }

    /// Sends everything that is due, over so many connections.
    pub async fn send(&self, wanted: usize, connections: usize) -> Result<Duration> {
        let mut senders = Vec::with_capacity(connections);
        for _ in 0..connections {
            senders.push(Sender::new(self.database.connect().await?).await?);
        }
        let begun = Instant::now();
        let mut all = JoinSet::new();
        senders.into_iter().for_each(|sender| {
            all.spawn(sender.run());
        });
        let mut sent = 0;
        while let Some(one) = all.join_next().await {
            sent += one??;
        }
        ensure!(sent == wanted, "{sent} of {wanted} were sent");
        Ok(begun.elapsed())
    }
}

struct Sender {
    client: Client,
    claim: Statement,
    intend: Statement,
    settle: Statement,
}

impl Sender {
    async fn new(client: Client) -> Result<Self> {
        let claim = client.prepare(CLAIM).await?;
        let intend = client.prepare(INTEND).await?;
        let settle = client.prepare(SETTLE).await?;
        Ok(Self { client, claim, intend, settle })
    }

    async fn run(mut self) -> Result<usize> {
        let mut sent = 0;
        loop {
            let transaction = self.client.transaction().await?;
            let rows = transaction.query(&self.claim, &[&i64::try_from(BATCH)?]).await?;
            let Some(first) = rows.first() else { return Ok(sent) };
            let claim: i64 = first.try_get(6)?;
            let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            let addresses: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
            let attempts: Vec<i16> = rows.iter().map(|row| 2 - row.get::<_, i16>(5)).collect();
            let intents = transaction.query(&self.intend, &[&ids, &addresses, &attempts]).await?;
            transaction.commit().await?;
            let deliveries: Vec<i64> = intents.iter().map(|row| row.get(0)).collect();
            let entries: Vec<i64> = intents.iter().map(|row| row.get(1)).collect();
            let names: Vec<String> = deliveries.iter().map(|id| format!("mem-{id}")).collect();
            sent += deliveries.len();
            self.client.execute(&self.settle, &[&claim, &deliveries, &names, &entries]).await?;
        }
    }
}
