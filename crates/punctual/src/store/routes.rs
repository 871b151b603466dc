//! Routes: which lanes a topic's messages go to.
//!
//! Routes are read by every enqueue and written rarely. A message whose topic has no
//! route yet waits in lane 0; [`Store::route_waiting`] gives each such topic a lane of
//! its own and moves what waits, so a host's transaction never creates anything. Whoever makes
//! a topic's route moves what waits for it in the same transaction: else messages that find the
//! route would overtake earlier ones of their key.

use super::Store;
use super::tx::Tx;
use super::value::{Value, params};
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::limits;
use crate::base::tenant::Tenant;
use std::collections::HashMap;

/// The lanes of a topic; the unrouted lane when there is none.
pub(super) async fn lanes_of(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<Vec<i64>> {
    let rows = tx.query(LANES_OF, params![tenant.id(), topic]).await?;
    let lanes = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
    Ok(if lanes.is_empty() { vec![LaneId::UNROUTED.0] } else { lanes })
}

const LANES_OF: &str = "select lane_id from punctual.route where tenant_id = $1 and topic = $2";

/// The topic's own lane, made if need be, and routed, with what waited for that.
pub(super) async fn own_lane(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<LaneId> {
    let (lane, fresh) = find_or_make(tx, tenant, topic).await?;
    if fresh {
        fetch_waiting(tx, tenant, topic).await?;
    }
    Ok(lane)
}

/// The topic's own lane, and whether its route is new.
async fn find_or_make(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<(LaneId, bool)> {
    if let Some(row) = tx.first(OWN_LANE, params![tenant.id(), topic]).await? {
        let lane = LaneId(row.int(0)?);
        if row.flag(1)? {
            return Ok((lane, false));
        }
        tx.execute(ADD_ROUTE, params![tenant.id(), topic, lane.0]).await?;
        return Ok((lane, true));
    }
    let now = tx.now().await?;
    tx.execute(ADD_LANE, params![tenant.id(), topic, now]).await?;
    let row = tx.first(OWN_LANE, params![tenant.id(), topic]).await?;
    let lane = row.map_or(Ok(LaneId::UNROUTED.0), |row| row.int(0))?;
    tx.execute(ADD_ROUTE, params![tenant.id(), topic, lane]).await?;
    Ok((LaneId(lane), true))
}

/// Moves what waits in lane 0 for this topic. Rows that a router moves at this moment are left to
/// it: it may be waiting for this very transaction.
async fn fetch_waiting(tx: &mut Tx, tenant: Tenant, topic: &str) -> Result<()> {
    let waiting = tx.query(UNROUTED_OF, params![tenant.id(), topic]).await?;
    if waiting.is_empty() {
        return Ok(());
    }
    let lanes = lanes_of(tx, tenant, topic).await?;
    let keys = waiting.iter().map(|row| row.maybe_text(2)).collect::<Result<Vec<_>>>()?;
    let (mut gone, mut moved) = (Vec::with_capacity(waiting.len()), Vec::with_capacity(waiting.len()));
    for (row, key) in waiting.iter().zip(&keys) {
        let (message, due) = (row.int(0)?, row.int(1)?);
        gone.push(vec![Value::Int(due), Value::Int(message)]);
        for lane in &lanes {
            moved.push(vec![message.into(), (*lane).into(), due.into(), key.as_deref().into()]);
        }
    }
    tx.each(DELETE_UNROUTED, &gone).await?;
    tx.each(super::messages::INSERT_WORK, &moved).await?;
    Ok(())
}

/// All of them, however many: this happens once for a topic.
const UNROUTED_OF: &str = "select w.message_id, w.due_at, w.key from punctual.work w where w.lane_id = 0 \
    and exists (select 1 from punctual.message m \
        where m.id = w.message_id and m.tenant_id = $1 and m.topic = $2) for update skip locked";

const OWN_LANE: &str = "select l.id, case when exists (select 1 from punctual.route r \
        where r.tenant_id = l.tenant_id and r.topic = l.topic and r.lane_id = l.id) then 1 else 0 end \
    from punctual.lane l where l.tenant_id = $1 and l.topic = $2 and l.subscription = ''";
const ADD_LANE: &str = "insert into punctual.lane (tenant_id, topic, created_at) values ($1, $2, $3) \
    on conflict do nothing";
const ADD_ROUTE: &str = "insert into punctual.route (tenant_id, topic, lane_id) values ($1, $2, $3) \
    on conflict do nothing";

impl Store {
    /// Gives topics lanes of their own before anything is written to them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn ensure_routes(&self, tenant: Tenant, topics: Vec<String>) -> Result<()> {
        self.write((tenant, topics), |tx, (tenant, topics)| {
            Box::pin(async move {
                for topic in topics {
                    own_lane(tx, *tenant, topic).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Moves what waits in lane 0 to the lanes of its topics, a bounded number at a time;
    /// answers how much was moved.
    pub async fn route_waiting(&self) -> Result<usize> {
        self.write((), |tx, ()| Box::pin(route_waiting(tx))).await
    }
}

async fn route_waiting(tx: &mut Tx) -> Result<usize> {
    let limit = i64::try_from(limits::BATCH_ITEMS_MAX).unwrap_or(i64::MAX);
    let waiting = tx.query(UNROUTED, params![limit]).await?;
    let mut lanes: HashMap<(i64, String), Vec<i64>> = HashMap::new();
    let mut moved = Vec::with_capacity(waiting.len());
    let mut gone = Vec::with_capacity(waiting.len());
    let keys = waiting.iter().map(|row| row.maybe_text(4)).collect::<Result<Vec<_>>>()?;
    for (row, key) in waiting.iter().zip(&keys) {
        let (message, due) = (row.int(0)?, row.int(1)?);
        gone.push(vec![Value::Int(due), Value::Int(message)]);
        // The message itself may have been dropped; then so is its work.
        let (Some(tenant), Some(topic)) = (row.maybe_int(2)?, row.maybe_text(3)?) else { continue };
        let place = (tenant, topic);
        if !lanes.contains_key(&place) {
            let tenant = Tenant::from_row(tenant);
            find_or_make(tx, tenant, &place.1).await?;
            lanes.insert(place.clone(), lanes_of(tx, tenant, &place.1).await?);
        }
        for lane in &lanes[&place] {
            moved.push(vec![message.into(), (*lane).into(), due.into(), key.as_deref().into()]);
        }
    }
    tx.each(DELETE_UNROUTED, &gone).await?;
    tx.each(super::messages::INSERT_WORK, &moved).await?;
    Ok(gone.len())
}

const UNROUTED: &str = "select w.message_id, w.due_at, \
        (select m.tenant_id from punctual.message m where m.id = w.message_id), \
        (select m.topic from punctual.message m where m.id = w.message_id), w.key \
    from punctual.work w where w.lane_id = 0 order by w.due_at, w.message_id limit $1 for update skip locked";
const DELETE_UNROUTED: &str =
    "delete from punctual.work where lane_id = 0 and due_at = $1 and message_id = $2";
