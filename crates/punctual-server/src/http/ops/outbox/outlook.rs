//! What would become of an event if it were replayed: the messages that would be sent, the survey instances
//! that it would begin and stop, and those that keys would keep back.

use crate::app::App;
use crate::http::error::Answer;
use crate::http::openapi::values::PublicIdText;
use crate::http::openapi::words::OutlookOutcome;
use punctual::Tenant;
use punctual::delivery::store::entries::preview::PreviewedMessage;
use punctual::engine::IngestOutcome;
use punctual::flow::rules::public_id::PublicId;
use punctual::operate::store::outbox::failed_messages::FailedMessage;
use punctual::survey::run::ingest::preview::PreviewedInstance;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;

/// Messages of one event that are told one by one.
const TOLD_MAX: usize = 100;

/// What would become of an event by today's templates and surveys, if it is for people.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventOutlook")]
pub struct Outlook {
    /// Messages that would be sent.
    sent_again: usize,
    /// Messages that would not.
    stopped: usize,
    /// Why it would fail again, or come to nothing.
    reason: Option<String>,
    /// The messages, up to 100.
    items: Vec<Message>,
    /// How many more there are than items.
    more_items: usize,
    /// Survey instances that it would begin or stop, and those that it is a duplicate of.
    instances: Vec<Instance>,
}

/// One survey instance.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Instance {
    survey_id: i64,
    trigger_id: String,
    /// Null for one that is not there yet.
    #[schemars(with = "Option<PublicIdText>")]
    public_id: Option<PublicId>,
    #[schemars(with = "OutlookOutcome")]
    outcome: IngestOutcome,
    /// Why it would not be begun.
    reason: Option<&'static str>,
}

/// One message to a person.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Message {
    channel: String,
    idempotency_key: String,
    stopped: bool,
    /// Why it is stopped.
    reason: Option<&'static str>,
}

/// Keys that messages and instances before would have taken by then.
pub(super) type SeenKeys = HashSet<(Tenant, String)>;

/// What would become of an event that is for people; nothing is known of what is for others.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn of(app: &App, failed: &FailedMessage, seen: &mut SeenKeys) -> Answer<Option<Outlook>> {
    if !failed.is_for_people() {
        return Ok(None);
    }
    let Some(found) = app.engine.preview_event(failed.tenant, failed.message).await? else { return Ok(None) };
    let messages = found.messages.into_iter().map(|one| message(failed.tenant, one, seen));
    let messages: Vec<Message> = messages.collect();
    let instances = found.instances.into_iter().map(|one| instance(failed.tenant, one, seen)).collect();
    let stopped = messages.iter().filter(|one| one.stopped).count();
    Ok(Some(Outlook {
        sent_again: messages.len() - stopped,
        stopped,
        reason: found.reason,
        more_items: messages.len().saturating_sub(TOLD_MAX),
        items: messages.into_iter().take(TOLD_MAX).collect(),
        instances,
    }))
}

/// Why a key that an event before it takes lets nothing through.
const SAME_KEY: &str = "An event before it in this replay has the same key";

fn message(tenant: Tenant, one: PreviewedMessage, seen: &mut SeenKeys) -> Message {
    let reason = one.stopped.or_else(|| {
        let first = seen.insert((tenant, one.key.clone()));
        (!first).then_some(SAME_KEY)
    });
    Message { channel: one.channel, idempotency_key: one.key, stopped: reason.is_some(), reason }
}

fn instance(tenant: Tenant, one: PreviewedInstance, seen: &mut SeenKeys) -> Instance {
    let (outcome, reason) = match one.outcome {
        IngestOutcome::Skipped => (IngestOutcome::Skipped, Some("It was made of the same event before")),
        IngestOutcome::Created if !seen.insert((tenant, one.unique_hash)) => {
            (IngestOutcome::Skipped, Some(SAME_KEY))
        }
        other => (other, None),
    };
    Instance {
        survey_id: one.flow.0,
        trigger_id: one.trigger_id.to_string(),
        public_id: one.public_id,
        outcome,
        reason,
    }
}
