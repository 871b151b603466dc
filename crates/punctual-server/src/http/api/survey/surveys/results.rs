//! What the answers to a survey come to: as JSON, and every answer as CSV.

use super::Id;
use super::comments::CommentView;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::pagination::Page;
use crate::http::stream;
use crate::http::stream::ChunkSender;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use punctual::base::csv;
use punctual::engine::{FROM_THE_START, SurveyResults};
use punctual::flow::rules::entry::EntryStatus;
use punctual::survey::rules::results::{AnswerCounts, response_rate};
use punctual::survey::rules::survey::Survey;
use punctual::survey::store::results;
use punctual::survey::store::results::RemovedEntries;
use punctual::survey::store::results::ResultFilter;
use punctual::{Engine, FlowId, Problems, Tenant, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The results of a survey.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SurveyResults")]
pub struct ResultsView {
    survey_id: i64,
    pub(crate) invited: u64,
    pub(crate) completed: u64,
    pub(crate) response_rate: Option<f64>,
    by_status: Map<String, Value>,
    /// What retention has dropped of the survey so far.
    #[schemars(with = "RemovedCounts")]
    removed: RemovedEntries,
    pub(crate) nps: Option<f64>,
    pub(crate) csat: Option<f64>,
    pub(crate) questions: Vec<Question>,
    comments: Vec<CommentView>,
}

/// What retention has dropped of the survey so far.
#[derive(JsonSchema)]
#[schemars(inline)]
#[allow(dead_code, reason = "the engine writes it; here is its schema")]
pub struct RemovedCounts {
    #[schemars(range(min = 0))]
    entries: i64,
    #[schemars(range(min = 0))]
    answers: i64,
}

/// What one question came to.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QuestionResults")]
pub struct Question {
    pub(crate) id: String,
    #[schemars(with = "Option<Map<String, Value>>")]
    text: Value,
    pub(crate) answered: u64,
    pub(crate) distribution: Vec<AnswerShare>,
    pub(crate) mean: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    nps: Option<f64>,
    csat: Option<f64>,
}

/// How often one answer was given.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AnswerShare {
    pub(crate) value: String,
    pub(crate) count: u64,
    share: Option<f64>,
}

/// `GET /api/surveys/{id}/results`
///
/// # Errors
/// 404 when there is no such survey or version, 422 for a wrong filter.
pub async fn results(
    State(app): State<App>,
    caller: Caller,
    id: Id,
    page: Page,
) -> Answer<Json<ResultsView>> {
    let filter = read_filter(&page)?;
    let mut results = shown(id.0, app.engine.results(caller.tenant, id.flow(), &filter).await?);
    results.comments = results.comments.into_iter().map(|comment| comment.seen_by(&caller)).collect();
    Ok(Json(results))
}

/// `GET /api/surveys/{id}/responses.csv`: every answer, a line each, read while it is written out.
///
/// # Errors
/// 404 when there is no such survey or version, 422 for a wrong filter.
pub async fn export(State(app): State<App>, caller: Caller, id: Id, page: Page) -> Answer<Response> {
    let filter = read_filter(&page)?;
    let survey = app.engine.survey_for_results(caller.tenant, id.flow(), filter.number).await?;
    let (sender, body) = stream::channel();
    tokio::spawn(write_responses(app.engine.clone(), caller.tenant, (id.flow(), survey), filter, sender));
    let name = format!("attachment; filename=\"survey-{}-responses.csv\"", id.0);
    let headers = [(CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, body).into_response())
}

/// Writes the header and every response. An export that fails is broken off, so that its reader sees it.
async fn write_responses(
    engine: Engine,
    tenant: Tenant,
    survey: (FlowId, Arc<Survey>),
    filter: ResultFilter,
    sender: ChunkSender,
) {
    let (flow, survey) = survey;
    let mut after = FROM_THE_START;
    let mut text = csv::line(header(&survey));
    while sender.send(text).await.is_ok() {
        let page = match engine.responses(tenant, flow, &filter, after).await {
            Ok(page) => page,
            Err(error) => return tracing::error!(%error, "an export of responses was broken off"),
        };
        let Some(last) = page.last() else { return sender.finish().await };
        after = (last.completed_at, last.entry);
        text = page.iter().map(|response| csv::line(cells(&survey, response))).collect();
    }
}

fn header(survey: &Survey) -> Vec<String> {
    let fixed = ["publicId", "version", "triggerId", "completedAt"].map(str::to_owned);
    fixed.into_iter().chain(question_ids(survey)).collect()
}

fn question_ids(survey: &Survey) -> impl Iterator<Item = String> {
    survey.questions.iter().flat_map(|question| {
        let other = question.other().map(|_| question.other_id());
        std::iter::once(question.id.clone()).chain(other)
    })
}

fn cells(survey: &Survey, response: &results::Response) -> Vec<String> {
    let fixed = [
        response.public_id.to_string(),
        response.number.to_string(),
        response.trigger_id.clone(),
        response.completed_at.to_string(),
    ];
    let answer = |id: String| match response.answers.get(&id) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let texts = list.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join("; ")
        }
        Some(value) => value.to_string(),
    };
    fixed.into_iter().chain(question_ids(survey).map(answer)).collect()
}

pub(super) fn read_filter(page: &Page) -> Answer<ResultFilter> {
    let mut problems = Problems::default();
    let mut time = |name: &str| {
        let parsed = page.filter(name).map(Timestamp::parse)?;
        parsed.map_err(|said| problems.push(name, said)).ok()
    };
    let (from, to) = (time("from"), time("to"));
    let number = page.filter("version").map(str::parse);
    if matches!(number, Some(Err(_))) {
        problems.push("version", "must be the number of a version");
    }
    problems.into_result()?;
    let trigger_id = page.filter("triggerId").map(str::to_owned);
    Ok(ResultFilter { number: number.and_then(Result::ok), trigger_id, from, to })
}

/// The results as the command line and everybody but viewers see them.
#[must_use]
pub fn shown(id: i64, found: SurveyResults) -> ResultsView {
    let SurveyResults { survey, counts, removed, results, comments } = found;
    let completed = counts.of(EntryStatus::Completed);
    // Whoever was sent nothing was not invited, unless they answered all the same.
    let invited = counts.total() - counts.of(EntryStatus::Pending) - counts.of(EntryStatus::Failed);
    let by_status =
        EntryStatus::ALL.iter().map(|status| (status.word().to_owned(), json!(counts.of(*status))));
    let questions: Vec<Question> =
        results.questions.iter().map(|(id, tally)| question(&survey, id, tally)).collect();
    ResultsView {
        survey_id: id,
        invited,
        completed,
        response_rate: response_rate(completed, invited),
        by_status: by_status.collect(),
        removed,
        nps: questions.iter().find_map(|q| q.nps),
        csat: questions.iter().find_map(|q| q.csat),
        questions,
        comments: comments.into_iter().map(CommentView::from).collect(),
    }
}

fn question(survey: &Arc<Survey>, id: &str, tally: &AnswerCounts) -> Question {
    use punctual::survey::rules::survey::QuestionKind;
    let asked = survey.question(id);
    let answered = tally.answered();
    let line = |(value, count): (String, u64)| {
        let share = punctual::survey::rules::results::share(count, answered);
        AnswerShare { value, count, share }
    };
    let (mean, nps, csat) = match tally {
        AnswerCounts::Steps(steps) => {
            let is_nps = asked.is_some_and(|question| matches!(question.kind, QuestionKind::Nps));
            let (nps, csat) = if is_nps { (steps.nps(), None) } else { (None, steps.csat()) };
            (Some(steps.mean), nps, csat)
        }
        AnswerCounts::Number(mean) => (Some(*mean), None, None),
        AnswerCounts::Choices { .. } | AnswerCounts::Answered(_) => (None, None, None),
    };
    Question {
        id: id.to_owned(),
        text: asked.map(|question| question.text.to_json()).unwrap_or_default(),
        answered,
        distribution: tally.distribution().into_iter().map(line).collect(),
        mean: mean.and_then(|m| m.mean),
        min: mean.and_then(|m| m.least),
        max: mean.and_then(|m| m.most),
        nps,
        csat,
    }
}
