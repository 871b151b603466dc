//! Dead letters: look at them, put them back to work, or let them go.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::api::requests::DeadLetterSelectionFilter;
use crate::http::api::selection::{BulkSelection, MovedItems};
use crate::http::error::Answer;
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words::AttemptOutcome;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::State;
use punctual::base::name::check_name;
use punctual::queue::store::dead_letters::{
    DeadLetter, DeadLetterAttempt, DeadLetterFilter, DeadLetterOutcome,
};
use punctual::{DeadLetterId, Problems, Tenant, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A dead letter.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeadLetter")]
pub struct DeadLetterView {
    id: String,
    topic: String,
    subscription: Option<String>,
    message_id: String,
    kind: String,
    key: Option<String>,
    correlation_id: Option<String>,
    /// Any JSON; null for viewers.
    payload: Option<Box<RawValue>>,
    #[schemars(with = "Option<Map<String, Value>>")]
    headers: Option<Box<RawValue>>,
    attempts: Vec<DeadLetterAttemptView>,
    /// Null for viewers.
    error: Option<String>,
    #[schemars(with = "DateTime")]
    died_at: Timestamp,
}

/// An attempt that did not end well.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DeadLetterAttemptView {
    number: u32,
    #[schemars(with = "DateTime")]
    at: Timestamp,
    owner: String,
    #[schemars(with = "AttemptOutcome")]
    outcome: String,
    /// Null for viewers.
    error: Option<String>,
}

/// `GET /api/dead-letters`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<DeadLetterView>>> {
    let mut which = DeadLetterFilter { after: page.after_id()?, ..DeadLetterFilter::default() };
    let mut problems = Problems::default();
    which.narrow(page.filter("topic"), page.filter("subscription"));
    which.check("", &mut problems);
    problems.into_result()?;
    let fetch = |after: i64, limit: usize| {
        app.engine.store().dead_letters(caller.tenant, DeadLetterFilter { after, ..which.clone() }, limit)
    };
    let weigh = |letter: &DeadLetter| letter.message.payload.len();
    let (letters, more) = page.gather(which.after, fetch, |letter| letter.id.0, weigh).await?;
    let next = letters.last().filter(|_| more).map(|letter| letter.id.to_string());
    let letters = letters.into_iter().map(|letter| shown(&caller, letter)).collect();
    Ok(Json(page.list_up_to(letters, next)))
}

/// `GET /api/dead-letters/{id}`
///
/// # Errors
/// 404 when this tenant has none of that id.
pub async fn show(State(app): State<App>, caller: Caller, id: Id) -> Answer<Json<DeadLetterView>> {
    let which = DeadLetterFilter { ids: Some(vec![DeadLetterId(id.0)]), ..DeadLetterFilter::default() };
    let letter = app.engine.store().dead_letters(caller.tenant, which, 1).await?.pop();
    letter.map(|l| Json(shown(&caller, l))).ok_or_else(|| id.not_found("dead letter"))
}

/// A filter that a list and a replay share. Topics may also be written as Service Bus
/// writes them: `orders/subscriptions/mail/$deadletterqueue`.
trait Narrow {
    fn narrow(&mut self, topic: Option<&str>, subscription: Option<&str>);
    fn check(&self, at: &str, problems: &mut Problems);
}

impl Narrow for DeadLetterFilter {
    fn narrow(&mut self, topic: Option<&str>, subscription: Option<&str>) {
        let path = topic.map(|t| t.strip_suffix("/$deadletterqueue").unwrap_or(t));
        let (topic, within) = match path.and_then(|p| p.split_once('/')) {
            Some((topic, rest)) => (Some(topic), Some(rest.strip_prefix("subscriptions/").unwrap_or(rest))),
            None => (path, None),
        };
        self.topic = topic.map(str::to_owned);
        self.subscription = subscription.or(within).map(str::to_owned);
    }

    fn check(&self, at: &str, problems: &mut Problems) {
        for (name, value) in [("topic", &self.topic), ("subscription", &self.subscription)] {
            if let Some(value) = value {
                check_name(value, &format!("{at}{name}"), problems);
            }
        }
    }
}

/// `POST /api/dead-letters/replay`
///
/// # Errors
/// 422 unless it says which.
pub async fn replay(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<MovedItems>> {
    let (which, dry_run) = read_which(&input)?;
    let ids = all(&app, caller.tenant, which, dry_run, true).await?;
    app.engine.wake();
    Ok(Json(MovedItems::replayed(&ids, dry_run)))
}

/// `POST /api/dead-letters/purge`
///
/// # Errors
/// 422 unless it says which.
pub async fn purge(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<MovedItems>> {
    let (which, dry_run) = read_which(&input)?;
    let ids = all(&app, caller.tenant, which, dry_run, false).await?;
    app.engine.wake();
    Ok(Json(MovedItems::purged(&ids, dry_run)))
}

/// Each transaction moves a bounded number; this goes on until all are moved. It goes
/// upwards, so that what dies again meanwhile is left for the next call.
async fn all(
    app: &App,
    tenant: Tenant,
    mut which: DeadLetterFilter,
    dry: bool,
    again: bool,
) -> Answer<Vec<DeadLetterId>> {
    let store = app.engine.store();
    let mut ids = Vec::new();
    loop {
        let step = which.clone();
        let DeadLetterOutcome { ids: moved, more } = if again {
            store.replay(tenant, step, dry).await?
        } else {
            store.purge(tenant, step, dry).await?
        };
        which.after = moved.last().map_or(which.after, |id| id.0);
        ids.extend(moved);
        if !more {
            return Ok(ids);
        }
    }
}

fn read_which(input: &Input) -> Answer<(DeadLetterFilter, bool)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let selection = BulkSelection::read(&body, "a dead letter", &mut problems);
    let ids = selection.ids.map(|ids| ids.into_iter().map(DeadLetterId).collect());
    let mut which = DeadLetterFilter { ids, ..DeadLetterFilter::default() };
    if let Some(filter) = selection.filter {
        let mut read = Fields::new(filter, "filter", &mut problems);
        read.only_of::<DeadLetterSelectionFilter>();
        let (topic, subscription) = (read.text("topic"), read.text("subscription"));
        which.narrow(topic.as_deref(), subscription.as_deref());
        which.check("filter.", &mut problems);
    }
    problems.into_result()?;
    Ok((which, selection.dry_run))
}

/// Viewers see neither payload nor headers nor errors.
fn shown(caller: &Caller, letter: DeadLetter) -> DeadLetterView {
    let message = letter.message;
    DeadLetterView {
        id: letter.id.to_string(),
        topic: letter.topic,
        subscription: Some(letter.subscription).filter(|s| !s.is_empty()),
        message_id: message.id.to_string(),
        kind: message.kind,
        key: message.key,
        correlation_id: message.correlation_id,
        payload: caller.visible_payload(message.payload),
        headers: message.headers.and_then(|headers| caller.visible_payload(headers)),
        attempts: letter.attempts.into_iter().map(|attempt| tried(caller, attempt)).collect(),
        error: caller.visible_text(letter.error),
        died_at: letter.died_at,
    }
}

fn tried(caller: &Caller, a: DeadLetterAttempt) -> DeadLetterAttemptView {
    let error = caller.visible_text(a.error);
    DeadLetterAttemptView { number: a.number, at: a.at, owner: a.owner, outcome: a.outcome, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_may_be_written_as_service_bus_does() {
        let cases = [
            ("orders", Some("orders"), None),
            ("orders/mail", Some("orders"), Some("mail")),
            ("orders/$deadletterqueue", Some("orders"), None),
            ("orders/subscriptions/mail/$deadletterqueue", Some("orders"), Some("mail")),
        ];
        for (text, topic, subscription) in cases {
            let mut which = DeadLetterFilter::default();
            which.narrow(Some(text), None);
            assert_eq!(
                (which.topic.as_deref(), which.subscription.as_deref()),
                (topic, subscription),
                "{text}"
            );
        }
    }
}
