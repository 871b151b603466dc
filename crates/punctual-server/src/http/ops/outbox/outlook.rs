//! What people would be told of an event if it were replayed, and what idempotency keys would stop.

use crate::app::App;
use crate::http::error::Answer;
use punctual::engine;
use punctual::store::outbox::failed::Failed;
use serde::Serialize;

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

/// What would become of an event that is for people; nothing is known of what is for others.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn of(app: &App, failed: &Failed) -> Answer<Option<Outlook>> {
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
    let stopped = messages.iter().filter(|one| one.stopped.is_some()).count();
    let items = messages.iter().take(TOLD_MAX).map(|one| Message {
        channel: one.channel.clone(),
        idempotency_key: one.key.clone(),
        stopped: one.stopped.is_some(),
        reason: one.stopped,
    });
    Ok(Some(Outlook {
        sent_again: messages.len() - stopped,
        stopped,
        reason: None,
        items: items.collect(),
        more_items: messages.len().saturating_sub(TOLD_MAX),
    }))
}
