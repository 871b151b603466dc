//! The messages about an instance: one on the topic `survey.responses` for each moment of it.
//!
//! The payload is self-contained: a subscriber needs no further request. It has the same fields for every
//! moment; those that a moment does not have are null.

use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::base::tenant::Tenant;
use crate::database::statement::statements;
use crate::database::tx::{Tx, TxFuture};
use crate::database::value::Value;
use crate::delivery::store::entries::hooks::{ChangedEntry, EntryEvent, EntryHook};
use crate::flow::rules::entry::EntryKind;
use crate::flow::rules::entry_events::INSTANCE_SENT;
use crate::flow::rules::public_id::PublicId;
use crate::flow::store::flows::integration_ids;
use crate::queue::rules::message::NewMessage;
use crate::queue::store::messages;
use crate::queue::store::messages::addressed::{AddressedMessage, insert_all_to, insert_to};
use crate::survey::store::instance::SurveyInstance;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The topic.
pub const TOPIC: &str = "survey.responses";

/// A moment of a survey instance.
#[derive(Clone, Debug, PartialEq)]
pub enum SurveyEvent {
    /// The recipient has answered.
    Completed {
        /// When.
        at: Timestamp,
        /// The agent who helped, if one did.
        agent_id: Option<String>,
        /// The answers, in their canonical form.
        answers: Map<String, Json>,
    },
    /// The invitation or a reminder went out.
    Sent {
        /// When.
        at: Timestamp,
        /// The number of the send.
        attempt: u32,
    },
    /// A person opened its page for the first time.
    Opened(Timestamp),
    /// The instance was quiet for too long.
    Expired(Timestamp),
    /// The instance was cancelled by a request.
    Cancelled(Timestamp),
}

impl SurveyEvent {
    /// The kind of its message.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "response-completed",
            Self::Sent { .. } => INSTANCE_SENT,
            Self::Opened(_) => "instance-opened",
            Self::Expired(_) => "instance-expired",
            Self::Cancelled(_) => "instance-cancelled",
        }
    }

    const fn at(&self) -> Timestamp {
        match self {
            Self::Completed { at, .. } | Self::Sent { at, .. } => *at,
            Self::Opened(at) | Self::Expired(at) | Self::Cancelled(at) => *at,
        }
    }
}

/// The fields of a message, but for the event's payload, which is JSON already.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SurveyEventFields<'a> {
    survey_id: FlowId,
    survey_version: u32,
    survey_integration_id: Option<&'a str>,
    instance_public_id: PublicId,
    trigger_id: &'a str,
    customer_ref: Option<&'a str>,
    recipient_address: &'a str,
    recipient_locale: Option<&'a str>,
    event_type: &'static str,
    occurred_at: Timestamp,
    completed_at: Option<Timestamp>,
    agent_id: Option<&'a str>,
    attempt: Option<u32>,
    answers: Option<&'a Map<String, Json>>,
}

impl From<EntryEvent> for SurveyEvent {
    fn from(moment: EntryEvent) -> Self {
        match moment {
            EntryEvent::Sent { at, send } => Self::Sent { at, attempt: send },
            EntryEvent::Expired(at) => Self::Expired(at),
            EntryEvent::Cancelled(at) => Self::Cancelled(at),
        }
    }
}

/// The message of a moment.
fn message(of: &SurveyInstance<'_>, integration_id: Option<&str>, moment: &SurveyEvent) -> NewMessage {
    let (completed_at, agent_id, answers) = match moment {
        SurveyEvent::Completed { at, agent_id, answers } => (Some(*at), agent_id.as_deref(), Some(answers)),
        _ => (None, None, None),
    };
    let fields = SurveyEventFields {
        survey_id: of.flow,
        survey_version: of.number,
        survey_integration_id: integration_id,
        instance_public_id: of.public_id,
        trigger_id: of.trigger_id,
        customer_ref: of.customer_ref,
        recipient_address: of.address,
        recipient_locale: of.locale,
        event_type: moment.kind(),
        occurred_at: moment.at(),
        completed_at,
        agent_id,
        attempt: if let SurveyEvent::Sent { attempt, .. } = moment { Some(*attempt) } else { None },
        answers,
    };
    let mut payload = serde_json::to_string(&fields).unwrap_or_default();
    // Behind the last field, in the place of the closing brace.
    payload.pop();
    payload.push_str(",\"candidateMetadata\":");
    payload.push_str(of.payload);
    payload.push('}');
    NewMessage::new(TOPIC, moment.kind(), payload)
}

/// Publishes a moment of one instance, to the subscriptions named or to all of the topic.
pub(crate) async fn publish_one(
    tx: &mut Tx,
    of: &SurveyInstance<'_>,
    moment: &SurveyEvent,
    only: Option<&[String]>,
) -> Result<AddressedMessage> {
    let integrations = integration_ids(tx, &[of.flow]).await?;
    let message = message(of, integrations.get(&of.flow).and_then(Option::as_deref), moment);
    insert_to(tx, of.entry.tenant, &message, only).await
}

/// Publishes moments of many instances: to the subscriptions that their surveys list, or to all of the topic.
pub(crate) async fn publish_all(tx: &mut Tx, news: &[(SurveyInstance<'_>, SurveyEvent)]) -> Result<()> {
    if news.is_empty() {
        return Ok(());
    }
    let flows: Vec<FlowId> = news.iter().map(|(of, _)| of.flow).collect();
    let integrations: HashMap<FlowId, Option<Arc<str>>> = integration_ids(tx, &flows).await?;
    let mut parts: BTreeMap<(Tenant, Option<&[String]>), Vec<NewMessage>> = BTreeMap::new();
    for (of, moment) in news {
        let integration = integrations.get(&of.flow).and_then(Option::as_deref);
        let part = parts.entry((of.entry.tenant, of.entry.listeners.as_deref())).or_default();
        part.push(message(of, integration, moment));
    }
    for ((tenant, only), messages) in parts {
        match only {
            None => drop(messages::insert(tx, tenant, &messages.iter().collect::<Vec<_>>()).await?),
            Some(names) => insert_all_to(tx, tenant, &messages, names).await?,
        }
    }
    Ok(())
}

/// Publishes what happens to instances in the pipeline, and forgets answers in progress of those that end.
#[derive(Debug)]
pub(crate) struct SurveyHook;

impl EntryHook for SurveyHook {
    fn kind(&self) -> EntryKind {
        EntryKind::Survey
    }

    fn after_change<'t>(&'t self, tx: &'t mut Tx, news: &'t [ChangedEntry<'t>]) -> TxFuture<'t, ()> {
        Box::pin(async move {
            let of_kind =
                news.iter().filter_map(|one| Some((SurveyInstance::of(one.entry)?, one.moment.into())));
            publish_all(tx, &of_kind.collect::<Vec<_>>()).await?;
            let has_ended = |one: &&ChangedEntry<'_>| !matches!(one.moment, EntryEvent::Sent { .. });
            let ended: Vec<i64> = news.iter().filter(has_ended).map(|one| one.entry.id.0).collect();
            forget_progress(tx, &ended).await
        })
    }
}

/// Forgets what recipients have filled in and not sent.
pub(crate) async fn forget_progress(tx: &mut Tx, entries: &[i64]) -> Result<()> {
    if !entries.is_empty() {
        tx.execute(FORGET_PROGRESS, &[Value::Ints(entries)]).await?;
    }
    Ok(())
}

statements! {
    const FORGET_PROGRESS = "
        delete from punctual.progress
        where entry_id = any($1::bigint[])
    ";
}
