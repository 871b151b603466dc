//! Jobs: what is due again and again, its runs, and when it is due next.

use crate::app::App;
use crate::auth::Caller;
use crate::http::api::requests;
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words;
use crate::http::openapi::words::RunStatus;
use crate::http::pagination::{List, Page};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use punctual::base::limits::PREVIEW_ITEMS_MAX;
use punctual::jobs::rules::job::check_job_name;
use punctual::jobs::store::jobs::JobState;
use punctual::jobs::store::runs::Run;
use punctual::{MisfirePolicy, NewJob, OverlapPolicy, Problems, RunId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// Moments that a preview tells when it is not asked for a number.
const PREVIEW_ITEMS_DEFAULT: usize = 10;

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Job")]
pub struct JobView {
    name: String,
    topic: String,
    cron: String,
    time_zone: String,
    /// Any JSON; null for viewers.
    payload: Option<Box<RawValue>>,
    enabled: bool,
    #[schemars(with = "words::Misfire")]
    misfire: &'static str,
    #[schemars(with = "words::Overlap")]
    overlap: &'static str,
    #[schemars(with = "Option<DateTime>")]
    next_due_time: Option<Timestamp>,
    #[schemars(with = "Option<DateTime>")]
    last_run_time: Option<Timestamp>,
    #[schemars(with = "Option<RunStatus>")]
    last_run_status: Option<&'static str>,
    #[schemars(range(min = 1))]
    version: i64,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Run")]
pub struct RunView {
    id: String,
    #[schemars(with = "DateTime")]
    scheduled_time: Timestamp,
    /// Whether somebody triggered it.
    triggered: bool,
    #[schemars(with = "Option<DateTime>")]
    start_time: Option<Timestamp>,
    #[schemars(with = "Option<DateTime>")]
    end_time: Option<Timestamp>,
    #[schemars(with = "RunStatus")]
    status: &'static str,
    attempts: u32,
    claimed_by: Option<String>,
    /// What the run handed in; null for viewers.
    output: Option<Box<RawValue>>,
    /// The last error, or why it was skipped; null for viewers.
    last_error: Option<String>,
    message_id: Option<String>,
}

/// The `{name}` of a path.
#[derive(Clone, Debug)]
pub struct JobPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiFailure> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) = name.map_err(|_| ApiFailure::malformed("the path is not UTF-8"))?;
        let mut problems = Problems::default();
        check_job_name(&name, &mut problems);
        problems.into_result()?;
        Ok(Self(name))
    }
}

impl JobPath {
    fn not_found(&self) -> ApiFailure {
        ApiFailure::not_found(format!("there is no job `{}`", self.0))
    }
}

/// `GET /api/jobs`
///
/// # Errors
/// 422 for a wrong cursor or limit.
pub async fn list(State(app): State<App>, caller: Caller, page: Page) -> Answer<Json<List<JobView>>> {
    let (after, store) = (page.after().unwrap_or_default().to_owned(), app.engine.store());
    let fetch = |after: String, limit| store.jobs(caller.tenant, &after, limit);
    let place = |state: &JobState| state.job.name.clone();
    let (jobs, more) = page.gather(after, fetch, place, |state| state.job.payload.len()).await?;
    let next = jobs.last().filter(|_| more).map(place);
    let shown = jobs.into_iter().map(|job| show_job(&caller, job)).collect();
    Ok(Json(page.list_up_to(shown, next)))
}

/// `GET /api/jobs/{name}`
///
/// # Errors
/// 404 when there is none.
pub async fn show(State(app): State<App>, caller: Caller, name: JobPath) -> Answer<Json<JobView>> {
    find(&app, &caller, &name).await
}

async fn find(app: &App, caller: &Caller, name: &JobPath) -> Answer<Json<JobView>> {
    let job = app.engine.store().job(caller.tenant, &name.0).await?;
    job.map(|job| Json(show_job(caller, job))).ok_or_else(|| name.not_found())
}

/// `PUT /api/jobs/{name}`: made, or changed into this; the same again changes nothing.
///
/// # Errors
/// 422 with every problem.
pub async fn put(
    State(app): State<App>,
    caller: Caller,
    name: JobPath,
    input: Input,
) -> Answer<Json<JobView>> {
    let job = read_job(&name.0, &input)?;
    app.engine.put_job(caller.tenant, &name.0, job).await?;
    find(&app, &caller, &name).await
}

/// What a deletion leaves.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedJob {
    deleted_runs: usize,
    /// They end by themselves.
    runs_in_flight: usize,
}

/// `DELETE /api/jobs/{name}`
///
/// # Errors
/// 404 when there is none.
pub async fn delete(State(app): State<App>, caller: Caller, name: JobPath) -> Answer<Json<DeletedJob>> {
    let deleted = app.engine.delete_job(caller.tenant, &name.0).await?;
    Ok(Json(DeletedJob { deleted_runs: deleted.waiting, runs_in_flight: deleted.in_flight }))
}

/// `POST /api/jobs/{name}/enable`
///
/// # Errors
/// 404 when there is none.
pub async fn enable(State(app): State<App>, caller: Caller, name: JobPath) -> Answer<Json<JobView>> {
    app.engine.enable_job(caller.tenant, &name.0, true).await?;
    find(&app, &caller, &name).await
}

/// `POST /api/jobs/{name}/disable`
///
/// # Errors
/// 404 when there is none.
pub async fn disable(State(app): State<App>, caller: Caller, name: JobPath) -> Answer<Json<JobView>> {
    app.engine.enable_job(caller.tenant, &name.0, false).await?;
    find(&app, &caller, &name).await
}

/// A run that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TriggeredRun")]
pub struct TriggeredRun {
    run_id: String,
}

/// `POST /api/jobs/{name}/trigger`
///
/// # Errors
/// 404 when there is none.
pub async fn trigger(
    State(app): State<App>,
    caller: Caller,
    name: JobPath,
) -> Answer<(StatusCode, Json<TriggeredRun>)> {
    let run = app.engine.trigger_job(caller.tenant, &name.0).await?;
    Ok((StatusCode::ACCEPTED, Json(TriggeredRun { run_id: run.to_string() })))
}

/// `GET /api/jobs/{name}/runs`: the latest first.
///
/// # Errors
/// 404 when there is no such job, 422 for a wrong cursor or limit.
pub async fn runs(
    State(app): State<App>,
    caller: Caller,
    name: JobPath,
    page: Page,
) -> Answer<Json<List<RunView>>> {
    let before = Some(page.after_id()?).filter(|id| *id > 0).map(RunId);
    let runs = app.engine.store().runs(caller.tenant, &name.0, before, page.limit + 1).await?;
    let shown = runs.ok_or_else(|| name.not_found())?.into_iter();
    let shown = shown.map(|run| show_run(&caller, run)).collect();
    Ok(Json(page.list(shown, |run: &RunView| run.id.clone())))
}

/// When a job is due.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DueTimes")]
pub struct DueTimes {
    #[schemars(with = "Vec<DateTime>")]
    items: Vec<Timestamp>,
}

/// `GET /api/jobs/{name}/next?count=`: a preview, whether the job is enabled or not.
///
/// # Errors
/// 404 when there is no such job, 422 for a wrong count.
pub async fn next(
    State(app): State<App>,
    caller: Caller,
    name: JobPath,
    page: Page,
) -> Answer<Json<DueTimes>> {
    let count = page.filter("count").map_or(Some(PREVIEW_ITEMS_DEFAULT), |text| text.parse().ok());
    let count = count.filter(|n| (1..=PREVIEW_ITEMS_MAX).contains(n));
    let wrong =
        || punctual::Error::invalid("count", format!("must be a number from 1 to {PREVIEW_ITEMS_MAX}"));
    let items = app.engine.next_fires(caller.tenant, &name.0, count.ok_or_else(wrong)?).await?;
    Ok(Json(DueTimes { items }))
}

fn read_job(name: &str, input: &Input) -> Answer<NewJob> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<requests::NewJob>();
    let mut job = NewJob::new(read.need_text("topic"), read.need_text("cron"));
    if let Some(zone) = read.text("timeZone") {
        job = job.time_zone(zone);
    }
    if let Some(payload) = read.value("payload") {
        job = job.payload(payload.to_string());
    }
    job.enabled = read.flag("enabled");
    match read.text("misfire").map(|word| MisfirePolicy::parse(&word)) {
        Some(Ok(policy)) => job = job.misfire(policy),
        Some(Err(said)) => read.wrong("misfire", said),
        None => {}
    }
    match read.text("overlap").map(|word| OverlapPolicy::parse(&word)) {
        Some(Ok(policy)) => job = job.overlap(policy),
        Some(Err(said)) => read.wrong("overlap", said),
        None => {}
    }
    // What is missing or of a wrong type was told already.
    let mut more = Problems::default();
    job.check(name, &mut more);
    let told: Vec<String> = problems.0.iter().map(|p| p.path.clone()).collect();
    problems.0.extend(more.0.into_iter().filter(|p| !told.contains(&p.path)));
    problems.into_result()?;
    Ok(job)
}

fn show_job(caller: &Caller, state: JobState) -> JobView {
    let JobState { job, last_run } = state;
    JobView {
        name: job.name,
        topic: job.topic,
        cron: job.cron,
        time_zone: job.time_zone,
        payload: caller.visible_payload(job.payload),
        enabled: job.enabled,
        misfire: job.misfire.word(),
        overlap: job.overlap.word(),
        next_due_time: job.next_due,
        last_run_time: last_run.map(|(at, _)| at),
        last_run_status: last_run.map(|(_, status)| status.word()),
        version: job.version,
    }
}

fn show_run(caller: &Caller, run: Run) -> RunView {
    RunView {
        id: run.id.to_string(),
        scheduled_time: run.scheduled_at,
        triggered: run.triggered,
        start_time: run.started_at,
        end_time: run.ended_at,
        status: run.status.word(),
        attempts: run.attempts,
        claimed_by: run.claimed_by,
        output: run.output.and_then(|output| caller.visible_payload(output)),
        last_error: run.last_error.and_then(|error| caller.visible_text(error)),
        message_id: run.message.map(|id| id.to_string()),
    }
}
