//! What people would be told of an event if it were replayed, and what idempotency keys would stop.

use crate::app::App;
use crate::http::error::Answer;
use punctual::delivery::store::entries::preview::Foreseen;
use punctual::operate::store::outbox::failed::Failed;
use punctual::{Tenant, engine};
use serde::Serialize;
use std::collections::HashSet;

/// Messages of one event that are told one by one.
const TOLD_MAX: usize = 100;

/// What people would be told of one event.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Messages that would be sent.
    sent_again: usize,
    /// Messages that would not.
    stopped: usize,
    /// Why there are none at all.
    reason: Option<String>,
    items: Vec<Message>,
    /// How many more there are than items.
    more_items: usize,
}

/// One message to a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    channel: String,
    idempotency_key: String,
    stopped: bool,
    reason: Option<&'static str>,
}

/// Keys that messages before would have taken by then.
pub(super) type Seen = HashSet<(Tenant, String)>;

/// What would become of an event that is for people; nothing is known of what is for others.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn of(app: &App, failed: &Failed, seen: &mut Seen) -> Answer<Option<Outlook>> {
    if !failed.is_for_people() {
        return Ok(None);
    }
    let messages = match app.engine.outlook(failed.tenant, failed.message).await? {
        engine::Outlook::Unknown => return Ok(None),
        engine::Outlook::Nothing(said) => {
            return Ok(Some(Outlook { reason: Some(said), ..Outlook::default() }));
        }
        engine::Outlook::Messages(messages) => messages,
    };
    let messages: Vec<Message> = messages.into_iter().map(|one| message(failed.tenant, one, seen)).collect();
    let stopped = messages.iter().filter(|one| one.stopped).count();
    Ok(Some(Outlook {
        sent_again: messages.len() - stopped,
        stopped,
        reason: None,
        more_items: messages.len().saturating_sub(TOLD_MAX),
        items: messages.into_iter().take(TOLD_MAX).collect(),
    }))
}

fn message(tenant: Tenant, one: Foreseen, seen: &mut Seen) -> Message {
    let reason = one.stopped.or_else(|| {
        let first = seen.insert((tenant, one.key.clone()));
        (!first).then_some("An event before it in this replay has the same key")
    });
    Message { channel: one.channel, idempotency_key: one.key, stopped: reason.is_some(), reason }
}
