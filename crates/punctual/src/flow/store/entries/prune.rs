//! Entries leave by age, when they have ended; their keys stay for longer.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::limits;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Value, params};
use crate::flow::rules::entry::EntryKind;
use std::collections::HashMap;

/// A step of a pass through the entries.
#[derive(Debug, Default)]
pub(crate) struct OldEntries {
    /// The last entry that was looked at; the next step begins behind it.
    pub cursor: i64,
    /// Entries that are to be dropped.
    pub ids: Vec<i64>,
    /// Whether the pass is through.
    pub finished: bool,
}

/// Looks for entries behind `cursor` that have ended and of which nothing has happened since a moment: the
/// first of the two for kinds that people answer, the second for all others.
pub(crate) async fn find_old(
    tx: &mut Tx,
    cursor: i64,
    (answered, logged): (Timestamp, Timestamp),
) -> Result<OldEntries> {
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let kinds: Vec<Option<&str>> =
        EntryKind::ALL.into_iter().filter(|kind| kind.has_answers()).map(|kind| Some(kind.word())).collect();
    let rows = tx
        .query(OLD, &[cursor.into(), answered.into(), logged.into(), limit.into(), Value::Texts(&kinds)])
        .await?;
    let mut step = OldEntries { cursor, finished: rows.len() < limits::PRUNE_ROWS, ids: Vec::new() };
    let mut old = Vec::new();
    for row in &rows {
        step.cursor = row.int(0)?;
        if row.flag(1)? {
            old.push((step.cursor, row.int(3)?));
        }
        // Ids follow time: behind the first that is young enough there is hardly an old one.
        step.finished |= !row.flag(2)?;
    }
    step.ids = lock_unchanged(tx, &old).await?;
    Ok(step)
}

/// Locks entries that are still in the version that was read: one that a replay has just opened again stays.
async fn lock_unchanged(tx: &mut Tx, old: &[(i64, i64)]) -> Result<Vec<i64>> {
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let (ids, versions): (Vec<i64>, HashMap<i64, i64>) =
        old.iter().map(|(id, version)| (*id, (*id, *version))).unzip();
    let mut unchanged = Vec::with_capacity(ids.len());
    for row in tx.query(LOCK, &[Value::Ints(&ids)]).await? {
        let id = row.int(0)?;
        if versions.get(&id) == Some(&row.int(1)?) {
            unchanged.push(id);
        }
    }
    Ok(unchanged)
}

statements! {
    const LOCK = "
        select e.id, e.version
        from punctual.entry e
        where e.id = any($1::bigint[])
        order by e.id
        for update skip locked
    ";

    /// An entry is kept by its last event, not by its age: an answer may come long after the invitation.
    const OLD = "
        select x.id,
            case
                when x.ended_at < x.bound
                    and x.created_at < x.bound
                    and coalesce(x.last_sent_at, 0) < x.bound
                    and coalesce(x.opened_at, 0) < x.bound
                    and coalesce(x.completed_at, 0) < x.bound then 1
                else 0
            end,
            case when x.created_at < $2 or x.created_at < $3 then 1 else 0 end, x.version
        from (
            select e.id, e.version, e.created_at, e.last_sent_at, e.opened_at, e.completed_at,
                e.ended_at,
                case when e.kind = any($5::text[]) then $2::bigint else $3::bigint end as bound
            from punctual.entry e
            where e.id > $1
            order by e.id
            limit $4
        ) x
        order by x.id
    ";
}

/// Drops traces that are past their time, as many as fit into a step; returns how many.
pub(crate) async fn prune_traces(tx: &mut Tx, now: Timestamp) -> Result<usize> {
    let limit = i64::try_from(limits::PRUNE_ROWS).unwrap_or(1_000);
    let before = now.minus(limits::ENTRY_TRACE_RETENTION);
    let dropped = tx.execute(DROP_OLD_TRACES, params![before, limit]).await?;
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}

statements! {
    /// The ids of traces follow time.
    const DROP_OLD_TRACES = "
        delete from punctual.entry_trace
        where id in (
            select t.id
            from (select id, at from punctual.entry_trace order by id limit $2) t
            where t.at < $1
        )
    ";
}

/// Drops entries with their history and traces.
pub(crate) async fn prune_entries(tx: &mut Tx, entries: &[i64]) -> Result<()> {
    for sql in [DROP_HISTORY, DROP_TRACES, DROP_ENTRIES] {
        tx.execute(sql, &[Value::Ints(entries)]).await?;
    }
    Ok(())
}

statements! {
    const DROP_HISTORY = "
        delete from punctual.entry_history
        where entry_id = any($1::bigint[])
    ";

    const DROP_TRACES = "
        delete from punctual.entry_trace
        where entry_id = any($1::bigint[])
    ";

    const DROP_ENTRIES = "
        delete from punctual.entry
        where id = any($1::bigint[])
    ";
}
