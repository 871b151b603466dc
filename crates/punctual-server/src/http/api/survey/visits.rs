//! A visit as JSON, for front ends of one's own: what is asked, that somebody is there, their answers.
//!
//! Whoever has the link may ask, without a key. Told is the survey as it was sent, and what was filled in
//! so far; nothing about the recipient, and nothing of an answer that was handed in.

use crate::app::App;
use crate::http::api::requests::{SurveyResponse, SurveyResponseMeta};
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{self, Fields};
use crate::http::openapi::values::{DateTime, LocalTexts, PublicIdText};
use crate::http::openapi::words::{InstanceStatus, QuestionType, TextDirection};
use crate::http::public::survey::BODY_BYTES_MAX;
use crate::http::public::visitor::SurveyVisitor;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use punctual::base::locale::{LocalizedText, right_to_left};
use punctual::base::number::canonical;
use punctual::engine::{SubmitOutcome, Visit};
use punctual::flow::rules::entry::EntryStatus;
use punctual::flow::rules::public_id::PublicId;
use punctual::survey::rules::survey::{Choice, NPS, Question, QuestionKind};
use punctual::{Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

/// Characters of an agent's id.
const AGENT_CHARS_MAX: usize = 255;

/// A survey as its link shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Visit")]
pub struct VisitView {
    #[schemars(with = "PublicIdText")]
    public_id: PublicId,
    #[schemars(with = "InstanceStatus")]
    status: &'static str,
    /// The survey's locale for the recipient.
    locale: String,
    #[schemars(with = "TextDirection")]
    direction: &'static str,
    #[schemars(with = "LocalTexts")]
    title: Value,
    locales: Vec<String>,
    default_locale: String,
    questions: Vec<SurveyQuestionView>,
    /// What was filled in so far; empty once it was handed in.
    answers: Map<String, Value>,
    #[schemars(with = "Option<DateTime>")]
    completed_at: Option<Timestamp>,
}

/// What was handed in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletedVisit {
    #[schemars(with = "PublicIdText")]
    public_id: PublicId,
    #[schemars(with = "DateTime")]
    completed_at: Timestamp,
}

/// A question of a survey.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Question")]
pub struct SurveyQuestionView {
    id: String,
    #[serde(rename = "type")]
    #[schemars(with = "QuestionType")]
    kind: &'static str,
    #[schemars(with = "LocalTexts")]
    text: Value,
    #[schemars(with = "Option<LocalTexts>")]
    help: Option<Value>,
    required: bool,
    options: Option<Vec<ChoiceView>>,
    #[schemars(extend("type" = ["number", "string", "null"]))]
    min: Value,
    #[schemars(extend("type" = ["number", "string", "null"]))]
    max: Value,
    /// A condition over the answers before it.
    #[schemars(with = "Option<Map<String, Value>>")]
    show_if: Option<Value>,
}

/// One of the answers that a question offers.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ChoiceView {
    /// The value in an answer: a text or a number.
    value: Value,
    #[schemars(with = "LocalTexts")]
    text: Value,
    other: bool,
}

/// `GET /api/public/survey-instances/{publicId}`
///
/// # Errors
/// 404 for a link that nobody has.
pub async fn show(State(app): State<App>, visitor: SurveyVisitor) -> Answer<Json<VisitView>> {
    let (_, visit) = find(&app, visitor).await?;
    let locale = visit.survey.locale_for(visit.locale.as_deref()).to_owned();
    let open = !visit.status.is_terminal();
    Ok(Json(VisitView {
        public_id: visit.public_id,
        status: visit.status.word(),
        direction: if right_to_left(&locale) { "rtl" } else { "ltr" },
        locale,
        title: visit.survey.title.to_json(),
        locales: visit.survey.locales.clone(),
        default_locale: visit.survey.default_locale.clone(),
        questions: visit.survey.questions.iter().map(question).collect(),
        answers: if open { visit.progress } else { Map::new() },
        completed_at: visit.completed_at,
    }))
}

fn question(question: &Question) -> SurveyQuestionView {
    let choice = |choice: &Choice| ChoiceView {
        value: choice.value.clone(),
        text: choice.text.to_json(),
        other: choice.other,
    };
    let choices = question.kind.choices();
    let (min, max) = bounds(&question.kind);
    SurveyQuestionView {
        id: question.id.clone(),
        kind: question.kind.word(),
        text: question.text.to_json(),
        help: question.help.as_ref().map(LocalizedText::to_json),
        required: question.required,
        options: (!choices.is_empty()).then(|| choices.iter().map(choice).collect()),
        min,
        max,
        show_if: question.show_if.as_ref().map(punctual::base::condition::Condition::to_json),
    }
}

/// The ends of what is counted, as the type counts it; null is no end.
fn bounds(kind: &QuestionKind) -> (Value, Value) {
    match kind {
        QuestionKind::SingleChoice(_) | QuestionKind::YesNo => (Value::Null, Value::Null),
        QuestionKind::MultiChoice(_, range)
        | QuestionKind::ShortText(range)
        | QuestionKind::LongText(range) => (json!(range.start()), json!(range.end())),
        QuestionKind::Rating(range) => (json!(range.start()), json!(range.end())),
        QuestionKind::Nps => (json!(NPS.start()), json!(NPS.end())),
        QuestionKind::Number(range) => {
            let told = |n: f64| Number::from_f64(n).filter(|_| n.abs() < f64::MAX);
            let end = |n: f64| told(n).map_or(Value::Null, |n| Value::Number(canonical(&n)));
            (end(*range.start()), end(*range.end()))
        }
        QuestionKind::Date(range) => (json!(range.start().to_string()), json!(range.end().to_string())),
    }
}

/// `POST /api/SurveyInstances/{publicId}/opened`
///
/// # Errors
/// 404 for a link that nobody has.
pub async fn opened(State(app): State<App>, visitor: SurveyVisitor) -> Answer<StatusCode> {
    let link = visitor.link.ok_or_else(unknown)?;
    if app.engine.record_opened(link).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// `POST /api/SurveyInstances/{publicId}/responses`
///
/// # Errors
/// 404 for a link that nobody has, 409 if it was answered before, 410 if it is over, 422 for answers that
/// are wrong.
pub async fn respond(
    State(app): State<App>,
    visitor: SurveyVisitor,
    body: Body,
) -> Answer<Json<CompletedVisit>> {
    let link = visitor.link.ok_or_else(unknown)?;
    let handed_in = input::read_within(body, BODY_BYTES_MAX).await.and_then(|bytes| read(&bytes));
    let (answers, meta) = match handed_in {
        Ok(read) => read,
        // What the link leads to goes before what is wrong with the body.
        Err(failure) => return Err(refused(find(&app, visitor).await?.1.status).unwrap_or(failure)),
    };
    match app.engine.submit(link, answers, meta).await? {
        SubmitOutcome::Done { completed_at } => Ok(Json(CompletedVisit { public_id: link, completed_at })),
        SubmitOutcome::Unknown => Err(unknown()),
        SubmitOutcome::Ended(refusal) => Err(refused(refusal.status()).unwrap_or_else(ApiFailure::internal)),
        SubmitOutcome::Wrong(refused) => {
            let mut problems = Problems::default();
            for problem in refused.problems().0 {
                problems.push(format!("answers.{}", problem.path), problem.message);
            }
            Err(ApiFailure::invalid(problems))
        }
    }
}

/// Why nothing can be answered any more.
fn refused(status: EntryStatus) -> Option<ApiFailure> {
    match status {
        EntryStatus::Completed => {
            Some(ApiFailure::conflict("this survey was answered before; the first answer counts"))
        }
        EntryStatus::Expired | EntryStatus::Cancelled => {
            Some(ApiFailure::gone("this survey takes no answers any more"))
        }
        EntryStatus::Pending | EntryStatus::Sent | EntryStatus::Opened | EntryStatus::Failed => None,
    }
}

type SubmittedAnswers = (Map<String, Value>, Option<Value>);

fn read(body: &Bytes) -> Answer<SubmittedAnswers> {
    let body = input::object(body)?;
    let mut problems = Problems::default();
    let mut fields = Fields::new(&body, "", &mut problems);
    fields.only_of::<SurveyResponse>();
    fields.need("answers");
    let answers = fields.object("answers").cloned().unwrap_or_default();
    let agent = fields.object("meta").and_then(|meta| {
        let mut meta = Fields::new(meta, "meta", &mut problems);
        meta.only_of::<SurveyResponseMeta>();
        let agent = meta.text("agentId");
        if agent.as_ref().is_some_and(|agent| agent.chars().count() > AGENT_CHARS_MAX) {
            meta.wrong("agentId", format!("has more than {AGENT_CHARS_MAX} characters"));
        }
        agent
    });
    if !problems.0.is_empty() {
        return Err(problems.into());
    }
    Ok((answers, agent.map(|agent| json!({"agentId": agent}))))
}

async fn find(app: &App, visitor: SurveyVisitor) -> Answer<(PublicId, Visit)> {
    let link = visitor.link.ok_or_else(unknown)?;
    let visit = app.engine.visit(link).await?.ok_or_else(unknown)?;
    Ok((link, visit))
}

/// A text that is no id and an id that nobody has are answered alike.
fn unknown() -> ApiFailure {
    ApiFailure::not_found("there is no survey under this link")
}
