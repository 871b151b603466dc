//! The page of a survey over HTTP: a link is shown, a step is taken, the last one hands the answers in.
//!
//! A GET changes nothing: link previews and mail scanners fetch pages. The first form that comes in says
//! that somebody is there, as the script does before. Every step is kept, so a reload or another device
//! goes on where somebody left off. What is wrong is said on the page, and so is trouble of ours.

pub(in crate::http) mod reader;

use super::survey_page;
use super::survey_page::{AnswerForm, BACK, ClosingPage, KEEP, PageAsset, SurveyStep, SurveySteps};
use super::visitor::{SurveyVisitor, TooManyRequests};
use crate::app::App;
use crate::http::error::ApiFailure;
use crate::http::input;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::engine::{SubmitOutcome, Visit};
use punctual::flow::rules::entry::EntryStatus;
use punctual::survey::rules::answers::{AnswerProblem, AnswersError};
use punctual::survey::rules::survey::Survey;
use reader::ReaderPreferences;
use serde_json::{Map, Value};

/// One form, or one response as JSON: far more than people type.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Only our own style and script, and forms that come back here.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; connect-src 'self'";
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");
/// The name of a file changes with its content.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// `GET /s/{publicId}`
pub async fn show(
    State(app): State<App>,
    visitor: Result<SurveyVisitor, TooManyRequests>,
    reader: ReaderPreferences,
) -> Response {
    match load_visit(&app, visitor, &reader).await {
        Ok(visit) => closed_page(&visit, &reader).unwrap_or_else(|| {
            let (answers, wanted) = (&visit.progress, reader.step);
            let wrong = wrong_with(&visit.survey, answers);
            let steps = SurveySteps::of(&visit.survey, answers);
            let at = steps.place(wanted, answers, &wrong);
            let unopened = is_unopened(visit.status);
            let step = step(&visit, &reader, answers, &steps);
            page(StatusCode::OK, survey_page::render_step(&SurveyStep { at, to_be_opened: unopened, ..step }))
        }),
        Err(response) => response,
    }
}

/// `POST /s/{publicId}`
pub async fn take(
    State(app): State<App>,
    visitor: Result<SurveyVisitor, TooManyRequests>,
    reader: ReaderPreferences,
    body: Body,
) -> Response {
    let visit = match load_visit(&app, visitor, &reader).await {
        Ok(visit) => visit,
        Err(response) => return response,
    };
    if let Some(response) = closed_page(&visit, &reader) {
        return as_conflict(response, visit.status);
    }
    let form = match input::read_within(body, BODY_BYTES_MAX).await {
        Ok(bytes) => AnswerForm::read(&bytes),
        Err(failure) => return trouble(failure, &reader),
    };
    match answer(&app, &visit, &reader, &form).await {
        Ok(response) => response,
        Err(error) => trouble(error.into(), &reader),
    }
}

/// `GET /s/assets/{file}`
pub async fn file(Path(name): Path<String>) -> Response {
    let Some(file) = PageAsset::find(&name) else {
        return ApiFailure::not_found("there is no such file").into_response();
    };
    let head = [(header::CONTENT_TYPE, file.media_type), (header::CACHE_CONTROL, FOR_GOOD)];
    (head, file.text).into_response()
}

/// What the link leads to, or the page that says why to nothing.
async fn load_visit(
    app: &App,
    visitor: Result<SurveyVisitor, TooManyRequests>,
    reader: &ReaderPreferences,
) -> Result<Visit, Response> {
    let visitor = visitor.map_err(|often| too_often(often, reader))?;
    let found = match visitor.link {
        Some(link) => app.engine.visit(link).await.map_err(|error| trouble(error.into(), reader))?,
        None => None,
    };
    found.ok_or_else(|| unknown(reader))
}

/// The page of a survey that cannot be answered any more.
fn closed_page(visit: &Visit, reader: &ReaderPreferences) -> Option<Response> {
    let (status, end) = match visit.status {
        EntryStatus::Completed if reader.done => (StatusCode::OK, ClosingPage::Thanks),
        EntryStatus::Completed => (StatusCode::OK, ClosingPage::Answered),
        EntryStatus::Expired | EntryStatus::Cancelled => (StatusCode::GONE, ClosingPage::Over),
        EntryStatus::Pending | EntryStatus::Sent | EntryStatus::Opened | EntryStatus::Failed => return None,
    };
    Some(closing(status, end, visit, reader))
}

/// Answers to a survey that has some are a conflict.
fn as_conflict(mut response: Response, status: EntryStatus) -> Response {
    if status == EntryStatus::Completed {
        *response.status_mut() = StatusCode::CONFLICT;
    }
    response
}

/// Takes one step: what the form says is kept, and leads on, back, or to the end.
async fn answer(
    app: &App,
    visit: &Visit,
    reader: &ReaderPreferences,
    form: &AnswerForm,
) -> punctual::Result<Response> {
    let (id, survey) = (visit.public_id, &visit.survey);
    let mut answers = visit.progress.clone();
    let before = SurveySteps::of(survey, &answers);
    let at = before.clamped(reader.step);
    form.answer(before.get(at), &mut answers);
    if is_unopened(visit.status) {
        app.engine.record_opened(id).await?;
    }
    if let KEEP | BACK = form.go() {
        app.engine.keep_progress(id, answers).await?;
        let kept = || StatusCode::NO_CONTENT.into_response();
        return Ok(if form.go() == BACK { reader.to_step(at.max(1)) } else { kept() });
    }
    let steps = SurveySteps::of(survey, &answers);
    let mut wrong = wrong_with(survey, &answers);
    wrong.retain(|(id, _)| steps.find(id) == Some(at));
    if !wrong.is_empty() || !steps.is_last(at) {
        app.engine.keep_progress(id, answers.clone()).await?;
    }
    if !wrong.is_empty() {
        let step = step(visit, reader, &answers, &steps);
        let page_of = survey_page::render_step(&SurveyStep { at, wrong: &wrong, ..step });
        return Ok(page(StatusCode::UNPROCESSABLE_ENTITY, page_of));
    }
    if steps.is_last(at) { submit(app, visit, reader, answers).await } else { Ok(reader.to_step(at + 2)) }
}

/// Hands all answers in.
async fn submit(
    app: &App,
    visit: &Visit,
    reader: &ReaderPreferences,
    answers: Map<String, Value>,
) -> punctual::Result<Response> {
    Ok(match app.engine.submit(visit.public_id, answers.clone(), None).await? {
        SubmitOutcome::Done { .. } => reader.to_thanks(),
        SubmitOutcome::Unknown => unknown(reader),
        SubmitOutcome::Ended(refusal) if refusal.status() == EntryStatus::Completed => {
            closing(StatusCode::CONFLICT, ClosingPage::Answered, visit, reader)
        }
        SubmitOutcome::Ended(_) => closing(StatusCode::GONE, ClosingPage::Over, visit, reader),
        // Something on an earlier step, as when two pages of one survey are open.
        SubmitOutcome::Wrong(AnswersError(wrong)) => {
            app.engine.keep_progress(visit.public_id, answers.clone()).await?;
            let steps = SurveySteps::of(&visit.survey, &answers);
            let at = steps.place(None, &answers, &wrong);
            let step = step(visit, reader, &answers, &steps);
            page(
                StatusCode::UNPROCESSABLE_ENTITY,
                survey_page::render_step(&SurveyStep { at, wrong: &wrong, ..step }),
            )
        }
    })
}

fn step<'a>(
    visit: &'a Visit,
    reader: &ReaderPreferences,
    answers: &'a Map<String, Value>,
    steps: &'a SurveySteps<'a>,
) -> SurveyStep<'a> {
    let (locale, chosen) = reader.locale(&visit.survey, visit.locale.as_deref());
    SurveyStep {
        public_id: visit.public_id,
        survey: &visit.survey,
        locale,
        chosen,
        answers,
        steps,
        at: 0,
        wrong: &[],
        to_be_opened: false,
    }
}

fn wrong_with(survey: &Survey, answers: &Map<String, Value>) -> Vec<(String, AnswerProblem)> {
    survey.accept(answers).err().map_or_else(Vec::new, |AnswersError(wrong)| wrong)
}

const fn is_unopened(status: EntryStatus) -> bool {
    matches!(status, EntryStatus::Pending | EntryStatus::Sent)
}

fn closing(status: StatusCode, end: ClosingPage, visit: &Visit, reader: &ReaderPreferences) -> Response {
    let (locale, _) = reader.locale(&visit.survey, visit.locale.as_deref());
    page(status, survey_page::render_closing_page(end, Some(&visit.survey), locale))
}

fn unknown(reader: &ReaderPreferences) -> Response {
    page(
        StatusCode::NOT_FOUND,
        survey_page::render_closing_page(ClosingPage::Unknown, None, reader.preferred_locale()),
    )
}

fn too_often(often: TooManyRequests, reader: &ReaderPreferences) -> Response {
    let mut response = page(
        StatusCode::TOO_MANY_REQUESTS,
        survey_page::render_closing_page(ClosingPage::TooOften, None, reader.preferred_locale()),
    );
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(often.seconds));
    response
}

/// A failure as a page. It was logged where it was made.
fn trouble(failure: ApiFailure, reader: &ReaderPreferences) -> Response {
    page(
        failure.status(),
        survey_page::render_closing_page(ClosingPage::Trouble, None, reader.preferred_locale()),
    )
}

fn page(status: StatusCode, body: String) -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (ROBOTS, "noindex"),
    ];
    (status, head, body).into_response()
}
