//! A notification once more, because a person asks for it.

use super::communication_logs::BOOKING;
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::flow::entities::EntityPath;
use crate::http::api::requests::ResendNotification;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use punctual::engine::{ResendOutcome, ResendRefusal, ResendRequest};
use punctual::flow::rules::entity::check_entity;
use punctual::{Entity, Error, Problems, TemplateId};
use schemars::JsonSchema;
use serde::Serialize;

/// `POST /api/bookings/{id}/resend-notification {channel, templateId?, eventType?}`
///
/// # Errors
/// 404 when nobody was told of any event about it, 409 when it makes no sense any more, 422 for a bad
/// request.
pub async fn booking(
    state: State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    input: Input,
) -> Answer<(StatusCode, Json<AcceptedResend>)> {
    let Path(id) = id.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
    let (entity, mut problems) = (Entity { kind: BOOKING.into(), id }, Problems::default());
    check_entity(&entity, &mut problems);
    problems.into_result()?;
    again(state, caller, entity, &input).await
}

/// `POST /api/entities/{type}/{id}/resend-notification {channel, templateId?, eventType?}`
///
/// # Errors
/// As [`booking`].
pub async fn entity(
    state: State<App>,
    caller: Caller,
    name: EntityPath,
    input: Input,
) -> Answer<(StatusCode, Json<AcceptedResend>)> {
    again(state, caller, name.0, &input).await
}

/// What is sent again.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResendAccepted")]
pub struct AcceptedResend {
    request_id: String,
    deliveries: Vec<ResentDelivery>,
}

/// One message that is sent again.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResentDelivery {
    id: String,
    idempotency_key: String,
}

async fn again(
    State(app): State<App>,
    caller: Caller,
    entity: Entity,
    input: &Input,
) -> Answer<(StatusCode, Json<AcceptedResend>)> {
    let (about, resend) = (format!("{} `{}`", entity.kind, entity.id), read(entity, &caller, input)?);
    let by_template = resend.template.is_some();
    match app.engine.resend(caller.tenant, resend).await? {
        ResendOutcome::Asked { request_id, deliveries } => {
            let asked = deliveries.iter();
            let deliveries = asked.map(|one| ResentDelivery {
                id: one.id.to_string(),
                idempotency_key: one.idempotency_key.clone(),
            });
            let accepted =
                AcceptedResend { request_id: request_id.to_string(), deliveries: deliveries.collect() };
            Ok((StatusCode::ACCEPTED, Json(accepted)))
        }
        ResendOutcome::Refused(why) => Err(refused(&about, &why, by_template)),
    }
}

fn read(entity: Entity, caller: &Caller, input: &Input) -> Answer<ResendRequest> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<ResendNotification>();
    let channel = read.need_name("channel");
    let event_type = read.text("eventType");
    let template = read.id_text("templateId").map(|text| text.parse().map(TemplateId));
    if matches!(template, Some(Err(_))) {
        read.wrong("templateId", "is not the id of a message template");
    }
    problems.into_result()?;
    let template = template.and_then(Result::ok);
    Ok(ResendRequest { entity, channel, template, event_type, requested_by: caller.name.clone() })
}

fn refused(about: &str, why: &ResendRefusal, by_template: bool) -> ApiFailure {
    let said = format!("nothing is sent again for {about}: {why}");
    match why {
        ResendRefusal::NoEvent => ApiFailure::not_found(said),
        ResendRefusal::NoTemplate => {
            Error::invalid(if by_template { "templateId" } else { "channel" }, said).into()
        }
        ResendRefusal::EventDropped | ResendRefusal::NoRecipient | ResendRefusal::Pointless(_) => {
            ApiFailure::conflict(said)
        }
    }
}
