//! What others are told of an entry: a message on one topic, for each moment of it.
//!
//! The payload is self-contained: who hears it need not ask back. It has the same fields for every
//! moment; what a moment does not have is null.

use super::super::messages::{self, addressed::insert_all_to};
use super::super::tx::Tx;
use super::super::value::Value;
use super::Entry;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::base::tenant::Tenant;
use crate::rules::message::NewMessage;
use crate::rules::public_id::PublicId;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The topic.
pub const TOPIC: &str = "survey.responses";

/// The kind of what is told of every send.
pub const SENT: &str = "instance-sent";
/// The kinds that may begin another survey: all but [`SENT`], which comes without anybody having done
/// anything, so that two surveys could go on sending because of each other.
pub const BEGINNINGS: [&str; 4] =
    ["response-completed", "instance-opened", "instance-expired", "instance-cancelled"];

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Moment {
    /// It was answered.
    Completed {
        /// When.
        at: Timestamp,
        /// By the help of whom, if somebody helped.
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
    /// It was quiet for too long.
    Expired(Timestamp),
    /// Somebody withdrew it.
    Cancelled(Timestamp),
}

impl Moment {
    /// The kind of its message.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "response-completed",
            Self::Sent { .. } => SENT,
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

/// What is told, but for the event's payload, which is JSON already.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
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

/// The message of a moment.
fn message(entry: &Entry, integration_id: Option<&str>, moment: &Moment) -> NewMessage {
    let (completed_at, agent_id, answers) = match moment {
        Moment::Completed { at, agent_id, answers } => (Some(*at), agent_id.as_deref(), Some(answers)),
        _ => (None, None, None),
    };
    let said = Said {
        survey_id: entry.flow,
        survey_version: entry.number,
        survey_integration_id: integration_id,
        instance_public_id: entry.public_id,
        trigger_id: &entry.trigger_id,
        customer_ref: entry.customer_ref.as_deref(),
        recipient_address: &entry.address,
        recipient_locale: entry.locale.as_deref(),
        event_type: moment.kind(),
        occurred_at: moment.at(),
        completed_at,
        agent_id,
        attempt: if let Moment::Sent { attempt, .. } = moment { Some(*attempt) } else { None },
        answers,
    };
    let mut payload = serde_json::to_string(&said).unwrap_or_default();
    // Behind the last field, in the place of the closing brace.
    payload.pop();
    payload.push_str(",\"candidateMetadata\":");
    payload.push_str(&entry.payload);
    payload.push('}');
    NewMessage::new(TOPIC, moment.kind(), payload)
}

/// The message of a moment, with what is known of the flow.
pub(super) async fn message_of(tx: &mut Tx, entry: &Entry, moment: &Moment) -> Result<NewMessage> {
    let integrations = integrations(tx, std::iter::once(entry.flow)).await?;
    Ok(message(entry, integrations.get(&entry.flow).and_then(Option::as_deref), moment))
}

/// Something that happened to an entry, to be told.
pub(super) struct News<'e> {
    pub entry: &'e Entry,
    pub moment: Moment,
}

/// Tells what happened to many: the subscriptions that their surveys list, or all of the topic.
pub(super) async fn tell_all(tx: &mut Tx, news: &[News<'_>]) -> Result<()> {
    if news.is_empty() {
        return Ok(());
    }
    let integrations = integrations(tx, news.iter().map(|one| one.entry.flow)).await?;
    let mut parts: BTreeMap<(Tenant, Option<Vec<String>>), Vec<NewMessage>> = BTreeMap::new();
    for News { entry, moment } in news {
        let integration = integrations.get(&entry.flow).and_then(Option::as_deref);
        let part = parts.entry((entry.tenant, entry.listeners.clone())).or_default();
        part.push(message(entry, integration, moment));
    }
    for ((tenant, only), messages) in parts {
        match only {
            None => drop(messages::insert(tx, tenant, &messages.iter().collect::<Vec<_>>()).await?),
            Some(names) => insert_all_to(tx, tenant, &messages, &names).await?,
        }
    }
    Ok(())
}

/// The names that these flows have in another system.
async fn integrations(
    tx: &mut Tx,
    flows: impl Iterator<Item = FlowId>,
) -> Result<HashMap<FlowId, Option<Arc<str>>>> {
    let mut ids: Vec<i64> = flows.map(|flow| flow.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = tx.query(INTEGRATIONS, &[Value::Ints(&ids)]).await?;
    rows.iter().map(|row| Ok((FlowId(row.int(0)?), row.maybe_text(1)?.map(Into::into)))).collect()
}

const INTEGRATIONS: &str = "select id, integration_id from punctual.flow where id = any($1::bigint[])";
