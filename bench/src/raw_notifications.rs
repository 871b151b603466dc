//! Hand-written notifications on PostgreSQL: from an event to two logged sends, as a careful person would
//! write it without any library.
//!
//! Events stand beside their work; a batch of them is claimed and turned into notifications with two
//! deliveries each, unique by their keys; deliveries are claimed, and what became of each is written with
//! its try and counted in its notification. A claim is one row for a batch, and the intent of its sends.
//! The same facts are kept as ours keeps. Timed: statements only, prepared, on connections that are open;
//! nothing is parsed, matched, hashed, worded or handed to a channel, and no trace is kept for support.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

use crate::database::Database;

/// Rows in a batch.
pub const BATCH: usize = 1_000;

const TABLES: &str = "
    create table message (
        id bigint generated always as identity primary key, tenant int not null, topic text not null,
        kind text not null, entity_type text, entity_id text, payload text not null,
        created_at timestamptz not null default now());
    create table work (
        item bigint not null, lane int not null, due_at timestamptz not null default now(),
        attempts smallint not null default 0);
    create index work_due on work (lane, due_at);
    create table claim (
        id bigint generated always as identity primary key, owner text not null,
        lease_until timestamptz not null, items bigint[] not null);
    create table notification (
        id bigint generated always as identity primary key, tenant int not null, message_id bigint not null,
        kind text not null, key text not null, triggered_by text not null, input_hash text not null,
        entity_type text, entity_id text, local_date date, time_zone text,
        status smallint not null default 0,
        open int not null, sent int not null default 0, failed int not null default 0,
        created_at timestamptz not null default now(), ended_at timestamptz) with (fillfactor = 50);
    create unique index notification_event on notification (message_id);
    create index notification_entity on notification (entity_id, entity_type, tenant);
    create table delivery (
        id bigint generated always as identity primary key, tenant int not null, notification bigint not null,
        idempotency_key text not null, channel text not null, address text not null,
        recipient text, part int not null, send smallint not null default 1,
        template bigint not null, template_version int not null, status smallint not null default 0,
        due_at timestamptz default now(), provider_id text, tries smallint not null default 0,
        created_at timestamptz not null default now(), sent_at timestamptz) with (fillfactor = 50);
    create unique index delivery_key on delivery (idempotency_key, tenant);
    create index delivery_notification on delivery (notification);
    create index delivery_address on delivery (address, tenant);
    create table attempt (
        delivery bigint not null, tried smallint not null, at timestamptz not null default now(),
        outcome text not null, provider text, provider_id text, error text, answer text,
        primary key (delivery, tried));
    create index attempt_provider on attempt (provider_id) where provider_id is not null;";

/// A digest of a notification's inputs: nothing is hashed by hand, but the column takes the same room.
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

const EMIT: &str = "
    with written as (
        insert into message (tenant, topic, kind, entity_type, entity_id, payload)
        select 1, 'booking.events', 'booking.confirmed', 'booking', e, p
        from unnest($1::text[], $2::text[]) x (e, p) returning id)
    insert into work (item, lane) select id, 1 from written";

const CLAIM_EVENTS: &str = "
    with due as materialized (
        select item, ctid as place from work where lane = 1 and due_at <= now()
        order by due_at limit $1 for update skip locked),
    taken as (delete from work where ctid = any(array(select place from due))),
    held as (
        insert into claim (owner, lease_until, items)
        select 'materialiser', now() + interval '30 seconds', array_agg(item) from due
        having count(*) > 0 returning id)
    select (select id from held), id, entity_id, payload from message
    where id = any(array(select item from due))";

const FILE: &str = "
    with held as (delete from claim where id = $1 returning id),
    made as (
        insert into notification (tenant, message_id, kind, key, triggered_by, input_hash, entity_type,
            entity_id, local_date, time_zone, open)
        select 1, m, 'booking.confirmed', 'event:' || m, 'event:booking.confirmed', h, 'booking', e,
            current_date, 'UTC', 2 from unnest($2::bigint[], $3::text[], $9::text[]) x (m, e, h)
        where exists (select 1 from held)
        on conflict (message_id) do nothing returning id, message_id),
    wanted as (
        insert into delivery (tenant, notification, idempotency_key, channel, address, recipient, part,
            template, template_version)
        select 1, made.id, k, c, a, 'Layla', t, t, 1
        from unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[]) x (m, k, c, a, t)
        join made on made.message_id = x.m
        on conflict (idempotency_key, tenant) do nothing returning id)
    insert into work (item, lane) select id, 2 from wanted";

const CLAIM_DELIVERIES: &str = "
    with due as materialized (
        select item, ctid as place from work where lane = 2 and due_at <= now()
        order by due_at limit $1 for update skip locked),
    taken as (delete from work where ctid = any(array(select place from due))),
    held as (
        insert into claim (owner, lease_until, items)
        select 'sender', now() + interval '30 seconds', array_agg(item) from due
        having count(*) > 0 returning id)
    select (select id from held), d.id, d.notification, d.idempotency_key, d.address, m.payload
    from delivery d join notification n on n.id = d.notification join message m on m.id = n.message_id
    where d.id = any(array(select item from due)) and d.status = 0";

const SETTLE: &str = "
    with held as (delete from claim where id = $1 returning id),
    told as (
        insert into attempt (delivery, tried, outcome, provider, provider_id)
        select d, 1, 'sent', 'memory', p from unnest($2::bigint[], $3::text[]) x (d, p)
        where exists (select 1 from held)),
    moved as (
        update delivery set status = 1, sent_at = now(), due_at = null, provider_id = p, tries = tries + 1
        from unnest($2::bigint[], $3::text[]) x (d, p)
        where id = d and status = 0 and exists (select 1 from held) returning notification),
    counted as (select notification, count(*)::int as n from moved group by notification)
    update notification set open = open - n, sent = sent + n, status = case when open = n then 1 else 0 end,
        ended_at = case when open = n then now() end
    from counted where id = notification";

/// The hand-written shape on a database.
#[derive(Debug)]
pub struct RawNotifications {
    database: Database,
}

/// One event, as its columns.
#[derive(Debug, Clone)]
pub struct BookingEvent {
    /// What it is about.
    pub entity: String,
    /// Where its first letter goes.
    pub phone: String,
    /// Where its second letter goes.
    pub email: String,
    /// What happened.
    pub payload: String,
}

impl RawNotifications {
    /// On an empty database.
    pub async fn new(database: Database) -> Result<Self> {
        database.recreate().await?;
        database.connect().await?.batch_execute(TABLES).await?;
        Ok(Self { database })
    }

    /// Writes all events in batches.
    pub async fn emit(&self, events: &[BookingEvent]) -> Result<Duration> {
        let client = self.database.connect().await?;
        let statement = client.prepare(EMIT).await?;
        let begun = Instant::now();
        for batch in events.chunks(BATCH) {
            let entities: Vec<&str> = batch.iter().map(|e| e.entity.as_str()).collect();
            let payloads: Vec<&str> = batch.iter().map(|e| e.payload.as_str()).collect();
            client.execute(&statement, &[&entities, &payloads]).await?;
        }
        Ok(begun.elapsed())
    }

    /// Brings the database to rest.
    pub async fn settle(&self) -> Result<()> {
        self.database.settle().await
    }

    /// Turns every event into two logged sends, over so many connections.
    pub async fn send(&self, events: &[BookingEvent], connections: usize) -> Result<Duration> {
        let events: std::sync::Arc<[BookingEvent]> = events.into();
        let mut workers = Vec::with_capacity(connections);
        for _ in 0..connections {
            workers.push(Worker::new(self.database.connect().await?).await?);
        }
        let begun = Instant::now();
        let mut all = JoinSet::new();
        for worker in workers {
            all.spawn(worker.run(std::sync::Arc::clone(&events)));
        }
        let mut sent = 0;
        while let Some(one) = all.join_next().await {
            sent += one??;
        }
        ensure!(sent == 2 * events.len(), "{sent} letters were sent of {} events", events.len());
        Ok(begun.elapsed())
    }
}

struct Worker {
    client: Client,
    claim_events: Statement,
    file: Statement,
    claim_deliveries: Statement,
    settle: Statement,
}

impl Worker {
    async fn new(client: Client) -> Result<Self> {
        let claim_events = client.prepare(CLAIM_EVENTS).await?;
        let file = client.prepare(FILE).await?;
        let claim_deliveries = client.prepare(CLAIM_DELIVERIES).await?;
        let settle = client.prepare(SETTLE).await?;
        Ok(Self { client, claim_events, file, claim_deliveries, settle })
    }

    /// Events first, then letters, until there are none of either: what another worker has files itself.
    async fn run(self, events: std::sync::Arc<[BookingEvent]>) -> Result<usize> {
        let mut sent = 0;
        loop {
            let filed = self.file_batch(&events).await?;
            let letters = self.send_batch().await?;
            sent += letters;
            if !filed && letters == 0 {
                return Ok(sent);
            }
        }
    }

    /// Numbers of events are their places in what was emitted, counted from 1.
    async fn file_batch(&self, events: &[BookingEvent]) -> Result<bool> {
        let rows = self.client.query(&self.claim_events, &[&i64::try_from(BATCH)?]).await?;
        let Some(first) = rows.first() else { return Ok(false) };
        let claim: i64 = first.try_get(0)?;
        let ids: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
        let entities: Vec<&str> = rows.iter().map(|row| row.get(2)).collect();
        let (mut of, mut keys, mut channels) = (Vec::new(), Vec::new(), Vec::new());
        let (mut addresses, mut templates): (Vec<&str>, Vec<i64>) = (Vec::new(), Vec::new());
        for (id, entity) in ids.iter().zip(&entities) {
            let event = &events[usize::try_from(id - 1)?];
            for (channel, address, template) in [("SMS", &event.phone, 1_i64), ("Email", &event.email, 2)] {
                of.push(*id);
                keys.push(format!("{entity}:booking.confirmed:{channel}:{template}"));
                channels.push(channel);
                addresses.push(address);
                templates.push(template);
            }
        }
        let hashes: Vec<&str> = ids.iter().map(|_| HASH).collect();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
            [&claim, &ids, &entities, &of, &keys, &channels, &addresses, &templates, &hashes];
        self.client.execute(&self.file, &parameters).await?;
        Ok(true)
    }

    async fn send_batch(&self) -> Result<usize> {
        let rows = self.client.query(&self.claim_deliveries, &[&i64::try_from(BATCH)?]).await?;
        let Some(first) = rows.first() else { return Ok(0) };
        let claim: i64 = first.try_get(0)?;
        let ids: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
        let names: Vec<String> = ids.iter().map(|id| format!("mem-{id}")).collect();
        self.client.execute(&self.settle, &[&claim, &ids, &names]).await?;
        Ok(ids.len())
    }
}
