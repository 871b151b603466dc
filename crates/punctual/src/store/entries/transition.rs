//! What people do to an entry: open its page, keep what they filled in, answer, cancel, delete.
//!
//! Each is one transaction under the entry's lock: the rules decide, the row, what belongs to it
//! and the message for others are written together or not at all. The waiting send of an entry that
//! has ended is taken out of the queue; one that is in flight finds out by itself.

use super::super::Store;
use super::super::deliveries::entry_end::skip_waiting;
use super::super::messages::addressed::insert_to;
use super::super::tx::Tx;
use super::super::value::params;
use super::key::{free_key, key_of_hash};
use super::queries::Told;
use super::tell::{self, Moment, News};
use super::{ADD_WORK, Entry, entry_columns, expire_lane, read_entry};
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::tenant::Tenant;
use crate::rules::entry::state::EntryState;
use crate::rules::entry::{Deed, Refusal, Status};
use crate::rules::public_id::PublicId;
use crate::store::tx::VerbFuture;
use serde_json::{Map, Value as Json};

/// What became of a deed.
#[derive(Clone, Debug, PartialEq)]
pub enum TransitionOutcome {
    /// As wished; this is how it stands now.
    Done(Box<Entry>),
    /// It may not happen any more; nothing was written.
    Refused(Refusal),
    /// Nobody has this id, or it was deleted.
    Unknown,
}

/// An answer, checked against its version.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whose.
    pub public_id: PublicId,
    /// The answers, in their canonical form.
    pub answers: Map<String, Json>,
    /// What was said beside them, such as who helped.
    pub meta: Option<Json>,
    /// The subscriptions that are told; `None` is every one of the topic.
    pub tell: Option<Vec<String>>,
}

impl Answer {
    fn agent_id(&self) -> Option<String> {
        self.meta.as_ref()?.get("agentId")?.as_str().map(str::to_owned)
    }
}

impl Store {
    /// A person opened the page. Opening again, or what has ended, changes nothing.
    pub fn record_opened(&self, id: PublicId) -> VerbFuture<'_, TransitionOutcome> {
        self.write(id, |tx, id| Box::pin(opened(tx, *id)))
    }

    /// Keeps what somebody has filled in so far; answers whether there is such an entry that can
    /// still be answered.
    pub fn keep_progress(&self, id: PublicId, answers: Map<String, Json>) -> VerbFuture<'_, bool> {
        self.write((id, answers), |tx, (id, answers)| Box::pin(keep(tx, *id, answers)))
    }

    /// Somebody answered: the answer, the end of the entry and the message commit together.
    pub fn complete(&self, answer: Answer) -> VerbFuture<'_, TransitionOutcome> {
        self.write(answer, |tx, answer| Box::pin(complete(tx, answer)))
    }

    /// Somebody withdraws an entry.
    pub fn cancel_entry(&self, tenant: Tenant, id: PublicId) -> VerbFuture<'_, TransitionOutcome> {
        self.of(tenant)
            .write((tenant, id), |tx, (tenant, id)| Box::pin(end(tx, *tenant, *id, Deed::Cancelled)))
    }

    /// Nothing more is sent of an entry; it can still be answered, and expires later.
    pub fn stop_reminders(&self, id: PublicId) -> VerbFuture<'_, TransitionOutcome> {
        self.write(id, |tx, id| Box::pin(stop_reminders(tx, *id)))
    }

    /// Somebody deletes an entry: it is not shown any more, and the next event that is the same is
    /// welcome again.
    pub fn delete_entry(&self, tenant: Tenant, id: PublicId) -> VerbFuture<'_, TransitionOutcome> {
        self.of(tenant).write((tenant, id), |tx, (tenant, id)| Box::pin(end(tx, *tenant, *id, Deed::Deleted)))
    }
}

async fn find(tx: &mut Tx, id: PublicId, sql: &'static str) -> Result<Option<Entry>> {
    let (high, low) = id.halves();
    let row = tx.first(sql, params![high, low]).await?;
    row.map(|mut row| read_entry(&mut row)).transpose()
}

/// An entry by its name outside, under its lock; `None` if nobody has this id, or it was deleted.
pub(in crate::store) async fn lock_by_public_id(tx: &mut Tx, id: PublicId) -> Result<Option<Entry>> {
    find(tx, id, BY_PUBLIC_ID_LOCKED).await
}

macro_rules! by_public_id {
    () => {
        concat!(
            "select ",
            entry_columns!(),
            " from punctual.entry e where e.public_high = $1 and e.public_low = $2 and e.deleted_at is null"
        )
    };
}
pub(super) const BY_PUBLIC_ID: &str = by_public_id!();
const BY_PUBLIC_ID_LOCKED: &str = concat!(by_public_id!(), " for update");

async fn opened(tx: &mut Tx, id: PublicId) -> Result<TransitionOutcome> {
    let Some(mut entry) = find(tx, id, BY_PUBLIC_ID_LOCKED).await? else {
        return Ok(TransitionOutcome::Unknown);
    };
    let standing = match entry.standing.after(Deed::Opened) {
        Ok(standing) => standing,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    if standing == entry.standing {
        return Ok(TransitionOutcome::Done(Box::new(entry)));
    }
    let now = tx.now().await?;
    tx.execute(OPENED, params![entry.id.0, standing.status.code(), now]).await?;
    (entry.standing, entry.opened_at, entry.version) = (standing, Some(now), entry.version + 1);
    tell(tx, &entry, Moment::Opened(now)).await?;
    Ok(TransitionOutcome::Done(Box::new(entry)))
}

const OPENED: &str = "update punctual.entry \
    set status = $2, opened_at = coalesce(opened_at, $3), version = version + 1 where id = $1";

async fn keep(tx: &mut Tx, id: PublicId, answers: &Map<String, Json>) -> Result<bool> {
    let Some(entry) = find(tx, id, BY_PUBLIC_ID_LOCKED).await? else { return Ok(false) };
    if entry.standing.status.is_terminal() {
        return Ok(false);
    }
    let now = tx.now().await?;
    let text = serde_json::to_string(answers).unwrap_or_default();
    tx.execute(KEEP, params![entry.id.0, &text, now]).await?;
    Ok(true)
}

const KEEP: &str = "insert into punctual.progress (entry_id, answers, at) values ($1, $2, $3) \
    on conflict (entry_id) do update set answers = excluded.answers, at = excluded.at";

async fn complete(tx: &mut Tx, answer: &Answer) -> Result<TransitionOutcome> {
    let found = find(tx, answer.public_id, BY_PUBLIC_ID_LOCKED).await?;
    let Some(mut entry) = found else { return Ok(TransitionOutcome::Unknown) };
    let standing = match entry.standing.after(Deed::Submitted) {
        Ok(standing) => standing,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    let now = tx.now().await?;
    write_end(tx, &entry, standing, now).await?;
    let agent_id = answer.agent_id();
    let moment = Moment::Completed { at: now, agent_id, answers: answer.answers.clone() };
    let told = tell_some(tx, &entry, &moment, answer.tell.as_deref()).await?;
    let answers = serde_json::to_string(&answer.answers).unwrap_or_default();
    let meta = answer.meta.as_ref().map(Json::to_string);
    let names = told.names();
    let row = params![
        entry.id.0,
        entry.tenant.id(),
        entry.flow.0,
        i64::from(entry.number),
        &entry.trigger_id,
        &answers,
        meta.as_deref(),
        now,
        told.message.0,
        &names,
    ];
    tx.execute(RESPONSE, row).await?;
    tx.execute("delete from punctual.progress where entry_id = $1", params![entry.id.0]).await?;
    (entry.standing, entry.completed_at, entry.version) = (standing, Some(now), entry.version + 1);
    Ok(TransitionOutcome::Done(Box::new(entry)))
}

const RESPONSE: &str = "insert into punctual.response (entry_id, tenant_id, flow_id, number, trigger_id, \
        answers, meta, completed_at, message_id, told) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

async fn end(tx: &mut Tx, tenant: Tenant, id: PublicId, deed: Deed) -> Result<TransitionOutcome> {
    let found = find(tx, id, BY_PUBLIC_ID_LOCKED).await?;
    let Some(entry) = found.filter(|entry| entry.tenant == tenant) else {
        return Ok(TransitionOutcome::Unknown);
    };
    end_found(tx, entry, deed).await
}

async fn stop_reminders(tx: &mut Tx, id: PublicId) -> Result<TransitionOutcome> {
    let Some(mut entry) = find(tx, id, BY_PUBLIC_ID_LOCKED).await? else {
        return Ok(TransitionOutcome::Unknown);
    };
    let standing = match entry.standing.halted() {
        Ok(standing) => standing,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    if standing != entry.standing {
        let now = tx.now().await?;
        write_end(tx, &entry, standing, now).await?;
        if let Some(at) = standing.expires_at(entry.grace) {
            let lane = expire_lane(tx, entry.tenant).await?;
            tx.execute(ADD_WORK, params![entry.work_id(), lane, at]).await?;
        }
        (entry.standing, entry.version) = (standing, entry.version + 1);
    }
    Ok(TransitionOutcome::Done(Box::new(entry)))
}

/// Cancels or deletes an entry that is locked.
pub(in crate::store) async fn end_found(
    tx: &mut Tx,
    mut entry: Entry,
    deed: Deed,
) -> Result<TransitionOutcome> {
    let standing = match entry.standing.after(deed) {
        Ok(standing) => standing,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    let now = tx.now().await?;
    if standing != entry.standing {
        write_end(tx, &entry, standing, now).await?;
        tell(tx, &entry, Moment::Cancelled(now)).await?;
        tx.execute("delete from punctual.progress where entry_id = $1", params![entry.id.0]).await?;
    }
    if deed == Deed::Deleted {
        tx.execute("update punctual.entry set deleted_at = $2 where id = $1", params![entry.id.0, now])
            .await?;
        if let Some(key) = key_of_hash(&entry.unique_hash) {
            free_key(tx, entry.tenant, key, entry.id).await?;
        }
    }
    (entry.standing, entry.version) = (standing, entry.version + 1);
    Ok(TransitionOutcome::Done(Box::new(entry)))
}

/// Writes that nothing more is sent of an entry, and takes its waiting send out of the queue.
async fn write_end(tx: &mut Tx, entry: &Entry, standing: EntryState, now: Timestamp) -> Result<()> {
    let completed = (standing.status == Status::Completed).then_some(now.as_micros());
    tx.execute(END, params![entry.id.0, standing.status.code(), completed]).await?;
    if let Some(due) = entry.standing.next_send_at {
        tx.execute(DROP_SEND, params![entry.lane.0, due, entry.work_id()]).await?;
    }
    skip_waiting(tx, &[entry.id], "its entry has ended").await?;
    Ok(())
}

const END: &str = "update punctual.entry set status = $2, due_at = null, held_at = null, \
    completed_at = coalesce(completed_at, $3), version = version + 1 where id = $1";
const DROP_SEND: &str = "delete from punctual.work where lane_id = $1 and due_at = $2 and message_id = $3";

/// Tells whoever its survey lists.
async fn tell(tx: &mut Tx, entry: &Entry, moment: Moment) -> Result<()> {
    tell::tell_all(tx, &[News { entry, moment }]).await
}

/// Tells some or every subscription; answers the message, and whom it went to.
async fn tell_some(tx: &mut Tx, entry: &Entry, moment: &Moment, only: Option<&[String]>) -> Result<Told> {
    let message = tell::message_of(tx, entry, moment).await?;
    let addressed = insert_to(tx, entry.tenant, &message, only).await?;
    Ok(Told { message: addressed.id, subscribers: addressed.to, unknown: addressed.unknown })
}
