//! Lag: how long due work has waited, for each purpose of lanes, and how late the next runs of jobs are.
//!
//! Each look is one statement. The look at work walks from lane to lane through the index and reads the first
//! row of each, so it costs as much as there are lanes with work, however much work that is.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::database::statement::statements;
use crate::database::tx::Tx;
use crate::database::value::{Row, params};
use crate::queue::rules::purpose::Purpose;
use crate::queue::store::settle::read_purpose;
use std::time::Duration;

/// Jobs whose lag is reported, those that are due first.
pub const JOB_LAGS_MAX: i64 = 20;

/// The lag of the workers of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLag {
    /// The purpose of their lanes.
    pub purpose: Purpose,
    /// The due time of the oldest item that is due, not claimed and not paused.
    pub oldest_due: Option<Timestamp>,
}

impl WorkerLag {
    /// Returns how long the oldest due item has waited; zero if none is due.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Duration {
        self.oldest_due.map_or(Duration::ZERO, |due| now.since(due))
    }
}

/// The lag of one enabled job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLag {
    /// The slug of its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// The time of its next run; in the past if no planner has planned it.
    pub next_due: Timestamp,
}

impl JobLag {
    /// Returns how late its next run is; zero if it is not due.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Duration {
        now.since(self.next_due)
    }
}

/// Returns the lag of each purpose, in their order.
pub(crate) async fn worker_lags(tx: &mut Tx, now: Timestamp) -> Result<Vec<WorkerLag>> {
    let mut lags = Purpose::ALL.map(|purpose| WorkerLag { purpose, oldest_due: None });
    for row in tx.query(WORKER_LAGS, params![now]).await? {
        let (purpose, oldest_due) = (read_purpose(&row.text(0)?)?, row.maybe_time(1)?);
        lags.iter_mut().filter(|lag| lag.purpose == purpose).for_each(|lag| lag.oldest_due = oldest_due);
    }
    Ok(lags.into())
}

/// Returns the lags of the enabled jobs that are due first, the latest first.
pub(crate) async fn job_lags(tx: &mut Tx) -> Result<Vec<JobLag>> {
    let rows = tx.query(JOB_LAGS, params![JOB_LAGS_MAX]).await?;
    rows.iter().map(read_job_lag).collect()
}

fn read_job_lag(row: &Row) -> Result<JobLag> {
    Ok(JobLag { tenant: row.text(0)?, name: row.text(1)?, next_due: row.time(2)? })
}

statements! {
    /// Messages that are not routed yet wait in lane 0, which has no row.
    const WORKER_LAGS = "
        with recursive seen (lane_id) as (
            select min(w.lane_id)
            from punctual.work w
            union all
            select (select min(w.lane_id) from punctual.work w where w.lane_id > seen.lane_id)
            from seen
            where seen.lane_id is not null
        )
        select coalesce(l.purpose, 'dispatch'),
            min((
                select min(w.due_at)
                from punctual.work w
                where w.lane_id = s.lane_id and w.due_at <= $1
            ))
        from seen s
        left join punctual.lane l on l.id = s.lane_id
        where s.lane_id is not null and coalesce(l.paused, 0) = 0
        group by coalesce(l.purpose, 'dispatch')
    ";

    const JOB_LAGS = "
        select t.slug, j.name, j.next_due
        from punctual.job j
        join punctual.tenant t on t.id = j.tenant_id
        where j.next_due is not null
        order by j.next_due, j.id
        limit $1
    ";
}
