//! Takes due work rows out of their table: under row locks on PostgreSQL, by range on SQLite, where the
//! writer is alone. Neither waits for another claimer.

use crate::base::clock::Timestamp;
#[cfg(feature = "sqlite")]
use crate::base::error::Error;
use crate::base::error::Result;
use crate::base::id::{LaneId, MessageId};
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::Row;
#[cfg(feature = "postgres")]
use crate::database::value::Value;
#[cfg(feature = "sqlite")]
use crate::database::value::params;
use crate::queue::rules::claim::ClaimItem;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::share::LaneQuota;
use crate::queue::store::claims::TakenWork;

/// Takes rows out of the work table, in due order within each lane.
pub(crate) async fn take(
    tx: &mut Tx,
    purpose: Purpose,
    takes: &[LaneQuota],
) -> Result<(Option<Timestamp>, Vec<TakenWork>)> {
    match tx {
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) => take_skipping_locked(tx, purpose, takes).await,
        #[cfg(feature = "sqlite")]
        Tx::Sqlite(_) => take_range(tx, purpose, takes).await,
    }
}

#[cfg(feature = "postgres")]
async fn take_skipping_locked(
    tx: &mut Tx,
    purpose: Purpose,
    takes: &[LaneQuota],
) -> Result<(Option<Timestamp>, Vec<TakenWork>)> {
    let lanes: Vec<i64> = takes.iter().map(|t| t.lane.0).collect();
    let since: Vec<i64> = takes.iter().map(|t| t.since.as_micros()).collect();
    let quota: Vec<i64> = takes.iter().map(|t| i64::try_from(t.quota).unwrap_or(i64::MAX)).collect();
    let values = [Value::Ints(&lanes), Value::Ints(&since), Value::Ints(&quota), purpose.word().into()];
    let rows = tx.query(TAKE, &values).await?;
    let now = rows.first().map(|row| row.time(6)).transpose()?;
    let mut taken = rows.iter().map(read_taken).collect::<Result<Vec<_>>>()?;
    taken.sort_by_key(|t| (t.due_at, t.item.message()));
    Ok((now, taken))
}

statements! {
    /// The rows are locked where they stand and deleted by their address. Only rows that were really deleted
    /// are handed out, in the order of their due times (a delete returns rows as they lie).
    #[cfg(feature = "postgres")]
    const TAKE for Postgres = "
        with picked as materialized (
            select w.place
            from unnest($1::int[], $2::bigint[], $3::bigint[]) t (lane_id, since, quota)
            join punctual.lane l on l.id = t.lane_id and l.paused = 0 and l.purpose = $4::text
            cross join lateral (
                select x.ctid as place
                from punctual.work x
                where x.lane_id = t.lane_id
                    and x.due_at >= t.since
                    and x.due_at <= (select punctual.now_us())
                order by x.due_at, x.message_id
                limit t.quota
                for update skip locked
            ) w
        )
        delete from punctual.work
        where ctid = any(array(select place from picked))
        returning message_id, lane_id, due_at, attempts, unstarted, key, (select punctual.now_us())
    ";
}

#[cfg(feature = "sqlite")]
async fn take_range(
    tx: &mut Tx,
    purpose: Purpose,
    takes: &[LaneQuota],
) -> Result<(Option<Timestamp>, Vec<TakenWork>)> {
    let now = tx.now().await?;
    let mut all = Vec::new();
    for t in takes {
        let quota = i64::try_from(t.quota).unwrap_or(i64::MAX);
        let rows = tx.query(DUE_IN_LANE, params![t.lane.0, t.since, now, quota, purpose.word()]).await?;
        let lane = rows.iter().map(read_taken).collect::<Result<Vec<_>>>()?;
        let Some(last) = lane.last() else { continue };
        let range = params![t.lane.0, t.since, last.due_at, last.item.message().0];
        if tx.execute(DELETE_RANGE, range).await? != lane.len() as u64 {
            return Err(Error::Database("a claim would have taken other rows than it read".into()));
        }
        all.extend(lane);
    }
    Ok((Some(now), all))
}

statements! {
    #[cfg(feature = "sqlite")]
    const DUE_IN_LANE = "
        select message_id, lane_id, due_at, attempts, unstarted, key
        from punctual.work
        where lane_id = $1
            and due_at >= $2
            and due_at <= $3
            and exists (
                select 1
                from punctual.lane l
                where l.id = $1 and l.paused = 0 and l.purpose = $5
            )
        order by due_at, message_id
        limit $4
    ";

    /// Exactly the rows just read: they are the first of their lane, and the writer is alone.
    #[cfg(feature = "sqlite")]
    const DELETE_RANGE = "
        delete from punctual.work
        where lane_id = $1 and due_at >= $2 and (due_at, message_id) <= ($3, $4)
    ";
}

fn read_taken(row: &Row) -> Result<TakenWork> {
    let key = row.maybe_text(5)?;
    let item = ClaimItem(MessageId(row.int(0)?), LaneId(row.int(1)?), row.count(3)? + 1, row.count(4)?, key);
    Ok(TakenWork { item, due_at: row.time(2)? })
}
