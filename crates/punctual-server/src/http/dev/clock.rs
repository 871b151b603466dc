//! Time travel. Time moves by these routes only, and everything due on the way is done.

use crate::app::App;
use crate::http::api::requests::{Tick, Travel};
use crate::http::error::{Answer, ApiFailure};
use crate::http::input::{Fields, Input};
use crate::http::openapi::values::DateTime;
use crate::http::openapi::words::ManualClock;
use axum::Json;
use axum::extract::State;
use punctual::engine::TickCounts;
use punctual::{ClockMode, Problems, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// The greatest size of a claim, and the one that is taken when nobody says another.
const BATCH_SIZE_MAX: u64 = 1_000;

/// What the clock says.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Clock")]
pub struct ClockView {
    #[schemars(with = "DateTime")]
    now: Timestamp,
    #[schemars(with = "ManualClock")]
    clock: &'static str,
}

/// What a tick did.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TickReport")]
pub struct TickReport {
    sent: usize,
    failed: usize,
    expired: usize,
    dispatched: usize,
}

impl From<TickCounts> for TickReport {
    fn from(ticked: TickCounts) -> Self {
        let TickCounts { sent, failed, expired, dispatched } = ticked;
        Self { sent, failed, expired, dispatched }
    }
}

/// Where to move the clock.
enum ClockChange {
    Advance(Duration),
    Set(Timestamp),
}

/// `GET /dev/clock`
///
/// # Errors
/// 409 on the system clock.
pub async fn show(State(app): State<App>) -> Answer<Json<ClockView>> {
    manual(&app)?;
    now(&app).await
}

/// `POST /dev/clock`
///
/// # Errors
/// 409 on the system clock or while another process moves this one, 422 for a wrong move.
pub async fn travel(State(app): State<App>, input: Input) -> Answer<Json<ClockView>> {
    manual(&app)?;
    let (way, run) = read_way(&input)?;
    let to = match way {
        ClockChange::Set(to) => to,
        ClockChange::Advance(by) => app.engine.store().now().await?.plus(by),
    };
    app.engine.travel(to, run).await?;
    app.engine.wake();
    now(&app).await
}

/// Moves the manual clock on, doing what becomes due on the way.
///
/// # Errors
/// As [`travel`].
pub async fn advance(app: &App, by: Duration) -> Answer<()> {
    manual(app)?;
    let to = app.engine.store().now().await?.plus(by);
    app.engine.travel(to, true).await?;
    app.engine.wake();
    Ok(())
}

/// Does everything that is due at the present moment of the manual clock.
///
/// # Errors
/// 409 on the system clock.
pub async fn step(app: &App) -> Answer<TickCounts> {
    manual(app)?;
    let ticked = app.engine.tick(usize::try_from(BATCH_SIZE_MAX).unwrap_or(usize::MAX)).await?;
    app.engine.wake();
    Ok(ticked)
}

/// `POST /api/scheduler/tick`: what is due now, until nothing is, whatever clock decides. On the system
/// clock the loops do the same by themselves; a tick is one more beside them.
///
/// # Errors
/// 422 for a wrong batch size.
pub async fn tick(State(app): State<App>, input: Input) -> Answer<Json<TickReport>> {
    let body = input.object_or_nothing()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<Tick>();
    let batch = read.whole("batchSize", 1..=BATCH_SIZE_MAX).unwrap_or(BATCH_SIZE_MAX);
    problems.into_result()?;
    let ticked = app.engine.tick(usize::try_from(batch).unwrap_or(usize::MAX)).await?;
    app.engine.wake();
    Ok(Json(ticked.into()))
}

fn manual(app: &App) -> Answer<()> {
    if app.engine.clock() == ClockMode::Manual {
        return Ok(());
    }
    let said = "this server runs on the system clock, where time and the loops move by themselves; \
                start it with --clock manual to move them by hand";
    Err(ApiFailure::conflict(said))
}

async fn now(app: &App) -> Answer<Json<ClockView>> {
    Ok(Json(ClockView { now: app.engine.store().now().await?, clock: "manual" }))
}

/// Times before 1970 are mistakes, and later ones than the year 9999 cannot be written.
fn in_range(to: Timestamp, read: &mut Fields<'_, '_>) -> bool {
    let fine = to.as_micros() >= 0 && to <= Timestamp::MAX;
    if !fine {
        read.wrong("set", "must lie between the years 1970 and 9999");
    }
    fine
}

fn read_way(input: &Input) -> Answer<(ClockChange, bool)> {
    let body = input.object()?;
    let mut problems = Problems::default();
    let mut read = Fields::new(&body, "", &mut problems);
    read.only_of::<Travel>();
    let run = read.flag("run").unwrap_or(true);
    let way = match (read.value("advance").is_some(), read.value("set").is_some()) {
        (true, false) => read.duration("advance").map(ClockChange::Advance),
        (false, true) => read.time("set").filter(|to| in_range(*to, &mut read)).map(ClockChange::Set),
        _ => {
            read.wrong("advance", "say either `advance` (a duration) or `set` (a time)");
            None
        }
    };
    problems.into_result()?;
    way.map(|way| (way, run)).ok_or_else(ApiFailure::internal)
}
