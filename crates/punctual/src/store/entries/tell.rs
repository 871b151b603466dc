//! What others are told of an entry: a message on one topic, for each moment of it.
//!
//! The payload is self-contained: who hears it need not ask back. It has the same fields for every
//! moment; what a moment does not have is null.

use super::super::messages;
use super::super::tx::Tx;
use super::super::value::Value;
use super::Entry;
use crate::base::clock::Timestamp;
use crate::base::error::Result;
use crate::base::id::FlowId;
use crate::base::tenant::Tenant;
use crate::rules::message::NewMessage;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The topic.
pub const TOPIC: &str = "survey.responses";
/// The entity type of its messages; the id is the entry's public id.
pub const ENTITY: &str = "survey-instance";

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
            Self::Sent { .. } => "instance-sent",
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

/// The message of a moment.
pub(super) fn message(entry: &Entry, integration_id: Option<&str>, moment: &Moment) -> NewMessage {
    let (completed_at, agent_id, answers) = match moment {
        Moment::Completed { at, agent_id, answers } => {
            (Some(*at), agent_id.clone(), Json::Object(answers.clone()))
        }
        _ => (None, None, Json::Null),
    };
    let attempt = if let Moment::Sent { attempt, .. } = moment { Some(*attempt) } else { None };
    let metadata: Json = serde_json::from_str(&entry.payload).unwrap_or(Json::Null);
    let payload = json!({
        "surveyId": entry.flow,
        "surveyVersion": entry.number,
        "surveyIntegrationId": integration_id,
        "instancePublicId": entry.public_id,
        "triggerId": entry.trigger_id,
        "customerRef": entry.customer_ref,
        "recipientAddress": entry.address,
        "recipientLocale": entry.locale,
        "eventType": moment.kind(),
        "occurredAt": moment.at(),
        "completedAt": completed_at,
        "agentId": agent_id,
        "attempt": attempt,
        "answers": answers,
        "candidateMetadata": metadata,
    });
    NewMessage::new(TOPIC, moment.kind(), payload.to_string()).entity(ENTITY, entry.public_id.to_string())
}

/// Writes what happened to many, in one statement for each tenant.
pub(super) async fn tell_all(tx: &mut Tx, told: Vec<(Tenant, NewMessage)>) -> Result<()> {
    let mut by_tenant: BTreeMap<Tenant, Vec<NewMessage>> = BTreeMap::new();
    for (tenant, message) in told {
        by_tenant.entry(tenant).or_default().push(message);
    }
    for (tenant, messages) in by_tenant {
        messages::insert(tx, tenant, &messages.iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// The names that these flows have in another system.
pub(super) async fn integrations(
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
