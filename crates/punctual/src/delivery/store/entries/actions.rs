//! The actions of a person on an entry of any kind: hold, release, retry, cancel and delete it.
//!
//! Each is one transaction under the entry's lock, with a line of history: the author, the time and the
//! reason. An action that changes nothing, such as cancelling what is cancelled, writes none. A held entry
//! keeps its place: its work is taken out of the queue, and put back when it is released. A send in flight at
//! that moment completes; only the sends after it wait. Deliveries of a held entry are marked, and a claim
//! drops them, so a work row that a race left behind sends nothing. A held entry does not expire.

use crate::base::clock::Timestamp;
use crate::base::error::{Error, Result};
use crate::base::id::EntryId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::params;
use crate::delivery::rules::delivery::delivery_status;
use crate::delivery::store::deliveries::in_flight::deliveries_in_flight;
use crate::delivery::store::entries::end::cancel_all;
use crate::delivery::store::entries::expire::await_expiry;
use crate::delivery::store::entries::replay::put_back_given_up;
use crate::flow::rules::entry::Transition;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::history::{ChangeAuthor, DELETED, NewChange, ON_HOLD, add_changes};
use crate::flow::store::entries::key::{free_key, key_of_entry};
use crate::flow::store::entries::{Entry, expire_lane, lock_by_public_id, wait_for_entry};
use crate::queue::store::waiting_work::{let_wait, take_out};

/// How a person names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryReference {
    /// By its number.
    Id(EntryId),
    /// By its public id, where it is a survey.
    PublicId(PublicId),
}

/// An action of a person on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// Nothing of it is sent until it is released.
    Hold,
    /// The entry goes on.
    Release,
    /// Deliveries that wait for their next try are tried now. Where none waits, the last send of an entry
    /// with a timetable is tried again if it was given up.
    Retry,
    /// Nothing more of it is sent.
    Cancel,
    /// The same, and it is hidden from lists: the next event of its key begins a new entry.
    Delete,
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
            Self::Delete => "deleted",
        }
    }
}

/// The author of the action, and the reason.
#[derive(Clone, Debug)]
pub struct EntryActionRequest {
    /// The entry.
    pub name: EntryReference,
    /// The action.
    pub action: EntryAction,
    /// The author of the action, and the reason.
    pub author: ChangeAuthor,
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action was carried out.
    Done,
    /// The action is not possible, with the reason; nothing was written.
    Refused(String),
    /// This tenant has no such entry.
    NotFound,
}

impl Store {
    /// Holds, releases, retries, cancels or deletes an entry of a tenant.
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
        EntryReference::Id(id) => wait_for_entry(tx, id).await?,
        EntryReference::PublicId(id) => lock_by_public_id(tx, id).await?,
    };
    let Some(entry) = found.filter(|entry| entry.tenant == tenant && !entry.deleted) else {
        return Ok(ActionOutcome::NotFound);
    };
    let (now, status) = (tx.now().await?, entry.state.status.word());
    let changed = match request.action {
        EntryAction::Hold => hold(tx, &entry, request, now).await?,
        EntryAction::Release => release(tx, &entry, now).await?,
        EntryAction::Retry => retry(tx, &entry, now).await?,
        EntryAction::Cancel => cancel_by_person(tx, &entry, request).await?,
        EntryAction::Delete => delete(tx, &entry, request, now).await?,
    };
    let (from, to) = match changed {
        ActionEffect::Nothing => return Ok(ActionOutcome::Done),
        ActionEffect::Refused(said) => return Ok(ActionOutcome::Refused(said)),
        ActionEffect::Status(to) => (if entry.hold.is_some() { ON_HOLD } else { status }, to),
    };
    let (action, actor, reason) =
        (request.action.word(), request.author.actor.as_str(), request.author.reason.as_str());
    let change = NewChange { tenant, entry: entry.id, action, from, to, actor, reason, cause: None };
    add_changes(tx, &[change], now).await?;
    Ok(ActionOutcome::Done)
}

/// The change of an entry by an action.
enum ActionEffect {
    /// The entry has this status now, in the words of the history.
    Status(&'static str),
    /// The entry had this status before.
    Nothing,
    /// The action is not possible; with a sentence.
    Refused(String),
}

impl ActionEffect {
    fn refused(said: &str) -> Self {
        Self::Refused(said.to_owned())
    }
}

async fn hold(tx: &mut Tx, of: &Entry, request: &EntryActionRequest, now: Timestamp) -> Result<ActionEffect> {
    if of.has_ended() {
        return Ok(ActionEffect::refused("has ended, so there is nothing to hold"));
    }
    tx.execute(SET_HOLD, params![of.id.0, now, &request.author.actor, &request.author.reason]).await?;
    tx.execute(MARK_HELD, params![of.id.0, 1]).await?;
    for waiting in waiting(tx, of.id).await? {
        take_out(tx, waiting.id, waiting.lane, waiting.due).await?;
    }
    if let (Some(lane), Some(due)) = (of.lane, of.state.next_send_at) {
        take_out(tx, of.id.0, lane.0, due).await?;
    }
    Ok(ActionEffect::Status(ON_HOLD))
}

statements! {
    const SET_HOLD = "
        update punctual.entry
        set held_at = coalesce(held_at, $2), held_by = $3, hold_reason = $4, version = version + 1
        where id = $1
    ";

    const MARK_HELD = "
        update punctual.delivery
        set held = $2
        where entry_id = $1 and status = ", delivery_status!(Pending), "
    ";
}

async fn release(tx: &mut Tx, of: &Entry, now: Timestamp) -> Result<ActionEffect> {
    if of.hold.is_none() {
        return Ok(ActionEffect::refused("is not on hold"));
    }
    let released = ActionEffect::Status(of.state.status.word());
    tx.execute(CLEAR_HOLD, params![of.id.0]).await?;
    tx.execute(MARK_HELD, params![of.id.0, 0]).await?;
    for waiting in waiting(tx, of.id).await? {
        // A row that a race left behind is there at the same place, and would be a second one.
        take_out(tx, waiting.id, waiting.lane, waiting.due).await?;
        wait_again(tx, &waiting, waiting.due).await?;
    }
    let Some(due) = of.state.next_send_at else {
        await_expiry(tx, of).await?;
        return Ok(released);
    };
    let is_pending = tx.first(PENDING, params![of.id.0]).await?.is_some();
    if let (Some(lane), false) = (of.lane, is_pending || of.has_ended()) {
        take_out(tx, of.id.0, lane.0, due).await?;
        let_wait(tx, of.id.0, lane.0, due.max(now)).await?;
        tx.execute(MOVE_ENTRY, params![of.id.0, due.max(now)]).await?;
    }
    Ok(released)
}

statements! {
    const CLEAR_HOLD = "
        update punctual.entry
        set held_at = null, held_by = null, hold_reason = null, version = version + 1
        where id = $1
    ";

    const PENDING = "
        select 1
        from punctual.delivery
        where entry_id = $1 and status = ", delivery_status!(Pending), "
    ";

    const MOVE_ENTRY = "
        update punctual.entry
        set due_at = $2
        where id = $1
    ";
}

/// Deliveries that wait for their next try are tried now.
async fn retry(tx: &mut Tx, of: &Entry, now: Timestamp) -> Result<ActionEffect> {
    if of.hold.is_some() {
        return Ok(ActionEffect::refused("is on hold: release it first"));
    }
    let mut later = waiting(tx, of.id).await?;
    later.retain(|waiting| waiting.due > now);
    if later.is_empty() {
        return match resume(tx, of, now).await? {
            true => Ok(ActionEffect::Status(of.state.status.word())),
            false => Ok(ActionEffect::refused("has nothing that waits for another try")),
        };
    }
    for waiting in later {
        take_out(tx, waiting.id, waiting.lane, waiting.due).await?;
        wait_again(tx, &waiting, now).await?;
        tx.execute(MOVE_DELIVERY, params![waiting.id, now]).await?;
    }
    Ok(ActionEffect::Status(of.state.status.word()))
}

/// Sends the last send of an active entry again that was given up, for instance because no process had its
/// channel; the sends after it follow. Answers whether there was one.
async fn resume(tx: &mut Tx, of: &Entry, now: Timestamp) -> Result<bool> {
    if !of.kind.has_timetable() || of.has_ended() || of.state.next_send_at.is_some() {
        return Ok(false);
    }
    let again = put_back_given_up(tx, of.id, now).await?;
    if again > 0 {
        if let Some(at) = of.state.expires_at(of.grace) {
            let lane = expire_lane(tx, of.tenant).await?;
            take_out(tx, of.id.0, lane, at).await?;
        }
        tx.execute(RESUME, params![of.id.0, again, now]).await?;
    }
    Ok(again > 0)
}

statements! {
    const RESUME = "
        update punctual.entry
        set open = open + $2, failed = case when failed > $2 then failed - $2 else 0 end, reason = null,
            error = null, due_at = $3, version = version + 1
        where id = $1
    ";

    const MOVE_DELIVERY = "
        update punctual.delivery
        set due_at = $2, version = version + 1
        where id = $1
    ";
}

async fn cancel_by_person(tx: &mut Tx, of: &Entry, request: &EntryActionRequest) -> Result<ActionEffect> {
    if of.has_ended() && !of.kind.has_timetable() {
        return Ok(ActionEffect::refused("has ended, so there is nothing left to cancel"));
    }
    let said = format!("cancelled: {}", request.author.reason);
    end(tx, of, Transition::Cancelled, (Some("Cancelled"), &said)).await
}

async fn delete(
    tx: &mut Tx,
    of: &Entry,
    request: &EntryActionRequest,
    now: Timestamp,
) -> Result<ActionEffect> {
    // An entry that has ended regularly keeps its status.
    if !of.has_ended() || of.kind.has_timetable() {
        let said = format!("deleted: {}", request.author.reason);
        if let ActionEffect::Refused(said) =
            end(tx, of, Transition::Deleted, (Some("Deleted"), &said)).await?
        {
            return Ok(ActionEffect::Refused(said));
        }
    }
    tx.execute(DELETE, params![of.id.0, now]).await?;
    if let Some(key) = key_of_entry(of) {
        free_key(tx, of.tenant, key, of.id).await?;
    }
    Ok(ActionEffect::Status(DELETED))
}

statements! {
    const DELETE = "
        update punctual.entry
        set deleted_at = $2, version = version + 1
        where id = $1 and deleted_at is null
    ";
}

/// Ends an entry by a transition.
async fn end(
    tx: &mut Tx,
    of: &Entry,
    transition: Transition,
    why: (Option<&str>, &str),
) -> Result<ActionEffect> {
    let ended = cancel_all(tx, std::slice::from_ref(of), transition, why).await?;
    Ok(match ended.into_iter().next() {
        Some(Err(refusal)) => ActionEffect::Refused(refusal.to_string()),
        Some(Ok(state)) if state != of.state => ActionEffect::Status(state.status.word()),
        _ => ActionEffect::Nothing,
    })
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

statements! {
    const WAITING = "
        select d.id, d.lane_id, d.due_at
        from punctual.delivery d
        where d.entry_id = $1 and d.status = ", delivery_status!(Pending), "
        order by d.id
        for update of d
    ";
}

/// Lets a delivery wait again, with the attempts that its log says.
async fn wait_again(tx: &mut Tx, waiting: &WaitingDelivery, due: Timestamp) -> Result<()> {
    tx.execute(WAIT_AGAIN, params![waiting.id, waiting.lane, due]).await?;
    Ok(())
}

statements! {
    const WAIT_AGAIN = "
        insert into punctual.work (message_id, lane_id, due_at, attempts)
        select $1, $2, $3,
            coalesce(
                (
                    select max(a.tried) - min(d.tried_before)
                    from punctual.delivery d
                    join punctual.delivery_attempt a on a.delivery_id = d.id
                        and a.tried > d.tried_before
                    where d.id = $1
                ),
                0
            )
    ";
}
