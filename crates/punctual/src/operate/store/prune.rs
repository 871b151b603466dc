//! Retention: history is deleted in small batches, so that no other transaction waits for it.
//!
//! A message is dropped when it is older than its queue keeps it *and* nothing is left of
//! it: no work, no follower, no open claim, no dead letter, no entry that has not ended, and no survey
//! entry at all: a cadence of 60 days outlives the retention of its event. A timer's age counts from the
//! time it was due, or from its cancelling. The checks lean on one fact: a work row stands
//! at the time its last attempt named, or at the message's own.

use crate::base::clock::Timestamp;
use crate::base::component::{Component, Components};
use crate::base::error::Result;
use crate::base::limits;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Value, params};
use crate::delivery::store::deliveries::key as delivery_keys;
use crate::delivery::store::deliveries::prune::prune_deliveries;
use crate::flow::store::entries;
use crate::flow::store::entries::prune::{find_old, prune_traces};
use crate::queue::store::waiting_work::something_waits;
use crate::survey::store::prune::prune_answers;
use std::time::Duration;

/// How far one pass has come through the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneProgress {
    /// The last message that was looked at; the next step begins behind it.
    pub cursor: i64,
    /// Messages dropped by this step.
    pub messages: usize,
    /// Whether the pass is through.
    pub finished: bool,
}

/// How long an entry is kept after its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRetention {
    /// Entries of kinds that people answer, with the answer.
    pub surveys: Duration,
    /// All others, with their lines of the communication log.
    pub log: Duration,
}

/// How far one pass has come through the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedEntries {
    /// The last entry that was looked at; the next step begins behind it.
    pub cursor: i64,
    /// Entries dropped by this step.
    pub entries: usize,
    /// Whether the pass is through.
    pub finished: bool,
}

impl Store {
    /// One step of a pass through the entries of every kind, beginning behind `cursor`: those that have ended
    /// and of which nothing has happened for as long as their kind is kept go with all that belongs to them.
    /// The last step also drops keys and traces that are past their time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn prune_entries(&self, cursor: i64, retention: EntryRetention) -> VerbFuture<'_, PrunedEntries> {
        self.write((cursor, retention), |tx, (cursor, retention)| {
            Box::pin(prune_entries(tx, *cursor, *retention))
        })
    }

    /// One step of a pass through the messages, beginning behind `cursor`.
    pub fn prune_messages(&self, cursor: i64, default_retention: Duration) -> VerbFuture<'_, PruneProgress> {
        self.write((cursor, default_retention), |tx, (cursor, retention)| {
            Box::pin(prune_messages(tx, *cursor, *retention))
        })
    }

    /// Drops finished claims and admitted ids that are older than this, and idempotency records that are past
    /// their time, as far as the database has their tables; answers how many rows went.
    pub fn prune_rest(&self, claims_kept: Duration, ids_kept: Duration) -> VerbFuture<'_, u64> {
        self.write((claims_kept, ids_kept), |tx, kept| Box::pin(prune_rest(tx, *kept)))
    }
}

async fn prune_entries(tx: &mut Tx, cursor: i64, kept: EntryRetention) -> Result<PrunedEntries> {
    let now = tx.now().await?;
    let old = find_old(tx, cursor, (now.minus(kept.surveys), now.minus(kept.log))).await?;
    if !old.ids.is_empty() {
        prune_answers(tx, &old.ids).await?;
        prune_deliveries(tx, &old.ids).await?;
        entries::prune::prune_entries(tx, &old.ids).await?;
    }
    let mut step = PrunedEntries { cursor: old.cursor, entries: old.ids.len(), finished: old.finished };
    if step.finished {
        let dropped = [
            entries::key::prune_keys(tx, now).await?,
            delivery_keys::prune_keys(tx, now).await?,
            prune_traces(tx, now).await?,
        ];
        step.finished = dropped.into_iter().all(|rows| rows < limits::PRUNE_ROWS);
    }
    Ok(step)
}

async fn prune_messages(tx: &mut Tx, cursor: i64, retention: Duration) -> Result<PruneProgress> {
    let now = tx.now().await?;
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let sql = if tx.has_component(Component::Flows).await? { OLD_AND_UNUSED } else { OLD };
    let rows = tx.query(sql, params![cursor, limit, now, micros(retention)]).await?;
    let mut ids = Vec::with_capacity(rows.len());
    let mut step = PruneProgress { cursor, messages: 0, finished: rows.len() < limits::PRUNE_ROWS };
    for row in &rows {
        step.cursor = row.int(0)?;
        if row.flag(1)? {
            ids.push(step.cursor);
        }
    }
    step.finished |= is_kept_at(tx, step.cursor, now, retention).await?;
    if !ids.is_empty() {
        for sql in [DROP_ATTEMPTS, DROP_CHANGES, DROP_MESSAGES] {
            tx.execute(sql, &[Value::Ints(&ids)]).await?;
        }
        step.messages = ids.len();
    }
    Ok(step)
}

statements! {
    const DROP_ATTEMPTS = "
        delete from punctual.attempt
        where message_id = any($1::bigint[])
    ";

    const DROP_CHANGES = "
        delete from punctual.timer_change
        where (tenant_id, message_id) in (
            select m.tenant_id, m.id
            from punctual.message m
            where m.id = any($1::bigint[]) and m.due_at is not null
        )
    ";

    const DROP_MESSAGES = "
        delete from punctual.message
        where id = any($1::bigint[])
    ";
}

fn micros(d: Duration) -> i64 {
    i64::try_from(d.as_micros()).unwrap_or(i64::MAX)
}

/// Whether a message is younger than any queue keeps its messages. A pass ends there, because ids follow
/// time: behind it there is hardly an old one, and a later pass finds what a long transaction committed late.
async fn is_kept_at(tx: &mut Tx, message: i64, now: Timestamp, retention: Duration) -> Result<bool> {
    let row = tx.first(KEPT_SINCE, params![message, micros(retention)]).await?;
    let Some(row) = row else { return Ok(false) };
    let least = Duration::from_micros(row.int(1)?.unsigned_abs());
    // Messages of the last second are still being written.
    Ok(row.time(0)? > now.minus(least.max(Duration::from_secs(1))))
}

statements! {
    const KEPT_SINCE = "
        select m.created_at,
            (
                select coalesce(min(l.retention_us), $2)
                from punctual.lane l
                where l.purpose = 'dispatch' and l.retention_us < $2
            )
        from punctual.message m
        where m.id = $1
    ";
}

macro_rules! old_enough {
    ($unless:literal) => {
        concat! {"
            select m.id,
                case
                    when case
                        when m.due_at is null then m.created_at
                        else coalesce(
                            (
                                select
                                    case
                                        when c.cancelled = 1 or c.due_at < c.at then c.at
                                        else c.due_at
                                    end
                                from punctual.timer_change c
                                where c.tenant_id = m.tenant_id and c.message_id = m.id
                                order by c.id desc
                                limit 1
                            ),
                            case when m.due_at > m.created_at then m.due_at else m.created_at end
                        )
                    end < $3 - coalesce(
                        (
                            select max(coalesce(l.retention_us, $4))
                            from punctual.lane l
                            where l.tenant_id = m.tenant_id
                                and l.topic = m.topic
                                and l.purpose = 'dispatch'
                        ),
                        $4
                    )
                        and not exists (
                            select 1
                            from punctual.claim c
                            where c.finished_at is null
                                and c.purpose = 'dispatch'
                                and c.first_id <= m.id
                                and c.last_id >= m.id
                        )
                        and not exists (
                            select 1
                            from punctual.dead_letter d
                            where d.message_id = m.id
                        ) ", $unless, "
                        and not ", something_waits!(), " then 1
                    else 0
                end
            from punctual.message m
            where m.id > $1
            order by m.id
            limit $2
        "}
    };
}

statements! {
    /// Where no entries are.
    const OLD = old_enough!("");

    const OLD_AND_UNUSED = old_enough!("
                        and not exists (
                            select 1
                            from punctual.entry e
                            where e.message_id = m.id and (e.kind = 'survey' or e.ended_at is null)
                        )
    ");
}

async fn prune_rest(tx: &mut Tx, (claims_kept, ids_kept): (Duration, Duration)) -> Result<u64> {
    let now = tx.now().await?;
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let there = tx.components_beside(Components::of(&[Component::Access, Component::Outbox])).await?;
    let mut dropped = 0;
    for (component, sql, kept) in [
        (Component::Outbox, OLD_CLAIMS, claims_kept),
        (Component::Access, OLD_ANSWERS, limits::ANSWER_RETENTION),
        (Component::Outbox, OLD_ADMITTED, ids_kept),
    ] {
        if there.has(component) {
            dropped += tx.execute(sql, params![now.minus(kept), limit]).await?;
        }
    }
    Ok(dropped)
}

statements! {
    const OLD_CLAIMS = "
        delete from punctual.claim
        where token in (
            select token
            from punctual.claim
            where finished_at is not null and finished_at < $1
            order by finished_at
            limit $2
        )
    ";

    const OLD_ANSWERS = "
        delete from punctual.answer
        where (tenant_id, idempotency_key) in (
            select tenant_id, idempotency_key
            from punctual.answer
            where asked_at < $1
            order by asked_at
            limit $2
        )
    ";

    const OLD_ADMITTED = "
        delete from punctual.admitted
        where (tenant_id, source, external_id) in (
            select tenant_id, source, external_id
            from punctual.admitted
            where seen_at < $1
            limit $2
        )
    ";
}
