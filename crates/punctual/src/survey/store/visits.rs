//! The visits of recipients to an instance: they open its page, fill it in and answer; and its withdrawal.
//!
//! Each verb is one transaction under the entry's lock: the rules decide, and the row, its dependent rows and
//! the message for subscribers are written together or not at all. The waiting send of an instance that has
//! ended is taken out of the queue; a send in flight finds out when it is settled.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::{EntryId, MessageId};
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::store::Store;
use crate::database::tx::{Tx, VerbFuture};
use crate::database::value::params;
use crate::delivery::store::entries::end::{EntryEnd, cancel_all, write_ends};
use crate::delivery::store::entries::expire::await_expiry;
use crate::flow::rules::entry::state::EntryState;
use crate::flow::rules::entry::{Transition, TransitionRefusal};
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::entries::history::{ENGINE, NewChange, add_changes};
use crate::flow::store::entries::lists::entry_by_public_id;
use crate::flow::store::entries::{Entry, lock_by_public_id, lock_by_public_ids};
use crate::queue::store::messages::due_times;
use crate::survey::store::instance::SurveyInstance;
use crate::survey::store::publish::{SurveyEvent, forget_progress, publish_all, publish_one};
use crate::survey::store::results::ResponseListeners;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, HashSet};

/// The outcome of a transition.
#[derive(Clone, Debug, PartialEq)]
pub enum TransitionOutcome {
    /// The transition happened; this is the entry now.
    Done(Box<Entry>),
    /// The transition may not happen any more; nothing was written.
    Refused(TransitionRefusal),
    /// There is no entry of this id, or it was deleted.
    Unknown,
}

/// An answer, checked against its version.
#[derive(Clone, Debug)]
pub struct SurveyAnswer {
    /// The instance.
    pub public_id: PublicId,
    /// The answers, in their canonical form.
    pub answers: Map<String, Json>,
    /// Further data of the answer, such as the agent who helped.
    pub meta: Option<Json>,
    /// The subscriptions that get the message; `None` is every one of the topic.
    pub listeners: Option<Vec<String>>,
}

impl SurveyAnswer {
    fn agent_id(&self) -> Option<String> {
        self.meta.as_ref()?.get("agentId")?.as_str().map(str::to_owned)
    }
}

/// An instance that an event stops.
#[derive(Clone, Copy, Debug)]
pub struct StopRequest {
    /// The instance.
    pub public_id: PublicId,
    /// The event, if it came by a topic: an instance that a later event began is not stopped by it.
    pub event: Option<MessageId>,
}

impl Store {
    /// Records that a person opened the page. Opening again, or opening what has ended, changes nothing.
    pub fn record_opened(&self, id: PublicId) -> VerbFuture<'_, TransitionOutcome> {
        self.write(id, |tx, id| Box::pin(opened(tx, *id)))
    }

    /// Keeps what a recipient has filled in so far; returns whether there is such an instance that can still
    /// be answered.
    pub fn keep_progress(&self, id: PublicId, answers: Map<String, Json>) -> VerbFuture<'_, bool> {
        self.write((id, answers), |tx, (id, answers)| Box::pin(keep(tx, *id, answers)))
    }

    /// Writes an answer: the answer, the end of the instance and the message commit together.
    pub fn complete(&self, answer: SurveyAnswer) -> VerbFuture<'_, TransitionOutcome> {
        self.write(answer, |tx, answer| Box::pin(complete(tx, answer)))
    }

    /// Withdraws the instances that events stop, all in one transaction; returns those that were withdrawn.
    /// `kind` is the kind of the events, for the history.
    pub fn stop_entries(
        &self,
        tenant: Tenant,
        kind: String,
        stops: Vec<StopRequest>,
    ) -> VerbFuture<'_, Vec<PublicId>> {
        self.of(tenant).write((tenant, kind, stops), |tx, (tenant, kind, stops)| {
            Box::pin(stop_all(tx, *tenant, kind, stops))
        })
    }

    /// Which entries [`Store::stop_entries`] would end now; nothing is written.
    pub fn preview_stops(&self, tenant: Tenant, stops: Vec<StopRequest>) -> VerbFuture<'_, Vec<PublicId>> {
        self.of(tenant)
            .read((tenant, stops), |tx, (tenant, stops)| Box::pin(foresee_stops(tx, *tenant, stops)))
    }

    /// Ends the sends of an instance; the recipient can still answer, and the instance expires later.
    pub fn stop_reminders(&self, id: PublicId) -> VerbFuture<'_, TransitionOutcome> {
        self.write(id, |tx, id| Box::pin(stop_reminders(tx, *id)))
    }
}

async fn opened(tx: &mut Tx, id: PublicId) -> Result<TransitionOutcome> {
    let Some(mut entry) = lock_by_public_id(tx, id).await? else { return Ok(TransitionOutcome::Unknown) };
    let state = match entry.state.after(Transition::Opened) {
        Ok(state) => state,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    if state == entry.state {
        return Ok(TransitionOutcome::Done(Box::new(entry)));
    }
    let now = tx.now().await?;
    tx.execute(OPENED, params![entry.id.0, state.status.code(), now]).await?;
    (entry.state, entry.opened_at, entry.version) = (state, Some(now), entry.version + 1);
    publish(tx, &entry, SurveyEvent::Opened(now)).await?;
    Ok(TransitionOutcome::Done(Box::new(entry)))
}

statements! {
    const OPENED = "
        update punctual.entry
        set status = $2, opened_at = coalesce(opened_at, $3), version = version + 1
        where id = $1
    ";
}

async fn publish(tx: &mut Tx, entry: &Entry, moment: SurveyEvent) -> Result<()> {
    let Some(instance) = SurveyInstance::of(entry) else { return Ok(()) };
    publish_all(tx, &[(instance, moment)]).await
}

async fn keep(tx: &mut Tx, id: PublicId, answers: &Map<String, Json>) -> Result<bool> {
    let Some(entry) = lock_by_public_id(tx, id).await? else { return Ok(false) };
    if entry.state.status.is_terminal() {
        return Ok(false);
    }
    let now = tx.now().await?;
    let text = serde_json::to_string(answers).unwrap_or_default();
    tx.execute(KEEP, params![entry.id.0, &text, now]).await?;
    Ok(true)
}

statements! {
    const KEEP = "
        insert into punctual.progress (entry_id, answers, at)
        values ($1, $2, $3)
        on conflict (entry_id)
        do update set answers = excluded.answers, at = excluded.at
    ";
}

async fn complete(tx: &mut Tx, answer: &SurveyAnswer) -> Result<TransitionOutcome> {
    let found = lock_by_public_id(tx, answer.public_id).await?;
    let Some(mut entry) = found else { return Ok(TransitionOutcome::Unknown) };
    let state = match entry.state.after(Transition::Submitted) {
        Ok(state) => state,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    let now = tx.now().await?;
    let end = EntryEnd { entry: &entry, state, reason: None, said: "its entry has ended" };
    write_ends(tx, &[end], now).await?;
    write_response(tx, &entry, answer, now).await?;
    forget_progress(tx, &[entry.id.0]).await?;
    (entry.state, entry.completed_at, entry.version) = (state, Some(now), entry.version + 1);
    Ok(TransitionOutcome::Done(Box::new(entry)))
}

async fn write_response(tx: &mut Tx, entry: &Entry, answer: &SurveyAnswer, now: Timestamp) -> Result<()> {
    let Some(instance) = SurveyInstance::of(entry) else { return Ok(()) };
    let moment =
        SurveyEvent::Completed { at: now, agent_id: answer.agent_id(), answers: answer.answers.clone() };
    let addressed = publish_one(tx, &instance, &moment, answer.listeners.as_deref()).await?;
    let answers = serde_json::to_string(&answer.answers).unwrap_or_default();
    let meta = answer.meta.as_ref().map(Json::to_string);
    let listeners =
        ResponseListeners { message: addressed.id, subscribers: addressed.to, unknown: addressed.unknown };
    let names = listeners.names();
    let row = params![
        entry.id.0,
        entry.tenant.id(),
        instance.flow.0,
        i64::from(instance.number),
        instance.trigger_id,
        &answers,
        meta.as_deref(),
        now,
        listeners.message.0,
        &names,
    ];
    tx.execute(RESPONSE, row).await?;
    Ok(())
}

statements! {
    const RESPONSE = "
        insert into punctual.response (
            entry_id, tenant_id, flow_id, number, trigger_id, answers, meta, completed_at, message_id,
            told
        )
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ";
}

async fn stop_all(tx: &mut Tx, tenant: Tenant, kind: &str, stops: &[StopRequest]) -> Result<Vec<PublicId>> {
    let by_id: BTreeMap<PublicId, &StopRequest> = stops.iter().map(|stop| (stop.public_id, stop)).collect();
    let ids: Vec<PublicId> = by_id.keys().copied().collect();
    let mut entries = lock_by_public_ids(tx, tenant, &ids).await?;
    let earlier = began_earlier(tx, &entries, &by_id).await?;
    entries.retain(|entry| earlier.contains(&entry.id));
    let ended =
        cancel_all(tx, &entries, Transition::Cancelled, (Some("Stopped"), "its entry has ended")).await?;
    let stopped: Vec<(&Entry, EntryState)> = entries
        .iter()
        .zip(ended)
        .filter_map(|(entry, state)| Some((entry, state.ok().filter(|state| *state != entry.state)?)))
        .collect();
    let causes: Vec<Option<String>> = stopped
        .iter()
        .map(|(entry, _)| Some(format!("message:{}", entry.public_id.and_then(|id| by_id.get(&id)?.event)?)))
        .collect();
    let changes = stopped.iter().zip(&causes).map(|((entry, state), cause)| NewChange {
        tenant,
        entry: entry.id,
        action: "stopped",
        from: entry.state.status.word(),
        to: state.status.word(),
        actor: ENGINE,
        reason: kind,
        cause: cause.as_deref(),
    });
    let now = tx.now().await?;
    add_changes(tx, &changes.collect::<Vec<_>>(), now).await?;
    Ok(stopped.iter().filter_map(|(entry, _)| entry.public_id).collect())
}

async fn foresee_stops(tx: &mut Tx, tenant: Tenant, stops: &[StopRequest]) -> Result<Vec<PublicId>> {
    let by_id: BTreeMap<PublicId, &StopRequest> = stops.iter().map(|stop| (stop.public_id, stop)).collect();
    let mut entries = Vec::with_capacity(by_id.len());
    for id in by_id.keys() {
        entries.extend(entry_by_public_id(tx, tenant, *id).await?);
    }
    let earlier = began_earlier(tx, &entries, &by_id).await?;
    let ends = |state: &EntryState| state.after(Transition::Cancelled).is_ok_and(|after| after != *state);
    let ended = entries.iter().filter(|entry| earlier.contains(&entry.id) && ends(&entry.state));
    Ok(ended.filter_map(|entry| entry.public_id).collect())
}

/// The entries that were begun before the events that stop them. An event that comes again after a crash must
/// not stop what a later event has begun meanwhile; events count by the time they were due.
async fn began_earlier(
    tx: &mut Tx,
    entries: &[Entry],
    stops: &BTreeMap<PublicId, &StopRequest>,
) -> Result<HashSet<EntryId>> {
    let event = |entry: &Entry| entry.public_id.and_then(|id| stops.get(&id)?.event);
    let pairs: Vec<(EntryId, MessageId, MessageId)> =
        entries.iter().filter_map(|entry| Some((entry.id, entry.message?, event(entry)?))).collect();
    let ids: Vec<i64> = pairs.iter().flat_map(|(_, began, stops)| [began.0, stops.0]).collect();
    let due = due_times(tx, &ids).await?;
    let time = |id: &MessageId| due.get(id).copied();
    let later = pairs.iter().filter(|(_, began, stops)| (time(began), began) > (time(stops), stops));
    let later: HashSet<EntryId> = later.map(|(entry, ..)| *entry).collect();
    Ok(entries.iter().map(|entry| entry.id).filter(|id| !later.contains(id)).collect())
}

async fn stop_reminders(tx: &mut Tx, id: PublicId) -> Result<TransitionOutcome> {
    let Some(mut entry) = lock_by_public_id(tx, id).await? else { return Ok(TransitionOutcome::Unknown) };
    let state = match entry.state.halted() {
        Ok(state) => state,
        Err(refusal) => return Ok(TransitionOutcome::Refused(refusal)),
    };
    if state != entry.state {
        let now = tx.now().await?;
        let end = EntryEnd { entry: &entry, state, reason: None, said: "its reminders were stopped" };
        write_ends(tx, &[end], now).await?;
        let change = NewChange {
            tenant: entry.tenant,
            entry: entry.id,
            action: "remindersStopped",
            from: entry.state.status.word(),
            to: state.status.word(),
            actor: ENGINE,
            reason: "instance-opened",
            cause: None,
        };
        add_changes(tx, &[change], now).await?;
        (entry.state, entry.version) = (state, entry.version + 1);
        await_expiry(tx, &entry).await?;
    }
    Ok(TransitionOutcome::Done(Box::new(entry)))
}
