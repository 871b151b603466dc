//! What a person does to an entry of any kind: hold, release, retry and cancel it.
//!
//! Each is one transaction under the entry's lock, with a line of history: who did it, when and why. A
//! held entry keeps its place: its work is taken out of the queue, and put back when it is released. What
//! is in flight at that moment ends as it ends; only what would follow waits. A claim drops what belongs
//! to a held entry, so a work row that a race left behind sends nothing. A held entry does not expire.

use super::super::Store;
use super::super::entries::expire::await_expiry;
use super::super::entries::transition::{TransitionOutcome, end_found, lock_by_public_id};
use super::super::tx::Tx;
use super::super::value::{Row, params};
use super::entry_end::skip_waiting;
use super::queries::in_flight;
use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::rules::entry::{Deed, EntryKind};
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;

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
pub struct EntryChange {
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

/// One change of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHistory {
    /// When.
    pub at: Timestamp,
    /// What was done.
    pub what: String,
    /// Who did it.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// An entry under its lock, as far as an action looks at it.
struct Locked {
    id: EntryId,
    kind: EntryKind,
    status: i64,
    held: bool,
    open: i64,
    lane: Option<i64>,
    due_at: Option<Timestamp>,
    public_id: Option<PublicId>,
}

impl Store {
    /// Holds, releases, retries or cancels an entry of a tenant.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn change_entry(&self, tenant: Tenant, change: EntryChange) -> VerbFuture<'_, ActionOutcome> {
        self.of(tenant).write((tenant, change), |tx, (tenant, change)| Box::pin(apply(tx, *tenant, change)))
    }

    /// What was done to an entry, in order.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn entry_history(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Vec<EntryHistory>> {
        self.of(tenant).read((tenant, entry), |tx, (tenant, entry)| {
            Box::pin(async move {
                let rows = tx.query(HISTORY, params![tenant.id(), entry.0]).await?;
                rows.iter().map(read_history).collect()
            })
        })
    }

    /// Which of a tenant's entries are on hold, and why.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn hold_of(&self, tenant: Tenant, entry: EntryId) -> VerbFuture<'_, Option<String>> {
        self.of(tenant).read((tenant, entry), |tx, (tenant, entry)| {
            Box::pin(async move {
                let row = tx.first(HOLD_OF, params![tenant.id(), entry.0]).await?;
                row.map_or(Ok(None), |row| row.maybe_text(0))
            })
        })
    }
}

const HISTORY: &str = "select at, what, actor, reason from punctual.entry_history \
    where tenant_id = $1 and entry_id = $2 order by id";
const HOLD_OF: &str = "select hold_reason from punctual.entry \
    where tenant_id = $1 and id = $2 and held_at is not null";

fn read_history(row: &Row) -> Result<EntryHistory> {
    Ok(EntryHistory { at: row.time(0)?, what: row.text(1)?, actor: row.text(2)?, reason: row.text(3)? })
}

async fn apply(tx: &mut Tx, tenant: Tenant, change: &EntryChange) -> Result<ActionOutcome> {
    let Some(entry) = lock(tx, tenant, change.name).await? else { return Ok(ActionOutcome::NotFound) };
    let now = tx.now().await?;
    let refused = match change.action {
        EntryAction::Hold => hold(tx, &entry, change, now).await?,
        EntryAction::Release => release(tx, &entry, now).await?,
        EntryAction::Retry => retry(tx, &entry, now).await?,
        EntryAction::Cancel => cancel(tx, &entry, change, now).await?,
    };
    if let Some(said) = refused {
        return Ok(ActionOutcome::Refused(said));
    }
    let what = change.action.word();
    let line = params![tenant.id(), entry.id.0, now, what, &change.actor, &change.reason];
    tx.execute(ADD_HISTORY, line).await?;
    Ok(ActionOutcome::Done)
}

const ADD_HISTORY: &str = "insert into punctual.entry_history (tenant_id, entry_id, at, what, actor, reason) \
    values ($1, $2, $3, $4, $5, $6)";

async fn lock(tx: &mut Tx, tenant: Tenant, name: EntryName) -> Result<Option<Locked>> {
    let row = match name {
        EntryName::Id(id) => tx.first(BY_ID, params![tenant.id(), id.0]).await?,
        EntryName::PublicId(id) => {
            let (high, low) = id.halves();
            tx.first(BY_PUBLIC_ID, params![tenant.id(), high, low]).await?
        }
    };
    let Some(row) = row else { return Ok(None) };
    let halves = row.maybe_int(7)?.zip(row.maybe_int(8)?);
    Ok(Some(Locked {
        id: EntryId(row.int(0)?),
        kind: super::deliver::read_kind(&row.text(1)?)?,
        status: row.int(2)?,
        held: row.flag(3)?,
        open: row.int(4)?,
        lane: row.maybe_int(5)?,
        due_at: row.maybe_time(6)?,
        public_id: halves.and_then(PublicId::from_halves),
    }))
}

macro_rules! locked {
    ($condition:literal) => {
        concat!(
            "select id, kind, status, case when held_at is null then 0 else 1 end, open, lane_id, due_at, \
                public_high, public_low \
            from punctual.entry where tenant_id = $1 and deleted_at is null and ",
            $condition,
            " for update"
        )
    };
}
const BY_ID: &str = locked!("id = $2");
const BY_PUBLIC_ID: &str = locked!("public_high = $2 and public_low = $3");

impl Locked {
    /// Whether nothing more can be sent of it.
    const fn has_ended(&self) -> bool {
        match self.kind {
            EntryKind::Survey => self.status >= 3,
            EntryKind::Notification => self.open == 0 || self.status >= 3,
        }
    }
}

async fn hold(tx: &mut Tx, of: &Locked, change: &EntryChange, now: Timestamp) -> Result<Option<String>> {
    if of.has_ended() {
        return Ok(Some("has ended, so there is nothing to hold".to_owned()));
    }
    tx.execute(SET_HOLD, params![of.id.0, now, &change.actor, &change.reason]).await?;
    for (id, lane, due) in waiting(tx, of.id).await? {
        tx.execute(DROP_WORK, params![lane, due, id]).await?;
    }
    if let (Some(lane), Some(due)) = (of.lane, of.due_at) {
        tx.execute(DROP_WORK, params![lane, due, of.id.0]).await?;
    }
    Ok(None)
}

const SET_HOLD: &str = "update punctual.entry set held_at = coalesce(held_at, $2), held_by = $3, \
    hold_reason = $4, version = version + 1 where id = $1";
const DROP_WORK: &str = "delete from punctual.work where lane_id = $1 and due_at = $2 and message_id = $3";

async fn release(tx: &mut Tx, of: &Locked, now: Timestamp) -> Result<Option<String>> {
    if !of.held {
        return Ok(Some("is not on hold".to_owned()));
    }
    tx.execute(CLEAR_HOLD, params![of.id.0]).await?;
    let waiting = waiting(tx, of.id).await?;
    for (id, lane, due) in &waiting {
        // A row that a race left behind is there at the same place, and would be a second one.
        tx.execute(DROP_WORK, params![*lane, *due, *id]).await?;
        tx.execute(ADD_WORK, params![*id, *lane, *due]).await?;
    }
    if let (Some(public_id), None) = (of.public_id, of.due_at)
        && let Some(entry) = lock_by_public_id(tx, public_id).await?
    {
        await_expiry(tx, &entry).await?;
    }
    let pending = tx.first(PENDING, params![of.id.0]).await?.is_some();
    if let (Some(lane), Some(due), false) = (of.lane, of.due_at, pending || of.has_ended()) {
        tx.execute(DROP_WORK, params![lane, due, of.id.0]).await?;
        tx.execute(ADD_WORK, params![of.id.0, lane, due.max(now)]).await?;
        tx.execute(MOVE_ENTRY, params![of.id.0, due.max(now)]).await?;
    }
    Ok(None)
}

const CLEAR_HOLD: &str = "update punctual.entry set held_at = null, held_by = null, hold_reason = null, \
    version = version + 1 where id = $1";
const PENDING: &str = "select 1 from punctual.delivery where entry_id = $1 and status = 0";
const MOVE_ENTRY: &str = "update punctual.entry set due_at = $2 where id = $1";
/// A delivery has had the attempts that its log says.
const ADD_WORK: &str = "insert into punctual.work (message_id, lane_id, due_at, attempts) \
    select $1, $2, $3, coalesce((select max(a.tried) - min(d.tried_before) from punctual.delivery d \
        join punctual.lane l on l.id = $2 and l.purpose = 'send' \
        join punctual.delivery_attempt a on a.delivery_id = d.id and a.tried > d.tried_before \
        where d.id = $1), 0)";

/// What waits for its next try is tried now.
async fn retry(tx: &mut Tx, of: &Locked, now: Timestamp) -> Result<Option<String>> {
    if of.held {
        return Ok(Some("is on hold: release it first".to_owned()));
    }
    let waiting = waiting(tx, of.id).await?;
    let later: Vec<_> = waiting.iter().filter(|(_, _, due)| *due > now).collect();
    if later.is_empty() {
        return Ok(Some("has nothing that waits for another try".to_owned()));
    }
    for (id, lane, due) in later {
        tx.execute(DROP_WORK, params![*lane, *due, *id]).await?;
        tx.execute(ADD_WORK, params![*id, *lane, now]).await?;
        tx.execute(MOVE_DELIVERY, params![*id, now]).await?;
    }
    Ok(None)
}

const MOVE_DELIVERY: &str = "update punctual.delivery set due_at = $2, version = version + 1 where id = $1";

async fn cancel(tx: &mut Tx, of: &Locked, change: &EntryChange, now: Timestamp) -> Result<Option<String>> {
    if let (EntryKind::Survey, Some(public_id)) = (of.kind, of.public_id) {
        let Some(entry) = lock_by_public_id(tx, public_id).await? else { return Ok(None) };
        return Ok(match end_found(tx, entry, Deed::Cancelled).await? {
            TransitionOutcome::Refused(refusal) => Some(refusal.to_string()),
            _ => None,
        });
    }
    if of.has_ended() {
        return Ok(Some("has ended, so there is nothing left to cancel".to_owned()));
    }
    let skipped = skip_waiting(tx, &[of.id], &format!("cancelled: {}", change.reason)).await?;
    let skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
    tx.execute(CANCEL, params![of.id.0, &change.reason, now, skipped]).await?;
    Ok(None)
}

const CANCEL: &str = "update punctual.entry set status = 5, reason = 'Cancelled', error = $2, ended_at = $3, \
        open = open - $4, held_at = null, held_by = null, hold_reason = null, version = version + 1 \
    where id = $1";

/// Deliveries that wait, with the places of their work.
async fn waiting(tx: &mut Tx, entry: EntryId) -> Result<Vec<(i64, i64, Timestamp)>> {
    let rows = tx.query(WAITING, params![entry.0]).await?;
    let flying = if rows.is_empty() { Vec::new() } else { in_flight(tx).await? };
    let mut waiting = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = row.int(0)?;
        if flying.binary_search(&id).is_err() {
            let due =
                row.maybe_time(2)?.ok_or_else(|| Error::Database("a delivery has no due time".into()))?;
            waiting.push((id, row.int(1)?, due));
        }
    }
    Ok(waiting)
}

const WAITING: &str = "select d.id, d.lane_id, d.due_at from punctual.delivery d \
    where d.entry_id = $1 and d.status = 0 order by d.id for update of d";
