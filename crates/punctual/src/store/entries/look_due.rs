//! Which lanes of entries have due work, and when the next of it is due.
//!
//! A lane of entries is known by its subscription. One look visits each such lane once, whatever
//! waits in it, and what waits for a route: people may be told of that, too.

use super::super::Store;
use super::super::flows::{EXPIRE_LANE, SEND_LANE};
use super::super::notices::{DELIVER_LANE, FLOWS_LANE};
use super::super::tx::Tx;
use super::super::value::params;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::store::tx::VerbFuture;

/// What a lane of entries is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Sends by one channel.
    Send,
    /// Ends, if nobody answers.
    Expire,
    /// Events that people are told of.
    Tell,
    /// Deliveries by one channel.
    Deliver,
}

/// A lane with due work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryLane {
    /// The lane.
    pub lane: LaneId,
    /// What it is for.
    pub purpose: Purpose,
    /// The key of its channel, or the topic of its events.
    pub channel: String,
    /// When its first item was due.
    pub first_due: Timestamp,
}

/// What a look saw.
#[derive(Clone, Debug)]
pub struct DueEntries {
    /// The authority's time.
    pub now: Timestamp,
    /// Lanes with due work.
    pub lanes: Vec<EntryLane>,
    /// When the next work is due, of lanes that have none now.
    pub next: Option<Timestamp>,
    /// Whether anybody tells people of events.
    pub tells: bool,
    /// Whether something is due whose topic has no route yet.
    pub unrouted: bool,
}

impl Store {
    /// Looks for due work of entries, of all tenants. What is paused is left out.
    pub fn due_entries(&self) -> VerbFuture<'_, DueEntries> {
        self.read((), |tx, ()| Box::pin(due(tx)))
    }
}

async fn due(tx: &mut Tx) -> Result<DueEntries> {
    let now = tx.now().await?;
    let mut seen = DueEntries { now, lanes: Vec::new(), next: None, tells: false, unrouted: false };
    for row in tx.query(LANES, params![SEND_LANE, EXPIRE_LANE, FLOWS_LANE, DELIVER_LANE]).await? {
        seen.tells |= row.text(1)? == FLOWS_LANE;
        let Some(first_due) = row.maybe_time(2)? else { continue };
        if first_due > now {
            seen.next = Some(seen.next.map_or(first_due, |next| next.min(first_due)));
            continue;
        }
        if row.int(0)? == LaneId::UNROUTED.0 {
            seen.unrouted = true;
            continue;
        }
        let purpose = match row.text(1)?.as_str() {
            EXPIRE_LANE => Purpose::Expire,
            FLOWS_LANE => Purpose::Tell,
            DELIVER_LANE => Purpose::Deliver,
            _ => Purpose::Send,
        };
        let channel = row.text(3)?;
        seen.lanes.push(EntryLane { lane: LaneId(row.int(0)?), purpose, channel, first_due });
    }
    Ok(seen)
}

const LANES: &str = "select l.id, l.subscription, \
        (select min(w.due_at) from punctual.work w where w.lane_id = l.id), l.topic \
    from punctual.lane l where l.subscription in ($1, $2, $3, $4) and l.paused = 0 \
    union all select 0, '', (select min(w.due_at) from punctual.work w where w.lane_id = 0), '' order by 1";
