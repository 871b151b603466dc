//! What a person does to an entry of any kind: hold, release, retry and cancel it.
//!
//! Each is one transaction under the entry's lock, with a line of history: who did it, when and why. A held
//! entry keeps its place: its work is taken out of the queue, and put back when it is released. A send in
//! flight at that moment ends as it ends; only what would follow waits. Deliveries of a held entry are
//! marked, and a claim drops them, so a work row that a race left behind sends nothing. A held entry does not
//! expire.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::params;
use crate::delivery::store::deliveries::in_flight::deliveries_in_flight;
use crate::delivery::store::entries::end::cancel;
use crate::delivery::store::entries::expire::await_expiry;
use crate::flow::rules::entry::Deed;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::history::{NewChange, add_changes};
use crate::flow::store::entries::{Entry, lock_by_public_id, wait_for_entry};
use crate::queue::store::waiting::{let_wait, take_out};

/// How a person names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryName {
    /// By its number.
    Id(EntryId),
    /// By its public id, where it is a survey.
    PublicId(PublicId),
}

/// What a person does to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// Nothing of it is sent until it is released.
    Hold,
    /// It goes on.
    Release,
    /// What waits for its next try is tried now.
    Retry,
    /// Nothing more of it is sent.
    Cancel,
}

impl EntryAction {
    /// The word of the history.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hold => "held",
            Self::Release => "released",
            Self::Retry => "retried",
            Self::Cancel => "cancelled",
        }
    }
}

/// Who does it, and why.
#[derive(Clone, Debug)]
pub struct EntryActionRequest {
    /// The entry.
    pub name: EntryName,
    /// What is done.
    pub action: EntryAction,
    /// Who does it.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// What an action did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// It is done.
    Done,
    /// It cannot be done; nothing was written. With a sentence.
    Refused(String),
    /// This tenant has no such entry.
    NotFound,
}

impl Store {
    /// Holds, releases, retries or cancels an entry of a tenant.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn change_entry(&self, tenant: Tenant, request: EntryActionRequest) -> VerbFuture<'_, ActionOutcome> {
        self.of(tenant)
            .write((tenant, request), |tx, (tenant, request)| Box::pin(apply(tx, *tenant, request)))
    }
}

async fn apply(tx: &mut Tx, tenant: Tenant, request: &EntryActionRequest) -> Result<ActionOutcome> {
    let found = match request.name {
        EntryName::Id(id) => wait_for_entry(tx, id).await?,
        EntryName::PublicId(id) => lock_by_public_id(tx, id).await?,
    };
    let Some(entry) = found.filter(|entry| entry.tenant == tenant && !entry.deleted) else {
        return Ok(ActionOutcome::NotFound);
    };
    let now = tx.now().await?;
    let refused = match request.action {
        EntryAction::Hold => hold(tx, &entry, request, now).await?,
        EntryAction::Release => release(tx, &entry, now).await?,
        EntryAction::Retry => retry(tx, &entry, now).await?,
        EntryAction::Cancel => cancel_by_person(tx, &entry, request).await?,
    };
    if let Some(said) = refused {
        return Ok(ActionOutcome::Refused(said));
    }
    let (what, actor, reason) = (request.action.word(), request.actor.as_str(), request.reason.as_str());
    add_changes(tx, &[NewChange { tenant, entry: entry.id, what, actor, reason, cause: None }], now).await?;
    Ok(ActionOutcome::Done)
}

async fn hold(
    tx: &mut Tx,
    of: &Entry,
    request: &EntryActionRequest,
    now: Timestamp,
) -> Result<Option<String>> {
    if of.has_ended() {
        return Ok(Some("has ended, so there is nothing to hold".to_owned()));
    }
    tx.execute(SET_HOLD, params![of.id.0, now, &request.actor, &request.reason]).await?;
    tx.execute(MARK_HELD, params![of.id.0, 1]).await?;
    for waiting in waiting(tx, of.id).await? {
        take_out(tx, waiting.id, waiting.lane, waiting.due).await?;
    }
    if let (Some(lane), Some(due)) = (of.lane, of.state.next_send_at) {
        take_out(tx, of.id.0, lane.0, due).await?;
    }
    Ok(None)
}

const SET_HOLD: &str = "update punctual.entry set held_at = coalesce(held_at, $2), held_by = $3, \
    hold_reason = $4, version = version + 1 where id = $1";
const MARK_HELD: &str = "update punctual.delivery set held = $2 where entry_id = $1 and status = 0";

async fn release(tx: &mut Tx, of: &Entry, now: Timestamp) -> Result<Option<String>> {
    if of.hold.is_none() {
        return Ok(Some("is not on hold".to_owned()));
    }
    tx.execute(CLEAR_HOLD, params![of.id.0]).await?;
    tx.execute(MARK_HELD, params![of.id.0, 0]).await?;
    for waiting in waiting(tx, of.id).await? {
        // A row that a race left behind is there at the same place, and would be a second one.
        take_out(tx, waiting.id, waiting.lane, waiting.due).await?;
        wait_again(tx, &waiting, waiting.due).await?;
    }
    let Some(due) = of.state.next_send_at else {
        await_expiry(tx, of).await?;
        return Ok(None);
    };
    let is_pending = tx.first(PENDING, params![of.id.0]).await?.is_some();
    if let (Some(lane), false) = (of.lane, is_pending || of.has_ended()) {
        take_out(tx, of.id.0, lane.0, due).await?;
        let_wait(tx, of.id.0, lane.0, due.max(now)).await?;
        tx.execute(MOVE_ENTRY, params![of.id.0, due.max(now)]).await?;
    }
    Ok(None)
}

const CLEAR_HOLD: &str = "update punctual.entry set held_at = null, held_by = null, hold_reason = null, \
    version = version + 1 where id = $1";
const PENDING: &str = "select 1 from punctual.delivery where entry_id = $1 and status = 0";
const MOVE_ENTRY: &str = "update punctual.entry set due_at = $2 where id = $1";

/// Deliveries that wait for their next try are tried now.
async fn retry(tx: &mut Tx, of: &Entry, now: Timestamp) -> Result<Option<String>> {
    if of.hold.is_some() {
        return Ok(Some("is on hold: release it first".to_owned()));
    }
    let mut later = waiting(tx, of.id).await?;
    later.retain(|waiting| waiting.due > now);
    if later.is_empty() {
        return Ok(Some("has nothing that waits for another try".to_owned()));
    }
    for waiting in later {
        take_out(tx, waiting.id, waiting.lane, waiting.due).await?;
        wait_again(tx, &waiting, now).await?;
        tx.execute(MOVE_DELIVERY, params![waiting.id, now]).await?;
    }
    Ok(None)
}

const MOVE_DELIVERY: &str = "update punctual.delivery set due_at = $2, version = version + 1 where id = $1";

async fn cancel_by_person(tx: &mut Tx, of: &Entry, request: &EntryActionRequest) -> Result<Option<String>> {
    if of.has_ended() && !of.kind.has_timetable() {
        return Ok(Some("has ended, so there is nothing left to cancel".to_owned()));
    }
    let said = format!("cancelled: {}", request.reason);
    let cancelled = cancel(tx, of, Deed::Cancelled, (Some("Cancelled"), &said)).await?;
    Ok(cancelled.err().map(|refusal| refusal.to_string()))
}

/// A delivery that waits, with the place of its work.
struct WaitingDelivery {
    id: i64,
    lane: i64,
    due: Timestamp,
}

async fn waiting(tx: &mut Tx, entry: EntryId) -> Result<Vec<WaitingDelivery>> {
    let rows = tx.query(WAITING, params![entry.0]).await?;
    let flying = if rows.is_empty() { Vec::new() } else { deliveries_in_flight(tx).await? };
    let mut waiting = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = row.int(0)?;
        if flying.binary_search(&id).is_err() {
            let due = row.maybe_time(2)?;
            let due = due.ok_or_else(|| Error::Database("corrupt delivery row: no due time".into()))?;
            waiting.push(WaitingDelivery { id, lane: row.int(1)?, due });
        }
    }
    Ok(waiting)
}

const WAITING: &str = "select d.id, d.lane_id, d.due_at from punctual.delivery d \
    where d.entry_id = $1 and d.status = 0 order by d.id for update of d";

/// Lets a delivery wait again, with the attempts that its log says.
async fn wait_again(tx: &mut Tx, waiting: &WaitingDelivery, due: Timestamp) -> Result<()> {
    tx.execute(WAIT_AGAIN, params![waiting.id, waiting.lane, due]).await?;
    Ok(())
}

const WAIT_AGAIN: &str = "insert into punctual.work (message_id, lane_id, due_at, attempts) \
    select $1, $2, $3, coalesce((select max(a.tried) - min(d.tried_before) from punctual.delivery d \
        join punctual.delivery_attempt a on a.delivery_id = d.id and a.tried > d.tried_before \
        where d.id = $1), 0)";
