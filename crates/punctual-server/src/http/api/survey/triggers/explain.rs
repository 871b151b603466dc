//! What events would come to.

use super::read_ingest;
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::queue::events::read_one;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::explanations;
use axum::Json;
use axum::extract::State;
use punctual::engine::{EventExplanation, EventToExplain};
use punctual::{Error, MessageId, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What events would come to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explanations {
    #[schemars(with = "Vec<explanations::Explained>")]
    items: Vec<EventExplanation>,
}

/// Why a viewer gets no explanation of an event.
const NOT_FOR_VIEWERS: &str = "an explanation of an event shows recipients and texts, which a viewer may \
    not see: use a key with the role support, or give `items`";

/// `POST /api/triggers/explain`: writes nothing. The body is that of an ingest, or `{event}` with an event as
/// `POST /api/events` takes it, or `{eventId}` with the id of one that was published. To viewers, the payload
/// stands in for what is known of entities.
///
/// # Errors
/// 422 for a body that cannot be read, 403 for a viewer who names an event of a topic.
pub async fn explain(State(app): State<App>, caller: Caller, input: Input) -> Answer<Json<Explanations>> {
    let body = input.object()?;
    if !body.contains_key("event") && !body.contains_key("eventId") {
        let ingest = read_ingest(&input)?;
        let items = match caller.can_see_personal_data() {
            true => app.engine.explain(caller.tenant, &ingest).await?,
            false => app.engine.explain_without_states(caller.tenant, &ingest).await?,
        };
        return Ok(Json(Explanations { items }));
    }
    if !caller.can_see_personal_data() {
        return Err(ApiFailure::forbidden(NOT_FOR_VIEWERS));
    }
    let event = read_event(&input, &caller.name)?;
    let explained = app.engine.explain_event(caller.tenant, event).await?;
    Ok(Json(Explanations { items: vec![explained] }))
}

/// The event as it was written: its payload must not lose a digit.
#[derive(Deserialize)]
struct WrittenEvent<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
}

fn read_event(input: &Input, publisher: &str) -> Answer<EventToExplain> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only(&["event", "eventId"]);
    let id = read.id_text("eventId");
    read.object("event");
    if id.is_some() && read.value("event").is_some() {
        read.wrong("eventId", "cannot be given beside an event");
    }
    problems.into_result()?;
    if let Some(id) = id {
        let none = || Error::invalid("eventId", format!("there is no event {id}"));
        return Ok(EventToExplain::Recorded(id.parse().map(MessageId).map_err(|_| none())?));
    }
    let written: WrittenEvent<'_> = serde_json::from_slice(&input.bytes).map_err(|e| super::not_json(&e))?;
    let event = written.event.ok_or_else(|| Error::invalid("event", "is missing"))?;
    read_one(event, "event", publisher)
}
