//! Entries: one row for each occurrence of a trigger.
//!
//! What may become of an entry is decided by [`crate::rules::entry`] and written here under the
//! version it was decided by. What of it is due stands in the work queue: the next send in an advance
//! lane of its tenant and kind, the end in the tenant's expire lane. The verbs:
//!
//! | file | verb |
//! |---|---|
//! | [`admit`] | events become entries, in one transaction for a batch |
//! | [`advance`] | due entries get the delivery of their next send |
//! | [`step`] | what a delivery's outcome makes of its entry |
//! | [`expire`] | what was quiet for too long ends |
//! | [`transition`] | what people do to one: open, answer, cancel, delete |
//! | [`replay`] | what failed is sent once more |
//! | [`tell`] | what others are told of it, on one topic |
//! | [`key`] | the key of every entry, which lets one through |
//! | [`prune`] | what ended long ago goes, its key stays |
//! | [`queries`], [`ready_lanes`] | lists, logs and counts; which lanes have due work |

pub mod admit;
pub mod advance;
pub mod expire;
pub mod key;
pub mod prune;
pub mod queries;
pub mod ready_lanes;
pub mod replay;
pub mod step;
pub mod tell;
pub mod transition;

use super::tx::Tx;
use super::value::{Row, Value};
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::{EntryId, FlowId, LaneId};
use crate::base::tenant::Tenant;
use crate::rules::entry::Status;
use crate::rules::entry::state::EntryState;
use crate::rules::public_id::PublicId;
use crate::rules::purpose::Purpose;
use std::collections::HashSet;
use std::time::Duration;

/// An entry, as its row has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub id: EntryId,
    /// Whose it is.
    pub tenant: Tenant,
    /// The flow that made it …
    pub flow: FlowId,
    /// … in which version …
    pub number: u32,
    /// … by which trigger.
    pub trigger_id: String,
    /// Where its sends wait.
    pub lane: LaneId,
    /// The key of its channel.
    pub channel: String,
    /// Its name outside.
    pub public_id: PublicId,
    /// The dedup key, in hexadecimal.
    pub unique_hash: String,
    /// Where it is sent.
    pub address: String,
    /// The locale the recipient reads.
    pub locale: Option<String>,
    /// The recipient's name in another system.
    pub customer_ref: Option<String>,
    /// The event's payload, as JSON text.
    pub payload: String,
    /// The subscriptions that its survey lists for it, until somebody answers; `None` is every one of the
    /// topic.
    pub listeners: Option<Vec<String>>,
    /// Who or what made it.
    pub triggered_by: String,
    /// How long it may be quiet.
    pub grace: Duration,
    /// Where it stands.
    pub standing: EntryState,
    /// When a person first opened its page.
    pub opened_at: Option<Timestamp>,
    /// When it was answered.
    pub completed_at: Option<Timestamp>,
    /// Whether somebody deleted it.
    pub deleted: bool,
    /// Whether somebody holds it.
    pub held: bool,
    /// Rises with every change.
    pub version: i64,
    /// The reminders it was made with.
    pub reminders: i64,
}

impl Entry {
    /// The number of the send that is due next: 1 is the invitation.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        let sent = (self.reminders - self.standing.remaining).clamp(0, self.reminders.max(0));
        u32::try_from(sent).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The idempotency key of the send that is due next.
    #[must_use]
    pub fn send_key(&self) -> String {
        format!("survey:{}:{}", self.public_id, self.attempt())
    }

    /// What stands for it in the work queue.
    pub(super) const fn work_id(&self) -> i64 {
        self.id.0
    }

    /// Whether a delivery of this send is the one that the entry waits for.
    pub(super) fn waits_for(&self, send: u32) -> bool {
        self.standing.next_send_at.is_some() && self.attempt() == send
    }
}

/// The columns that [`read_entry`] reads, from a table called `e`.
macro_rules! entry_columns {
    () => {
        "e.id, e.tenant_id, e.flow_id, e.number, e.trigger_id, e.lane_id, e.channel, e.public_high, \
         e.public_low, e.key, e.address, e.locale, e.customer_ref, e.payload, e.triggered_by, \
         e.created_at, e.grace_us, e.status, e.due_at, e.last_sent_at, e.remaining, e.opened_at, \
         e.completed_at, case when e.deleted_at is null then 0 else 1 end, e.version, e.reminders, \
         case when e.held_at is null then 0 else 1 end, e.listeners"
    };
}
use entry_columns;

fn read_entry(row: &mut Row) -> Result<Entry> {
    let public = (row.int(7)?, row.int(8)?);
    let unreadable = || Error::Database("an entry has a public id or a status that cannot be".into());
    Ok(Entry {
        id: EntryId(row.int(0)?),
        tenant: Tenant::from_row(row.int(1)?),
        flow: FlowId(row.int(2)?),
        number: row.count(3)?,
        trigger_id: row.take_text(4)?,
        lane: LaneId(row.int(5)?),
        channel: row.take_text(6)?,
        public_id: PublicId::from_halves(public).ok_or_else(unreadable)?,
        unique_hash: row.take_text(9)?,
        address: row.take_text(10)?,
        locale: row.take_maybe_text(11)?,
        customer_ref: row.take_maybe_text(12)?,
        payload: row.take_text(13)?,
        triggered_by: row.take_text(14)?,
        grace: Duration::from_micros(u64::try_from(row.int(16)?).unwrap_or_default()),
        standing: EntryState {
            status: Status::from_code(row.int(17)?).ok_or_else(unreadable)?,
            triggered_at: row.time(15)?,
            next_send_at: row.maybe_time(18)?,
            last_sent_at: row.maybe_time(19)?,
            remaining: row.int(20)?,
        },
        opened_at: row.maybe_time(21)?,
        completed_at: row.maybe_time(22)?,
        deleted: row.flag(23)?,
        version: row.int(24)?,
        reminders: row.int(25)?,
        held: row.flag(26)?,
        listeners: row
            .maybe_text(27)?
            .map(|names| serde_json::from_str(&names))
            .transpose()
            .map_err(unlisted)?,
    })
}

fn unlisted(error: serde_json::Error) -> Error {
    Error::Database(format!("corrupt entry row: unreadable listeners: {error}").into())
}

/// Entries by id, each under its lock; those that somebody else has locked at this moment are not
/// among them.
pub(super) async fn lock(tx: &mut Tx, ids: &[i64]) -> Result<Vec<Entry>> {
    let mut rows = tx.query(LOCK, &[Value::Ints(ids)]).await?;
    rows.iter_mut().map(read_entry).collect()
}

const LOCK: &str = concat!(
    "select ",
    entry_columns!(),
    " from punctual.entry e where e.id = any($1::bigint[]) for update skip locked"
);

/// Which of these exist: those that could not be locked and are among them are somebody else's now.
async fn there(tx: &mut Tx, ids: &[i64]) -> Result<HashSet<i64>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = tx.query(THERE, &[Value::Ints(ids)]).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

const THERE: &str = "select id from punctual.entry where id = any($1::bigint[])";

/// The lane of a tenant in which expiries wait.
async fn expire_lane(tx: &mut Tx, tenant: Tenant) -> Result<i64> {
    super::queues::own_lane(tx, tenant, Purpose::Expire, ("", "")).await
}

/// A work row of an entry.
const ADD_WORK: &str = "insert into punctual.work (message_id, lane_id, due_at) values ($1, $2, $3)";
