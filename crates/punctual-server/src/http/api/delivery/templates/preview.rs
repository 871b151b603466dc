//! What a template says, before anybody gets it.

use super::find;
use crate::app::App;
use crate::auth::Caller;
use crate::http::api::Id;
use crate::http::api::requests::PreviewMessageTemplate;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::documents::ProviderTemplate;
use crate::http::openapi::values::ProblemAt;
use crate::http::openapi::words::SmsEncoding;
use axum::Json;
use axum::extract::State;
use punctual::delivery::rules::template::MessageTemplate;
use punctual::delivery::rules::template::choose::kind_of;
use punctual::delivery::rules::template::segments::Segments;
use punctual::delivery::store::templates::StoredTemplate;
use punctual::engine::{PreviewRequest, TemplatePreview};
use punctual::{MessageId, Problem, Problems};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What a template says.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MessageTemplatePreview")]
pub struct Preview {
    id: String,
    #[schemars(range(min = 1))]
    template_version: u32,
    locale: String,
    subject: Option<String>,
    body: String,
    html: Option<String>,
    /// How many SMS it is, for channels of that kind.
    segments: Option<SmsSegments>,
    #[schemars(with = "Option<ProviderTemplate>")]
    provider_template: Option<Value>,
    #[schemars(with = "Vec<ProblemAt>")]
    warnings: Vec<Problem>,
}

/// How many SMS a text is.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SmsSegments {
    #[schemars(range(min = 1))]
    count: usize,
    units: usize,
    #[schemars(with = "SmsEncoding")]
    encoding: &'static str,
}

/// `POST /api/message-templates/{id}/preview {payload?|eventId?, locale?}`: sends nothing. Without a payload
/// and an event it shows the sample of its kind. Viewers get no preview of an event that was, and to them
/// the payload stands in for what is known of entities.
///
/// # Errors
/// 404 when there is no such template, 403 for a viewer who names an event, 422 with every problem.
pub async fn preview(State(app): State<App>, caller: Caller, id: Id, input: Input) -> Answer<Json<Preview>> {
    let StoredTemplate { id, version, definition, .. } = find(&app, &caller, id).await?;
    let trial = read(&app, &caller, &input).await?;
    let texts = definition.compile()?;
    let template = MessageTemplate { id, version, definition, texts };
    let TemplatePreview { filled, locale } = app.engine.try_template(caller.tenant, &template, trial).await?;
    let sms = kind_of(&template.definition.channel) == "SMS";
    Ok(Json(Preview {
        id: id.to_string(),
        template_version: version,
        locale,
        segments: sms.then(|| segments(&filled.body)),
        subject: filled.subject,
        body: filled.body,
        html: filled.html,
        provider_template: filled.provider.map(|own| own.to_json()),
        warnings: filled.warnings,
    }))
}

/// Why a viewer gets no preview of an event.
const NO_EVENT: &str = "a preview of a real event shows whom it is about, which a viewer may not see; \
    leave `eventId` out for the sample, or give a payload";

async fn read(app: &App, caller: &Caller, input: &Input) -> Answer<PreviewRequest> {
    let body = input.object_or_nothing()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<PreviewMessageTemplate>();
    let mut trial = PreviewRequest {
        payload: read.object("payload").cloned().map(Value::Object),
        event_kind: None,
        entity: None,
        locale: read.text("locale"),
        open: caller.can_see_personal_data(),
    };
    let event = read.id_text("eventId");
    if event.is_some() && !caller.can_see_personal_data() {
        return Err(ApiFailure::forbidden(NO_EVENT));
    }
    if event.is_some() && read.value("payload").is_some() {
        read.wrong("eventId", "cannot be given beside a payload");
    }
    if let Some(event) = event {
        let found = match event.parse().ok().map(MessageId) {
            Some(id) => app.engine.store().message(caller.tenant, id).await?,
            None => None,
        };
        match found {
            Some(message) => {
                trial.payload = serde_json::from_str(&message.payload).ok();
                trial.entity = message.entity;
                trial.event_kind = Some(message.kind);
            }
            None => read.wrong("eventId", "there is no such event"),
        }
    }
    if let Some(Err(said)) = trial.locale.as_deref().map(punctual::base::locale::check) {
        read.wrong("locale", said);
    }
    problems.into_result()?;
    Ok(trial)
}

fn segments(text: &str) -> SmsSegments {
    let of = Segments::of(text);
    SmsSegments { count: of.count, units: of.units, encoding: of.encoding() }
}
