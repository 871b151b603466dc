//! Queues as operators see them: a lane with its settings and its waiting work.

use crate::base::backoff::Backoff;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Problems, Result};
use crate::base::id::LaneId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::Tx;
use crate::database::tx::VerbFuture;
use crate::database::value::{Row, Value, params};
use crate::queue::rules::message::check_topic;
use crate::queue::rules::purpose::Purpose;
use crate::queue::rules::queue::{DeadHeadPolicy, QueueSettings};
use crate::queue::store::routes;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A lane with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its id.
    pub id: LaneId,
    /// The tenant of the queue.
    pub tenant: Tenant,
    /// The topic.
    pub topic: String,
    /// The subscription, empty for the topic's own queue.
    pub subscription: String,
    /// Whether the queue was declared (by a setting, a handler or a claim).
    pub declared: bool,
    /// Its settings.
    pub settings: QueueSettings,
}

/// Counting stops here: a number beyond it is "at least".
pub const COUNT_MAX: i64 = 100_000;

/// A queue with what waits in it.
#[derive(Clone, Debug)]
pub struct QueueState {
    /// The lane.
    pub lane: Lane,
    /// Items that wait, due or not; [`COUNT_MAX`] stands for at least that many.
    pub waiting: i64,
    /// Items that are due, counted likewise.
    pub due: i64,
    /// Followers of sequences, counted likewise.
    pub behind_their_key: i64,
    /// Items that are claimed and not settled.
    pub in_flight: i64,
    /// Dead letters.
    pub dead: i64,
    /// The earliest due time.
    pub oldest_due: Option<Timestamp>,
}

impl Store {
    /// The topic's own queue, made (and declared) if need be.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the topic is not a name.
    pub fn declare_queue<'a>(&'a self, tenant: Tenant, topic: &'a str) -> VerbFuture<'a, Lane> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check_topic(topic, "topic", &mut problems);
            problems.into_result()?;
            self.of(tenant)
                .write((tenant, topic.to_owned()), |tx, (tenant, topic)| {
                    Box::pin(declare(tx, *tenant, topic))
                })
                .await
        })
    }

    /// Changes a queue's settings; a setting that the change does not name stays.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every wrong setting.
    pub fn set_queue<'a>(
        &'a self,
        tenant: Tenant,
        topic: &'a str,
        change: serde_json::Map<String, serde_json::Value>,
    ) -> VerbFuture<'a, Lane> {
        VerbFuture::new(async move {
            let mut problems = Problems::default();
            check_topic(topic, "topic", &mut problems);
            // Wrong settings are refused before the queue is made.
            if let Err(wrong) = QueueSettings::default().changed_by(&change) {
                problems.0.extend(wrong.0);
            }
            problems.into_result()?;
            let request = (tenant, topic.to_owned(), change);
            self.of(tenant)
                .write(request, |tx, (tenant, topic, change)| Box::pin(set(tx, *tenant, topic, change)))
                .await
        })
    }

    /// A lane by its topic and subscription.
    pub fn lane(&self, tenant: Tenant, topic: &str, subscription: &str) -> VerbFuture<'_, Option<Lane>> {
        let request = (tenant, topic.to_owned(), subscription.to_owned());
        self.of(tenant).read(request, |tx, (tenant, topic, subscription)| {
            Box::pin(async move {
                let row = tx.first(LANE_BY_NAME, params![tenant.id(), topic, subscription]).await?;
                row.as_ref().map(read_lane).transpose()
            })
        })
    }

    /// All queues of a tenant, by name.
    pub fn queues(&self, tenant: Tenant) -> VerbFuture<'_, Vec<QueueState>> {
        self.of(tenant).read(tenant, |tx, tenant| Box::pin(queues(tx, *tenant)))
    }

    /// One queue of a tenant.
    pub fn queue<'a>(&'a self, tenant: Tenant, topic: &'a str) -> VerbFuture<'a, Option<QueueState>> {
        VerbFuture::new(async move {
            let all = self.queues(tenant).await?;
            Ok(all.into_iter().find(|q| q.lane.topic == topic && q.lane.subscription.is_empty()))
        })
    }
}

macro_rules! lane_columns {
    () => {
        "
        l.id, l.tenant_id, l.topic, l.subscription, l.declared, l.paused, l.max_attempts, l.backoff,
        l.retention_us, l.dead_head
        "
    };
}

/// A lane of the engine's own, made if need be.
pub(crate) async fn own_lane(
    tx: &mut Tx,
    tenant: Tenant,
    purpose: Purpose,
    (topic, subscription): (&str, &str),
) -> Result<i64> {
    let name = params![tenant.id(), topic, subscription, purpose.word()];
    if let Some(row) = tx.first(OWN_LANE, name).await? {
        return row.int(0);
    }
    let now = tx.now().await?;
    tx.execute(ADD_OWN_LANE, params![tenant.id(), topic, subscription, purpose.word(), now]).await?;
    let made = tx.first(OWN_LANE, name).await?;
    made.ok_or_else(|| Error::Database("a lane was not written".into()))?.int(0)
}

statements! {
    const OWN_LANE = "
        select id
        from punctual.lane
        where tenant_id = $1 and topic = $2 and subscription = $3 and purpose = $4
    ";

    const ADD_OWN_LANE = "
        insert into punctual.lane (tenant_id, topic, subscription, purpose, created_at)
        values ($1, $2, $3, $4, $5)
        on conflict do nothing
    ";

    const LANE_BY_NAME = "
        select ", lane_columns!(), "
        from punctual.lane l
        where l.tenant_id = $1 and l.topic = $2 and l.subscription = $3 and l.purpose = 'dispatch'
    ";

    const LANES_BY_ID = "
        select ", lane_columns!(), "
        from punctual.lane l
        where l.id = any($1::int[])
    ";
}
/// The counts of a lane `l`: `$2` is the time, `$3` where counting stops.
macro_rules! lane_counts {
    () => {
        "
        (select count(*) from (select 1 from punctual.work w where w.lane_id = l.id limit $3) x),
        (
            select count(*)
            from (select 1 from punctual.work w where w.lane_id = l.id and w.due_at <= $2 limit $3) x
        ),
        (select count(*) from (select 1 from punctual.follower f where f.lane_id = l.id limit $3) x),
        (select count(*) from punctual.dead_letter d where d.lane_id = l.id),
        (select min(w.due_at) from punctual.work w where w.lane_id = l.id)
        "
    };
}
pub(crate) use {lane_columns, lane_counts};

statements! {
    const QUEUES = "
        select ", lane_columns!(), ", ", lane_counts!(), "
        from punctual.lane l
        where l.tenant_id = $1 and l.purpose = 'dispatch' and l.subscription <> '/flows'
        order by l.topic, l.subscription
    ";
}

fn read_lane(row: &Row) -> Result<Lane> {
    let backoff = row.maybe_text(7)?.map(|text| read_backoff(&text)).transpose()?;
    let settings = QueueSettings {
        paused: row.flag(5)?,
        max_attempts: row.maybe_int(6)?.and_then(|n| u32::try_from(n).ok()),
        backoff,
        retention: row.maybe_int(8)?.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros),
        dead_head: if row.text(9)? == "pass" { DeadHeadPolicy::Pass } else { DeadHeadPolicy::Block },
    };
    Ok(Lane {
        id: LaneId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        topic: row.text(2)?,
        subscription: row.text(3)?,
        declared: row.flag(4)?,
        settings,
    })
}

fn read_backoff(text: &str) -> Result<Backoff> {
    let json = serde_json::from_str(text).map_err(|e| Error::Database(e.into()))?;
    Backoff::from_json(&json).map_err(|e| Error::Database(e.into()))
}

/// Lanes by id.
pub(crate) async fn lanes(tx: &mut Tx, ids: &HashSet<LaneId>) -> Result<HashMap<LaneId, Lane>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = tx.query(LANES_BY_ID, &[Value::Ints(&ids)]).await?;
    rows.iter().map(|row| read_lane(row).map(|lane| (lane.id, lane))).collect()
}

async fn declare(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<Lane> {
    let id = routes::declare(tx, tenant, topic).await?;
    let lane = lanes(tx, &HashSet::from([id])).await?.remove(&id);
    lane.ok_or_else(|| Error::NotFound(format!("there is no queue `{topic}`")))
}

async fn set(
    tx: &mut Tx,
    tenant: Tenant,
    topic: &str,
    change: &serde_json::Map<String, serde_json::Value>,
) -> Result<Lane> {
    let mut lane = declare(tx, tenant, topic).await?;
    lane.settings = lane.settings.changed_by(change).map_err(Error::Invalid)?;
    let s = &lane.settings;
    let backoff = s.backoff.as_ref().map(|b| b.to_json().to_string());
    let retention = s.retention.map(|r| i64::try_from(r.as_micros()).unwrap_or(i64::MAX));
    let row = params![
        lane.id.0,
        s.paused,
        s.max_attempts.map(i64::from),
        backoff.as_deref(),
        retention,
        s.dead_head.word(),
    ];
    tx.execute(SET_LANE, row).await?;
    Ok(lane)
}

statements! {
    const SET_LANE = "
        update punctual.lane
        set paused = $2, max_attempts = $3, backoff = $4, retention_us = $5, dead_head = $6
        where id = $1
    ";
}

/// Items under open claims, by lane. Open claims are few: the number of items in flight is bounded.
pub(crate) async fn in_flight(tx: &mut Tx) -> Result<HashMap<LaneId, i64>> {
    let mut counts = HashMap::new();
    for row in tx.query(OPEN_CLAIMS, params![OPEN_CLAIMS_MAX]).await? {
        for item in super::settle::read_items(&row.text(0)?)? {
            *counts.entry(item.lane()).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

/// Claims that are looked into for the counts of what is in flight.
const OPEN_CLAIMS_MAX: i64 = 10_000;
statements! {
    const OPEN_CLAIMS = "
        select coalesce(open, items)
        from punctual.claim
        where finished_at is null
        limit $1
    ";
}

async fn queues(tx: &mut Tx, tenant: Tenant) -> Result<Vec<QueueState>> {
    let now = tx.now().await?;
    let rows = tx.query(QUEUES, params![tenant.id(), now, COUNT_MAX]).await?;
    let in_flight = in_flight(tx).await?;
    rows.iter().map(|row| read_state(row, &in_flight)).collect()
}

/// Reads a lane and its counts, which are the first columns of a row.
pub(crate) fn read_state(row: &Row, in_flight: &HashMap<LaneId, i64>) -> Result<QueueState> {
    Ok(QueueState {
        lane: read_lane(row)?,
        waiting: row.int(10)?,
        due: row.int(11)?,
        behind_their_key: row.int(12)?,
        in_flight: in_flight.get(&LaneId(row.int(0)?)).copied().unwrap_or(0),
        dead: row.int(13)?,
        oldest_due: row.maybe_time(14)?,
    })
}
