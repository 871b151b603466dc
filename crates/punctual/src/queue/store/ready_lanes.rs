//! Ready lanes: which lanes have work, and when the next of it is due.
//!
//! One look walks from lane to lane through the index (it never counts rows), so it costs as much as there
//! are lanes with work, however much work that is. A whole look uses no hint, and finds lanes that a hint
//! would hide. Looks in between leave known lanes out.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::LaneId;
use crate::base::tenant::Tenant;
use crate::database::dialect::Dialect;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::settle::read_purpose;

/// A lane that has work, now or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyLane {
    /// The lane.
    pub lane: LaneId,
    /// The tenant of the lane; `None` for messages that are not routed yet.
    pub tenant: Option<Tenant>,
    /// The kind of its items; items that are not routed yet are messages.
    pub purpose: Purpose,
    /// The topic.
    pub topic: String,
    /// The subscription, empty for the topic's own queue.
    pub subscription: String,
    /// Whether nothing may be claimed from it.
    pub paused: bool,
    /// When its first item is due.
    pub first_due: Timestamp,
}

/// The result of a look.
#[derive(Clone, Debug)]
pub struct ReadyLanes {
    /// The authority's time.
    pub now: Timestamp,
    /// Lanes with work, by id.
    pub lanes: Vec<ReadyLane>,
    /// Whether there may be more beyond the last one.
    pub more: bool,
}

impl Store {
    /// Looks for lanes with work other than the `known` ones, up to `limit`. On Postgres a
    /// deep lane's rows that were just claimed stand in its index until they are vacuumed; this
    /// look steps over them.
    pub fn ready_lanes_beside(&self, mut known: Vec<LaneId>, limit: usize) -> VerbFuture<'_, ReadyLanes> {
        known.sort_unstable();
        self.read((known, limit), |tx, (known, limit)| Box::pin(ready_lanes_beside(tx, known, *limit)))
    }

    /// Looks at up to `limit` lanes with work whose id is above `after`.
    pub fn ready_lanes(&self, after: LaneId, limit: usize) -> VerbFuture<'_, ReadyLanes> {
        self.read((after, limit), |tx, (after, limit)| Box::pin(ready_lanes(tx, *after, *limit)))
    }
}

async fn ready_lanes(tx: &mut Tx, after: LaneId, limit: usize) -> Result<ReadyLanes> {
    let (sql, now) = match tx.dialect() {
        // The server returns its time with the lanes, which saves a query.
        Dialect::Postgres => (READY_LANES_AND_TIME, None),
        Dialect::Sqlite => (READY_LANES, Some(tx.now().await?)),
    };
    let rows = tx.query(sql, params![after.0, i64::try_from(limit).unwrap_or(i64::MAX)]).await?;
    read_view(&rows, now, limit)
}

async fn ready_lanes_beside(tx: &mut Tx, known: &[LaneId], limit: usize) -> Result<ReadyLanes> {
    if tx.dialect() == Dialect::Sqlite {
        let mut view = ready_lanes(tx, LaneId(-1), limit).await?;
        view.lanes.retain(|seen| !known.contains(&seen.lane));
        return Ok(view);
    }
    let ends: Vec<i64> = known.iter().map(|lane| lane.0).collect();
    let above: Vec<i64> = std::iter::once(-1).chain(ends.iter().copied()).collect();
    let below: Vec<i64> = ends.iter().copied().chain([i64::from(i32::MAX)]).collect();
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows =
        tx.query(READY_LANES_BETWEEN, &[Value::Ints(&above), Value::Ints(&below), most.into()]).await?;
    read_view(&rows, None, limit)
}

fn read_view(rows: &[Row], now: Option<Timestamp>, limit: usize) -> Result<ReadyLanes> {
    let now = match now {
        Some(now) => now,
        None => rows.first().map_or_else(|| Err(no_time()), |row| row.time(7))?,
    };
    let mut lanes = Vec::with_capacity(rows.len());
    for row in rows {
        if row.maybe_int(0)?.is_none() {
            continue;
        }
        lanes.push(ReadyLane {
            lane: LaneId(row.int(0)?),
            first_due: row.time(1)?,
            tenant: row.maybe_int(2)?.map(Tenant::from_row),
            purpose: row.maybe_text(6)?.map_or(Ok(Purpose::Dispatch), |word| read_purpose(&word))?,
            topic: row.maybe_text(3)?.unwrap_or_default(),
            subscription: row.maybe_text(4)?.unwrap_or_default(),
            paused: row.maybe_int(5)?.unwrap_or(0) != 0,
        });
    }
    Ok(ReadyLanes { now, more: lanes.len() == limit, lanes })
}

fn no_time() -> Error {
    Error::Database("the clock gave no time".into())
}

/// The columns of each lane in a list called `s`.
macro_rules! ready_lane {
    () => {
        "
        select s.lane_id,
            (select min(w.due_at) from punctual.work w where w.lane_id = s.lane_id) as due_at,
            l.tenant_id, l.topic, l.subscription, l.paused, l.purpose
        from s
        left join punctual.lane l on l.id = s.lane_id
        order by s.lane_id
        "
    };
}
macro_rules! ready_lanes {
    () => {
        concat! {"
            with recursive seen (lane_id) as (
                select min(w.lane_id)
                from punctual.work w
                where w.lane_id > $1
                union all
                select (select min(w.lane_id) from punctual.work w where w.lane_id > seen.lane_id)
                from seen
                where seen.lane_id is not null
            ),
            s as (
                select lane_id
                from seen
                where lane_id is not null
                limit $2
            ) ", ready_lane!()}
    };
}

statements! {
    const READY_LANES = ready_lanes!();

    /// One row without a lane if there is no work.
    const READY_LANES_AND_TIME for Postgres = "
        select lane.*, t.now
        from (select punctual.now_us() as now) t
        left join (", ready_lanes!(), ") lane on true
        order by lane.lane_id
    ";

    /// The same, from each gap between known lanes to its end.
    const READY_LANES_BETWEEN for Postgres = "
        select lane.*, t.now
        from (select punctual.now_us() as now) t
        left join (
            with recursive seen (lane_id, below) as (
                select
                    (
                        select min(w.lane_id)
                        from punctual.work w
                        where w.lane_id > g.above and w.lane_id < g.below
                    ),
                    g.below
                from unnest($1::int[], $2::int[]) g (above, below)
                union all
                select
                    (
                        select min(w.lane_id)
                        from punctual.work w
                        where w.lane_id > seen.lane_id and w.lane_id < seen.below
                    ),
                    seen.below
                from seen
                where seen.lane_id is not null
            ),
            s as (
                select lane_id
                from seen
                where lane_id is not null
                limit $3
            )
            ", ready_lane!(), "
        ) lane on true
        order by lane.lane_id
    ";
}
