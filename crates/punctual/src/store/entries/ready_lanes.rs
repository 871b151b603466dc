//! Which lanes of entries have due work, and when the next of it is due.
//!
//! A lane of entries is known by its purpose, and the flows' lane by its name. One look visits each such
//! lane once, whatever waits in it, and what waits for a route: people may be told of that, too.

use super::super::Store;
use super::super::deliveries::FLOWS_LANE;
use super::super::settle::read_purpose;
use super::super::tx::Tx;
use super::super::value::params;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::rules::entry::EntryKind;
use crate::rules::purpose::Purpose;
use crate::store::tx::VerbFuture;

/// A lane with due work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryLane {
    /// The lane.
    pub lane: LaneId,
    /// What it is for.
    pub purpose: Purpose,
    /// The key of its channel, or the topic of its events.
    pub channel: String,
    /// The kind of entries whose deliveries wait in it, in a lane of deliveries.
    pub kind: Option<EntryKind>,
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
    for row in tx.query(LANES, params![FLOWS_LANE]).await? {
        let purpose = read_purpose(&row.text(1)?)?;
        seen.tells |= purpose == Purpose::Dispatch && row.int(0)? != LaneId::UNROUTED.0;
        let Some(first_due) = row.maybe_time(2)? else { continue };
        if first_due > now {
            seen.next = Some(seen.next.map_or(first_due, |next| next.min(first_due)));
            continue;
        }
        if row.int(0)? == LaneId::UNROUTED.0 {
            seen.unrouted = true;
            continue;
        }
        let (channel, kind) = (row.text(3)?, EntryKind::from_word(&row.text(4)?));
        seen.lanes.push(EntryLane { lane: LaneId(row.int(0)?), purpose, channel, kind, first_due });
    }
    Ok(seen)
}

const LANES: &str = "select l.id, l.purpose, \
        (select min(w.due_at) from punctual.work w where w.lane_id = l.id), l.topic, l.subscription \
    from punctual.lane l where (l.purpose <> 'dispatch' or l.subscription = $1) and l.paused = 0 \
    union all select 0, 'dispatch', (select min(w.due_at) from punctual.work w where w.lane_id = 0), '', '' \
    order by 1";
